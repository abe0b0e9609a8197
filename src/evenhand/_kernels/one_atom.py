"""The dual over the multipliers of one atom: a logistic regression, one class against the others, in a box.

`sum_i w_i log(1 + e^(a_i + <x - x_0, b_i>))` with `|x_s| <= h_s`: beta times the dual, where a is the atom's
logit beyond the log-sum-exp of the others and b is beta times the imbalance.
"""

import math

import numpy as np

from evenhand._kernels.compiling import njit
from evenhand._utils.typing import FloatArray

_STEPS = 20
# Where no row holds a multiplier, a move as long as its end meets a slope of so many times the largest that
# may be left.
_AT_LEAST_HELD = 10.0
_LENGTHS = (1.0, 0.3, 0.1)  # of a step
_NEAR = 1e-3  # logits nearer to zero are taken to be this, where they are divided by
_DECREASE = 1e-4  # share of the promise that a step has to gain
_ROUNDING = 1e-14  # of the value: a gain that is none
_AT_END = 1.0 - 1e-12
_SEEN = 1e-6  # curvature of a row that counts in their sum
_RIDGE, _LEAST_CURVATURE = 1e-9, 1e-6  # of the largest curvature: groups may be multiples of one another

_PLAIN = {"nogil": True, "cache": True, "error_model": "numpy"}
_VECTORISE = {**_PLAIN, "fastmath": True}


def lowest_of_atom(
    imbalance: FloatArray,
    weights: FloatArray,
    ahead: FloatArray,
    start: FloatArray,
    ends: FloatArray,
    settled: float,
    enough: float,
) -> FloatArray:
    """The minimiser, by Newton's steps within the box from the start `x_0`.

    It ends where no slope that could be followed is above `settled`, or above `enough` times the largest at
    the start.
    """
    x, n_groups = start.copy(), len(start)
    aheads, shares = np.empty((2, 2, len(ahead)))
    aheads[0] = ahead
    hessian, factor = np.empty((2, n_groups, n_groups))
    vectors = np.empty((4, n_groups))
    held = np.empty(n_groups, np.bool_)
    _lowest_of_atom_into(
        x, aheads, shares, hessian, factor, vectors, held, imbalance, weights, ends, settled, enough
    )
    return x


@njit(**_PLAIN)
def _lowest_of_atom_into(
    x, aheads, shares, hessian, factor, vectors, held, imbalance, weights, ends, settled, enough
):
    slope, move, pull, right = vectors
    now, after = 0, 1
    value = _value_into(shares[now], aheads[now], weights)
    for n_steps in range(_STEPS):
        _slope_into(slope, shares[now], weights, imbalance)
        left = _largest_free(slope, x, ends)
        if n_steps == 0:
            settled = max(settled, enough * left)
        if left <= settled:
            return
        for is_above in (False, True):
            _hessian_into(hessian, aheads[now], shares[now], weights, imbalance, is_above)
            for s in range(len(x)):
                if ends[s] > 0.0:
                    hessian[s, s] += _AT_LEAST_HELD * settled / ends[s]
            _lowest_in_box_into(move, pull, right, held, factor, hessian, slope, x, ends)
            gain = _gain(slope, move)
            length, lower = _along_into(
                aheads[after], shares[after], aheads[now], imbalance, weights, move, value, gain
            )
            if length > 0.0:
                break
        if length == 0.0 or gain <= _ROUNDING * value:
            return
        for s in range(len(x)):
            x[s] = min(max(x[s] + length * move[s], -ends[s]), ends[s])
        value, now, after = lower, after, now


@njit(**_PLAIN)
def _is_held(x, end, slope):
    """Whether a multiplier is at an end that it would like to cross."""
    return (x <= -_AT_END * end and slope >= 0.0) or (x >= _AT_END * end and slope <= 0.0)


@njit(**_PLAIN)
def _largest_free(slope, x, ends):
    """The largest slope that could be followed."""
    left = 0.0
    for s in range(len(x)):
        if not _is_held(x[s], ends[s], slope[s]):
            left = max(left, abs(slope[s]))
    return left


@njit(**_PLAIN)
def _gain(slope, move):
    gain = 0.0
    for s in range(len(slope)):
        gain -= slope[s] * move[s]
    return gain


@njit(**_PLAIN)
def _along_into(raised, share, ahead, imbalance, weights, move, value, gain):
    """The first length of the move that gains what it should, or zero, and the value there."""
    for length in _LENGTHS:
        _rise_into(raised, ahead, imbalance, move, length)
        lower = _value_into(share, raised, weights)
        if lower <= value - _DECREASE * length * gain:
            return length, lower
    return 0.0, value


