"""Solvers of the dual problem, by name or as objects.

| name | what it is for |
| --- | --- |
| `"auto"` | stored rows: `"batch"`, or `"lbfgs"` where atoms x groups are too many for a dense Hessian |
| `"batch"` | to high precision: proximal Newton over a ladder of subsamples |
| `"lbfgs"` | SciPy's L-BFGS-B within bounds: the paper's projected form where constraints are sup-norms |
| `"lp"` | small data: the exact linear program as the reference, and the policy that comes close to it |
| `"sgd"`, `"acsa"`, `"acsa2"`, `"sgd3"`, `"sgd3+acsa"`, `"sgd3+acsa2"` | the paper's stochastic solvers |
"""

from collections.abc import Callable
from typing import Any

from evenhand._utils.scalars import as_number, is_whole
from evenhand.solvers.acsa import AcSa, AcSa2
from evenhand.solvers.auto import Auto
from evenhand.solvers.base import Callback, PlainState, Solver, run, run_and_warn
from evenhand.solvers.batch import Batch
from evenhand.solvers.lbfgs import Lbfgs
from evenhand.solvers.lp import LinearProgramSolution, solve_lp
from evenhand.solvers.oracle import Oracle
from evenhand.solvers.result import Progress, SolverResult, Status
from evenhand.solvers.sgd import Sgd
from evenhand.solvers.sgd3 import Sgd3
from evenhand.solvers.stochastic import RandomState
from evenhand.solvers.zero import ZeroMultipliers

__all__ = [
    "SOLVERS",
    "AcSa",
    "AcSa2",
    "Auto",
    "Batch",
    "Callback",
    "Lbfgs",
    "LinearProgramSolution",
    "Oracle",
    "PlainState",
    "Progress",
    "Sgd",
    "Sgd3",
    "Solver",
    "SolverResult",
    "Status",
    "ZeroMultipliers",
    "make_solver",
    "register_solver",
    "run",
    "run_and_warn",
    "solve_lp",
]

Factory = Callable[..., Solver[Any]]  # of tol, max_iter and random_state, given by name

SOLVERS: dict[str, Factory] = {}


def register_solver(name: str, factory: Factory) -> None:
    """Let `solver=name` stand for `factory(tol=..., max_iter=..., random_state=...)`.

    See docs/how-to/extending.md.

    Parameters
    ----------
    name : str
        A solver that has this name already is replaced.
    factory : function that returns a Solver
        It is called with these three by name. `max_iter` is None where the user leaves it to the solver.
    """
    SOLVERS[name] = factory


def _deterministic(kind: Factory) -> Factory:
    def make(tol: float, max_iter: int | None, random_state: RandomState) -> Solver[Any]:
        return kind(tol=tol) if max_iter is None else kind(tol=tol, max_iter=max_iter)

    return make


def _stochastic(kind: Factory, **parts: Any) -> Factory:
    def make(tol: float, max_iter: int | None, random_state: RandomState) -> Solver[Any]:
        return kind(n_steps=max_iter, random_state=random_state, **parts)

    return make


register_solver("auto", _deterministic(Auto))
register_solver("batch", _deterministic(Batch))
register_solver("lbfgs", _deterministic(Lbfgs))
register_solver("lp", _deterministic(Oracle))
register_solver("sgd", _stochastic(Sgd))
register_solver("acsa", _stochastic(AcSa))
register_solver("acsa2", _stochastic(AcSa2))
register_solver("sgd3", _stochastic(Sgd3))
register_solver("sgd3+acsa", _stochastic(Sgd3, inner=AcSa()))
register_solver("sgd3+acsa2", _stochastic(Sgd3, inner=AcSa2()))


def make_solver(
    solver: str | Solver[Any],
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    random_state: RandomState = None,
) -> Solver[Any]:
    """The solver that a name stands for; an object is returned as it is.

    Parameters
    ----------
    solver : str or Solver
    tol : float, default=1e-6
        Precision of the deterministic solvers.
    max_iter : int or None, default=None
        Iterations of the deterministic solvers, and single-row gradients of the stochastic ones; None is the
        solver's own default.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the stochastic ones.

    Examples
    --------
    >>> from evenhand.solvers import make_solver
    >>> make_solver("sgd3+acsa2", random_state=0).name
    'sgd3+acsa2'
    """
    if as_number(tol, "tol", "a positive number") <= 0.0:
        raise ValueError(f"tol must be a positive number: got {tol!r}.")
    if max_iter is not None and (not is_whole(max_iter) or max_iter < 1):
        raise ValueError(f"max_iter must be a positive integer or None: got {max_iter!r}.")
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str):
        raise ValueError(
            f"solver must be a name ({', '.join(SOLVERS)}) or an object of a class that extends "
            f"evenhand.solvers.Solver: got {solver!r}."
        )
    if solver not in SOLVERS:
        raise ValueError(f"Unknown solver {solver!r}. Valid names: {', '.join(SOLVERS)}.")
    budget = None if max_iter is None else int(max_iter)
    return SOLVERS[solver](tol=float(tol), max_iter=budget, random_state=random_state)
