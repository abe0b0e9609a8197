"""An adapter for river: models of the outcome and of the group that learn online, with a parity step behind.

It needs river: `pip install 'evenhand[river]'`.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from evenhand._utils.missing import is_missing
from evenhand._utils.optional import import_optional
from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.streaming.monitor import Drift

if TYPE_CHECKING:
    MiniBatchRegressor: TypeAlias = Any
else:
    MiniBatchRegressor = import_optional(
        "river.base", extra="river", purpose="evenhand.river"
    ).MiniBatchRegressor

Features: TypeAlias = dict[Hashable, Any]

FLUSH_ROWS = 128  # rows that go to the parity step together, counted from its start: a call has its price


class ParityRegressor(MiniBatchRegressor):  # type: ignore[misc]
    """Wrap two models of river so that predictions are distributed alike in every group, up to epsilon.

    One model learns the outcome, one the group, each from the rows where that is known. Every row, labelled
    or not, is scored by both before they learn from it, and goes to the parity step
    (`ParityPostprocessor.partial_fit`), which uses it once and forgets it. The group is never needed to
    predict.

    Until `warm_up` rows have come, with `min_group_size` of two groups or more among them, the prediction is
    that of the regressor alone. A group that reaches `min_group_size` later starts the parity step anew.

    Parameters
    ----------
    regressor : river regressor
    classifier : river classifier
        Its `predict_proba_one` is the probability of each group.
    group_feature : hashable, callable or None, default=None
        The feature that holds the group where it is known: neither model sees it, and rows may lack it. Or a
        function of the features that returns the group, or None. Or give `group=` when learning.
    parity, epsilon, atoms, bounds, beta
        As in `evenhand.ParityPostprocessor`. Give `bounds` where you know them: models that have just
        begun to learn may predict anything, and the grid would reach out for it. Scores beyond them are
        read as the nearest bound.
    half_life : float or None, default=None
        Rows after which a row counts for half in the parity step. The two models go on learning, so what
        they said of early rows is not what they would say now: forgetting is often worth it.
    warm_up : int, default=1000
    min_group_size : int, default=10
    on_drift : callable or None, default=None
        Called with a `Drift` where violation or shares have moved; by default nothing is, since scores of
        models that learn do move.
    seed : int or None, default=None
        Key of the draws.

    Attributes
    ----------
    step : ParityPostprocessor or None
        The parity step, once it has begun.

    Examples
    --------
    >>> from river import linear_model, preprocessing
    >>> from evenhand.datasets import make_population
    >>> from evenhand.river import ParityRegressor
    >>> model = ParityRegressor(
    ...     preprocessing.StandardScaler() | linear_model.LinearRegression(),
    ...     preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    ...     bounds=(-2, 2),
    ... )
    >>> data = make_population(4000, n_groups=2, random_state=0)
    >>> for row, y, group in zip(data.data, data.target, data.sensitive_features):
    ...     model.learn_one(dict(enumerate(row)), y, group=int(group))
    >>> model.predict_one(dict(enumerate(data.data[0]))) in model.step.atoms_
    True
    """

    def __init__(
        self,
        regressor: Any,
        classifier: Any,
        group_feature: Any = None,
        parity: str | ParityNotion = "cdf",
        epsilon: Any = 0.05,
        atoms: Any = "auto",
        bounds: Any = "auto",
        beta: Any = "auto",
        half_life: float | None = None,
        warm_up: int = 1000,
        min_group_size: int = 10,
        on_drift: Callable[[Drift], object] | None = None,
        seed: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.classifier = classifier
        self.group_feature = group_feature
        self.parity = parity
        self.epsilon = epsilon
        self.atoms = atoms
        self.bounds = bounds
        self.beta = beta
        self.half_life = half_life
        self.warm_up = warm_up
        self.min_group_size = min_group_size
        self.on_drift = on_drift
        self.seed = seed
        self.step: ParityPostprocessor | None = None
        self._groups: tuple[Hashable, ...] = ()  # those of the parity step
        self._sizes: dict[Hashable, int] = {}  # rows of each group that was seen
        self._n_rows = 0
        self._waiting: list[list[float]] = []  # score and group probabilities of rows, until FLUSH_ROWS

    def learn_one(self, x: Features, y: float | None = None, group: Hashable = None) -> None:
        """Learn from one row, of which outcome and group may be unknown.

        Where the parity step refuses its rows, nothing is learned from this one, and those before it still
        wait: the row may come again.

        Parameters
        ----------
        x : dict of features
        y : float, default=None
            The outcome; None or NaN where it is not known.
        group : hashable, default=None
            The group, where it is known and `group_feature` does not say it.
        """
        features, known = self._split(x)
        group = known if group is None else group
        alarms = self._take(self._score(features), self._group_proba(features))
        if not is_missing(group):
            self.classifier.learn_one(features, group)
        self._note(group)
        if not is_missing(y):
            self.regressor.learn_one(features, y)
        for alarm in alarms:  # last: a callback that raises finds a row that all have learned from
            self._report(alarm)

    def predict_one(self, x: Features) -> float:
        """One atom drawn from the row's policy: parity is kept, up to the noise of drawing.

        The draw is a keyed hash of the row's score and group probabilities: the same row gets the same answer
        until the models learn more. Before the parity step has begun, it is the regressor's prediction.

        Parameters
        ----------
        x : dict of features
        """
        return float(self._predict([x])[0])

    def predict_pmf_one(self, x: Features) -> dict[float, float]:
        """The probability of each atom; before the parity step, all of it on the regressor's prediction.

        Parameters
        ----------
        x : dict of features
        """
        features, _ = self._split(x)
        score = self._score(features)
        if self.step is None or not math.isfinite(score):
            return {score: 1.0}
        proba = self._vector(self._group_proba(features))
        pmf = self.step.predict_pmf(np.array([score]), proba[None])[0]
        return dict(zip(self.step.atoms_.tolist(), pmf.tolist(), strict=True))

    def learn_many(self, X: Any, y: Any = None, group: Any = None) -> None:
        """Learn from a frame of pandas.

        It does what `learn_one` does row by row, whatever the two models can do with many rows at once.

        Parameters
        ----------
        X : pandas data frame of shape (n_rows, n_features)
        y : series of n_rows outcomes, default=None
            Missing where an outcome is not known; None: none is.
        group : series of n_rows labels, default=None
            Missing where a group is not known; None: as `group_feature` says, or none is known.
        """
        outcomes = _values(y, len(X))
        groups = _values(group, len(X))
        for x, outcome, label in zip(_records(X), outcomes, groups, strict=True):
            self.learn_one(x, outcome, label)

    def predict_many(self, X: Any) -> Any:
        """A series of `predict_one` for each row of a frame of pandas.

        Parameters
        ----------
        X : pandas data frame of shape (n_rows, n_features)
        """
        return type(X.iloc[:, 0])(self._predict(_records(X)), index=X.index)

    def _predict(self, rows: Iterable[Features]) -> FloatArray:
        features = [self._split(x)[0] for x in rows]
        scores = np.array([self._score(row) for row in features])
        sound = np.isfinite(scores)
        if self.step is not None and sound.any():
            proba = [
                self._vector(self._group_proba(row))
                for row, good in zip(features, sound, strict=True)
                if good
            ]
            scores[sound] = self.step.predict(scores[sound], np.array(proba))
        return scores

    def _split(self, x: Features) -> tuple[Features, Hashable]:
        """The features that the models may see, and the group where they tell it."""
        if self.group_feature is None:
            return x, None
        if callable(self.group_feature):
            return x, self.group_feature(x)
        return {name: value for name, value in x.items() if name != self.group_feature}, x.get(
            self.group_feature
        )

    def _score(self, features: Features) -> float:
        return float(self.regressor.predict_one(features))

    def _group_proba(self, features: Features) -> dict[Hashable, float]:
        return self.classifier.predict_proba_one(features) or {}

    def _vector(self, proba: dict[Hashable, float]) -> FloatArray:
        """Probabilities of the step's groups; the shares seen, where the classifier knows none of them."""
        known = np.array([proba.get(label, 0.0) for label in self._groups])
        if not (np.isfinite(known).all() and known.sum() > 0):
            known = np.array([float(self._sizes[label]) for label in self._groups])
        vector: FloatArray = known / known.sum()
        return vector

    def _take(self, score: float, proba: dict[Hashable, float]) -> list[Drift]:
        """Give a scored row to the parity step, with those that wait when they are enough; its alarms."""
        if not self._groups or not math.isfinite(score):
            return []
        low, high = (score, score) if isinstance(self.bounds, str) else self.bounds
        waiting = [*self._waiting, [min(max(score, low), high), *self._vector(proba)]]
        alarms: list[Drift] = []
        if len(waiting) >= FLUSH_ROWS:
            rows = np.array(waiting)
            step = self._new_step() if self.step is None else self.step
            step.partial_fit(rows[:, 0], rows[:, 1:], half_life=self.half_life, on_drift=alarms.append)
            self.step, waiting = step, []
        self._waiting = waiting
        return alarms

    def _note(self, group: Hashable) -> None:
        """Count the row, and begin the parity step (anew) where its groups are others now."""
        self._n_rows += 1
        if not is_missing(group):
            self._sizes[group] = self._sizes.get(group, 0) + 1
        if self._n_rows < self.warm_up:
            return
        groups = tuple(label for label, size in self._sizes.items() if size >= self.min_group_size)
        if len(groups) >= 2 and groups != self._groups:
            self._groups, self.step, self._waiting = groups, None, []

    def _new_step(self) -> ParityPostprocessor:
        return ParityPostprocessor(
            parity=self.parity,
            epsilon=self._epsilon(),
            atoms=self.atoms,
            bounds=self.bounds,
            beta=self.beta,
            random_state=self.seed,
        )

    def _epsilon(self) -> Any:
        """Tolerances by group, in the order in which the groups came."""
        if not isinstance(self.epsilon, dict):
            return self.epsilon
        missing = [label for label in self._groups if label not in self.epsilon]
        if missing:
            raise ValueError(
                f"epsilon has no value for {missing}, of the groups {list(self._groups)} that have come. "
                "Give one for each group, or one float for all."
            )
        return [self.epsilon[label] for label in self._groups]

    def _report(self, drift: Drift) -> None:
        if self.on_drift is not None:
            self.on_drift(drift)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """Models for river's checks."""
        from river import linear_model, preprocessing, tree

        yield {
            "regressor": preprocessing.StandardScaler() | linear_model.LinearRegression(),
            "classifier": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
        }
        yield {"regressor": tree.HoeffdingTreeRegressor(), "classifier": tree.HoeffdingTreeClassifier()}


def _records(X: Any) -> Iterable[Features]:
    records: list[Features] = X.to_dict(orient="records")
    return records


def _values(column: Any, n_rows: int) -> list[Any]:
    values = [None] * n_rows if column is None else list(column)
    if len(values) != n_rows:
        raise ValueError(f"X has {n_rows} rows, but {len(values)} values came with it.")
    return values
