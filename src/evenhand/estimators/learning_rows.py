"""The rows that a fit learns from: those with an outcome and those with a group need not be the same."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows, check_group_proba, check_weights
from evenhand.estimators.cells import Cells
from evenhand.estimators.group_model import GroupModel
from evenhand.estimators.knowledge import GroupKnowledge
from evenhand.estimators.nuisances import Fold, Labelled, keep_rows
from evenhand.estimators.recalibration import ModelOutputs, Models, recalibrate


@dataclass(frozen=True, slots=True, eq=False)
class RawRows:
    """Rows as the models see them, before any map."""

    outputs: ModelOutputs
    factors: IntArray | None  # value of the legitimate factor, where there is one
    weights: FloatArray | None

    def take(self, rows: IntArray) -> "RawRows":
        """Some of the rows."""
        factors = None if self.factors is None else self.factors[rows]
        return RawRows(self.outputs.take(rows), factors, None if self.weights is None else self.weights[rows])

    def scored(self, models: Models, cells: Cells) -> Rows:
        """The rows as the parity step takes them, after the maps of the models."""
        outputs = recalibrate(models, self.outputs)
        blocks = cells.blocks(outputs.modelled, outputs.scores, outputs.shares())
        strata, n_rows = cells.strata(), len(outputs.scores)
        columns, _ = check_group_proba(cells.columns(blocks, self.factors), n_rows, strata=strata)
        weights = None if self.weights is None else check_weights(self.weights, n_rows)
        return Rows(outputs.scores, columns, cells.labels(), weights, strata)


@dataclass(frozen=True, slots=True, eq=False)
class FittedModels:
    """Models that were fitted on all rows of their kind, to be asked for rows that they have not seen."""

    scores: Callable[[Any], FloatArray]  # of a table
    groups: Sequence[GroupModel]
    factors: Callable[[Any], IntArray | None]  # of a table
    aware: bool  # the step is told the groups

    def proba(self, X: Any) -> list[FloatArray]:
        """What each model of the group says."""
        return [model.proba(X) for model in self.groups]


@dataclass(frozen=True, slots=True, eq=False)
class LearningRows(ABC):
    """Rows with an outcome, and rows with a group: the same, some of them, or other people."""

    data: Labelled  # with an outcome
    folds: list[Fold]  # of these
    told: Labelled  # with a group, by its label or by probabilities
    attributes: list[Groups]  # of these
    told_folds: list[Fold]

    complete: ClassVar[bool] = False  # every row with an outcome has its group
    other_people: ClassVar[bool] = False  # those with a group are of another table

    @property
    def soft(self) -> bool:
        """Whether groups are known by probabilities."""
        return any(groups.proba is not None for groups in self.attributes)

    @abstractmethod
    def of_told(self, outcome: AnyArray | None) -> AnyArray | None:
        """Outcomes of the rows of known groups, from those of the rows that have one; None: not known."""

    @abstractmethod
    def raw(
        self, models: FittedModels, scores: FloatArray, held_out: list[FloatArray]
    ) -> tuple[RawRows, RawRows]:
        """The rows of the parity step, and those of known groups, by models that have not seen them.

        `scores` are of the rows with an outcome, `held_out` what is said of the group of the told ones.
        """

    def knowledge(self) -> GroupKnowledge:
        """How many rows had a group, and which."""
        labels = tuple(label for groups in self.attributes for label in groups.labels)
        counts = np.concatenate([groups.one_hot().sum(axis=0) for groups in self.attributes])
        return GroupKnowledge(
            n_rows=len(self.data.y),
            n_known=len(self.told.codes),
            groups=labels,
            counts=counts,
            soft=self.soft,
            other_table=self.other_people,
        )


@dataclass(frozen=True, slots=True, eq=False)
class AllKnown(LearningRows):
    """Every row has an outcome and a group."""

    complete: ClassVar[bool] = True

    def of_told(self, outcome: AnyArray | None) -> AnyArray | None:
        """They are the same rows."""
        return outcome

    def raw(
        self, models: FittedModels, scores: FloatArray, held_out: list[FloatArray]
    ) -> tuple[RawRows, RawRows]:
        """The same rows twice."""
        known = self.attributes if models.aware else None
        rows = RawRows(ModelOutputs(scores, held_out, known), models.factors(self.data.X), self.data.weights)
        return rows, rows


@dataclass(frozen=True, slots=True, eq=False)
class PartlyKnown(LearningRows):
    """Some of the rows with an outcome have a group."""

    places: IntArray  # of these among all

    def of_told(self, outcome: AnyArray | None) -> AnyArray | None:
        """Those of the rows that have a group."""
        return None if outcome is None else outcome[self.places]

    def raw(
        self, models: FittedModels, scores: FloatArray, held_out: list[FloatArray]
    ) -> tuple[RawRows, RawRows]:
        """The models of the group have not seen rows without one; an aware step does without these rows."""
        factors, known = models.factors(self.data.X), self.attributes if models.aware else None
        some = None if factors is None else factors[self.places]
        told = RawRows(ModelOutputs(scores[self.places], held_out, known), some, self.told.weights)
        if models.aware:
            return told, told
        unknown = np.setdiff1d(np.arange(len(self.data.y)), self.places)
        whole = []
        of_unknown = models.proba(_safe_indexing(self.data.X, unknown))
        for of_told, others in zip(held_out, of_unknown, strict=True):
            each = np.empty((len(self.data.y), of_told.shape[1]))
            each[self.places], each[unknown] = of_told, others
            whole.append(each)
        return RawRows(ModelOutputs(scores, whole), factors, self.data.weights), told


@dataclass(frozen=True, slots=True, eq=False)
class OtherPeople(LearningRows):
    """Groups are those of people whose outcome is not known."""

    other_people: ClassVar[bool] = True

    def of_told(self, outcome: AnyArray | None) -> AnyArray | None:
        """Nobody knows them."""
        return None

    def raw(
        self, models: FittedModels, scores: FloatArray, held_out: list[FloatArray]
    ) -> tuple[RawRows, RawRows]:
        """Either model has seen none of the other's rows."""
        told, data = self.told, self.data
        of_told = ModelOutputs(models.scores(told.X), held_out)
        of_data = ModelOutputs(scores, models.proba(data.X))
        return (
            RawRows(of_data, models.factors(data.X), data.weights),
            RawRows(of_told, models.factors(told.X), told.weights),
        )


def rows_of_one_table(data: Labelled, attributes: list[Groups], folds: list[Fold]) -> LearningRows:
    """Rows with an outcome, whose groups may be unknown for some."""
    known = attributes[0].known
    if known.all():
        return AllKnown(data, folds, data, attributes, folds)
    places = np.flatnonzero(known)
    told = [groups.at(places) for groups in attributes]
    return PartlyKnown(data, folds, data.rows(places), told, keep_rows(folds, known), places)


def known_part(X: Any, attributes: Sequence[Groups]) -> tuple[Any, list[Groups]]:
    """The rows of a table whose groups are known, and these."""
    known = attributes[0].known
    if known.all():
        return X, list(attributes)
    return _safe_indexing(X, np.flatnonzero(known)), [groups.take(known) for groups in attributes]


def rows_of_group(X: Any, attributes: Sequence[Groups]) -> Labelled:
    """People of whom only features and groups are known."""
    first = attributes[0]
    return Labelled(X, np.full(_num_samples(X), np.nan), first.codes, first.labels, None)
