"""The parity step as the paper's experiments set it, solved by the paper's stochastic solvers."""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import Grid, automatic_n_atoms, paper_beta, uniform_grid
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.solvers import SolverResult, make_solver, run
from reproduction.rows import PaperRows

PAPER_SOLVER = "sgd3+acsa2"  # of the paper's experiments


def paper_grid(rows: PaperRows) -> Grid:
    """`2 L + 1` atoms over the range of the target; scores beyond it are taken as they are."""
    atoms = uniform_grid(*rows.bounds, automatic_n_atoms(len(rows.split.unlabeled))).atoms
    return Grid(atoms, (-np.inf, np.inf))


@dataclass(frozen=True, slots=True, eq=False)
class PaperStep:
    """A parity step, and its dual problem on the unlabelled rows."""

    step: ParityStep
    problem: DualProblem

    @classmethod
    def of(cls, rows: PaperRows, epsilon: float, parity: str = "pmf", prior: str = "tau") -> "PaperStep":
        """L = sqrt(n) and beta = sqrt(n) log2(sqrt(n)), as the paper's experiments have it.

        `prior` is "tau", the mean of the group probabilities of these rows, or "labels", the groups'
        shares in all rows of the split, as in the published code. Violations sum to the mean imbalance, which
        is then not zero, so that small epsilons have no exact solution: `ParityPostprocessor` refuses them.
        """
        scores, group_proba = rows.nuisances(rows.split.unlabeled)
        scored = Rows(scores, group_proba, tuple(range(group_proba.shape[1])), None)
        shares = rows.group_shares() if prior == "labels" else scored.group_mass()
        step = ParityStep(
            grid=paper_grid(rows),
            parity=parity,
            cost=Squared(),
            group_prior=shares,
            strata=None,
            epsilon=np.full(len(shares), epsilon),
            beta=paper_beta(len(scores)),
        )
        return cls(step, step.problem(scored))

    def solve(self, solver: str, budget: int, seed: int) -> SolverResult:
        """Run a solver for `budget` gradients of single rows."""
        return run(make_solver(solver, max_iter=budget, random_state=seed), self.problem)

    def policy(self, multipliers: FloatArray) -> SoftmaxPolicy:
        """The policy that multipliers stand for."""
        return self.step.policy(multipliers)
