"""The rows that every method of the comparison gets: the same split, features, learners and scores.

A cell is one task on one data set with one learner and one seed. Methods that put a step after a model all
get the same scores: of the training rows by models that have not seen them (five folds), of the test rows by
the model of all training rows. Test rows have no part in any choice.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import process_time
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from evenhand import datasets

TASKS = ("regression", "classification")
LEARNERS = ("linear", "boosted")
BOOSTED = {"max_iter": 40, "max_leaf_nodes": 8, "learning_rate": 0.15, "early_stopping": False}
N_TRAIN, N_TEST, N_FRESH = 2000, 10_000, 100_000
SHARE_TEST = 0.3  # of a table that is too small for N_TRAIN rows and as many test rows
N_FOLDS = 5


def _population(n_rows: int, seed: int) -> Bunch:
    return datasets.make_population(n_rows, 3, random_state=seed)


def _hired(n_rows: int, seed: int) -> Bunch:
    found = _population(n_rows, seed)
    found.target = (found.target > 0.2).astype(np.int64)
    return found


def _above_median(load: Callable[[], Bunch]) -> Callable[[], Bunch]:
    def loaded() -> Bunch:
        found = load()
        found.target = (found.target > np.median(found.target)).astype(np.int64)
        return found

    return loaded


TABLES: dict[str, dict[str, Callable[[], Bunch]]] = {
    "regression": {
        "law school": datasets.load_law_school,
        "communities": datasets.load_communities,
        "adult": datasets.load_adult,
    },
    "classification": {
        "law school": _above_median(datasets.load_law_school),
        "communities": _above_median(datasets.load_communities),
        "adult": lambda: datasets.load_adult(target="income"),
    },
}
GENERATED: dict[str, dict[str, Callable[[int, int], Bunch]]] = {
    "regression": {
        "three groups": _population,
        "four groups": lambda n_rows, seed: datasets.make_paper_synthetic(n_rows, random_state=seed),
    },
    "classification": {
        "three groups": _hired,
        "two groups": lambda n_rows, seed: datasets.make_class_population(n_rows, random_state=seed),
    },
}
WHAT = {
    ("regression", "law school"): "grade by race (2 groups)",
    ("regression", "communities"): "violent crime by the largest group (2)",
    ("regression", "adult"): "age by sex (2)",
    ("regression", "three groups"): "generated: `make_population`, 3 groups that overlap",
    (
        "regression",
        "four groups",
    ): "generated: `make_paper_synthetic`, 4 groups that the features tell exactly",
    ("classification", "law school"): "grade above the median by race (2)",
    ("classification", "communities"): "crime above the median by the largest group (2)",
    ("classification", "adult"): "income above 50 000 by sex (2)",
    (
        "classification",
        "three groups",
    ): "generated: `make_population`, target above 0.2, 3 groups that overlap",
    (
        "classification",
        "two groups",
    ): "generated: `make_class_population`, the group itself moves the class (2)",
}


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says of the training rows, cross-fitted, and of the test rows; and how long that took."""

    train: np.ndarray
    test: np.ndarray
    seconds: float


@dataclass(eq=False)
class Cell:
    """One task, data set, learner and seed: training rows with labels and groups, and test rows."""

    task: str
    data: str
    learner: str
    seed: int
    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray  # codes 0, 1, ...
    X_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    def features(self, aware: bool) -> tuple[np.ndarray, np.ndarray]:
        """Features of training and test rows; with the group among them for methods that may use it."""
        if not aware:
            return self.X, self.X_test
        columns = np.eye(self.n_groups)[:, 1:]
        return (
            np.column_stack([self.X, columns[self.groups]]),
            np.column_stack([self.X_test, columns[self.groups_test]]),
        )

    def model(self) -> Any:
        """The learner of the outcome, not fitted."""
        return regressor(self.learner) if self.task == "regression" else classifier(self.learner)

    @cached_property
    def aware_scores(self) -> Scores:
        return self._scores(self.model(), *self.features(True), self.y)

    @cached_property
    def unaware_scores(self) -> Scores:
        return self._scores(self.model(), *self.features(False), self.y)

    def scores(self, aware: bool) -> Scores:
        """Predictions of the outcome, or of class 1 its probability."""
        return self.aware_scores if aware else self.unaware_scores

    @cached_property
    def group_proba(self) -> Scores:
        """Probability of each group given the features alone, (n, n_groups)."""
        return self._scores(classifier(self.learner), self.X, self.X_test, self.groups)

    def _scores(self, model: Any, X: np.ndarray, X_test: np.ndarray, target: np.ndarray) -> Scores:
        proba = hasattr(model, "predict_proba")
        begin = process_time()
        folds = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=self.seed).split(X, self.groups))
        method = "predict_proba" if proba else "predict"
        train = cross_val_predict(model, X, target, cv=folds, method=method)
        fitted = clone(model).fit(X, target)
        seconds = process_time() - begin
        test = getattr(fitted, method)(X_test)
        if proba and target is not self.groups:
            train, test = train[:, 1], test[:, 1]
        return Scores(train, test, seconds)


def regressor(learner: str) -> Any:
    return Ridge() if learner == "linear" else HistGradientBoostingRegressor(**BOOSTED, random_state=0)


def classifier(learner: str) -> Any:
    if learner == "linear":
        return LogisticRegression(max_iter=1000)
    return HistGradientBoostingClassifier(**BOOSTED, random_state=0)


def make_cell(task: str, data: str, learner: str, seed: int, *, quick: bool = False) -> Cell:
    """Draw the rows of a cell; features are scaled by the training rows."""
    if data in TABLES[task]:
        bunch = TABLES[task][data]()
        train, test = _split(bunch, seed, quick)
        parts = [
            (bunch.data[rows], bunch.target[rows], bunch.sensitive_features[rows]) for rows in (train, test)
        ]
    else:
        sizes = (N_TRAIN, N_TEST if quick else N_FRESH)
        drawn = [GENERATED[task][data](size, 2 * seed + part) for part, size in enumerate(sizes)]
        parts = [(each.data, each.target, each.sensitive_features) for each in drawn]
    (X, y, groups), (X_test, y_test, groups_test) = parts
    scaler = StandardScaler().fit(X)
    labels = np.unique(groups)
    codes, codes_test = np.searchsorted(labels, groups), np.searchsorted(labels, groups_test)
    return Cell(
        task, data, learner, seed, scaler.transform(X), y, codes, scaler.transform(X_test), y_test, codes_test
    )


def _split(bunch: Bunch, seed: int, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, stratified by group: large tables give N_TRAIN and up to N_TEST rows."""
    groups = np.asarray(bunch.sensitive_features)
    n_rows = len(groups)
    small = n_rows * (1 - SHARE_TEST) < N_TRAIN
    n_train = int(n_rows * (1 - SHARE_TEST)) if small else N_TRAIN
    n_test = min(n_rows - n_train, N_TRAIN if quick else N_TEST)
    train, test = train_test_split(
        np.arange(n_rows), train_size=n_train, test_size=n_test, stratify=groups, random_state=seed
    )
    return train, test
