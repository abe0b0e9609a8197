"""A deterministic solver: proximal Newton, warm-started on subsamples.

Cold starts climb a ladder: first a few thousand rows and few atoms at a low beta, then beta up to its value
and all atoms, then more and more rows, each stage from the last one's solution and only as precise as its
sample deserves. What lost against it is in `docs/concepts/solvers.md`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from evenhand._utils.scalars import as_number, check_count
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.band import Band
from evenhand.dual.coarse import Coarse
from evenhand.dual.curvature import hessian_work
from evenhand.dual.objective import Evaluation, evaluate
from evenhand.dual.operators import Cumulative, Identity, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import MemoryRows
from evenhand.solvers.atom_steps import atom_step, goes_by_atom, swept
from evenhand.solvers.base import Solver
from evenhand.solvers.newton import (
    FAST,
    FEW_GROUPS,
    RIDGE,
    BatchState,
    Stage,
    error_of,
    has_converged,
    moves_in_part,
    newton_step,
)
from evenhand.solvers.rehearsal import is_worth_it, rehearsed_step
from evenhand.solvers.result import Status

_ZERO_SLACK = 1e-12  # smaller tolerances are solved as zero: a float cannot tell them apart
# Rows of the Hessian at a low beta, and of others on the way or where a pass is cheap; a step may show that
# they are not enough. With many groups all are taken up to `curvature_rows`: what sets some groups apart is
# seen in few of them, and of a Hessian without these rows a step takes the wrong way.
_SOFT_CURVATURE_ROWS, _FEW_CURVATURE_ROWS = 4096, 16_384
# Error at which beta goes on, with few groups and with many: the next one starts from five to ten times that.
_SOFT_TOL, _SOFT_TOL_OF_MANY = 3e-3, 1e-2
_LEAST_SHARE = 1e-4  # of the largest imbalance, squared, that a group is held by
_REST = 1e-3  # of the damping of single atoms: holds what neighbours do alike
_FIRST_DAMPING = 0.3  # measured: fewest passes in all
# With many groups, at least, where a sharper or finer stage begins: the model of the last one is off there.
_STAGE_DAMPING = 1e-3


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
    curvature_work: int = 100_000_000  # steps of its innermost loop that a Hessian of few groups may cost

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
            damping=_FIRST_DAMPING if start is None else RIDGE,
            n_iter=0,
            n_gradient_rows=first.n_rows,
            stalled=False,
        )

    def step(self, problem: DualProblem, state: BatchState) -> BatchState:
        """One accepted Newton step, or the move to the next stage."""
        stage = state.stages[0]
        if len(state.stages) > 1 and (state.stalled or has_converged(stage, state)):
            return _advance(state)
        after = replace(_step_of(stage)(stage, state), n_iter=state.n_iter + 1)
        slow = error_of(stage, after) > FAST * error_of(stage, state)
        if slow and not stage.is_soft and stage.curvature_rows.n_rows < stage.problem.n_rows:
            better = self._with_more_curvature(stage)
            if better.curvature_rows.n_rows > stage.curvature_rows.n_rows:
                # also where no step was found: one may be there with the better Hessian
                return replace(after, stages=(better, *state.stages[1:]), stalled=False, missed=None)
        return after

    def done(self, problem: DualProblem, state: BatchState) -> Status | None:
        """Converged on the last stage, stalled there, or out of iterations."""
        if len(state.stages) == 1:
            if has_converged(state.stages[0], state):
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
        return replace(state.now, violation=state.now.violation @ state.onto_all)

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
            sharper = 4.0 if problem.n_groups <= FEW_GROUPS else 2.0
        while temperatures[-1] > self.first_temperature * sharper:
            temperatures.append(temperatures[-1] / sharper)
        soft = [(rows[-1].at_temperature(beta), beta) for beta in temperatures[:0:-1]]
        if soft and moves_in_part(problem):  # first sharper, then on all atoms: both at once take more steps
            soft.append((rows[-1], soft[-1][1]))
        soft_tol = _SOFT_TOL if problem.n_groups <= FEW_GROUPS else _SOFT_TOL_OF_MANY
        on_the_way = [
            self._stage(stage, max(self.tol, soft_tol, _precision(stage)), Coarse.enough_for(stage, beta))
            for stage, beta in soft
        ]
        on_the_way += [
            self._stage(stage, max(self.tol, _precision(stage)), is_on_the_way=True) for stage in rows[:0:-1]
        ]
        return (*on_the_way, self._stage(problem, self.tol))

    def _stage(
        self, problem: DualProblem, tol: float, few: Coarse | None = None, *, is_on_the_way: bool = False
    ) -> Stage:
        """A stage on all atoms, or a soft one on `few`."""
        atoms = Coarse.all_of(problem) if few is None else few
        coarse = atoms.problem(problem)
        curvature_rows = _stored(coarse, self._first_curvature_rows(problem, few, is_on_the_way))
        return Stage(
            problem=coarse,
            curvature_rows=curvature_rows,
            tol=tol,
            atoms=atoms,
            widening=atoms.widening(problem),
            smoother=_smoother(curvature_rows),
            unit=float(np.abs(matrix(coarse.parity.operator)).max()) ** 2,
            is_soft=few is not None,
        )

    def _first_curvature_rows(self, problem: DualProblem, few: Coarse | None, is_on_the_way: bool) -> int:
        """How many rows the Hessian of a stage is taken on at first."""
        n_rows = self.curvature_rows
        if problem.n_groups > FEW_GROUPS:
            return n_rows
        if few is not None:
            n_rows = min(_SOFT_CURVATURE_ROWS, n_rows)
        elif is_on_the_way or problem.rows.passes_are_cheap:
            n_rows = min(_FEW_CURVATURE_ROWS, n_rows)
        return min(n_rows, max(_SOFT_CURVATURE_ROWS, self.curvature_work // hessian_work(problem)))

    def _with_more_curvature(self, stage: Stage) -> Stage:
        """The stage with a Hessian on four times as many rows, for when the sample's is not good enough."""
        n_rows = 4 * stage.curvature_rows.n_rows
        if stage.problem.rows.passes_are_cheap:  # another step is the cheaper way
            n_rows = min(n_rows, self.curvature_rows)
        return replace(stage, curvature_rows=_stored(stage.problem, n_rows))


