"""Where the rows of a parity step are: arrays in memory, tensors on a device, or arrays that are to go there.

Nothing here imports torch before a tensor or a device is given.
"""

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.tensor_rows import TensorRows
from evenhand._utils.tensors import import_torch
from evenhand._utils.validation import Rows
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.costs import Cost
from evenhand.dual.grid import Grid
from evenhand.dual.notion import ParityNotion
from evenhand.dual.parity import find_parity, resolve_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep, choose_grid

StepRows: TypeAlias = Rows | TensorRows


def check_device(device: Any) -> None:
    """Refuse a device that PyTorch does not know or that is not there."""
    if device is None:
        return
    torch = import_torch()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device={device!r} cannot be used: {error}") from error


def stays_on_device(cost: Cost) -> bool:
    """Whether rows of tensors are fitted and predicted where they are with this cost, or in memory."""
    from evenhand.dual.torch_design import is_for_tensors

    return is_for_tensors(cost)


def as_arrays(rows: StepRows) -> Rows:
    """Rows in memory."""
    return rows if isinstance(rows, Rows) else rows.in_memory()


def grid_of(atoms: Any, bounds: Any, rows: StepRows, cost: Cost) -> Grid:
    """The atoms that the parameters ask for on these rows."""
    if isinstance(rows, Rows):
        return choose_grid(atoms, bounds, rows.scores, rows.weights, cost)
    from evenhand.dual.torch_grid import choose_tensor_grid

    return choose_tensor_grid(atoms, bounds, rows, cost)


def parity_of(parity: str | ParityNotion, rows: StepRows) -> str | ParityNotion:
    """The notion with what it learns from the scores; most learn nothing, and scores stay where they are."""
    if isinstance(rows, TensorRows):
        if type(find_parity(parity)).resolve is ParityNotion.resolve:
            return parity
        rows = rows.in_memory()
    return resolve_parity(parity, rows.scores, rows.weights)


def count_outside(grid: Grid, rows: StepRows) -> int:
    """Number of scores outside the bounds."""
    if isinstance(rows, Rows):
        return grid.count_outside(rows.scores)
    from evenhand.dual import torch_grid

    return torch_grid.count_outside(grid, rows)


def problem_of(step: ParityStep, rows: StepRows, device: Any) -> DualProblem:
    """The problem of a step on rows, which are summed over in memory or, if one is named, on a device."""
    if device is None:
        return step.problem(as_arrays(rows))  # tensors in memory: the compiled loops are faster than torch
    if isinstance(rows, Rows):
        from evenhand.dual.torch_rows import place_rows

        return step.problem(place_rows(step.rows(rows), device))
    from evenhand.dual.torch_design import place_tensors

    return step.problem(place_tensors(step, rows, device))


def policy_of(policy: SoftmaxPolicy, rows: TensorRows) -> Any:
    """Predictions of a policy for rows of tensors, on their device."""
    from evenhand.dual.torch_policy import TensorPolicy

    return TensorPolicy(policy, rows)


def within_floats(rows: StepRows, grid: Grid) -> StepRows:
    """The rows with scores no farther from the atoms than can be squared, for measures that do not clip."""
    if not isinstance(rows, Rows) or rows.scores.ndim > 1 or np.abs(rows.scores).max() <= FARTHEST:
        return rows
    scores = np.clip(rows.scores, grid.centre - FARTHEST, grid.centre + FARTHEST)
    return replace(rows, scores=scores)
