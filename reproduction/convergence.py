"""The paper's stochastic solvers: along their iterations, and against each other."""

from dataclasses import replace
from typing import Any

from evenhand._utils.typing import FloatArray
from evenhand.dual.objective import evaluate
from evenhand.history import History
from evenhand.solvers import make_solver, run
from reproduction.frames import Row
from reproduction.parity_step import PAPER_SOLVER, PaperStep
from reproduction.rows import PaperRows, prepare
from reproduction.runner import Cell
from reproduction.variant import Variant


def compute_convergence(cell: Cell) -> list[Row]:
    """Risk and unfairness on the test rows at the start, and after each share of the budget."""
    rows = prepare(cell.dataset, cell["scheme"], cell.split).without_others()
    step = PaperStep.of(rows, 2.0 ** -cell["exponent"])
    solver: Any = make_solver(PAPER_SOLVER, max_iter=cell["budget"], random_state=cell.split)
    history = History(growth=1.0)
    run(replace(solver, chunk_size=cell["budget"] // cell["n_records"]), step.problem, callback=history)
    reached = [(record.n_gradient_rows, record.multipliers) for record in history.records]
    start = 0, 0.0 * reached[0][1]
    return [
        {"scheme": cell["scheme"], "iteration": iteration, **rows.measure_policy(step.policy(multipliers))}
        for iteration, multipliers in (start, *reached)
    ]


def compute_solvers(cell: Cell) -> list[Row]:
    """One solver at many tolerances, from several seeds on the same rows.

    `by` is "own" for `evenhand.solvers`, and "published" for the published formulas. `violation` is the
    largest of the constraints' on the rows of the fit, `gradient_map` the norm that the paper's theorem is
    about.
    """
    rows = prepare(cell.dataset, cell["scheme"], cell.split).without_others()
    solve = _solve_own if cell["by"] == "own" else _solve_published
    table = []
    for exponent in cell["exponents"]:
        for seed in range(cell["n_seeds"]):
            step, multipliers, measured = solve(rows, cell, exponent, seed)
            names = {"by": cell["by"], "epsilon": 2.0**-exponent, "seed": seed}
            table.append(names | measured | rows.measure_policy(step.policy(multipliers)))
    return table


def _solve_own(rows: PaperRows, cell: Cell, exponent: float, seed: int) -> tuple[PaperStep, FloatArray, Row]:
    step = PaperStep.of(rows, 2.0**-exponent)
    found = step.solve(cell.method, cell["budget"], seed)
    measured = {"violation": float(abs(found.violation).max()), "gradient_map": found.gradient_map_norm}
    return step, found.multipliers, measured


def _solve_published(
    rows: PaperRows, cell: Cell, exponent: float, seed: int
) -> tuple[PaperStep, FloatArray, Row]:
    variant = Variant(cell.method)
    step = variant.step(rows, 2.0**-exponent)
    multipliers = variant.solve(step, cell["budget"], (seed, cell.split, int(exponent))).multipliers
    violation = evaluate(step.problem, multipliers).violation
    return step, multipliers, {"violation": float(abs(violation).max())}
