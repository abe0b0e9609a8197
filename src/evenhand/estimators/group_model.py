"""Models of the group: classifiers, with calibrators that were fitted on rows they had not seen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from evenhand._utils.labels import Groups, spread_rows
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels, check_group_proba
from evenhand.calibration import JOINT, Calibrator, JointCalibrator, fit_calibrator
from evenhand.estimators.cells import Cells
from evenhand.estimators.nuisances import (
    Fold,
    Labelled,
    fit_model,
    group_probabilities,
    out_of_fold,
    report_fits,
    require_groups,
)


@dataclass(frozen=True, slots=True, eq=False)
class GroupModel:
    """P(S | X), or P(Y, S | X)."""

    classifier: Any
    calibrator: Calibrator | JointCalibrator | None
    groups: Labels

    def proba(self, X: Any) -> FloatArray:
        """Probability of each group for each row, shape (n_rows, n_groups).

        A joint calibrator takes what the other models say, too, and is left to `recalibrate`.
        """
        raw = group_probabilities(self.classifier, X, self.groups)
        return self.calibrator(raw) if isinstance(self.calibrator, Calibrator) else raw


def fit_group_models(
    classifier: BaseEstimator,
    data: Labelled,
    targets: Sequence[Groups],
    folds: list[Fold],
    calibration: str | None,
    n_jobs: int | None,
) -> tuple[list[GroupModel], list[FloatArray]]:
    """For each of `targets`, the groups of the labelled rows, what `fit_group_model` returns."""
    for groups in targets:
        require_groups(groups, folds)
    labelled = [
        replace(data, codes=groups.codes, groups=groups.labels, proba=groups.proba) for groups in targets
    ]
    fitted = [fit_group_model(classifier, each, folds, calibration, n_jobs) for each in labelled]
    return [model for model, _ in fitted], [held_out for _, held_out in fitted]


def fit_group_model(
    classifier: BaseEstimator,
    data: Labelled,
    folds: list[Fold],
    calibration: str | None,
    n_jobs: int | None,
) -> tuple[GroupModel, FloatArray]:
    """The model, and the probabilities of the labelled rows by models that have not seen them.

    The latter are calibrated, too, by calibrators that have not seen the row; not yet where the calibration
    is joint, which takes all models.
    """
    report_fits("group", 0, folds)
    fitted = _fit_classifier(classifier, data)
    held_out = out_of_fold(partial(_score_groups, classifier, fitted), data, folds, n_jobs, "group")
    held_out, _ = check_group_proba(held_out, len(data.codes))
    if calibration in (None, JOINT):
        return GroupModel(fitted, None, data.groups), held_out

    def calibrated(rows: Any) -> Calibrator:
        assert calibration is not None
        weights = None if data.weights is None else data.weights[rows]
        if data.proba is None:
            return fit_calibrator(calibration, held_out[rows], data.codes[rows], weights)
        places, codes, shares = spread_rows(data.proba[rows], weights)
        return fit_calibrator(calibration, held_out[rows][places], codes, shares)

    model = GroupModel(fitted, calibrated(slice(None)), data.groups)
    proba = np.empty_like(held_out)
    for train, test in folds:
        proba[test] = calibrated(train)(held_out[test])
    return model, proba


def _fit_classifier(classifier: BaseEstimator, data: Labelled, warm_start_from: Any = None) -> Any:
    """The classifier fitted to the groups, or to each row in every group with its probability as weight."""
    X, codes, weights = data.X, data.codes, data.weights
    if data.proba is not None:
        rows, codes, weights = spread_rows(data.proba, weights)
        X = _safe_indexing(X, rows)
    return fit_model(classifier, X, codes, weights, "sensitive_estimator", warm_start_from)


def _score_groups(classifier: BaseEstimator, warm_start_from: Any, data: Labelled, X: Any) -> FloatArray:
    return group_probabilities(_fit_classifier(classifier, data, warm_start_from), X, data.groups)


def restore_models(cells: Cells, classifiers: Any, calibrators: Any) -> list[GroupModel]:
    """The models of a fitted estimator, which keeps lists of their parts where there are several."""
    if classifiers is None:
        return []
    several = len(cells.names) > 1
    pairs = zip(classifiers, calibrators, strict=True) if several else [(classifiers, calibrators)]
    return [
        GroupModel(classifier, calibrator, cells.model_labels(attribute))
        for attribute, (classifier, calibrator) in enumerate(pairs)
    ]
