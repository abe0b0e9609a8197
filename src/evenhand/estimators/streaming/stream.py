"""Update a fitted step and its stream with the rows of one call of `partial_fit`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.scalars import as_number
from evenhand._utils.validation import Rows
from evenhand._utils.warn import warn_user
from evenhand.dual.costs import same_cost
from evenhand.dual.floors import RateFloor
from evenhand.dual.forms import form_of, gradient_map_norm
from evenhand.dual.grid import warn_of_clipping
from evenhand.dual.parity import find_parity
from evenhand.estimators.step_fit import FittedStep, SolvedStep, StepPlan, finish
from evenhand.estimators.streaming.monitor import Drift
from evenhand.estimators.streaming.state import BLOCK_ROWS, Settings, Stream
from evenhand.estimators.streaming.update import FIRST_MARK, GROWTH, solve_rows, take_block
from evenhand.exceptions import DriftWarning
from evenhand.solvers import SolverResult, Status

OnDrift = Callable[[Drift], object]


def check_on_drift(on_drift: OnDrift | None) -> None:
    """Check that `on_drift` is callable, before any row is used."""
    if on_drift is not None and not callable(on_drift):
        raise TypeError(f"on_drift must be a function of a Drift, or None for warnings: got {on_drift!r}.")


def take_rows(
    plan: StepPlan,
    step: FittedStep | None,
    stream: Stream | None,
    rows: Rows,
    half_life: float | None,
    on_drift: OnDrift | None,
) -> tuple[FittedStep, Stream, Sequence[Drift]]:
    """Return the step and the stream after more rows, and the alarms for `on_drift`.

    Without `on_drift` alarms are issued as warnings.
    """
    settings = _settings(plan, step, half_life)
    before = _stream_before(step, stream, rows, settings)
    with one_blas_thread():
        after, alarms = advance(before, rows, settings)
        fitted = _fitted(settings, step, before, after, rows)
    n_clipped, grid = after.n_clipped - before.n_clipped, after.step.grid
    full = len(grid.atoms) >= after.most_atoms > 0
    warn_of_clipping(grid, n_clipped, len(rows.scores), automatic=settings.may_extend, full=full)
    if on_drift is not None:
        return fitted, after, alarms
    for alarm in alarms:
        way_out = "" if half_life else " Pass half_life= to adapt to the change, or start a new model."
        warn_user(f"{alarm}{way_out}", DriftWarning)
    return fitted, after, ()


def _settings(plan: StepPlan, step: FittedStep | None, half_life: float | None) -> Settings:
    """Return the settings of a call; the tolerance of `fit` is kept as long as epsilon is the same."""
    if plan.solver.needs_stored_rows:
        raise ValueError(
            f"solver={plan.solver.name!r} needs all rows at once, but a stream stores none. Use 'auto'."
        )
    if step is None and isinstance(plan.cost, RateFloor):
        raise ValueError("A minimum selection rate needs stored rows: call fit before partial_fit.")
    tolerance = plan.epsilon
    if step is not None:
        plan = replace(plan, draw_key=step.draw_key, groups=step.groups)
        if np.array_equal(plan.epsilon, step.epsilon):
            plan, tolerance = replace(plan, epsilon=step.epsilon), step.step.epsilon
    return Settings(plan, tolerance, _check_half_life(half_life))


def _stream_before(step: FittedStep | None, stream: Stream | None, rows: Rows, settings: Settings) -> Stream:
    """Return the stream before `rows`, with the tolerances of this call."""
    if stream is None:
        stream = _new_stream(rows, settings) if step is None else _stream_of_fit(step)
    if find_parity(stream.step.parity) != find_parity(settings.plan.parity):
        raise ValueError(
            f"parity is {settings.plan.parity!r}, but the stream began with {stream.step.parity!r}. Its "
            "multipliers cannot be used for another notion: start a new model."
        )
    if not same_cost(stream.step.cost, settings.plan.cost):
        raise ValueError("cost differs from the cost that the stream began with. Start a new model.")
    if np.array_equal(stream.step.epsilon, settings.tolerance):
        return stream
    return replace(stream, step=replace(stream.step, epsilon=settings.tolerance))


def _stream_of_fit(fitted: FittedStep) -> Stream:
    """Return a stream that continues a fit."""
    step = fitted.step
    n_classes = step.cost.n_classes
    return Stream(
        waiting_scores=np.empty(0 if n_classes is None else (0, n_classes)),
        waiting_proba=np.empty((0, len(step.group_prior))),
        n_rows=0,
        n_clipped=0,
        most_atoms=GROWTH * len(step.grid.atoms),
        step=step,
        multipliers=fitted.multipliers,
        record=None,
        n_before=fitted.n_rows,
        violation_before=None if fitted.result is None else fitted.result.violation,
    )


def _new_stream(rows: Rows, settings: Settings) -> Stream:
    step, multipliers = solve_rows(rows.scores[:1], rows.group_proba[:1], settings)
    return Stream(
        waiting_scores=rows.scores[:0],
        waiting_proba=rows.group_proba[:0],
        n_rows=0,
        n_clipped=0,
        most_atoms=0,
        step=step,
        multipliers=multipliers,
        record=None,
    )


def advance(stream: Stream, rows: Rows, settings: Settings) -> tuple[Stream, tuple[Drift, ...]]:
    """Return the stream after `rows`: complete blocks are used, and the remaining rows wait."""
    scores = np.concatenate([stream.waiting_scores, rows.scores])
    proba = np.concatenate([stream.waiting_proba, rows.group_proba])
    n_before = stream.n_rows - len(stream.waiting_scores)
    first = 0
    alarms: tuple[Drift, ...] = ()
    while len(scores) - first >= BLOCK_ROWS:
        block = slice(first, first + BLOCK_ROWS)
        stream = replace(stream, n_rows=n_before + block.stop)
        stream, found = take_block(stream, scores[block], proba[block], settings)
        first, alarms = block.stop, (*alarms, *found)
    stream = replace(
        stream,
        waiting_scores=scores[first:].copy(),  # a view would keep the whole chunk in memory
        waiting_proba=proba[first:].copy(),
        n_rows=n_before + len(scores),
    )
    return _with_first_policy(stream, settings), alarms


def _with_first_policy(stream: Stream, settings: Settings) -> Stream:
    """Before the first block is complete, solve the step on the rows up to the last mark."""
    n_waiting = len(stream.waiting_scores)
    if stream.record is not None or stream.violation_before is not None:
        return stream
    mark = n_waiting
    if n_waiting >= FIRST_MARK:
        mark = FIRST_MARK
        while 2 * mark <= n_waiting:
            mark *= 2
    if mark == stream.mark:
        return stream
    step, multipliers = solve_rows(stream.waiting_scores[:mark], stream.waiting_proba[:mark], settings)
    return replace(stream, step=step, multipliers=multipliers, mark=mark)


def _fitted(
    settings: Settings, last: FittedStep | None, before: Stream, stream: Stream, rows: Rows
) -> FittedStep:
    """Return the fitted step of the stream; waiting rows do not change it."""
    plan, step, record = settings.plan, stream.step, stream.record
    if last is not None and record is before.record and stream.mark == before.mark:
        same = np.array_equal(last.step.epsilon, step.epsilon) and np.array_equal(last.epsilon, plan.epsilon)
        return last if same else replace(last, step=step, epsilon=plan.epsilon)
    n_rows = stream.n_before + (stream.mark if record is None else stream.n_rows - len(stream.waiting_scores))
    if record is None or not (record.moments.prior > 0).all():  # nothing to certify yet
        fitted = FittedStep(
            step=step,
            multipliers=stream.multipliers,
            epsilon=plan.epsilon,
            groups=plan.groups,
            draw_key=plan.draw_key,
            n_rows=n_rows,
            n_clipped=stream.n_clipped,
        )
        if last is None or last.multipliers is not stream.multipliers:
            return fitted
        return replace(fitted, result=last.result, certificate=last.certificate, price=last.price)
    problem = step.empty_problem()
    measures = record.measures(problem, stream.multipliers)
    point = form_of(problem).split(stream.multipliers)
    result = SolverResult(
        solver=f"stream of {plan.solver.name}",
        status=Status.STREAMING,
        multipliers=stream.multipliers,
        n_iter=record.n_solves,
        n_gradient_rows=stream.n_before + stream.n_rows - len(stream.waiting_scores),
        objective=measures.objective,
        violation=measures.violation,
        gradient_map_norm=gradient_map_norm(problem, point, measures.violation, measures.smoothness),
    )
    solved = SolvedStep(step, problem, result, stream.n_clipped, measures)
    diagnosis = None if last is None or last.certificate is None else last.certificate.calibration
    fitted = finish(plan, solved, _last_block(before, rows), diagnosis=diagnosis)
    return replace(fitted, n_rows=n_rows)


def _last_block(stream: Stream, rows: Rows) -> Rows:
    """Return the rows of the last complete block, which do not depend on how the stream is split."""
    scores = np.concatenate([stream.waiting_scores, rows.scores])
    proba = np.concatenate([stream.waiting_proba, rows.group_proba])
    stop = len(scores) // BLOCK_ROWS * BLOCK_ROWS
    block = slice(max(stop - BLOCK_ROWS, 0), stop)
    return replace(rows, scores=scores[block], group_proba=proba[block])


def _check_half_life(half_life: float | None) -> float | None:
    if half_life is None:
        return None
    what = f"a number of rows, at least {BLOCK_ROWS} (one block)"
    number = as_number(half_life, "half_life", what)
    if number < BLOCK_ROWS:
        raise ValueError(f"half_life must be {what}: got {half_life!r}.")
    return number
