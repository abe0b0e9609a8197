"""The deterministic solver that fits the problem's width."""

from dataclasses import dataclass, replace

from evenhand.dual.problem import DualProblem
from evenhand.solvers.batch import Batch
from evenhand.solvers.lbfgs import Lbfgs

WIDEST = 2_500  # multipliers of a dense Hessian: 50 MB, and a second a factorisation


@dataclass(frozen=True, slots=True)
class Auto:
    """`Batch` up to `widest` multipliers (constraints x groups), `Lbfgs` beyond."""

    tol: float = 1e-6
    max_iter: int | None = None
    widest: int = WIDEST

    def choose(self, problem: DualProblem) -> Batch | Lbfgs:
        """The solver for `problem`."""
        n_constraints, n_groups = problem.multipliers_shape
        solver = Batch(tol=self.tol) if n_constraints * n_groups <= self.widest else Lbfgs(tol=self.tol)
        return solver if self.max_iter is None else replace(solver, max_iter=self.max_iter)
