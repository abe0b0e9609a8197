"""The rows of a fit: their table, and their outcomes, groups and weights if known.

Outcomes and groups can be known for different rows. A table has an outcome for every row or for none, and a
group for every row, some rows or none. The rest of a fit uses two views: the rows with an outcome (`labeled`)
and the rows with a group (`grouped`). The latter are the same rows, a subset, or rows of another table.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_consistent_length

from evenhand._utils.labels import Groups, label_text
from evenhand._utils.stored import Stored, is_count, is_finite
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, as_floats, check_weights
from evenhand._utils.weights import scale_weights
from evenhand.data.groups import attribute_columns, check_attributes, encode_attributes
from evenhand.estimators.folds import make_folds, rows_of_folds
from evenhand.estimators.strata import Strata, combined_codes

OTHER_TABLE = object()  # replaces sensitive_features if the groups come from another table


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows of one table that was passed to `fit`, with their outcomes, groups and weights if known."""

    source: str  # name of the argument of `fit`
    places: IntArray  # positions of the rows in that table, increasing
    X: Any
    y: AnyArray | None = None  # outcomes, (n_rows,)
    attributes: Sequence[Groups] = ()  # groups by attribute, each known for the same rows; (): no groups
    weights: FloatArray | None = None
    fold: IntArray | None = None  # fold of each row, if models are fitted on the table

    @classmethod
    def of(cls, source: str, X: Any, **known: Any) -> "Table":
        """Return all rows of a table."""
        return cls(source, np.arange(_num_samples(X)), X, **known)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.places)

    @property
    def knows_all_groups(self) -> bool:
        """Whether the group of every row is known."""
        return bool(self.attributes) and bool(self.attributes[0].known.all())

    @property
    def soft(self) -> bool:
        """Whether groups are given as probabilities."""
        return any(groups.proba is not None for groups in self.attributes)

    @property
    def folds_of_rows(self) -> IntArray:
        """Fold of each row, of a table that a model is fitted on."""
        assert self.fold is not None
        return self.fold

    def folds(self) -> list[IntArray]:
        """Places of the rows of each fold, among the rows of this table."""
        return rows_of_folds(self.folds_of_rows)

    def take(self, rows: IntArray) -> "Table":
        """Return some of the rows; labels of groups without rows are kept."""
        return replace(
            self,
            places=self.places[rows],
            X=_safe_indexing(self.X, rows),
            y=None if self.y is None else self.y[rows],
            attributes=[groups.at(rows) for groups in self.attributes],
            weights=None if self.weights is None else self.weights[rows],
            fold=None if self.fold is None else self.fold[rows],
        )

    def of_known_groups(self) -> "Table":
        """Return the rows with known group; the table itself if all groups are known."""
        return self if self.knows_all_groups else self.take(np.flatnonzero(self.attributes[0].known))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSummary(Stored):
    """Number of rows of a fit with known group, in total and by group."""

    n_rows: int  # number of rows with an outcome
    n_known: int  # number of these rows, or of rows of the other table, with a known group
    groups: Labels  # groups of all attributes, in the order of the attributes
    counts: FloatArray  # rows of each group, or sums of its probabilities, (n_groups,)
    soft: bool = False  # groups were given as probabilities
    other_table: bool = False  # groups came from another table

    def faults(self) -> Iterator[str]:
        """Check that there is a count for each group."""
        if not is_count(self.n_rows) or not is_count(self.n_known):
            yield "its numbers of rows are not whole numbers from 0 on"
        elif type(self.groups) is not tuple or not is_finite(self.counts, len(self.groups)):
            yield "its counts are not one number for each group"
        elif type(self.soft) is not bool or type(self.other_table) is not bool:
            yield "its soft or its other_table is neither true nor false"

    @property
    def n_unknown(self) -> int:
        """Number of rows with an outcome and an unknown group."""
        return self.n_rows if self.other_table else self.n_rows - self.n_known

    @property
    def sentence(self) -> str:
        """A sentence about the known groups; empty if the group of every row was known."""
        if not self.n_unknown and not self.soft:
            return ""
        counts = zip(self.groups, self.counts.tolist(), strict=True)
        named = ", ".join(f"{label_text(group)}: {round(count):,}" for group, count in counts)
        text = f"The group of {self.n_known:,} of {self.n_rows:,} rows was known"
        if self.other_table:
            text = f"The groups were learned from {self.n_known:,} rows of another table"
        if not self.soft:
            return f"{text} ({named})."
        return (
            f"{text} by probabilities only ({named}): all figures by group assume that these probabilities "
            "are correct for any prediction."
        )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Rows with an outcome, rows with a group, and the strata within which groups are compared."""

    labeled: Table  # every row has an outcome
    grouped: Table  # every row has a group
    strata: Strata

    @property
    def target(self) -> AnyArray:
        """The outcomes of `labeled`."""
        assert self.labeled.y is not None
        return self.labeled.y

    @property
    def same_table(self) -> bool:
        """Whether rows with a group are among those with an outcome."""
        return self.grouped.source == self.labeled.source

    def targets(self) -> list[Groups]:
        """Return the target of the model of each attribute, for the rows of `grouped`."""
        return self.strata.model_targets(self.grouped.attributes, self.grouped.y)

    def step_rows(self, unlabeled: Table | None, *, aware: bool) -> Table:
        """Return the rows of the parity step; an aware step needs the group of each row."""
        if unlabeled is not None:
            return unlabeled
        return self.grouped if aware else self.labeled

    def summary(self) -> GroupSummary:
        """Return the number of rows with known group, in total and by group."""
        attributes = self.grouped.attributes
        return GroupSummary(
            n_rows=self.labeled.n_rows,
            n_known=self.grouped.n_rows,
            groups=tuple(label for groups in attributes for label in groups.labels),
            counts=np.concatenate([groups.one_hot().sum(axis=0) for groups in attributes]),
            soft=self.grouped.soft,
            other_table=not self.same_table,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ReadSettings:
    """Parameters of the estimator that determine groups and folds."""

    cv: Any
    attributes: str
    min_group_size: int
    small_groups: str
    seed: int


def read_labeled(
    X: Any,
    target: AnyArray,
    sensitive_features: Any,
    sample_weight: Any,
    settings: ReadSettings,
    find_classes: Callable[[AnyArray], Labels | None],
) -> tuple[Table, Labels | None, Labels]:
    """Read the rows of positive weight; return their table, the classes and the names of the attributes.

    `sensitive_features` is `OTHER_TABLE` if the groups come from another table.
    """
    check_consistent_length(X, target)
    weights = None if sample_weight is None else as_floats(sample_weight, "sample_weight")
    used = np.ones(len(target), bool)
    if weights is not None:
        used = check_weights(weights, len(target)) > 0
        weights = scale_weights(weights, used)
    columns, attributes = {}, list[Groups]()
    if sensitive_features is not OTHER_TABLE:
        columns = attribute_columns(sensitive_features, len(target), settings.attributes)
        known = columns.values() if used.all() else [groups.take(used) for groups in columns.values()]
        attributes = check_attributes(known, settings.min_group_size, settings.small_groups)
    kept = target[used]
    classes = find_classes(kept)
    codes = combined_codes(attributes, kept, classes)
    fold = make_folds(settings.cv, X, used, attributes, codes, settings.seed)
    if weights is not None and not used.all():
        X, weights = _safe_indexing(X, np.flatnonzero(used)), weights[used]
    table = Table.of("X", X, y=kept, attributes=attributes, weights=weights, fold=fold)
    return table, classes, tuple(columns)


def read_other_table(X: Any, groups: Any, settings: ReadSettings) -> tuple[Table, Labels]:
    """Return the rows of `sensitive_data` with known group, and the names of the attributes."""
    columns = attribute_columns(groups, _num_samples(X), settings.attributes, "sensitive_data")
    known = next(iter(columns.values())).known
    if not known.all():
        X = _safe_indexing(X, np.flatnonzero(known))
        columns = {name: each.take(known) for name, each in columns.items()}
    attributes = check_attributes(columns.values(), settings.min_group_size, settings.small_groups)
    cv = settings.cv
    cv = cv if cv is None or isinstance(cv, Integral) or hasattr(cv, "split") else None
    all_rows = np.ones(_num_samples(X), bool)
    codes = combined_codes(attributes, None, None)
    fold = make_folds(cv, X, all_rows, attributes, codes, settings.seed)
    return Table.of("sensitive_data", X, attributes=attributes, fold=fold), tuple(columns)


def read_unlabeled(X: Any, sensitive_features: Any, strata: Strata, *, aware: bool) -> Table | None:
    """Return the rows of `X_unlabeled`, with their groups if these are labels or the model is aware."""
    if X is None:
        if sensitive_features is not None:
            raise ValueError(
                "sensitive_features_unlabeled was given without X_unlabeled. Pass both, or neither."
            )
        return None
    table = Table.of("X_unlabeled", X)
    if sensitive_features is not None:
        name = "sensitive_features_unlabeled"
        given = encode_attributes(sensitive_features, table.n_rows, strata, name)
        # the calibration of a model cannot be measured against other probabilities
        return (
            replace(table, attributes=given)
            if aware or not any(g.proba is not None for g in given)
            else table
        )
    if aware:
        raise ValueError(
            "aware=True needs the group of every row of X_unlabeled: pass sensitive_features_unlabeled."
        )
    return table
