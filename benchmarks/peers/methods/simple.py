"""Models without a parity step: the model with the group's column, without it, and the constant."""

import numpy as np

from benchmarks.peers.cells import TASKS, Cell
from benchmarks.peers.measure import Decisions, Prediction, Values
from benchmarks.peers.methods.base import Method, Predict


class Plain(Method):
    """The learner as it is; unaware, that is to drop the group's column."""

    name = "no parity"
    package = "scikit-learn"
    tasks = TASKS
    modes = ("unaware", "aware")
    how = (
        "The learner as it is: with the group's column among the features (aware), or with the column "
        "dropped."
    )

    def fit(self, cell: Cell, knob: float) -> Predict:
        X, X_test = cell.features(self.aware)
        model = cell.model().fit(X, cell.y)
        return lambda: plain(cell.task, model.predict(X_test))


class Constant(Method):
    """The mean of the training rows, or their commonest class."""

    name = "constant"
    package = "numpy"
    tasks = TASKS
    modes = ("unaware", "aware")
    how = "The mean of the training rows, or their commonest class: parity for nothing, at the highest price."

    def fit(self, cell: Cell, knob: float) -> Predict:
        mean = float(cell.y.mean())
        value = mean if cell.task == "regression" else float(mean > 0.5)
        return lambda: plain(cell.task, np.full(len(cell.y_test), value))


def plain(task: str, predicted: np.ndarray) -> Prediction:
    """Predictions of a model that draws nothing."""
    if task == "classification":
        return Decisions(np.asarray(predicted, dtype=np.float64))
    return Values(np.asarray(predicted, dtype=np.float64)[:, None], np.ones(1))
