"""The rows that a fit learns from: those with an outcome and those with a group need not be the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _get_feature_names, _num_features, _num_samples

from evenhand._utils.labels import Groups
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.estimators.knowledge import GroupKnowledge
from evenhand.estimators.nuisances import Fold, Labelled, keep_rows, require_table


@dataclass(frozen=True, slots=True, eq=False)
class LearningRows:
    """Rows with an outcome, and rows with a group: the same, some of them, or other people."""

    data: Labelled  # with an outcome
    folds: list[Fold]  # of these
    told: Labelled  # with a group, by its label or by probabilities
    attributes: list[Groups]  # of these
    told_folds: list[Fold]
    places: IntArray | None  # of the told rows among those with an outcome; None: they are of another table

    @classmethod
    def of_one_table(cls, data: Labelled, attributes: list[Groups], folds: list[Fold]) -> "LearningRows":
        """Rows with an outcome, whose groups may be unknown for some."""
        known = attributes[0].known
        places = np.flatnonzero(known)
        if known.all():
            return cls(data, folds, data, attributes, folds, places)
        told = [groups.at(places) for groups in attributes]
        return cls(data, folds, data.rows(places), told, keep_rows(folds, known), places)

    @property
    def complete(self) -> bool:
        """Whether every row with an outcome has its group."""
        return self.told is self.data

    @property
    def soft(self) -> bool:
        """Whether groups are known by probabilities."""
        return any(groups.proba is not None for groups in self.attributes)

    def unknown(self) -> IntArray:
        """Places of the rows with an outcome whose group is not known."""
        assert self.places is not None
        return np.setdiff1d(np.arange(len(self.data.y)), self.places)

    def spread_out(self, of_told: Sequence[FloatArray], of_unknown: Sequence[FloatArray]) -> list[FloatArray]:
        """What models say of all rows with an outcome, from what they say of the told and of the others."""
        assert self.places is not None
        whole = []
        for told, others in zip(of_told, of_unknown, strict=True):
            each = np.empty((len(self.data.y), told.shape[1]))
            each[self.places], each[self.unknown()] = told, others
            whole.append(each)
        return whole

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
            other_table=self.places is None,
        )


def check_sensitive_data(
    sensitive_data: Any, X: Any, sensitive_features: Any, *, aware: bool, within: bool
) -> tuple[Any, Any]:
    """The table and the groups of people whose outcome is not known, refused where they cannot serve.

    They cannot where the model is `aware`, nor where parity is asked for `within` outcomes.
    """
    if sensitive_features is not None:
        raise ValueError(
            "Pass sensitive_features, the groups of the rows of X, or sensitive_data, other people and their "
            "groups, but not both. Rows of X whose group is not known may have None in sensitive_features."
        )
    if aware:
        raise ValueError(
            "aware=True needs the group of every row of X: pass sensitive_features, not sensitive_data."
        )
    if within:
        raise ValueError(
            "Parity within outcomes takes people of whom both outcome and group are known: pass their groups "
            "as sensitive_features (None where one is not known), not sensitive_data."
        )
    if not isinstance(sensitive_data, tuple | list) or len(sensitive_data) != 2:
        raise ValueError(
            "sensitive_data must be a pair (X_other, groups), features and groups of the same people: got "
            f"{type(sensitive_data).__name__}."
        )
    (other,) = indexable(sensitive_data[0])
    require_table(other)
    names, of_other = (_get_feature_names(table) for table in (X, other))
    same_names = names is None or of_other is None or np.array_equal(names, of_other)
    if _num_features(other) != _num_features(X) or not same_names:
        raise ValueError(
            "The table of sensitive_data must have the columns of X, in their order: it has "
            f"{_named(other, of_other)}, and X has {_named(X, names)}."
        )
    return other, sensitive_data[1]


def _named(X: Any, names: Any) -> str:
    return f"{_num_features(X)} columns" if names is None else ", ".join(map(str, names[:20]))


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
