"""The one reader of labels: the group of each row, from a list, array, series or frame of any library."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._utils.text import some_of
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, is_missing, to_numpy

OTHER = "other"  # label of the small groups, merged


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of some rows."""

    labels: Labels  # sorted plain Python values; tuples where there are several columns of labels
    codes: IntArray  # position of each row's group in `labels`, (n_rows,)
    kind: str = "group"  # what a label is called in messages

    def one_hot(self) -> FloatArray:
        """Group probabilities of rows whose group is known, (n_rows, n_groups)."""
        return np.eye(len(self.labels))[self.codes]

    def sizes(self) -> IntArray:
        """Number of rows of each group, (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.labels))

    def take(self, rows: AnyArray) -> "Groups":
        """Some of the rows, and the groups that are there."""
        codes = self.codes[rows]
        there = np.bincount(codes, minlength=len(self.labels)) > 0
        return Groups(tuple(compress(self.labels, there)), (np.cumsum(there) - 1)[codes], self.kind)

    def relabel(self, names: Sequence[Hashable]) -> "Groups":
        """The same rows with a new label for each group; groups of one new label become one.

        >>> Groups(("a", "b", "c"), np.array([0, 1, 2])).relabel(["z", "y", "z"]).codes
        array([1, 0, 1])
        """
        labels = sorted_labels(set(names))
        place = {label: code for code, label in enumerate(labels)}
        return Groups(tuple(labels), np.array([place[name] for name in names])[self.codes], self.kind)


def read_groups(values: Any, n_rows: int, name: str = "sensitive_features") -> Groups:
    """The group of each row: of several columns of labels, every combination that is there is a group.

    >>> read_groups([["f", 1], ["m", 0], ["f", 1]], 3).labels
    (('f', 1), ('m', 0))
    """
    return combine_groups(list(read_columns(values, n_rows, name).values()))


def read_columns(values: Any, n_rows: int, name: str = "sensitive_features") -> dict[Hashable, Groups]:
    """The groups of each column of labels, by the column's name, or its number where it has none."""
    return {column: _encode(labels, n_rows, name) for column, labels in _columns(values, name).items()}


def combine_groups(columns: Sequence[Groups]) -> Groups:
    """One group for each combination of groups that is there."""
    if len(columns) == 1:
        return columns[0]
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
    return Groups(labels, np.array([place[label] for label in names])[groups.codes])


def sorted_labels(labels: Iterable[Any]) -> list[Hashable]:
    """Labels in order; those of several types by type and text."""
    distinct = list(labels)
    try:
        return sorted(distinct)
    except TypeError:  # labels of several types
        return sorted(distinct, key=lambda label: (str(type(label)), str(label)))


def label_text(label: Hashable, *, within: bool = False) -> str:
    """A group's label, and the parts of one made of several columns; `(stratum, group)` with `within`.

    >>> label_text(("north", ("F", 7)), within=True)
    'F, 7 (north)'
    """
    if within and isinstance(label, tuple):
        stratum, group = label
        return f"{label_text(group)} ({label_text(stratum)})"
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def number_table(values: Any) -> AnyArray | None:
    """Two or more columns of numbers, (n_rows, n_columns); None where these are anything else."""
    try:
        table, _ = to_numpy(values, "values")
    except ValueError:  # rows of several lengths
        return None
    return table if table.ndim == 2 and table.shape[1] > 1 and table.dtype.kind in "biuf" else None


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
    native = nw.from_native(values, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.Series):
        return {0: native.to_list()}
    if isinstance(native, nw.DataFrame) and native.columns:
        return {column: native[column].to_list() for column in native.columns}
    # Of a list, as objects: NumPy would turn the numbers of a list that has text, too, into text.
    array = np.array(values, dtype=object) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] > 0:
        return dict(enumerate(array.T))
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n_rows,) or (n_rows, n_columns): got {array.shape}.")
    return {0: array}


def _encode(values: Any, n_rows: int, name: str) -> Groups:
    """The groups of one column, a list or an array."""
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
    if any(map(is_missing, distinct)):
        missing = [row for row, label in enumerate(values) if is_missing(label)]
        raise ValueError(
            f"{name} is missing in {len(missing)} rows, the first of them row {missing[0]}: "
            "leave these rows out, or give them a label of their own."
        )
    labels = sorted_labels(distinct)
    place = {label: code for code, label in enumerate(labels)}
    codes = np.fromiter(map(place.__getitem__, values), np.int64, len(values))
    plain = (label.item() if isinstance(label, np.generic) else label for label in labels)
    return Groups(tuple(plain), codes)
