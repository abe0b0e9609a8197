"""Validate public arguments: arrays of numbers in, or an error that names the argument."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._utils.missing import without_mask
from evenhand._utils.scalars import is_flag
from evenhand._utils.typing import AnyArray, FloatArray, IntArray

Labels: TypeAlias = tuple[Hashable, ...]

SUM_TOLERANCE = 1e-6  # on the sum of a row of probabilities
SUM_TOLERANCE_SINGLE = 1e-4  # the same in float32 or less: rounding of the sums themselves
LEAST_MASS = 1e-12  # of a group among all rows: less is lost beside the others in a float
LEAST_EPSILON = 1e-100  # smaller ones are zero, which they are for all that is computed
NEGATIVE_TOLERANCE = 1e-9  # `1 - p` of a p that is one and a bit


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Checked rows: finite scores, probabilities that sum to one, weights that sum to one.

    With strata, a row's probabilities sum to at most one in each of them.
    """

    scores: FloatArray  # (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: FloatArray  # (n_rows, n_groups)
    groups: Labels  # one label per column of group_proba
    weights: FloatArray | None  # (n_rows,), positive; None where all are equal
    strata: IntArray | None = None  # stratum of each column from 0 on, (n_groups,)

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        if self.weights is None:
            mean: FloatArray = self.group_proba.mean(axis=0)
            return mean
        return self.weights @ self.group_proba

    def take(self, rows: IntArray) -> "Rows":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows] / self.weights[rows].sum()
        return replace(self, scores=self.scores[rows], group_proba=self.group_proba[rows], weights=weights)

    def without(self, rows: IntArray) -> "Rows":
        """All the other rows."""
        used = np.ones(len(self.scores), bool)
        used[rows] = False
        return self.take(np.flatnonzero(used))


def check_rows(
    scores: Any,
    group_proba: Any,
    sample_weight: Any = None,
    *,
    groups: Labels | None = None,
    strata: IntArray | None = None,
    n_classes: int | None = None,
) -> Rows:
    """Rows to fit on; those of weight zero are left out, as if they had not been given."""
    checked_scores = check_scores(scores, n_classes)
    proba, names = check_group_proba(group_proba, len(checked_scores), strata=strata)
    groups = names if groups is None else groups
    weights = None
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(checked_scores))
        used = weights > 0
        if not used.all():
            checked_scores, proba, weights = checked_scores[used], proba[used], weights[used]
    rows = Rows(checked_scores, proba, groups, weights, strata)
    require_mass(rows.groups, rows.group_mass())
    return rows


def check_rows_of(
    scores: Any,
    group_proba: Any,
    groups: Labels,
    strata: IntArray | None = None,
    n_classes: int | None = None,
) -> Rows:
    """Rows to predict on, with the groups of the fit; named columns may come in any order."""
    checked_scores = check_scores(scores, n_classes)
    proba, given = check_group_proba(group_proba, len(checked_scores), groups, strata)
    return Rows(checked_scores, proba, given, None, strata)


def check_scores(scores: Any, n_classes: int | None = None) -> FloatArray:
    """Finite floats of shape (n_rows,), at least one; with `n_classes`, probabilities of as many classes."""
    checked = as_floats(scores, "scores")
    if n_classes is not None:
        return _check_class_proba(checked, n_classes)
    if checked.ndim != 1:
        raise ValueError(f"scores must have shape (n_rows,): got {checked.shape}.")
    if len(checked) == 0:
        raise ValueError("scores is empty: give at least one row.")
    _require_finite(checked, "scores")
    return checked


def _check_class_proba(scores: FloatArray, n_classes: int) -> FloatArray:
    if scores.ndim != 2 or scores.shape[1] != n_classes:
        raise ValueError(
            f"scores must be class probabilities of shape (n_rows, {n_classes}) with this cost: got "
            f"{scores.shape}."
        )
    if len(scores) == 0:
        raise ValueError("scores is empty: give at least one row.")
    _require_finite(scores, "scores")
    return _normalise(scores, SUM_TOLERANCE_SINGLE, "scores")


