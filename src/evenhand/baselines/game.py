"""The game behind the reduction of Agarwal, Dudik and Wu (ICML 2019), on the rows of a fit.

One player picks a predictor, that is an atom for each row; the other prices every threshold of every group:

    L(f, lambda) = 1/n sum_i (y_i - f_i)^2 + sum_sj lambda_sj gap_sj(f) - sum_sj epsilon_s |lambda_sj|
    gap_sj(f)    = P(f >= z_j | S = s) - P(f >= z_j),    |lambda|_1 <= bound

The thresholds z_j lie half way between the atoms, so a gap within epsilon is a Kolmogorov-Smirnov distance
within epsilon.
"""

from dataclasses import dataclass, field

import numpy as np

from evenhand._typing import FloatArray, IntArray
from evenhand.baselines.base import nearest_atom
from evenhand.baselines.learners import Learner, Model

IMPROVEMENT = 1e-12  # of the Lagrangian, below which a predictor is not a new one


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of the game, on the scale where the atoms span [0, 1]."""

    targets: FloatArray  # y, (n_rows,)
    codes: IntArray  # group of each row, (n_rows,)
    atoms: FloatArray  # (n_atoms,), increasing
    slack: FloatArray  # epsilon_s, (n_groups,)

    @property
    def shares(self) -> FloatArray:
        """Share of each group, (n_groups,)."""
        return np.bincount(self.codes, minlength=len(self.slack)) / len(self.codes)

    def loss(self, positions: IntArray) -> float:
        """Mean squared error of the atoms at `positions`."""
        return float(np.mean((self.targets - self.atoms[positions]) ** 2))

    def gaps(self, positions: IntArray) -> FloatArray:
        """`P(f >= z_j | S = s) - P(f >= z_j)`, (n_groups, n_atoms - 1)."""
        shape = len(self.slack), len(self.atoms)
        cells = np.bincount(self.codes * shape[1] + positions, minlength=shape[0] * shape[1])
        above = cells.reshape(shape)[:, :0:-1].cumsum(axis=1)[:, ::-1] / len(self.codes)
        gaps: FloatArray = above / self.shares[:, None] - above.sum(axis=0)
        return gaps

    def pseudo_targets(self, prices: FloatArray) -> FloatArray:
        """The atom that is cheapest for each row at `prices`, were it free to choose, (n_rows,).

        Row i pays `(y_i - a_k)^2 + t_sk` for atom k, with t_sk the cumulated prices of its group. What
        depends on k is linear in y_i, so the choice of a group is read off a lower envelope of lines, once
        for all of its rows.
        """
        tolls = np.zeros((len(self.slack), len(self.atoms)))
        np.cumsum(prices / self.shares[:, None] - prices.sum(axis=0), axis=1, out=tolls[:, 1:])
        chosen = np.empty(len(self.targets))
        for group, toll in enumerate(tolls):
            rows = self.codes == group
            kept = lower_hull(self.atoms, self.atoms**2 + toll)
            turns = np.diff((self.atoms**2 + toll)[kept]) / np.diff(self.atoms[kept]) / 2
            chosen[rows] = self.atoms[kept][np.searchsorted(turns, self.targets[rows])]
        return chosen


def lower_hull(x: FloatArray, y: FloatArray) -> IntArray:
    """Positions of the points on the lower convex hull; x increases.

    >>> lower_hull(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0, 3.0]))
    array([0, 2, 3])
    """
    across, up, hull = x.tolist(), y.tolist(), [0]
    for new in range(1, len(across)):
        while len(hull) > 1:
            first, last = hull[-2], hull[-1]
            rise = (up[last] - up[first]) * (across[new] - across[first])
            if rise < (up[new] - up[first]) * (across[last] - across[first]):
                break
            hull.pop()
        hull.append(new)
    return np.array(hull)


@dataclass(slots=True, eq=False)
class Game:
    """The predictors met so far, with what each of them costs: the only state of a fit."""

    rows: Rows
    learn: Learner
    bound: float  # on the sum of |lambda|
    models: list[Model] = field(default_factory=list)
    losses: FloatArray = field(default_factory=lambda: np.empty(0))
    gaps: FloatArray = field(default_factory=lambda: np.empty((0, 0, 0)))  # (n_models, n_groups, n_atoms - 1)
    n_calls: int = 0  # of the learner

    def add(self, model: Model, values: FloatArray) -> int:
        """Take in a predictor with these values on the rows, and tell its number."""
        positions = nearest_atom(values, self.rows.atoms)
        gaps = self.rows.gaps(positions)
        self.models.append(model)
        self.losses = np.append(self.losses, self.rows.loss(positions))
        self.gaps = gaps[None] if len(self.models) == 1 else np.concatenate([self.gaps, gaps[None]])
        return len(self.models) - 1

    def best_response(self, prices: FloatArray) -> int:
        """Number of the best predictor known at `prices`, after the learner has had its say."""
        targets = self.rows.pseudo_targets(prices)
        model, values = self.learn(targets)
        self.n_calls += 1
        positions = nearest_atom(values, self.rows.atoms)
        value = self.rows.loss(positions) + float(np.sum(prices * self.rows.gaps(positions)))
        known = self.losses + np.tensordot(self.gaps, prices, 2) if self.models else np.array([np.inf])
        if value < known.min() - IMPROVEMENT:
            return self.add(model, values)
        return int(known.argmin())

    def mixture(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """Loss and gaps (n_groups, n_atoms - 1) of the predictors, mixed by `weights`."""
        n_mixed = len(weights)
        return float(weights @ self.losses[:n_mixed]), np.tensordot(weights, self.gaps[:n_mixed], 1)

    def lagrangian(self, loss: float, gaps: FloatArray, prices: FloatArray) -> float:
        """`L` of a mixture with this loss and these gaps."""
        return loss + float(np.sum(prices * gaps) - self.rows.slack @ np.abs(prices).sum(axis=1))

    def worst(self, loss: float, gaps: FloatArray) -> float:
        """Largest `L` that any prices within the bound can make of a mixture."""
        excess = np.abs(gaps).max(axis=1) - self.rows.slack
        return loss + self.bound * max(0.0, float(excess.max()))
