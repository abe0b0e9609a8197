"""Read and check the groups for which a model is fitted."""

from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from evenhand._utils.labels import (
    OTHER,
    Groups,
    combine_groups,
    match_groups,
    read_one_sensitive,
    read_sensitive,
    sorted_labels,
)
from evenhand._utils.text import some_of, some_words
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels, Rows, as_floats, check_weights
from evenhand._utils.warn import warn_user
from evenhand.exceptions import NumbersAsGroupsWarning

MOST_GROUPS = 50  # with more groups, most of them small, the labels are probably numbers or names
MANY_NUMBERS = 20  # so many numeric labels, not counting from 0 or 1, are probably ages or years
RANGES = "Convert numbers to ranges first, for example with pandas.cut(age, [0, 30, 60, 120])."
ATTRIBUTES = ("combined", "separate")
PAIR = "(class, group)"  # kind of groups that are pairs of class and group


def check_small_groups(small_groups: str) -> bool:
    """Check `small_groups`, and return whether small groups are merged."""
    if small_groups not in ("error", "merge"):
        raise ValueError(f'small_groups must be "error" or "merge": got {small_groups!r}.')
    return small_groups == "merge"


def check_groups(groups: Groups, *, min_group_size: int = 1, merge_small: bool = False) -> Groups:
    """Check the sizes of groups; groups that are too small are merged, or an error is raised.

    >>> from evenhand._utils.labels import read_groups
    >>> check_groups(read_groups(["b", "a", "b"], 3)).labels
    ('a', 'b')
    """
    if not isinstance(min_group_size, Integral) or min_group_size < 1:
        raise ValueError(f"min_group_size must be a positive integer: got {min_group_size!r}.")
    groups = groups.settled()
    small = _small_groups(groups, min_group_size)
    if small and merge_small:
        groups = groups.relabel([OTHER if label in small else label for label in groups.labels])
        small = _small_groups(groups, min_group_size)
    if small:
        raise ValueError(_too_small(groups, small, min_group_size, merged=merge_small))
    if len(groups.labels) < 2:
        named = f"all {int(groups.known.sum())} sample(s) are in group {groups.labels[0]!r}"
        raise ValueError(f"sensitive_features needs two groups or more: {named}.")
    return groups


def check_attributes(attributes: Iterable[Groups], min_group_size: int, small_groups: str) -> list[Groups]:
    """Check the groups of each attribute."""
    merge = check_small_groups(small_groups)
    return [check_groups(each, min_group_size=min_group_size, merge_small=merge) for each in attributes]


def look_like_a_number(labels: Sequence[object]) -> bool:
    """Whether labels are many numbers that are not codes counting from 0 or 1.

    >>> look_like_a_number(range(18, 63)), look_like_a_number(range(45)), look_like_a_number([1900, 2000])
    (True, False, False)
    """
    if len(labels) < MANY_NUMBERS or any(isinstance(label, bool) for label in labels):
        return False
    if not all(isinstance(label, Real) for label in labels):
        return False
    return list(labels) not in (list(range(len(labels))), list(range(1, len(labels) + 1)))


def warn_of_numbers(attributes: Sequence[Groups]) -> None:
    """Warn if every value of a column that looks numeric became a separate group."""
    for groups in attributes:
        if look_like_a_number(groups.labels):
            warn_user(f"sensitive_features {numbers_text(groups.labels)}", NumbersAsGroupsWarning)


def numbers_text(labels: Sequence[object]) -> str:
    """Return the text of a warning about numeric groups, and how to fix them."""
    return (
        f"has {len(labels)} different numbers ({some_of(labels, 3)}), and each of them is a separate group. "
        f"They look like a numeric variable such as age, and not like labels. {RANGES}"
    )


def _too_small(groups: Groups, small: dict[object, int], smallest: int, *, merged: bool) -> str:
    """Return an error message about groups that are too small, and how to fix it."""
    n_rows, n_groups = len(groups.codes), len(groups.labels)
    if n_groups > MOST_GROUPS and len(small) > n_groups / 2 and not merged:
        return (
            f"sensitive_features has {n_groups} different values in {n_rows} rows "
            f"({some_of(groups.labels, 3)}). They look like numbers or names, and not like groups. {RANGES}"
        )
    if merged:
        return (
            f"Groups of fewer than min_group_size={smallest} rows were merged, but the rows are still too "
            f"few: {OTHER!r} ({small.get(OTHER, 0)} rows). Join them with a larger group, collect more rows, "
            "or lower min_group_size."
        )
    named = some_words(f"{label!r} ({small[label]} rows)" for label in sorted_labels(small))
    return (
        f"sensitive_features has groups of fewer than min_group_size={smallest} rows: {named}. "
        'Join them with others (small_groups="merge" does), collect more rows, or lower min_group_size.'
    )


def _small_groups(groups: Groups, smallest: int) -> dict[object, int]:
    sizes = zip(groups.labels, groups.sizes().tolist(), strict=True)
    return {label: size for label, size in sizes if size < smallest}


