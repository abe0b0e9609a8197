"""What a stream leaves behind between two rows: O(n_atoms * n_groups) numbers, and a block not yet full."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.stored import Stored, is_count, is_finite, is_moderate
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import SUM_TOLERANCE
from evenhand.certificates import PolicyMeasures
from evenhand.dual.costs import Cost
from evenhand.dual.forms import form_of
from evenhand.dual.objective import penalty
from evenhand.dual.parity import ParityNotion
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import Monitor
from evenhand.solvers import Solver
from evenhand.solvers.stochastic import StochasticState

BLOCK_ROWS = 2_048  # rows taken together; of 1024, 2048 and 4096 the parity on new rows is the same


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """What the user asked for in a call, checked."""

    parity: str | ParityNotion
    epsilon: FloatArray  # in the user's units, (n_groups,)
    groups: tuple[Hashable, ...]
    atoms: Any
    bounds: Any
    beta: Any
    cost: Cost
    strata: IntArray | None  # stratum of each group, as in `ImbalanceModel`
    solver: Solver[Any]
    tol: float
    half_life: float | None  # rows after which a row counts for half

    @property
    def may_extend(self) -> bool:
        """Whether the grid follows the scores: not where atoms are classes, or the user placed it."""
        placed = not isinstance(self.atoms, str) and np.iterable(self.atoms)
        return self.cost.n_classes is None and isinstance(self.bounds, str) and not placed


@dataclass(frozen=True, slots=True, eq=False)
class Record(Stored):
    """What whole blocks have taught."""

    moments: Moments  # under the stream's policy, over all rows that still count
    monitor: Monitor
    weight: float  # rows that the moments stand for
    squares: float  # sum of the squared weights of rows: weight^2 / squares rows of equal weight
    since: int  # rows since the last solve
    n_solves: int
    solver_state: StochasticState | None = None  # of a stochastic solver

    def faults(self) -> Iterator[str]:
        """Moments, charts, positive weights and counts."""
        if not isinstance(self.moments, Moments) or not isinstance(self.monitor, Monitor):
            yield "it has no moments or no charts"
        if not all(is_finite(number) and number > 0 for number in (self.weight, self.squares)):
            yield "its weights are not positive"
        if not is_count(self.since) or not is_count(self.n_solves):
            yield "its counts are not counts"
        if not isinstance(self.solver_state, StochasticState | None):
            yield "its solver's state is not one of a stochastic solver"

    def misfits(self, step: ParityStep) -> Iterator[str]:
        """What is not about the atoms, the groups and the cost of `step`."""
        problem, moments = step.empty_problem(), self.moments
        n_constraints, n_groups = problem.multipliers_shape
        if moments.groups.shape != (n_groups, problem.n_atoms):
            yield "its moments are not over its atoms and groups"
        elif len(moments.costs) != problem.cost.loadings.shape[1]:
            yield "its moments are not those of its cost"
        elif not np.array_equal(np.asarray(moments.strata), np.asarray(step.strata)):
            yield "its moments have other strata"
        if self.monitor.up.shape != (n_constraints + 1, n_groups):
            yield "its charts do not have the shape of its multipliers"
        points = form_of(problem).split(np.zeros(problem.multipliers_shape))
        if self.solver_state is not None and self.solver_state.iterate.shape != (
            len(points),
            n_groups,
            n_constraints,
        ):
            yield "its solver's state does not have the shape of its multipliers"

    @property
    def n_equal(self) -> float:
        """As many rows of equal weight tell as much."""
        return self.weight**2 / self.squares

    def measures(self, problem: DualProblem, multipliers: FloatArray) -> PolicyMeasures:
        """What a certificate is made of, at the policy's `multipliers`; `problem` brings all but the rows."""
        moments = self.moments
        price = penalty(problem, multipliers)
        gain = float((moments.costs * problem.cost.loadings.T).sum() + moments.policy @ problem.cost.offset)
        imbalance = float(moments.squared_imbalance().sum())  # E |t|^2
        return PolicyMeasures(
            objective=moments.smooth - moments.constant + price,
            violation=moments.violation(problem.parity.operator),
            risk=moments.constant - gain,
            lower_bound=moments.constant - moments.peak - price,
            shares=moments.policy,
            smoothness=form_of(problem).smoothness(problem, imbalance),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Stream(Stored):
    """A stream between two rows: the policy, the record, and the rows that wait for their block."""

    waiting_scores: FloatArray  # (n_waiting,), or class probabilities (n_waiting, n_classes)
    waiting_proba: FloatArray  # (n_waiting, n_groups)
    n_rows: int  # of the stream, waiting ones included
    n_clipped: int
    most_atoms: int  # that the grid may grow to
    step: ParityStep
    multipliers: FloatArray  # Phi of its policy, (n_constraints, n_groups)
    record: Record | None  # None until the first block is full
    n_before: int = 0  # rows of a fit before the stream
    violation_before: FloatArray | None = None  # of that fit, until the first block takes it over
    mark: int = 0  # waiting rows that the policy was solved on, before the first block

    def faults(self) -> Iterator[str]:
        """Rows that wait, a policy, and a record, all over the same atoms and groups."""
        if not isinstance(self.step, ParityStep):
            yield "it has no step"
        shape = self.step.empty_problem().multipliers_shape
        if not is_moderate(self.multipliers, *shape):
            yield "its multipliers do not have the shape of its atoms and groups"
        n_waiting, n_classes = len(self.waiting_scores), self.step.cost.n_classes
        of_scores = (n_waiting,) if n_classes is None else (n_waiting, n_classes)
        waiting = (self.waiting_scores, of_scores), (self.waiting_proba, (n_waiting, shape[1]))
        if not all(is_finite(array, *size) for array, size in waiting):
            yield "its waiting rows are not finite numbers for every group"
        elif np.any((self.waiting_proba < 0) | (self.waiting_proba > 1.0 + SUM_TOLERANCE)):
            yield "its waiting rows have shares of groups that are none"
        counts = self.n_rows, self.n_clipped, self.most_atoms, self.n_before, self.mark
        if not all(is_count(count) for count in counts) or self.n_rows < n_waiting:
            yield "its counts of rows do not agree"
        if self.violation_before is not None and not is_moderate(self.violation_before, *shape):
            yield "the violation before it does not have the shape of its multipliers"
        if not isinstance(self.record, Record | None):
            yield "it has no record"
        if self.record is not None:
            yield from self.record.misfits(self.step)
