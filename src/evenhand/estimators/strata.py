"""Strata within which groups are compared, and the probability columns of each row.

A column has `P(S = s, Z = z | x)` for a group s and a stratum z. The stratum is a value of the legitimate
factor, an attribute, an outcome, or a combination of these. For plain demographic parity there is one
stratum, and the columns are the group probabilities.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import Groups, combine_codes, match_groups, read_groups, soft_groups
from evenhand._utils.stored import Stored
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels
from evenhand.data.groups import PAIR
from evenhand.estimators.models import class_codes

CRITERIA = ("demographic_parity", "equalized_odds", "equal_opportunity")
JOINTS = ("auto", "classifier", "product")


@dataclass(frozen=True, slots=True, eq=False)
class Strata(Stored):
    """Which groups a fitted model compares, and within which strata."""

    names: Labels  # names of the attributes, one per model of the group; a tuple for combined columns
    groups: tuple[Labels, ...]  # groups of each attribute
    separate: bool  # the attribute is part of the stratum
    classes: Labels | None = None  # all classes of a classification outcome
    outcomes: Labels | None = None  # classes within which groups are compared
    factors: Labels | None = None  # values of the legitimate factor, if there is one
    joint: bool = False  # the models of the group predict pairs of class and group

    def faults(self) -> Iterator[str]:
        """Check that labels are tuples, that each attribute has groups, and that outcomes are classes."""
        listed = (self.names, self.groups, *(self.groups if type(self.groups) is tuple else ()))
        optional = (self.classes, self.outcomes, self.factors)
        if not all(type(labels) is tuple for labels in listed) or not all(
            isinstance(labels, tuple | None) for labels in optional
        ):
            yield "its labels are not tuples"
        elif not all(isinstance(label, Hashable) for labels in listed + optional for label in labels or ()):
            yield "its labels are not hashable"
        elif len(self.names) != len(self.groups) or not self.names:
            yield "it does not have groups for each attribute"
        elif self.outcomes is not None and not set(self.outcomes) <= set(self.classes or ()):
            yield "its outcomes are not among its classes"
        if type(self.separate) is not bool or type(self.joint) is not bool:
            yield "its separate or its joint is neither true nor false"

    @property
    def is_plain(self) -> bool:
        """Whether this is plain demographic parity: one set of groups, with columns that sum to one."""
        return not self.separate and self.outcomes is None and self.factors is None

    @property
    def sensitive_columns(self) -> Labels:
        """Names of the columns of the sensitive features, or their positions if they have no names."""
        together = self.names[0]
        return together if not self.separate and isinstance(together, tuple) else self.names

    def pairs(self) -> list[tuple[Hashable, Hashable]]:
        """Return the stratum and the group of each column, in order."""
        found: list[tuple[Hashable, Hashable]] = []
        for factor in self.factors or (None,):
            for name, groups in zip(self.names, self.groups, strict=True):
                for outcome in self.outcomes or (None,):
                    found += [(self._stratum(factor, name, outcome), group) for group in groups]
        return found

    def labels(self) -> Labels:
        """Return the label of each column: the group, or `(stratum, group)`."""
        return self.groups[0] if self.is_plain else tuple(self.pairs())

    def codes(self) -> IntArray | None:
        """Return the stratum of each column as a code 0, 1, ...; None if there is only one stratum."""
        if self.is_plain:
            return None
        order: dict[Hashable, int] = {}
        return np.array([order.setdefault(stratum, len(order)) for stratum, _ in self.pairs()])

    def model_labels(self, attribute: int) -> Labels:
        """Return the labels that the model of an attribute predicts: groups, or pairs of class and group."""
        groups = self.groups[attribute]
        return tuple(product(self.classes or (), groups)) if self.joint else groups

    def blocks(
        self, modelled: Sequence[FloatArray], scores: FloatArray, known: Sequence[FloatArray] | None
    ) -> list[FloatArray]:
        """Return the blocks for `columns` from the outputs of the models for each attribute.

        With `known`, zeros and ones for each attribute, these are the groups, and the models are used for the
        outcomes only.
        """
        if self.outcomes is None:
            return list(modelled if known is None else known)
        if not self.joint:
            groups = modelled if known is None else known
            return [_times(scores[:, :, None], shares) for shares in groups]
        if known is None:
            return list(modelled)
        joints = [joint.reshape(*scores.shape, -1) for joint in modelled]
        totals = [np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(float).tiny) for joint in joints]
        return [
            _times(joint / total, shares) for joint, total, shares in zip(joints, totals, known, strict=True)
        ]

    def columns(self, blocks: Sequence[FloatArray], factor_codes: IntArray | None) -> FloatArray:
        """Return the columns of rows, (n_rows, n_columns).

        `blocks` has one array per attribute: `P(S = s | x)`, (n_rows, n_groups), or, if groups are compared
        within outcomes, `P(Y = y, S = s | x)`, (n_rows, n_classes * n_groups).
        """
        if self.outcomes is not None:
            assert self.classes is not None
            wanted = [self.classes.index(outcome) for outcome in self.outcomes]
            shapes = [(len(block), len(self.classes), -1) for block in blocks]
            blocks = [
                block.reshape(shape)[:, wanted].reshape(len(block), -1)
                for block, shape in zip(blocks, shapes, strict=True)
            ]
        inner = np.hstack(list(blocks))
        if self.factors is None:
            return inner
        assert factor_codes is not None
        within = factor_codes[:, None] == np.arange(len(self.factors))
        outer: FloatArray = (within[:, :, None] * inner[:, None, :]).reshape(len(inner), -1)
        return outer

    def known_columns(
        self, attributes: Sequence[Groups], target: AnyArray | None, factor_codes: IntArray | None
    ) -> FloatArray:
        """Return the columns of rows with known groups: zeros and ones, or the given probabilities."""
        blocks = [groups.one_hot() for groups in attributes]
        if self.outcomes is not None:
            if target is None:
                raise ValueError("Parity within outcomes is measured on rows with known outcome: pass y.")
            assert self.classes is not None
            outcomes = np.eye(len(self.classes))[class_codes(target, self.classes)]
            blocks = [_times(outcomes[:, :, None], shares) for shares in blocks]
        return self.columns(blocks, factor_codes)

    def model_targets(self, attributes: Sequence[Groups], target: AnyArray | None) -> list[Groups]:
        """Return the target of the model of each attribute: its groups, or pairs of class and group."""
        if not self.joint:
            return list(attributes)
        assert target is not None
        outcomes, targets = class_codes(target, self.classes or ()), []
        for place, groups in enumerate(attributes):
            labels = self.model_labels(place)
            if groups.proba is None:
                targets.append(Groups(labels, outcomes * len(groups.labels) + groups.codes, PAIR))
            else:
                pairs = np.eye(len(self.classes or ()))[outcomes][:, :, None] * groups.proba[:, None, :]
                targets.append(soft_groups(labels, pairs.reshape(len(pairs), -1), PAIR))
        return targets

    def require_rows(
        self, attributes: Sequence[Groups], target: AnyArray | None, factor_codes: IntArray | None, least: int
    ) -> None:
        """Check that each group has enough rows in every stratum and, for joint models, in every class."""
        if self.is_plain:
            return
        sizes = self.known_columns(attributes, target, factor_codes).sum(axis=0)
        worst = int(sizes.argmin())
        if sizes[worst] < least:
            stratum, group = self.pairs()[worst]
            raise ValueError(
                f"Group {group!r} has {int(sizes[worst])} labeled rows in stratum {stratum!r}, fewer than "
                f"min_group_size={least}: its distribution cannot be estimated from so few rows. Join groups "
                "or strata, collect more rows, or lower min_group_size."
            )
        for targets in self.model_targets(attributes, target) if self.joint else ():
            absent = np.flatnonzero(targets.sizes() == 0)
            if len(absent):
                raise ValueError(
                    "To learn class and group together, every class needs rows of every group: there is "
                    f"no row with (class, group) {targets.labels[absent[0]]!r}. Join groups or classes, or "
                    'multiply two models with joint="product".'
                )

    def _stratum(self, factor: Hashable, name: Hashable, outcome: Hashable) -> Hashable:
        there = (self.factors is not None, self.separate, self.outcomes is not None)
        parts = [part for part, used in zip((factor, name, outcome), there, strict=True) if used]
        return parts[0] if len(parts) == 1 else tuple(parts)


def _times(outcomes: FloatArray, groups: FloatArray) -> FloatArray:
    """Return `P(Y | x, S) P(S | x)`, (n_rows, n_classes * n_groups)."""
    return (outcomes * groups[:, None, :]).reshape(len(groups), -1)


def choose_outcomes(criterion: str, classes: Labels, pos_label: object) -> Labels | None:
    """Return the classes within which `criterion` compares groups; None: it compares them in all rows.

    >>> choose_outcomes("equal_opportunity", ("no", "yes"), None)
    ('yes',)
    """
    if criterion not in CRITERIA:
        raise ValueError(f"Unknown criterion {criterion!r}. Valid names: {', '.join(CRITERIA)}.")
    if criterion == "demographic_parity":
        return None
    if criterion == "equalized_odds":
        return classes
    if pos_label is None:
        if len(classes) != 2:
            raise ValueError(
                f"equal_opportunity needs pos_label, the class (or list of classes) that counts as an "
                f"opportunity: there are {len(classes)} classes, {', '.join(map(repr, classes))}."
            )
        return classes[1:]
    wanted = tuple(pos_label) if isinstance(pos_label, list | tuple | set | np.ndarray) else (pos_label,)
    unknown = [label for label in wanted if label not in classes]
    if unknown or not wanted:
        raise ValueError(f"pos_label must be among {', '.join(map(repr, classes))}: got {pos_label!r}.")
    return tuple(label for label in classes if label in wanted)


def read_factor(X: Any, conditional_on: Any) -> Groups:
    """Return the value of the legitimate factor in each row: one column of X, or several combined."""
    keys = conditional_on if isinstance(conditional_on, list | tuple) else [conditional_on]
    try:
        columns = _safe_indexing(X, list(keys), axis=1)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ValueError(
            f"conditional_on must name columns of X, by name or by number: got {conditional_on!r} ({error})."
        ) from error
    columns = columns.toarray() if hasattr(columns, "toarray") else columns
    return read_groups(columns, _num_samples(X), "conditional_on")


def factor_codes(X: Any, conditional_on: Any, strata: Strata) -> IntArray | None:
    """Return the code of the legitimate factor in each row; None if there is no factor."""
    if strata.factors is None:
        return None
    return match_groups(read_factor(X, conditional_on), strata.factors, "conditional_on").codes


def factor_values(X: Any, conditional_on: Any) -> Labels | None:
    """Return all values of the legitimate factor, sorted; None if there is no factor."""
    return None if conditional_on is None else read_factor(X, conditional_on).labels


def combined_codes(attributes: Sequence[Groups], target: AnyArray | None, classes: Labels | None) -> IntArray:
    """Return a code for each combination of groups and classes; unknown groups count as a group."""
    codes = [groups.codes if groups.known.all() else groups.codes + 1 for groups in attributes]
    if classes is not None and target is not None:
        codes.append(class_codes(target, classes))
    return combine_codes(codes) if codes else np.zeros(0 if target is None else len(target), np.int64)
