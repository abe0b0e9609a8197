"""The model that one proximal Newton step minimises: a quadratic and the dual norms.

    min_x  1/2 x^T H x + c^T x + sum_s epsilon_s * dualnorm(x_s)

`solve_model` is registered for each norm; a new norm of `parity.py` adds its own.
"""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Self

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from evenhand._typing import AnyArray, FloatArray
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

    The guess costs one linear solve a try and mostly needs three to six; where it cycles, the
    interior point takes over, which needs no luck.
    """
    each = np.repeat(slack, linear.shape[1])
    found = _active_set(hessian, linear.ravel(), each, start.ravel())
    if found is None:
        found = _interior_point(hessian, linear.ravel(), each, start.ravel())
    return found.reshape(linear.shape)


def _active_set(
    hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray | None:
    """Guess which entries are nonzero and their signs, solve, guess again; None if it cycles."""
    curvature = np.maximum(np.diag(hessian), _TINY)
    x = start
    signs: FloatArray | None = None
    for _ in range(_ACTIVE_SET_STEPS):
        shifted = x * curvature - (hessian @ x + linear)
        guess = np.where(np.abs(shifted) > slack, np.sign(shifted), 0.0)
        if signs is not None and np.array_equal(guess, signs):
            return x
        signs = guess
        active = np.flatnonzero(signs)
        x = np.zeros_like(start)
        right = -(linear[active] + slack[active] * signs[active])
        try:
            factor = cho_factor(hessian[np.ix_(active, active)], lower=True, check_finite=False)
        except LinAlgError:
            return None
        x[active] = cho_solve(factor, right, check_finite=False)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class _Interior:
    """A point inside `|v| <= e`, where `v = -(H x + c)` and `x = up - down` in the end.

    `up >= 0` is the multiplier of `v <= e`, and `down >= 0` that of `-e <= v`.
    """

    x: FloatArray
    v: FloatArray
    up: FloatArray
    down: FloatArray
    to_high: FloatArray  # e - v
    to_low: FloatArray  # e + v

    def moved(self, step: "_Interior", length: float) -> Self:
        """The point `length` along `step`."""
        now = (self.x, self.v, self.up, self.down, self.to_high, self.to_low)
        move = (step.x, step.v, step.up, step.down, step.to_high, step.to_low)
        return type(self)(*(a + length * b for a, b in zip(now, move, strict=True)))

    def gap(self) -> float:
        """Complementarity that is left."""
        return float(self.up @ self.to_high + self.down @ self.to_low)

    def room(self, step: "_Interior") -> float:
        """How far `step` can be taken, up to one, before a barrier variable vanishes."""
        now = np.concatenate([self.up, self.down, self.to_high, self.to_low])
        move = np.concatenate([step.up, step.down, step.to_high, step.to_low])
        falling = move < -_TINY * 1e10
        return min(1.0, float((-now[falling] / move[falling]).min())) if falling.any() else 1.0


def _interior_point(
    hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray:
    """Mehrotra's predictor-corrector.

    Entries with no slack are free: they have v = 0 and no barrier, which weight 0 says.
    """
    boxed = slack > 0
    box = np.where(boxed, slack, 1.0)
    size = max(float(np.abs(start).max()), _FIRST_SIZE)
    v = np.where(boxed, np.clip(-(hessian @ start + linear), -0.9 * box, 0.9 * box), 0.0)
    up = np.where(boxed, np.maximum(start, 0.0) + size, 0.0)
    down = np.where(boxed, np.maximum(-start, 0.0) + size, 0.0)
    point = _Interior(start, v, up, down, box - v, box + v)
    first_gap = point.gap()
    crossings = list(_CROSSINGS)
    for _ in range(_INTERIOR_STEPS):
        relative_gap = point.gap() / max(first_gap, _TINY)
        if relative_gap < _RELATIVE_GAP:
            break
        if crossings and relative_gap < crossings[0]:
            del crossings[0]
            found = _active_set(hessian, linear, slack, _rounded(point, boxed))
            if found is not None:
                return found
        try:
            point = _predict_correct(point, hessian, linear, boxed)
        except LinAlgError:  # the scaling has outgrown the floats: this is as close as it gets
            break
    return _rounded(point, boxed)


def _rounded(point: _Interior, boxed: AnyArray) -> FloatArray:
    """The point's x, with zeros where the multipliers are small against the room that is left."""
    box = point.to_high + point.to_low
    room = np.minimum(point.to_high, point.to_low) / box
    pull = np.maximum(point.up, point.down)
    return np.where(boxed & (room > pull / max(float(pull.max()), _TINY)), 0.0, point.x)


def _predict_correct(point: _Interior, hessian: FloatArray, linear: FloatArray, boxed: AnyArray) -> _Interior:
    """One iteration: a predictor to see how far the gap can fall, then the centred step."""
    ratio = point.up / point.to_high + point.down / point.to_low
    weight = np.where(boxed, 1.0 / np.maximum(ratio, _TINY), 0.0)
    factor = cho_factor(hessian + np.diag(weight), lower=True, check_finite=False)
    residual = hessian @ point.x + linear + point.v

    def direction(high: FloatArray, low: FloatArray) -> _Interior:
        wanted = point.up - point.down - point.x + high / point.to_high - low / point.to_low
        x = cho_solve(factor, weight * wanted - residual, check_finite=False)
        v = weight * (x - wanted)
        up = np.where(boxed, (high + point.up * v) / point.to_high, 0.0)
        down = np.where(boxed, (low - point.down * v) / point.to_low, 0.0)
        return _Interior(x, v, up, down, -v, v)

    high, low = -point.up * point.to_high, -point.down * point.to_low
    guess = direction(high, low)
    gap = point.gap()
    ahead = point.moved(guess, point.room(guess)).gap()
    centre = ahead * (ahead / gap) ** 2 / (2 * max(int(boxed.sum()), 1))
    step = direction(centre + high + guess.up * guess.v, centre + low - guess.down * guess.v)
    moved = point.moved(step, 0.995 * point.room(step))
    return replace(moved, to_high=np.maximum(moved.to_high, _TINY), to_low=np.maximum(moved.to_low, _TINY))
