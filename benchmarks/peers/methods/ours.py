"""evenhand, and the baselines that it brings: ADW's reduction and LinearPost's method."""

from typing import Any

import numpy as np

import evenhand as eh
from benchmarks.peers.cells import TASKS, Cell, classifier
from benchmarks.peers.measure import Decisions, Pmf
from benchmarks.peers.methods.base import AfterScores, Method, Predict


class Evenhand(Method):
    """`ParityRegressor` and `ParityClassifier` with their defaults."""

    name = "evenhand"
    package = "evenhand"
    tasks = TASKS
    modes = ("unaware", "aware")
    setting = "epsilon"
    knobs = (0.0, 0.02, 0.05, 0.075, 0.1, 0.15, 0.2, 0.27, 0.35)  # dense: peers are matched on this curve
    how = (
        "`ParityRegressor` and `ParityClassifier` with their defaults, the cell's learner for the outcome "
        "and, unaware, for the group; they fold the training rows themselves."
    )

    def fit(self, cell: Cell, knob: float) -> Predict:
        X, X_test = cell.features(self.aware)
        of_group = None if self.aware else classifier(cell.learner)
        kind: Any = eh.ParityRegressor if cell.task == "regression" else eh.ParityClassifier
        model = kind(cell.model(), of_group, epsilon=knob, aware=self.aware, random_state=cell.seed)
        model.fit(X, cell.y, sensitive_features=cell.groups)
        known = {"sensitive_features": cell.groups_test} if self.aware else {}
        if cell.task == "classification":
            return lambda: Decisions(model.predict_proba(X_test, **known)[:, 1])
        return lambda: Pmf(model.atoms_, model.predict_pmf(X_test, **known))


class Adw(Method):
    """The reduction of Agarwal, Dudik and Wu for regression, our implementation."""

    name = "ADW (our baseline)"
    package = "evenhand"
    tasks = ("regression",)
    modes = ("unaware",)
    setting = "epsilon"
    knobs = (0.01, 0.05, 0.1)
    how = (
        "`evenhand.baselines.ADW` with its defaults; the learner is trained anew for every question of "
        "the game, so boosted trees are asked for one tolerance alone."
    )

    def knobs_for(self, learner: str) -> tuple[float, ...]:
        """One for boosted trees."""
        return self.knobs if learner == "linear" else self.knobs[1:2]

    def fit(self, cell: Cell, knob: float) -> Predict:
        model = eh.baselines.ADW(cell.model(), epsilon=knob)
        model.fit(cell.X, cell.y, sensitive_features=cell.groups)
        return lambda: Pmf(model.atoms_, model.predict_pmf(cell.X_test))


class LinearPost(AfterScores):
    """The linear program of Xian and Zhao on class and group probabilities, our implementation."""

    name = "LinearPost (our baseline)"
    package = "evenhand"
    tasks = ("classification",)
    modes = ("unaware", "aware")
    setting = "alpha"
    knobs = (0.0, 0.05, 0.1)
    uses_group_proba = True
    how = "`evenhand.baselines.LinearPost`: the paper's linear program, since its authors publish no package."

    def fit(self, cell: Cell, knob: float) -> Predict:
        scores = cell.scores(self.aware)
        if self.aware:
            one_hot = np.eye(cell.n_groups)
            tau, tau_test = one_hot[cell.groups], one_hot[cell.groups_test]
        else:
            tau, tau_test = cell.group_proba.train, cell.group_proba.test
        step = eh.baselines.LinearPost(alpha=knob, random_state=cell.seed).fit(_both(scores.train), tau)
        return lambda: Decisions(step.predict(_both(scores.test), tau_test).astype(np.float64))


def _both(chances: np.ndarray) -> np.ndarray:
    return np.column_stack([1.0 - chances, chances])
