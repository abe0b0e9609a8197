"""How the parity step grows with groups: seconds to 1e-6 on `make_population`, epsilon .05, default beta.

    python -m benchmarks.bench_groups --notions cdf --sizes 3000:12 3000:40

Each problem is solved in this process after a smaller one has loaded the kernels. The last column is the risk
above the linear program's, where that is small enough to be solved.
"""

import argparse
import warnings
from time import perf_counter

import numpy as np

from benchmarks._support import verdict
from evenhand._utils.validation import Rows
from evenhand.datasets import make_population
from evenhand.dual.costs import Squared
from evenhand.dual.grid import automatic_beta, make_grid
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.solvers import Auto, run, solve_lp

NOTIONS = ("cdf", "pmf", "tv", "w1", "mean")
SIZES = ("300:8", "300:20", "300:40", "3000:2", "3000:4", "3000:8", "3000:12", "3000:40")
SIZES += ("20000:4", "20000:8", "20000:20", "200000:2", "200000:4")
LIMITS = {"3000:12": 1.0, "3000:40": 10.0, "20000:8": 2.0, "20000:20": 10.0, "200000:4": 1.0}  # seconds
LARGEST_PROGRAM = 100_000  # rows x atoms


def problem(n_rows: int, n_groups: int, parity: str, epsilon: float = 0.05) -> DualProblem:
    people = make_population(n_rows, n_groups, random_state=0)
    grid = make_grid("auto", "auto", people.scores, None)
    prior = people.group_proba.mean(axis=0)
    step = ParityStep(
        grid, parity, Squared(), prior, None, np.full(n_groups, epsilon), automatic_beta(n_rows)
    )
    return step.problem(Rows(people.scores, people.group_proba, tuple(range(n_groups)), None))


def measure(n_rows: int, n_groups: int, parity: str) -> None:
    """Print one line."""
    asked = problem(n_rows, n_groups, parity)
    start = perf_counter()
    result = run(Auto(), asked)
    seconds = perf_counter() - start
    size = f"{n_rows}:{n_groups}"
    limit = f"  {verdict(seconds <= LIMITS[size])} (at most {LIMITS[size]:g})" if size in LIMITS else ""
    excess = float((asked.parity.norm.value(result.violation) - asked.slack).max())
    print(
        f"{parity:>5} {n_rows:>8} rows {n_groups:>3} groups {asked.n_atoms:>4} atoms: {seconds:8.2f} s,"
        f" {result.n_iter:4d} steps, {result.n_gradient_rows / n_rows:6.1f} passes, {result.status.name:>9},"
        f" {excess:+.0e} beyond epsilon{_above_program(asked, result.objective)}{limit}",
        flush=True,
    )


def _above_program(asked: DualProblem, objective: float) -> str:
    """How far the dual is below the optimum of the linear program, beside what smoothing may add."""
    if asked.n_rows * asked.n_atoms > LARGEST_PROGRAM:
        return ""
    best = solve_lp(asked).risk
    return f", {(best + objective) / best:+.2%} of the linear program's risk"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notions", nargs="+", default=list(NOTIONS))
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), help="rows:groups")
    asked = parser.parse_args([] if given is None else given)
    warnings.simplefilter("ignore")
    for parity in asked.notions:
        for n_groups in (3, 6):  # few and many: loads the kernels
            run(Auto(), problem(1000, n_groups, parity))
        for size in asked.sizes:
            n_rows, n_groups = map(int, size.split(":"))
            measure(n_rows, n_groups, parity)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
