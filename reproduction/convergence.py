"""The paper's stochastic solvers: along their iterations, and against each other."""

from dataclasses import replace
from typing import Any

from evenhand.history import History
from evenhand.solvers import make_solver, run
from reproduction.comparison import PAPER_SOLVER
from reproduction.frames import Row
from reproduction.parity_step import PaperStep
from reproduction.rows import prepare
from reproduction.runner import Cell


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

    `violation` is the largest of the constraints' on the rows of the fit, `gradient_map` the norm that the
    paper's theorem is about.
    """
    rows = prepare(cell.dataset, cell["scheme"], cell.split).without_others()
    table = []
    for exponent in cell["exponents"]:
        step = PaperStep.of(rows, 2.0**-exponent)
        for seed in range(cell["n_seeds"]):
            found = step.solve(cell.method, cell["budget"], seed)
            measured = {
                "epsilon": 2.0**-exponent,
                "seed": seed,
                "violation": float(abs(found.violation).max()),
                "gradient_map": found.gradient_map_norm,
            }
            table.append(measured | rows.measure_policy(step.policy(found.multipliers)))
    return table
