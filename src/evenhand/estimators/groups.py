"""Which groups of the labelled rows a model is fitted for."""

from numbers import Integral

from evenhand._utils.labels import OTHER, Groups, sorted_labels

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
        named = ", ".join(f"{label!r} ({small[label]} rows)" for label in sorted_labels(small))
        raise ValueError(
            f"sensitive_features has groups of fewer than min_group_size={min_group_size} rows: {named}. "
            'Join them with others (small_groups="merge" does), collect more rows, or lower min_group_size.'
        )
    if len(groups.labels) < 2:
        named = f"all {int(groups.known.sum())} sample(s) are in group {groups.labels[0]!r}"
        raise ValueError(f"sensitive_features needs two groups or more: {named}.")
    return groups


def _small_groups(groups: Groups, smallest: int) -> dict[object, int]:
    sizes = zip(groups.labels, groups.sizes().tolist(), strict=True)
    return {label: size for label, size in sizes if size < smallest}