def check_strata(strata: Any, groups: Labels) -> tuple[IntArray, Labels]:
    """The stratum of each column from 0 on, and labels `(stratum, group)`.

    >>> codes, labels = check_strata(["sex", "sex", "race", "race"], ("f", "m", "a", "b"))
    >>> codes, labels[2]
    (array([0, 0, 1, 1]), ('race', 'a'))
    """
    named = [label.item() if isinstance(label, np.generic) else label for label in strata]
    if len(named) != len(groups):
        raise ValueError(
            f"strata needs one label per column of group_proba: got {len(named)} for {len(groups)} columns."
        )
    order = {label: place for place, label in enumerate(dict.fromkeys(named))}
    codes = np.array([order[label] for label in named])
    for label, size in zip(order, np.bincount(codes), strict=True):
        if size < 2:
            raise ValueError(f"Stratum {label!r} has one column, and parity needs two: leave it out.")
    return codes, tuple(zip(named, groups, strict=True))


def check_group_proba(
    group_proba: Any, n_rows: int, groups: Labels | None = None, strata: IntArray | None = None
) -> tuple[FloatArray, Labels]:
    """Probabilities of shape (n_rows, n_groups) whose rows sum to one, and the groups' labels.

    With `groups`, the columns are put in their order by name, or refused. With `strata`, labels are
    `(stratum, name)`, and rows sum to at most one in each stratum.
    """
    array, names = to_numpy(group_proba, "group_proba")
    if array.ndim != 2:
        raise ValueError(
            f"group_proba must have shape (n_rows, n_groups): got {array.shape}. "
            "For two groups pass np.column_stack([1 - p, p])."
        )
    single = array.dtype.kind == "f" and array.dtype.itemsize < 8
    labels = _column_labels(names, array.shape[1])
    if groups is not None:
        columns = groups if strata is None else tuple(group[1] for group in groups)  # type: ignore[index]
        array = _in_order_of(columns, array, labels if names is not None else None)
        labels = groups
    if array.shape[1] < 2:
        raise ValueError(f"group_proba needs at least two groups: got {array.shape[1]} column(s).")
    _require_length(array, "group_proba", n_rows)
    proba = _as_float64(array, "group_proba")
    _require_finite(proba, "group_proba")
    tolerance = SUM_TOLERANCE_SINGLE if single else SUM_TOLERANCE
    if strata is not None:
        return _check_stratum_sums(proba, strata, tolerance), labels
    return _normalise(proba, tolerance), labels


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray:
    """Nonnegative weights of shape (n_rows,), scaled to sum to one."""
    weights = as_floats(sample_weight, "sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"sample_weight must have shape (n_rows,): got {weights.shape}.")
    _require_length(weights, "sample_weight", n_rows)
    _require_finite(weights, "sample_weight")
    if weights.min() < 0:
        raise ValueError(f"sample_weight must not be negative: got {weights.min():g}.")
    if weights.max() == 0:
        raise ValueError("sample_weight is zero everywhere: at least one row must count.")
    weights = weights / weights.max()  # first, so that the sum cannot overflow
    scaled: FloatArray = weights / weights.sum()
    return scaled


def check_epsilon(epsilon: Any, groups: Labels, strata: IntArray | None = None) -> FloatArray:
    """Tolerances of shape (n_groups,) from a float, one value per group, or a dict by label.

    With `strata`, whose groups are called `(stratum, group)`, a dict may also go by stratum, or by one part
    of strata that have several.

    >>> check_epsilon({"b": 0.2, "a": 0.1}, ("a", "b"))
    array([0.1, 0.2])
    """
    if strata is not None and isinstance(epsilon, Mapping):
        epsilon = _by_stratum(epsilon, [group[0] for group in groups])  # type: ignore[index]
    slack = _per_group(epsilon, "epsilon", groups)
    if is_flag(epsilon):
        raise ValueError(f"epsilon must be a number: got {epsilon!r}.")
    if slack.ndim == 0:
        slack = np.full(len(groups), float(slack))
    if not np.all(slack >= 0) or not np.isfinite(slack).all():
        raise ValueError(f"epsilon must be finite and not negative: got {epsilon!r}.")
    return np.where(slack < LEAST_EPSILON, 0.0, slack)


def _by_stratum(epsilon: Mapping[Any, Any], names: list[Any]) -> Any:
    """Tolerances of groups in the strata `names`, or the dict itself where it does not go by stratum.

    >>> _by_stratum({"sex": 0.1, "race": 0.2}, [("sex", 0), ("sex", 1), ("race", 0), ("race", 1)])
    [0.1, 0.1, 0.2, 0.2]
    """
    keys = [names]
    if all(isinstance(name, tuple) for name in names) and len(set(map(len, names))) == 1:
        keys += [list(part) for part in zip(*names, strict=True)]
    found = [part for part in keys if set(part) == set(epsilon)]
    if len(found) > 1:
        raise ValueError(
            f"epsilon has {_listed(list(epsilon))}, which could mean more than one part of the strata "
            f"({_listed(list(dict.fromkeys(names)))}): give a value for each stratum."
        )
    return [epsilon[name] for name in found[0]] if found else epsilon


def check_prior(group_prior: Any, groups: Labels, strata: IntArray | None = None) -> FloatArray:
    """Shares of shape (n_groups,), positive, that sum to one; a dict goes by label.

    With `strata` the sum may be anything: each stratum has its own share of the rows.
    """
    prior = _per_group(group_prior, "group_prior", groups)
    if prior.ndim == 0:
        raise ValueError(f"group_prior needs one value per group ({_listed(groups)}): got one number.")
    if not np.all(prior > 0) or not np.isfinite(prior).all():
        raise ValueError(f"group_prior must be positive for every group: got {group_prior!r}.")
    if strata is not None:
        return prior
    with np.errstate(over="ignore"):
        total = prior.sum()
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"group_prior must sum to one: got {total:.9g}.")
    shares: FloatArray = prior / total
    return shares


