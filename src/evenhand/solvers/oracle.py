"""The linear program as a solver: its optimum for reference, and the policy that comes close to it.

The program's own solution is a table of the given rows: its multipliers leave ties that only the table
breaks. New rows need a rule, and that is the softmax policy at a high beta, solved on the same rows.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from evenhand._utils.typing import FloatArray
from evenhand.dual.problem import DualProblem
from evenhand.solvers.base import Solver
from evenhand.solvers.batch import Batch
from evenhand.solvers.lp import solve_lp
from evenhand.solvers.newton import BatchState
from evenhand.solvers.result import Status

LIMIT_TEMPERATURE = 20_000.0  # within 0.12 % of the program's risk on the paper's data


@dataclass(frozen=True, slots=True, eq=False)
class OracleState:
    """The program's optimum, and the state of the solver that comes close to it."""

    inner: BatchState
    exact_risk: float  # smallest expected cost of any policy that meets the tolerances

    @property
    def n_iter(self) -> int:
        """Iterations so far."""
        return self.inner.n_iter

    @property
    def n_gradient_rows(self) -> int:
        """Single-row gradients evaluated so far."""
        return self.inner.n_gradient_rows

    @property
    def multipliers(self) -> FloatArray:
        """The point that would be returned now."""
        return self.inner.multipliers


@dataclass(frozen=True, slots=True)
class Oracle(Solver[OracleState]):
    """Solve the linear program exactly, then the smoothed problem at the problem's beta."""

    tol: float = 1e-6
    max_iter: int = 500
    default_temperature: float = LIMIT_TEMPERATURE

    name: ClassVar[str] = "lp"
    needs_stored_rows: ClassVar[bool] = True

    def default_beta(self, n_rows: int) -> float:
        """As sharp as it takes to come close to the program."""
        return self.default_temperature

    def init(self, problem: DualProblem, start: FloatArray | None) -> OracleState:
        """Solve the program."""
        return OracleState(self._batch().init(problem, start), solve_lp(problem).risk)

    def step(self, problem: DualProblem, state: OracleState) -> OracleState:
        """One step of the batch solver."""
        return replace(state, inner=self._batch().step(problem, state.inner))

    def done(self, problem: DualProblem, state: OracleState) -> Status | None:
        """When the batch solver is."""
        return self._batch().done(problem, state.inner)

    def exact_risk(self, state: OracleState) -> float:
        """Optimum of the linear program."""
        return state.exact_risk

    def _batch(self) -> Batch:
        return Batch(tol=self.tol, max_iter=self.max_iter)
