"""The grid of rows of tensors: what `make_grid` finds from arrays of scores, from a sort on their device."""

import math
from typing import Any

import numpy as np
import torch

from evenhand._utils.tensor_rows import TensorRows
from evenhand.dual.costs import Cost
from evenhand.dual.grid import (
    FEWEST_TO_CUT,
    Grid,
    automatic_n_atoms,
    outlier_fences,
    tail_share,
    with_margin,
)
from evenhand.dual.step import choose_grid


def choose_tensor_grid(atoms: Any, bounds: Any, rows: TensorRows, cost: Cost) -> Grid:
    """The atoms that the parameters ask for: `choose_grid`, which sees the ends of the scores alone."""
    if cost.n_classes is not None:
        return choose_grid(atoms, bounds, np.empty((0, cost.n_classes)), None, cost)
    low, high = (float(end) for end in rows.scores.aminmax())
    if isinstance(atoms, str) and atoms == "auto":
        atoms = automatic_n_atoms(rows.n_rows)
    if isinstance(bounds, str) and bounds == "auto" and np.ndim(atoms) == 0:
        bounds = with_margin(*_range_without_outliers(rows, low, high))
    return choose_grid(atoms, bounds, np.array([low, high]), None, cost)


def count_outside(grid: Grid, rows: TensorRows) -> int:
    """Number of scores outside the bounds."""
    low, high = grid.bounds
    scores = _on_its_device(rows)
    return int(((scores < low) | (scores > high)).sum())


def _on_its_device(rows: TensorRows) -> Any:
    """Scores where rows are worked on, in a type that compares with bounds of float64 as float64 does."""
    scores = rows.scores if rows.work is None else rows.scores.to(rows.work)
    return scores.double()


def _range_without_outliers(rows: TensorRows, low: float, high: float) -> tuple[float, float]:
    """Lowest and highest score, far outliers left out, as `range_without_outliers` has them."""
    if rows.n_rows < FEWEST_TO_CUT:
        return low, high
    scores = _on_its_device(rows)
    fences = outlier_fences(low, high, *_central_range(scores, rows.weights, tail_share(rows.n_rows)))
    if fences is None:
        return low, high
    kept = scores[(scores >= fences[0]) & (scores <= fences[1])]
    return float(kept.min()), float(kept.max())


def _central_range(scores: Any, weights: Any, share: float) -> tuple[float, float]:
    """Lowest and highest of the scores that remain without `share` of the weight on each side."""
    n_rows = len(scores)
    ranked, order = scores.sort()
    if weights is None:
        first, last = int(share * n_rows), math.ceil((1.0 - share) * n_rows) - 1
        return float(ranked[first]), float(ranked[last])
    below = weights.to(order.device)[order].cumsum(dim=0)
    ends = below.new_tensor([share, float(below[-1]) - share])
    first, last = torch.searchsorted(below, ends, right=True).tolist()
    return float(ranked[first]), float(ranked[last])