def check_levels(q: Any, n_rows: int) -> FloatArray:
    """Quantile levels inside (0, 1): one number, or one per row."""
    levels = as_floats(q, "q")
    if levels.ndim > 1 or (levels.ndim == 1 and len(levels) != n_rows):
        raise ValueError(f"q must be one number or one per row ({n_rows}): got shape {levels.shape}.")
    if not np.all((levels > 0) & (levels < 1)):
        raise ValueError("q must lie strictly between 0 and 1.")
    return levels


def as_floats(values: Any, name: str) -> FloatArray:
    """Values as float64, from lists, arrays, or series and frames of any library."""
    return _as_float64(to_numpy(values, name)[0], name)


def to_numpy(values: Any, name: str) -> tuple[AnyArray, Sequence[Hashable] | None]:
    """An array, and the columns' names where there are any; masked entries are missing."""
    if type(values) is np.ndarray:
        return values, None
    values = without_mask(values)
    try:
        native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            names = list(native.columns)
            _require_unique(names, name)
            return np.asarray(native.to_numpy()), names
        if isinstance(native, nw.Series):
            return np.asarray(native.to_numpy()), None
        return np.asarray(values), None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} cannot be read as an array of numbers: {error}") from error


def _as_float64(array: AnyArray, name: str) -> FloatArray:
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} must hold numbers: got values of type {array.dtype}.")
    try:
        return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must hold numbers, none of them missing: {error}") from error


def _not_negative(proba: FloatArray, name: str) -> FloatArray:
    if proba.min() < -NEGATIVE_TOLERANCE:
        row = int(np.argmin(proba.min(axis=1)))
        raise ValueError(f"{name} must not be negative: row {row} holds {proba[row].min():g}.")
    return np.maximum(proba, 0.0)


