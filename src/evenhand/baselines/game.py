"""The game behind the reduction of Agarwal, Dudik and Wu (ICML 2019), on the rows of a fit.

One player picks a predictor, that is an atom for each row; the other prices every threshold of every group:

    L(f, lambda) = 1/n sum_i (y_i - f_i)^2 + sum_sj lambda_sj gap_sj(f) - sum_sj epsilon_s |lambda_sj|
    gap_sj(f)    = P(f >= z_j | S = s) - P(f >= z_j),    |lambda|_1 <= bound

The thresholds z_j lie half way between the atoms, so a gap within epsilon is a Kolmogorov-Smirnov distance
within epsilon.
"""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.baselines.base import nearest_atom
from evenhand.baselines.learners import Learner, Model


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

    def cheapest(self, values: FloatArray, prices: FloatArray) -> FloatArray:
        """The atom that suits each row best at `prices`, for rows whose outcome is `values`, (n_rows,).

        Row i pays `(value_i - a_k)^2 + t_sk` for atom k, with t_sk the cumulated prices of its group. What
        depends on k is linear in the value, so the choice of a group is read off a lower envelope of lines,
        once for all of its rows.
        """
        tolls = np.zeros((len(self.slack), len(self.atoms)))
        np.cumsum(prices / self.shares[:, None] - prices.sum(axis=0), axis=1, out=tolls[:, 1:])
        chosen = np.empty(len(values))
        for group, toll in enumerate(tolls):
            rows = self.codes == group
            kept = lower_hull(self.atoms, self.atoms**2 + toll)
            turns = np.diff((self.atoms**2 + toll)[kept]) / np.diff(self.atoms[kept]) / 2
            chosen[rows] = self.atoms[kept][np.searchsorted(turns, values[rows])]
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
    fitted: FloatArray  # values of the model without constraints, (n_rows,)
    models: list[Model]
    losses: FloatArray  # (n_models,)
    gaps: FloatArray  # (n_models, n_groups, n_atoms - 1)
    n_calls: int = 0  # of the learner

    @classmethod
    def open(cls, rows: Rows, learn: Learner, bound: float) -> "Game":
        """A game that knows the model without constraints, and a constant one.

        A constant meets any tolerance: with it, the known predictors always have a feasible mixture.
        """
        model, fitted = learn(rows.targets)
        shape = 0, len(rows.slack), len(rows.atoms) - 1
        game = cls(rows, learn, bound, fitted, [], np.empty(0), np.empty(shape), n_calls=1)
        game.add(model, fitted)
        game.ask(np.full_like(rows.targets, rows.targets.mean()))
        return game

    def ask(self, targets: FloatArray) -> None:
        """Take in the learner's answer to `targets`."""
        self.n_calls += 1
        self.add(*self.learn(targets))

    def add(self, model: Model, values: FloatArray) -> None:
        """Take in a predictor with these values on the rows, unless one like it is known."""
        positions = nearest_atom(values, self.rows.atoms)
        loss, gaps = self.rows.loss(positions), self.rows.gaps(positions)
        if (self.losses == loss).any() and (self.gaps[self.losses == loss] == gaps).all(axis=(1, 2)).any():
            return
        self.models.append(model)
        self.losses = np.append(self.losses, loss)
        self.gaps = np.concatenate([self.gaps, gaps[None]])

    def respond(self, prices: FloatArray) -> int:
        """Number of the best predictor known at `prices`, after the learner has had its say.

        A learner of the mean can only approximate the best response. It is asked twice: with the atoms that
        suit the rows by their outcome, as the authors do, and by the outcome that is expected of them, which
        is the same cost with less noise. Every answer is kept, since mixtures may use what no prices favour.
        """
        for values in (self.rows.targets, self.fitted):
            self.ask(self.rows.cheapest(values, prices))
        return int((self.losses + np.tensordot(self.gaps, prices, 2)).argmin())

    def lagrangian(self, loss: float, gaps: FloatArray, prices: FloatArray) -> float:
        """`L` of a predictor or mixture with this loss and these gaps."""
        return loss + float(np.sum(prices * gaps) - self.rows.slack @ np.abs(prices).sum(axis=1))

    def worst(self, loss: float, gaps: FloatArray) -> float:
        """Largest `L` that any prices within the bound can make of it."""
        excess = np.abs(gaps).max(axis=1) - self.rows.slack
        return loss + self.bound * max(0.0, float(excess.max()))
