"""A deterministic solver: proximal Newton, warm-started on subsamples.

Each step minimises the exact second-order model of the smooth part plus the penalty, with damping
that asks neighbouring atoms to move together, and goes as far that way as the objective falls. Cold starts
climb a ladder: first a few thousand rows and few atoms at a low beta, then beta up to its value and all
atoms, then more and more rows, each stage from the last one's solution and only as precise as its sample
deserves. What lost against it is in `docs/concepts/solvers.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from evenhand._utils.scalars import as_number, check_count
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.band import Band
from evenhand.dual.coarse import Coarse
from evenhand.dual.curvature import hessian, hessian_work
from evenhand.dual.objective import Evaluation, evaluate, optimality_error, penalty
from evenhand.dual.operators import Cumulative, Identity, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import MemoryRows
from evenhand.solvers.base import Solver
from evenhand.solvers.quadratic import solve_model
from evenhand.solvers.result import Status

_ROUNDING = 1e-12  # relative decrease of the objective that can still be told from rounding
_ZERO_SLACK = 1e-12  # smaller tolerances are solved as zero: a float cannot tell them apart
# Holds multipliers that no row tells apart: more slows the last steps, less lets rounding move them.
_RIDGE = 1e-7
_ACCEPT, _TRUST = 0.1, 0.7  # shares of the promised decrease: to accept a step, to damp less
_SHORT = 0.3  # share of the promise under which a shorter step is looked for
# Rows of the Hessian at a low beta, and of others on the way or where a pass is cheap; a step may show that
# they are not enough.
_SOFT_CURVATURE_ROWS, _FEW_CURVATURE_ROWS = 4096, 16_384
_FEW_GROUPS = 4  # more are solved for together: smaller steps of beta then take less time in all
_SOFT_TOL = 3e-3  # error at which beta goes on: the next one starts from ten times that
_LINE_STEPS = 5  # lengths that are tried
_REST = 1e-3  # of the damping of single atoms: holds what neighbours do alike
_STEEP, _FARTHEST = 0.5, 64.0  # share of the first slope at which a whole step was too short; its longest
_LEVEL = 0.25  # share of the first slope at which a length is good enough
_FAST = 0.3  # factor by which a step should cut the error; a worse one asks for a better Hessian
_FIRST_DAMPING, _LEAST_DAMPING, _DAMPING_FACTOR = 0.3, 1e-2, 6.0  # measured: fewest passes in all
_MOST_DAMPING = 1e6  # steps are then too short to matter: the solver has stalled


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """A smaller or softer problem on the way, with the precision that it is worth."""

    problem: DualProblem
    curvature_rows: DualProblem  # the rows that the Hessian is taken on
    tol: float
    atoms: Coarse  # those of the problem, among all
    widening: float  # factor on the tolerances of all groups
    smoother: Band  # the metric of the damping
    unit: float  # square of the largest entry of the operator
    is_soft: bool  # on the way to beta: its steps are slow for other reasons than their Hessian


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
    n_iter: int
    n_gradient_rows: int
    stalled: bool

    @property
    def multipliers(self) -> FloatArray:
        """Phi for all groups: the others follow from the binding ones and need no multiplier."""
        point = self.stages[0].atoms.carry(self.point, self.stages[-1].atoms)
        out = np.zeros((len(point), len(self.slack)))
        out[:, self.binding] = point
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
    first_temperature: float = 20.0
    temperature_growth: float | None = None  # None: 4 for few groups, 2 for many
    curvature_rows: int = 32_768
    curvature_work: int = 100_000_000  # steps of its innermost loop that a Hessian may cost

    name: ClassVar[str] = "batch"

    def __post_init__(self) -> None:
        """Refuse settings with which the ladder would have no end, or no rows."""
        for name, least in (("max_iter", 1), ("first_rows", 1), ("row_growth", 2), ("curvature_rows", 1)):
            check_count(getattr(self, name), name, least)
        check_count(self.curvature_work, "curvature_work")
        for name, above in (("tol", 0.0), ("first_temperature", 0.0), ("temperature_growth", 1.0)):
            value = getattr(self, name)
            if (name, value) != ("temperature_growth", None) and not as_number(value, name) > above:
                raise ValueError(f"{name} must be more than {above:g}: got {value!r}.")

    def init(self, problem: DualProblem, start: FloatArray | None) -> BatchState:
        """Plan the stages; a warm start goes straight to the last one."""
        slack = np.where(problem.slack < _ZERO_SLACK, 0.0, problem.slack)
        binding = binding_groups(problem.mixing, slack)
        reduced = replace(
            problem, mixing=np.ascontiguousarray(problem.mixing[:, binding]), slack=slack[binding]
        )
        stages = self._stages(reduced) if start is None else (self._stage(reduced, self.tol),)
        first = stages[0].problem
        point = np.zeros(first.multipliers_shape) if start is None else _carry(problem, start, binding)
        return BatchState(
            stages=stages,
            binding=binding,
            slack=slack,
            onto_all=np.linalg.pinv(reduced.mixing) @ problem.mixing,
            point=point,
            now=evaluate(first, point),
            damping=_FIRST_DAMPING if start is None else 0.0,
            n_iter=0,
            n_gradient_rows=first.n_rows,
            stalled=False,
        )

    def step(self, problem: DualProblem, state: BatchState) -> BatchState:
        """One accepted Newton step, or the move to the next stage."""
        stage = state.stages[0]
        if len(state.stages) > 1 and (state.stalled or _converged(stage, state)):
            return _advance(state)
        after = replace(_newton_step(stage, state), n_iter=state.n_iter + 1)
        slow = _error(stage, after) > _FAST * _error(stage, state)
        if slow and not stage.is_soft and stage.curvature_rows.n_rows < stage.problem.n_rows:
            better = self._with_more_curvature(stage)
            if better.curvature_rows.n_rows > stage.curvature_rows.n_rows:
                # also where no step was found: one may be there with the better Hessian
                return replace(after, stages=(better, *state.stages[1:]), stalled=False)
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
        # Where a pass is cheap, the Hessians of a stage take longer than the passes that it saves.
        growth = self.row_growth ** (2 if problem.rows.passes_are_cheap else 1)
        while sizes[-1] > self.first_rows * growth:
            sizes.append(sizes[-1] // growth)
        rows = [problem, *(problem.sample(size) for size in sizes[1:])]
        temperatures = [problem.temperature]
        sharper = self.temperature_growth
        if sharper is None:
            sharper = 4.0 if problem.n_groups <= _FEW_GROUPS else 2.0
        while temperatures[-1] > self.first_temperature * sharper:
            temperatures.append(temperatures[-1] / sharper)
        climb = [rows[-1].at_temperature(beta) for beta in temperatures[:0:-1]] + rows[::-1]
        loose = [
            max(self.tol, 0.05 / np.sqrt(stage.n_rows), _SOFT_TOL * (stage.temperature < problem.temperature))
            for stage in climb[:-1]
        ]
        on_the_way = [
            self._stage(stage, tol, is_soft=stage.temperature < problem.temperature, is_on_the_way=True)
            for stage, tol in zip(climb[:-1], loose, strict=True)
        ]
        return (*on_the_way, self._stage(climb[-1], self.tol))

    def _stage(
        self, problem: DualProblem, tol: float, *, is_soft: bool = False, is_on_the_way: bool = False
    ) -> Stage:
        atoms = Coarse.enough_for(problem, problem.temperature) if is_soft else Coarse.all_of(problem)
        coarse = atoms.problem(problem)
        most = self.curvature_rows
        if is_soft:
            most = min(_SOFT_CURVATURE_ROWS, most)
        elif is_on_the_way or problem.rows.passes_are_cheap:
            most = min(_FEW_CURVATURE_ROWS, most)
        n_rows = min(most, max(_SOFT_CURVATURE_ROWS, self.curvature_work // hessian_work(problem)))
        widening = atoms.widening(problem)
        unit = float(np.abs(matrix(coarse.parity.operator)).max()) ** 2
        return Stage(coarse, _stored(coarse, n_rows), tol, atoms, widening, _smoother(coarse), unit, is_soft)

    def _with_more_curvature(self, stage: Stage) -> Stage:
        """The stage with a Hessian on four times as many rows, for when the sample's is not good enough."""
        n_rows = 4 * stage.curvature_rows.n_rows
        if stage.problem.rows.passes_are_cheap:  # another step is the cheaper way
            n_rows = min(n_rows, self.curvature_rows)
        return replace(stage, curvature_rows=_stored(stage.problem, n_rows))


