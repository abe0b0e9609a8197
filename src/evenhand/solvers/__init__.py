"""Solvers of the dual problem, by name or as objects.

| name | what it is for |
| --- | --- |
| `"auto"` | stored rows: `"batch"`, or `"lbfgs"` where atoms x groups are too many for a dense Hessian |
| `"batch"` | to high precision: proximal Newton over a ladder of subsamples |
| `"lbfgs"` | SciPy's L-BFGS-B within bounds: the paper's projected form where constraints are sup-norms |
| `"lp"` | small data: the exact linear program as the reference, and the policy that comes close to it |
| `"sgd"`, `"acsa"`, `"acsa2"`, `"sgd3"`, `"sgd3+acsa"`, `"sgd3+acsa2"` | the paper's stochastic solvers |
"""

import numbers
from collections.abc import Callable
from typing import Any

from evenhand.solvers.acsa import AcSa, AcSa2
from evenhand.solvers.auto import Auto
from evenhand.solvers.base import Callback, Solver, run
from evenhand.solvers.batch import Batch
from evenhand.solvers.lbfgs import Lbfgs
from evenhand.solvers.lp import LinearProgramSolution, solve_lp
from evenhand.solvers.oracle import Oracle
from evenhand.solvers.result import Progress, SolverResult, Status
from evenhand.solvers.sgd import Sgd
from evenhand.solvers.sgd3 import Sgd3
from evenhand.solvers.stochastic import RandomState

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
    "Progress",
    "Sgd",
    "Sgd3",
    "Solver",
    "SolverResult",
    "Status",
    "make_solver",
    "run",
    "solve_lp",
]

_DETERMINISTIC: dict[str, Callable[..., Solver[Any] | Auto]] = {
    "auto": Auto,
    "batch": Batch,
    "lbfgs": Lbfgs,
    "lp": Oracle,
}
_STOCHASTIC: dict[str, Callable[..., Solver[Any]]] = {
    "sgd": Sgd,
    "acsa": AcSa,
    "acsa2": AcSa2,
    "sgd3": Sgd3,
    "sgd3+acsa": lambda **options: Sgd3(inner=AcSa(), **options),
    "sgd3+acsa2": lambda **options: Sgd3(inner=AcSa2(), **options),
}
SOLVERS = (*_DETERMINISTIC, *_STOCHASTIC)


def make_solver(
    solver: str | Solver[Any] | Auto,
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    random_state: RandomState = None,
) -> Solver[Any] | Auto:
    """The solver that a name stands for; an object is returned as it is.

    `max_iter` counts iterations of the deterministic solvers and single-row gradients of the
    stochastic ones; None is the solver's own default.

    >>> make_solver("sgd3+acsa2", random_state=0).name
    'sgd3+acsa2'
    """
    if not isinstance(tol, numbers.Real) or not 0.0 < tol < float("inf"):
        raise ValueError(f"tol must be a positive number: got {tol!r}.")
    if max_iter is not None and (not isinstance(max_iter, numbers.Integral) or max_iter < 1):
        raise ValueError(f"max_iter must be a positive integer or None: got {max_iter!r}.")
    if isinstance(solver, Auto):
        return solver
    if not isinstance(solver, str):
        missing = [name for name in ("init", "step", "done", "name") if not hasattr(solver, name)]
        if missing:
            raise ValueError(
                f"solver must be a name or an object with init, step, done and name: got {solver!r}, which "
                f"has no {missing[0]}. Valid names: {', '.join(SOLVERS)}."
            )
        return solver
    if solver in _DETERMINISTIC:
        limit = {} if max_iter is None else {"max_iter": int(max_iter)}
        return _DETERMINISTIC[solver](tol=float(tol), **limit)
    if solver in _STOCHASTIC:
        budget = None if max_iter is None else int(max_iter)
        return _STOCHASTIC[solver](n_steps=budget, random_state=random_state)
    raise ValueError(f"Unknown solver {solver!r}. Valid names: {', '.join(SOLVERS)}.")