def _check_stratum_sums(proba: FloatArray, strata: IntArray, tolerance: float) -> FloatArray:
    proba = _not_negative(proba, "group_proba")
    for stratum in range(int(strata.max()) + 1):
        with np.errstate(over="ignore"):
            total = proba[:, strata == stratum].sum(axis=1)
        row = int(np.argmax(total))
        if total[row] > 1.0 + tolerance:
            raise ValueError(
                f"group_proba must sum to at most one within a stratum: row {row} sums to {total[row]:.9g}."
            )
    return proba


def _normalise(proba: FloatArray, tolerance: float, name: str = "group_proba") -> FloatArray:
    """Divide each row by its sum, added column by column so that a row never depends on its batch."""
    proba = _not_negative(proba, name)
    total = proba[:, 0].copy()
    with np.errstate(over="ignore"):  # of what are no probabilities, which is refused below
        for column in range(1, proba.shape[1]):
            total += proba[:, column]
    row = int(np.argmax(np.abs(total - 1.0)))
    if abs(total[row] - 1.0) > tolerance:
        raise ValueError(
            f"{name} must sum to one in every row: row {row} sums to {total[row]:.9g}. "
            "Divide each row by its sum if that is what is meant."
        )
    proba /= total[:, None]
    return proba


def column_labels(group_proba: Any) -> Labels:
    """Names of the columns, or 0, 1, ... where they have none."""
    array, names = to_numpy(group_proba, "group_proba")
    return _column_labels(names, array.shape[1] if array.ndim == 2 else 0)


def _column_labels(names: Sequence[Hashable] | None, n_groups: int) -> Labels:
    return tuple(range(n_groups)) if names is None else tuple(names)


def _in_order_of(groups: Labels, array: AnyArray, labels: Labels | None) -> AnyArray:
    if array.shape[1] != len(groups):
        raise ValueError(
            f"group_proba has {array.shape[1]} groups, but the model was fitted with {len(groups)} "
            f"({_listed(groups)})."
        )
    if labels is None or labels == groups:
        return array
    if set(labels) == set(groups):
        return array[:, [labels.index(group) for group in groups]]
    if groups == tuple(range(len(groups))):  # no names at fit: only the position can tell
        return array
    raise ValueError(
        f"group_proba has columns {_listed(labels)}, but the model was fitted with {_listed(groups)}."
    )


def _per_group(value: Any, name: str, groups: Labels) -> FloatArray:
    """A 0-d array, or one of shape (n_groups,)."""
    if isinstance(value, Mapping):
        unknown = [label for label in value if label not in groups]
        missing = [label for label in groups if label not in value]
        if unknown:
            raise ValueError(
                f"{name} names unknown group(s) {_listed(unknown)}. The groups are {_listed(groups)}."
            )
        if missing:
            raise ValueError(f"{name} has no value for group(s) {_listed(missing)}.")
        value = [value[label] for label in groups]
    checked = as_floats(value, name)
    if checked.ndim > 1 or (checked.ndim == 1 and len(checked) != len(groups)):
        raise ValueError(
            f"{name} needs one value per group: got {checked.size} values for {len(groups)} groups "
            f"({_listed(groups)})."
        )
    return checked


def require_mass(groups: Labels, mass: FloatArray) -> None:
    """Refuse groups that no row has any probability of."""
    for label, share in zip(groups, mass, strict=True):
        if not share > LEAST_MASS:
            raise ValueError(
                f"group_proba gives group {label!r} no mass: its probability is zero in every row. "
                "Leave its column out, or add rows that may be in it."
            )


def _require_finite(values: FloatArray, name: str) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad.any(axis=1) if values.ndim == 2 else bad))
        raise ValueError(f"{name} must be finite: {int(bad.sum())} value(s) are not, the first in row {row}.")


def _require_length(values: AnyArray, name: str, n_rows: int) -> None:
    if len(values) != n_rows:
        raise ValueError(f"{name} has {len(values)} rows, but scores has {n_rows}.")


def _require_unique(names: Sequence[Hashable], name: str) -> None:
    if len(set(names)) != len(names):
        raise ValueError(f"{name} has columns of the same name: {_listed(names)}.")


def _listed(labels: Sequence[Hashable]) -> str:
    return ", ".join(map(str, labels))