def _stored(problem: DualProblem, n_rows: int) -> DualProblem:
    """The problem on `n_rows` rows in memory, or on all where there are no more."""
    if problem.n_rows <= n_rows and isinstance(problem.rows, MemoryRows):
        return problem
    sample = problem.rows.sample(min(n_rows, problem.n_rows))
    return replace(problem, rows=sample.in_memory())


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


def _smoother(problem: DualProblem) -> Band:
    """Metric over Phi in which the tilts of neighbouring atoms move together, the same for every group."""
    operator, n_atoms = problem.parity.operator, problem.n_atoms
    if isinstance(operator, Cumulative):  # of sums up to each atom differences of tilts are all there is
        metric = operator.scales[:, None] ** 2
    elif isinstance(operator, Identity):
        metric = np.tile([2.0 + _REST, -1.0], (n_atoms, 1))
        metric[[0, -1], 0] -= 1.0
        metric[-1, 1] = 0.0
    else:
        rows = matrix(operator)
        steps = np.diff(rows, axis=1)
        metric = Band.of_matrix(steps @ steps.T + _REST * (rows @ rows.T)).columns
    return Band(metric / max(float(metric[:, 0].max()), 1e-300)).repeated(problem.n_groups)


def _error(stage: Stage, state: BatchState) -> float:
    """The optimality error, with the excess of the groups that were not solved for."""
    violation = stage.problem.parity.norm.value(state.now.violation @ state.onto_all)
    excess = float((violation - stage.widening * state.slack).max())
    return max(excess, optimality_error(stage.problem, state.point, state.now))