@njit(**_PLAIN)
def _value_into(share, ahead, weights):
    """The value; the atom's probability in each row is written into `share`."""
    value = 0.0
    for i in range(len(ahead)):
        less_likely = math.exp(-abs(ahead[i]))
        value += weights[i] * (max(ahead[i], 0.0) + math.log1p(less_likely))
        share[i] = (1.0 if ahead[i] > 0.0 else less_likely) / (1.0 + less_likely)
    return value


@njit(**_PLAIN)
def _rise_into(raised, ahead, imbalance, move, length):
    for i in range(len(ahead)):
        rise = 0.0
        for s in range(len(move)):
            rise += imbalance[i, s] * move[s]
        raised[i] = ahead[i] + length * rise


@njit(**_VECTORISE)
def _slope_into(slope, share, weights, imbalance):
    slope[:] = 0.0
    for i in range(len(share)):
        pull = weights[i] * share[i]
        for s in range(len(slope)):
            slope[s] += pull * imbalance[i, s]


@njit(**_VECTORISE)
def _hessian_into(hessian, ahead, share, weights, imbalance, is_above):
    """The lower triangle, or that of a quadratic which is above the function everywhere.

    Rows that are sure either way show nothing in the first, and `tanh(a / 2) / 2a` in the second.
    """
    n_groups = len(hessian)
    hessian[:] = 0.0
    for i in range(len(share)):
        if is_above:
            far = max(abs(ahead[i]), _NEAR)
            curvature = weights[i] * math.tanh(0.5 * far) / (2.0 * far)
        else:
            curvature = weights[i] * share[i] * (1.0 - share[i])
        if curvature > _SEEN * weights[i]:
            for s in range(n_groups):
                scaled = curvature * imbalance[i, s]
                for r in range(s + 1):
                    hessian[s, r] += scaled * imbalance[i, r]
    largest = _LEAST_CURVATURE
    for s in range(n_groups):
        largest = max(largest, hessian[s, s])
    for s in range(n_groups):
        hessian[s, s] += _RIDGE * largest


@njit(**_PLAIN)
def _lowest_in_box_into(move, pull, right, held, factor, hessian, slope, x, ends):
    """`min <g, d> + 1/2 d^T H d` with `|x + d| <= h`, by an active set: the model falls with every step."""
    n_groups = len(x)
    for s in range(n_groups):
        move[s], pull[s], held[s] = 0.0, slope[s], _is_held(x[s], ends[s], slope[s])
    for _ in range(3 * n_groups):
        _solve_free_into(right, factor, hessian, pull, held)
        length, blocking = 1.0, -1
        for s in range(n_groups):
            room = ends[s] - (x[s] + move[s]) if right[s] > 0.0 else ends[s] + (x[s] + move[s])
            if abs(right[s]) * length > room:
                length, blocking = max(room, 0.0) / abs(right[s]), s
        for s in range(n_groups):
            move[s] += length * right[s]
            for r in range(s + 1):
                pull[s] += length * hessian[s, r] * right[r]
            for r in range(s + 1, n_groups):
                pull[s] += length * hessian[r, s] * right[r]
        if blocking >= 0:
            held[blocking] = True
            move[blocking] = math.copysign(ends[blocking], right[blocking]) - x[blocking]
            continue
        is_lowest = True
        for s in range(n_groups):
            if held[s] and not _is_held(x[s] + move[s], ends[s], pull[s]):
                held[s] = is_lowest = False
        if is_lowest:
            return


@njit(**_PLAIN)
def _solve_free_into(x, factor, hessian, pull, held):
    """`H x = -g` over the entries that are not held, by Cholesky's factor; the others are zero."""
    n_groups = len(x)
    for s in range(n_groups):
        x[s] = 0.0
        if held[s]:
            continue
        value = -pull[s]
        for r in range(s):
            if held[r]:
                continue
            entry = hessian[s, r]
            for k in range(r):
                if not held[k]:
                    entry -= factor[s, k] * factor[r, k]
            factor[s, r] = entry / factor[r, r]
            value -= factor[s, r] * x[r]
        entry = hessian[s, s]
        for k in range(s):
            if not held[k]:
                entry -= factor[s, k] * factor[s, k]
        factor[s, s] = math.sqrt(max(entry, _ROUNDING * hessian[s, s]))
        x[s] = value / factor[s, s]
    for s in range(n_groups - 1, -1, -1):
        if held[s]:
            continue
        for r in range(s + 1, n_groups):
            if not held[r]:
                x[s] -= factor[r, s] * x[r]
        x[s] /= factor[s, s]
