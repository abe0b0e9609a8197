"""The model without any mitigation, under the interface of the others."""

from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_consistent_length, validate_data

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import check_scores
from evenhand.baselines.base import PmfRegressor, check_target, nearest_atom, one_hot
from evenhand.data.draws import RandomState
from evenhand.dual.grid import make_grid
from evenhand.estimators.models import default_regressor, fit_model


class BaseModel(PmfRegressor):
    """A regressor as it is: what the others are compared with.

    Its distribution over `atoms_` has all of its mass on the atom nearest to the regressor's value.

    Parameters
    ----------
    estimator : regressor, default=None
        None: the default of `ParityRegressor`.
    atoms : "auto", int or array, default=201
        Values of the grid.
    bounds : "auto" or (low, high), default="auto"
        Range of the grid; "auto" is that of the values fitted, and a margin.
    random_state : int, Generator, RandomState or None, default=None
        Not used: nothing is drawn.

    Examples
    --------
    >>> from evenhand.baselines import BaseModel
    >>> model = BaseModel().fit([[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0])
    >>> model.predict_pmf([[1.0], [2.0]]).max(axis=1)
    array([1., 1.])
    """

    estimator_: Any

    def __init__(
        self,
        estimator: Any = None,
        *,
        atoms: Any = 201,
        bounds: Any = "auto",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.atoms = atoms
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:
        """Fit the regressor.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        y : array of shape (n_rows,)
        sensitive_features : array of shape (n_rows,), default=None
            Taken as by the other baselines, and not read.
        """
        (X,) = indexable(X)
        target = check_target(y, type(self).__name__)
        check_consistent_length(X, target)
        model = fit_model(self._base_estimator(X), X, target, None, "estimator")
        atoms = make_grid(self.atoms, self.bounds, model_values(model, X)).atoms
        validate_data(self, X, skip_check_array=True)
        self.estimator_, self.atoms_ = model, atoms
        return self

    def predict_pmf(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """Probability of each of `atoms_` for each row: one for the nearest, (n_rows, n_atoms)."""
        values = self._values(X)
        return one_hot(nearest_atom(values, self.atoms_), len(self.atoms_))

    def predict(
        self, X: Any, *, sensitive_features: Any = None, random_state: RandomState = None, ids: Any = None
    ) -> FloatArray:
        """The regressor's own values, off the grid: there is nothing to draw."""
        return self._values(X)

    def _values(self, X: Any) -> FloatArray:
        rows = self._known_rows(X)
        return model_values(self.estimator_, rows)

    def _base_estimator(self, X: Any = None) -> Any:
        return default_regressor(X) if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._base_estimator()).input_tags
        return tags


def model_values(model: Any, X: Any) -> FloatArray:
    """Checked predictions of a fitted regressor, (n_rows,)."""
    return check_scores(np.asarray(model.predict(X), dtype=np.float64).reshape(-1))
