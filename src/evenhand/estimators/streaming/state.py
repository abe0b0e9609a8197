"""What a stream leaves behind between two rows: O(n_atoms * n_groups) numbers, and a block not yet full."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.certificates import PolicyMeasures
from evenhand.dual.costs import Cost, Squared
from evenhand.dual.forms import form_of
from evenhand.dual.grid import Support
from evenhand.dual.objective import penalty
from evenhand.dual.parity import Parity, make_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import Monitor
from evenhand.solvers import Auto, Solver
from evenhand.solvers.stochastic import StochasticState

BLOCK_ROWS = 2_048  # rows taken together; of 1024, 2048 and 4096 the parity on new rows is the same


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """What the user asked for, checked."""

    parity: str
    epsilon: FloatArray  # in the user's units, (n_groups,)
    groups: tuple[Hashable, ...]
    atoms: Any
    bounds: Any
    beta: Any
    cost: Cost
    strata: IntArray | None  # stratum of each group, as in `ImbalanceModel`
    solver: Solver[Any] | Auto
    tol: float
    half_life: float | None  # rows after which a row counts for half

    @property
    def solver_name(self) -> str:
        """Short name of the solver."""
        return "auto" if isinstance(self.solver, Auto) else self.solver.name

    @property
    def may_extend(self) -> bool:
        """Whether the grid follows the scores: not where atoms are classes, or the user placed it."""
        placed = not isinstance(self.atoms, str) and np.ndim(self.atoms) > 0
        return self.cost.n_classes is None and isinstance(self.bounds, str) and not placed


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """A policy, and the scale that it lives on."""

    parity: str
    support: Support
    group_prior: FloatArray  # p, (n_groups,)
    multipliers: FloatArray  # Phi, (n_constraints, n_groups)
    temperature: float  # beta
    strata: IntArray | None = None  # stratum of each group, as in `ImbalanceModel`
    cost: Cost = field(default_factory=Squared)

    def make_parity(self) -> Parity:
        """The parity notion on the atoms."""
        return make_parity(self.parity, self.support.normalised())

    def make_policy(self) -> SoftmaxPolicy:
        """What predicts."""
        tilt = self.make_parity().operator.adjoint(self.multipliers)
        return SoftmaxPolicy(self.support, self.group_prior, tilt, self.temperature, self.strata, self.cost)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What whole blocks have taught."""

    moments: Moments  # under the standing policy, over all rows that still count
    monitor: Monitor
    weight: float  # rows that the moments stand for
    squares: float  # sum of the squared weights of rows: weight^2 / squares rows of equal weight
    since: int  # rows since the last solve
    n_solves: int
    walk: StochasticState | None = None  # of a stochastic solver

    @property
    def n_equal(self) -> float:
        """As many rows of equal weight tell as much."""
        return self.weight**2 / self.squares

    def measures(self, problem: DualProblem, multipliers: FloatArray) -> PolicyMeasures:
        """What a certificate is made of; `problem` brings everything but the rows."""
        moments = self.moments
        price = penalty(problem, multipliers)
        gain = float((moments.costs * problem.cost.loadings.T).sum() + moments.policy @ problem.cost.offset)
        imbalance = float(moments.squared_imbalance().sum())  # E |t|^2
        return PolicyMeasures(
            objective=moments.smooth - moments.constant + price,
            violation=moments.violation(problem.parity.operator),
            risk=moments.constant - gain,
            lower_bound=moments.constant - moments.peak - price,
            smoothness=form_of(problem).smoothness(problem, imbalance),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A stream between two rows: the policy, the record, and the rows that wait for their block."""

    waiting_scores: FloatArray  # (n_waiting,), or class probabilities (n_waiting, n_classes)
    waiting_proba: FloatArray  # (n_waiting, n_groups)
    n_rows: int  # of the stream, waiting ones included
    n_clipped: int
    most_atoms: int  # that the grid may grow to
    standing: Standing
    record: Record | None  # None until the first block is full
    n_before: int = 0  # rows of a fit before the stream
    violation_before: FloatArray | None = None  # of that fit, until the first block takes it over
    mark: int = 0  # waiting rows that the standing policy was solved on, before the first block
