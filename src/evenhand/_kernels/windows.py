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
    ends = np.empty((2, LANES), scratch.exponents.dtype)
    filled = _windows_into(firsts, sizes, values, ends, scratch, design, loadings, offset, start, stop)
    return firsts, sizes, values[:filled].copy()


@njit(**_PLAIN)
def _windows_into(firsts, sizes, values, ends, scratch, design, loadings, offset, start, stop):
    logits, total = scratch.logits, scratch.total
    filled = 0
    for block in range(start, stop, LANES):
        n_lanes = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, n_lanes)
        _ends_into(ends[0], ends[1], scratch.top, logits, total)
        for r in range(n_lanes):
            low, high = ends[0, r], ends[1, r]
            for atom in range(low, high):
                values[filled] = logits[atom, r] / total[r]
                filled += 1
            firsts[block - start + r] = low
            sizes[block - start + r] = high - low
    return filled


@njit(**_VECTORISE)
def _ends_into(low, high, least, logits, total):
    """First atom of every lane's window, and the one behind its last; `least` is written into."""
    n_atoms = len(logits)
    for r in range(LANES):
        low[r], high[r], least[r] = n_atoms, 0, NEGLIGIBLE * total[r]
    for atom in range(n_atoms):
        row = logits[atom]
        for r in range(LANES):
            high[r] = atom + 1 if row[r] > least[r] else high[r]
        last = n_atoms - 1 - atom
        row = logits[last]
        for r in range(LANES):
            low[r] = last if row[r] > least[r] else low[r]


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
    flat = blocks.reshape(len(blocks), -1)  # offsets and pairs in one row: short loops would not vectorise
    products, ahead = np.empty(blocks.shape[2]), np.empty(flat.shape[1])
    _add_blocks_into(flat, products, ahead, imbalance, weights, firsts, stops, values, order, cumulative)


@njit(**_PLAIN)
def _add_blocks_into(blocks, products, ahead, imbalance, weights, firsts, stops, values, order, cumulative):
    n_groups, n_pairs = imbalance.shape[1], len(products)
    for i in order:
        low = firsts[i]
        row = values[(stops[i - 1] if i > 0 else 0) : stops[i]]
        size = len(row) - cumulative
        if len(row) == 1:
            continue
        pair = 0
        for s in range(n_groups):
            weighted = weights[i] * imbalance[i, s]
            for r in range(s, n_groups):
                products[pair] = weighted * imbalance[i, r]
                pair += 1
        _ahead_into(ahead, row, size, products, cumulative)
        below = 0.0
        for a in range(size):
            below += row[a]
            from_here = ahead[a * n_pairs : size * n_pairs]
            if not cumulative:  # of an atom with itself: p (1 - p), and not -p p
                _add_into(from_here[:n_pairs], 1.0, products)
            _add_into(blocks[low + a], below if cumulative else row[a], from_here)


@njit(**_PLAIN)
def _ahead_into(ahead, row, size, products, cumulative):
    """`g(b) t_s t_r` for all atoms b of a window and all pairs, where `Cov(a, b) = f(a) g(b)` for a < b."""
    n_pairs, up_to = len(products), 0.0
    for b in range(size):
        up_to += row[b]
        _scale_into(ahead[b * n_pairs :], 1.0 - up_to if cumulative else -row[b], products)


@njit(**_VECTORISE)
def _scale_into(target, scale, products):
    for k in range(len(products)):
        target[k] = scale * products[k]


@njit(**_VECTORISE)
def _add_into(target, scale, products):
    for k in range(len(products)):
        target[k] += scale * products[k]


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
