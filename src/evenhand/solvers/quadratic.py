"""The model that one proximal Newton step minimises: a quadratic and the dual norms.

    min_x  1/2 x^T H x + c^T x + sum_s epsilon_s * dualnorm(x_s)

`solve_model` is registered for each norm; a new norm of `parity.py` adds its own.
"""

from functools import singledispatch

import numpy as np

from evenhand._kernels.quadratic import (
    active_set_into,
    interior_gap,
    interior_start_into,
    interior_step_into,
)
from evenhand._typing import FloatArray
from evenhand.parity import Norm, SupNorm

_ACTIVE_SET_STEPS = 12
_INTERIOR_STEPS = 50
_RELATIVE_GAP = 1e-10
_CROSSINGS = (1e-3, 1e-6)  # relative gaps at which the interior point asks the active set again
_FIRST_SIZE = 0.1  # costs are of order one, and so are the multipliers worth starting from
_TINY = 1e-300


@singledispatch
def solve_model(
    norm: Norm, hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray:
    """Minimiser of the model.

    `hessian` (n_groups * n_constraints,) squared is positive definite; `linear` and `start` have
    shape (n_groups, n_constraints), `slack` (n_groups,).
    """
    raise TypeError(f"No step is known for the norm {type(norm).__name__}: register one with solve_model.")


@solve_model.register
def _(
    norm: SupNorm, hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray:
    """An l1 penalty: an active-set guess, which is exact once its signs are right, or a safe method.

    The guess costs one linear solve a try and mostly needs three to six; where it goes in circles, the
    interior point takes over, which needs no luck.
    """
    model = np.ascontiguousarray(hessian), linear.ravel(), np.repeat(slack, linear.shape[1])
    found = solve_by_active_set(*model, start.ravel())
    if found is None:
        found = solve_by_interior_point(*model, start.ravel())
    return found.reshape(linear.shape)


def solve_by_active_set(
    hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray | None:
    """The minimiser, or None where the guesses of its signs go in circles."""
    x = start.copy()
    try:
        return x if active_set_into(x, hessian, linear, slack, _ACTIVE_SET_STEPS) else None
    except np.linalg.LinAlgError:  # not positive definite in floats
        return None


def solve_by_interior_point(
    hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray:
    """The minimiser, by Mehrotra's method; once close, the active set is asked again for the exact one."""
    state = np.zeros((6, len(start)))
    state[0] = start
    interior_start_into(state, hessian, linear, slack, max(float(np.abs(start).max()), _FIRST_SIZE))
    first_gap = max(interior_gap(state), _TINY)
    crossings = list(_CROSSINGS)
    for _ in range(_INTERIOR_STEPS):
        relative_gap = interior_gap(state) / first_gap
        if relative_gap < _RELATIVE_GAP:
            break
        if crossings and relative_gap < crossings[0]:
            del crossings[0]
            found = solve_by_active_set(hessian, linear, slack, _rounded(state, slack))
            if found is not None:
                return found
        try:
            interior_step_into(state, hessian, linear, slack)
        except np.linalg.LinAlgError:  # the scaling has outgrown the floats: this is as close as it gets
            break
    return _rounded(state, slack)


def _rounded(state: FloatArray, slack: FloatArray) -> FloatArray:
    """The point's x, with zeros where the multipliers are small against the room that is left."""
    x, _, up, down, to_high, to_low = state
    room = np.minimum(to_high, to_low) / (to_high + to_low)
    pull = np.maximum(up, down)
    return np.where((slack > 0) & (room > pull / max(float(pull.max()), _TINY)), 0.0, x)
