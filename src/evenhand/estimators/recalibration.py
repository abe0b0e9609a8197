"""Recalibrate both models given the outputs of both: `calibration="joint"`.

The parity step uses a row only through its score and its group probabilities. It needs the expected outcome,
and the probability of each group, given both of these. A model that is calibrated given its own output may
not be calibrated given the outputs of both models.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from evenhand._utils.labels import Groups, spread_rows
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.calibration import JOINT, JointCalibrator, JointFit, JointRows
from evenhand.dual.grid import range_without_outliers
from evenhand.estimators.folds import rows_of_folds
from evenhand.estimators.scorer import Outputs, Scorer


class Tested(NamedTuple):
    """Rows on which maps are tested, and the fold of every row."""

    places: IntArray
    fold: IntArray


Wanted: TypeAlias = tuple[AnyArray, FloatArray]  # the target of a map, and the output of its model

AUTO = "auto"  # joint if epsilon is for new data, none if it is for the rows of the step
DROPPED = ("temperature", "sigmoid", "isotonic")  # methods of scikit-learn's CalibratedClassifierCV


def is_joint(calibration: object, *, for_new_data: bool) -> bool:
    """Whether `calibration` requests joint maps; raise an error for unknown names.

    >>> is_joint("auto", for_new_data=True), is_joint(None, for_new_data=True)
    (True, False)
    """
    if calibration in DROPPED:
        raise ValueError(
            f"calibration={calibration!r} is not available: pass sensitive_estimator=CalibratedClassifierCV("
            f"model, method={calibration!r}) of scikit-learn instead, or calibration='joint'."
        )
    if calibration not in (None, AUTO, JOINT):
        raise ValueError(f"calibration must be 'auto', 'joint' or None: got {calibration!r}.")
    return calibration == JOINT or (calibration == AUTO and for_new_data)


def fit_recalibration(
    scorer: Scorer, outputs: Outputs, outcome: AnyArray | None, targets: Sequence[Groups], tested: Tested
) -> tuple[Scorer, list[Scorer]]:
    """Return the scorer with recalibration maps, and one scorer per fold with maps fitted without that fold.

    `outputs` are out-of-fold. A map is kept if it reduces the loss on the rows of `tested`. Without `outcome`
    the model of the outcome keeps its current map; without `targets` so do the models of the groups.
    """
    smallest = min([len(outputs.scores), *(int(groups.sizes().min()) for groups in targets)])
    of_outcome: list[Wanted] = []
    if outcome is not None:
        scores = outputs.scores
        if scores.ndim == 1:  # a single outlier could otherwise dominate the map
            scores = np.clip(scores, *range_without_outliers(scores))
        of_outcome.append((outcome, scores))
    if any(groups.proba is not None for groups in targets):
        fits = _fit_maps(outputs, of_outcome, tested, smallest)
        fits += _fit_soft_maps(outputs, targets, tested, smallest)
    else:
        of_groups = [
            (groups.codes, proba) for groups, proba in zip(targets, outputs.group_proba, strict=False)
        ]
        fits = _fit_maps(outputs, of_outcome + of_groups, tested, smallest)
    n_folds = int(tested.fold.max()) + 1
    if not any(fits):
        return scorer, [scorer] * n_folds
    kept = [model.calibrator for model in (scorer.outcome, *scorer.groups)]
    first, last = int(not of_outcome), 1 + len(targets)

    def with_maps(maps: Sequence[JointCalibrator | None]) -> Scorer:
        return scorer.with_maps([*kept[:first], *maps, *kept[last:]])

    without = [
        with_maps([None if fit is None else fit.without[fold] for fit in fits]) for fold in range(n_folds)
    ]
    return with_maps([None if fit is None else fit.calibrator for fit in fits]), without


def _fit_maps(
    outputs: Outputs, wanted: Sequence[Wanted], tested: Tested, smallest: int
) -> list[JointFit | None]:
    """A map to each of the targets where it helps, and those without each fold."""
    some, weights, places = outputs.take(tested.places), outputs.weights, tested.places
    rows = JointRows.of(some.inputs(), some.weights, smallest)
    n_rows, folds = len(outputs.scores), rows_of_folds(tested.fold[places])
    fits = [rows.cross_fit(target[places], given[places], folds, n_rows) for target, given in wanted]
    if len(places) == n_rows or not any(fits):
        return fits
    rows = rows.on(outputs.inputs(), weights)
    return [
        None if fit is None else replace(fit, calibrator=rows.fit(*pair, start=fit))
        for fit, pair in zip(fits, wanted, strict=True)
    ]


def _fit_soft_maps(
    outputs: Outputs, targets: Sequence[Groups], tested: Tested, smallest: int
) -> list[JointFit | None]:
    """Fit maps for groups given as probabilities: each row counts for every group by its probability."""
    fits = []
    for groups, given in zip(targets, outputs.group_proba, strict=True):
        assert groups.proba is not None
        rows, codes, shares = spread_rows(groups.proba, outputs.weights)
        spread = Tested(np.flatnonzero(np.isin(rows, tested.places)), tested.fold[rows])
        several = replace(outputs.take(rows), weights=shares)
        fits += _fit_maps(several, [(codes, given[rows])], spread, smallest)
    return fits


def recalibrate_by_fold(outputs: Outputs, without: Sequence[Scorer], folds: Sequence[IntArray]) -> Outputs:
    """Return the outputs after maps that were fitted without the fold of each row."""
    if all(scorer is without[0] for scorer in without):
        return without[0].recalibrate(outputs)
    parts = [scorer.recalibrate(outputs.take(rows)) for scorer, rows in zip(without, folds, strict=True)]
    order = np.argsort(np.concatenate(folds))
    group_proba = zip(*(part.group_proba for part in parts), strict=True)
    return replace(
        outputs,
        scores=np.concatenate([part.scores for part in parts])[order],
        group_proba=[np.concatenate(each)[order] for each in group_proba],
    )
