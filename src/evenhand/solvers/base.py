"""What a solver is, and the loop that runs one."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.progress import report_progress
from evenhand._utils.stored import Stored
from evenhand._utils.typing import FloatArray
from evenhand.dual.forms import form_of, gradient_map_norm
from evenhand.dual.objective import Evaluation, evaluate
from evenhand.dual.problem import DualProblem
from evenhand.exceptions import ConvergenceWarning
from evenhand.solvers.result import Progress, SolverResult, Status

Callback = Callable[[Progress], bool | None]

FAR_FROM_PARITY = 0.01  # violation beyond epsilon at which a spent budget is worth a warning
NEAR_ENOUGH = 1e-5  # the same, at which a solver that rounding brought to a halt is worth none


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
        """The point that would be returned now, (n_constraints, n_groups)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class PlainState:
    """A state for solvers that need no more than a point and its counts."""

    multipliers: FloatArray
    n_iter: int = 0
    n_gradient_rows: int = 0


State = TypeVar("State", bound=SolverState)


class Solver(Stored, ABC, Generic[State]):
    """A solver is `init`, `step` and `done` over a frozen state; one step is one compiled call.

    The other methods say what a solver offers beside that; their defaults offer nothing. A solver is best a
    frozen dataclass of its parameters: then a model that was fitted with it can be saved.

    In all methods `problem` is the `DualProblem` to solve, and `state` what `init` or the last `step`
    returned. docs/how-to/extending.md takes a solver all the way.
    """

    __slots__ = ()

    needs_stored_rows: ClassVar[bool] = False  # it looks at single rows, all of them, in memory

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name, as in `solver="..."`."""

    @abstractmethod
    def init(self, problem: DualProblem, start: FloatArray | None) -> State:
        """State before the first step.

        Parameters
        ----------
        problem : DualProblem
        start : array of shape (n_constraints, n_groups) or None
            A warm start for Phi; None: zeros.

        Returns
        -------
        state
            Any object with `multipliers`, `n_iter` and `n_gradient_rows`, such as a `PlainState`.
        """

    @abstractmethod
    def step(self, problem: DualProblem, state: State) -> State:
        """State after one more step; the one before is left as it is.

        Parameters
        ----------
        problem : DualProblem
        state : what `init` or the last `step` returned
        """

    @abstractmethod
    def done(self, problem: DualProblem, state: State) -> Status | None:
        """Why to stop here, or None to go on.

        Parameters
        ----------
        problem : DualProblem
        state : what `init` or the last `step` returned
        """

    def choose(self, problem: DualProblem) -> "Solver[Any]":
        """The solver for `problem`: this one, unless it stands for several."""
        return self

    def default_beta(self, n_rows: int) -> float | None:
        """What `beta="auto"` is for `n_rows` rows with this solver; None is the rule of the cost."""
        return None

    def loosened(self, tol: float) -> Self:
        """The same solver, no more precise than `tol`: few rows deserve no more."""
        return self

    def how_far(self, first: State, state: State) -> tuple[float, float | None]:
        """What is done and what there is to do in all, where that is known; iterations by default.

        `first` is the state that `init` returned.
        """
        return state.n_iter, None

    def on_its_rows(self, state: State) -> Evaluation | None:
        """The dual at the point of `state` on the rows that the solver works on now, where it is known."""
        return None

    def on_all_rows(self, state: State) -> Evaluation | None:
        """The dual at `state.multipliers` on all rows, where it is known and need not be computed."""
        return None

    def point(self, problem: DualProblem, state: State) -> FloatArray:
        """The solver's own point in the form of the problem; the smallest for its multipliers by default."""
        return form_of(problem).split(np.array(state.multipliers))

    def exact_risk(self, state: State) -> float | None:
        """Optimum of the linear program, where it was solved."""
        return None


def run(
    solver: Solver[Any],
    problem: DualProblem,
    *,
    start: FloatArray | None = None,
    callback: Callback | None = None,
) -> SolverResult:
    """Run `solver` on `problem`; `callback` sees every step and stops it by returning True.

    Ctrl-C stops it too, and the last iterate is kept.

    Parameters
    ----------
    solver : Solver
    problem : DualProblem
        `step.problem(rows)` makes it.
    start : array, default=None
        Multipliers to start from; None: zeros.
    callback : function of a `Progress`, default=None
    """
    with one_blas_thread():
        return _run(solver.choose(problem), problem, start, callback)


def run_and_warn(
    solver: Solver[Any], problem: DualProblem, start: FloatArray | None, callback: Callback | None
) -> SolverResult:
    """What the solver comes to, with a `ConvergenceWarning` where that is far from parity.

    Parameters
    ----------
    solver, problem
        As in `run`.
    start, callback
        As in `run`, but without defaults: pass None for none.
    """
    result = run(solver, problem, start=start, callback=callback)
    excess = float((problem.parity.norm.value(result.violation) - problem.slack).max())
    halted = result.status is Status.STALLED and excess <= NEAR_ENOUGH
    if not (result.status.success or halted) or excess > FAR_FROM_PARITY:
        message = f"Solver {result.solver!r} stopped after {result.n_iter} iterations. {result.message}"
        if result.status.success:
            message += f" The violation is {excess:.2g} above epsilon: raise max_iter."
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return result


def _run(
    solver: Solver[Any], problem: DualProblem, start: FloatArray | None, callback: Callback | None
) -> SolverResult:
    state = first = solver.init(problem, start)
    status = solver.done(problem, state)
    try:
        while status is None:
            state = solver.step(problem, state)
            status = solver.done(problem, state)
            report_progress("parity step", *solver.how_far(first, state))
            if callback is not None and callback(_progress(solver, state)):
                status = status or Status.STOPPED
    except KeyboardInterrupt:
        status = Status.STOPPED
    report_progress("parity step", 1, 1)
    return summarise(solver, problem, state, status)


def _progress(solver: Solver[Any], state: SolverState) -> Progress:
    now = solver.on_its_rows(state)
    value, violation = (None, None) if now is None else (now.value, now.violation)
    return Progress(solver.name, state.n_iter, state.n_gradient_rows, state.multipliers, value, violation)


def summarise(solver: Solver[Any], problem: DualProblem, state: Any, status: Status) -> SolverResult:
    """The result of stopping at `state`, measured over all the rows."""
    multipliers = np.array(state.multipliers)
    now = solver.on_all_rows(state) or evaluate(problem, multipliers)
    return SolverResult(
        solver=solver.name,
        status=status,
        multipliers=multipliers,
        n_iter=state.n_iter,
        n_gradient_rows=state.n_gradient_rows,
        objective=now.value,
        violation=now.violation,
        gradient_map_norm=gradient_map_norm(problem, solver.point(problem, state), now.violation),
        exact_risk=solver.exact_risk(state),
    )
