"""The one reader of labels: the group of each row, from a list, array, series or frame of any library."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._utils.missing import is_missing, without_mask
from evenhand._utils.text import some_of
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import (
    NEGATIVE_TOLERANCE,
    SUM_TOLERANCE,
    SUM_TOLERANCE_SINGLE,
    Labels,
    check_group_proba,
    to_numpy,
)

OTHER = "other"  # label of the small groups, merged
UNKNOWN = -1  # code of a row whose group is not known


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of some rows, as far as they are known."""

    labels: Labels  # sorted plain Python values; tuples where there are several columns of labels
    codes: (
        IntArray  # position of each row's group in `labels`, or of its likeliest one, or UNKNOWN, (n_rows,)
    )
    kind: str = "group"  # what a label is called in messages
    proba: FloatArray | None = None  # of each group, where that is all that is known, (n_rows, n_groups)

    @property
    def known(self) -> AnyArray:
        """Whether anything is known of each row's group, (n_rows,)."""
        there: AnyArray = self.codes != UNKNOWN
        return there

    def one_hot(self) -> FloatArray:
        """Group probabilities of rows, zeros and ones but for soft groups, (n_rows, n_groups).

        All are zero in a row whose group is not known.
        """
        if self.proba is not None:
            return self.proba
        return np.eye(len(self.labels) + 1, len(self.labels))[self.codes]  # UNKNOWN is the last row

    def sizes(self, rows: AnyArray | slice = slice(None)) -> IntArray:
        """Number of rows of each group, by probabilities rounded down, (n_groups,)."""
        if self.proba is not None:
            whole: IntArray = np.floor(self.proba[rows].sum(axis=0) + 1e-9).astype(np.int64)
            return whole
        codes = self.codes[rows]
        return np.bincount(codes[codes != UNKNOWN], minlength=len(self.labels))

    def take(self, rows: AnyArray | slice) -> "Groups":
        """Some of the rows, and the groups that are there."""
        codes, proba = self.codes[rows], None
        there: AnyArray = np.bincount(codes[codes != UNKNOWN], minlength=len(self.labels)) > 0
        if self.proba is not None:
            there = np.asarray(self.proba[rows].any(axis=0))
            proba = self.proba[rows][:, there]
        places = np.append(np.cumsum(there) - 1, UNKNOWN)
        return Groups(tuple(compress(self.labels, there)), places[codes], self.kind, proba)

    def settled(self) -> "Groups":
        """The same, by label where the probabilities name the group of every row."""
        if self.proba is None or is_uncertain(self.proba):
            return self
        return replace(self, proba=None).take(slice(None))

    def at(self, rows: AnyArray) -> "Groups":
        """Some of the rows; groups keep their places, be they there or not."""
        proba = None if self.proba is None else self.proba[rows]
        return replace(self, codes=self.codes[rows], proba=proba)

    def relabel(self, names: Sequence[Hashable]) -> "Groups":
        """The same rows with a new label for each group; groups of one new label become one.

        >>> Groups(("a", "b", "c"), np.array([0, 1, 2])).relabel(["z", "y", "z"]).codes
        array([1, 0, 1])
        """
        labels = sorted_labels(set(names))
        return self._among(tuple(labels), names)

    def _among(self, labels: Labels, names: Sequence[Hashable]) -> "Groups":
        """The same rows among `labels`, where `names` has the one of each of the present groups."""
        place = {label: code for code, label in enumerate(labels)}
        places = np.array([*(place[name] for name in names), UNKNOWN])
        if self.proba is None:
            return Groups(labels, places[self.codes], self.kind)
        proba = np.zeros((len(self.codes), len(labels)))
        for column, code in enumerate(places[:-1]):
            proba[:, code] += self.proba[:, column]
        return soft_groups(labels, proba, self.kind)


def is_uncertain(proba: AnyArray) -> bool:
    """Whether probabilities say more than who is in which group: some are neither zero nor one."""
    return bool(((proba > 0.0) & (proba < 1.0)).any())


def soft_groups(labels: Labels, proba: FloatArray, kind: str = "group") -> Groups:
    """Groups of which only probabilities are known, none of them in rows that are all zero.

    >>> soft_groups(("a", "b"), np.array([[0.2, 0.8], [0.0, 0.0]])).codes
    array([ 1, -1])
    """
    return Groups(labels, np.where(proba.any(axis=1), proba.argmax(axis=1), UNKNOWN), kind, proba)


def spread_rows(proba: FloatArray, weights: FloatArray | None) -> tuple[IntArray, IntArray, FloatArray]:
    """Each row once for each group that it may be in: its place, the group's, and the weight it has there.

    >>> spread_rows(np.array([[0.2, 0.8], [0.0, 1.0]]), None)
    (array([0, 0, 1]), array([0, 1, 1]), array([0.2, 0.8, 1. ]))
    """
    rows, codes = np.nonzero(proba)
    shares: FloatArray = proba[rows, codes]
    return rows, codes, shares if weights is None else shares * weights[rows]


