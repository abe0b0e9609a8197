"""Second moments of sharp policies: each row touches the few atoms that it may be given, and no others.

A row's window is the shortest run of atoms that holds all of its probabilities worth counting. Blocks are
filled inside windows alone, so that they cost rows x window^2 x pairs, however many atoms there are.
"""

import numpy as np

from evenhand._kernels.compiling import njit
from evenhand._kernels.softmax import LANES, scratch_for, softmax_block_into
from evenhand._utils.typing import FloatArray, IntArray

NEGLIGIBLE = 1e-8  # probability below which a row is not said to touch an atom

_VECTORISE = {"nogil": True, "cache": True, "fastmath": True, "error_model": "numpy"}
_PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}


def windows(
    design: FloatArray, loadings: FloatArray, offset: FloatArray, start: int, stop: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """First atoms and sizes of the windows of rows `start : stop`, and the probabilities in them."""
    n_rows, n_atoms = stop - start, len(loadings)
    firsts, sizes = np.empty((2, n_rows), np.int64)
    values = np.empty(n_rows * n_atoms)  # the most there can be: what is not touched takes no memory
    scratch = scratch_for(design, n_atoms)
    filled = _windows_into(firsts, sizes, values, scratch, design, loadings, offset, start, stop)
    return firsts, sizes, values[:filled].copy()


@njit(**_PLAIN)
def _windows_into(firsts, sizes, values, scratch, design, loadings, offset, start, stop):
    logits, total, n_atoms = scratch.logits, scratch.total, loadings.shape[0]
    filled = 0
    for block in range(start, stop, LANES):
        n_lanes = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, n_lanes)
        for r in range(n_lanes):
            low, high = n_atoms, 0
            least = NEGLIGIBLE * total[r]
            for atom in range(n_atoms):
                if logits[atom, r] > least:
                    low = min(low, atom)
                    high = atom + 1
            for atom in range(low, high):
                values[filled] = logits[atom, r] / total[r]
                filled += 1
            firsts[block - start + r] = low
            sizes[block - start + r] = high - low
    return filled


@njit(**_VECTORISE)
def _add_into(target, scale, products):
    for k in range(len(products)):
        target[k] += scale * products[k]


def add_blocks_into(
    blocks: FloatArray,
    imbalance: FloatArray,
    weights: FloatArray,
    firsts: IntArray,
    stops: IntArray,
    values: FloatArray,
    order: IntArray,
    cumulative: bool,
) -> None:
    """Add `w t_s t_r Cov_pi(a, a + d)` of some rows to `blocks[a, d]`, for each pair s <= r of imbalances t.

    The covariance is that of `1{Y = atom a}`, or with `cumulative` of `1{Y <= atom a}`. The window of a row
    ends at its entry of `stops` among `values`. In the `order` of their first atoms, rows that follow each
    other fill the same blocks, which then stay in the cache.
    """
    products = np.empty(blocks.shape[2])
    _add_blocks_into(blocks, products, imbalance, weights, firsts, stops, values, order, cumulative)


@njit(**_PLAIN)
def _add_blocks_into(blocks, products, imbalance, weights, firsts, stops, values, order, cumulative):
    n_groups = imbalance.shape[1]
    for i in order:
        low = firsts[i]
        row = values[(stops[i - 1] if i > 0 else 0) : stops[i]]
        size = len(row)
        if size == 1:
            continue
        pair = 0
        for s in range(n_groups):
            weighted = weights[i] * imbalance[i, s]
            for r in range(s, n_groups):
                products[pair] = weighted * imbalance[i, r]
                pair += 1
        if cumulative:
            below = 0.0
            for a in range(size - 1):
                below += row[a]
                up_to = below
                for b in range(a, size - 1):
                    if b > a:
                        up_to += row[b]
                    _add_into(blocks[low + a, b - a], below * (1.0 - up_to), products)
        else:
            for a in range(size):
                _add_into(blocks[low + a, 0], row[a] * (1.0 - row[a]), products)
                for b in range(a + 1, size):
                    _add_into(blocks[low + a, b - a], -row[a] * row[b], products)


def factors(
    weights: FloatArray, stops: IntArray, values: FloatArray, cumulative: bool
) -> tuple[FloatArray, FloatArray]:
    """Two numbers f, g for every atom of the windows, with `w Cov_pi(a, b) = f(a) g(b)` for a < b.

    `Cov(1{Y <= a}, 1{Y <= b}) = P(Y <= a) P(Y > b)`, and of single atoms it is `-P(Y = a) P(Y = b)`.
    """
    left, right = np.empty((2, len(values)))
    _factors_into(left, right, weights, stops, values, cumulative)
    return left, right


@njit(**_PLAIN)
def _factors_into(left, right, weights, stops, values, cumulative):
    begin = 0
    for i in range(len(stops)):
        below = 0.0
        for k in range(begin, stops[i]):
            below += values[k]
            left[k] = weights[i] * (below if cumulative else values[k])
            right[k] = 1.0 - below if cumulative else -values[k]
        begin = stops[i]


def spread(
    factor: FloatArray,
    imbalance: FloatArray,
    firsts: IntArray,
    ends: IntArray,
    begins: IntArray,
    some: IntArray,
    groups: IntArray,
    starts: IntArray,
    low: int,
    high: int,
) -> FloatArray:
    """`factor(a) t_s` of `some` rows, a column for each of the `groups` of the atoms `low : high` in turn.

    The groups of atom a are `groups[starts[a] : starts[a + 1]]`. The factors of a row are those from its
    entry of `begins` on, for atoms from `firsts` up to `ends`.
    """
    out = np.zeros((len(some), starts[high] - starts[low]), factor.dtype)
    _spread_into(out, factor, imbalance, firsts, ends, begins, some, groups, starts, low, high)
    return out


@njit(**_PLAIN)
def _spread_into(out, factor, imbalance, firsts, ends, begins, some, groups, starts, low, high):
    for k in range(len(some)):
        i = some[k]
        imbalances, scales = imbalance[i], factor[begins[i] :]
        for a in range(max(low, firsts[i]), min(high, ends[i])):
            scale, chosen = scales[a - firsts[i]], groups[starts[a] : starts[a + 1]]
            written = out[k, starts[a] - starts[low] :]
            for j in range(len(chosen)):
                written[j] = scale * imbalances[chosen[j]]
