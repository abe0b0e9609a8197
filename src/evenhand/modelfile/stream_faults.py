"""What must hold for the state of a stream that a file brings: compiled loops trust it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.dual.grid import Support
from evenhand.dual.parity import PARITIES, SupNorm
from evenhand.estimators.streaming import Moments, Monitor, Record, Standing, Stream
from evenhand.modelfile.term_faults import cost_faults, strata_faults
from evenhand.solvers.schedules import Phase
from evenhand.solvers.stochastic import StochasticState


def phase_faults(phase: Any) -> Iterator[str]:
    """A phase has updates, and rounds of at least one."""
    if not _is_count(phase.n_updates, 1) or not _is_count(phase.period, 1):
        yield "its updates or its period are no counts"
    if type(phase.constants) is not tuple or len(phase.constants) != 2:
        yield "its constants are not two numbers"
    elif not all(type(number) is float for number in (*phase.constants, phase.anchor)):
        yield "its constants are not numbers"


def walk_faults(walk: Any) -> Iterator[str]:
    """Arrays of one shape, and a cursor inside a plan of phases."""
    shape: tuple[int, ...] = getattr(walk.iterate, "shape", ())
    arrays = [walk.iterate, walk.output, walk.centre]
    if walk.last_answer is not None:
        arrays.append(walk.last_answer)
    if len(shape) != 3 or shape[0] not in (1, 2) or not all(_is_floats(array, shape) for array in arrays):
        yield "its points do not have the same shape"
    elif not _is_floats(walk.gradient, shape[1:]):
        yield "its gradient does not have the shape of its points"
    if type(walk.plan) is not tuple or not all(type(phase) is Phase for phase in walk.plan):
        yield "its plan is not made of phases"
        return
    counts = walk.budget, walk.n_gradient_rows, walk.n_iter
    if not all(_is_count(count) for count in counts) or walk.n_gradient_rows > walk.budget:
        yield "its counts of rows do not agree"
    cursor = walk.cursor
    if type(cursor) is not tuple or len(cursor) != 3 or not all(_is_count(place) for place in cursor):
        yield "its cursor is not three counts"
    elif walk.n_gradient_rows < walk.budget and cursor[0] >= len(walk.plan):
        yield "its cursor is beyond its plan"


def moments_faults(moments: Any) -> Iterator[str]:
    """One row of moments for each group and feature, over the same atoms."""
    shape: tuple[int, ...] = getattr(moments.groups, "shape", ())
    tables = moments.groups, moments.squares, moments.crossed
    if len(shape) != 2 or not all(_is_floats(array, shape) for array in tables):
        yield "its moments of the groups do not have the same shape"
    elif not _is_floats(moments.prior, shape[:1]):
        yield "its prior is not one share for each group"
    elif not _is_floats(moments.policy, shape[1:]):
        yield "its mean policy is not over the same atoms"
    elif getattr(moments.costs, "ndim", 0) != 2 or not _is_floats(
        moments.costs, (len(moments.costs), shape[1])
    ):
        yield "its moments of the costs are not over the same atoms"
    if not all(type(number) is float for number in (moments.smooth, moments.peak, moments.constant)):
        yield "its means are not numbers"
    yield from strata_faults(moments.strata, moments.prior)


def standing_faults(standing: Any) -> Iterator[str]:
    """Multipliers of the shape that the notion, the atoms and the groups ask for."""
    if standing.parity not in PARITIES or type(standing.support) is not Support:
        yield "it has no parity notion or no support"
        return
    n_constraints = standing.make_parity().operator.n_rows
    prior = standing.group_prior
    if getattr(prior, "ndim", 0) != 1 or not _is_floats(prior, prior.shape) or not np.all(prior > 0):
        yield "its prior is not positive"
    elif not _is_floats(standing.multipliers, (n_constraints, len(prior))):
        yield "its multipliers do not have the shape of its atoms and groups"
    if type(standing.temperature) is not float or not standing.temperature > 0:
        yield "its temperature is not a positive number"
    yield from strata_faults(standing.strata, prior)
    yield from cost_faults(standing.cost, len(standing.support.atoms))


def stream_faults(stream: Any) -> Iterator[str]:
    """Rows that wait, a policy, and a record, all over the same atoms and groups."""
    if type(stream.standing) is not Standing:
        yield "it has no policy"
        return
    shape = stream.standing.multipliers.shape
    n_waiting = len(stream.waiting_scores) if isinstance(stream.waiting_scores, np.ndarray) else 0
    n_classes = stream.standing.cost.n_classes
    of_scores = (n_waiting,) if n_classes is None else (n_waiting, n_classes)
    waiting = (stream.waiting_scores, of_scores), (stream.waiting_proba, (n_waiting, shape[1]))
    if not all(_is_floats(array, size) and np.isfinite(array).all() for array, size in waiting):
        yield "its waiting rows are not finite numbers for every group"
    counts = stream.n_rows, stream.n_clipped, stream.most_atoms, stream.n_before, stream.mark
    if not all(_is_count(count) for count in counts) or stream.n_rows < n_waiting:
        yield "its counts of rows do not agree"
    before = stream.violation_before
    if before is not None and not _is_floats(before, shape):
        yield "the violation before it does not have the shape of its multipliers"
    if stream.record is not None:
        yield from _record_faults(stream.record, stream.standing)


def _record_faults(record: Any, standing: Standing) -> Iterator[str]:
    if type(record) is not Record or type(record.moments) is not Moments:
        yield "it has no record"
        return
    (n_constraints, n_groups), support = standing.multipliers.shape, standing.support
    n_features = standing.cost.model(support).loadings.shape[1]
    if record.moments.groups.shape != (n_groups, len(support.atoms)):
        yield "its moments are not over its atoms and groups"
    elif len(record.moments.costs) != n_features:
        yield "its moments are not those of its cost"
    elif not _same(record.moments.strata, standing.strata):
        yield "its moments have other strata"
    charts = (n_constraints + 1, n_groups)
    monitor = record.monitor
    if type(monitor) is not Monitor or not all(_is_floats(c, charts) for c in (monitor.up, monitor.down)):
        yield "its charts do not have the shape of its multipliers"
    if not all(type(number) is float and number > 0 for number in (record.weight, record.squares)):
        yield "its weights are not positive"
    if not _is_count(record.since) or not _is_count(record.n_solves):
        yield "its counts are not counts"
    walk = record.walk
    n_signs = 2 if isinstance(standing.make_parity().norm, SupNorm) else 1
    if walk is not None and (
        type(walk) is not StochasticState or walk.iterate.shape != (n_signs, n_groups, n_constraints)
    ):
        yield "its solver's state does not have the shape of its multipliers"


def unfinished_faults(stream: Stream, batch_size: int) -> Iterator[str]:
    """The plan of a stochastic solver has an update for every row that it still expects."""
    walk = None if stream.record is None else stream.record.walk
    if walk is None or walk.n_gradient_rows >= walk.budget:
        return
    phase, update, pending = walk.cursor
    n_updates = sum(phase.n_updates for phase in walk.plan[phase:]) - update
    n_rows = walk.budget - walk.n_gradient_rows
    if update >= walk.plan[phase].n_updates or -(-(n_rows + pending) // batch_size) > n_updates:
        yield "the plan of its solver is shorter than the rows that it expects"


def _same(one: Any, other: Any) -> bool:
    """Whether two strata are the same, or neither is there."""
    return other is None if one is None else np.array_equal(one, other)


def _is_count(value: Any, least: int = 0) -> bool:
    return type(value) is int and value >= least


def _is_floats(value: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape
