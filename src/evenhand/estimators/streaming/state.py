"""The state of a stream: O(n_atoms * n_groups) numbers, and an incomplete block of rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenhand._utils.stored import Stored, is_count, is_finite, is_moderate
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import SUM_TOLERANCE
from evenhand.certificates import PolicyMeasures
from evenhand.dual.forms import form_of
from evenhand.dual.objective import penalty
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.estimators.step_fit import StepPlan
from evenhand.estimators.streaming.moments import Moments
from evenhand.estimators.streaming.monitor import Monitor
from evenhand.solvers.stochastic import StochasticState

BLOCK_ROWS = 2_048  # rows per block; 1,024, 2,048 and 4,096 give the same parity on new rows


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """The checked parameters of a call."""

    plan: StepPlan
    tolerance: FloatArray  # tolerances for which the step is solved, (n_groups,); may come from `fit`
    half_life: float | None  # number of rows after which the weight of a row is halved

    @property
    def may_extend(self) -> bool:
        """Whether the grid can be extended to new scores: not if atoms are classes or chosen by the user."""
        plan = self.plan
        placed = not isinstance(plan.atoms, str) and np.iterable(plan.atoms)
        return plan.cost.n_classes is None and isinstance(plan.bounds, str) and not placed


@dataclass(frozen=True, slots=True, eq=False)
class Record(Stored):
    """Statistics of all complete blocks."""

    moments: Moments  # weighted means over the rows, under the policy of the stream
    monitor: Monitor
    weight: float  # sum of the weights of the rows
    squares: float  # sum of the squared weights; the effective number of rows is weight^2 / squares
    since: int  # rows since the last solve
    n_solves: int
    solver_state: StochasticState | None = None  # state of a stochastic solver

    def faults(self) -> Iterator[str]:
        """Check the types of the moments and charts, the weights and the counts."""
        if not isinstance(self.moments, Moments) or not isinstance(self.monitor, Monitor):
            yield "it has no moments or no charts"
        if not all(is_finite(number) and number > 0 for number in (self.weight, self.squares)):
            yield "its weights are not positive"
        if not is_count(self.since) or not is_count(self.n_solves):
            yield "its counts are not whole numbers from 0 on"
        if not isinstance(self.solver_state, StochasticState | None):
            yield "its solver's state is not one of a stochastic solver"

    def misfits(self, step: ParityStep) -> Iterator[str]:
        """Check that the record has the atoms, the groups and the cost of `step`."""
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
        """Effective sample size: the number of equally weighted rows with the same precision."""
        return self.weight**2 / self.squares

    def measures(self, problem: DualProblem, multipliers: FloatArray) -> PolicyMeasures:
        """Return the measures for a certificate at `multipliers`; `problem` needs no rows."""
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
    """The state of a stream: the policy, the record, and the waiting rows of an incomplete block."""

    waiting_scores: FloatArray  # (n_waiting,), or class probabilities (n_waiting, n_classes)
    waiting_proba: FloatArray  # (n_waiting, n_groups)
    n_rows: int  # rows of the stream so far, including waiting rows
    n_clipped: int
    most_atoms: int  # maximum number of atoms of the grid
    step: ParityStep
    multipliers: FloatArray  # Phi of the policy, (n_constraints, n_groups)
    record: Record | None  # None until the first block is complete
    n_before: int = 0  # rows of a fit before the stream
    violation_before: FloatArray | None = None  # violation of that fit, until the first block is complete
    mark: int = 0  # number of waiting rows on which the policy was solved, before the first block

    def faults(self) -> Iterator[str]:
        """Check that waiting rows, policy and record have the same atoms and groups."""
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
            yield "its waiting rows have group probabilities outside [0, 1]"
        counts = self.n_rows, self.n_clipped, self.most_atoms, self.n_before, self.mark
        if not all(is_count(count) for count in counts) or self.n_rows < n_waiting:
            yield "its counts of rows do not agree"
        if self.violation_before is not None and not is_moderate(self.violation_before, *shape):
            yield "the violation before it does not have the shape of its multipliers"
        if not isinstance(self.record, Record | None):
            yield "it has no record"
        if self.record is not None:
            yield from self.record.misfits(self.step)
