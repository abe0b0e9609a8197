"""Supervised learners for the reduction: who answers a cost-sensitive problem with a plain regression.

A learner is made once for the rows of a fit. It is then asked many times for a model of new targets on the
same rows, so whatever depends on the features alone is prepared when it is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from evenhand._utils.typing import FloatArray

LARGE_C = 1e4  # hardly any penalty: the learner is to answer, not to shrink
N_TREES, TREE_DEPTH = 20, 4  # deep enough for interactions, and quick enough to be asked a hundred times
LOGISTIC_TOL = 1e-6


class Model(Protocol):
    """What a learner gives back."""

    def predict(self, X: Any) -> FloatArray:
        """A value for each row, (n_rows,)."""


Learner = Callable[[FloatArray], tuple[Model, FloatArray]]  # targets in [0, 1] -> model, its fitted values


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """`offset + X coefficients`, through `link` where there is one."""

    coefficients: FloatArray
    offset: float
    link: Callable[[FloatArray], FloatArray] | None = None

    def predict(self, X: Any) -> FloatArray:
        """A value for each row, (n_rows,)."""
        values: FloatArray = X @ self.coefficients + self.offset
        return values if self.link is None else self.link(values)


def least_squares(X: FloatArray) -> Learner:
    """Linear regression with an intercept: the features are factored once, a fit is one product."""
    scaler = StandardScaler().fit(X)
    centred = scaler.transform(X)
    solve = np.linalg.pinv(centred)

    def learn(targets: FloatArray) -> tuple[Model, FloatArray]:
        centre = float(targets.mean())
        scaled = solve @ (targets - centre)
        coefficients = scaled / scaler.scale_
        model = LinearModel(coefficients, centre - float(scaler.mean_ @ coefficients))
        return model, centred @ scaled + centre

    return learn


def logistic(X: FloatArray) -> Learner:
    """Logistic regression on targets in [0, 1]: each row counts as a one and as a zero, by its target."""
    scaler = StandardScaler().fit(X)
    scaled = scaler.transform(X)
    doubled = np.concatenate([scaled, scaled])
    labels = np.repeat([1, 0], len(X))
    # The targets of one question are close to those of the last: its answer is where to start.
    classifier = LogisticRegression(C=LARGE_C, tol=LOGISTIC_TOL, max_iter=1000, warm_start=True)

    def learn(targets: FloatArray) -> tuple[Model, FloatArray]:
        classifier.fit(doubled, labels, sample_weight=np.concatenate([targets, 1.0 - targets]))
        coefficients = classifier.coef_[0] / scaler.scale_
        offset = float(classifier.intercept_[0] - scaler.mean_ @ coefficients)
        model = LinearModel(coefficients, offset, link=sigmoid)
        return model, model.predict(X)

    return learn


def regressor(estimator: BaseEstimator, X: Any) -> Learner:
    """Any scikit-learn regressor, cloned for each question."""

    def learn(targets: FloatArray) -> tuple[Model, FloatArray]:
        model = clone(estimator).fit(X, targets)
        return model, np.asarray(model.predict(X), dtype=np.float64)

    return learn


def trees(X: FloatArray) -> Learner:
    """A small random forest."""
    # Imported here: ensembles are slow to import, and `import evenhand` does not need them.
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(N_TREES, max_depth=TREE_DEPTH, random_state=0)
    return regressor(forest, X)


def sigmoid(values: FloatArray) -> FloatArray:
    """`1 / (1 + exp(-values))`, without overflow."""
    halved: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * values))
    return halved


LEARNERS: dict[str, Callable[[FloatArray], Learner]] = {
    "ls": least_squares,
    "logistic": logistic,
    "trees": trees,
}
