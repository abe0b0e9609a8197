"""Softmax policies over blocks of rows: moments, means, quantiles, pmf.

The policy of row i is `softmax_l(sum_k loadings[l, k] * design[k, i] + offset[l])`, with logits in
units of log 2, so that the exponential is a shift of the exponent bits and one polynomial.
"""

from typing import NamedTuple

import numpy as np

from evenhand._kernels.compiling import njit
from evenhand._kernels.exponential import exp2_block_into
from evenhand._utils.typing import AnyArray, FloatArray, IntArray

LANES = 64  # rows worked on side by side: measured best for float64, near best for float32
FLUSH_BLOCKS = 64  # blocks summed in working precision before they are added in float64
LOG_2 = 0.6931471805599453
LOWEST = -3e38  # below any logit, and finite in float32: fast maths assumes that nothing is infinite

_VECTORISE = {"nogil": True, "cache": True, "fastmath": True, "error_model": "numpy"}
_PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}


@njit(**_VECTORISE)
def _logits_into(logits, top, lanes, loadings, offset):
    """Fill `logits[l, r]` and the running maximum `top[r]`."""
    n_atoms, n_features = loadings.shape
    for atom in range(n_atoms):
        row = logits[atom]
        bias = offset[atom]
        if n_features == 2:  # two groups: one pass instead of three
            first, second = loadings[atom, 0], loadings[atom, 1]
            x, y = lanes[0], lanes[1]
            for r in range(LANES):
                value = bias + first * x[r] + second * y[r]
                row[r] = value
                top[r] = max(top[r], value)
            continue
        for r in range(LANES):
            row[r] = bias
        for k in range(n_features):
            loading = loadings[atom, k]
            x = lanes[k]
            for r in range(LANES):
                row[r] += loading * x[r]
        for r in range(LANES):
            top[r] = max(top[r], row[r])


@njit(**_PLAIN)
def softmax_block_into(scratch, design, loadings, offset, start, size):
    """Unnormalised policy of rows `start : start + size` in `scratch.logits`, its sum in `scratch.total`."""
    logits, top, total, lanes = scratch.logits, scratch.top, scratch.total, scratch.lanes
    for k in range(lanes.shape[0]):
        for r in range(size):
            lanes[k, r] = design[k, start + r]
    for r in range(LANES):
        top[r] = LOWEST
        total[r] = 0
    _logits_into(logits, top, lanes, loadings, offset)
    exp2_block_into(logits, total, top, scratch.exponents, scratch.scales)


@njit(**_VECTORISE)
def _add_moments_into(sums, coefficients, policy):
    """Add `coefficients[k, r] * policy[l, r]` to `sums[k, l, r]`."""
    for k in range(sums.shape[0]):
        c = coefficients[k]
        for atom in range(policy.shape[0]):
            row, s = policy[atom], sums[k, atom]
            for r in range(LANES):
                s[r] += c[r] * row[r]


@njit(**_PLAIN)
def _flush_into(out, sums):
    """Add the lanes of `sums` to `out` in float64 and clear them."""
    for k in range(sums.shape[0]):
        for atom in range(sums.shape[1]):
            acc = 0.0
            for r in range(LANES):
                acc += sums[k, atom, r]
                sums[k, atom, r] = 0
            out[k, atom] += acc


@njit(**_PLAIN)
def _count_invalid(total, size, n_atoms):
    """Count invalid rows: the largest term is 1, so that `total` lies between 1 and `n_atoms`."""
    n_invalid = 0
    for r in range(size):
        n_invalid += not (0.5 < total[r] < 2.0 * n_atoms)  # false for NaN, too
    return n_invalid


class Scratch(NamedTuple):
    """Memory of one call, made outside of the compiled code, where every allocation costs compile time."""

    logits: AnyArray  # (n_atoms, LANES)
    top: AnyArray  # (LANES,), as are the next three
    total: AnyArray
    exponents: AnyArray  # integers
    scales: AnyArray  # the same bits as floats
    lanes: AnyArray  # (n_features, LANES)


def scratch_for(design: AnyArray, n_atoms: int) -> Scratch:
    """Scratch for rows of this design."""
    floats = np.zeros((n_atoms + len(design) + 2, LANES), design.dtype)
    exponents = np.empty(LANES, np.int32 if design.dtype == np.float32 else np.int64)
    top, total, lanes = floats[n_atoms], floats[n_atoms + 1], floats[n_atoms + 2 :]
    return Scratch(floats[:n_atoms], top, total, exponents, exponents.view(design.dtype), lanes)


def moments(
    design: AnyArray,
    weights: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    n_moments: int,
    start: int,
    stop: int,
) -> tuple[float, FloatArray, float]:
    """Weighted log-sum-exp and moments of the policy over rows `start : stop`.

    Returns `sum_i w_i * log2sumexp2(logits_i)`; `sum_i w_i * design[k, i] * policy_i[l]` for the first
    `n_moments` features, shape (n_moments, n_atoms); and `sum_i w_i * max_l logits_i[l]`.
    """
    n_atoms = len(loadings)
    out = np.zeros((n_moments, n_atoms))
    sums = np.zeros((n_moments, n_atoms, LANES), design.dtype)
    coefficients = np.zeros((n_moments, LANES), design.dtype)
    scratch = scratch_for(design, n_atoms)
    value, peak = _moments_into(
        out, sums, coefficients, scratch, design, weights, loadings, offset, start, stop
    )
    return value, out, peak


@njit(**_PLAIN)
def _moments_into(out, sums, coefficients, scratch, design, weights, loadings, offset, start, stop):
    top, total, lanes = scratch.top, scratch.total, scratch.lanes
    value = 0.0
    peak = 0.0
    pending = 0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, size)
        for r in range(LANES):
            weight = weights[block + r] if r < size else 0.0
            if r < size:
                value += weight * (np.log2(total[r]) + top[r])
                peak += weight * top[r]
            for k in range(coefficients.shape[0]):
                coefficients[k, r] = weight * lanes[k, r] / total[r]
        _add_moments_into(sums, coefficients, scratch.logits)
        pending += 1
        if pending == FLUSH_BLOCKS:
            _flush_into(out, sums)
            pending = 0
    _flush_into(out, sums)
    return value, peak


@njit(**_VECTORISE)
def _mean_into(mean, policy, atoms):
    """Unnormalised mean of each lane."""
    for r in range(LANES):
        mean[r] = 0
    for atom in range(policy.shape[0]):
        row, y = policy[atom], atoms[atom]
        for r in range(LANES):
            mean[r] += y * row[r]


def means_into(
    out: FloatArray,
    design: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    atoms: AnyArray,
    start: int,
    stop: int,
) -> int:
    """Mean of the policy of each row in `start : stop`; returns the number of invalid rows."""
    mean, scratch = np.empty(LANES, design.dtype), scratch_for(design, len(loadings))
    return int(_means_into(out, mean, scratch, design, loadings, offset, atoms, start, stop))


@njit(**_PLAIN)
def _means_into(out, mean, scratch, design, loadings, offset, atoms, start, stop):
    n_invalid = 0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, size)
        n_invalid += _count_invalid(scratch.total, size, loadings.shape[0])
        _mean_into(mean, scratch.logits, atoms)
        for r in range(size):
            out[block + r] = mean[r] / scratch.total[r]
    return n_invalid


@njit(**_VECTORISE)
def _count_below_into(count, running, policy, threshold):
    """Number of atoms whose cumulated (unnormalised) mass stays below the lane's threshold."""
    for r in range(LANES):
        count[r] = 0
        running[r] = 0
    for atom in range(policy.shape[0]):
        row = policy[atom]
        for r in range(LANES):
            running[r] += row[r]
            count[r] += running[r] < threshold[r]


def quantiles_into(
    out: IntArray,
    levels: AnyArray,
    design: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    start: int,
    stop: int,
) -> int:
    """Index of the smallest atom whose cumulated probability reaches `levels[i]`.

    Returns the number of invalid rows, whose probabilities are not finite or do not sum to one.
    """
    running, threshold = np.zeros((2, LANES), design.dtype)
    count, scratch = np.empty(LANES, np.int64), scratch_for(design, len(loadings))
    memory = (count, running, threshold, scratch)
    return int(_quantiles_into(out, levels, *memory, design, loadings, offset, start, stop))


@njit(**_PLAIN)
def _quantiles_into(out, levels, count, running, threshold, scratch, design, loadings, offset, start, stop):
    n_invalid = 0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, size)
        n_invalid += _count_invalid(scratch.total, size, loadings.shape[0])
        for r in range(size):
            threshold[r] = levels[block + r] * scratch.total[r]
        _count_below_into(count, running, scratch.logits, threshold)
        for r in range(size):
            out[block + r] = min(count[r], loadings.shape[0] - 1)
    return n_invalid


def pmf_into(
    out: FloatArray, design: AnyArray, loadings: AnyArray, offset: AnyArray, start: int, stop: int
) -> int:
    """Policy of each row in `start : stop`, one row of `out` each; returns the number of invalid rows."""
    return int(_pmf_into(out, scratch_for(design, len(loadings)), design, loadings, offset, start, stop))


@njit(**_PLAIN)
def _pmf_into(out, scratch, design, loadings, offset, start, stop):
    n_invalid = 0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(scratch, design, loadings, offset, block, size)
        n_invalid += _count_invalid(scratch.total, size, loadings.shape[0])
        for r in range(size):
            for atom in range(out.shape[1]):
                out[block + r, atom] = scratch.logits[atom, r] / scratch.total[r]
    return n_invalid
