"""What the baselines share: a distribution over atoms for each row, and the ways to predict from it."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import indexable
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.data.draws import RandomState, choose_uniforms, key_from, uniforms_from_table
from evenhand.estimators.models import require_table
from evenhand.metrics import risk

SUM_ROUNDING = 1e-12  # by which cumulated probabilities may miss one


class PmfRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A regressor that predicts a distribution over `atoms_`; a subclass brings `fit` and `predict_pmf`."""

    # Groups are for fit; a model that needs them to predict asks with set_predict_request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": False}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"sensitive_features": False}

    random_state: RandomState
    atoms_: FloatArray

    @abstractmethod
    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `atoms_` for each row, (n_rows, n_atoms).

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for models that use the group to predict.
        """

    def predict_mean(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Mean of each row's distribution, (n_rows,).

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for models that use the group to predict.
        """
        mean: FloatArray = self.predict_pmf(X, sensitive_features=sensitive_features) @ self.atoms_
        return mean

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: RandomState = None, ids: Any = None
    ) -> FloatArray:
        """One value for each row, drawn as `ParityRegressor.predict` draws: a keyed hash of the row.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        sensitive_features : array of shape (n_rows,), default=None
            Only for models that use the group to predict.
        random_state : int, Generator, RandomState or None, default=None
            Anything but None asks for fresh draws instead.
        ids : array of shape (n_rows,), default=None
            Who each row is: the draw is then a hash of the id alone.
        """
        (X,) = indexable(X)
        pmf = self.predict_pmf(X, sensitive_features=sensitive_features)
        key = key_from(self.random_state)
        uniforms = choose_uniforms(len(pmf), key, random_state, ids, lambda: uniforms_from_table(X, key))
        below = np.cumsum(pmf, axis=1) < uniforms[:, None] - SUM_ROUNDING
        drawn: FloatArray = self.atoms_[np.minimum(below.sum(axis=1), len(self.atoms_) - 1)]
        return drawn

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, sensitive_features: Any = None) -> float:
        """`R^2 = 1 - E[(Y - prediction)^2] / Var(Y)`, with the expectation over the draws taken exactly.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
            The true outcomes.
        sample_weight : array of shape (n_rows,), default=None
        sensitive_features : array of shape (n_rows,), default=None
            Only for models that use the group to predict.
        """
        target = check_target(y, type(self).__name__)
        pmf = self.predict_pmf(X, sensitive_features=sensitive_features)
        error = risk(target, pmf, self.atoms_, sample_weight)
        centre = np.average(target, weights=sample_weight)
        spread = float(np.average((target - centre) ** 2, weights=sample_weight))
        if spread == 0.0:
            return 1.0 if error == 0.0 else 0.0
        return 1.0 - error / spread

    def _known_rows(self, X: Any) -> Any:
        """Rows to predict on, with the features of the fit."""
        check_is_fitted(self, "atoms_")
        (X,) = indexable(X)
        require_table(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return X


def check_target(y: Any, name: str) -> FloatArray:
    """Finite targets of shape (n_rows,)."""
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    checked = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    target: FloatArray = column_or_1d(checked, warn=True).astype(np.float64)
    return target


def one_hot(positions: IntArray, n_atoms: int) -> FloatArray:
    """All mass on one atom in each row, (n_rows, n_atoms)."""
    pmf = np.zeros((len(positions), n_atoms))
    pmf[np.arange(len(positions)), positions] = 1.0
    return pmf


def nearest_atom(values: FloatArray, atoms: FloatArray) -> IntArray:
    """Position of the atom nearest to each value; half way, the upper one.

    >>> nearest_atom(np.array([-3.0, 0.2, 0.5, 9.0]), np.array([0.0, 1.0, 2.0]))
    array([0, 0, 1, 2])
    """
    return np.searchsorted((atoms[1:] + atoms[:-1]) / 2, values, side="right")
