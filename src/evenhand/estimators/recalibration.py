"""Outcome and group given what both models say: `calibration="joint"`.

A policy sees a row only through its score and its group probabilities. What it needs is the outcome, and the
group, given both of these, and a model that is calibrated by itself need not be so given what the other says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.calibration import CALIBRATIONS, JointCalibrator, JointRows, joint_inputs
from evenhand.estimators.group_model import GroupModel
from evenhand.estimators.nuisances import Fold


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The fitted models, each with the map that mends it."""

    outcome: Any
    outcome_calibrator: JointCalibrator | None
    groups: list[GroupModel]  # one for each attribute; none where the group itself is given


@dataclass(frozen=True, slots=True, eq=False)
class ModelOutputs:
    """What models say of rows, and the groups themselves where the policy is told them."""

    scores: FloatArray  # (n_rows,) or (n_rows, n_classes)
    modelled: list[FloatArray]  # of each model of the group, (n_rows, n_groups)
    known: Sequence[Groups] | None = None

    def inputs(self) -> FloatArray:
        """The same as columns of numbers; known groups count where there is no model of them."""
        return joint_inputs(self.scores, self.modelled or self.shares() or [])

    def shares(self) -> list[FloatArray] | None:
        """The known groups as probabilities of each attribute."""
        return None if self.known is None else [groups.one_hot() for groups in self.known]


def check_calibration(calibration: object) -> None:
    """Refuse a name that is none."""
    if calibration is not None and calibration not in CALIBRATIONS:
        raise ValueError(f"Unknown calibration {calibration!r}. Valid names: {', '.join(CALIBRATIONS)}.")


def fit_recalibration(
    models: Models,
    outputs: ModelOutputs,
    outcome: AnyArray | None,
    targets: Sequence[Groups],
    folds: Sequence[Fold],
    weights: FloatArray | None,
) -> tuple[Models, ModelOutputs]:
    """The models with their maps, and what they say of the labelled rows by maps that have not seen these.

    `outputs` is by models that have not seen the rows. An outcome of None is left alone.
    """
    rows = JointRows.of(outputs.inputs(), [scored for _, scored in folds], weights)
    calibrator, scores = None, outputs.scores
    if outcome is not None:
        calibrator, scores = rows.cross_fit(outcome, outputs.scores)
    pairs = [
        rows.cross_fit(groups.codes, proba) for groups, proba in zip(targets, outputs.modelled, strict=True)
    ]
    groups = [replace(model, calibrator=each) for model, (each, _) in zip(models.groups, pairs, strict=True)]
    mended = replace(models, outcome_calibrator=calibrator, groups=groups)
    return mended, replace(outputs, scores=scores, modelled=[proba for _, proba in pairs])


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
