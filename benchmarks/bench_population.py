"""Parity on fresh rows of a population whose truth is known, and what calibration does for it.

The parity step sees 100 000 rows without labels, the Kolmogorov-Smirnov distance is measured on 1 000 000
fresh ones with their true groups (n is cut to a tenth with --small).
"""

import sys

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.datasets import make_population
from evenhand.metrics import ks_unfairness

EPSILON, ROOM = 0.02, 0.01
SEPARATION = 1.5


class Timid(ClassifierMixin, BaseEstimator):
    """Logistic regression whose probabilities are drawn towards each other."""

    def fit(self, X, y):
        """Fit the model behind."""
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict_proba(self, X):
        """Its probabilities, to a power under one, scaled to sum to one."""
        proba = self.inner_.predict_proba(X) ** 0.4
        return proba / proba.sum(axis=1, keepdims=True)


def largest_ks(values, fresh) -> float:
    return max(ks_unfairness(values, fresh.sensitive_features).values())


def main() -> None:
    shrink = 10 if "--small" in sys.argv else 1
    draw = {"n_groups": 3, "separation": SEPARATION}
    pile = make_population(100_000 // shrink, random_state=1, **draw)
    fresh = make_population(1_000_000 // shrink, random_state=2, **draw)
    labelled = make_population(20_000 // shrink, random_state=3, **draw)
    unequal = largest_ks(fresh.scores, fresh)
    print(f"three groups, cdf, epsilon = {EPSILON}; KS of the scores themselves {unequal:.3f}")

    model = ParityPostprocessor(epsilon=EPSILON).fit(pile.scores, pile.group_proba)
    reached = largest_ks(model.predict(fresh.scores, fresh.group_proba), fresh)
    verdict = "PASS" if reached <= EPSILON + ROOM else "FAIL"
    print(f"true scores and probabilities: KS at most {EPSILON + ROOM}, here {reached:.4f}: {verdict}")

    print("estimated ones, KS on fresh rows (and the parity cost that the certificate expects):")
    for classifier in (LogisticRegression(), Timid()):
        for calibration in (None, "temperature", "sigmoid", "isotonic"):
            model = ParityRegressor(
                LinearRegression(), classifier, epsilon=EPSILON, calibration=calibration, confidence=None
            )
            model.fit(
                labelled.data,
                labelled.target,
                sensitive_features=labelled.sensitive_features,
                X_unlabeled=pile.data,
            )
            cost = float(np.max(model.certificate_.calibration.parity_cost))
            name = f"{type(classifier).__name__}, calibration={calibration}"
            print(f"  {name:<50} {largest_ks(model.predict(fresh.data), fresh):.4f}  ({cost:.4f})")


if __name__ == "__main__":
    main()