def read_groups(values: Any, n_rows: int, name: str = "sensitive_features") -> Groups:
    """The group of each row: of several columns of labels, every combination that is there is a group.

    >>> read_groups([["f", 1], ["m", 0], ["f", 1]], 3).labels
    (('f', 1), ('m', 0))
    """
    return combine_groups(list(read_columns(values, n_rows, name).values()))


def read_columns(values: Any, n_rows: int, name: str = "sensitive_features") -> dict[Hashable, Groups]:
    """The groups of each column of labels, by the column's name, or its number where it has none."""
    return {column: _encode(labels, n_rows, name) for column, labels in _columns(values, name).items()}


def read_sensitive(
    values: Any, n_rows: int, name: str = "sensitive_features", *, soft: bool = True
) -> dict[Hashable, Groups]:
    """The groups of each column as `read_columns` has them, but for rows whose group is missing: unknown.

    Of several columns, a row is unknown in all of them where one is missing. Two or more columns of floats
    that sum to one in every row are no labels (unless `soft` is false), but probabilities, and the columns'
    names the groups; whole numbers are labels, be they zeros and ones.

    >>> read_sensitive(["f", None, "m"], 3)[0].codes
    array([ 0, -1,  1])
    >>> read_sensitive([[0.2, 0.8], [1.0, 0.0]], 2)[0].proba[:, 1]
    array([0.8, 0. ])
    """
    found = _read_proba(values, n_rows, name) if soft else None
    if found is not None:
        return {0: found}
    columns = {
        column: _encode(labels, n_rows, name, partial=True)
        for column, labels in _columns(values, name).items()
    }
    known = np.all([groups.known for groups in columns.values()], axis=0)
    if not known.any():
        raise ValueError(
            f"{name} is missing in every row: there must be some whose group is known. Pass these, or other "
            "people of known groups as sensitive_data=(X_other, groups)."
        )
    if known.all():
        return columns
    return {
        column: replace(groups, codes=np.where(known, groups.codes, UNKNOWN)).take(slice(None))
        for column, groups in columns.items()
    }


def read_one_sensitive(values: Any, n_rows: int, name: str = "sensitive_features") -> Groups:
    """The same where several columns of labels are taken together."""
    return combine_groups(list(read_sensitive(values, n_rows, name).values()))


def combine_groups(columns: Sequence[Groups]) -> Groups:
    """One group for each combination of groups that is there."""
    if len(columns) == 1:
        return columns[0]
    known = np.all([each.known for each in columns], axis=0)
    if not known.all():
        some = combine_groups([each.take(known) for each in columns])
        codes = np.full(len(known), UNKNOWN)
        codes[known] = some.codes
        return replace(some, codes=codes)
    codes = combine_codes([each.codes for each in columns])
    example = np.empty(int(codes.max()) + 1, np.int64)  # a row of each combination
    example[codes] = np.arange(len(codes))
    parts = [[each.labels[code] for code in each.codes[example]] for each in columns]
    return Groups((), codes).relabel(list(zip(*parts, strict=True)))


def combine_codes(columns: Sequence[IntArray]) -> IntArray:
    """One code for each combination of codes that is there, in their order.

    >>> combine_codes([np.array([0, 2, 0]), np.array([1, 0, 1])])
    array([0, 1, 0])
    """
    together = columns[0]
    for more in columns[1:]:
        together = together * (int(more.max()) + 1) + more
        there = np.bincount(together) > 0
        together = (np.cumsum(there) - 1)[together]
    return together


def match_groups(groups: Groups, labels: Labels, name: str) -> Groups:
    """The same rows among the `labels` of a fit; a label that is not there counts as `OTHER`."""
    place = {label: code for code, label in enumerate(labels)}
    names = [label if label in place or OTHER not in place else OTHER for label in groups.labels]
    unseen = [label for label in names if label not in place]
    if unseen:
        what = "values" if name == "conditional_on" else "groups"
        raise ValueError(
            f"{name} has {what} that the fit has not seen: {some_of(unseen)}. It has seen {some_of(labels)}."
        )
    return groups._among(labels, names)


def sorted_labels(labels: Iterable[Any]) -> list[Hashable]:
    """Labels in order; those of several types by type and text."""
    distinct = list(labels)
    try:
        with np.errstate(over="ignore"):  # numbers of several types are compared in the smaller one
            return sorted(distinct)
    except TypeError:  # labels of several types
        return sorted(distinct, key=lambda label: (str(type(label)), str(label)))


def label_array(groups: Labels) -> AnyArray:
    """Labels of any kind in one dimension: numbers as such, all else as objects."""
    if all(isinstance(label, int) for label in groups):
        return np.array(groups)
    return np.fromiter(groups, dtype=object, count=len(groups))


def label_text(label: Hashable, *, within: bool = False) -> str:
    """A group's label, and the parts of one made of several columns; `(stratum, group)` with `within`.

    >>> label_text(("north", ("F", 7)), within=True)
    'F, 7 (north)'
    """
    if within and isinstance(label, tuple):
        stratum, group = label
        return f"{label_text(group)} ({label_text(stratum)})"
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def require_one_per_row(n_given: int, n_rows: int, name: str) -> None:
    """Refuse labels that are not as many as the rows."""
    if n_given != n_rows:
        raise ValueError(
            f"{name} has {n_given} rows, but there are {n_rows}: it needs one label per row, in one or more "
            "columns."
        )


