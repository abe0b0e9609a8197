"""The scorer: fitted models that turn features into scores and group probabilities."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenhand._utils.labels import Groups
from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows, check_group_proba, check_weights
from evenhand.calibration import JointCalibrator, joint_inputs
from evenhand.estimators.models import FittedModel
from evenhand.estimators.strata import Strata, factor_codes


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """Outputs of the models for some rows, before recalibration, with groups, factor values and weights."""

    scores: FloatArray  # (n_rows,) or (n_rows, n_classes)
    group_proba: Sequence[FloatArray]  # one array per model of a group, (n_rows, n_labels)
    known: Sequence[Groups] | None = None  # groups of the rows, for an aware model
    factors: IntArray | None = None  # code of the legitimate factor, if there is one
    weights: FloatArray | None = None

    def take(self, rows: IntArray) -> "Outputs":
        """Return the outputs of some of the rows."""
        return Outputs(
            self.scores[rows],
            [proba[rows] for proba in self.group_proba],
            None if self.known is None else [groups.at(rows) for groups in self.known],
            None if self.factors is None else self.factors[rows],
            None if self.weights is None else self.weights[rows],
        )

    def shares(self) -> list[FloatArray] | None:
        """Return the known groups of each attribute as probabilities."""
        return None if self.known is None else [groups.one_hot() for groups in self.known]

    def inputs(self) -> FloatArray:
        """Return the inputs of joint maps; known groups are used if there is no model of the group."""
        return joint_inputs(self.scores, self.group_proba or self.shares() or [])


@dataclass(frozen=True, slots=True, eq=False)
class Scorer(Stored):
    """The fitted models with their recalibration maps, and the strata of their outputs."""

    outcome: FittedModel
    groups: Sequence[FittedModel]  # one for each attribute; empty if the group itself is used
    strata: Strata
    conditional_on: Any = None
    aware: bool = False
    classes: AnyArray | None = None  # those of the strata, of the type that y has

    def faults(self) -> Iterator[str]:
        """Check that the models and the strata have the same attributes, classes and labels."""
        if not isinstance(self.outcome, FittedModel) or not isinstance(self.strata, Strata):
            yield "it has no model of the outcome, or no strata"
        if type(self.groups) is not list or not all(isinstance(each, FittedModel) for each in self.groups):
            yield "its models of the group are not a list of models"
        if type(self.aware) is not bool:
            yield "its aware is neither true nor false"
        n_models = len(self.strata.names) if not self.aware or self.strata.joint else 0
        if len(self.groups) != n_models:
            yield "it does not have one model of the group for each attribute"
        if self.classes is not None and self.classes.tolist() != list(self.strata.classes or ()):
            yield "its classes are not those of its strata"
        if self.outcome.labels != self.strata.classes:
            yield "the classes of its model are not those of its strata"
        if [each.labels for each in self.groups] != [self.strata.model_labels(i) for i in range(n_models)]:
            yield "the labels of its models of the group are not those of its strata"

    def outputs(self, X: Any, groups: Sequence[Groups] = ()) -> Outputs:
        """Return outputs for rows that no model was fitted on."""
        group_proba = [model(X) for model in self.groups]
        return self.complete(X, self.outcome(X), group_proba, groups)

    def complete(
        self,
        X: Any,
        scores: FloatArray,
        group_proba: Sequence[FloatArray],
        groups: Sequence[Groups] = (),
        weights: FloatArray | None = None,
    ) -> Outputs:
        """Combine outputs of the models with the factor and, for an aware model, the groups."""
        factors = factor_codes(X, self.conditional_on, self.strata)
        return Outputs(scores, group_proba, groups if self.aware else None, factors, weights)

    def recalibrate(self, outputs: Outputs) -> Outputs:
        """Return the outputs after the joint maps, if there are any."""
        maps = [model.calibrator for model in (self.outcome, *self.groups)]
        if not any(maps):
            return outputs
        inputs = outputs.inputs()
        scores, *group_proba = (
            given if each is None else each(inputs)
            for each, given in zip(maps, (outputs.scores, *outputs.group_proba), strict=True)
        )
        return replace(outputs, scores=scores, group_proba=group_proba)

    def rows(self, outputs: Outputs) -> Rows:
        """Return the recalibrated rows of the parity step, with a column for each group of each stratum."""
        final, strata, n_rows = self.recalibrate(outputs), self.strata, len(outputs.scores)
        blocks = strata.blocks(final.group_proba, final.scores, final.shares())
        codes = strata.codes()
        columns, _ = check_group_proba(strata.columns(blocks, final.factors), n_rows, strata=codes)
        weights = None if final.weights is None else check_weights(final.weights, n_rows)
        return Rows(final.scores, columns, strata.labels(), weights, codes)

    def score(self, X: Any, groups: Sequence[Groups] = ()) -> Rows:
        """Return the scores and group probabilities of new rows."""
        return self.rows(self.outputs(X, groups))

    def with_maps(self, maps: Sequence[JointCalibrator | None]) -> "Scorer":
        """Return the same models with other maps: first for the outcome, then for the groups."""
        outcome, *groups = (
            replace(model, calibrator=each)
            for model, each in zip((self.outcome, *self.groups), maps, strict=True)
        )
        return replace(self, outcome=outcome, groups=groups)
