"""Parity on fresh rows of a population with known group probabilities, and the effect of calibration.

The parity step is fitted on 100,000 unlabeled rows. The Kolmogorov-Smirnov (KS) distance is measured on
1,000,000 fresh rows with their true groups. `--small` divides both numbers by ten.
"""

import sys

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness

EPSILON, ROOM = 0.02, 0.01
SEPARATION = 1.5
WAYS = ("no calibration", "temperature", "sigmoid", "isotonic", "joint")


class Timid(ClassifierMixin, BaseEstimator):
    """Logistic regression whose probabilities are shrunk towards each other."""

    def fit(self, X, y):
        """Fit the logistic regression."""
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        """Probabilities to a power below one, normalized."""
        proba = self.inner_.predict_proba(X) ** 0.4
        return proba / proba.sum(axis=1, keepdims=True)


def largest_ks(values, fresh) -> float:
    return max(ks_unfairness(values, fresh.sensitive_features).values())


def calibrated_model(classifier: BaseEstimator, way: str) -> ParityRegressor:
    """A regressor whose model of the group is calibrated in one of `WAYS`."""
    if way in ("temperature", "sigmoid", "isotonic"):
        classifier = CalibratedClassifierCV(classifier, method=way, cv=5)
    calibration = "joint" if way == "joint" else None
    settings = {"epsilon": EPSILON, "calibration": calibration, "confidence": None}
    return ParityRegressor(LinearRegression(), classifier, **settings)


def main() -> None:
    shrink = 10 if "--small" in sys.argv else 1
    draw = {"n_groups": 3, "separation": SEPARATION}
    unlabeled = make_population(100_000 // shrink, random_state=1, **draw)
    fresh = make_population(1_000_000 // shrink, random_state=2, **draw)
    labeled = make_population(20_000 // shrink, random_state=3, **draw)
    unequal = largest_ks(fresh.scores, fresh)
    print(f"three groups, cdf, epsilon = {EPSILON}; KS distance of the scores {unequal:.3f}")

    model = ParityPostprocessor(epsilon=EPSILON).fit(unlabeled.scores, unlabeled.group_proba)
    reached = largest_ks(model.predict(fresh.scores, fresh.group_proba), fresh)
    verdict = "PASS" if reached <= EPSILON + ROOM else "FAIL"
    print(f"true scores and probabilities: KS at most {EPSILON + ROOM}, here {reached:.4f}: {verdict}")

    print("estimated ones, KS on fresh rows (in brackets the parity cost of the certificate):")
    for classifier in (LogisticRegression(), Timid()):
        for way in WAYS:
            model = calibrated_model(classifier, way)
            model.fit(
                labeled.data,
                labeled.target,
                sensitive_features=labeled.sensitive_features,
                X_unlabeled=unlabeled.data,
            )
            cost = float(np.max(model.certificate_.calibration.parity_cost))
            name = f"{type(classifier).__name__}, {way}"
            print(f"  {name:<50} {largest_ks(model.predict(fresh.data), fresh):.4f}  ({cost:.4f})")


if __name__ == "__main__":
    main()
