"""Quasi-Newton for problems too wide for a dense Hessian: SciPy's L-BFGS-B on the projected form."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from evenhand._typing import FloatArray
from evenhand.objective import Evaluation, evaluate, optimality_error, penalty
from evenhand.problem import DualProblem
from evenhand.projected import merge, projected_gradient, split
from evenhand.solvers.result import Status


@dataclass(frozen=True, slots=True, eq=False)
class LbfgsState:
    """Where the descent is."""

    multipliers: FloatArray  # Phi, (n_constraints, n_groups)
    now: Evaluation
    n_iter: int
    n_gradient_rows: int
    stalled: bool


@dataclass(frozen=True, slots=True)
class Lbfgs:
    """L-BFGS-B over `(Lambda, V) >= 0`, in rounds; memory grows with atoms x groups, not its square."""

    tol: float = 1e-6
    max_iter: int = 20_000
    round_iter: int = 200  # iterations between two looks at the callback
    memory: int = 30
    name: str = "lbfgs"

    def init(self, problem: DualProblem, start: FloatArray | None) -> LbfgsState:
        """Start at zero or at a given Phi."""
        point = np.zeros(problem.multipliers_shape) if start is None else np.array(start, dtype=float)
        return LbfgsState(point, evaluate(problem, point), 0, problem.n_rows, stalled=False)

    def step(self, problem: DualProblem, state: LbfgsState) -> LbfgsState:
        """One round of iterations."""
        shape = (2, *problem.multipliers_shape)

        def value_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
            point = flat.reshape(shape)
            multipliers = merge(point)
            now = evaluate(problem, multipliers)
            linear = float(point.sum(axis=(0, 1)) @ problem.slack)
            value = now.value - penalty(problem, multipliers) + linear
            return value, projected_gradient(problem, now.violation).ravel()

        n_left = min(self.round_iter, self.max_iter - state.n_iter)
        found = minimize(
            value_and_gradient,
            split(state.multipliers).ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, None)] * int(np.prod(shape)),
            options={
                "maxiter": n_left,
                "maxfun": 4 * n_left,
                "maxcor": self.memory,
                "ftol": 0.0,
                "gtol": 0.1 * self.tol,
            },
        )
        multipliers = merge(found.x.reshape(shape))
        now = evaluate(problem, multipliers)
        return replace(
            state,
            multipliers=multipliers,
            now=now,
            n_iter=state.n_iter + max(int(found.nit), 1),
            n_gradient_rows=state.n_gradient_rows + (int(found.nfev) + 1) * problem.n_rows,
            stalled=found.status != 1 and not self._converged(problem, multipliers, now),
        )

    def done(self, problem: DualProblem, state: LbfgsState) -> Status | None:
        """Converged, stalled, or out of iterations."""
        if self._converged(problem, state.multipliers, state.now):
            return Status.CONVERGED
        if state.stalled:
            return Status.STALLED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else None

    def _converged(self, problem: DualProblem, multipliers: FloatArray, now: Evaluation) -> bool:
        return optimality_error(problem, multipliers, now) <= self.tol
