"""Scorers for `GridSearchCV`, `cross_validate` and their like, with metadata routing or without.

A larger epsilon always fits better, so a search by `score` alone ends at the largest: measure the distance
beside it, and choose the best model within a limit (`best_within`).
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRequest

from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import find_parity
from evenhand.estimators.base import ParityEstimator
from evenhand.evaluation.heldout import read_members
from evenhand.exceptions import ToleranceWarning
from evenhand.metrics import Membership, unfairness
from evenhand.metrics.distances import Metric

__all__ = ["ModelScorer", "ParityScorer", "best_within", "model_scorer", "parity_scorer"]


@dataclass(frozen=True, eq=False)
class ModelScorer:
    """The model's own `score`; see `model_scorer`, which makes it."""

    sensitive_features: Any = None  # columns of X, or labels by its index

    def __call__(self, model: Any, X: Any, y: Any, *, sensitive_features: Any = None) -> float:
        """`model.score` on rows, whose groups only an aware model is told."""
        groups = self._groups(X, sensitive_features)
        told = {"sensitive_features": groups} if getattr(_last(model), "aware", False) else {}
        return float(model.score(X, y, **told))

    def get_metadata_routing(self) -> MetadataRequest:
        """What is asked of a router: the groups of the rows, where it is given any."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sensitive_features", alias=True)
        return request

    def _groups(self, X: Any, routed: Any) -> Any:
        """The groups of these rows of all, where they are known."""
        known = self.sensitive_features
        if routed is not None or known is None:
            return routed
        if isinstance(known, str | int) or (isinstance(known, list) and isinstance(known[0], str)):
            return _safe_indexing(X, known, axis=1)
        if hasattr(known, "loc") and hasattr(X, "index"):
            return known.loc[X.index]
        raise ValueError(
            "Rows of a fold find their groups by name: pass sensitive_features as a pandas series or frame "
            "with the index of X, or name columns of X. Or enable metadata routing "
            "(sklearn.set_config(enable_metadata_routing=True)) and pass them to fit of the search."
        )


@dataclass(frozen=True, eq=False)
class ParityScorer(ModelScorer):
    """Minus the largest distance between a group and everybody; see `parity_scorer`, which makes it."""

    metric: Metric | None = None

    def __call__(self, model: Any, X: Any, y: Any = None, *, sensitive_features: Any = None) -> float:
        """Greater is better, and 0 is parity."""
        groups = self._groups(X, sensitive_features)
        last, rows = _last(model), _before(model, X)
        if not isinstance(last, ParityEstimator):
            if groups is None:
                raise ValueError(f"{type(last).__name__} does not know the groups: {NEEDED}")
            found = unfairness(model.predict(X), groups, metric=self.metric or "ks")
            return -max(found.values())
        told = {"sensitive_features": groups} if last.aware else {}
        scores, group_proba = last.predict_scores(rows, **told)
        pmf = last.policy_.pmf(scores, group_proba)
        members = _members(last, rows, y, groups, group_proba)
        metric = find_parity(last.parity_) if self.metric is None else self.metric
        return -max(unfairness(pmf, members, last.atoms_, metric=metric).values())


NEEDED = "pass sensitive_features to the scorer, or through metadata routing."


def model_scorer(sensitive_features: Any = None) -> ModelScorer:
    """A scorer with the model's own `score` (R^2, or accuracy, exact over the draws), aware models included.

    Parameters
    ----------
    sensitive_features : as in `parity_scorer`, default=None
        Only `aware` models look at it.
    """
    return ModelScorer(sensitive_features)


def parity_scorer(metric: Metric | None = None, sensitive_features: Any = None) -> ParityScorer:
    """A scorer with minus the largest distance between a group and everybody: 0 is parity.

    It needs no draws: the distance is that of the models' distributions. Groups of the held-out rows come
    through metadata routing where that is enabled, or by `sensitive_features`; where neither is given, rows
    count in each group by the probability that the model itself has of it, which is all that a search without
    routing can know, and cannot see errors of these probabilities. On few rows chance alone shows a distance,
    with known groups more than with probabilities.

    Parameters
    ----------
    metric : str or parity notion, default=None
        A distance of `evenhand.metrics.unfairness`; None: the one that the model's parity bounds.
    sensitive_features : column of X or list of them, series or frame with the index of X, default=None

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> import evenhand as eh
    >>> data = eh.datasets.make_population(1000, n_groups=2, random_state=0)
    >>> search = GridSearchCV(
    ...     eh.ParityRegressor(confidence=None),
    ...     {"epsilon": [0.01, 0.05, 0.2]},
    ...     scoring={"score": eh.scoring.model_scorer(), "parity": eh.scoring.parity_scorer()},
    ...     refit=eh.scoring.best_within(0.1),
    ... )
    >>> search.fit(data.data, data.target, sensitive_features=data.sensitive_features).best_params_
    {'epsilon': 0.05}
    """
    return ParityScorer(sensitive_features, metric)


def best_within(
    limit: float, *, parity: str = "parity", score: str = "score"
) -> Callable[[Mapping[str, Any]], int]:
    """What `GridSearchCV(refit=...)` chooses by: the best score among the models within a distance.

    Parameters
    ----------
    limit : float
        The largest distance, on average over the folds, chance included. Where no model is within it the
        nearest is chosen, with a `ToleranceWarning`.
    parity, score : str
        Names of the two in the dict of `scoring`.
    """

    def choose(results: Mapping[str, Any]) -> int:
        distances: FloatArray = -np.asarray(results[f"mean_test_{parity}"])
        within = distances <= limit
        if not within.any():
            nearest = int(np.nanargmin(distances))
            warnings.warn(
                f"No candidate is within a distance of {limit:g} on held-out rows; the nearest, at "
                f"{distances[nearest]:.3g}, is taken: {results['params'][nearest]}.",
                ToleranceWarning,
                stacklevel=3,
            )
            return nearest
        return int(np.argmax(np.where(within, results[f"mean_test_{score}"], -np.inf)))

    return choose


def _last(model: Any) -> Any:
    """The last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


def _before(model: Any, X: Any) -> Any:
    """Rows as the last step of a pipeline sees them."""
    return model[:-1].transform(X) if hasattr(model, "steps") and len(model.steps) > 1 else X


def _members(model: ParityEstimator, X: Any, y: Any, groups: Any, group_proba: FloatArray) -> Membership:
    """The groups that the model compares, by labels or by its own probabilities."""
    if groups is not None:
        return read_members(model, X, y, groups)
    labels, strata = tuple(model.groups_.tolist()), model.policy_.strata
    return Membership.of_proba(labels, group_proba, None, strata).require_rows()
