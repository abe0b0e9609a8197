"""One split of a data set with the paper's two models fitted on it, and the measures on its test rows."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import train_test_split

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
SCHEMES = {
    "text": "40 % labelled, 40 % unlabelled, 20 % test rows, as the paper says; a new subsample each time",
    "published": "the splits and models behind the published figures: 80 %, 10 %, 10 % of one subsample",
}
PUBLISHED_SUBSAMPLE = 42  # seed of the one subsample behind all published splits
PUBLISHED_LAST = "bar1"  # the column that the published table of Law School has at its end
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
    scheme: str  # one of `SCHEMES`
    regressor: Any = None
    classifier: Any = None

    def group_shares(self) -> FloatArray:
        """Shares of the groups among the labelled, unlabelled and test rows."""
        counts = np.bincount(self.groups[np.concatenate(self.split)])
        shares: FloatArray = counts / counts.sum()
        return shares

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
        classifier = paper_classifier(self.scheme)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the published one stops before it converges
            return replace(self, regressor=regressor, classifier=classifier.fit(features, groups))

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
    """The split `seed` of a data set by one of `SCHEMES`, with the paper's models fitted."""
    return prepare_bunch(_load(dataset), scheme, seed)


def prepare_bunch(bunch: Any, scheme: str, seed: int) -> PaperRows:
    """The split `seed` of data in memory, as `prepare` does it for a file."""
    is_published = scheme == "published"
    split = published_split(bunch, seed) if is_published else datasets.paper_split(bunch, random_state=seed)
    others = np.setdiff1d(np.arange(len(bunch.target)), np.concatenate(split))
    unfitted = PaperRows(
        features=bunch.data[:, _published_order(bunch.feature_names)] if is_published else bunch.data,
        target=bunch.target,
        groups=bunch.sensitive_features,
        bounds=(float(bunch.target.min()), float(bunch.target.max())),
        split=split,
        others=np.random.default_rng(seed).permutation(others)[:MOST_OTHERS],
        scheme=scheme,
    )
    return unfitted.fit_models()


def published_split(bunch: Any, seed: int) -> datasets.PaperSplit:
    """The split `seed` (1 to 10) behind the published figures.

    Where the paper works on a subsample it is the same one for all seeds. A first split of it gives the
    labelled rows, and a second one halves the rest; so the parts have 80, 10 and 10 %.
    """
    groups = np.asarray(bunch.sensitive_features)
    rows = np.arange(len(groups))
    if (size := bunch.get("paper_sample_size")) is not None:
        rows, _ = train_test_split(rows, test_size=1 - size / len(rows), random_state=PUBLISHED_SUBSAMPLE)
    labeled, rest = train_test_split(rows, test_size=0.2, stratify=groups[rows], random_state=seed)
    unlabeled, test = train_test_split(rest, train_size=0.5, stratify=groups[rest], random_state=seed)
    return datasets.PaperSplit(labeled, unlabeled, test)


def _published_order(names: Sequence[str]) -> list[int]:
    """Places of the features in the order of the published tables.

    It matters to a classifier that is stopped before it converges.
    """
    return sorted(range(len(names)), key=lambda place: names[place] == PUBLISHED_LAST)


def paper_regressor() -> Any:
    """The paper's model of the outcome."""
    return LinearRegression()


def paper_classifier(scheme: str = "text") -> Any:
    """The paper's model of the group.

    It has enough iterations to converge on unscaled features; on the published splits it has the 100 that
    it had there.
    """
    return LogisticRegression() if scheme == "published" else LogisticRegression(max_iter=5000)
