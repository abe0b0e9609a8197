"""Which rows are looked at where all rows are too many: a sample that has enough of every group."""

import numpy as np

from evenhand._utils.typing import IntArray

MOST_ROWS = 20_000  # rows that are held in memory at once; their sampling noise is about 0.006
# Rows on which maps of the models are tested: at `epsilon=0` an error of the group model shows in full, and a
# distance of 0.005 cannot be separated from the noise of fewer rows.
MOST_MAP_ROWS = 100_000
LEAST_OF_KIND = 200  # rows of each group, or group and outcome, that has as many


def sample_places(kinds: IntArray, most: int = MOST_ROWS, seed: int = 0) -> IntArray:
    """Places of all rows or, of many, of a sample of `most`, with more of a rare kind than its share.

    >>> sample_places(np.array([0, 1, 0]))
    array([0, 1, 2])
    """
    n_rows = len(kinds)
    if n_rows <= most:
        return np.arange(n_rows)
    shuffled = np.random.default_rng(seed).permutation(n_rows)
    by_kind = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    starts = np.cumsum(np.bincount(kinds)) - np.bincount(kinds)
    rank = np.empty(n_rows, np.int64)  # of a row among those of its kind
    rank[by_kind] = np.arange(n_rows) - starts[kinds[by_kind]]
    chosen = rank < LEAST_OF_KIND
    chosen[shuffled[:most]] = True
    return np.flatnonzero(chosen)
