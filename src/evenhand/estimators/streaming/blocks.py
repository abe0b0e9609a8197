"""One more block of rows: measure, compare, blend, and now and then solve again.

The solver never sees the stream. When a solve is due it sees the last block, corrected by what the whole
stream says of the gradient at its policy:

    min_Phi  F_block(Phi) + <V_stream - V_block, Phi>        (V at the stream's Phi)

The block brings the curvature, the stream the gradient; the solution is that of the stream up to the noise
of the block's curvature times the length of the move, which is short. The running moments then move along
(`Moments.carried`). So a row is used in its own block and forgotten.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import Grid, check_beta, paper_beta
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.dual.parity import resolve_parity
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep, choose_grid
from evenhand.estimators.streaming.grid import Extension, carry_multipliers, extend, find_extension
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

# What "auto" stands for: the risk on new rows was 0.999 of that of a fit with 201 atoms and beta = 10 000
# (benchmark `stream`); more atoms take more time, and a higher beta asks more of the curvature of a block.
STREAM_ATOMS, MAX_AUTO_BETA = 101, 1_500.0
GROWTH = 4  # times as many atoms as at first, at most
SOLVE_AGAIN = 0.1  # of the rows that count, since the last solve; 0.25 left a fifth more violation
RELATIVE_TOL = 0.02  # of the noise 1 / sqrt(n), that a solve leaves as error
QUANTUM = 2.0**-24  # rows are rounded to it: a model's scores differ in the last bits with the batch size
FIRST_MARK = 64  # rows at which a stream is solved first, and again at each doubling up to a block


def take_block(
    stream: Stream, scores: FloatArray, group_proba: FloatArray, settings: Settings
) -> tuple[Stream, tuple[Drift, ...]]:
    """The stream after one more block, and what is found to have drifted."""
    proba = round_proba(group_proba, settings.strata)
    with one_blas_thread():
        if stream.record is not None:
            return _go_on(stream, stream.record, scores, proba, settings)
        if stream.violation_before is None:
            return _begin(stream, scores, proba, settings), ()
        record = _take_over(stream, stream.violation_before, scores, proba)
        return _go_on(replace(stream, violation_before=None), record, scores, proba, settings)


def solve_rows(
    scores: FloatArray, group_proba: FloatArray, settings: Settings
) -> tuple[ParityStep, FloatArray]:
    """Step and multipliers of a few rows that are all there; zeros where a group has no share yet."""
    proba = round_proba(group_proba, settings.strata)
    prior = proba.mean(axis=0)
    enough = len(scores) >= FIRST_MARK and bool((prior > 0).all())
    step = ParityStep(
        grid=choose_grid(_first_atoms(settings), settings.bounds, scores, None, settings.cost),
        parity=resolve_parity(settings.parity, scores, None),
        cost=settings.cost,
        group_prior=prior if enough else np.full(len(prior), 1.0 / len(prior)),
        strata=settings.strata,
        epsilon=settings.epsilon,
        beta=_temperature(settings, len(scores), 0.0),
    )
    if not enough:
        return step, np.zeros(step.empty_problem().multipliers_shape)
    return step, _run(settings, len(scores), block_problem(step, scores, proba))


def block_problem(step: ParityStep, scores: FloatArray, proba: FloatArray) -> DualProblem:
    """The dual problem of some rows, whose costs are rounded so that any batch gives the same bits."""
    rows = step.rows(Rows(scores, proba, (), None, step.strata))
    rows.design[rows.n_kept :] = _rounded(rows.design[rows.n_kept :])
    return step.problem(replace(rows, constant=_rounded(rows.constant)))


def round_proba(group_proba: FloatArray, strata: IntArray | None = None) -> FloatArray:
    """Probabilities on a lattice, and their sums in each stratum too: where there are none, one exactly."""
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
    """The stream after its first block, solved for itself."""
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
    """The record of a fit before the stream, whose rows are gone: a block tells what the fit did not note."""
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
    """Compare the block with the stream, add it, and solve again where that is due."""
    problem = block_problem(stream.step, scores, proba)
    block = measure(problem, proba, stream.multipliers, stream.step.strata)
    record, alarms = _watch(stream, record, block, problem, settings)
    record = _blend(record, block, len(scores), settings.half_life, forget=bool(alarms))
    wider = _widened(stream, scores, settings)
    due = record.since >= SOLVE_AGAIN * record.weight or bool(alarms)
    if isinstance(settings.solver, StochasticSolver) and (record.moments.prior > 0).all():
        solver_state = _feed_solver(settings.solver, record, stream, scores, proba, settings)
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
    """The record with its charts one block on; fresh ones after an alarm."""
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
        groups=settings.groups,
    )
    if alarms:
        monitor = Monitor.fresh(*problem.multipliers_shape)
    return replace(record, monitor=monitor), alarms


def _blend(record: Record, block: Moments, n_rows: int, half_life: float | None, *, forget: bool) -> Record:
    """The record with the block in it; the past fades, and after an alarm counts as one block."""
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
    """The grid that covers the block too; the same object where nothing is to be done."""
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
    """The stream with a new policy, from its own gradient and the curvature of the block."""
    prior, past = record.moments.prior, record.moments
    if not (prior > 0).all():  # a group that nobody may be in yet: no tilt until then
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
        shift = moment_shift(block, past, prior)  # the same under any policy, as moments are carried
        found = _run(settings, record.weight, replace(problem, moment_shift=shift), multipliers)
    stop = measure(problem, proba, found, begin.strata)
    rise = _tilted(begin, found, block, past) - _tilted(step, multipliers, block, past)
    record = replace(record, moments=past.carried(block, stop, rise), since=0, n_solves=record.n_solves + 1)
    if (
        record.solver_state is not None
    ):  # its policies leap from plan to plan, too far for a block to speak for all
        n_rows = float(problem.n_rows)
        monitor = Monitor.fresh(*problem.multipliers_shape)
        record = replace(record, moments=stop, weight=n_rows, squares=n_rows, monitor=monitor)
    return replace(stream, step=begin, multipliers=found, record=record)


def _tilted(step: ParityStep, multipliers: FloatArray, block: Moments, past: Moments) -> float:
    """`<Phi, V_stream - V_block>`, at the prior of the policy."""
    imbalance = ImbalanceModel.from_prior(step.group_prior, step.strata)
    shift = moment_shift(block, past, step.group_prior)
    tilt = step.make_parity().operator.adjoint(multipliers)
    return float((tilt * (shift.T @ imbalance.mixing)).sum())


def _run(
    settings: Settings, n_rows: float, problem: DualProblem, start: FloatArray | None = None
) -> FloatArray:
    """Multipliers of the deterministic solver; an interrupt is one of the whole call, which has no effect."""
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
    """A stochastic solver after the rows of the block, one by one."""
    step = replace(stream.step, group_prior=record.moments.prior)
    problem = block_problem(step, scores, proba)
    solver_state, half_life = record.solver_state, settings.half_life
    if solver_state is None or solver_state.iterate.shape[2] != problem.multipliers_shape[0]:
        fresh = replace(solver, n_steps=problem.n_rows).init(problem, stream.multipliers)
        solver_state = _before_plan(fresh, max(int(record.weight) - problem.n_rows, problem.n_rows))
    elif half_life is not None and solver_state.n_gradient_rows >= solver_state.budget > half_life:
        solver_state = _before_plan(solver_state, int(half_life))  # plans no longer than memory
    return solver.feed(problem, solver_state)


def _before_plan(solver_state: StochasticState, n_rows: int) -> StochasticState:
    """The walk with `n_rows` behind it and a plan for as many to begin."""
    return replace(solver_state, n_gradient_rows=n_rows, budget=n_rows)


def _on_wider_grid(
    step: ParityStep, multipliers: FloatArray, grid: Grid, past: Moments, block: Moments
) -> tuple[ParityStep, FloatArray, Moments, Moments]:
    """The same policy and moments on a grid with more atoms; its temperature in the users' units stays."""
    old, cost = step.grid, step.cost
    left = int(np.searchsorted(grid.atoms, old.atoms[0]))
    right = len(grid.atoms) - len(old.atoms) - left
    ratio = cost.unit(old) / cost.unit(grid)
    wider = replace(step, grid=grid, beta=step.beta / ratio)
    extension = Extension(left, right)
    carried = carry_multipliers(multipliers, step.make_parity(), wider.make_parity(), extension, ratio)
    scale = None
    if isinstance(cost, Squared):
        scale = old.half_width / grid.half_width, (old.centre - grid.centre) / grid.half_width
    past, block = (each.on_wider_grid(left, right, ratio, scale) for each in (past, block))
    return wider, carried, past, block


def _first_atoms(settings: Settings) -> Any:
    automatic = isinstance(settings.atoms, str) and settings.atoms == "auto"
    automatic = automatic and settings.cost.n_classes is None
    return STREAM_ATOMS if automatic else settings.atoms


def _temperature(settings: Settings, n_rows: float, now: float) -> float:
    """The user's beta, or the paper's for the rows that count, never falling; "auto" has a limit."""
    automatic = min(paper_beta(int(n_rows)), MAX_AUTO_BETA)
    beta = check_beta(settings.beta, automatic, int(n_rows))
    return max(now, beta) if isinstance(settings.beta, str) else now or beta


def _solver(settings: Settings, n_rows: float) -> Solver[Any]:
    """The deterministic solver, as precise as the rows deserve."""
    solver = settings.solver
    if isinstance(solver, StochasticSolver):
        solver = Auto(tol=settings.tol)
    return solver.loosened(RELATIVE_TOL / math.sqrt(n_rows))
