"""Sensitive features become groups: one for each value, or combination of values, that is there."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, is_missing

OTHER = "other"  # label of the small groups, merged
PAIR = "(class, group)"  # kind of the groups of a model that tells classes apart, too


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of some rows."""

    labels: Labels  # sorted; tuples where there are several sensitive features
    codes: IntArray  # position of each row's group in `labels`, (n_rows,)
    kind: str = "group"  # what a label is called in messages

    def one_hot(self) -> FloatArray:
        """Group probabilities of rows whose group is known, (n_rows, n_groups)."""
        return np.eye(len(self.labels))[self.codes]


def check_small_groups(small_groups: str) -> bool:
    """Whether small groups are merged, which the name must say."""
    if small_groups not in ("error", "merge"):
        raise ValueError(f'small_groups must be "error" or "merge": got {small_groups!r}.')
    return small_groups == "merge"


def encode_groups(values: list[Hashable], *, min_group_size: int = 1, merge_small: bool = False) -> Groups:
    """Groups to fit on; too small a group is merged with the others of its kind, or refused by name.

    >>> encode_groups(["b", "a", "b"]).labels
    ('a', 'b')
    """
    if not isinstance(min_group_size, Integral) or min_group_size < 1:
        raise ValueError(f"min_group_size must be a positive integer: got {min_group_size!r}.")
    sizes = Counter(values)
    small = {label for label, size in sizes.items() if size < min_group_size}
    if small and merge_small:
        values = [OTHER if label in small else label for label in values]
        sizes = Counter(values)
        small = {label for label, size in sizes.items() if size < min_group_size}
    if small:
        named = ", ".join(f"{label!r} ({sizes[label]} rows)" for label in sorted_labels(small))
        raise ValueError(
            f"sensitive_features has groups of fewer than min_group_size={min_group_size} rows: {named}. "
            'Join them with others (small_groups="merge" does), collect more rows, or lower min_group_size.'
        )
    if len(sizes) < 2:
        only = next(iter(sizes))
        raise ValueError(
            f"sensitive_features needs two groups or more: all {len(values)} sample(s) are in group {only!r}."
        )
    labels = tuple(sorted_labels(sizes))
    return Groups(labels, _codes(values, labels))


def encode_known(sensitive_features: Any, n_rows: int, labels: Labels, name: str) -> Groups:
    """Groups of new rows among the `labels` of the fit; a label that is not there counts as `OTHER`."""
    return encode_labels(row_labels(sensitive_features, n_rows, name), labels, name)


def encode_labels(values: list[Hashable], labels: Labels, name: str) -> Groups:
    """The same of rows whose labels are read."""
    if OTHER in labels:
        values = [label if label in labels else OTHER for label in values]
    unseen = sorted_labels(set(values) - set(labels))
    if unseen:
        what = "values" if name == "conditional_on" else "groups"
        raise ValueError(
            f"{name} has {what} that the fit has not seen: {', '.join(map(repr, unseen))}. "
            f"It has seen {', '.join(map(repr, labels))}."
        )
    return Groups(labels, _codes(values, labels))


def row_labels(sensitive_features: Any, n_rows: int, name: str = "sensitive_features") -> list[Hashable]:
    """One label for each row: a plain Python value, or a tuple of them for several columns."""
    columns = list(label_columns(sensitive_features, n_rows, name).values())
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def label_columns(sensitive_features: Any, n_rows: int, name: str) -> dict[Hashable, list[Hashable]]:
    """Plain Python values of each column, by its name, or its number where it has none."""
    columns = _columns(sensitive_features, name)
    return {column: _checked(values, n_rows, name) for column, values in columns.items()}


def _columns(sensitive_features: Any, name: str) -> dict[Hashable, list[Hashable]]:
    """The columns of a frame, a series, an array of one or two dimensions, or a list."""
    if sensitive_features is None:
        raise ValueError(f"{name} is missing: pass the group of each row.")
    native = nw.from_native(sensitive_features, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        return {column: native[column].to_list() for column in native.columns}
    if isinstance(native, nw.Series):
        return {0: native.to_list()}
    array = np.asarray(sensitive_features)
    if array.ndim == 2 and array.shape[1] > 0:
        return dict(enumerate(column.tolist() for column in array.T))
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n_rows,) or (n_rows, n_columns): got {array.shape}.")
    return {0: array.tolist()}


def _checked(column: list[Hashable], n_rows: int, name: str) -> list[Hashable]:
    if len(column) != n_rows:
        raise ValueError(f"{name} has {len(column)} rows, but X has {n_rows}.")
    if any(map(is_missing, set(column))):  # few labels, many rows
        missing = [row for row, label in enumerate(column) if is_missing(label)]
        raise ValueError(
            f"{name} is missing in {len(missing)} rows, the first of them row {missing[0]}: "
            "leave these rows out, or give them a label of their own."
        )
    return column


def sorted_labels(labels: Any) -> Sequence[Hashable]:
    """Labels in order; those of several types by type and text."""
    try:
        return sorted(labels)
    except TypeError:  # labels of several types
        return sorted(labels, key=lambda label: (str(type(label)), str(label)))


def _codes(values: list[Hashable], labels: Labels) -> IntArray:
    position = {label: code for code, label in enumerate(labels)}
    return np.fromiter(map(position.__getitem__, values), np.int64, len(values))
