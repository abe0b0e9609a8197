"""One split of a data set with the paper's two models fitted on it, and the measures on its test rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import datasets
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.metrics import ks_unfairness, risk
from reproduction.frames import Row

LOADERS: dict[str, Callable[[], Any]] = {
    "communities": datasets.load_communities,
    "lawschool": datasets.load_law_school,
    "adult": datasets.load_adult,
}
SHARES = {  # labelled, unlabelled, test
    "text": (0.4, 0.4, 0.2),  # as the paper says
    "code": (0.8, 0.1, 0.1),  # as its published code does
}
MOST_OTHERS = 10_000  # at most so many rows outside of the paper's subsample are measured on

Predict = Callable[[IntArray], AnyArray]  # row numbers -> pmf (n, n_atoms) or values (n,)


@dataclass(frozen=True, slots=True, eq=False)
class PaperRows:
    """One split of one data set, and the models that were fitted on its labelled rows."""

    features: FloatArray
    target: FloatArray
    groups: IntArray
    bounds: tuple[float, float]  # of the target, over the whole data set
    split: datasets.PaperSplit
    others: IntArray  # rows outside of the paper's subsample: a large test set; none for Communities
    regressor: Any
    classifier: Any

    def nuisances(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Scores (n,) and group probabilities (n, n_groups)."""
        features = self.features[rows]
        return self.regressor.predict(features), self.classifier.predict_proba(features)

    def labels(self, rows: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Features, targets and groups."""
        return self.features[rows], self.target[rows], self.groups[rows]

    def measure(self, predict: Predict, atoms: FloatArray | None = None) -> Row:
        """Risk and Kolmogorov-Smirnov distances on the test rows, and on the others if there are any."""
        measured = self._measure(predict, atoms, self.split.test)
        if len(self.others):
            beyond = self._measure(predict, atoms, self.others)
            measured |= {f"others_{name}": beyond[name] for name in ("risk", "ks_minority")}
        return measured

    def measure_policy(self, policy: SoftmaxPolicy) -> Row:
        """Measure a policy that acts on the scores and group probabilities of the two models."""
        return self.measure(lambda rows: policy.pmf(*self.nuisances(rows)), policy.grid.atoms)

    def fit_models(self) -> "PaperRows":
        """The same rows with both models fitted anew."""
        features, target, groups = self.labels(self.split.labeled)
        regressor = paper_regressor().fit(features, target)
        return replace(self, regressor=regressor, classifier=paper_classifier().fit(features, groups))

    def without_others(self) -> "PaperRows":
        """The same rows, to be measured on the test rows alone."""
        return replace(self, others=self.others[:0])

    def _measure(self, predict: Predict, atoms: FloatArray | None, rows: IntArray) -> Row:
        predicted = predict(rows)
        distances = ks_unfairness(predicted, self.groups[rows])
        minority, majority = np.argsort(np.bincount(self.groups)).tolist()
        return {
            "risk": risk(self.target[rows], predicted, atoms),
            "ks_minority": distances[minority],
            "ks_majority": distances[majority],
        }


@lru_cache(maxsize=3)
def _load(dataset: str) -> Any:
    return LOADERS[dataset]()


@lru_cache(maxsize=4)
def prepare(dataset: str, scheme: str, seed: int) -> PaperRows:
    """The split `seed` of a data set by a scheme of `SHARES`, with the paper's models fitted."""
    return prepare_bunch(_load(dataset), scheme, seed)


def prepare_bunch(bunch: Any, scheme: str, seed: int) -> PaperRows:
    """The split `seed` of data in memory, as `prepare` does it for a file."""
    split = datasets.paper_split(bunch, random_state=seed, shares=SHARES[scheme])
    others = np.setdiff1d(np.arange(len(bunch.target)), np.concatenate(split))
    unfitted = PaperRows(
        features=bunch.data,
        target=bunch.target,
        groups=bunch.sensitive_features,
        bounds=(float(bunch.target.min()), float(bunch.target.max())),
        split=split,
        others=np.random.default_rng(seed).permutation(others)[:MOST_OTHERS],
        regressor=None,
        classifier=None,
    )
    return unfitted.fit_models()


def paper_regressor() -> Any:
    """The paper's model of the outcome."""
    return LinearRegression()


def paper_classifier() -> Any:
    """The paper's model of the group, with enough iterations to converge on unscaled features."""
    return LogisticRegression(max_iter=5000)
