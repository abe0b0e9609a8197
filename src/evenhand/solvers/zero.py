"""No solver: the policy without parity, to start from and to compare with."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.problem import DualProblem
from evenhand.solvers.base import PlainState, Solver
from evenhand.solvers.result import Status


@dataclass(frozen=True, slots=True)
class ZeroMultipliers(Solver[PlainState]):
    """Stay at zero multipliers, where no parity is asked for."""

    name: ClassVar[str] = "zero multipliers"

    def init(self, problem: DualProblem, start: FloatArray | None) -> PlainState:
        """Zero, whatever the start."""
        return PlainState(np.zeros(problem.multipliers_shape), n_gradient_rows=problem.n_rows)

    def step(self, problem: DualProblem, state: PlainState) -> PlainState:
        """Nothing."""
        return state

    def done(self, problem: DualProblem, state: PlainState) -> Status:
        """At once."""
        return Status.CONVERGED
