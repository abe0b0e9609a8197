"""A deterministic solver for stored rows: proximal Newton, warm-started on subsamples.

Each step minimises the exact second-order model of the smooth part plus the penalty, with damping
that asks neighbouring atoms to move together, and is accepted when the objective falls as the model
said. Cold starts climb a ladder: first a few thousand rows at a low beta, then beta up to its value,
then more and more rows, each stage from the last one's solution and only as precise as its sample
deserves. What lost against it is in `docs/solvers.md`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.objective import Evaluation, evaluate, hessian, hessian_work, optimality_error, penalty
from evenhand.dual.parity import matrix
from evenhand.dual.problem import DualProblem
from evenhand.solvers.base import Solver
from evenhand.solvers.quadratic import solve_model
from evenhand.solvers.result import Status

_ROUNDING = 1e-12  # relative decrease of the objective that can still be told from rounding
_ZERO_SLACK = 1e-12  # smaller tolerances are solved as zero: a float cannot tell them apart
_RIDGE = 1e-10  # keeps the model positive definite on atoms that nobody uses
_ACCEPT, _TRUST = 0.1, 0.7  # shares of the promised decrease: to accept a step, to damp less
_FAST = 0.3  # factor by which a step should cut the error; a worse one asks for a better Hessian
_FIRST_DAMPING, _LEAST_DAMPING, _DAMPING_FACTOR = 0.3, 1e-2, 6.0  # measured: fewest passes in all
_MOST_DAMPING = 1e6  # steps are then too short to matter: the solver has stalled


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A smaller or softer problem on the way, with the precision that it is worth."""

    problem: DualProblem
    curvature_rows: DualProblem  # the rows that the Hessian is taken on
    tol: float


@dataclass(frozen=True, slots=True, eq=False)
class BatchState:
    """Where the climb is."""

    stages: tuple[Stage, ...]  # those left; the first is being solved
    binding: IntArray  # indices of the groups that are solved for
    slack: FloatArray  # of all groups, (n_groups,)
    onto_all: FloatArray  # violations of the binding groups -> of all, (n_binding, n_groups)
    point: FloatArray  # Phi of the binding groups, (n_constraints, n_binding)
    now: Evaluation
    damping: float
    smoother: FloatArray  # the metric of the damping
    n_iter: int
    n_gradient_rows: int
    stalled: bool

    @property
    def multipliers(self) -> FloatArray:
        """Phi for all groups: the others follow from the binding ones and need no multiplier."""
        out = np.zeros((self.point.shape[0], len(self.slack)))
        out[:, self.binding] = self.point
        return out


