"""`partial_fit` of the post-processor."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from evenhand._utils.scalars import as_number
from evenhand._utils.stored import is_count
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows, check_epsilon, check_rows_of, check_strata, column_labels
from evenhand.certificates import certify
from evenhand.dual.costs import make_cost, same_cost
from evenhand.dual.floors import RateFloor
from evenhand.dual.forms import form_of, gradient_map_norm
from evenhand.dual.grid import warn_of_clipping
from evenhand.dual.parity import find_parity
from evenhand.estimators.draws import key_from
from evenhand.estimators.solved_step import SolvedStep
from evenhand.estimators.streaming.blocks import FIRST_MARK, GROWTH, solve_rows, take_block
from evenhand.estimators.streaming.monitor import Drift
from evenhand.estimators.streaming.state import BLOCK_ROWS, Settings, Stream
from evenhand.estimators.tensor_predictions import in_memory
from evenhand.exceptions import DriftWarning
from evenhand.solvers import SolverResult, Status
from evenhand.solvers.stochastic import StochasticSolver

OnDrift = Callable[[Drift], object]


class PartialFit(SolvedStep):
    """The part of `ParityPostprocessor` that goes along a stream."""

    stream_: Stream

    def faults(self) -> Iterator[str]:
        """Those of a solved step, and a stream of other groups or with a plan that is too short."""
        yield from super().faults()
        stream = getattr(self, "stream_", None)
        if stream is None:
            if hasattr(self, "policy_") and not is_count(getattr(self, "n_rows_", None), 1):
                yield "its n_rows_ is no number of rows"
            return
        if not isinstance(stream, Stream):
            yield "its stream_ is not a stream"
        if len(stream.step.group_prior) != len(self.policy_.group_prior):
            yield "its stream_ has other groups"
        if stream.record is None or stream.record.solver_state is None:
            return
        solver = self._solver()
        if isinstance(solver, StochasticSolver) and stream.record.solver_state.outlasts_plan(
            solver.batch_size
        ):
            yield "the plan of its solver is shorter than the rows that it expects"

    def partial_fit(
        self,
        scores: Any,
        group_proba: Any,
        *,
        strata: Any = None,
        half_life: float | None = None,
        on_drift: OnDrift | None = None,
    ) -> Self:
        """Go on with more rows of a stream, each used once and forgotten.

        State is O(n_atoms * n_groups) numbers and a block of rows that is not yet full. Any chunking of
        the same stream gives the same model, bit for bit, and so does a model that was saved and loaded in
        between. After `fit`, the rows of the fit count as the first ones of the stream.

        A call that raises leaves the model as it was, with one exception: what `on_drift` raises comes
        after the rows were taken.

        Parameters
        ----------
        scores : array of shape (n_rows,)
            Class probabilities (n_rows, n_classes) with a cost matrix.
        group_proba : array or data frame of shape (n_rows, n_groups)
            With the groups of the calls before.
        strata : sequence of n_groups labels, default=None
            As in `fit`; they are those of the first call, and need not be given again.
        half_life : float, default=None
            Rows after which a row counts for half, at least one block (2048). None forgets nothing. What
            counts for a block is the value of the call that completes it.
        on_drift : callable, default=None
            Called with a `Drift` where the violation or a group's share is found to have moved, instead of
            a `DriftWarning`.

        Examples
        --------
        >>> from evenhand import ParityPostprocessor
        >>> from evenhand.datasets import make_population
        >>> model = ParityPostprocessor(epsilon=0.02)
        >>> for seed in range(20):
        ...     rows = make_population(1000, random_state=seed)
        ...     model = model.partial_fit(rows.scores, rows.group_proba)
        >>> model.stream_.n_rows
        20000
        >>> round(float(model.certificate_.violation.max()), 2)
        0.02
        """
        quiet = check_on_drift(on_drift)
        for alarm in self._take_rows(scores, group_proba, half_life, strata, quiet=quiet):
            assert on_drift is not None  # else they were warnings
            on_drift(alarm)
        return self

    def _take_rows(
        self,
        scores: Any,
        group_proba: Any,
        half_life: float | None,
        strata: Any = None,
        *,
        quiet: bool,
    ) -> tuple[Drift, ...]:
        """Become the model after more rows; the alarms are warnings, or returned where `quiet`."""
        rows = self._stream_rows(in_memory(scores), in_memory(group_proba), strata)
        settings = self._stream_settings(rows, half_life)
        before = self._stream_before(rows, settings)
        after, alarms = advance(before, rows, settings)
        grid, n_clipped = after.step.grid, after.n_clipped - before.n_clipped
        growth = {"automatic": settings.may_extend, "full": len(grid.atoms) >= after.most_atoms > 0}
        warn_of_clipping(grid, n_clipped, len(rows.scores), stacklevel=3, **growth)
        for alarm in alarms if not quiet else ():
            way_out = "" if half_life else " Pass half_life= to follow it, or start a new model."
            warnings.warn(f"{alarm}{way_out}", DriftWarning, stacklevel=3)
        self._install_stream(after, settings)  # last: a warning that is an error leaves all as it was
        return alarms if quiet else ()

    def _stream_rows(self, scores: Any, group_proba: Any, strata: Any) -> Rows:
        """Checked rows, of the groups and strata that the model has already, where it has any."""
        labels, codes = column_labels(group_proba), None
        if strata is not None:
            codes, labels = check_strata(strata, labels)
        if not hasattr(self, "policy_"):
            return check_rows_of(scores, group_proba, labels, codes, make_cost(self.cost).n_classes)
        if strata is not None and set(labels) != set(self.groups_.tolist()):
            raise ValueError("strata are not those that the model began with. Leave them out, or start anew.")
        return self._rows(scores, group_proba)

    def _stream_before(self, rows: Rows, settings: Settings) -> Stream:
        """The stream before `rows`, with the tolerances of this call."""
        stream: Stream | None = getattr(self, "stream_", None)
        if stream is None:
            stream = self._stream_of_fit() if hasattr(self, "policy_") else None
        if stream is None:
            return _new_stream(rows, settings)
        if find_parity(stream.step.parity) != find_parity(self.parity):
            raise ValueError(
                f"parity is {self.parity!r}, but the stream began with {stream.step.parity!r}: its "
                "multipliers have no meaning for another notion. Start a new model."
            )
        if not same_cost(stream.step.cost, settings.cost):
            raise ValueError("cost is not the one that the stream began with. Start a new model.")
        if np.array_equal(stream.step.epsilon, settings.epsilon):
            return stream
        return replace(stream, step=replace(stream.step, epsilon=settings.epsilon))

    def _stream_settings(self, rows: Rows, half_life: float | None) -> Settings:
        solver = self._solver()
        if solver.needs_stored_rows:
            raise ValueError(
                f"solver={solver.name!r} needs all rows at once, and a stream keeps none. Use 'auto'."
            )
        if not hasattr(self, "policy_"):
            for name in ("atoms", "beta"):
                value = getattr(self, name)
                if isinstance(value, str) and value == "cv":
                    raise ValueError(f"{name}='cv' needs stored rows: call fit first, or pass 'auto'.")
            if isinstance(self.cost, RateFloor):
                raise ValueError("A floor under rates needs stored rows: call fit first.")
        return Settings(
            parity=self.parity,
            epsilon=self._tolerance(rows),
            groups=rows.groups,
            atoms=self.atoms,
            bounds=self.bounds,
            beta=self.beta,
            cost=make_cost(self.cost),
            strata=rows.strata,
            solver=solver,
            tol=self.tol,
            half_life=_check_half_life(half_life),
        )

    def _tolerance(self, rows: Rows) -> FloatArray:
        """Epsilon on the rows: what a fit chose to keep its promise, for as long as that is asked for."""
        asked = check_epsilon(self.epsilon, rows.groups, rows.strata)
        kept = hasattr(self, "tolerance_") and np.array_equal(asked, self.epsilon_)
        return self.tolerance_ if kept else asked

    def _stream_of_fit(self) -> Stream:
        """The stream whose first rows are those of `fit`."""
        step = self.step_
        n_classes = step.cost.n_classes
        return Stream(
            waiting_scores=np.empty(0 if n_classes is None else (0, n_classes)),
            waiting_proba=np.empty((0, len(step.group_prior))),
            n_rows=0,
            n_clipped=0,
            most_atoms=GROWTH * len(step.grid.atoms),
            step=step,
            multipliers=self.multipliers_,
            record=None,
            n_before=self.n_rows_,
            violation_before=self.result_.violation,
        )

    def _install_stream(self, stream: Stream, settings: Settings) -> None:
        """Become the model of the stream, all at once."""
        last: Stream | None = getattr(self, "stream_", None)
        if last is not None and last.step is stream.step and last.record is stream.record:
            self.stream_ = stream  # rows that wait change no prediction
            return
        key = getattr(self, "draw_key_", None)
        others = {
            "n_clipped_": stream.n_clipped,
            "draw_key_": key_from(self.random_state) if key is None else key,
            "stream_": stream,
            "epsilon_": check_epsilon(self.epsilon, settings.groups, settings.strata),
        }
        self._install(
            stream.step, stream.multipliers, settings.groups, **others, **_summary(stream, settings)
        )


def check_on_drift(on_drift: OnDrift | None) -> bool:
    """Whether there is a callback, refused while nothing has changed yet where it is none."""
    if on_drift is not None and not callable(on_drift):
        raise TypeError(f"on_drift must be a function of a Drift, or None for warnings: got {on_drift!r}.")
    return on_drift is not None


def advance(stream: Stream, rows: Rows, settings: Settings) -> tuple[Stream, tuple[Drift, ...]]:
    """The stream after `rows`: whole blocks are taken, the rest waits for more."""
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
        waiting_scores=scores[first:].copy(),  # copies: a view would keep the whole chunk
        waiting_proba=proba[first:].copy(),
        n_rows=n_before + len(scores),
    )
    return _with_first_policy(stream, settings), alarms


def _with_first_policy(stream: Stream, settings: Settings) -> Stream:
    """Before the first block is full: the policy of the rows up to the last mark."""
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


def _summary(stream: Stream, settings: Settings) -> dict[str, Any]:
    """Result and certificate: what the stream says of the policy that it has led to."""
    record, step = stream.record, stream.step
    if record is None or not (record.moments.prior > 0).all():
        return {}
    problem = step.empty_problem()
    measures = record.measures(problem, stream.multipliers)
    point = form_of(problem).split(stream.multipliers)
    result = SolverResult(
        solver=f"stream of {settings.solver.name}",
        status=Status.STREAMING,
        multipliers=stream.multipliers,
        n_iter=record.n_solves,
        n_gradient_rows=stream.n_before + stream.n_rows - len(stream.waiting_scores),
        objective=measures.objective,
        violation=measures.violation,
        gradient_map_norm=gradient_map_norm(problem, point, measures.violation, measures.smoothness),
    )
    certificate = certify(problem, result, step=step, groups=settings.groups, measures=measures)
    return {"result_": result, "certificate_": certificate}


def _check_half_life(half_life: float | None) -> float | None:
    if half_life is None:
        return None
    what = f"a number of rows, at least {BLOCK_ROWS} (one block)"
    number = as_number(half_life, "half_life", what)
    if number < BLOCK_ROWS:
        raise ValueError(f"half_life must be {what}: got {half_life!r}.")
    return number
