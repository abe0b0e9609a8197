"""Softmax policies over blocks of rows: moments, means, quantiles, pmf.

The policy of row i is `softmax_l(sum_k loadings[l, k] * design[k, i] + offset[l])`, with logits in
units of log 2, so that the exponential is a shift of the exponent bits and one polynomial.
"""

import numpy as np
from numba import njit

from evenhand._kernels.exponential import exp2_block_into, exponent_bits

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
def softmax_block_into(logits, top, total, exponents, scales, lanes, design, loadings, offset, start, size):
    """Unnormalised policy of rows `start : start + size` in `logits`, its sum in `total`."""
    for k in range(lanes.shape[0]):
        for r in range(size):
            lanes[k, r] = design[k, start + r]
    for r in range(LANES):
        top[r] = LOWEST
        total[r] = 0
    _logits_into(logits, top, lanes, loadings, offset)
    exp2_block_into(logits, total, top, exponents, scales)


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
def workspace(n_atoms, n_features, like):
    """Scratch of one call: logits, maxima, sums, exponents and the same bits as floats, lanes."""
    exponents = exponent_bits(like, LANES)
    # one piece of memory, cut: every kind of allocation is compiled anew for its shape
    floats = np.empty((n_atoms + n_features + 2, LANES), like.dtype)
    lanes = floats[n_atoms + 2 :]
    for k in range(n_features):
        for r in range(LANES):
            lanes[k, r] = 0
    top, total = floats[n_atoms], floats[n_atoms + 1]
    return floats[:n_atoms], top, total, exponents, exponents.view(like.dtype), lanes


@njit(**_PLAIN)
def moments(design, weights, loadings, offset, n_moments, start, stop):
    """Weighted log-sum-exp and moments of the policy over rows `start : stop`.

    Returns `sum_i w_i * log2sumexp2(logits_i)`; `sum_i w_i * design[k, i] * policy_i[l]` for the first
    `n_moments` features, shape (n_moments, n_atoms); and `sum_i w_i * max_l logits_i[l]`.
    """
    n_features = design.shape[0]
    n_atoms = loadings.shape[0]
    logits, top, total, exponents, scales, lanes = workspace(n_atoms, n_features, design)
    coefficients = np.zeros((n_moments, LANES), design.dtype)
    sums = np.zeros((n_moments, n_atoms, LANES), design.dtype)
    out = np.zeros((n_moments, n_atoms))
    value = 0.0
    peak = 0.0
    pending = 0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(
            logits, top, total, exponents, scales, lanes, design, loadings, offset, block, size
        )
        for r in range(LANES):
            weight = weights[block + r] if r < size else 0.0
            if r < size:
                value += weight * (np.log2(total[r]) + top[r])
                peak += weight * top[r]
            for k in range(n_moments):
                coefficients[k, r] = weight * lanes[k, r] / total[r]
        _add_moments_into(sums, coefficients, logits)
        pending += 1
        if pending == FLUSH_BLOCKS:
            _flush_into(out, sums)
            pending = 0
    _flush_into(out, sums)
    return value, out, peak


@njit(**_VECTORISE)
def _mean_into(mean, policy, atoms):
    """Unnormalised mean of each lane."""
    for r in range(LANES):
        mean[r] = 0
    for atom in range(policy.shape[0]):
        row, y = policy[atom], atoms[atom]
        for r in range(LANES):
            mean[r] += y * row[r]


@njit(**_PLAIN)
def means_into(out, design, loadings, offset, atoms, start, stop):
    """Mean of the policy of each row in `start : stop`."""
    n_atoms = loadings.shape[0]
    logits, top, total, exponents, scales, lanes = workspace(n_atoms, design.shape[0], design)
    mean = np.empty(LANES, design.dtype)
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(
            logits, top, total, exponents, scales, lanes, design, loadings, offset, block, size
        )
        _mean_into(mean, logits, atoms)
        for r in range(size):
            out[block + r] = mean[r] / total[r]


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


@njit(**_PLAIN)
def quantiles_into(out, levels, design, loadings, offset, start, stop):
    """Index of the smallest atom whose cumulated probability reaches `levels[i]`."""
    n_atoms = loadings.shape[0]
    logits, top, total, exponents, scales, lanes = workspace(n_atoms, design.shape[0], design)
    count = np.empty(LANES, np.int64)
    running = np.empty(LANES, design.dtype)
    threshold = np.zeros(LANES, design.dtype)
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(
            logits, top, total, exponents, scales, lanes, design, loadings, offset, block, size
        )
        for r in range(size):
            threshold[r] = levels[block + r] * total[r]
        _count_below_into(count, running, logits, threshold)
        for r in range(size):
            out[block + r] = min(count[r], n_atoms - 1)


@njit(**_PLAIN)
def pmf_into(out, design, loadings, offset, start, stop):
    """Policy of each row in `start : stop`, one row of `out` each."""
    n_atoms = loadings.shape[0]
    logits, top, total, exponents, scales, lanes = workspace(n_atoms, design.shape[0], design)
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        softmax_block_into(
            logits, top, total, exponents, scales, lanes, design, loadings, offset, block, size
        )
        for r in range(size):
            for atom in range(n_atoms):
                out[block + r, atom] = logits[atom, r] / total[r]
