"""Minimise `1/2 x^T H x + c^T x + sum_s e_s max_j |x_sj|`: the inner loops where constraints are l1 norms.

The companion of `quadratic.py`, whose penalty is a sum of absolute values. x lies block by block,
`n_blocks * block_size` numbers; a block without a price e_s is free. The twins are generic optimisers in the
tests.
"""

import numpy as np
from numba import njit

from evenhand._kernels.quadratic import solve_factored_into

_TINY = 1e-300
_OPTIONS = {"nogil": True, "cache": True, "error_model": "numpy"}
_FREE, _OFF, _UNKNOWN = 0, 2, 9  # beside the signs +1 and -1 of entries at the height of their block


@njit(**_OPTIONS)
def block_heights(x, n_blocks):
    """Largest absolute entry of each block."""
    size = len(x) // n_blocks
    heights = np.zeros(n_blocks)
    for i in range(len(x)):
        heights[i // size] = max(heights[i // size], abs(x[i]))
    return heights


@njit(**_OPTIONS)
def _guess_block_into(signs, x, slope, curvature, slack, height):
    """Places of a block's entries that x and the slope at it suggest; returns how many have changed.

    An entry is at the height where the step that it would like to take ends above it. A block is off (all
    zero) after a height below zero, and comes back when its slopes are worth more than its price.
    """
    wanted = curvature * x - slope
    if slack == 0.0:
        places = np.full(len(x), _FREE, np.int8)
    elif height < 0.0 or (height == 0.0 and np.sum(np.abs(slope)) <= slack):
        places = np.full(len(x), _OFF, np.int8)
    else:
        above = np.abs(wanted) - curvature * height
        places = np.where(above > 0.0, np.where(wanted > 0.0, 1, -1), _FREE).astype(np.int8)
        farthest = np.argmax(above)  # something has to carry the price
        places[farthest] = 1 if wanted[farthest] > 0.0 else -1
    changed = np.sum(places != signs)
    signs[:] = places
    return changed


@njit(**_OPTIONS)
def _solve_places_into(x, heights, signs, hessian, linear, slack):
    """Minimiser with every entry free, at plus or minus its block's height, or zero, as `signs` says."""
    n, n_blocks = len(x), len(heights)
    size = n // n_blocks
    target = np.full(n, -1)  # which unknown an entry is a multiple of
    factor = np.zeros(n)
    n_unknowns = 0
    for i in range(n):
        if signs[i] == _FREE:
            target[i], factor[i] = n_unknowns, 1.0
            n_unknowns += 1
    of_block = np.full(n_blocks, -1)
    for i in range(n):
        if signs[i] == 1 or signs[i] == -1:
            if of_block[i // size] < 0:
                of_block[i // size] = n_unknowns
                n_unknowns += 1
            target[i], factor[i] = of_block[i // size], float(signs[i])
    matrix, right = np.zeros((n_unknowns, n_unknowns)), np.zeros(n_unknowns)
    for i in range(n):
        if target[i] >= 0:
            right[target[i]] -= factor[i] * linear[i]
            for j in range(n):
                if target[j] >= 0:
                    matrix[target[i], target[j]] += factor[i] * factor[j] * hessian[i, j]
    for s in range(n_blocks):
        if of_block[s] >= 0:
            right[of_block[s]] -= slack[s]
    if n_unknowns > 0:
        solve_factored_into(right, np.linalg.cholesky(matrix))
    for i in range(n):
        x[i] = factor[i] * right[target[i]] if target[i] >= 0 else 0.0
    for s in range(n_blocks):
        heights[s] = right[of_block[s]] if of_block[s] >= 0 else 0.0


@njit(**_OPTIONS)
def block_active_set_into(x, hessian, linear, slack, max_steps):
    """Guess the places, solve, guess again; True once the guess holds, False if it goes in circles."""
    n_blocks = len(slack)
    size = len(x) // n_blocks
    curvature = np.maximum(np.diag(hessian), _TINY)
    heights = block_heights(x, n_blocks)
    signs = np.full(len(x), _UNKNOWN, np.int8)
    seen = np.empty((max_steps, len(x)), np.int8)
    for step in range(max_steps):
        slope = hessian @ x + linear
        changed = 0
        for s in range(n_blocks):
            part = slice(s * size, (s + 1) * size)
            changed += _guess_block_into(
                signs[part], x[part], slope[part], curvature[part], slack[s], heights[s]
            )
        if changed == 0:
            return True
        for before in range(step):
            if np.array_equal(seen[before], signs):
                return False
        seen[step] = signs
        _solve_places_into(x, heights, signs, hessian, linear, slack)
    return False


@njit(**_OPTIONS)
def block_interior_start_into(state, heights, slack, size):
    """Fill (x, up, down, to_high, to_low) and the heights from x: a point inside `|x_sj| <= h_s`.

    `up >= 0` is the multiplier of `x <= h` and `down >= 0` that of `-h <= x`; in a block they sum to its
    price. Free blocks have neither, and room one.
    """
    n_blocks = len(heights)
    length = state.shape[1] // n_blocks
    heights[:] = block_heights(state[0], n_blocks) + size
    for i in range(state.shape[1]):
        s = i // length
        if slack[s] > 0.0:
            state[1:3, i] = slack[s] / (2 * length)
            state[3, i] = heights[s] - state[0, i]
            state[4, i] = heights[s] + state[0, i]
        else:
            heights[s] = 0.0
            state[1:3, i] = 0.0
            state[3:5, i] = 1.0


@njit(**_OPTIONS)
def block_interior_gap(state):
    """Complementarity that is left."""
    return float(np.sum(state[1] * state[3]) + np.sum(state[2] * state[4]))


@njit(**_OPTIONS)
def _newton_matrix(hessian, side, near, far, slack):
    """The system over the rooms at the nearer side and the heights, `x = side * (height - room)`.

    In these variables what grows without bound near the solution, `near`, stands on the diagonal alone.
    """
    n, n_blocks = len(side), len(slack)
    size = n // n_blocks
    matrix = np.zeros((n + n_blocks, n + n_blocks))
    for i in range(n):
        s = i // size
        row = matrix[i]
        for r in range(n_blocks):
            total = 0.0
            for j in range(r * size, (r + 1) * size):
                row[j] = side[i] * side[j] * hessian[i, j]
                total += row[j]
            if slack[r] > 0.0:
                row[n + r] = -total
        if slack[s] > 0.0:
            for r in range(n_blocks):
                matrix[n + s, n + r] -= row[n + r]
            row[n + s] -= 2.0 * far[i]
            matrix[n + s, n + s] += 4.0 * far[i]
        row[i] += near[i] + far[i]
    for s in range(n_blocks):
        for i in range(n):
            matrix[n + s, i] = matrix[i, n + s]
        if slack[s] == 0.0:
            matrix[n + s, n + s] = 1.0
    return matrix


@njit(**_OPTIONS)
def _block_direction_into(step, rise, state, side, factor, residual, missing, slack, high, low):
    """Newton step towards complementarities `high` and `low`; `rise` is that of the heights."""
    n, n_blocks = len(side), len(slack)
    size = n // n_blocks
    right = np.zeros(n + n_blocks)
    for i in range(n):
        right[i] = side[i] * residual[i]
        s = i // size
        if slack[s] > 0.0:
            at_high, at_low = high[i] / state[3, i], low[i] / state[4, i]
            right[i] += side[i] * (at_high - at_low)
            right[n + s] += 2.0 * (at_low if side[i] > 0.0 else at_high) - side[i] * residual[i]
    right[n:] -= missing
    solve_factored_into(right, factor)
    rise[:] = right[n:]
    for i in range(n):
        s = i // size
        if slack[s] == 0.0:
            step[:, i] = 0.0
            step[0, i] = -side[i] * right[i]
            continue
        near, far = right[i], 2.0 * rise[s] - right[i]
        step[0, i] = side[i] * (rise[s] - near)
        step[3, i] = near if side[i] > 0.0 else far
        step[4, i] = far if side[i] > 0.0 else near
        step[1, i] = (high[i] - state[1, i] * step[3, i]) / state[3, i]
        step[2, i] = (low[i] - state[2, i] * step[4, i]) / state[4, i]


@njit(**_OPTIONS)
def _block_room(state, step):
    """How far the step can be taken, up to one, before a barrier variable vanishes."""
    length = 1.0
    for k in range(1, 5):
        for j in range(state.shape[1]):
            if step[k, j] < -1e-290:
                length = min(length, -state[k, j] / step[k, j])
    return length


@njit(**_OPTIONS)
def block_interior_step_into(state, heights, hessian, linear, slack):
    """One iteration of Mehrotra's method, with the heights eliminated along with the bounds."""
    n, n_blocks = state.shape[1], len(slack)
    size = n // n_blocks
    side = np.where(state[3] < state[4], 1.0, -1.0)
    pressure_high, pressure_low = state[1] / state[3], state[2] / state[4]
    near = np.where(side > 0.0, pressure_high, pressure_low)
    far = np.where(side > 0.0, pressure_low, pressure_high)
    factor = np.linalg.cholesky(_newton_matrix(hessian, side, near, far, slack))
    residual = hessian @ state[0] + linear + state[1] - state[2]
    missing = np.zeros(n_blocks)
    n_boxed = 0
    for s in range(n_blocks):
        if slack[s] > 0.0:
            n_boxed += size
            missing[s] = slack[s] - np.sum(state[1:3, s * size : (s + 1) * size])
    high, low = -state[1] * state[3], -state[2] * state[4]
    step, rise = np.empty_like(state), np.empty(n_blocks)
    _block_direction_into(step, rise, state, side, factor, residual, missing, slack, high, low)
    gap = block_interior_gap(state)
    ahead = block_interior_gap(state + _block_room(state, step) * step)
    centre = ahead * (ahead / gap) ** 2 / (2 * max(n_boxed, 1)) if gap > 0.0 else 0.0
    high += centre - step[1] * step[3]
    low += centre - step[2] * step[4]
    _block_direction_into(step, rise, state, side, factor, residual, missing, slack, high, low)
    length = 0.995 * _block_room(state, step)
    state += length * step
    heights += length * rise
    for k in range(3, 5):
        for j in range(n):
            state[k, j] = max(state[k, j], _TINY)
