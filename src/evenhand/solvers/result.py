"""What a solver returns."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from evenhand._utils.stored import Stored, is_finite
from evenhand._utils.typing import FloatArray


class Status(Stored, Enum):
    """Why a solver stopped; the value is the sentence that says so."""

    CONVERGED = "The optimality conditions hold within the tolerance."
    BUDGET_SPENT = "The whole budget of stochastic gradients was used, as planned."
    MAX_ITER = "The iterations ran out before the tolerance was met: raise max_iter or tol."
    STALLED = "No step improves the objective in floating point any more: raise tol or lower beta."
    STREAMING = "The stream goes on: this is the policy that its rows so far have led to."
    STOPPED = "The callback or an interrupt asked to stop: the last iterate is kept."

    @property
    def success(self) -> bool:
        """Whether the solver did all that it was asked."""
        return self in (Status.CONVERGED, Status.BUDGET_SPENT, Status.STREAMING)


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """What a callback sees between two steps."""

    solver: str
    n_iter: int
    n_gradient_rows: int
    multipliers: FloatArray  # Phi now, (n_constraints, n_groups)
    objective: float | None = None  # F(Phi) on the rows that the solver works on now, where it knows it
    violation: FloatArray | None = None  # V on those rows, for the groups that it solves for


@dataclass(frozen=True, slots=True, eq=False)
class SolverResult(Stored):
    """The end point of a solver, and how it was reached."""

    solver: str
    status: Status
    multipliers: FloatArray  # Phi, (n_constraints, n_groups)
    n_iter: int
    n_gradient_rows: int  # single-row gradients evaluated
    objective: float  # F(Phi) over all the rows
    violation: FloatArray  # V = A E[pi t^T] over all the rows, (n_constraints, n_groups)
    gradient_map_norm: float  # at the solver's own point, step 1 / smoothness (paper, eq. 8)
    exact_risk: float | None = None  # optimum of the linear program, where it was solved

    def faults(self) -> Iterator[str]:
        """A status, and a violation of the shape of the multipliers."""
        if not isinstance(self.status, Status):
            yield "its status is none"
        if not is_finite(self.multipliers, None, None):
            yield "its multipliers are not a table of finite numbers"
        elif not is_finite(self.violation, *self.multipliers.shape):
            yield "its violation does not have the shape of its multipliers"

    @property
    def message(self) -> str:
        """The status in words."""
        return self.status.value
