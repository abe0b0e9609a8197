"""Newton's steps for the total variation of many groups, with sweeps over single atoms between them.

Two things make a plain Newton step short there. Rows jump to atoms that they gave no probability: a sweep
over the atoms after the step takes them back, each atom by itself. And atoms that hardly any row is given
have multipliers that nothing holds, some of which stand at the height of their group, so that the height
cannot fall. Steps leave such atoms out; they follow their neighbours, and are cut off at the heights.
"""

from dataclasses import replace

import numpy as np

from evenhand._utils.typing import BoolArray, FloatArray, IntArray
from evenhand.dual.dense import Dense
from evenhand.dual.objective import evaluate, policy_loadings
from evenhand.dual.operators import Identity, L1Norm
from evenhand.solvers.by_atom import AtomSweeps
from evenhand.solvers.newton import (
    RIDGE,
    BatchState,
    Stage,
    error_of,
    is_told,
    metric_of,
    moves_in_part,
    moving_places,
    newton_step,
    share_of_promise,
)
from evenhand.solvers.quadratic import solve_model

_PRECISE = (
    1e-4  # precision up to which the last steps are worth sweeps: fits that are only measured ask for less
)
_EMPTY = 1e-8  # mean probability of an atom that a step leaves out
_WORTH = 1e-2  # of the precision of a stage: a violation of an atom that is worth a sweep
_LENGTHS = (1.0, 0.3, 0.1)
# Times the promised decrease, by which a step may raise the objective before sweeps; how many sweeps may take
# that back, and what each has to leave of it at most.
_HOPELESS, _SWEEPS, _LEFT = 3e3, 3, 0.25
_ACCEPT, _POOR, _TRUST = 0.1, 0.25, 0.7  # shares of that decrease: to accept a step, to damp more, less
# Factors of the damping: after a step that was shortened, where none was found, after one that kept its word.
_MORE, _MUCH_MORE, _LESS = 3.0, 6.0, 12.0
_TRIES = 20
# Times the precision of a stage: from there on a step is held. The objective would fall on for many steps, by
# less than counts, and each of them would disturb what the others have settled.
_NEAR, _HELD = 30.0, 1e-5
_AT_HEIGHT = 1.0 - 1e-9


def goes_by_atom(stage: Stage) -> bool:
    """Whether a stage takes these steps: its rows are all at hand, and each atom has its own multipliers.

    A warm start that is solved to some per mille is left to plain steps, which are many but cheap.
    """
    problem = stage.problem
    return (
        isinstance(problem.parity.norm, L1Norm)
        and isinstance(problem.parity.operator, Identity)
        and moves_in_part(problem)
        and stage.curvature_rows is problem
        and problem.moment_shift is None
        and (stage.is_soft or stage.tol <= _PRECISE)
    )