def _step_of(stage: Stage) -> Callable[[Stage, BatchState], BatchState]:
    """The kind of step that a stage takes."""
    if goes_by_atom(stage):
        return atom_step
    return rehearsed_step if is_worth_it(stage.problem.rows) else newton_step


def _precision(problem: DualProblem) -> float:
    """What a sample of so many rows deserves."""
    return 0.05 / float(np.sqrt(problem.n_rows))


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
    """Metric over Phi in which the tilts of neighbouring atoms move together.

    It is the same for every group; of many, those with a small imbalance are held by less.
    """
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
    alike = Band(metric / max(float(metric[:, 0].max()), 1e-300)).repeated(problem.n_groups)
    if not moves_in_part(problem):
        return alike
    sizes = np.einsum("us,uv,vs->s", problem.mixing, problem.rows.second_moment(), problem.mixing)
    shares = np.maximum(sizes / max(float(sizes.max()), 1e-300), _LEAST_SHARE)
    return alike.scaled(np.tile(np.sqrt(shares), len(metric)))


def _advance(state: BatchState) -> BatchState:
    """Carry the point over to the next stage."""
    before, *stages = state.stages
    point = before.atoms.carry(state.point, stages[0].atoms)
    after = replace(
        state,
        stages=tuple(stages),
        point=point,
        now=evaluate(stages[0].problem, point),
        n_gradient_rows=state.n_gradient_rows + stages[0].problem.n_rows,
        damping=max(state.damping, _STAGE_DAMPING) if moves_in_part(stages[0].problem) else state.damping,
        stalled=False,
        missed=None,
    )
    return swept(stages[0], after) if goes_by_atom(stages[0]) else after
