"""Minimise `1/2 x^T H x + c^T x + sum_j e_j |x_j|`: the compiled inner loops of a proximal Newton step.

Small problems take hundreds of tiny linear solves, which cost more in calls than in arithmetic; LAPACK
does the factorisations of all sizes. The twins are generic optimisers in the tests.
"""

import numpy as np
from numba import njit

_TINY = 1e-300
_OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}
_VECTORISE = {"nogil": True, "cache": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy"}


@njit(**_VECTORISE)
def solve_factored_into(x, factor):
    """Replace x by the solution of `L L^T z = x`, L the lower triangle `factor`."""
    size = len(x)
    for i in range(size):
        total = 0.0
        for j in range(i):
            total += factor[i, j] * x[j]
        x[i] = (x[i] - total) / factor[i, i]
    for i in range(size - 1, -1, -1):
        value = x[i] / factor[i, i]
        x[i] = value
        for j in range(i):
            x[j] -= factor[i, j] * value


@njit(**_OPTIONS)
def _guess_into(signs, x, pull, curvature, linear, slack):
    """Signs that x and the slope at it suggest; returns how many have changed."""
    changed = 0
    for j in range(len(x)):
        shifted = x[j] * curvature[j] - (pull[j] + linear[j])
        sign = 0
        if abs(shifted) > slack[j]:
            sign = 1 if shifted > 0.0 else -1
        if sign != signs[j]:
            changed += 1
        signs[j] = sign
    return changed


@njit(**_OPTIONS)
def _solve_active_into(x, signs, hessian, linear, slack):
    """Minimiser with the signs held fixed and zeros elsewhere."""
    active = np.flatnonzero(signs)
    size = len(active)
    x[:] = 0.0
    if size == 0:
        return
    block = np.empty((size, size))
    right = np.empty(size)
    for i in range(size):
        row = hessian[active[i]]
        for j in range(size):
            block[i, j] = row[active[j]]
        right[i] = -(linear[active[i]] + slack[active[i]] * signs[active[i]])
    solve_factored_into(right, np.linalg.cholesky(block))
    for i in range(size):
        x[active[i]] = right[i]


@njit(**_OPTIONS)
def active_set_into(x, hessian, linear, slack, max_steps):
    """Guess the signs, solve, guess again from x; True once the guess holds, False if it goes in circles."""
    size = len(x)
    curvature = np.maximum(np.diag(hessian), _TINY)
    signs = np.full(size, 2, np.int8)  # no guess yet
    seen = np.empty((max_steps, size), np.int8)
    for step in range(max_steps):
        if _guess_into(signs, x, hessian @ x, curvature, linear, slack) == 0:
            return True
        for before in range(step):
            if np.array_equal(seen[before], signs):
                return False
        seen[step] = signs
        _solve_active_into(x, signs, hessian, linear, slack)
    return False


@njit(**_OPTIONS)
def interior_start_into(state, hessian, linear, slack, size):
    """Fill (x, v, up, down, to_high, to_low) from x: a point inside `|v| <= e`.

    `v = -(H x + c)` and `x = up - down` in the end, where `up >= 0` is the multiplier of `v <= e` and
    `down >= 0` that of `-e <= v`. Entries without slack are free: v = up = down = 0, room one.
    """
    pull = hessian @ state[0]
    for j in range(state.shape[1]):
        x = state[0, j]
        if slack[j] > 0.0:
            v = min(max(-(pull[j] + linear[j]), -0.9 * slack[j]), 0.9 * slack[j])
            state[1, j] = v
            state[2, j] = max(x, 0.0) + size
            state[3, j] = max(-x, 0.0) + size
            state[4, j] = slack[j] - v
            state[5, j] = slack[j] + v
        else:
            state[1:4, j] = 0.0
            state[4:6, j] = 1.0


@njit(**_OPTIONS)
def interior_gap(state):
    """Complementarity that is left."""
    return float(np.sum(state[2] * state[4]) + np.sum(state[3] * state[5]))


@njit(**_OPTIONS)
def _direction_into(step, state, weight, factor, residual, slack, high, low):
    """Newton step towards complementarities `high` and `low`."""
    size = state.shape[1]
    wanted = state[2] - state[3] - state[0] + high / state[4] - low / state[5]
    step[0] = weight * wanted - residual
    solve_factored_into(step[0], factor)
    for j in range(size):
        v = weight[j] * (step[0, j] - wanted[j])
        step[1, j] = v
        step[2, j] = (high[j] + state[2, j] * v) / state[4, j] if slack[j] > 0.0 else 0.0
        step[3, j] = (low[j] - state[3, j] * v) / state[5, j] if slack[j] > 0.0 else 0.0
        step[4, j] = -v
        step[5, j] = v


@njit(**_OPTIONS)
def _room(state, step):
    """How far the step can be taken, up to one, before a barrier variable vanishes."""
    length = 1.0
    for k in range(2, 6):
        for j in range(state.shape[1]):
            if step[k, j] < -1e-290:
                length = min(length, -state[k, j] / step[k, j])
    return length


@njit(**_OPTIONS)
def interior_step_into(state, hessian, linear, slack):
    """One iteration of Mehrotra's method: predict how far the gap can fall, then take the centred step."""
    size = state.shape[1]
    weight = np.zeros(size)
    n_boxed = 0
    for j in range(size):
        if slack[j] > 0.0:
            n_boxed += 1
            weight[j] = 1.0 / max(state[2, j] / state[4, j] + state[3, j] / state[5, j], _TINY)
    model = hessian.copy()
    for j in range(size):
        model[j, j] += weight[j]
    factor = np.linalg.cholesky(model)
    residual = hessian @ state[0] + linear + state[1]
    high, low = -state[2] * state[4], -state[3] * state[5]
    step = np.empty_like(state)
    _direction_into(step, state, weight, factor, residual, slack, high, low)
    gap = interior_gap(state)
    ahead = interior_gap(state + _room(state, step) * step)
    centre = ahead * (ahead / gap) ** 2 / (2 * max(n_boxed, 1))
    high += centre + step[2] * step[1]
    low += centre - step[3] * step[1]
    _direction_into(step, state, weight, factor, residual, slack, high, low)
    state += 0.995 * _room(state, step) * step
    for k in range(4, 6):
        for j in range(size):
            state[k, j] = max(state[k, j], _TINY)
