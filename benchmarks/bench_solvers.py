"""What was tried for the deterministic solver, on the paper's data and on a population of three groups.

Every solver is asked for 1e-6: violation beyond epsilon and primal-dual gap. A pass is one value and gradient
over all the rows; Hessians are in the times alone. "gap" is the objective above the best of the column.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from benchmarks import _support as support
from evenhand.dual.grid import paper_beta
from evenhand.dual.objective import evaluate, optimality_error, penalty
from evenhand.dual.parity import SupNorm
from evenhand.dual.problem import DualProblem
from evenhand.dual.projected import merge, projected_gradient, smoothness
from evenhand.solvers import Batch, Lbfgs, Solver, run

TOL, MOST_PASSES = 1e-6, 2_000
ROUNDS, LARGE = 5, 10_000  # from this many rows on, once is enough


class End(NamedTuple):
    """Where a solver stopped."""

    multipliers: np.ndarray
    n_passes: float


def library(solver: Solver, problem: DualProblem) -> End:
    result = run(solver, problem)
    return End(result.multipliers, result.n_gradient_rows / problem.n_rows)


def numpy_lbfgs(problem: DualProblem) -> End:
    """SciPy's L-BFGS-B over (Lambda, V) >= 0 with a NumPy gradient."""
    shape = (2, *problem.multipliers_shape)

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        point = flat.reshape(shape)
        value, violation = support.numpy_evaluate(problem, merge(point))
        value += float(point.sum(axis=(0, 1)) @ problem.slack) - penalty(problem, merge(point))
        return value, projected_gradient(problem, violation).ravel()

    options = {"maxiter": MOST_PASSES, "maxfun": MOST_PASSES, "maxcor": 30, "ftol": 0.0, "gtol": 0.1 * TOL}
    bounds = [(0.0, None)] * int(np.prod(shape))
    start = np.zeros(int(np.prod(shape)))
    found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return End(merge(found.x.reshape(shape)), found.nfev)


def accelerated(problem: DualProblem) -> End:
    """Proximal gradient with Nesterov's momentum, a step found by backtracking, and restarts."""
    norm, bound, clock, n_passes = problem.parity.norm, 1e-3 * smoothness(problem), 1.0, 0
    here = ahead = np.zeros(problem.multipliers_shape)
    while n_passes < MOST_PASSES:
        now = evaluate(problem, ahead)
        n_passes += 1
        level = now.value - penalty(problem, ahead)
        while True:
            there = norm.prox_dual(ahead - now.violation / bound, problem.slack / bound)
            new, move = evaluate(problem, there), there - ahead
            n_passes += 1
            model = level + float((now.violation * move).sum()) + 0.5 * bound * float((move**2).sum())
            if new.value - penalty(problem, there) <= model + 1e-14:
                break
            bound *= 2.0
        if optimality_error(problem, there, new) <= TOL:
            return End(there, n_passes)
        if ((ahead - there) * (there - here)).sum() > 0.0:  # the momentum points uphill: forget it
            clock = 1.0
        next_clock = 0.5 + np.sqrt(0.25 + clock**2)
        ahead = there + (clock - 1.0) / next_clock * (there - here)
        here, clock, bound = there, next_clock, 0.95 * bound
    return End(here, n_passes)


CANDIDATES: dict[str, Callable[[DualProblem], End]] = {
    "Batch": partial(library, Batch(tol=TOL)),
    "Batch without subsamples": partial(library, Batch(tol=TOL, first_rows=10**9)),
    "Batch without the climb in beta": partial(library, Batch(tol=TOL, first_temperature=1e9)),
    "Batch without either": partial(library, Batch(tol=TOL, first_rows=10**9, first_temperature=1e9)),
    "L-BFGS-B, compiled gradient": partial(library, Lbfgs(tol=TOL, max_iter=MOST_PASSES)),
    "L-BFGS-B, NumPy gradient": numpy_lbfgs,
    "accelerated proximal gradient": accelerated,
}


def paper_problem(name: str, parity: str, epsilon: float, beta: float | None = None) -> DualProblem:
    rows = support.paper_rows(name, seed=0)
    beta = beta or paper_beta(len(rows.scores))
    return support.make_problem(rows.scores, rows.group_proba, parity, epsilon, beta)


def problems() -> dict[str, Callable[[], DualProblem]]:
    large = support.population_rows(200_000, 3)
    return {
        "law school, pmf 2^-8": partial(paper_problem, "law school", "pmf", 2.0**-8),
        "law school, pmf 2^-8, beta 20 000": partial(paper_problem, "law school", "pmf", 2.0**-8, 2e4),
        "communities, cdf 0.05": partial(paper_problem, "communities", "cdf", 0.05),
        "communities, cdf 0.05, beta 20 000": partial(paper_problem, "communities", "cdf", 0.05, 2e4),
        "communities, pmf 0": partial(paper_problem, "communities", "pmf", 0.0),
        "adult, pmf 2^-16": partial(paper_problem, "adult", "pmf", 2.0**-16),
        "3 groups, pmf 2^-8": lambda: support.make_problem(*large, "pmf", 2.0**-8, 1000.0, 101),
        "3 groups, cdf 0.05": lambda: support.make_problem(*large, "cdf", 0.05, 1000.0, 101),
        "communities, tv 0.05": partial(paper_problem, "communities", "tv", 0.05),
        "communities, tv 0.05, beta 20 000": partial(paper_problem, "communities", "tv", 0.05, 2e4),
        "communities, w1 0.02": partial(paper_problem, "communities", "w1", 0.02),
        "communities, w1 0.02, beta 20 000": partial(paper_problem, "communities", "w1", 0.02, 2e4),
        "3 groups, tv 0.05": lambda: support.make_problem(*large, "tv", 0.05, 1000.0, 101),
        "3 groups, w1 0.02": lambda: support.make_problem(*large, "w1", 0.02, 1000.0, 101),
    }


def show(problem: DualProblem) -> None:
    ends: dict[str, End] = {}

    def solve(name: str) -> None:
        ends[name] = CANDIDATES[name](problem)

    runs, small = {name: partial(solve, name) for name in CANDIDATES}, problem.n_rows < LARGE
    if not isinstance(problem.parity.norm, SupNorm):
        del runs["L-BFGS-B, NumPy gradient"]  # it is written for the projected form
    seconds = support.smallest_times(runs, ROUNDS if small else 1, warm_up=small)
    nows = {name: evaluate(problem, end.multipliers) for name, end in ends.items()}
    best = min(now.value for now in nows.values())
    table = []
    for name, now in nows.items():
        excess = float((problem.parity.norm.value(now.violation) - problem.slack).max())
        time, passes = f"{seconds[name] / seconds['Batch']:.1f}", f"{ends[name].n_passes:.1f}"
        table.append([name, time, passes, f"{excess:.1e}", f"{now.value - best:.1e}"])
    support.show_table(["", "time / Batch", "passes", "violation - eps", "gap"], table)


def main() -> None:
    """Print a table for each problem."""
    print(f"tolerance {TOL:g}; first-order methods get {MOST_PASSES} passes or iterations")
    for name, make in problems().items():
        problem = make()
        print(f"{name} (n = {problem.n_rows}, m = {problem.n_atoms}, beta = {problem.temperature:.0f})")
        show(problem)


if __name__ == "__main__":
    main()
