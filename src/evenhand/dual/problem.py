"""The smoothed dual problem, as data."""

from dataclasses import dataclass, replace
from typing import Self

from evenhand._utils.typing import FloatArray
from evenhand.dual.cost_terms import CostModel, RowCosts, cost_matrix
from evenhand.dual.parity import Parity
from evenhand.dual.rows import DualRows, stored_rows


@dataclass(frozen=True, slots=True, eq=False)
class DualProblem:
    """Smoothed dual of the parity-constrained problem (paper, Lemma 3.1).

    Over multipliers Phi (n_constraints, n_groups), with tilt `theta = A^T Phi`:

        F(Phi) = E[LSE_beta((<theta_l, t> - c_l)_l)] + sum_s epsilon_s * dualnorm(Phi_s)

    Everything is on the normalised scale, where the atoms span [-1, 1]. `ParityStep.problem` makes it.
    """

    rows: DualRows
    mixing: FloatArray  # t = mixing^T (kept imbalances), (n_kept, n_groups)
    cost: CostModel
    parity: Parity
    slack: FloatArray  # epsilon_s, (n_groups,)
    temperature: float  # beta
    # What rows that are not stored add to the moments E[u pi] of the kept imbalances u, (n_kept, n_atoms): a
    # stream's gradient on the curvature of its last rows.
    moment_shift: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_rows

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

    def imbalance(self) -> FloatArray:
        """t(x_i) for every group, shape (n_rows, n_groups): for small problems."""
        rows = stored_rows(self.rows, "A table of imbalances")
        return rows.design[: self.n_kept].T @ self.mixing

    def costs(self) -> FloatArray:
        """c_il, shape (n_rows, n_atoms): for small problems."""
        rows = stored_rows(self.rows, "A table of costs")
        return cost_matrix(self.cost, RowCosts(rows.design[self.n_kept :], rows.constant))

    def sample(self, size: int) -> Self:
        """The same problem on a fixed sample of the rows, with the mean imbalance of all of them."""
        return replace(self, rows=self.rows.sample(size))

    def at_temperature(self, temperature: float) -> Self:
        """The same problem, smoothed at another beta."""
        return replace(self, temperature=temperature)

    def with_slack(self, slack: FloatArray) -> Self:
        """The same problem with other tolerances."""
        return replace(self, slack=slack)
