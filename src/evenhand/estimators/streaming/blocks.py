"""One more block of rows: measure, compare, blend, and now and then solve again.

The solver never sees the stream. When a solve is due it sees the last block, corrected by what the whole
stream says of the gradient at the standing policy:

    min_Phi  F_block(Phi) + <V_stream - V_block, Phi>        (V at the standing Phi)

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
from evenhand.dual.costs import RowCosts, Squared
from evenhand.dual.grid import Support, check_beta, paper_beta
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.dual.parity import make_parity
from evenhand.dual.problem import DualProblem
from evenhand.estimators.parity_step import choose_support
from evenhand.estimators.streaming.grid import Extension, carry_multipliers, extend, find_extension
from evenhand.estimators.streaming.moments import Moments, measure, moment_shift
from evenhand.estimators.streaming.monitor import Drift, Monitor, alarm_threshold, find_drift, forecast_errors
from evenhand.estimators.streaming.state import Record, Settings, Standing, Stream
from evenhand.solvers import Auto, Batch, Lbfgs, Solver, Status, run
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
        record = _take_over(stream, stream.violation_before, scores, proba, settings)
        return _go_on(replace(stream, violation_before=None), record, scores, proba, settings)


def solve_rows(scores: FloatArray, group_proba: FloatArray, settings: Settings) -> Standing:
    """The policy of a few rows that are all there; without any tilt where a group has no share yet."""
    proba = round_proba(group_proba, settings.strata)
    rows = Rows(scores, proba, settings.groups, None, settings.strata)
    support = choose_support(_first_atoms(settings), settings.bounds, rows, settings.cost)
    prior = proba.mean(axis=0)
    parity = make_parity(settings.parity, support)
    blank = np.zeros((parity.operator.n_rows, len(prior)))
    beta = _temperature(settings, len(scores), 0.0)
    standing = Standing(settings.parity, support, prior, blank, beta, settings.strata, settings.cost)
    if len(scores) < FIRST_MARK or not (prior > 0).all():
        return replace(standing, group_prior=np.full(len(prior), 1.0 / len(prior)))
    problem = make_problem(standing, scores, proba, settings)
    return replace(standing, multipliers=_run(settings, len(scores), problem))


def make_problem(
    standing: Standing, scores: FloatArray, proba: FloatArray, settings: Settings
) -> DualProblem:
    """The dual problem of some rows on the scale of the standing policy."""
    costs = standing.cost.rows(standing.support, scores)
    rounded = RowCosts(_rounded(costs.features), _rounded(costs.constant))
    return _assemble(standing, rounded, proba, settings)


def empty_problem(standing: Standing, settings: Settings) -> DualProblem:
    """The same without any rows."""
    n_features = standing.cost.model(standing.support).loadings.shape[1]
    rows = RowCosts(np.empty((n_features, 0)), np.empty(0))
    return _assemble(standing, rows, np.empty((0, len(standing.group_prior))), settings)


def _assemble(standing: Standing, rows: RowCosts, proba: FloatArray, settings: Settings) -> DualProblem:
    support, parity = standing.support, standing.make_parity()
    unit = support.half_width if parity.in_outcome_units else 1.0
    return DualProblem.from_rows(
        rows.constant,  # scores, of which the costs are given
        proba,
        atoms=support.normalised(),
        parity=parity,
        slack=settings.epsilon / unit,
        temperature=standing.temperature,
        group_prior=standing.group_prior,
        weights=np.full(len(proba), 1.0 / max(len(proba), 1)),
        strata=standing.strata,
        costs=(standing.cost.model(support), rows),
    )


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
    standing = solve_rows(scores, proba, settings)
    problem = make_problem(standing, scores, proba, settings)
    moments = measure(problem, proba, standing.multipliers, standing.strata)
    record = _first_record(problem, moments, len(scores))
    n_clipped = stream.n_clipped + standing.support.count_outside(scores)
    limit = GROWTH * problem.n_atoms
    return replace(stream, standing=standing, record=record, most_atoms=limit, n_clipped=n_clipped, mark=0)


def _take_over(
    stream: Stream, violation: FloatArray, scores: FloatArray, proba: FloatArray, settings: Settings
) -> Record:
    """The record of a fit before the stream, whose rows are gone: a block tells what the fit did not note."""
    standing = stream.standing
    problem = make_problem(standing, scores, proba, settings)
    moments = measure(problem, proba, standing.multipliers, standing.strata)
    moments = moments.matched(violation, standing.group_prior, problem.parity.operator)
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
    standing, n_rows = stream.standing, len(scores)
    problem = make_problem(standing, scores, proba, settings)
    block = measure(problem, proba, standing.multipliers, standing.strata)
    record, alarms = _watch(stream, record, block, problem, settings)
    record = _blend(record, block, n_rows, settings.half_life, forget=bool(alarms))
    wider = _widened(stream, scores, settings)
    due = record.since >= SOLVE_AGAIN * record.weight or bool(alarms)
    if isinstance(settings.solver, StochasticSolver) and (record.moments.prior > 0).all():
        walk = _walk_on(settings.solver, record, standing, scores, proba, settings)
        record, due = replace(record, walk=walk), not np.array_equal(walk.multipliers, standing.multipliers)
    if due or wider is not standing.support:
        standing, record = _solve(standing, record, block, wider, scores, proba, settings)
    n_clipped = stream.n_clipped + standing.support.count_outside(scores)
    return replace(stream, standing=standing, record=record, n_clipped=n_clipped), alarms


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
    unit = stream.standing.support.half_width if problem.parity.in_outcome_units else 1.0
    alarms = find_drift(
        monitor,
        block,
        record.moments,
        operator,
        threshold=alarm_threshold(2 * errors.size, n_rows),
        n_rows=stream.n_rows,
        unit=unit,
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


def _widened(stream: Stream, scores: FloatArray, settings: Settings) -> Support:
    """The support that covers the block too; the same object where nothing is to be done."""
    support = stream.standing.support
    if not settings.may_extend or not support.count_outside(scores):
        return support
    extension = find_extension(support, scores, stream.most_atoms)
    return extend(support, extension) if extension else support


def _solve(
    standing: Standing,
    record: Record,
    block: Moments,
    support: Support,
    scores: FloatArray,
    proba: FloatArray,
    settings: Settings,
) -> tuple[Standing, Record]:
    """A new policy from the stream's gradient and the block's curvature; `block` is under the old one."""
    prior = record.moments.prior
    if not (prior > 0).all():
        return standing, replace(record, since=0)  # a group that nobody may be in yet: no tilt until then
    stream = record.moments
    if support is not standing.support:
        standing, stream, block = _on_wider_grid(standing, support, stream, block)
        record = replace(record, monitor=record.monitor.on_wider_grid(len(standing.multipliers)), walk=None)
    temperature = _temperature(settings, record.weight, standing.temperature)
    begin = replace(standing, group_prior=prior, temperature=temperature)
    problem = make_problem(begin, scores, proba, settings)
    shift = moment_shift(block, stream, prior)  # the same under any policy, as moments are carried
    found = _next_multipliers(problem, begin, record, shift, settings)
    end = replace(begin, multipliers=found)
    stop = measure(problem, proba, found, begin.strata)
    rise = _tilted(end, block, stream) - _tilted(standing, block, stream)
    record = replace(
        record,
        moments=stream.carried(block, stop, rise),
        since=0,
        n_solves=record.n_solves + 1,
    )
    if record.walk is not None:  # its policies leap from plan to plan, too far for a block to speak for all
        n_rows = float(problem.n_rows)
        monitor = Monitor.fresh(*problem.multipliers_shape)
        record = replace(record, moments=stop, weight=n_rows, squares=n_rows, monitor=monitor)
    return end, record


def _tilted(standing: Standing, block: Moments, stream: Moments) -> float:
    """`<Phi, V_stream - V_block>`, at the prior of the policy."""
    imbalance = ImbalanceModel.from_prior(standing.group_prior, standing.strata)
    shift = moment_shift(block, stream, standing.group_prior)
    tilt = standing.make_parity().operator.adjoint(standing.multipliers)
    return float((tilt * (shift.T @ imbalance.mixing)).sum())


def _next_multipliers(
    problem: DualProblem, begin: Standing, record: Record, shift: FloatArray, settings: Settings
) -> FloatArray:
    """Of the deterministic solver on the corrected block, or what a stochastic one has come to."""
    if record.walk is not None:
        return record.walk.multipliers
    corrected = replace(problem, moment_shift=shift)
    return _run(settings, record.weight, corrected, begin.multipliers)


def _run(
    settings: Settings, n_rows: float, problem: DualProblem, start: FloatArray | None = None
) -> FloatArray:
    """Multipliers of the deterministic solver; an interrupt is one of the whole call, which has no effect."""
    found = run(_solver(settings, n_rows), problem, start=start)
    if found.status is Status.STOPPED:
        raise KeyboardInterrupt
    return found.multipliers


def _walk_on(
    solver: StochasticSolver,
    record: Record,
    standing: Standing,
    scores: FloatArray,
    proba: FloatArray,
    settings: Settings,
) -> StochasticState:
    """A stochastic solver after the rows of the block, one by one."""
    standing = replace(standing, group_prior=record.moments.prior)
    problem = make_problem(standing, scores, proba, settings)
    walk, half_life = record.walk, settings.half_life
    if walk is None or walk.iterate.shape[2] != problem.multipliers_shape[0]:
        fresh = replace(solver, n_steps=problem.n_rows).init(problem, standing.multipliers)
        walk = _before_plan(fresh, max(int(record.weight) - problem.n_rows, problem.n_rows))
    elif half_life is not None and walk.n_gradient_rows >= walk.budget > half_life:
        walk = _before_plan(walk, int(half_life))  # plans no longer than memory
    return solver.feed(problem, walk)


def _before_plan(walk: StochasticState, n_rows: int) -> StochasticState:
    """The walk with `n_rows` behind it and a plan for as many to begin."""
    return replace(walk, n_gradient_rows=n_rows, budget=n_rows)


def _on_wider_grid(
    standing: Standing, support: Support, stream: Moments, block: Moments
) -> tuple[Standing, Moments, Moments]:
    """The same policy and moments on a grid with more atoms; its temperature in the users' units stays."""
    old = standing.support
    left = int(np.searchsorted(support.atoms, old.atoms[0]))
    right = len(support.atoms) - len(old.atoms) - left
    before, after = standing.make_parity(), make_parity(standing.parity, support)
    ratio = standing.cost.unit(old) / standing.cost.unit(support)
    wider = replace(
        standing,
        support=support,
        multipliers=carry_multipliers(standing.multipliers, before, after, Extension(left, right), ratio),
        temperature=standing.temperature / ratio,
    )
    scale = None
    if isinstance(standing.cost, Squared):
        scale = old.half_width / support.half_width, (old.centre - support.centre) / support.half_width
    stream, block = (m.on_wider_grid(left, right, ratio, scale) for m in (stream, block))
    return wider, stream, block


def _first_atoms(settings: Settings) -> Any:
    automatic = isinstance(settings.atoms, str) and settings.atoms == "auto"
    automatic = automatic and settings.cost.n_classes is None
    return STREAM_ATOMS if automatic else settings.atoms


def _temperature(settings: Settings, n_rows: float, now: float) -> float:
    """The user's beta, or the paper's for the rows that count, never falling; "auto" has a limit."""
    automatic = min(paper_beta(int(n_rows)), MAX_AUTO_BETA)
    beta = check_beta(settings.beta, automatic, int(n_rows))
    return max(now, beta) if isinstance(settings.beta, str) else now or beta


def _solver(settings: Settings, n_rows: float) -> Solver[Any] | Auto:
    """The deterministic solver, as precise as the rows deserve."""
    if isinstance(settings.solver, StochasticSolver):
        return Auto(tol=max(settings.tol, RELATIVE_TOL / math.sqrt(n_rows)))
    if isinstance(settings.solver, Auto | Batch | Lbfgs):
        return replace(settings.solver, tol=max(settings.tol, RELATIVE_TOL / math.sqrt(n_rows)))
    return settings.solver