def atom_step(stage: Stage, state: BatchState) -> BatchState:
    """A Newton step and a sweep, damped or shortened until the objective falls; else a plain step."""
    problem, norm = stage.problem, stage.problem.parity.norm
    masses = problem.rows.moments(*policy_loadings(problem, state.point), whole=True).columns[-1]
    state = replace(state, n_gradient_rows=state.n_gradient_rows + problem.n_rows)
    is_used = masses > _EMPTY
    moving = moving_places(problem, state)
    moving = moving[is_used[moving // problem.n_groups]]
    if not len(moving):
        return newton_step(stage, state)
    model, smoother = metric_of(stage, state, moving)
    assert isinstance(model, Dense)  # as of all steps that leave multipliers out
    largest = max(float(model.diagonal.max()), stage.unit * min(1.0, problem.temperature))
    here, violation = state.point.ravel()[moving], state.now.violation.ravel()[moving]
    damping, added = state.damping, 0.0
    for _ in range(_TRIES):
        model.add_in_place(smoother * ((damping - added) * largest))
        added = damping
        there = solve_model(norm, model, violation - model @ here, here, problem.slack, moving)
        step = there - here
        if not step.any():
            damping *= _MUCH_MORE
            continue
        move = np.zeros(state.point.shape)
        move.reshape(-1)[moving] = step
        dearer = norm.dual((state.point + move)[is_used]) - norm.dual(state.point[is_used])
        promise = -float(violation @ step + problem.slack @ dearer + 0.5 * step @ (model @ step))
        if not is_told(state, promise):
            return newton_step(stage, state)
        after, length = _along(stage, state, _followed(move, is_used), is_used, promise)
        if length > 0.0:
            return replace(after, damping=_next_damping(stage, state, after, damping, length, promise))
        state = replace(state, n_gradient_rows=after.n_gradient_rows)
        damping *= _MORE
    return newton_step(stage, state)


def _along(
    stage: Stage, state: BatchState, move: FloatArray, is_used: BoolArray, promise: float
) -> tuple[BatchState, float]:
    """The state after the longest part of the move that sweeps make good, and its length, or zero."""
    problem, after = stage.problem, state
    for length in _LENGTHS if promise > 0.0 else ():
        point = _cut_off(problem.slack, state.point + length * move, is_used)
        n_rows = after.n_gradient_rows + problem.n_rows
        after = replace(state, point=point, now=evaluate(problem, point), n_gradient_rows=n_rows)
        rise, most = after.now.value - state.now.value, _HOPELESS * promise
        for _ in range(_SWEEPS):
            if rise > most:
                break
            before, after = after, swept(stage, after)
            if share_of_promise(stage, state, after, promise) > _ACCEPT * length:
                return after, length
            if after.point is before.point:  # the sweep found nothing lower
                break
            most = _LEFT * max(rise, promise)
            rise = after.now.value - state.now.value
    return replace(state, n_gradient_rows=after.n_gradient_rows), 0.0


def swept(stage: Stage, state: BatchState) -> BatchState:
    """The state after a sweep over the atoms, where there is need of one and it lowers the objective."""
    if error_of(stage, state) <= stage.tol:
        return state
    problem = stage.problem
    heights = np.abs(state.point).max(axis=0)
    sweeps = AtomSweeps.at(problem, state.point)
    sweeps.sweep(_unsettled(stage, state, heights), _ends(problem.slack, heights))
    now = evaluate(problem, sweeps.point)
    state = replace(state, n_gradient_rows=state.n_gradient_rows + 2 * problem.n_rows)
    return replace(state, point=sweeps.point, now=now) if now.value < state.now.value else state


def _unsettled(stage: Stage, state: BatchState, heights: FloatArray) -> IntArray:
    """Atoms with a violation that no height pays for, the largest first."""
    violation = state.now.violation
    is_paid = (np.abs(state.point) >= _AT_HEIGHT * heights) & (state.point * violation < 0.0)
    worst = np.where(is_paid & (stage.problem.slack > 0.0), 0.0, np.abs(violation)).max(axis=1)
    atoms = np.argsort(-worst, kind="stable")
    chosen: IntArray = atoms[worst[atoms] > _WORTH * stage.tol]
    return chosen


def _ends(slack: FloatArray, heights: FloatArray) -> FloatArray:
    """How far multipliers may go at no price."""
    return np.where(slack > 0.0, heights, np.inf)


def _followed(move: FloatArray, is_used: BoolArray) -> FloatArray:
    """The move, with that of atoms that are left out on the line between their neighbours'."""
    used, atoms = np.flatnonzero(is_used), np.arange(len(move))
    return np.stack([np.interp(atoms, used, column[used]) for column in move.T], axis=1)


def _cut_off(slack: FloatArray, point: FloatArray, is_used: BoolArray) -> FloatArray:
    """The point, where atoms that were left out are within the heights of the others."""
    ends = _ends(slack, np.abs(point[is_used]).max(axis=0))
    return np.where(is_used[:, None], point, np.clip(point, -ends, ends))


def _next_damping(
    stage: Stage, state: BatchState, after: BatchState, damping: float, length: float, promise: float
) -> float:
    """More after a step that was too long, much less after one that kept its word; some near the end."""
    share = share_of_promise(stage, state, after, promise)
    if length < 1.0 or (stage.is_soft and share < _POOR):
        damping *= _MORE
    elif share > _TRUST:
        damping = max(damping / _LESS, RIDGE)
    is_near = stage.tol < error_of(stage, after) <= _NEAR * stage.tol
    return max(damping, _HELD) if is_near and state.damping < _HELD else damping
