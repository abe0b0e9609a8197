"""Who is selected: the chance of each row to be decided for, or to score above a threshold."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.scalars import as_number
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import to_numpy
from evenhand.metrics._inputs import as_prediction, as_weights, block_slices, checked_blocks, needed_atoms


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The chance of each row to be selected, and by which rule."""

    chances: FloatArray  # (n_rows,)
    meaning: str  # whom a rate counts, after "share of"
    threshold: float | None = None  # None where labels are selected
    selected: tuple[Any, ...] = ()
    by_median: bool = False

    def same_of(
        self, predictions: ArrayLike, atoms: ArrayLike | None, *, checked: bool = False
    ) -> FloatArray:
        """Chances of other predictions by the same rule, (n_rows,)."""
        labels = list(self.selected) or None
        found = read_selection(predictions, atoms, self.threshold, labels, checked=checked).chances
        if len(found) != len(self.chances):
            raise ValueError(
                f"baseline needs one prediction per row: got {len(found)} for {len(self.chances)} rows."
            )
        return found


def read_selection(
    predictions: ArrayLike,
    atoms: ArrayLike | None = None,
    threshold: float | None = None,
    selected: Any = None,
    sample_weight: ArrayLike | None = None,
    *,
    checked: bool = False,
) -> Selection:
    """Chances by what the user asks for: labels, a threshold, or else the larger of two values or the median.

    A pmf that was `checked` already is read faster.

    >>> read_selection([1.0, 2.0, 3.0, 4.0]).chances
    array([0., 0., 1., 1.])
    >>> read_selection([[0.2, 0.8], [0.9, 0.1]], atoms=["no", "yes"], selected="yes").chances
    array([0.8, 0.1])
    """
    if threshold is not None and selected is not None:
        raise ValueError(
            "threshold and selected exclude each other: pass the one that tells who is selected."
        )
    if selected is not None:
        return _by_label(predictions, atoms, selected, checked)
    if to_numpy(predictions, "predictions")[0].dtype.kind not in "biuf":
        raise ValueError("Decisions in words need selected=, the label (or labels) that count as selected.")
    given = as_prediction(predictions, "predictions")
    if given.ndim == 2 and not checked:
        for _ in checked_blocks(given):
            pass
    points = _ends(given) if given.ndim == 1 else needed_atoms("A rate", atoms, given.shape[1])
    if threshold is None and len(points) == 2:
        chances = _above(given, points, float(points[0]))
        return Selection(chances, f"decisions for {points[1]:.6g}", threshold=float(points[0]))
    by_median = threshold is None
    if threshold is None:
        threshold = _median(given, points, as_weights(sample_weight, len(given)))
        meaning = f"predictions above the median, {threshold:.4g}"
    else:
        threshold = as_number(threshold, "threshold")
        meaning = f"predictions above {threshold:.6g}"
    return Selection(_above(given, points, threshold), meaning, threshold, by_median=by_median)


def _by_label(predictions: ArrayLike, atoms: ArrayLike | None, selected: Any, checked: bool) -> Selection:
    given = np.asarray(predictions)
    several = isinstance(selected, Iterable) and not isinstance(selected, str)
    wanted = tuple(selected) if several else (selected,)
    labels = given if given.ndim == 1 else np.asarray(atoms)
    if given.ndim == 2 and labels.shape != given.shape[1:]:
        raise ValueError(f"atoms needs one label per column: got shape {labels.shape} for {given.shape[1]}.")
    inside: AnyArray = np.array([label in wanted for label in labels.tolist()], dtype=bool)
    if given.ndim == 2 and not inside.any():
        raise ValueError(
            f"selected={selected!r} is none of the labels: {', '.join(map(repr, labels.tolist()))}."
        )
    meaning = f"decisions for {', '.join(map(str, wanted))}"
    if given.ndim == 1:
        return Selection(inside.astype(np.float64), meaning, selected=wanted)
    return Selection(_sum_of(given, inside, checked), meaning, selected=wanted)


def _above(given: AnyArray, points: FloatArray, threshold: float) -> FloatArray:
    if given.ndim == 1:
        return np.asarray(given > threshold, dtype=np.float64)
    return _sum_of(given, points > threshold, checked=True)


def _sum_of(pmf: AnyArray, inside: AnyArray, checked: bool) -> FloatArray:
    """Chance of some of the columns in each row, (n_rows,)."""
    chances, wanted = np.empty(len(pmf)), inside.astype(np.float64)
    slices = ((rows, pmf[rows]) for rows in block_slices(*pmf.shape))
    with one_blas_thread():
        for rows, block in slices if checked else checked_blocks(pmf):
            chances[rows] = block @ wanted
    return np.clip(chances, 0.0, 1.0)


def _ends(values: AnyArray) -> FloatArray:
    """The two values, where there are no others; none otherwise."""
    ends = np.array([values.min(), values.max()])
    return ends if ends[0] < ends[1] and np.isin(values, ends).all() else np.empty(0)


def _median(given: AnyArray, points: FloatArray, weights: FloatArray | None) -> float:
    """Smallest value that at least half of all rows do not exceed."""
    if given.ndim == 1 and weights is None:
        middle = (len(given) - 1) // 2
        return float(np.partition(given, middle)[middle])
    counts = np.ones(len(given)) if weights is None else weights
    if given.ndim == 1:
        order = np.argsort(given)
        points, mass = given[order], counts[order]
    else:
        mass = np.zeros(len(points))
        with one_blas_thread():
            for rows in block_slices(*given.shape):
                mass += counts[rows] @ given[rows]
    below = np.cumsum(mass)
    return float(points[int(np.searchsorted(below, 0.5 * below[-1] * (1.0 - 1e-12)))])