def attribute_columns(
    sensitive_features: Any,
    n_rows: int,
    attributes: str,
    name: str = "sensitive_features",
    known: Labels | None = None,
) -> dict[Hashable, Groups]:
    """Return the groups of each attribute by name: one per column, or one for the combined columns.

    Groups can be unknown, or given as probabilities, which form a single attribute. With `known`, the columns
    of the fit, the columns are put in this order; if there were several, they must be labels.
    """
    if attributes not in ATTRIBUTES:
        raise ValueError(f'attributes must be "combined" or "separate": got {attributes!r}.')
    columns = read_sensitive(sensitive_features, n_rows, name, soft=known is None or len(known) == 1)
    if known is not None:
        columns = _in_order_of(known, columns, name)
    if attributes == "separate" or len(columns) == 1:
        return columns
    return {tuple(columns): combine_groups(list(columns.values()))}


def _in_order_of(known: Labels, columns: dict[Hashable, Groups], name: str) -> dict[Hashable, Groups]:
    """Match columns by name, or by position if names are missing or there is only one column."""
    if set(columns) == set(known):
        return {column: columns[column] for column in known}
    unnamed = set(range(len(known)))
    if len(known) == 1 or len(columns) != len(known) or unnamed in (set(columns), set(known)):
        return columns
    raise ValueError(
        f"{name} has the columns {', '.join(map(str, columns))}, but the fit had "
        f"{', '.join(map(str, known))}."
    )


def encode_attributes(
    sensitive_features: Any, n_rows: int, strata: Any, name: str, *, partial: bool = False
) -> list[Groups]:
    """Match groups with those of the fit, for each attribute; with `partial` some can be unknown."""
    attributes = "separate" if strata.separate else "combined"
    columns = attribute_columns(sensitive_features, n_rows, attributes, name, strata.sensitive_columns)
    if len(columns) != len(strata.names):
        raise ValueError(
            f"{name} has {len(columns)} columns, but the fit had {len(strata.names)}: "
            f"{', '.join(map(str, strata.names))}."
        )
    if not partial:
        require_known(next(iter(columns.values())), name)
    return [
        match_groups(groups.settled(), labels, name)
        for groups, labels in zip(columns.values(), strata.groups, strict=True)
    ]


def require_known(groups: Groups, name: str) -> None:
    """Check that every row has a known group."""
    if not groups.known.all():
        raise ValueError(
            f"{name} is missing in {int((~groups.known).sum())} rows, the first of them row "
            f"{int(groups.known.argmin())}. Every row needs a group here: leave these rows out."
        )


def read_known_groups(rows: Rows, sensitive_features: Any, sample_weight: Any, least: int) -> FloatArray:
    """Return the groups of scored rows as zeros and ones, (n_rows, n_groups).

    A row with unknown group has only zeros. `rows` are the rows of positive `sample_weight`, and
    `sensitive_features` has all rows that the user passed. Each group needs at least `least` rows.
    """
    used = np.ones(len(rows.scores), bool)
    if sample_weight is not None:
        used = check_weights(sample_weight, np.shape(sample_weight)[0]) > 0
    known = (_known_groups if rows.strata is None else _known_columns)(rows, sensitive_features, len(used))[
        used
    ]
    for group, count in zip(rows.groups, known.sum(axis=0), strict=True):
        if count < least:
            raise ValueError(
                f"Group {group!r} has {int(count)} labeled rows, too few for an out-of-sample estimate: pass "
                "more, or confidence=None to apply epsilon to the rows of the fit only."
            )
    return known


def _known_groups(rows: Rows, sensitive_features: Any, n_rows: int) -> FloatArray:
    groups = read_one_sensitive(sensitive_features, n_rows).settled()
    if groups.proba is not None:
        raise ValueError(
            "sensitive_features must be labels here, or None for unknown groups: probabilities of groups are "
            "what group_proba is for."
        )
    return match_groups(groups, rows.groups, "sensitive_features").one_hot()


def _known_columns(rows: Rows, sensitive_features: Any, n_rows: int) -> FloatArray:
    known = as_floats(sensitive_features, "sensitive_features")
    if known.shape != (n_rows, len(rows.groups)) or not np.isin(known, (0.0, 1.0)).all():
        raise ValueError(
            "With strata, sensitive_features must have zeros and ones that indicate the columns of "
            f"group_proba to which each row belongs, of shape {(n_rows, len(rows.groups))}: got shape "
            f"{known.shape}."
        )
    return known


def require_same_order(X: Any, labels: Any, name: str) -> None:
    """Check that `labels` does not have the index of X in another order, which would be ambiguous."""
    rows: Any = getattr(X, "index", None)
    other: Any = getattr(labels, "index", None)
    if not (hasattr(rows, "equals") and hasattr(other, "equals")) or len(rows) != len(other):
        return
    if rows.equals(other) or not (rows.is_unique and other.is_unique and rows.isin(other).all()):
        return
    raise ValueError(
        f"{name} has the row names (index) of X in another order. Rows are matched by position: pass "
        f"{name}.loc[X.index] to match rows by name, or {name}.to_numpy() if the positions are correct."
    )
