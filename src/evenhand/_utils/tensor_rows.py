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

BLOCK_ENTRIES = {"cpu": 1 << 22, "cuda": 1 << 26}  # of probabilities in float64 that are held at once


@dataclass(frozen=True, slots=True, eq=False)
class TensorRows:
    """Checked rows as tensors of one device, as they were given; blocks of them are read as float64."""

    scores: Any  # (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: Any  # (n_rows, n_groups)
    groups: Labels
    weights: Any = None  # (n_rows,), float64, positive, sums to one; None where all are equal
    strata: IntArray | None = None
    work: Any = None  # the device that blocks are brought to; None: where the rows are

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.scores)

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.scores.device

    def raw_blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """Places, scores and probabilities of consecutive rows in float64, where they are worked on."""
        torch = import_torch()
        device = self.device if self.work is None else torch.device(self.work)
        size = max(1, BLOCK_ENTRIES.get(device.type, 1 << 22) // self.group_proba.shape[1])
        for start in range(0, self.n_rows, size):
            rows = slice(start, min(start + size, self.n_rows))
            yield rows, self.scores[rows].to(device).double(), self.group_proba[rows].to(device).double()

    def blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        """The same, summing to one as `Rows` do."""
        for rows, scores, proba in self.raw_blocks():
            clean = _normalised(proba) if self.strata is None else proba.clamp(min=0.0)
            yield rows, _normalised(scores) if scores.ndim == 2 else scores, clean

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        total: Any = 0.0
        for rows, _, proba in self.blocks():
            if self.weights is None:
                total = total + proba.sum(dim=0)
            else:
                total = total + self.weights[rows].to(proba.device) @ proba
        mass: FloatArray = total.cpu().numpy()
        return mass / self.n_rows if self.weights is None else mass

    def take(self, places: Any) -> Rows:
        """Some of the rows, as arrays in memory."""
        some = import_torch().as_tensor(places, device=self.device)
        weights = None if self.weights is None else self.weights[some]
        proba = self.group_proba[some]
        return replace(self, scores=self.scores[some], group_proba=proba, weights=weights).in_memory()

    def in_memory(self) -> Rows:
        """All rows as arrays in memory."""
        torch = import_torch()
        parts = [(scores.cpu(), proba.cpu()) for _, scores, proba in self.blocks()]
        scores, proba = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
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
    work: Any = None,
) -> TensorRows:
    """Rows to fit on; those of weight zero are left out, as if they had not been given.

    `work` is the device to look at them on, block by block.
    """
    require_one_place(scores=scores, group_proba=group_proba, sample_weight=sample_weight)
    eta, tau = as_tensor(scores, "scores"), as_tensor(group_proba, "group_proba")
    weight = None if sample_weight is None else as_tensor(sample_weight, "sample_weight").double()
    if not _is_sound(TensorRows(eta, tau, (), weight, strata, work), n_classes):
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
    rows = TensorRows(eta, tau, labels, weight, strata, work)
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
    rows = TensorRows(eta, tau, groups, None, strata)
    if tau.ndim != 2 or tau.shape[1] != len(groups) or not _is_sound(rows, n_classes):
        check_rows_of(eta.cpu().float().numpy(), tau.cpu().float().numpy(), groups, strata, n_classes)
    return rows


def _is_sound(rows: TensorRows, n_classes: int | None) -> bool:
    """Whether shapes agree and numbers are what they are to be; in doubt not."""
    eta, tau, weight, width = (
        rows.scores,
        rows.group_proba,
        rows.weights,
        () if n_classes is None else (n_classes,),
    )
    if eta.ndim == 0 or len(eta) == 0 or eta.shape[1:] != width:
        return False
    if tau.ndim != 2 or tau.shape[1] < 2 or len(tau) != len(eta):
        return False
    tolerance = SUM_TOLERANCE_SINGLE if tau.dtype.itemsize < 8 else SUM_TOLERANCE
    found = [_is_sound_block(scores, proba, rows.strata, tolerance) for _, scores, proba in rows.raw_blocks()]
    if weight is not None:
        if weight.shape != eta.shape[:1]:
            return False
        found.append(weight.isfinite().all() & (weight.min() >= 0) & (weight.max() > 0))
    return all(bool(each) for each in found)  # asked at the end: a GPU goes on meanwhile


def _is_sound_block(scores: Any, proba: Any, strata: IntArray | None, tolerance: float) -> Any:
    """Whether a block of rows is sound, as a tensor of its device."""
    sound = scores.isfinite().all()
    if scores.ndim == 2:
        sound = sound & _sums_to_one(scores, SUM_TOLERANCE_SINGLE)
    if strata is None:
        return sound & _sums_to_one(proba, tolerance)
    sound = sound & proba.isfinite().all() & (proba.min() >= -NEGATIVE_TOLERANCE)
    for stratum in range(int(strata.max()) + 1):
        columns = np.flatnonzero(strata == stratum).tolist()
        sound = sound & (proba[:, columns].sum(dim=1) <= 1.0 + tolerance).all()
    return sound


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
