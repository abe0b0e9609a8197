"""A step on rows whose passes cost much: made on a sample in memory, and looked at on all rows once.

With its moments shifted to those of all rows at one point, the objective of a sample has their slope there
and about their curvature everywhere. Its minimiser takes Newton steps on the sample alone. What is then left
is what the sample does not know of the curvature; where that is much in one direction, two looks tell how
much, and the next shift goes on along it.
"""

from dataclasses import replace

from evenhand._utils.typing import FloatArray
from evenhand.dual.objective import evaluate, penalty
from evenhand.dual.rows import DualRows, MemoryRows
from evenhand.solvers.newton import FAST, BatchState, Stage, error_of, newton_step

_MOST_STEPS = 6  # on the sample, for one look at all rows
_DEPTH = 0.03  # of the error: what a sample gets wrong of it is more
_FARTHEST = 2.0  # times as far as the last step that a shift goes on


def is_worth_it(rows: DualRows) -> bool:
    """Whether a pass costs so much that steps are rehearsed: the rows are neither in memory nor on a GPU."""
    return type(rows) is not MemoryRows and not rows.passes_are_cheap


def rehearsed_step(stage: Stage, state: BatchState) -> BatchState:
    """Go where the sample says that the objective of all rows is lowest; a plain step, where it is wrong."""
    shift = _shift(stage, state)
    sample = replace(
        stage.curvature_rows, moment_shift=shift if state.missed is None else shift + state.missed
    )
    on_sample = replace(stage, problem=sample)
    inner = replace(state, now=evaluate(sample, state.point))
    error = error_of(stage, state)
    for _ in range(_MOST_STEPS):
        inner = newton_step(on_sample, inner)
        if inner.stalled or error_of(on_sample, inner) <= _DEPTH * max(error, stage.tol):
            break
    n_gradient_rows = inner.n_gradient_rows + stage.problem.n_rows
    now = evaluate(stage.problem, inner.point)
    after = replace(inner, now=now, n_gradient_rows=n_gradient_rows, stalled=False, missed=None)
    if not (now.value < state.now.value or error_of(stage, after) < error):
        return newton_step(stage, replace(state, n_gradient_rows=n_gradient_rows, missed=None))
    if error_of(stage, after) > FAST * error:
        return replace(after, missed=(_length(stage, state, after) - 1.0) * (_shift(stage, after) - shift))
    return after


def _shift(stage: Stage, state: BatchState) -> FloatArray:
    """What the moments of the sample lack of those of all rows."""
    sample = replace(stage.curvature_rows, moment_shift=None)
    return state.now.moments - evaluate(sample, state.point).moments


def _length(stage: Stage, before: BatchState, after: BatchState) -> float:
    """How far the last step should have gone, by its slopes at both ends."""
    move = after.point - before.point
    change = penalty(stage.problem, after.point) - penalty(stage.problem, before.point)
    first, last = (float((state.now.violation * move).sum()) + change for state in (before, after))
    if not first < 0.0:
        return 1.0
    return max(first / min(first - last, first / _FARTHEST), 1.0 / _FARTHEST)
