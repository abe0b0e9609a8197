"""Attributes as published audits tell them: each on its own, and then their combinations."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand._utils.labels import _columns
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.metrics.membership import Membership

Known: TypeAlias = tuple[AnyArray | slice, Membership]  # rows whose group is known, and these as members


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """The groups of one attribute, for the rows where it is known."""

    name: str
    rows: AnyArray | slice  # whose group is known
    members: Membership  # of these rows


def read_attributes(
    sensitive_features: Any, n_rows: int, weights: FloatArray | None = None, together: Known | None = None
) -> list[Attribute]:
    """Each column of labels, then their combinations; one table of probabilities stays one.

    `together` is what `Membership.read_known` makes of the same, where that was asked for before.

    >>> [each.members.labels for each in read_attributes([["f", 1], ["m", 0], [None, 1]], 3)]
    [('f', 'm'), (0, 1), (('f', 1), ('m', 0))]
    """
    rows, members = together or Membership.read_known(sensitive_features, n_rows, weights)
    if isinstance(sensitive_features, Membership) or members.shares is not None:
        return [Attribute("", rows, members)]
    columns = _columns(sensitive_features, "sensitive_features")
    if len(columns) == 1:
        (name,) = columns
        named = name if isinstance(name, str) else getattr(sensitive_features, "name", None)  # of a series
        return [Attribute(str(named or ""), rows, members)]
    names = [name if isinstance(name, str) else f"column {place}" for place, name in enumerate(columns)]
    found = [
        Attribute(name, *Membership.read_known(list(values), n_rows, weights))
        for name, values in zip(names, columns.values(), strict=True)
    ]
    return [*found, Attribute(", ".join(names), rows, members)]
