"""A million rows: `fit` against one gradient pass of NumPy, its memory, and how its cost grows.

A population with known tau, `tol=1e-4`: the violation ends within 1e-4 of epsilon. The NumPy pass is one
value and gradient of the dual at the fitted multipliers, in chunks of rows, with BLAS for the logits.
"""

from typing import Any

import numpy as np

import evenhand as eh
from benchmarks import _support as support
from evenhand.dual.objective import evaluate
from evenhand.dual.problem import DualProblem

N_ROWS, N_ATOMS, TOL, MOST_MEGABYTES = 1_000_000, 201, 1e-4, 300.0
NOTIONS = {"pmf": 2.0**-8, "cdf": 0.05}
BETA = 1000.0
GROWTH_ROWS = (62_500, 125_000, 250_000, 500_000, 1_000_000)
GROWTH_ATOMS, ATOMS_ROWS = (51, 101, 201, 401), 200_000
GROWTH_GROUPS = (2, 3, 4)
NOISE = 1.25  # of a shared machine


def make_model(parity: str, beta: float | str = BETA, n_atoms: int = N_ATOMS) -> eh.ParityPostprocessor:
    options = {"beta": beta, "atoms": n_atoms, "bounds": (-1.0, 1.0), "tol": TOL}
    return eh.ParityPostprocessor(parity=parity, epsilon=NOTIONS[parity], **options)


def make_problem(model: eh.ParityPostprocessor, rows: tuple[np.ndarray, np.ndarray]) -> DualProblem:
    return support.make_problem(*rows, model.parity, model.epsilon, model.beta_, model.atoms)


def prepare_fit(parity: str, beta: float | str, n_rows: int) -> Any:
    """The input, after a small fit: compiled code is no part of what a fit needs."""
    make_model(parity, beta).fit(*support.population_rows(2000))
    return make_model(parity, beta), support.population_rows(n_rows)


def run_fit(state: Any) -> eh.ParityPostprocessor:
    model, rows = state
    return model.fit(*rows)


def compare(rows: tuple[np.ndarray, np.ndarray], parity: str, beta: float | str) -> list[str]:
    """A row of the first table."""
    model = make_model(parity, beta).fit(*rows)
    problem, point = make_problem(model, rows), model.multipliers_
    ours, (value, violation) = evaluate(problem, point), support.numpy_evaluate(problem, point)
    np.testing.assert_allclose(ours.value, value, atol=1e-9)
    np.testing.assert_allclose(ours.violation, violation, atol=1e-9)
    runs = {
        "fit": lambda: model.fit(*rows),
        "NumPy": lambda: support.numpy_evaluate(problem, point),
        "pass": lambda: evaluate(problem, point),
    }
    seconds = support.smallest_times(runs, rounds=3, warm_up=False)
    excess = float((model.certificate_.violation - model.epsilon_).max())
    memory = support.peak_growth(prepare_fit, run_fit, parity, beta, len(rows[0]))
    passed = seconds["fit"] < seconds["NumPy"] and excess <= TOL and memory < MOST_MEGABYTES
    return [
        f"{parity} {model.epsilon:.3g}, beta {model.beta_:.0f}",
        f"{seconds['fit'] / seconds['NumPy']:.2f}",
        f"{seconds['NumPy'] / seconds['pass']:.0f}",
        f"{seconds['fit']:.2f}",
        f"{model.result_.n_gradient_rows / len(rows[0]):.1f}",
        f"{excess:.1e}",
        f"{memory:.0f}",
        support.verdict(passed),
    ]


def show_growth(cases: dict[str, tuple[int, int, int]]) -> dict[str, float]:
    """Times of one pass and of `fit` for (rows, atoms, groups), over those of the line before.

    Returns how many times longer the last line took than the first.
    """
    table, before, first = [], None, None
    for label, (n_rows, n_atoms, n_groups) in cases.items():
        rows = support.population_rows(n_rows, n_groups)
        pmf, cdf = (make_model(parity, n_atoms=n_atoms) for parity in NOTIONS)
        runs = {
            "pmf": lambda pmf=pmf, rows=rows: pmf.fit(*rows),
            "cdf": lambda cdf=cdf, rows=rows: cdf.fit(*rows),
        }
        runs["cdf"]()
        problem, point = make_problem(cdf, rows), cdf.multipliers_
        runs["pass"] = lambda problem=problem, point=point: evaluate(problem, point)
        now = support.smallest_times(runs, rounds=3, warm_up=False)
        ratios = ["" if before is None else f"x {now[name] / before[name]:.2f}" for name in now]
        cells = [f"{1e3 * now[name]:.0f}" for name in now]
        table.append([label, *(cell for pair in zip(cells, ratios, strict=True) for cell in pair)])
        before, first = now, first or now
    support.show_table(["", "fit pmf, ms", "", "fit cdf, ms", "", "one pass, ms", ""], table)
    return {name: now[name] / first[name] for name in now}


def show_linear(what: str, sizes: tuple[int, ...], growth: dict[str, float]) -> None:
    """Say whether the times grew no faster than the size."""
    times = sizes[-1] / sizes[0]
    grown = ", ".join(f"{name} x {value:.1f}" for name, value in growth.items())
    passed = support.verdict(max(growth.values()) <= NOISE * times)
    print(f"{what} x {times:.1f}: {grown}; at most {NOISE} x {times:.1f} for linear: {passed}")


def main(n_rows: int = N_ROWS) -> None:
    """Print the comparison, then the growth with rows, atoms and groups."""
    print(
        f"n = {n_rows}, m = {N_ATOMS}, K = 2, tol = {TOL:g}; at most 1 NumPy pass and {MOST_MEGABYTES:.0f} MB"
    )
    rows = support.population_rows(n_rows)
    table = [compare(rows, parity, beta) for parity in NOTIONS for beta in (BETA, "auto")]
    head = ["", "fit / NumPy pass", "NumPy / our pass", "fit, s", "passes", "excess", "MB beyond input", ""]
    support.show_table(head, table)
    print(f"\ngrowth, beta = {BETA:.0f}: twice the rows or atoms should cost twice the time")
    sizes = tuple(n for n in GROWTH_ROWS if n <= n_rows)
    show_linear("rows", sizes, show_growth({f"n = {n}, m = {N_ATOMS}": (n, N_ATOMS, 2) for n in sizes}))
    cases = {f"n = {ATOMS_ROWS}, m = {m}": (ATOMS_ROWS, m, 2) for m in GROWTH_ATOMS}
    show_linear("atoms", GROWTH_ATOMS, show_growth(cases))
    show_growth(
        {f"n = {ATOMS_ROWS}, m = {N_ATOMS}, K = {k}": (ATOMS_ROWS, N_ATOMS, k) for k in GROWTH_GROUPS}
    )


if __name__ == "__main__":
    main()