@dataclass(frozen=True, slots=True)
class Batch(Solver[BatchState]):
    """Proximal Newton over a ladder of subsamples.

    `tol` bounds the violation beyond epsilon and the primal-dual gap, both on the scale where the
    atoms span [-1, 1].
    """

    tol: float = 1e-6
    max_iter: int = 500
    first_rows: int = 4096
    row_growth: int = 8
    first_temperature: float = 200.0
    temperature_growth: float = 4.0
    curvature_rows: int = 32_768
    curvature_work: int = 100_000_000  # steps of its innermost loop that a Hessian may cost

    name: ClassVar[str] = "batch"

    def init(self, problem: DualProblem, start: FloatArray | None) -> BatchState:
        """Plan the stages; a warm start goes straight to the last one."""
        slack = np.where(problem.slack < _ZERO_SLACK, 0.0, problem.slack)
        binding = binding_groups(problem.mixing, slack)
        reduced = replace(
            problem, mixing=np.ascontiguousarray(problem.mixing[:, binding]), slack=slack[binding]
        )
        stages = self._stages(reduced) if start is None else (self._stage(reduced, self.tol),)
        point = np.zeros(reduced.multipliers_shape) if start is None else _carry(problem, start, binding)
        return BatchState(
            stages=stages,
            binding=binding,
            slack=slack,
            onto_all=np.linalg.pinv(reduced.mixing) @ problem.mixing,
            point=point,
            now=evaluate(stages[0].problem, point),
            damping=_FIRST_DAMPING if start is None else 0.0,
            smoother=_smoother(reduced),
            n_iter=0,
            n_gradient_rows=stages[0].problem.n_rows,
            stalled=False,
        )

    def step(self, problem: DualProblem, state: BatchState) -> BatchState:
        """One accepted Newton step, or the move to the next stage."""
        stage = state.stages[0]
        if len(state.stages) > 1 and (state.stalled or _converged(stage, state)):
            return _advance(state)
        after = replace(_newton_step(stage, state), n_iter=state.n_iter + 1)
        slow = _error(stage, after) > _FAST * _error(stage, state)
        if slow and stage.curvature_rows.n_rows < stage.problem.n_rows:
            # also where no step was found: one may be there with the better Hessian
            return replace(after, stages=(_with_more_curvature(stage), *state.stages[1:]), stalled=False)
        return after

    def done(self, problem: DualProblem, state: BatchState) -> Status | None:
        """Converged on the last stage, stalled there, or out of iterations."""
        if len(state.stages) == 1:
            if _converged(state.stages[0], state):
                return Status.CONVERGED
            if state.stalled:
                return Status.STALLED
        return Status.MAX_ITER if state.n_iter >= self.max_iter else None

    def loosened(self, tol: float) -> Self:
        """The same solver, no more precise than `tol`."""
        return replace(self, tol=max(self.tol, tol))

    def how_far(self, first: BatchState, state: BatchState) -> tuple[float, float | None]:
        """Stages done, and in all."""
        return len(first.stages) - len(state.stages), len(first.stages)

    def on_its_rows(self, state: BatchState) -> Evaluation:
        """The dual on the rows of the stage, for the groups that are solved for."""
        return state.now

    def on_all_rows(self, state: BatchState) -> Evaluation | None:
        """The dual over all rows, which is known on the last stage.

        The binding groups span the imbalance, so their violations give those of all groups.
        """
        if len(state.stages) > 1:
            return None
        return Evaluation(state.now.value, state.now.violation @ state.onto_all)

    def _stages(self, problem: DualProblem) -> tuple[Stage, ...]:
        sizes = [problem.n_rows]
        while sizes[-1] > self.first_rows * self.row_growth:
            sizes.append(sizes[-1] // self.row_growth)
        rows = [problem, *(problem.sample(size) for size in sizes[1:])]
        temperatures = [problem.temperature]
        while temperatures[-1] > self.first_temperature * self.temperature_growth:
            temperatures.append(temperatures[-1] / self.temperature_growth)
        climb = [rows[-1].at_temperature(beta) for beta in temperatures[:0:-1]] + rows[::-1]
        loose = [max(self.tol, 0.05 / np.sqrt(stage.n_rows)) for stage in climb[:-1]]
        return tuple(self._stage(stage, tol) for stage, tol in zip(climb, [*loose, self.tol], strict=True))

    def _stage(self, problem: DualProblem, tol: float) -> Stage:
        n_rows = min(self.curvature_rows, max(4096, self.curvature_work // hessian_work(problem)))
        if problem.n_rows <= n_rows:
            return Stage(problem, problem, tol)
        return Stage(problem, problem.sample(n_rows), tol)


def _with_more_curvature(stage: Stage) -> Stage:
    """The stage with a Hessian on four times as many rows, for when the sample's is not good enough."""
    problem = stage.problem
    n_rows = 4 * stage.curvature_rows.n_rows
    rows = problem if n_rows >= problem.n_rows else problem.sample(n_rows)
    return replace(stage, curvature_rows=rows)


def binding_groups(mixing: FloatArray, slack: FloatArray) -> IntArray:
    """Groups to solve for: of groups with proportional imbalance, the one with the tightest bound.

    With two groups `t_2 = -(p_1 / p_2) t_1`, so that one constraint implies the other.
    """
    lengths = np.linalg.norm(mixing, axis=0)
    directions = mixing / lengths
    alike = np.abs(directions.T @ directions) > 1.0 - 1e-12
    kept: list[int] = []
    for group in np.lexsort((-lengths, slack / lengths)):  # of equal ones, that with the larger imbalance
        if not alike[group, kept].any():
            kept.append(int(group))
    return np.sort(np.array(kept))


def _carry(problem: DualProblem, start: FloatArray, binding: IntArray) -> FloatArray:
    """Multipliers of the binding groups with the tilt of `start`; those that bind stay as they are."""
    dropped = np.setdiff1d(np.arange(problem.n_groups), binding)
    share = np.linalg.lstsq(problem.mixing[:, binding], problem.mixing[:, dropped], rcond=None)[0]
    carried: FloatArray = start[:, binding] + start[:, dropped] @ share.T
    return carried


def _smoother(problem: DualProblem) -> FloatArray:
    """Metric over Phi in which the tilts of neighbouring atoms move together."""
    steps = np.diff(np.eye(problem.n_atoms), axis=0)
    operator = matrix(problem.parity.operator)
    laplacian = steps.T @ steps + 1e-3 * np.eye(problem.n_atoms)
    metric = operator @ laplacian @ operator.T
    return np.kron(np.eye(problem.n_groups), metric / np.maximum(np.diag(metric).max(), 1e-300))


def _error(stage: Stage, state: BatchState) -> float:
    """The optimality error, with the excess of the groups that were not solved for."""
    violation = stage.problem.parity.norm.value(state.now.violation @ state.onto_all)
    excess = float((violation - state.slack).max())
    return max(excess, optimality_error(stage.problem, state.point, state.now))


def _converged(stage: Stage, state: BatchState) -> bool:
    return _error(stage, state) <= stage.tol


def _advance(state: BatchState) -> BatchState:
    """Carry the point over to the next stage."""
    stages = state.stages[1:]
    return replace(
        state,
        stages=stages,
        now=evaluate(stages[0].problem, state.point),
        n_gradient_rows=state.n_gradient_rows + stages[0].problem.n_rows,
        stalled=False,
    )


def _newton_step(stage: Stage, state: BatchState) -> BatchState:
    """Minimise the model, damping it until the step does a fair share of what the model promised."""
    problem = stage.problem
    curvature = hessian(stage.curvature_rows, state.point)
    # A policy that is all on one atom has no curvature; tilts of order one still need a scale.
    unit = float(np.abs(matrix(problem.parity.operator)).max()) ** 2
    largest = max(float(np.diag(curvature).max()), unit * min(1.0, problem.temperature))
    here, slope = state.point.T, state.now.violation.T
    damping, n_rows = state.damping, state.n_gradient_rows
    while damping < _MOST_DAMPING:
        model = curvature + (damping + _RIDGE) * largest * state.smoother
        linear = slope - (model @ here.ravel()).reshape(here.shape)
        there = solve_model(problem.parity.norm, model, linear, problem.slack, here)
        move = (there - here).ravel()
        promise = penalty(problem, here.T) - penalty(problem, there.T)
        promise -= float(slope.ravel() @ move + 0.5 * move @ model @ move)
        n_rows += problem.n_rows
        after = replace(
            state,
            point=np.ascontiguousarray(there.T),
            now=evaluate(problem, there.T),
            n_gradient_rows=n_rows,
        )
        share = _share_of_promise(stage, state, after, promise)
        if share > _ACCEPT:
            damping = damping / _DAMPING_FACTOR if share > _TRUST else damping
            return replace(after, damping=damping if damping > _LEAST_DAMPING / 1e4 else 0.0)
        damping = max(_DAMPING_FACTOR * damping, _LEAST_DAMPING)
    return replace(state, n_gradient_rows=n_rows, stalled=True)


def _share_of_promise(stage: Stage, state: BatchState, after: BatchState, promise: float) -> float:
    """How much of the promised decrease came true; where floats cannot tell, how much of the error went."""
    if promise > _ROUNDING * (1.0 + abs(state.now.value)):
        return (state.now.value - after.now.value) / promise
    return 1.0 - _error(stage, after) / max(_error(stage, state), np.finfo(float).tiny)
