"""One case for each notion, cost and kind of estimator that streams and tables are tested with."""

import pickle
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor, Thresholds
from evenhand.datasets import make_population
from evenhand.dual.parity import make_parity
from tests.problems import plain_distance

ZERO_ONE = 1.0 - np.eye(3)


@dataclass(frozen=True)
class Case:
    """A parity step, and the columns and strata that it is given."""

    settings: dict[str, Any]
    columns: str = "groups"
    solvers: tuple[str, ...] = ("auto",)

    def rows(self, n_rows, seed=0):
        """Scores and columns."""
        people = population(n_rows, seed)
        of_classes = not isinstance(self.settings.get("cost", "squared"), str)
        return people["classes" if of_classes else "scores"], people[self.columns]

    @property
    def strata(self):
        return STRATA[self.columns]

    def model(self, solver="auto"):
        return ParityPostprocessor(**{"atoms": 15, "random_state": 0, "solver": solver, **self.settings})


STRATA = {
    "groups": None,
    "odds": ["low"] * 2 + ["middle"] * 2 + ["high"] * 2,
    "factor": [0, 0, 1, 1],
    "attributes": ["sex", "sex", "race", "race", "race"],
}
CASES = {
    "classes": Case({"cost": ZERO_ONE, "parity": "pmf", "epsilon": 0.01, "atoms": "auto"}),
    "odds": Case(
        {"cost": ZERO_ONE, "parity": "pmf", "epsilon": 0.03, "atoms": "auto"}, "odds", ("auto", "sgd3")
    ),
    "given a factor": Case({"epsilon": 0.03}, "factor", ("auto", "sgd3+acsa2")),
    "several attributes": Case({"epsilon": {"sex": 0.02, "race": 0.04}}, "attributes"),
    "tv": Case({"parity": "tv", "epsilon": 0.03}, solvers=("auto", "sgd3")),
    "w1": Case({"parity": "w1", "epsilon": 0.03}, solvers=("auto", "sgd3+acsa2")),
    "absolute": Case({"cost": "absolute", "epsilon": 0.03}),
    "thresholds": Case({"parity": Thresholds([-0.1, 0.2]), "epsilon": 0.03}, solvers=("auto", "sgd3")),
    "quantiles": Case({"parity": Thresholds(quantiles=[0.3, 0.6]), "epsilon": 0.03}),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def population(n_rows, seed=0):
    """People with two groups, three classes, a factor and a second attribute, all with known chances."""
    rows, rng = make_population(n_rows, n_groups=2, random_state=seed), np.random.default_rng([seed, n_rows])
    score, groups = rows.scores, rows.group_proba
    classes = softmax(np.outer(3.0 * score, [-1.0, 0.0, 1.0]))
    inside = rng.random(n_rows) < 0.3 + 0.4 * (score > 0)
    other = softmax(np.outer(score, [1.0, 0.0, -1.0]) + 0.5 * rows.data[:, :1])
    return {
        "scores": score,
        "groups": groups,
        "classes": classes,
        "odds": (classes[:, :, None] * groups[:, None, :]).reshape(n_rows, -1),
        "factor": np.hstack([groups * ~inside[:, None], groups * inside[:, None]]),
        "attributes": np.hstack([groups, other]),
    }


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def excess_on(model, scores, columns):
    """Largest violation over its epsilon on rows with their own prior, straight from the definition."""
    pmf, grid = model.predict_pmf(scores, columns), model.policy_.grid
    strata = [0] * columns.shape[1] if model.policy_.strata is None else model.policy_.strata.tolist()
    ratios = []
    rows = make_parity(model.parity_, grid).operator
    unit = grid.half_width if model.parity in ("mean", "w1") else 1.0
    for column, stratum in enumerate(strata):
        of_stratum = columns[:, [other == stratum for other in strata]].sum(axis=1)
        gap = pmf.T @ columns[:, column] / columns[:, column].sum() - pmf.T @ of_stratum / of_stratum.sum()
        distance = unit * plain_distance(model.parity, rows.apply(gap[:, None]))[0]
        ratios.append(distance / model.epsilon_[column])
    return max(ratios)


def risk_on(model, scores, columns):
    costs = model.policy_.cost.table(scores, model.atoms_)
    return (model.predict_pmf(scores, columns) * costs).sum(axis=1).mean()


def people(n_rows, seed=0):
    """Features with a factor, the outcome as a number and as a class, and two attributes."""
    rows, rng = make_population(n_rows, n_groups=2, random_state=seed), np.random.default_rng(seed)
    frame = pd.DataFrame(rows.data, columns=rows.feature_names)
    frame["branch"] = (rng.random(n_rows) < 0.3 + 0.4 * (rows.scores > 0)).astype(float)
    bands = np.array(["low", "middle", "high"])[np.digitize(rows.target, [-0.2, 0.2])]
    return frame, rows.target, bands, rows.sensitive_features, rng.integers(0, 2, n_rows)


ESTIMATORS = {
    "classifier": (ParityClassifier, {"epsilon": 0.02}),
    "odds": (ParityClassifier, {"criterion": "equalized_odds", "epsilon": 0.05}),
    "conditional": (ParityRegressor, {"conditional_on": "branch", "epsilon": 0.05, "atoms": 21}),
    "separate": (ParityRegressor, {"attributes": "separate", "epsilon": 0.05, "atoms": 21}),
}


@cache
def fitted(name):
    """A fitted estimator, pickled."""
    kind, settings = ESTIMATORS[name]
    frame, target, bands, groups, other = people(3000)
    model = kind(
        LogisticRegression() if kind is ParityClassifier else LinearRegression(),
        LogisticRegression(),
        random_state=0,
        **settings,
    )
    sensitive = np.column_stack([groups, other]) if name == "separate" else groups
    return pickle.dumps(
        model.fit(frame, bands if kind is ParityClassifier else target, sensitive_features=sensitive)
    )
