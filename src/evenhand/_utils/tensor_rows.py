"""Validate tensors: what `validation.py` does for arrays, on the device that they are on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.tensors import as_tensor, import_torch, require_one_place
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import (
    NEGATIVE_TOLERANCE,
    SUM_TOLERANCE,
    SUM_TOLERANCE_SINGLE,
    Labels,
    Rows,
    check_rows,
    check_rows_of,
    require_mass,
)

BLOCK_ENTRIES = 1 << 26  # of probabilities in float64 that are held at once


@dataclass(frozen=True, slots=True, eq=False)
class TensorRows:
    """Checked rows as tensors of one device, as they were given; blocks of them are read as float64."""

    scores: Any  # (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: Any  # (n_rows, n_groups)
    groups: Labels
    weights: Any = None  # (n_rows,), float64, positive, sums to one; None where all are equal
    strata: IntArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scores)

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.scores.device

    def blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """Places, scores and probabilities of consecutive rows, float64 and summing to one as `Rows` do."""
        size = max(1, BLOCK_ENTRIES // self.group_proba.shape[1])
        for start in range(0, self.n_rows, size):
            rows = slice(start, min(start + size, self.n_rows))
            scores, proba = self.scores[rows].double(), self.group_proba[rows].double()
            if scores.ndim == 2:
                scores = _normalised(scores)
            yield rows, scores, _normalised(proba) if self.strata is None else proba.clamp_(min=0.0)

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        total = 0.0
        for rows, _, proba in self.blocks():
            total = total + (proba.sum(dim=0) if self.weights is None else self.weights[rows] @ proba)
        mass: FloatArray = total.cpu().numpy()  # type: ignore[attr-defined]
        return mass / self.n_rows if self.weights is None else mass

    def take(self, places: Any) -> Rows:
        """Some of the rows, as arrays in memory."""
        some = import_torch().as_tensor(places, device=self.device)
        weights = None if self.weights is None else self.weights[some]
        part = replace(self, scores=self.scores[some], group_proba=self.group_proba[some], weights=weights)
        return part.in_memory()

    def in_memory(self) -> Rows:
        """All rows as arrays in memory."""
        torch = import_torch()
        parts = [(scores, proba) for _, scores, proba in self.blocks()]
        scores, proba = (torch.cat(part).cpu().numpy() for part in zip(*parts, strict=True))
        weights = None if self.weights is None else (self.weights / self.weights.sum()).cpu().numpy()
        return Rows(scores, proba, self.groups, weights, self.strata)


def check_tensors(
    scores: Any,
    group_proba: Any,
    sample_weight: Any = None,
    *,
    groups: Labels | None = None,
    strata: IntArray | None = None,
    n_classes: int | None = None,
) -> TensorRows:
    """Rows to fit on; those of weight zero are left out, as if they had not been given."""
    require_one_place(scores=scores, group_proba=group_proba, sample_weight=sample_weight)
    eta, tau = as_tensor(scores, "scores"), as_tensor(group_proba, "group_proba")
    weight = None if sample_weight is None else as_tensor(sample_weight, "sample_weight").double()
    if not _is_sound(eta, tau, weight, strata, n_classes):
        # only of bad ones: the checks of arrays find the row and the words for it
        arrays = (None if each is None else each.cpu().float().numpy() for each in (eta, tau, weight))
        check_rows(*arrays, groups=groups, strata=strata, n_classes=n_classes)
    if weight is not None:
        weight = weight / weight.max()
        used = weight > 0
        if not used.all():
            eta, tau, weight = eta[used], tau[used], weight[used]
        weight = weight / weight.sum()
    labels = tuple(range(tau.shape[1])) if groups is None else groups
    rows = TensorRows(eta, tau, labels, weight, strata)
    require_mass(labels, rows.group_mass())
    return rows


def check_tensors_of(
    scores: Any,
    group_proba: Any,
    groups: Labels,
    strata: IntArray | None = None,
    n_classes: int | None = None,
) -> TensorRows:
    """Rows to predict on, with the groups of the fit."""
    require_one_place(scores=scores, group_proba=group_proba)
    eta, tau = as_tensor(scores, "scores"), as_tensor(group_proba, "group_proba")
    if tau.ndim != 2 or tau.shape[1] != len(groups) or not _is_sound(eta, tau, None, strata, n_classes):
        arrays = (each.cpu().float().numpy() for each in (eta, tau))
        check_rows_of(*arrays, groups, strata, n_classes)
    return TensorRows(eta, tau, groups, None, strata)


def _is_sound(eta: Any, tau: Any, weight: Any, strata: IntArray | None, n_classes: int | None) -> bool:
    """Whether shapes agree and numbers are what they are to be; in doubt not."""
    width = () if n_classes is None else (n_classes,)
    if len(eta.shape) == 0 or len(eta) == 0 or eta.shape[1:] != width:
        return False
    if tau.ndim != 2 or tau.shape[1] < 2 or len(tau) != len(eta):
        return False
    if weight is not None and weight.shape != eta.shape[:1]:
        return False
    torch = import_torch()
    rows = TensorRows(eta, tau, (), None, strata)
    size = max(1, BLOCK_ENTRIES // tau.shape[1])
    sound = torch.isfinite(eta).all()
    if n_classes is not None:
        sound &= _sums_to_one(eta.double(), SUM_TOLERANCE_SINGLE)
    tolerance = SUM_TOLERANCE_SINGLE if tau.dtype.itemsize < 8 else SUM_TOLERANCE
    for start in range(0, rows.n_rows, size):
        proba = tau[start : start + size].double()
        if strata is None:
            sound &= _sums_to_one(proba, tolerance)
            continue
        sound &= torch.isfinite(proba).all() & (proba.min() >= -NEGATIVE_TOLERANCE)
        for stratum in range(int(strata.max()) + 1):
            columns = np.flatnonzero(strata == stratum).tolist()
            sound &= (proba[:, columns].sum(dim=1) <= 1.0 + tolerance).all()
    if weight is not None:
        sound &= torch.isfinite(weight).all() & (weight.min() >= 0) & (weight.max() > 0)
    return bool(sound)


def _sums_to_one(proba: Any, tolerance: float) -> Any:
    """Whether rows are probabilities; not, where one of them is NaN."""
    return (proba.min() >= -NEGATIVE_TOLERANCE) & ((_row_sums(proba) - 1.0).abs().max() <= tolerance)


def _row_sums(proba: Any) -> Any:
    """Sums of rows, column by column, so that a row never depends on its batch."""
    total = proba[:, 0].clone()
    for column in range(1, proba.shape[1]):
        total += proba[:, column]
    return total


def _normalised(proba: Any) -> Any:
    proba = proba.clamp(min=0.0)
    return proba.div_(_row_sums(proba)[:, None])
