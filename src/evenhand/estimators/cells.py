"""Which parity is asked for: what columns a row has, and the strata within which groups are compared.

A column is a cell, and holds `P(S = s, Z = z | x)` for a group s and a stratum z. The stratum is a value of
the legitimate factor, an attribute, an outcome, or several of these together; for plain demographic parity
there is one, and the columns are the groups' probabilities.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from evenhand._utils.stored import Stored
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels

CRITERIA = ("demographic_parity", "equalized_odds", "equal_opportunity")
ATTRIBUTES = ("combined", "separate")
JOINTS = ("auto", "classifier", "product")


@dataclass(frozen=True, slots=True, eq=False)
class Cells(Stored):
    """The cells of a fitted model."""

    names: Labels  # of the attributes, one for each model of the group; of columns taken together a tuple
    groups: tuple[Labels, ...]  # of each attribute
    separate: bool  # the attribute is part of the stratum
    classes: Labels | None = None  # all outcomes, where the stratum has one
    outcomes: Labels | None = None  # those within which parity is asked for
    factors: Labels | None = None  # values of the legitimate factor, where the stratum has one
    joint: bool = False  # the models of the group tell outcomes apart, too

    def faults(self) -> Iterator[str]:
        """Lists of labels, groups for each attribute, and outcomes that are classes."""
        listed = (self.names, self.groups, *(self.groups if type(self.groups) is tuple else ()))
        optional = (self.classes, self.outcomes, self.factors)
        if not all(type(labels) is tuple for labels in listed) or not all(
            isinstance(labels, tuple | None) for labels in optional
        ):
            yield "its labels are not listed"
        elif not all(isinstance(label, Hashable) for labels in listed + optional for label in labels or ()):
            yield "its labels are not labels"
        elif len(self.names) != len(self.groups) or not self.names:
            yield "it does not have groups for each attribute"
        elif self.outcomes is not None and not set(self.outcomes) <= set(self.classes or ()):
            yield "its outcomes are not among its classes"
        if type(self.separate) is not bool or type(self.joint) is not bool:
            yield "its switches are not yes or no"

    @property
    def is_plain(self) -> bool:
        """Whether this is demographic parity of one set of groups, with columns that sum to one."""
        return not self.separate and self.outcomes is None and self.factors is None

    @property
    def sensitive_columns(self) -> Labels:
        """Names of the columns of the sensitive features, or their numbers where they had none."""
        together = self.names[0]
        return together if not self.separate and isinstance(together, tuple) else self.names

    def pairs(self) -> list[tuple[Hashable, Hashable]]:
        """Stratum and group of each column, in order."""
        found: list[tuple[Hashable, Hashable]] = []
        for factor in self.factors or (None,):
            for name, groups in zip(self.names, self.groups, strict=True):
                for outcome in self.outcomes or (None,):
                    found += [(self._stratum(factor, name, outcome), group) for group in groups]
        return found

    def labels(self) -> Labels:
        """Label of each column: the group, or `(stratum, group)`."""
        return self.groups[0] if self.is_plain else tuple(self.pairs())

    def strata(self) -> IntArray | None:
        """Stratum of each column from 0 on, or None where there is one."""
        if self.is_plain:
            return None
        order: dict[Hashable, int] = {}
        return np.array([order.setdefault(stratum, len(order)) for stratum, _ in self.pairs()])

    def model_labels(self, attribute: int) -> Labels:
        """What the model of an attribute tells apart: groups, or outcome and group."""
        groups = self.groups[attribute]
        return tuple(product(self.classes or (), groups)) if self.joint else groups

    def blocks(
        self, modelled: Sequence[FloatArray], scores: FloatArray, known: Sequence[FloatArray] | None
    ) -> list[FloatArray]:
        """What `columns` takes, from what the models say of each attribute.

        With `known`, zeros and ones for each attribute, the groups are these, and models have a say about
        outcomes alone.
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
        """Columns of rows, (n_rows, n_cells).

        `blocks` holds for each attribute `P(S = s | x)`, (n_rows, n_groups), or, where the stratum has an
        outcome, `P(Y = y, S = s | x)`, (n_rows, n_classes * n_groups).
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
        self, groups: Sequence[FloatArray], outcomes: FloatArray | None, factor_codes: IntArray | None
    ) -> FloatArray:
        """Columns of rows of which all is known, zeros and ones, (n_rows, n_cells).

        `groups` and `outcomes` are zeros and ones, too, (n_rows, n_groups) and (n_rows, n_classes).
        """
        blocks = list(groups)
        if self.outcomes is not None:
            assert outcomes is not None
            blocks = [_times(outcomes[:, :, None], shares) for shares in groups]
        return self.columns(blocks, factor_codes)

    def _stratum(self, factor: Hashable, name: Hashable, outcome: Hashable) -> Hashable:
        there = (self.factors is not None, self.separate, self.outcomes is not None)
        parts = [part for part, used in zip((factor, name, outcome), there, strict=True) if used]
        return parts[0] if len(parts) == 1 else tuple(parts)


def _times(outcomes: FloatArray, groups: FloatArray) -> FloatArray:
    """`P(Y | x, S) P(S | x)`, (n_rows, n_classes * n_groups)."""
    return (outcomes * groups[:, None, :]).reshape(len(groups), -1)


def choose_outcomes(criterion: str, classes: Labels, pos_label: object) -> Labels | None:
    """The classes within which `criterion` compares groups.

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
                f"equal_opportunity needs pos_label, the class (or a list of them) that counts as an "
                f"opportunity: there are {len(classes)} classes, {', '.join(map(repr, classes))}."
            )
        return classes[1:]
    wanted = tuple(pos_label) if isinstance(pos_label, list | tuple | set | np.ndarray) else (pos_label,)
    unknown = [label for label in wanted if label not in classes]
    if unknown or not wanted:
        raise ValueError(f"pos_label must be among {', '.join(map(repr, classes))}: got {pos_label!r}.")
    return tuple(label for label in classes if label in wanted)
