"""`evenhand warm-up`: compile all loops now, so that no container pays for it at its first fit."""

import warnings
from time import perf_counter
from typing import Any

import numpy as np

import evenhand
from evenhand._kernels import hashing, one_atom, softmax, stochastic, windows
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode
from evenhand.cli.terminal import Terminal
from evenhand.datasets import make_population
from evenhand.solvers import make_solver

EXAMPLE = "Example, in a Dockerfile: `RUN evenhand warm-up`"


def warm_up(as_json: opt.Json = False, quiet: opt.Quiet = False, debug: opt.Debug = False) -> int:
    """Compile the loops for this machine and keep them on disk: `NUMBA_CACHE_DIR`, or beside the package.

    The first fit, prediction and report of every later process then start at once.
    """
    terminal = Terminal(quiet, as_json)
    start = perf_counter()
    before = _compiled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use_everything()
    seconds, made = perf_counter() - start, _compiled() - before
    places = sorted({str(kernel.stats.cache_path) for kernel in _kernels() if kernel.stats.cache_path})
    terminal.say(f"{made} loops compiled in {seconds:.1f} s. They are in {', '.join(places)}.")
    terminal.result({"command": "warm-up", "compiled": made, "seconds": seconds, "cache": places})
    return ExitCode.OK


def use_everything() -> None:
    """Small jobs that call every loop with the types that users' jobs call them with."""
    people = make_population(300, 2, random_state=0)
    for parity in ("cdf", "mean", "tv"):
        model = evenhand.ParityPostprocessor(parity=parity).fit(people.scores, people.group_proba)
    many = make_population(300, 6, random_state=0)
    evenhand.ParityPostprocessor(parity="tv").fit(many.scores, many.group_proba)
    model.predict(people.scores, people.group_proba)
    model.predict(people.scores, people.group_proba, ids=np.arange(300))
    model.predict_mean(people.scores, people.group_proba)
    model.predict_quantile(people.scores, people.group_proba, 0.5)
    model.predict_pmf(people.scores, people.group_proba)
    for solver, parity in (("sgd3", "tv"), ("sgd3+acsa2", "cdf")):
        evenhand.ParityPostprocessor(parity=parity, solver=make_solver(solver, max_iter=200)).fit(
            people.scores, people.group_proba
        )
    regressor = evenhand.ParityRegressor(epsilon=0.1)
    regressor.fit(people.data, people.target, sensitive_features=people.sensitive_features)
    regressor.predict(people.data)


def _kernels() -> list[Any]:
    modules = (hashing, one_atom, softmax, stochastic, windows)
    return [kernel for module in modules for kernel in vars(module).values() if hasattr(kernel, "py_func")]


def _compiled() -> int:
    """Specialisations that this process had to compile."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in _kernels())
