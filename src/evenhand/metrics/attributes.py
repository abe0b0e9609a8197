"""Attributes as published audits tell them: each on its own, and then their combinations."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.labels import _columns, combine_groups, read_groups, require_one_per_row
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import is_missing
from evenhand.metrics.membership import Membership


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """The groups of one attribute, for the rows where it is known."""

    name: str
    rows: AnyArray | slice  # whose group is known
    members: Membership  # of these rows


def read_attributes(
    sensitive_features: Any,
    n_rows: int,
    weights: FloatArray | None = None,
    whole: Membership | None = None,
) -> list[Attribute]:
    """Each column of labels, then their combinations; one table of probabilities stays one.

    `whole` is what `Membership.read` makes of the same, where that was asked for before.

    >>> [each.members.labels for each in read_attributes([["f", 1], ["m", 0], [None, 1]], 3)]
    [('f', 'm'), (0, 1), (('f', 1), ('m', 0))]
    """
    if isinstance(sensitive_features, Membership):
        return [Attribute("", slice(None), sensitive_features)]
    columns = _columns(sensitive_features, "sensitive_features")
    known = {name: _known(name, values, n_rows) for name, values in columns.items()}
    complete = all(each.all() for each in known.values())
    if complete and whole is None:
        whole = Membership.read(sensitive_features, n_rows, weights)
    if complete and whole is not None and whole.shares is not None:
        return [Attribute("", slice(None), whole)]
    names = [name if isinstance(name, str) else "" for name in columns]
    if len(columns) == 1:
        names = [names[0] or str(getattr(sensitive_features, "name", None) or "")]  # of a series
    else:
        names = [name or f"column {place}" for place, name in enumerate(names)]
    parts = [[name] for name in columns]
    parts += [list(columns)] if len(columns) > 1 else []
    names += [", ".join(names)] if len(columns) > 1 else []
    if complete and whole is not None:
        parts = parts[:-1]
    found = [
        _attribute(name, {column: columns[column] for column in part}, known, weights)
        for name, part in zip(names, parts, strict=False)
    ]
    return [*found, Attribute(names[-1], slice(None), whole)] if complete and whole is not None else found


def _known(name: Any, values: Any, n_rows: int) -> AnyArray:
    """Whether the label of each row is there, (n_rows,)."""
    require_one_per_row(len(values), n_rows, "sensitive_features")
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not any(map(is_missing, set(values))):  # few of them are looked at where labels repeat
        return np.ones(n_rows, bool)
    known = np.array([not is_missing(value) for value in values], dtype=bool)
    if not known.any():
        raise ValueError(f"sensitive_features is missing in every row of {name!r}: pass some that are known.")
    return known


def _attribute(
    name: str, columns: dict[Any, Any], known: dict[Any, AnyArray], weights: FloatArray | None
) -> Attribute:
    """The combinations of some columns, in the rows where all of them are known."""
    there = np.logical_and.reduce([known[column] for column in columns])
    rows = np.flatnonzero(there)
    if not len(rows):
        raise ValueError(f"No row has a group for {name}: pass some where all columns are known.")
    parts = [read_groups([values[row] for row in rows], len(rows)) for values in columns.values()]
    groups = combine_groups(parts)
    members = Membership(groups.labels, groups.codes, weights=None if weights is None else weights[rows])
    return Attribute(name, slice(None) if there.all() else rows, members.require_rows())
