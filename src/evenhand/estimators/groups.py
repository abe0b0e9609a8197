"""Which groups of the labelled rows a model is fitted for."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real

from evenhand._utils.labels import OTHER, Groups, sorted_labels
from evenhand._utils.text import some_of, some_words
from evenhand._utils.warn import warn_user
from evenhand.exceptions import NumbersAsGroupsWarning

MOST_GROUPS = 50  # of which most are small: beyond, labels are taken for numbers or names
MANY_NUMBERS = 20  # groups that are numbers, and no codes: more likely an age or a year than a label
RANGES = (
    "Cut numbers into ranges first, such as pandas.cut(age, [0, 30, 60, 120]), and give every row its range."
)
PAIR = "(class, group)"  # kind of the groups of a model that tells classes apart, too


def check_small_groups(small_groups: str) -> bool:
    """Whether small groups are merged, which the name must say."""
    if small_groups not in ("error", "merge"):
        raise ValueError(f'small_groups must be "error" or "merge": got {small_groups!r}.')
    return small_groups == "merge"


def check_groups(groups: Groups, *, min_group_size: int = 1, merge_small: bool = False) -> Groups:
    """Groups to fit on; too small a group is merged with the others of its kind, or refused by name.

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
    """Groups to fit on, attribute by attribute."""
    merge = check_small_groups(small_groups)
    return [check_groups(each, min_group_size=min_group_size, merge_small=merge) for each in attributes]


def look_like_a_number(labels: Sequence[object]) -> bool:
    """Whether labels are many numbers, and not codes that count from 0 or 1.

    >>> look_like_a_number(range(18, 63)), look_like_a_number(range(45)), look_like_a_number([1900, 2000])
    (True, False, False)
    """
    if len(labels) < MANY_NUMBERS or any(isinstance(label, bool) for label in labels):
        return False
    if not all(isinstance(label, Real) for label in labels):
        return False
    return list(labels) not in (list(range(len(labels))), list(range(1, len(labels) + 1)))


def warn_of_numbers(attributes: Sequence[Groups]) -> None:
    """Warn where every value of what looks like a number became a group of its own."""
    for groups in attributes:
        if look_like_a_number(groups.labels):
            warn_user(f"sensitive_features {numbers_text(groups.labels)}", NumbersAsGroupsWarning)


def numbers_text(labels: Sequence[object]) -> str:
    """What is odd about such groups, and the way out."""
    return (
        f"has {len(labels)} different numbers ({some_of(labels, 3)}), and each is a group of its own: that "
        f"looks like a number such as an age, and not like a label. {RANGES}"
    )


def _too_small(groups: Groups, small: dict[object, int], smallest: int, *, merged: bool) -> str:
    """Which groups are too small, and the way out."""
    n_rows, n_groups = len(groups.codes), len(groups.labels)
    if n_groups > MOST_GROUPS and len(small) > n_groups / 2 and not merged:
        return (
            f"sensitive_features has {n_groups} different values in {n_rows} rows "
            f"({some_of(groups.labels, 3)}): more like a number or a name than a group. {RANGES}"
        )
    if merged:
        return (
            f"Groups of fewer than min_group_size={smallest} rows are merged, and still too few: {OTHER!r} "
            f"({small.get(OTHER, 0)} rows). Join them with a larger group, collect more rows, or lower "
            "min_group_size."
        )
    named = some_words(f"{label!r} ({small[label]} rows)" for label in sorted_labels(small))
    return (
        f"sensitive_features has groups of fewer than min_group_size={smallest} rows: {named}. "
        'Join them with others (small_groups="merge" does), collect more rows, or lower min_group_size.'
    )


def _small_groups(groups: Groups, smallest: int) -> dict[object, int]:
    sizes = zip(groups.labels, groups.sizes().tolist(), strict=True)
    return {label: size for label, size in sizes if size < smallest}