def _columns(values: Any, name: str) -> dict[Hashable, Any]:
    """The values of each column of a frame, a series, an array of one or two dimensions, or a list."""
    if values is None:
        raise ValueError(f"{name} is missing: pass the group of each row.")
    values = without_mask(values)
    try:
        native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    except (TypeError, ValueError) as error:  # such as columns of one name
        raise ValueError(f"{name} cannot be read as columns of labels: {error}") from error
    if isinstance(native, nw.Series):
        return {0: native.to_list()}
    if isinstance(native, nw.DataFrame) and native.columns:
        return {
            column: values.to_list()
            for column, values in zip(native.columns, native.iter_columns(), strict=True)
        }
    # Of a list, as objects: NumPy would turn the numbers of a list that has text, too, into text.
    array = np.array(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] > 0:
        return dict(enumerate(array.T))
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n_rows,) or (n_rows, n_columns): got {array.shape}.")
    return {0: array}


def _encode(values: Any, n_rows: int, name: str, *, partial: bool = False) -> Groups:
    """The groups of one column, a list or an array; with `partial` some may be missing."""
    require_one_per_row(len(values), n_rows, name)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f" and not np.isnan(values).any():
            distinct_floats, codes = np.unique(values, return_inverse=True)
            return Groups(tuple(distinct_floats.tolist()), codes)
        values = values.tolist()
    # But for floats, a dict is quicker than sorting all rows, and takes labels of any type.
    try:
        distinct = dict.fromkeys(values)
    except TypeError as error:
        raise ValueError(f"{name} must hold labels, such as text or numbers: {error}.") from error
    there = [label for label in distinct if not is_missing(label)]
    if len(there) < len(distinct) and not partial:
        missing = [row for row, label in enumerate(values) if is_missing(label)]
        raise ValueError(
            f"{name} is missing in {len(missing)} rows, the first of them row {missing[0]}: "
            "leave these rows out, or give them a label of their own."
        )
    labels = sorted_labels(there)
    place = {label: code for code, label in enumerate(labels)}
    # of missing labels there may be many that are not equal to each other, such as NaN
    find = place.__getitem__ if len(there) == len(distinct) else lambda label: place.get(label, UNKNOWN)
    codes = np.fromiter(map(find, values), np.int64, len(values))
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return Groups(tuple(plain), codes)


def _read_proba(values: Any, n_rows: int, name: str) -> Groups | None:
    """Probabilities of groups, a column for each; None where the values are anything else."""
    given = _float_table(values)
    if given is None:
        return None
    table, labels, tolerance = given
    require_one_per_row(len(table), n_rows, name)
    known = ~np.isnan(table).any(axis=1)
    some = table[known]
    with np.errstate(over="ignore", invalid="ignore"):  # of what are no probabilities
        sums = some.sum(axis=1)
    if not (some >= -NEGATIVE_TOLERANCE).all() or not (np.abs(sums - 1.0) <= tolerance).all():
        _refuse_fractions(table, np.flatnonzero(known), sums, name)
        return None
    proba = np.zeros(table.shape)
    if len(some):
        proba[known], _ = check_group_proba(some / sums[:, None], len(some))
    return soft_groups(labels, proba) if len(some) else None


def _float_table(values: Any) -> tuple[FloatArray, Labels, float] | None:
    """Two or more columns of floats, NaN where one is missing, their names, and how exact their sums are."""
    try:
        table, names = to_numpy(values, "values")
    except ValueError:  # rows of several lengths
        return None
    if table.ndim != 2 or table.shape[1] < 2 or not len(table):
        return None
    labels = tuple(range(table.shape[1])) if names is None else tuple(names)
    if table.dtype.kind == "f":
        single = table.dtype.itemsize < 8
        return table.astype(np.float64), labels, SUM_TOLERANCE_SINGLE if single else SUM_TOLERANCE
    cells = table.ravel().tolist() if table.dtype.kind == "O" else [None]
    # of a library's own numbers, or where some are None: one look at the first cells tells most labels
    if not all(isinstance(cell, float) or is_missing(cell) for cell in cells) or all(map(is_missing, cells)):
        return None
    floats = np.array([np.nan if is_missing(cell) else cell for cell in cells], np.float64)
    return floats.reshape(table.shape), labels, SUM_TOLERANCE


def _refuse_fractions(table: FloatArray, rows: IntArray, sums: FloatArray, name: str) -> None:
    """Refuse numbers that can hardly be labels, and are not probabilities."""
    some = table[rows]
    if np.isfinite(some).all() and (some != np.floor(some)).any():
        worst = int(np.abs(sums - 1.0).argmax())
        raise ValueError(
            f"{name} has {table.shape[1]} columns of numbers with fractions: as probabilities of groups they "
            "must not be negative and sum to one in every row "
            f"(row {rows[worst]} sums to {sums[worst]:.9g}), as labels they must be text or whole numbers. "
            "Divide each row by its sum, or pass the labels."
        )
