"""The reduction of Agarwal, Dudik and Wu: regression under demographic parity by repeated regression."""

import math
from typing import Any, Self

import numpy as np
from sklearn.utils import check_array, indexable
from sklearn.utils.validation import _num_samples, check_consistent_length, validate_data

from evenhand._utils.labels import read_groups
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import check_epsilon
from evenhand.baselines.base import PmfRegressor, check_target, nearest_atom
from evenhand.baselines.game import Game, Rows
from evenhand.baselines.learners import LEARNERS, Learner, regressor
from evenhand.baselines.saddle import find_saddle
from evenhand.data.draws import RandomState
from evenhand.data.groups import check_groups
from evenhand.dual.grid import Grid, make_grid

TIGHTEST = 1e-6  # epsilon below which the bound on the prices grows no more
ACCURACY = 0.5  # of the standard error of the loss, as the gap of duality to reach


class ADW(PmfRegressor):
    """Regression under demographic parity by the reduction of Agarwal, Dudik and Wu (ICML 2019).

    A randomised mixture of regressors, found as the saddle point of a game between a learner and prices on
    the constraints

        min over mixtures  E[(Y - f(X))^2]    with  |P(f >= z | S = s) - P(f >= z)| <= epsilon_s for all z

    on the labelled rows: the Kolmogorov-Smirnov distance that `parity="cdf"` bounds, but of a model that is
    trained anew for every question of the game. In the paper, ADW-1 is trained on the labelled and the
    unlabelled rows, with the labels of both, and ADW-2 on the labelled rows alone.

    Parameters
    ----------
    learner : {"ls", "logistic", "trees"} or regressor, default="ls"
        Answers the questions of the game: least squares, logistic regression (predictions between the
        bounds), a small random forest, or any scikit-learn regressor.
    epsilon : float, array of shape (n_groups,) or dict by group, default=0.05
    atoms : "auto", int or array, default=41
        Values that are predicted: a number of equally spaced ones, or the values.
    bounds : "auto" or (low, high), default="auto"
        Range of the atoms; "auto" is that of y.
    min_iter, max_iter : int, default=15, 50
        Fewest and most rounds of the game.
    nu : "auto" or float, default="auto"
        Gap of duality at which to stop, for targets scaled to [0, 1]; "auto" is half of the standard error
        of the loss without constraints.
    price_bound : "auto" or float, default="auto"
        Bound on the sum of the prices; "auto" is 1 / epsilon.
    random_state : int, Generator, RandomState or None, default=None
        Key of the draws of `predict`.

    Attributes
    ----------
    atoms_ : array of shape (n_atoms,)
    models_ : list of fitted models
        They predict on the scale where the atoms span [0, 1].
    weights_ : array of shape (n_models,)
        Probability of each model.
    groups_ : array of shape (n_groups,)
    gap_, nu_ : float
        The gap of duality that was reached, and the one that was asked for.
    n_iter_, n_oracle_calls_ : int

    Examples
    --------
    >>> from evenhand.baselines import ADW
    >>> from evenhand.datasets import make_population
    >>> from evenhand.metrics import ks_unfairness
    >>> data = make_population(1000, n_groups=2, random_state=0)
    >>> model = ADW(epsilon=0.05).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> pmf = model.predict_pmf(data.data)
    >>> max(ks_unfairness(pmf, data.sensitive_features).values()) < 0.06
    True
    """

    def __init__(
        self,
        learner: Any = "ls",
        *,
        epsilon: Any = 0.05,
        atoms: Any = 41,
        bounds: Any = "auto",
        min_iter: int = 15,
        max_iter: int = 50,
        nu: Any = "auto",
        price_bound: Any = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.learner = learner
        self.epsilon = epsilon
        self.atoms = atoms
        self.bounds = bounds
        self.min_iter = min_iter
        self.max_iter = max_iter
        self.nu = nu
        self.price_bound = price_bound
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Play the game on labelled rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
            Whatever the learner takes, where it is an estimator.
        y : array of shape (n_rows,)
        sensitive_features : array or data frame of shape (n_rows,) or (n_rows, n_columns)
            Group of each row; not needed to predict.
        """
        table = self._table(X)
        target = check_target(y, "ADW")
        check_consistent_length(table, target)
        groups = check_groups(read_groups(sensitive_features, len(target)))
        grid = self._support(target)
        slack = check_epsilon(self.epsilon, groups.labels)
        if not 1 <= self.min_iter <= self.max_iter:
            raise ValueError(
                "min_iter and max_iter must be positive, the first at most the second: got "
                f"{self.min_iter!r} and {self.max_iter!r}."
            )
        unit = (grid.atoms - grid.atoms[0]) / np.ptp(grid.atoms)
        scaled = (grid.clip(target) - grid.atoms[0]) / np.ptp(grid.atoms)
        rows = Rows(scaled, groups.codes, unit, slack)
        game = Game.open(rows, self._learner(table), self._price_bound(slack))
        nu = self._nu(game)
        saddle = find_saddle(game, nu, self.min_iter, self.max_iter)
        used = np.flatnonzero(saddle.weights)
        validate_data(self, X, skip_check_array=True)  # notes the features' names and number
        self.atoms_ = grid.atoms
        self.models_ = [game.models[number] for number in used]
        self.weights_ = saddle.weights[used]
        self.groups_ = np.fromiter(groups.labels, dtype=object)
        self.gap_, self.nu_ = saddle.gap, nu
        self.n_iter_, self.n_oracle_calls_ = saddle.n_iter, game.n_calls
        return self

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `atoms_` for each row, (n_rows, n_atoms)."""
        table = self._table(self._known_rows(X))
        unit = (self.atoms_ - self.atoms_[0]) / np.ptp(self.atoms_)
        rows = np.arange(_num_samples(table))
        pmf = np.zeros((len(rows), len(unit)))
        for model, weight in zip(self.models_, self.weights_, strict=True):
            pmf[rows, nearest_atom(np.asarray(model.predict(table)), unit)] += weight
        return pmf

    def _table(self, X: Any) -> Any:
        """Floats for the learners that have a name; an estimator gets X as it is."""
        return check_array(X, dtype=np.float64) if isinstance(self.learner, str) else indexable(X)[0]

    def _support(self, target: FloatArray) -> Grid:
        bounds = self.bounds
        if isinstance(bounds, str) and bounds == "auto":
            low, high = float(target.min()), float(target.max())
            bounds = (low, high) if low < high else (low - 0.5, low + 0.5)
        return make_grid(self.atoms, bounds, target)

    def _learner(self, table: Any) -> Learner:
        if not isinstance(self.learner, str):
            return regressor(self.learner, table)
        if self.learner not in LEARNERS:
            named = ", ".join(map(repr, LEARNERS))
            raise ValueError(f"learner must be one of {named} or a regressor: got {self.learner!r}.")
        return LEARNERS[self.learner](table)

    def _price_bound(self, slack: FloatArray) -> float:
        if isinstance(self.price_bound, str) and self.price_bound == "auto":
            return 1.0 / max(float(slack.min()), TIGHTEST)
        if isinstance(self.price_bound, str) or not 0 < self.price_bound < np.inf:
            raise ValueError(f'price_bound must be "auto" or a positive number: got {self.price_bound!r}.')
        return float(self.price_bound)

    def _nu(self, game: Game) -> float:
        if isinstance(self.nu, str) and self.nu == "auto":
            rows = game.rows
            losses = (rows.targets - rows.atoms[nearest_atom(game.fitted, rows.atoms)]) ** 2
            return ACCURACY * float(losses.std()) / math.sqrt(len(losses))
        if isinstance(self.nu, str) or not self.nu >= 0:
            raise ValueError(f'nu must be "auto" or a number that is not negative: got {self.nu!r}.')
        return float(self.nu)
