"""Quasi-Newton for problems too wide for a dense Hessian: SciPy's L-BFGS-B, which knows bounds alone.

So the penalty has to be smooth where the bounds hold: as the paper's projected form for sup-norm constraints,
and as height and shape of each group's multipliers for l1 constraints.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np
from scipy.optimize import minimize

from evenhand._utils.typing import FloatArray
from evenhand.dual.forms import form_of, merge
from evenhand.dual.objective import Evaluation, evaluate, optimality_error, penalty
from evenhand.dual.parity import SupNorm
from evenhand.dual.problem import DualProblem
from evenhand.dual.projected import projected_gradient, split
from evenhand.solvers.base import Solver
from evenhand.solvers.result import Status

_ROUNDING = 1e-13  # relative decrease of the objective by a round below which there is none


@dataclass(frozen=True, slots=True, eq=False)
class LbfgsState:
    """Where the descent is."""

    multipliers: FloatArray  # Phi, (n_constraints, n_groups)
    now: Evaluation
    n_iter: int
    n_gradient_rows: int
    stalled: bool


@dataclass(frozen=True, slots=True)
class Lbfgs(Solver[LbfgsState]):
    """L-BFGS-B in rounds; memory grows with atoms x groups, not its square."""

    tol: float = 1e-6
    max_iter: int = 20_000
    round_iter: int = 200  # iterations between two looks at the callback
    memory: int = 30

    name: ClassVar[str] = "lbfgs"

    def init(self, problem: DualProblem, start: FloatArray | None) -> LbfgsState:
        """Start at zero or at a given Phi."""
        point = np.zeros(problem.multipliers_shape) if start is None else np.array(start, dtype=float)
        return LbfgsState(point, evaluate(problem, point), 0, problem.n_rows, stalled=False)

    def step(self, problem: DualProblem, state: LbfgsState) -> LbfgsState:
        """One round of iterations."""
        chart: _Chart = _Pair(problem) if isinstance(problem.parity.norm, SupNorm) else _Polar(problem)

        def value_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
            multipliers = chart.multipliers(flat)
            now = evaluate(problem, multipliers)
            value = now.value - penalty(problem, multipliers) + chart.price(flat)
            return value, chart.gradient(flat, now.violation)

        n_left = min(self.round_iter, self.max_iter - state.n_iter)
        found = minimize(
            value_and_gradient,
            chart.start(state),
            jac=True,
            method="L-BFGS-B",
            bounds=chart.bounds(),
            options={
                "maxiter": n_left,
                "maxfun": 4 * n_left,
                "maxcor": self.memory,
                "ftol": 0.0,
                "gtol": 0.1 * self.tol / chart.n_summed,
            },
        )
        multipliers = chart.multipliers(found.x)
        now = evaluate(problem, multipliers)
        gained = state.now.value - now.value > _ROUNDING * (1.0 + abs(now.value))
        return replace(
            state,
            multipliers=multipliers,
            now=now,
            n_iter=state.n_iter + max(int(found.nit), 1),
            n_gradient_rows=state.n_gradient_rows + (int(found.nfev) + 1) * problem.n_rows,
            stalled=found.status != 1 and not gained and not self._converged(problem, multipliers, now),
        )

    def done(self, problem: DualProblem, state: LbfgsState) -> Status | None:
        """Converged, stalled, or out of iterations."""
        if self._converged(problem, state.multipliers, state.now):
            return Status.CONVERGED
        if state.stalled:
            return Status.STALLED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else None

    def loosened(self, tol: float) -> Self:
        """The same solver, no more precise than `tol`."""
        return replace(self, tol=max(self.tol, tol))

    def on_its_rows(self, state: LbfgsState) -> Evaluation:
        """The dual over all rows."""
        return state.now

    def _converged(self, problem: DualProblem, multipliers: FloatArray, now: Evaluation) -> bool:
        return optimality_error(problem, multipliers, now) <= self.tol


class _Chart(Protocol):
    """Flat coordinates within bounds, over which F is smooth."""

    n_summed: int  # entries of the gradient that add up in one group's violation

    def start(self, state: LbfgsState) -> FloatArray: ...
    def bounds(self) -> list[tuple[float | None, float | None]]: ...
    def multipliers(self, flat: FloatArray) -> FloatArray: ...
    def price(self, flat: FloatArray) -> float: ...
    def gradient(self, flat: FloatArray, violation: FloatArray) -> FloatArray: ...


class _Pair:
    """`(Lambda, V) >= 0`."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        self.shape = (2, *problem.multipliers_shape)
        self.n_summed = 1

    def start(self, state: LbfgsState) -> FloatArray:
        return split(state.multipliers).ravel()

    def bounds(self) -> list[tuple[float | None, float | None]]:
        return [(0.0, None)] * int(np.prod(self.shape))

    def multipliers(self, flat: FloatArray) -> FloatArray:
        return merge(flat.reshape(self.shape))

    def price(self, flat: FloatArray) -> float:
        return float(flat.reshape(self.shape).sum(axis=(0, 1)) @ self.problem.slack)

    def gradient(self, flat: FloatArray, violation: FloatArray) -> FloatArray:
        return projected_gradient(self.problem, violation).ravel()


class _Polar:
    """`Phi_s = height_s * shape_s` with `|shape| <= 1`: the price is that of the heights alone.

    A product is not convex, but where a height is above zero the conditions of a stationary point are those
    of the optimum. At zero they say so only for the steepest shape, `-sign V_s`, with which every round
    starts there. A group without a tolerance keeps its height at one and has no bounds.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.prices = form_of(problem).tolerance(problem)
        self.free = self.prices == 0.0
        self.n_summed = problem.multipliers_shape[0]
        self.shape = (self.n_summed + 1, problem.n_groups)  # heights, then shapes

    def start(self, state: LbfgsState) -> FloatArray:
        heights = np.where(self.free, 1.0, np.abs(state.multipliers).max(axis=0))
        shapes = -np.sign(state.now.violation)
        at = heights > 0.0
        shapes[:, at] = state.multipliers[:, at] / heights[at]
        return np.concatenate([heights[None], shapes]).ravel()

    def bounds(self) -> list[tuple[float | None, float | None]]:
        heights = [(1.0, 1.0) if free else (0.0, None) for free in self.free]
        shapes = [(None, None) if free else (-1.0, 1.0) for free in self.free]
        return [*heights, *shapes * (self.shape[0] - 1)]

    def multipliers(self, flat: FloatArray) -> FloatArray:
        heights, shapes = self._parts(flat)
        return heights * shapes

    def price(self, flat: FloatArray) -> float:
        return float(self._parts(flat)[0] @ self.prices)

    def gradient(self, flat: FloatArray, violation: FloatArray) -> FloatArray:
        heights, shapes = self._parts(flat)
        by_height = (shapes * violation).sum(axis=0) + self.prices
        return np.concatenate([by_height[None], heights * violation]).ravel()

    def _parts(self, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = flat.reshape(self.shape)
        return table[0], table[1:]
