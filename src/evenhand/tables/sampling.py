"""Samples of tables of numbers that do not depend on how the table is cut into parts.

Where rows have an order, a sample is one row at random from each of equal stretches. Where they have none (a
shuffle of Spark's puts them in another order every time), the rows themselves say whether they are in it: a
hash of a row's own numbers is a uniform number, and rows below a share are taken. Copies of a row are taken
together, and kept as one row with the weight of all.
"""

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.data.draws import uniforms_from_rows
from evenhand.dual.rows import MemoryRows
from evenhand.tables.numbers import Layout

KEY = np.array([0x6576656E68616E64, 0x73616D706C652031], np.uint64)  # not that of the draws
LEAST_PART = 1.0 / 16.0  # of all rows, in a sample for a Hessian; measured: 10^7 rows need two passes less


def places_of(size: int, n_rows: int) -> IntArray:
    """The same `size` of `n_rows` places every time, in order: one from each of `size` equal stretches."""
    steps = np.arange(size) + np.random.default_rng(size).random(size)
    return np.minimum((steps * (n_rows / size)).astype(np.int64), n_rows - 1)


def hashed(table: FloatArray, layout: Layout, lowest: float, highest: float) -> FloatArray:
    """A uniform number for each row, (n_rows,); scores are hashed by their place from lowest to highest."""
    scores, proba = layout.split(table)
    if layout.n_classes is None:
        width = highest - lowest
        scores = (scores - lowest) / width if 0.0 < width < np.inf else np.zeros(len(scores))
    return uniforms_from_rows(np.ascontiguousarray(scores), np.ascontiguousarray(proba), KEY)


def merge_copies(keyed: FloatArray) -> FloatArray:
    """Rows (key, numbers, count) in the order of their keys, equal ones as one with the sum of counts.

    >>> merge_copies(np.array([[0.3, 7.0, 1.0], [0.1, 5.0, 2.0], [0.3, 7.0, 4.0]]))
    array([[0.1, 5. , 2. ],
           [0.3, 7. , 5. ]])
    """
    keyed = keyed[np.argsort(keyed[:, 0], kind="stable")]
    if not (keyed[1:, 0] == keyed[:-1, 0]).any():
        return keyed
    numbers = keyed[:, :-1]
    order = np.lexsort(numbers.T[::-1])
    keyed, numbers = keyed[order], numbers[order]
    first = np.append(True, (numbers[1:] != numbers[:-1]).any(axis=1))
    merged: FloatArray = keyed[first]
    merged[:, -1] = np.add.reduceat(keyed[:, -1], np.flatnonzero(first))
    return merged


def as_table(keyed: FloatArray) -> FloatArray:
    """Merged rows as a table of numbers: the weight of a row is that of all its copies."""
    table = keyed[:, 1:-1].copy()
    table[:, -1] *= keyed[:, -1]
    return table


def sample_of_pool(pool: MemoryRows, size: int, mean: FloatArray, n_rows: int) -> MemoryRows:
    """At least `size` rows of a pool that has as many, the same every time.

    They get the mean imbalance of all `n_rows` rows, (n_kept,). A Hessian of a small part of the rows costs
    next to nothing beside a pass over all of them, and a better one saves passes: so it is no smaller part
    than `LEAST_PART`.
    """
    size = max(size, min(int(LEAST_PART * n_rows), pool.n_rows))
    places = np.random.default_rng(size).choice(pool.n_rows, size, replace=False)
    part = pool.take(np.sort(places))
    weights = part.weights / part.weights.sum()
    kept = part.design[: pool.n_kept]
    kept += (mean - kept @ weights)[:, None]
    return MemoryRows(part.design, part.constant, weights, pool.n_kept)
