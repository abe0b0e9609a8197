"""The deterministic solver that fits the problem's width."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from evenhand._utils.typing import FloatArray
from evenhand.dual.problem import DualProblem
from evenhand.solvers.base import Solver
from evenhand.solvers.batch import Batch
from evenhand.solvers.lbfgs import Lbfgs
from evenhand.solvers.result import Status

WIDEST = 20_000  # multipliers: a tenth of their Hessian, which sharp policies do not fill, takes 300 MB


@dataclass(frozen=True, slots=True)
class Auto(Solver[Any]):
    """`Batch` up to `widest` multipliers (constraints x groups), `Lbfgs` beyond."""

    tol: float = 1e-6
    max_iter: int | None = None
    widest: int = WIDEST

    name: ClassVar[str] = "auto"

    def choose(self, problem: DualProblem) -> Batch | Lbfgs:
        """The solver for `problem`."""
        n_constraints, n_groups = problem.multipliers_shape
        solver = Batch(tol=self.tol) if n_constraints * n_groups <= self.widest else Lbfgs(tol=self.tol)
        return solver if self.max_iter is None else replace(solver, max_iter=self.max_iter)

    def loosened(self, tol: float) -> Self:
        """The same, no more precise than `tol`."""
        return replace(self, tol=max(self.tol, tol))

    def init(self, problem: DualProblem, start: FloatArray | None) -> Any:
        """State of the chosen solver before its first step."""
        return self.choose(problem).init(problem, start)

    def step(self, problem: DualProblem, state: Any) -> Any:
        """State of the chosen solver after one more step."""
        solver: Solver[Any] = self.choose(problem)
        return solver.step(problem, state)

    def done(self, problem: DualProblem, state: Any) -> Status | None:
        """What the chosen solver says."""
        solver: Solver[Any] = self.choose(problem)
        return solver.done(problem, state)
