"""Update a stream with one block: measure it, compare it with the stream, add it, and solve again if due.

The solver never processes the whole stream. When a solve is due, it uses the last block, with a correction
for the gradient of the whole stream at the current policy:

    min_Phi  F_block(Phi) + <V_stream - V_block, Phi>        (V at the current Phi)

The curvature comes from the block and the gradient from the stream. The error of the solution is the sampling
noise of the block's curvature times the length of the move, which is short. The running moments are then
carried over to the new policy (`Moments.carried`). So each row is used only in its own block.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import MARGIN, Grid, check_beta, paper_beta, range_without_outliers
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.dual.parity import Parity, resolve_parity
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep, choose_grid
from evenhand.estimators.streaming.moments import Moments, measure, moment_shift
from evenhand.estimators.streaming.monitor import (
    Drift,
    Monitor,
    alarm_threshold,
    find_drift,
    forecast_errors,
)
from evenhand.estimators.streaming.state import Record, Settings, Stream
from evenhand.solvers import Auto, Solver, Status, run
from evenhand.solvers.stochastic import StochasticSolver, StochasticState

# Values of "auto": the risk on new rows was 0.999 times that of a fit with 201 atoms and beta = 10,000
# (benchmark `stream`). More atoms take more time; a higher beta needs a more accurate curvature.
STREAM_ATOMS, MAX_AUTO_BETA = 101, 1_500.0
GROWTH = 4  # maximum ratio of the number of atoms to the initial number
SOLVE_AGAIN = 0.1  # new rows as a fraction of the effective rows; 0.25 left 20% more violation
RELATIVE_TOL = 0.02  # solver error as a fraction of the sampling noise 1 / sqrt(n)
QUANTUM = 2.0**-24  # rounding unit: scores of a model differ in the last bits with the batch size
FIRST_MARK = 64  # rows at the first solve; further solves at each doubling up to one block
MOST_EXTENSION = 2.0**52  # finite limit of the atoms to add, above any memory limit
NEW_ATOM_WEIGHT = 1e-6  # weight of new atoms in a least-squares fit, so that the old atoms determine it


def take_block(
    stream: Stream, scores: FloatArray, group_proba: FloatArray, settings: Settings
) -> tuple[Stream, tuple[Drift, ...]]:
    """Return the stream after one more block, and the alarms."""
    proba = round_proba(group_proba, settings.plan.strata)
    if stream.record is not None:
        return _go_on(stream, stream.record, scores, proba, settings)
    if stream.violation_before is None:
        return _begin(stream, scores, proba, settings), ()
    record = _take_over(stream, stream.violation_before, scores, proba)
    return _go_on(replace(stream, violation_before=None), record, scores, proba, settings)


def solve_rows(
    scores: FloatArray, group_proba: FloatArray, settings: Settings
) -> tuple[ParityStep, FloatArray]:
    """Return step and multipliers for a few stored rows; zeros if there are too few or a group has none."""
    proba = round_proba(group_proba, settings.plan.strata)
    prior = proba.mean(axis=0)
    enough = len(scores) >= FIRST_MARK and bool((prior > 0).all())
    step = ParityStep(
        grid=choose_grid(_first_atoms(settings), settings.plan.bounds, scores, None, settings.plan.cost),
        parity=resolve_parity(settings.plan.parity, scores, None),
        cost=settings.plan.cost,
        group_prior=prior if enough else np.full(len(prior), 1.0 / len(prior)),
        strata=settings.plan.strata,
        epsilon=settings.tolerance,
        beta=_temperature(settings, len(scores), 0.0),
    )
    if not enough:
        return step, np.zeros(step.empty_problem().multipliers_shape)
    return step, _run(settings, len(scores), block_problem(step, scores, proba))


def block_problem(step: ParityStep, scores: FloatArray, proba: FloatArray) -> DualProblem:
    """Return the dual problem of some rows, with costs rounded so that it does not depend on the batch."""
    rows = step.rows(Rows(scores, proba, (), None, step.strata))
    rows.design[rows.n_kept :] = _rounded(rows.design[rows.n_kept :])
    return step.problem(replace(rows, constant=_rounded(rows.constant)))


def round_proba(group_proba: FloatArray, strata: IntArray | None = None) -> FloatArray:
    """Round probabilities to multiples of `QUANTUM`; their sums are exact in each stratum, or one."""
    proba, totals = _rounded(group_proba), _rounded(stratum_sums(group_proba, strata))
    places = np.zeros(proba.shape[1], np.int64) if strata is None else strata
    rows = np.arange(len(proba))
    for stratum in range(int(places.max()) + 1):
        members = np.flatnonzero(places == stratum)
        largest = members[np.argmax(proba[:, members], axis=1)]
        proba[rows, largest] = 0.0
        rest = totals[:, members[0]] - proba[:, members].sum(axis=1)
        proba[rows, largest] = np.maximum(rest, 0.0)
    return proba


def _rounded(values: FloatArray) -> FloatArray:
    rounded: FloatArray = np.round(values / QUANTUM) * QUANTUM
    return rounded


def _begin(stream: Stream, scores: FloatArray, proba: FloatArray, settings: Settings) -> Stream:
    """Return the stream after its first block, for which the step is solved without a correction."""
    step, multipliers = solve_rows(scores, proba, settings)
    problem = block_problem(step, scores, proba)
    moments = measure(problem, proba, multipliers, step.strata)
    return replace(
        stream,
        step=step,
        multipliers=multipliers,
        record=_first_record(problem, moments, len(scores)),
        most_atoms=GROWTH * problem.n_atoms,
        n_clipped=stream.n_clipped + step.grid.count_outside(scores),
        mark=0,
    )


def _take_over(stream: Stream, violation: FloatArray, scores: FloatArray, proba: FloatArray) -> Record:
    """Return the record of a fit before the stream; a block replaces the moments that were not stored."""
    step = stream.step
    problem = block_problem(step, scores, proba)
    moments = measure(problem, proba, stream.multipliers, step.strata)
    moments = moments.matched(violation, step.group_prior, problem.parity.operator)
    return _first_record(problem, moments, stream.n_before)


def _first_record(problem: DualProblem, moments: Moments, n_rows: int) -> Record:
    return Record(
        moments=moments,
        monitor=Monitor.fresh(*problem.multipliers_shape),
        weight=float(n_rows),
        squares=float(n_rows),
        since=0,
        n_solves=1,
    )


def _go_on(
    stream: Stream, record: Record, scores: FloatArray, proba: FloatArray, settings: Settings
) -> tuple[Stream, tuple[Drift, ...]]:
    """Compare the block with the stream, add it, and solve again if due."""
    problem = block_problem(stream.step, scores, proba)
    block = measure(problem, proba, stream.multipliers, stream.step.strata)
    record, alarms = _watch(stream, record, block, problem, settings)
    record = _blend(record, block, len(scores), settings.half_life, forget=bool(alarms))
    wider = _widened(stream, scores, settings)
    due = record.since >= SOLVE_AGAIN * record.weight or bool(alarms)
    if isinstance(settings.plan.solver, StochasticSolver) and (record.moments.prior > 0).all():
        solver_state = _feed_solver(settings.plan.solver, record, stream, scores, proba, settings)
        record, due = (
            replace(record, solver_state=solver_state),
            not np.array_equal(solver_state.multipliers, stream.multipliers),
        )
    stream = replace(stream, record=record)
    if due or wider is not stream.step.grid:
        stream = _solve(stream, record, block, wider, scores, proba, settings)
    return replace(stream, n_clipped=stream.n_clipped + stream.step.grid.count_outside(scores)), alarms


def _watch(
    stream: Stream, record: Record, block: Moments, problem: DualProblem, settings: Settings
) -> tuple[Record, tuple[Drift, ...]]:
    """Return the record with updated charts, which are reset after an alarm."""
    if not (record.moments.prior > 0).all():
        return record, ()
    operator = problem.parity.operator
    n_rows = problem.n_rows
    errors = forecast_errors(block, record.moments, operator, n_rows, record.n_equal)
    monitor = record.monitor.after(errors)
    alarms = find_drift(
        monitor,
        block,
        record.moments,
        operator,
        threshold=alarm_threshold(2 * errors.size, n_rows),
        n_rows=stream.n_rows,
        unit=stream.step.unit,
        groups=settings.plan.groups,
    )
    if alarms:
        monitor = Monitor.fresh(*problem.multipliers_shape)
    return replace(record, monitor=monitor), alarms


def _blend(record: Record, block: Moments, n_rows: int, half_life: float | None, *, forget: bool) -> Record:
    """Add the block to the record; past rows lose weight and, after an alarm, count as at most one block.

    This applies only with a half-life.
    """
    decay = 1.0
    if half_life is not None:
        decay = 0.5 ** (n_rows / half_life)
        if forget:
            decay = min(decay, n_rows / record.weight)
    weight = decay * record.weight + n_rows
    return replace(
        record,
        moments=record.moments.blended(block, n_rows / weight),
        weight=weight,
        squares=decay**2 * record.squares + n_rows,
        since=record.since + n_rows,
    )


def _widened(stream: Stream, scores: FloatArray, settings: Settings) -> Grid:
    """Return a grid that also covers the block; the same object if it does already."""
    grid = stream.step.grid
    if not settings.may_extend or not grid.count_outside(scores):
        return grid
    extension = find_extension(grid, scores, stream.most_atoms)
    return extend(grid, extension) if extension else grid


def _solve(
    stream: Stream,
    record: Record,
    block: Moments,
    grid: Grid,
    scores: FloatArray,
    proba: FloatArray,
    settings: Settings,
) -> Stream:
    """Return the stream with a new policy, from the gradient of the stream and the curvature of the block."""
    prior, past = record.moments.prior, record.moments
    if not (prior > 0).all():  # a group has no rows yet, so there is no tilt
        return replace(stream, record=replace(record, since=0))
    step, multipliers = stream.step, stream.multipliers
    if grid is not step.grid:
        step, multipliers, past, block = _on_wider_grid(step, multipliers, grid, past, block)
        record = replace(record, monitor=record.monitor.on_wider_grid(len(multipliers)), solver_state=None)
    begin = replace(step, group_prior=prior, beta=_temperature(settings, record.weight, step.beta))
    problem = block_problem(begin, scores, proba)
    if record.solver_state is not None:
        found = record.solver_state.multipliers
    else:
        shift = moment_shift(block, past, prior)  # the same for any policy, because moments are carried
        found = _run(settings, record.weight, replace(problem, moment_shift=shift), multipliers)
    stop = measure(problem, proba, found, begin.strata)
    rise = _tilted(begin, found, block, past) - _tilted(step, multipliers, block, past)
    record = replace(record, moments=past.carried(block, stop, rise), since=0, n_solves=record.n_solves + 1)
    if (
        record.solver_state is not None
    ):  # policies of a stochastic solver change too much between plans to carry the moments over
        n_rows = float(problem.n_rows)
        monitor = Monitor.fresh(*problem.multipliers_shape)
        record = replace(record, moments=stop, weight=n_rows, squares=n_rows, monitor=monitor)
    return replace(stream, step=begin, multipliers=found, record=record)


def _tilted(step: ParityStep, multipliers: FloatArray, block: Moments, past: Moments) -> float:
    """Return `<Phi, V_stream - V_block>` at the prior of the policy."""
    imbalance = ImbalanceModel.from_prior(step.group_prior, step.strata)
    shift = moment_shift(block, past, step.group_prior)
    tilt = step.resolved.operator.adjoint(multipliers)
    return float((tilt * (shift.T @ imbalance.mixing)).sum())


def _run(
    settings: Settings, n_rows: float, problem: DualProblem, start: FloatArray | None = None
) -> FloatArray:
    """Return the multipliers of the deterministic solver; an interrupt cancels the whole call."""
    found = run(_solver(settings, n_rows), problem, start=start)
    if found.status is Status.STOPPED:
        raise KeyboardInterrupt
    return found.multipliers


def _feed_solver(
    solver: StochasticSolver,
    record: Record,
    stream: Stream,
    scores: FloatArray,
    proba: FloatArray,
    settings: Settings,
) -> StochasticState:
    """Return the state of a stochastic solver after it has processed the rows of the block one by one."""
    step = replace(stream.step, group_prior=record.moments.prior)
    problem = block_problem(step, scores, proba)
    solver_state, half_life = record.solver_state, settings.half_life
    if solver_state is None or solver_state.iterate.shape[2] != problem.multipliers_shape[0]:
        fresh = replace(solver, n_steps=problem.n_rows).init(problem, stream.multipliers)
        solver_state = _before_plan(fresh, max(int(record.weight) - problem.n_rows, problem.n_rows))
    elif half_life is not None and solver_state.n_gradient_rows >= solver_state.budget > half_life:
        solver_state = _before_plan(solver_state, int(half_life))  # plans no longer than the half-life
    return solver.feed(problem, solver_state)


def _before_plan(solver_state: StochasticState, n_rows: int) -> StochasticState:
    """Return the state after `n_rows` rows, at the start of a plan for as many."""
    return replace(solver_state, n_gradient_rows=n_rows, budget=n_rows)


def _on_wider_grid(
    step: ParityStep, multipliers: FloatArray, grid: Grid, past: Moments, block: Moments
) -> tuple[ParityStep, FloatArray, Moments, Moments]:
    """Return the same policy and moments on a grid with more atoms, with beta unchanged in user units."""
    old, cost = step.grid, step.cost
    left = int(np.searchsorted(grid.atoms, old.atoms[0]))
    right = len(grid.atoms) - len(old.atoms) - left
    ratio = cost.unit(old) / cost.unit(grid)
    wider = replace(step, grid=grid, beta=step.beta / ratio)
    extension = Extension(left, right)
    carried = carry_multipliers(multipliers, step.resolved, wider.resolved, extension, ratio)
    scale = None
    if isinstance(cost, Squared):
        scale = old.half_width / grid.half_width, (old.centre - grid.centre) / grid.half_width
    past, block = (each.on_wider_grid(left, right, ratio, scale) for each in (past, block))
    return wider, carried, past, block


def _first_atoms(settings: Settings) -> Any:
    automatic = isinstance(settings.plan.atoms, str) and settings.plan.atoms == "auto"
    automatic = automatic and settings.plan.cost.n_classes is None
    return STREAM_ATOMS if automatic else settings.plan.atoms


def _temperature(settings: Settings, n_rows: float, now: float) -> float:
    """Return the user's beta, or the paper's for the effective rows, which never decreases.

    "auto" is at most `MAX_AUTO_BETA`.
    """
    automatic = min(paper_beta(int(n_rows)), MAX_AUTO_BETA)
    beta = check_beta(settings.plan.beta, automatic, int(n_rows))
    return max(now, beta) if isinstance(settings.plan.beta, str) else now or beta


def _solver(settings: Settings, n_rows: float) -> Solver[Any]:
    """Return the deterministic solver, with a tolerance that matches the sampling noise."""
    solver = settings.plan.solver
    if isinstance(solver, StochasticSolver):
        solver = Auto(tol=settings.plan.tol)
    return solver.loosened(RELATIVE_TOL / math.sqrt(n_rows))


@dataclass(frozen=True, slots=True)
class Extension:
    """Atoms to add at the two ends of a grid."""

    left: int
    right: int

    def __bool__(self) -> bool:
        return self.left + self.right > 0


def find_extension(grid: Grid, scores: FloatArray, most_atoms: int) -> Extension:
    """Return the atoms to add so that the grid covers `scores` without extreme outliers, plus a margin.

    >>> from evenhand.dual.grid import uniform_grid
    >>> find_extension(uniform_grid(0.0, 10.0, 11), np.array([5.0, 12.1]), 101)
    Extension(left=0, right=3)
    """
    low, high = range_without_outliers(scores)
    step = float(grid.atoms[-1] - grid.atoms[0]) / (len(grid.atoms) - 1)
    beyond = [grid.bounds[0] - low, high - grid.bounds[1]]
    if not max(beyond) > 0 or not math.isfinite(step):
        return Extension(0, 0)
    margin = MARGIN * (high - low)
    wanted = [math.ceil(min((extra + margin) / step, MOST_EXTENSION)) if extra > 0 else 0 for extra in beyond]
    room = max(most_atoms - len(grid.atoms), 0)
    if sum(wanted) > room:  # a range that keeps growing must not exhaust the memory
        left = min(wanted[0], room * wanted[0] // sum(wanted))
        wanted = [left, room - left]
    return Extension(*wanted)


def extend(grid: Grid, extension: Extension) -> Grid:
    """Return a grid with exactly the same atoms, and more atoms at the ends with the same spacing."""
    atoms = grid.atoms
    step = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    left = atoms[0] - step * np.arange(extension.left, 0, -1)
    right = atoms[-1] + step * np.arange(1, extension.right + 1)
    low, high = grid.bounds
    bounds = float(left[0]) if extension.left else low, float(right[-1]) if extension.right else high
    return replace(grid, atoms=np.concatenate([left, atoms, right]), bounds=bounds)


def carry_multipliers(
    multipliers: FloatArray, before: Parity, after: Parity, extension: Extension, ratio: float
) -> FloatArray:
    """Return multipliers on the extended grid that give the old policy on the old atoms.

    Costs on the new normalized scale are `ratio` times the old ones, and so is the tilt. On the new atoms the
    tilt is constant if the notion allows it. A tilt that is the same for all atoms does not change the
    policy, so the tilt is matched up to such a constant.
    """
    ends = (extension.left, extension.right)
    tilt = np.pad(ratio * before.operator.adjoint(multipliers), (ends, (0, 0)), mode="edge")
    weights = np.pad(np.ones(len(tilt) - sum(ends)), ends, constant_values=NEW_ATOM_WEIGHT)
    adjoint = after.operator.adjoint(np.eye(after.operator.n_rows))
    left, right = (
        weights[:, None] * (values - weights**2 @ values / (weights**2).sum()) for values in (adjoint, tilt)
    )
    carried: FloatArray = np.linalg.lstsq(left, right, rcond=None)[0]
    return carried
