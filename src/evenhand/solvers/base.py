"""What a solver is, and the loop that runs one."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray
from evenhand.dual.forms import form_of, gradient_map_norm
from evenhand.dual.objective import evaluate
from evenhand.dual.problem import DualProblem
from evenhand.solvers.auto import Auto
from evenhand.solvers.result import Progress, SolverResult, Status

Callback = Callable[[Progress], bool | None]


class SolverState(Protocol):
    """What every state tells; the rest of it is the solver's own."""

    @property
    def n_iter(self) -> int:
        """Iterations so far."""
        ...

    @property
    def n_gradient_rows(self) -> int:
        """Single-row gradients evaluated so far."""
        ...

    @property
    def multipliers(self) -> FloatArray:
        """The point that would be returned now."""
        ...


State = TypeVar("State", bound=SolverState)


class Solver(Protocol[State]):
    """A solver is `init`, `step` and `done` over a state; one step is one compiled call."""

    @property
    def name(self) -> str:
        """Short name, as in `solver="..."`."""
        ...

    def init(self, problem: DualProblem, start: FloatArray | None) -> State:
        """State before the first step; `start` is a warm start for Phi."""
        ...

    def step(self, problem: DualProblem, state: State) -> State:
        """State after one more step."""
        ...

    def done(self, problem: DualProblem, state: State) -> Status | None:
        """Why to stop here, or None to go on."""
        ...


def run(
    solver: Solver[Any] | Auto,
    problem: DualProblem,
    *,
    start: FloatArray | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Run `solver` on `problem`; `callback` sees every step and stops it by returning True.

    Ctrl-C stops it too, and the last iterate is kept.
    """
    chosen: Solver[Any] = solver.choose(problem) if isinstance(solver, Auto) else solver
    with one_blas_thread():
        return _run(chosen, problem, start, callback)


def _run(
    solver: Solver[Any], problem: DualProblem, start: FloatArray | None, callback: Callback | None
) -> SolverResult:
    state = first = solver.init(problem, start)
    status = solver.done(problem, state)
    try:
        while status is None:
            state = solver.step(problem, state)
            status = solver.done(problem, state)
            report_progress("parity step", *_how_far(first, state))
            if callback is not None and callback(_progress(solver, state)):
                status = status or Status.STOPPED
    except KeyboardInterrupt:
        status = Status.STOPPED
    report_progress("parity step", 1, 1)
    return summarise(solver.name, problem, state, status)


def _how_far(first: Any, state: Any) -> tuple[float, float | None]:
    """Stages done, and in all, of a solver that climbs through some; else its iterations."""
    if hasattr(first, "stages"):
        return len(first.stages) - len(state.stages), len(first.stages)
    return state.n_iter, None


def _progress(solver: Solver[Any], state: SolverState) -> Progress:
    now = getattr(state, "now", None)  # the deterministic solvers know where they stand
    measures = {} if now is None else {"objective": now.value, "violation": now.violation}
    return Progress(solver.name, state.n_iter, state.n_gradient_rows, state.multipliers, **measures)


def summarise(name: str, problem: DualProblem, state: SolverState, status: Status) -> SolverResult:
    """The result of stopping at `state`, measured over all the rows."""
    multipliers = np.array(state.multipliers)
    pair = getattr(state, "pair", None)  # the solver's own point, where it keeps one
    pair = form_of(problem).split(multipliers) if pair is None else pair
    now = getattr(state, "evaluation", None) or evaluate(problem, multipliers)
    return SolverResult(
        solver=name,
        status=status,
        multipliers=multipliers,
        n_iter=state.n_iter,
        n_gradient_rows=state.n_gradient_rows,
        objective=now.value,
        violation=now.violation,
        gradient_map_norm=gradient_map_norm(problem, pair, now.violation),
        exact_risk=getattr(state, "exact_risk", None),
    )
