"""The model that one proximal Newton step minimises: a quadratic and the dual norms.

    min_x  1/2 x^T H x + c^T x + sum_s epsilon_s * dualnorm(x_s)

`solve_model` is registered for each norm; a new norm of `parity.py` adds its own.
"""

from abc import ABC, abstractmethod
from functools import singledispatch

import numpy as np

from evenhand._kernels.quadratic import (
    active_set_into,
    interior_gap,
    interior_start_into,
    interior_step_into,
)
from evenhand._kernels.quadratic_blocks import (
    block_active_set_into,
    block_interior_gap,
    block_interior_start_into,
    block_interior_step_into,
)
from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import L1Norm, Norm, SupNorm

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
    """Sums of absolute values."""
    each = np.repeat(slack, linear.shape[1])
    return AbsoluteModel(hessian, linear.ravel(), each).solve(start.ravel()).reshape(linear.shape)


@solve_model.register
def _(
    norm: L1Norm, hessian: FloatArray, linear: FloatArray, slack: FloatArray, start: FloatArray
) -> FloatArray:
    """Largest absolute values, one for each group."""
    found = HeightModel(hessian, linear.ravel(), norm.radius(slack)).solve(start.ravel())
    return found.reshape(linear.shape)


class Model(ABC):
    """A quadratic with a penalty: an active-set guess, exact once it is right, or a safe method.

    The guess costs one linear solve a try and mostly needs three to six; where it goes in circles, the
    interior point takes over, which needs no luck.
    """

    def __init__(self, hessian: FloatArray, linear: FloatArray, slack: FloatArray) -> None:
        self.terms = np.ascontiguousarray(hessian), linear, slack

    def solve(self, start: FloatArray) -> FloatArray:
        """The minimiser."""
        found = self.by_active_set(start)
        return self.by_interior_point(start) if found is None else found

    def by_active_set(self, start: FloatArray) -> FloatArray | None:
        """The minimiser, or None where the guesses go in circles."""
        x = start.copy()
        try:
            return x if self._guess_into(x) else None
        except np.linalg.LinAlgError:  # not positive definite in floats
            return None

    def by_interior_point(self, start: FloatArray) -> FloatArray:
        """The minimiser, by Mehrotra's method; once close, the active set is asked again."""
        state = self._inside(start, max(float(np.abs(start).max()), _FIRST_SIZE))
        first_gap = max(self._gap(state), _TINY)
        crossings = list(_CROSSINGS)
        for _ in range(_INTERIOR_STEPS):
            relative_gap = self._gap(state) / first_gap
            if relative_gap < _RELATIVE_GAP:
                break
            if crossings and relative_gap < crossings[0]:
                del crossings[0]
                found = self.by_active_set(self._rounded(state))
                if found is not None:
                    return found
            try:
                self._step_into(state)
            except np.linalg.LinAlgError:  # the scaling has outgrown the floats: as close as it gets
                break
        return self._rounded(state)

    @abstractmethod
    def _guess_into(self, x: FloatArray) -> bool:
        """Replace x by the minimiser; False where the guesses go in circles."""

    @abstractmethod
    def _inside(self, start: FloatArray, size: float) -> tuple[FloatArray, ...]:
        """State of the interior point at `start`, `size` away from the bounds."""

    @abstractmethod
    def _gap(self, state: tuple[FloatArray, ...]) -> float:
        """Complementarity that is left."""

    @abstractmethod
    def _step_into(self, state: tuple[FloatArray, ...]) -> None:
        """One iteration of Mehrotra's method."""

    @abstractmethod
    def _rounded(self, state: tuple[FloatArray, ...]) -> FloatArray:
        """The state's x, exactly where the penalty has its kinks if the multipliers say so."""


class AbsoluteModel(Model):
    """`1/2 x^T H x + c^T x + sum_j e_j |x_j|`."""

    def _guess_into(self, x: FloatArray) -> bool:
        return bool(active_set_into(x, *self.terms, _ACTIVE_SET_STEPS))

    def _inside(self, start: FloatArray, size: float) -> tuple[FloatArray, ...]:
        state = np.zeros((6, len(start)))
        state[0] = start
        interior_start_into(state, *self.terms, size)
        return (state,)

    def _gap(self, state: tuple[FloatArray, ...]) -> float:
        return float(interior_gap(*state))

    def _step_into(self, state: tuple[FloatArray, ...]) -> None:
        interior_step_into(*state, *self.terms)

    def _rounded(self, state: tuple[FloatArray, ...]) -> FloatArray:
        """Zeros where the multipliers are small against the room that is left."""
        x, _, up, down, to_high, to_low = state[0]
        room = np.minimum(to_high, to_low) / (to_high + to_low)
        pull = np.maximum(up, down)
        return np.where((self.terms[2] > 0) & (room > pull / max(float(pull.max()), _TINY)), 0.0, x)


class HeightModel(Model):
    """`1/2 x^T H x + c^T x + sum_s e_s max_j |x_sj|`, x block by block."""

    def _guess_into(self, x: FloatArray) -> bool:
        return bool(block_active_set_into(x, *self.terms, _ACTIVE_SET_STEPS))

    def _inside(self, start: FloatArray, size: float) -> tuple[FloatArray, ...]:
        state, heights = np.zeros((5, len(start))), np.zeros(len(self.terms[2]))
        state[0] = start
        block_interior_start_into(state, heights, self.terms[2], size)
        return state, heights

    def _gap(self, state: tuple[FloatArray, ...]) -> float:
        return float(block_interior_gap(state[0]))

    def _step_into(self, state: tuple[FloatArray, ...]) -> None:
        block_interior_step_into(*state, *self.terms)

    def _rounded(self, state: tuple[FloatArray, ...]) -> FloatArray:
        """At the height of their block where the multipliers are large against the room that is left."""
        (x, up, down, to_high, to_low), heights = state
        n_blocks = len(heights)
        pull = np.maximum(up, down).reshape(n_blocks, -1)
        room = (np.minimum(to_high, to_low) / (to_high + to_low)).reshape(n_blocks, -1)
        touches = room < pull / np.maximum(pull.max(axis=1, keepdims=True), _TINY)
        blocks = x.reshape(n_blocks, -1)
        ends = np.where(to_high < to_low, 1.0, -1.0).reshape(n_blocks, -1) * heights[:, None]
        boxed = (self.terms[2] > 0)[:, None]
        return np.where(boxed & touches, ends, blocks).ravel()
