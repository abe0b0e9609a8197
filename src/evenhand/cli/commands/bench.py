"""`evenhand bench`: how fast the compiled loops are on this machine, against NumPy."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import typer

from evenhand._kernels import reference
from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode
from evenhand.cli.terminal import Terminal
from evenhand.datasets import make_population
from evenhand.dual.objective import evaluate, policy_loadings
from evenhand.dual.rows import MemoryRows
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
    terminal.say(
        f"{rows} rows, {N_ATOMS} possible predictions (atoms), two groups; the smallest of {rounds} times."
    )
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
    model = ParityPostprocessor(epsilon=EPSILON, atoms=N_ATOMS, bounds=(-1.0, 1.0), tol=TOLERANCE)
    fitted = ParityPostprocessor(**model.get_params()).fit(scores, proba)
    problem = fitted.step_.step.problem(Rows(scores, proba, (0, 1), None))
    rows = fitted.step_.step.rows(Rows(scores, proba, (0, 1), None))
    start = np.zeros(problem.multipliers_shape)
    levels = np.random.default_rng(0).random(n_rows)
    return {
        "NumPy: one gradient pass": lambda: _numpy_pass(rows, *policy_loadings(problem, start)),
        "compiled: one gradient pass": lambda: evaluate(problem, start),
        "compiled: the whole fit": lambda: model.fit(scores, proba),
        "NumPy: draws": lambda: fitted.atoms_[
            _numpy_draws(rows, *policy_loadings(problem, fitted.multipliers_), levels)
        ],
        "compiled: draws": lambda: fitted.policy_.draw(scores, proba, levels),
    }


def _numpy_pass(rows: MemoryRows, loadings: FloatArray, offset: FloatArray) -> float:
    total = 0.0
    for first in range(0, rows.n_rows, CHUNK):
        last = min(first + CHUNK, rows.n_rows)
        total += reference.moments(rows.design, rows.weights, loadings, offset, rows.n_kept, first, last)[0]
    return total


def _numpy_draws(rows: MemoryRows, loadings: FloatArray, offset: FloatArray, levels: FloatArray) -> IntArray:
    """The place of each row's draw among the atoms."""
    out = np.empty(rows.n_rows, np.int64)
    for first in range(0, rows.n_rows, CHUNK):
        last = min(first + CHUNK, rows.n_rows)
        reference.quantiles_into(out, levels, rows.design, loadings, offset, first, last)
    return out
