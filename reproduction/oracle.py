"""Measure how far policies are from the exact linear program, on the rows of their fit."""

from dataclasses import replace

import numpy as np

from evenhand.certificates import certify
from evenhand.solvers import Batch, SolverResult, run, solve_lp
from reproduction.frames import Row
from reproduction.parity_step import PAPER_SOLVER, PaperStep
from reproduction.rows import prepare
from reproduction.runner import Cell


def compute_oracle(cell: Cell) -> list[Row]:
    """Distance to the scores of each solver's policy, and of the program at the violation that it reached.

    `risk` and `lp_risk` are mean squared distances to the scores in the target's units; `reached` is the
    largest violation of the policy, which the program is then given as its tolerance.
    """
    rows = prepare(cell.dataset, cell["scheme"], cell.split)
    table = []
    for epsilon in cell["epsilons"]:
        step = PaperStep.of(rows, epsilon, parity=cell.method)
        sharp = replace(step, problem=step.problem.at_temperature(cell["sharp_beta"]))
        for name, problem in (("batch", step), ("batch, sharp", sharp)):
            table.append(
                {"solver": name, "epsilon": epsilon, **_measure(problem, run(Batch(), problem.problem))}
            )
        found = step.solve(PAPER_SOLVER, cell["budget"], cell.split)
        table.append({"solver": PAPER_SOLVER, "epsilon": epsilon, **_measure(step, found)})
    return table


def _measure(step: PaperStep, result: SolverResult) -> Row:
    reached = np.abs(result.violation).max(axis=0)
    exact = solve_lp(step.problem.with_slack(reached))
    return {
        "beta": step.problem.temperature,
        "reached": float(reached.max()),
        "risk": certify(step.problem, result, step=step.step).risk,
        "lp_risk": step.step.cost_unit * exact.risk,
    }
