"""The parity step as the paper's experiments set it, solved by the paper's stochastic solvers."""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.grid import Support, automatic_n_atoms, paper_beta, uniform_support
from evenhand.dual.parity import make_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.solvers import SolverResult, make_solver, run
from reproduction.rows import PaperRows


@dataclass(frozen=True, slots=True, eq=False)
class ParityStep:
    """The dual problem of the unlabelled rows, and the way from its multipliers to a policy."""

    support: Support
    problem: DualProblem
    group_prior: FloatArray

    @classmethod
    def of(cls, rows: PaperRows, epsilon: float, parity: str = "pmf", prior: str = "tau") -> "ParityStep":
        """The step of the unlabelled rows with L = sqrt(n) and beta = sqrt(n) log2(sqrt(n)), as in the paper.

        `prior` is "tau", the mean of the group probabilities of these rows, or "labels", the groups'
        shares in the whole data set, as in the published code. `ParityPostprocessor` refuses the latter at
        small epsilon: the violations of a group add up to the mean of its imbalance, which is zero only
        if the prior is the mean of the group probabilities, so that no policy is within such an epsilon.
        """
        scores, group_proba = rows.nuisances(rows.split.unlabeled)
        support = uniform_support(*rows.bounds, automatic_n_atoms(len(scores)))
        shares = group_proba.mean(axis=0)
        if prior == "labels":
            shares = np.bincount(rows.groups) / len(rows.groups)
        problem = DualProblem.from_rows(
            support.scale(support.clip(scores)),
            group_proba,
            atoms=support.normalised(),
            parity=make_parity(parity, support.normalised()),
            slack=np.full(group_proba.shape[1], epsilon),
            temperature=paper_beta(len(scores)),
            group_prior=shares,
        )
        return cls(support, problem, shares)

    def solve(self, solver: str, budget: int, seed: int) -> SolverResult:
        """Run a solver for `budget` gradients of single rows."""
        return run(make_solver(solver, max_iter=budget, random_state=seed), self.problem)

    def policy(self, multipliers: FloatArray) -> SoftmaxPolicy:
        """The policy of given multipliers."""
        tilt = self.problem.parity.operator.adjoint(multipliers)
        return SoftmaxPolicy(self.support, self.group_prior, tilt, self.problem.temperature)
