"""`evenhand bench`: how fast the compiled loops are on this machine, against NumPy."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import typer

from evenhand._kernels import reference
from evenhand._utils.progress import report_progress
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode
from evenhand.cli.terminal import Terminal
from evenhand.datasets import make_population
from evenhand.dual.grid import automatic_beta
from evenhand.dual.objective import evaluate, policy_loadings
from evenhand.dual.parity import make_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.estimators.postprocessor import ParityPostprocessor

EXAMPLE = "Example: `evenhand bench --rows 200000`. In a checkout, `make bench` runs all benchmarks."
CHUNK = 2048  # rows of a NumPy chunk, so that its matrices stay in the cache
N_ATOMS, EPSILON, TOLERANCE = 201, 0.05, 1e-4


def bench(
    rows: Annotated[int, typer.Option(min=1000, help="Rows of a synthetic population.")] = 100_000,
    rounds: Annotated[int, typer.Option(min=1, help="Each time is the smallest of so many.")] = 3,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Time the parity step against plain NumPy, here and now: the ratios of one run."""
    terminal = Terminal(quiet, as_json)
    with terminal.working("Measuring"):
        found = smallest_times(_runs(rows), rounds)
    pass_, draws = found["NumPy: one gradient pass"], found["NumPy: draws"]
    against = {name: draws if "draw" in name.lower() else pass_ for name in found}
    terminal.say(f"{rows} rows, {N_ATOMS} atoms, two groups; the smallest of {rounds} times.")
    terminal.table(
        ["what", "seconds", "times as fast as NumPy's"],
        [[name, f"{seconds:.3f}", f"{against[name] / seconds:.2f}"] for name, seconds in found.items()],
    )
    terminal.say("A whole fit is compared with ONE gradient pass of NumPy; draws with draws.")
    terminal.result({"command": "bench", "rows": rows, "atoms": N_ATOMS, "seconds": found})
    return ExitCode.OK


def smallest_times(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each run, the smallest of interleaved rounds after one that compiles and warms up."""
    best = dict.fromkeys(runs, np.inf)
    for round_ in range(rounds + 1):
        for place, (name, run) in enumerate(runs.items(), 1):
            begin = time.perf_counter()
            run()
            if round_:
                best[name] = min(best[name], time.perf_counter() - begin)
            report_progress("runs", round_ * len(runs) + place, (rounds + 1) * len(runs))
    return best


def _runs(n_rows: int) -> dict[str, Callable[[], object]]:
    data = make_population(n_rows, n_groups=2, random_state=0)
    scores, proba = data.scores, data.group_proba
    atoms = np.linspace(-1.0, 1.0, N_ATOMS)
    problem = DualProblem.from_rows(
        scores,
        proba,
        atoms=atoms,
        parity=make_parity("cdf", atoms),
        slack=np.full(2, EPSILON),
        temperature=automatic_beta(n_rows),
    )
    model = ParityPostprocessor(epsilon=EPSILON, atoms=N_ATOMS, bounds=(-1.0, 1.0), tol=TOLERANCE)
    fitted = ParityPostprocessor(**model.get_params()).fit(scores, proba)
    start = np.zeros(problem.multipliers_shape)
    levels = np.random.default_rng(0).random(n_rows)
    return {
        "NumPy: one gradient pass": lambda: _numpy_pass(problem, start),
        "compiled: one gradient pass": lambda: evaluate(problem, start),
        "compiled: the whole fit": lambda: model.fit(scores, proba),
        "NumPy: draws": lambda: _numpy_draws(fitted.policy_, problem, fitted.multipliers_, levels),
        "compiled: draws": lambda: fitted.policy_.draw(scores, proba, levels),
    }


def _numpy_pass(problem: DualProblem, multipliers: np.ndarray) -> float:
    loadings, offset = policy_loadings(problem, multipliers)
    total = 0.0
    for first in range(0, problem.n_rows, CHUNK):
        last = min(first + CHUNK, problem.n_rows)
        total += reference.moments(
            problem.design, problem.weights, loadings, offset, problem.n_kept, first, last
        )[0]
    return total


def _numpy_draws(
    policy: SoftmaxPolicy, problem: DualProblem, multipliers: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    loadings, offset = policy_loadings(problem, multipliers)
    out = np.empty(problem.n_rows, np.int64)
    for first in range(0, problem.n_rows, CHUNK):
        last = min(first + CHUNK, problem.n_rows)
        reference.quantiles_into(out, levels, problem.design, loadings, offset, first, last)
    return policy.support.atoms[out]
