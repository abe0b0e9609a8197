"""One proximal Newton step: the model of the smooth part plus the penalty is minimised, and followed.

The model is damped so that neighbouring atoms move together, and the step goes as far as the objective falls.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.band import Band
from evenhand.dual.coarse import Coarse
from evenhand.dual.curvature import hessian
from evenhand.dual.dense import Dense
from evenhand.dual.objective import Evaluation, evaluate, optimality_error, penalty
from evenhand.dual.operators import Cumulative, Identity, L1Norm, SupNorm
from evenhand.dual.partial_curvature import hessian_at
from evenhand.dual.problem import DualProblem
from evenhand.solvers.quadratic import solve_model

FEW_GROUPS = 4  # more are solved for together: smaller steps of beta then take less time in all
_ROUNDING = 1e-12  # relative decrease of the objective that can still be told from rounding
# The least damping holds multipliers that hardly a row tells apart. With many groups there are so many that
# the last steps would be slow: where one goes as its model says, the next is held by a tenth of it.
RIDGE, _LEAST_RIDGE = 1e-7, 1e-11
_ACCEPT, _TRUST = 0.1, 0.7  # shares of the promised decrease: to accept a step, to damp less
_SHORT = 0.3  # share of the promise under which a shorter step is looked for
_NEAR_TOLERANCE = 0.05  # of a tolerance: multipliers at zero whose violation is so near to it may move
_LINE_STEPS = 5  # lengths that are tried
_STEEP, _FARTHEST = 0.5, 64.0  # share of the first slope at which a whole step was too short; its longest
_LEVEL = 0.25  # share of the first slope at which a length is good enough
FAST = 0.3  # factor by which a step should cut the error; a worse one asks for a better Hessian
_LEAST_DAMPING, _DAMPING_FACTOR = 1e-2, 6.0  # measured: fewest passes in all
_SLIGHTLY_MORE = _DAMPING_FACTOR ** np.arange(3)  # times a damping with which no point below was found
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
    missed: FloatArray | None = None  # what a sample will miss of the next step's moments, where it is known

    @property
    def multipliers(self) -> FloatArray:
        """Phi for all groups: the others follow from the binding ones and need no multiplier."""
        point = self.stages[0].atoms.carry(self.point, self.stages[-1].atoms)
        out = np.zeros((len(point), len(self.slack)))
        out[:, self.binding] = point
        return out


def error_of(stage: Stage, state: BatchState) -> float:
    """The optimality error, with the excess of the groups that were not solved for."""
    violation = stage.problem.parity.norm.value(state.now.violation @ state.onto_all)
    excess = float((violation - stage.widening * state.slack).max())
    return max(excess, optimality_error(stage.problem, state.point, state.now))


def has_converged(stage: Stage, state: BatchState) -> bool:
    """Whether the stage is solved to its precision."""
    return error_of(stage, state) <= stage.tol


def newton_step(stage: Stage, state: BatchState) -> BatchState:
    """Minimise the model and go that way; damp it more where the objective does not fall as it said."""
    problem, norm = stage.problem, stage.problem.parity.norm
    moving = moving_places(problem, state)
    if not len(moving):
        return replace(state, stalled=True)
    curvature, smoother = metric_of(stage, state, moving)
    # A policy that is all on one atom has no curvature; tilts of order one still need a scale.
    largest = max(float(curvature.diagonal.max()), stage.unit * min(1.0, problem.temperature))
    here, violation = state.point.ravel()[moving], state.now.violation.ravel()[moving]
    for least in _dampings(state.damping):
        for damping in least * _SLIGHTLY_MORE:
            model = curvature + smoother * (damping * largest)
            there = solve_model(norm, model, violation - model @ here, here, problem.slack, moving)
            step = there - here
            if step.any():
                break
        else:
            continue
        move = np.zeros(state.point.shape)
        move.reshape(-1)[moving] = step
        change = penalty(problem, state.point + move) - penalty(problem, state.point)
        slope = float(violation @ step) + change
        promise = -slope - 0.5 * float(step @ (model @ step))
        after, length = _along(stage, state, move, slope, change, promise)
        share = share_of_promise(stage, state, after, promise)
        if share > _ACCEPT * min(length, 1.0):
            if damping > RIDGE or length < 1.0 or not moves_in_part(problem):
                return replace(after, damping=_next_damping(damping, length, share))
            missed = after.now.violation.ravel()[moving] - violation - curvature @ (length * step)
            held = damping * largest * (smoother @ step)
            return replace(after, damping=_next_ridge(damping, missed, held))
        state = replace(state, n_gradient_rows=after.n_gradient_rows)
    return replace(state, stalled=True)


def moving_places(problem: DualProblem, state: BatchState) -> IntArray:
    """Places of Phi raveled that a step may change.

    With many groups most multipliers are zero and stay there: a step leaves them out, and its Hessian is a
    fraction of the whole. One that a step should have moved is among the next one's.
    """
    if not moves_in_part(problem):
        return np.arange(state.point.size)
    violation = np.abs(state.now.violation)
    moves = state.point != 0.0
    if isinstance(problem.parity.norm, L1Norm):  # a group as a whole
        moves[:] = moves.any(axis=0)
        violation = np.broadcast_to(problem.parity.norm.value(violation), moves.shape)
    return np.flatnonzero(moves | (violation > (1.0 - _NEAR_TOLERANCE) * problem.slack))


def moves_in_part(problem: DualProblem) -> bool:
    """Whether steps leave multipliers out: where there are many groups, and the Hessian is no narrow band."""
    parity = problem.parity
    known = isinstance(parity.norm, SupNorm | L1Norm) and isinstance(parity.operator, Cumulative | Identity)
    return known and problem.n_groups > FEW_GROUPS


def metric_of(stage: Stage, state: BatchState, moving: IntArray) -> tuple[Band | Dense, Band]:
    """The Hessian, and the metric of its damping."""
    if moves_in_part(stage.problem):
        # single precision, where the damping is above its rounding or the stage is not worth more
        dtype = np.float32 if stage.is_soft or state.damping > RIDGE else np.float64
        return hessian_at(stage.curvature_rows, state.point, moving, dtype), stage.smoother.at(moving)
    return hessian(stage.curvature_rows, state.point), stage.smoother


def _dampings(first: float) -> Iterator[float]:
    """What a step is tried with: more and more, and at last the ridge alone, should all of it be too much."""
    damping = first
    while damping < _MOST_DAMPING:
        yield damping
        damping = RIDGE if damping < RIDGE else max(_DAMPING_FACTOR * damping, _LEAST_DAMPING)
    if first > RIDGE:
        yield RIDGE


def _next_damping(damping: float, length: float, share: float) -> float:
    """More where the model went too far, less where it kept its word, much less where it was too timid."""
    if length < 0.25:
        return max(4.0 * damping, 1e-4)
    if share > _TRUST and length >= 1.0:
        damping /= _DAMPING_FACTOR**2 if share > 1.0 else _DAMPING_FACTOR
    return damping if damping > _LEAST_DAMPING / 1e4 else RIDGE


def _next_ridge(ridge: float, missed: FloatArray, held: FloatArray) -> float:
    """Less where it held back more of the violation than the model missed."""
    if np.abs(missed).max() < np.abs(held).max():
        return max(ridge / 10.0, _LEAST_RIDGE)
    return min(4.0 * ridge, RIDGE)


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
    if not is_told(state, promise):  # values would choose a length by their rounding
        return after, 1.0
    if steepness < _STEEP * slope < 0.0:
        return _farther(at, after)
    if share_of_promise(stage, state, after, promise) > _SHORT or not slope < 0.0 < steepness:
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


def share_of_promise(stage: Stage, state: BatchState, after: BatchState, promise: float) -> float:
    """How much of the promised decrease came true; where floats cannot tell, how much of the error went."""
    if promise > 0.0 and is_told(state, promise):
        return (state.now.value - after.now.value) / promise
    return 1.0 - error_of(stage, after) / max(error_of(stage, state), np.finfo(float).tiny)


def is_told(state: BatchState, promise: float) -> bool:
    """Whether floats can tell such a change of the objective."""
    return abs(promise) > _ROUNDING * (1.0 + abs(state.now.value))
