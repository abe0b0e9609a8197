"""Folds for cross-fitting, as a fold number for each row."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, IntArray
from evenhand.data.draws import RandomState, key_from
from evenhand.data.groups import PAIR

DEFAULT_FOLDS = 5


def fold_seed(random_state: RandomState) -> int:
    """Return the seed of the folds; for None it is always the same."""
    return 0 if random_state is None else int(key_from(random_state)[0] >> np.uint64(32))


def make_folds(
    cv: Any, X: Any, used: AnyArray, attributes: Sequence[Groups], codes: IntArray, seed: int
) -> IntArray:
    """Return the fold number of each `used` row of X, (n_used,).

    Every group has rows outside of each fold. `attributes` and `codes`, by which the folds are stratified,
    have the used rows only. A splitter from the user receives all rows.
    """
    if cv is None or isinstance(cv, int | np.integer):
        smallest = min([len(codes), *(int(groups.sizes().min()) for groups in attributes)])
        n_folds = _number_of_folds(cv, smallest)
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        codes = pool_rare(codes, n_folds)
        tests = [test for _, test in splitter.split(codes, codes)]
    else:
        of_all = np.zeros(len(used), np.int64)
        of_all[used] = codes
        position = np.cumsum(used) - 1
        splits = [np.asarray(test) for _, test in check_cv(cv).split(X, of_all)]
        tests = [position[test[used[test]]] for test in splits]
    scored = np.concatenate(tests)
    if len(scored) != len(codes) or len(np.unique(scored)) != len(codes):
        raise ValueError(
            f"cv must score every row exactly once: it scores {len(np.unique(scored))} of {len(codes)} rows, "
            f"{len(scored)} times in all. Use a splitter such as StratifiedKFold."
        )
    fold = np.empty(len(codes), np.int64)
    for number, test in enumerate(tests):
        fold[test] = number
    for groups in attributes:
        require_groups(groups, rows_of_folds(fold))
    return fold


def rows_of_folds(fold: IntArray) -> list[IntArray]:
    """Return the positions of the rows of each fold."""
    return [np.flatnonzero(fold == number) for number in range(int(fold.max()) + 1)]


def require_groups(groups: Groups, folds: Sequence[IntArray]) -> None:
    """Check that every group has rows outside of each fold; otherwise a model would never predict it."""
    for number, rows in enumerate(folds):
        rest = np.ones(len(groups.codes), bool)
        rest[rows] = False
        absent = np.flatnonzero(groups.sizes(rest) == 0)
        if len(absent):
            way_out = "Use fewer folds, or cv=None for folds stratified by group."
            if groups.kind == PAIR:
                way_out = (
                    "Use fewer folds, cv=None for folds stratified by class and group, or multiply two "
                    'models with joint="product".'
                )
            raise ValueError(
                f"cv leaves no row of {groups.kind} {groups.labels[absent[0]]!r} to learn from in fold "
                f"{number}. {way_out}"
            )


def _number_of_folds(cv: Any, smallest: int) -> int:
    n_folds = max(2, min(DEFAULT_FOLDS, smallest)) if cv is None else int(cv)
    if n_folds < 2 or n_folds > smallest:
        raise ValueError(
            f"cv must be at least 2 and at most the size of the smallest group, {smallest}: got {n_folds}."
        )
    return n_folds


def pool_rare(codes: IntArray, n_folds: int) -> IntArray:
    """Pool rare codes, if needed with the most common one, so that each code has a row for every fold."""
    counts = np.bincount(codes)
    rare = counts[codes] < n_folds
    if not rare.any():
        return codes
    pool = len(counts) if rare.sum() >= n_folds else int(counts.argmax())
    return np.where(rare, pool, codes)