def _converged(stage: Stage, state: BatchState) -> bool:
    return _error(stage, state) <= stage.tol


def _advance(state: BatchState) -> BatchState:
    """Carry the point over to the next stage."""
    before, *stages = state.stages
    point = before.atoms.carry(state.point, stages[0].atoms)
    return replace(
        state,
        stages=tuple(stages),
        point=point,
        now=evaluate(stages[0].problem, point),
        n_gradient_rows=state.n_gradient_rows + stages[0].problem.n_rows,
        stalled=False,
    )


def _newton_step(stage: Stage, state: BatchState) -> BatchState:
    """Minimise the model and go that way; damp it more where the objective does not fall as it said."""
    problem = stage.problem
    curvature = hessian(stage.curvature_rows, state.point)
    # A policy that is all on one atom has no curvature; tilts of order one still need a scale.
    largest = max(float(curvature.diagonal.max()), stage.unit * min(1.0, problem.temperature))
    damping = state.damping
    while damping < _MOST_DAMPING:
        model = curvature + stage.smoother * ((damping + _RIDGE) * largest)
        pull = (model @ state.point.ravel()).reshape(state.point.shape)
        linear = state.now.violation - pull
        there = solve_model(problem.parity.norm, model, linear, problem.slack, state.point)
        move = there - state.point
        if not move.any():  # floats know no better point of this model
            damping = max(_DAMPING_FACTOR * damping, _LEAST_DAMPING)
            continue
        change = penalty(problem, there) - penalty(problem, state.point)
        slope = float((state.now.violation * move).sum()) + change
        promise = -slope - 0.5 * float(move.ravel() @ (model @ move.ravel()))
        after, length = _along(stage, state, move, slope, change, promise)
        share = _share_of_promise(stage, state, after, promise)
        if share > _ACCEPT * min(length, 1.0):
            return replace(after, damping=_next_damping(damping, length, share))
        state = replace(state, n_gradient_rows=after.n_gradient_rows)
        damping = max(_DAMPING_FACTOR * damping, _LEAST_DAMPING)
    return replace(state, stalled=True)


def _next_damping(damping: float, length: float, share: float) -> float:
    """More where the model went too far, less where it kept its word, much less where it was too timid."""
    if length < 0.25:
        return max(4.0 * damping, 1e-4)
    if share > _TRUST and length >= 1.0:
        damping /= _DAMPING_FACTOR**2 if share > 1.0 else _DAMPING_FACTOR
    return damping if damping > _LEAST_DAMPING / 1e4 else 0.0


def _along(
    stage: Stage, state: BatchState, move: FloatArray, slope: float, change: float, promise: float
) -> tuple[BatchState, float]:
    """The step, or as much of it as lowers the objective best, and its length.

    `slope` is that of the objective at the start, with the penalty as if it changed by `change` at an even
    pace: it is convex, so that never promises too much.
    """
    problem = stage.problem

    def at(length: float, before: BatchState) -> tuple[BatchState, float]:
        point = state.point + length * move
        now = evaluate(problem, point)
        n_rows = before.n_gradient_rows + problem.n_rows
        after = replace(state, point=point, now=now, n_gradient_rows=n_rows)
        return after, float((now.violation * move).sum()) + change

    after, steepness = at(1.0, state)
    if steepness < _STEEP * slope < 0.0:
        return _farther(at, after)
    if _share_of_promise(stage, state, after, promise) > _SHORT or not slope < 0.0 < steepness:
        return after, 1.0
    best, best_length = after, 1.0
    low, high, low_slope, high_slope = 0.0, 1.0, slope, steepness
    for _ in range(_LINE_STEPS):
        share = min(max(low_slope / (low_slope - high_slope), 0.1), 0.9)
        length = low + share * (high - low)
        after, steepness = at(length, after)
        if after.now.value < best.now.value:
            best, best_length = after, length
        if abs(steepness) < _LEVEL * abs(slope):
            break
        if steepness < 0.0:
            low, low_slope = length, steepness
        else:
            high, high_slope = length, steepness
    return replace(best, n_gradient_rows=after.n_gradient_rows), best_length


def _farther(
    at: Callable[[float, BatchState], tuple[BatchState, float]], best: BatchState
) -> tuple[BatchState, float]:
    """Twice as far, and again, as long as the objective falls: where nothing is curved, the ridge holds."""
    length = 1.0
    while length < _FARTHEST:
        after, _ = at(2.0 * length, best)
        if not after.now.value < best.now.value:
            return replace(best, n_gradient_rows=after.n_gradient_rows), length
        best, length = after, 2.0 * length
    return best, length


def _share_of_promise(stage: Stage, state: BatchState, after: BatchState, promise: float) -> float:
    """How much of the promised decrease came true; where floats cannot tell, how much of the error went."""
    if promise > _ROUNDING * (1.0 + abs(state.now.value)):
        return (state.now.value - after.now.value) / promise
    return 1.0 - _error(stage, after) / max(_error(stage, state), np.finfo(float).tiny)
