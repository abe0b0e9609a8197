"""fairlearn: thresholds by group, the reduction, and features without correlation."""

from typing import Any, Self

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.preprocessing import CorrelationRemover
from fairlearn.reductions import BoundedGroupLoss, DemographicParity, ExponentiatedGradient, SquareLoss
from sklearn.base import BaseEstimator, ClassifierMixin

from benchmarks.peers.cells import TASKS, Cell
from benchmarks.peers.measure import Decisions, Values
from benchmarks.peers.methods.base import AfterScores, Method, Predict
from benchmarks.peers.methods.simple import plain


class Scored(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose only feature is the probability of class 1."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> np.ndarray:
        chances = np.asarray(X)[:, 0]
        return np.column_stack([1.0 - chances, chances])

    def predict(self, X: Any) -> np.ndarray:
        return (np.asarray(X)[:, 0] > 0.5).astype(np.int64)


class Thresholds(AfterScores):
    """`ThresholdOptimizer`: randomised thresholds by group."""

    name = "fairlearn ThresholdOptimizer"
    package = "fairlearn"
    tasks = ("classification",)
    setting = "tol"
    knobs = (0.0, 0.05, 0.1)
    how = "`ThresholdOptimizer(constraints='demographic_parity', tol=...)` on the cross-fitted probabilities."

    def fit(self, cell: Cell, knob: float) -> Predict:
        scores = cell.scores(aware=True)
        step = ThresholdOptimizer(
            estimator=Scored(), prefit=True, predict_method="predict_proba", tol=knob or None
        )
        step.fit(scores.train[:, None], cell.y, sensitive_features=cell.groups)
        rows = scores.test[:, None]
        return lambda: Decisions(
            np.asarray(step._pmf_predict(rows, sensitive_features=cell.groups_test))[:, 1]
        )


class Reduction(Method):
    """`ExponentiatedGradient` under demographic parity, for decisions."""

    name = "fairlearn ExponentiatedGradient"
    package = "fairlearn"
    tasks = ("classification",)
    modes = ("unaware", "aware")
    setting = "difference_bound"
    knobs = (0.01, 0.05, 0.1)
    how = (
        "`ExponentiatedGradient(learner, DemographicParity(difference_bound=...))`, its other settings as "
        "they come. It trains dozens of models, so boosted trees are asked for one bound alone, and "
        "unaware alone."
    )

    def knobs_for(self, learner: str) -> tuple[float, ...]:
        """One for boosted trees without the group, none with it."""
        if learner == "linear":
            return self.knobs
        return () if self.aware else self.knobs[:1]

    def fit(self, cell: Cell, knob: float) -> Predict:
        X, X_test = cell.features(self.aware)
        model = ExponentiatedGradient(cell.model(), DemographicParity(difference_bound=knob))
        model.fit(X, cell.y, sensitive_features=cell.groups)
        return lambda: Decisions(np.asarray(model._pmf_predict(X_test))[:, 1])


class GroupLoss(Method):
    """`ExponentiatedGradient` with a bound on each group's squared loss, which is not parity."""

    name = "fairlearn BoundedGroupLoss"
    package = "fairlearn"
    tasks = ("regression",)
    modes = ("unaware",)
    setting = "upper_bound / loss"
    knobs = (1.0,)
    how = (
        "`ExponentiatedGradient(learner, BoundedGroupLoss(SquareLoss, upper_bound=...))`: what fairlearn "
        "has for regression. It bounds each group's error (here by the learner's cross-fitted one) and "
        "does not ask for parity. It trains dozens of models, so it is run with the linear learner alone."
    )

    def knobs_for(self, learner: str) -> tuple[float, ...]:
        """None for boosted trees."""
        return self.knobs if learner == "linear" else ()

    def fit(self, cell: Cell, knob: float) -> Predict:
        low, high = float(cell.y.min()), float(cell.y.max())
        loss = float(np.mean((cell.scores(self.aware).train - cell.y) ** 2))
        constraint = BoundedGroupLoss(SquareLoss(low, high), upper_bound=knob * loss)
        model = ExponentiatedGradient(cell.model(), constraint)
        model.fit(cell.X, cell.y, sensitive_features=cell.groups)
        used = np.flatnonzero(np.asarray(model.weights_) > 0)

        def predict() -> Values:
            found = model._pmf_predict(cell.X_test)
            return Values(np.asarray(found)[:, used], np.asarray(model.weights_)[used])

        return predict


class Uncorrelated(Method):
    """`CorrelationRemover` before the learner; it needs the group of the rows that it predicts for."""

    name = "fairlearn CorrelationRemover"
    package = "fairlearn"
    tasks = TASKS
    setting = "alpha"
    knobs = (1.0, 0.5)
    how = (
        "`CorrelationRemover(alpha=...)`, then the learner. Its `transform` asks for the group, so it is "
        "aware."
    )

    def fit(self, cell: Cell, knob: float) -> Predict:
        X, X_test = cell.features(aware=True)
        n_features = X.shape[1]
        of_group = list(range(n_features - cell.n_groups + 1, n_features))
        remover = CorrelationRemover(sensitive_feature_ids=of_group, alpha=knob)
        model = cell.model().fit(remover.fit_transform(X), cell.y)
        return lambda: plain(cell.task, model.predict(remover.transform(X_test)))
