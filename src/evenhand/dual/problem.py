"""The smoothed dual problem, as data."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.costs import CostModel, RowCosts, cost_matrix, squared_cost, squared_cost_rows
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.parity import Parity


@dataclass(frozen=True, slots=True, eq=False)
class DualProblem:
    """Smoothed dual of the parity-constrained problem (paper, Lemma 3.1).

    Over multipliers Phi (n_constraints, n_groups), with tilt `theta = A^T Phi`:

        F(Phi) = E[LSE_beta((<theta_l, t> - c_l)_l)] + sum_s epsilon_s * dualnorm(Phi_s)
    """

    design: FloatArray  # kept imbalances, then cost features: (n_kept + n_features, n_rows)
    constant: FloatArray  # the part of the cost that no atom changes, (n_rows,)
    weights: FloatArray  # weight of each row, sums to one, (n_rows,)
    mixing: FloatArray  # t = mixing^T (kept imbalances), (n_kept, n_groups)
    cost: CostModel
    parity: Parity
    slack: FloatArray  # epsilon_s, (n_groups,)
    temperature: float  # beta
    # What rows that are not stored add to the moments E[u pi] of the kept imbalances u, (n_kept, n_atoms): a
    # stream's gradient on the curvature of its last rows.
    moment_shift: FloatArray | None = None

    @classmethod
    def from_rows(
        cls,
        scores: FloatArray,
        group_proba: FloatArray,
        *,
        atoms: FloatArray,
        parity: Parity,
        slack: FloatArray,
        temperature: float,
        group_prior: FloatArray | None = None,
        weights: FloatArray | None = None,
        strata: IntArray | None = None,
        costs: tuple[CostModel, RowCosts] | None = None,
    ) -> Self:
        """Problem on checked arrays: the prior defaults to the mean of tau, the cost to the squared one."""
        if weights is None:
            weights = np.full(len(scores), 1.0 / len(scores))
        if group_prior is None:
            group_prior = weights @ group_proba
        imbalance = ImbalanceModel.from_prior(group_prior, strata)
        cost, rows = (squared_cost(atoms), squared_cost_rows(scores)) if costs is None else costs
        return cls(
            design=np.concatenate([imbalance.kept_rows(group_proba), rows.features]),
            constant=rows.constant,
            weights=weights,
            mixing=imbalance.mixing,
            cost=cost,
            parity=parity,
            slack=slack,
            temperature=temperature,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.design.shape[1])

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.cost.offset)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.mixing.shape[1])

    @property
    def n_kept(self) -> int:
        """Number of imbalance columns that rows carry."""
        return int(self.mixing.shape[0])

    @property
    def multipliers_shape(self) -> tuple[int, int]:
        """Shape of Phi."""
        return self.parity.operator.n_rows, self.n_groups

    def mean_constant(self) -> float:
        """Mean over the rows of the cost that no atom changes."""
        # Not `@`: BLAS wakes threads of its own, which go on spinning beside those of the kernels.
        return float(np.einsum("i,i->", self.weights, self.constant))

    def imbalance(self) -> FloatArray:
        """t(x_i) for every group, shape (n_rows, n_groups)."""
        return self.design[: self.n_kept].T @ self.mixing

    def costs(self) -> FloatArray:
        """c_il, shape (n_rows, n_atoms): for small problems."""
        return cost_matrix(self.cost, RowCosts(self.design[self.n_kept :], self.constant))

    def subset(self, rows: IntArray) -> Self:
        """The same problem on some of the rows, with the mean imbalance of all of them.

        The sample's own mean would make tight tolerances infeasible, as a wrong prior does.
        """
        design, constant, weights = self.gather(rows)
        weights /= weights.sum()
        kept = slice(self.n_kept)
        design[kept] += (self.design[kept] @ self.weights - design[kept] @ weights)[:, None]
        return replace(self, design=design, constant=constant, weights=weights)

    def gather(self, rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Copies of design, constant and weights of some of the rows."""
        return np.ascontiguousarray(self.design[:, rows]), self.constant[rows], self.weights[rows]

    def at_temperature(self, temperature: float) -> Self:
        """The same problem, smoothed at another beta."""
        return replace(self, temperature=temperature)

    def with_slack(self, slack: FloatArray) -> Self:
        """The same problem with other tolerances."""
        return replace(self, slack=slack)
