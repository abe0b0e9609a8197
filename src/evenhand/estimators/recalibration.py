"""Outcome and group given what both models say: `calibration="joint"`.

A policy sees a row only through its score and its group probabilities. What it needs is the outcome, and the
group, given both of these, and a model that is calibrated by itself need not be so given what the other says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.labels import Groups, spread_rows
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.calibration import (
    CALIBRATIONS,
    Calibrator,
    JointCalibrator,
    JointFit,
    JointRows,
    joint_inputs,
)
from evenhand.dual.grid import range_without_outliers
from evenhand.estimators.group_model import GroupModel
from evenhand.estimators.judged_rows import JudgedRows
from evenhand.estimators.nuisances import Fold

Wanted: TypeAlias = tuple[AnyArray, FloatArray]  # what a map foretells, and what its model says of it

AUTO = "auto"  # joint where epsilon is for new people, none where it is for the rows


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The fitted models, each with the map that mends it."""

    outcome: Any
    outcome_calibrator: JointCalibrator | None
    groups: list[GroupModel]  # one for each attribute; none where the group itself is given

    def mended(
        self, outcome: JointCalibrator | None, maps: Sequence[Calibrator | JointCalibrator | None]
    ) -> "Models":
        """The same models with these maps, of the outcome and of each model of the group."""
        groups = [replace(model, calibrator=each) for model, each in zip(self.groups, maps, strict=True)]
        return Models(self.outcome, outcome, groups)


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutputs:
    """What models say of rows, and the groups themselves where the policy is told them."""

    scores: FloatArray  # (n_rows,) or (n_rows, n_classes)
    modelled: list[FloatArray]  # of each model of the group, (n_rows, n_groups)
    known: Sequence[Groups] | None = None

    def take(self, rows: IntArray) -> "ModelOutputs":
        """Those of some of the rows."""
        known = None
        if self.known is not None:  # groups that are not among the rows keep their places
            known = [groups.at(rows) for groups in self.known]
        return ModelOutputs(self.scores[rows], [proba[rows] for proba in self.modelled], known)

    def inputs(self) -> FloatArray:
        """The same as columns of numbers; known groups count where there is no model of them."""
        return joint_inputs(self.scores, self.modelled or self.shares() or [])

    def shares(self) -> list[FloatArray] | None:
        """The known groups as probabilities of each attribute."""
        return None if self.known is None else [groups.one_hot() for groups in self.known]


def check_calibration(calibration: object) -> None:
    """Refuse a name that is none."""
    if calibration is not None and calibration not in (AUTO, *CALIBRATIONS):
        names = ", ".join((AUTO, *CALIBRATIONS))
        raise ValueError(f"Unknown calibration {calibration!r}. Valid names: {names}.")


def fit_recalibration(
    models: Models,
    outputs: ModelOutputs,
    outcome: AnyArray | None,
    targets: Sequence[Groups],
    tested: JudgedRows,
    weights: FloatArray | None,
) -> tuple[Models, list[Models]]:
    """The models with their maps, and with maps that were fitted without each fold.

    `outputs` is by models that have not seen the rows. A map is kept where the tested ones of them say that
    it helps. An outcome of None is left alone, and so are the models of the group without `targets`.
    """
    smallest = min([len(outputs.scores), *(int(groups.sizes().min()) for groups in targets)])
    of_outcome: list[Wanted] = []
    if outcome is not None:
        scores = outputs.scores
        if scores.ndim == 1:  # one that is far off would be all that a map sees
            scores = np.clip(scores, *range_without_outliers(scores))
        of_outcome.append((outcome, scores))
    if any(groups.proba is not None for groups in targets):
        fits = _fit_maps(outputs, of_outcome, tested, weights, smallest)
        fits += _fit_soft_maps(outputs, targets, tested, weights, smallest)
    else:
        of_groups = [(groups.codes, said) for groups, said in zip(targets, outputs.modelled, strict=False)]
        fits = _fit_maps(outputs, of_outcome + of_groups, tested, weights, smallest)
    if not any(fits):
        return models, [models] * len(tested.folds)

    def mended(maps: list[JointCalibrator | None]) -> Models:
        first = maps.pop(0) if of_outcome else models.outcome_calibrator
        return models.mended(first, maps if targets else [model.calibrator for model in models.groups])

    without = [
        mended([None if fit is None else fit.without[fold] for fit in fits])
        for fold in range(len(tested.folds))
    ]
    return mended([None if fit is None else fit.calibrator for fit in fits]), without


def _fit_maps(
    outputs: ModelOutputs,
    wanted: Sequence[Wanted],
    tested: JudgedRows,
    weights: FloatArray | None,
    smallest: int,
) -> list[JointFit | None]:
    """A map to each of the targets that are wanted, where it helps, and those without each fold."""
    places = tested.places
    rows = JointRows.of(outputs.take(places).inputs(), None if weights is None else weights[places], smallest)
    n_rows = len(outputs.scores)
    fits = [rows.cross_fit(target[places], said[places], tested.folds, n_rows) for target, said in wanted]
    if len(places) == n_rows or not any(fits):
        return fits
    rows = rows.on(outputs.inputs(), weights)
    return [
        None if fit is None else replace(fit, calibrator=rows.fit(*pair, start=fit))
        for fit, pair in zip(fits, wanted, strict=True)
    ]


def _fit_soft_maps(
    outputs: ModelOutputs,
    targets: Sequence[Groups],
    tested: JudgedRows,
    weights: FloatArray | None,
    smallest: int,
) -> list[JointFit | None]:
    """Maps to groups of which only probabilities are known: each row serves in every group, by its share."""
    fits = []
    for groups, said in zip(targets, outputs.modelled, strict=True):
        assert groups.proba is not None
        rows, codes, shares = spread_rows(groups.proba, weights)
        spread = tested.spread(rows, len(groups.codes))
        fits += _fit_maps(outputs.take(rows), [(codes, said[rows])], spread, shares, smallest)
    return fits


def mend_by_fold(outputs: ModelOutputs, without: Sequence[Models], folds: Sequence[Fold]) -> ModelOutputs:
    """The outputs after maps that have not seen the row."""
    if all(models is without[0] for models in without):
        return recalibrate(without[0], outputs)
    scored = [rows for _, rows in folds]
    parts = [recalibrate(models, outputs.take(rows)) for models, rows in zip(without, scored, strict=True)]
    order = np.argsort(np.concatenate(scored))
    modelled = zip(*(part.modelled for part in parts), strict=True)
    return replace(
        outputs,
        scores=np.concatenate([part.scores for part in parts])[order],
        modelled=[np.concatenate(each)[order] for each in modelled],
    )


def recalibrate(models: Models, outputs: ModelOutputs) -> ModelOutputs:
    """The outputs after the maps of the models, where they have any."""
    outcome, maps = models.outcome_calibrator, [model.calibrator for model in models.groups]
    if outcome is None and not any(isinstance(each, JointCalibrator) for each in maps):
        return outputs
    inputs = outputs.inputs()
    return replace(
        outputs,
        scores=outputs.scores if outcome is None else outcome(inputs),
        modelled=[
            each(inputs) if isinstance(each, JointCalibrator) else proba
            for each, proba in zip(maps, outputs.modelled, strict=True)
        ],
    )
