"""Labelled rows from a table: features, target, groups and weights, each by the name of its column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.model_selection import train_test_split

from evenhand._utils.labels import OTHER
from evenhand._utils.text import plain, text_array
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.cli.errors import DataError, UsageError
from evenhand.data.groups import look_like_a_number, numbers_text
from evenhand.estimators.folds import pool_rare
from evenhand.tables.columns import (
    BETWEEN,
    as_groups,
    as_ids,
    as_moments,
    as_numbers,
    as_texts,
    find_column,
    find_kind,
    find_missing_ids,
)
from evenhand.tables.formats import require_columns
from evenhand.tables.strays import find_strays

SPLIT_SEED = 0
READERS = {"number": as_numbers, "moment": as_moments, "text": as_texts}  # of the kinds of features
ReadTarget = Callable[[pa.Table, str], AnyArray]


@dataclass(frozen=True, slots=True)
class Parts:
    """Which columns play which part."""

    target: str | None = None
    sensitive: tuple[str, ...] = ()
    weight: str | None = None
    id: str | None = None
    features: tuple[str, ...] = ()  # empty: all that are left
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()  # text, even where they look like numbers
    separate: bool = False  # each sensitive column is an attribute of its own

    def feature_names(self, present: Sequence[str]) -> list[str]:
        """The columns to learn from; the group and the target are never among them."""
        kept = [name for name in (self.target, *self.sensitive, self.weight, self.id) if name is not None]
        require_columns(present, [*kept, *self.features, *self.drop, *self.categorical])
        for name in (self.target, *self.sensitive):
            if name is not None and name in self.features:
                raise UsageError(f"Column {plain(name)} cannot be a feature: it is the target or the group.")
        names = [
            name
            for name in self.features or present
            if name not in self.drop and (self.features or name not in kept)
        ]
        if not names:
            raise UsageError("No column is left to learn from: see --features and --drop.")
        return names


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Rows to learn from or to measure on."""

    X: pd.DataFrame
    y: AnyArray | None  # (n_rows,)
    groups: pd.DataFrame  # text: one column, or one for each attribute where these are separate
    weights: FloatArray | None  # (n_rows,)
    ids: AnyArray | None = None  # who each row is, (n_rows,)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def labels(self) -> AnyArray:
        """The group of each row; of several attributes, their combination."""
        columns = [self.groups[name].astype(str) for name in self.groups]
        labels: AnyArray = columns[0].str.cat(columns[1:], sep=BETWEEN).to_numpy(dtype=object)
        return labels

    def take(self, rows: IntArray) -> "LabelledRows":
        """Some of the rows."""
        return LabelledRows(
            self.X.iloc[rows].reset_index(drop=True),
            None if self.y is None else self.y[rows],
            self.groups.iloc[rows].reset_index(drop=True),
            None if self.weights is None else self.weights[rows],
            None if self.ids is None else self.ids[rows],
        )

    def fit_arguments(self) -> dict[str, Any]:
        """What `fit` takes beside X and y."""
        return {"sensitive_features": self.groups, "sample_weight": self.weights}

    def known(self) -> dict[str, Any]:
        """All that is known, as `test` of `evenhand.frontier` has it."""
        return {"X": self.X, "y": self.y, **self.fit_arguments()}


def find_kinds(table: pa.Table, parts: Parts) -> dict[str, str]:
    """The kind of each feature of a table to learn from."""
    return feature_kinds(table, parts.feature_names(table.column_names), parts.categorical)


def stray_notes(table: pa.Table, names: Sequence[str], categorical: Sequence[str] = ()) -> list[str]:
    """Refuse columns of numbers or dates with a few cells of another kind; notes where they may be codes."""
    notes = []
    for name in names:
        strays = None if name in categorical else find_strays(table, name)
        if strays is None:
            continue
        if not strays.may_be_codes:
            raise DataError(
                f"{strays}, which would make it a column of categories. Mend them, or say --na TEXT where "
                f"they mean a missing value, --categorical {plain(name)} where all are codes, or --drop "
                f"{plain(name)}."
            )
        notes.append(f"{strays}: it is taken for a column of categories. See --na, --categorical and --drop.")
    return notes


def feature_kinds(table: pa.Table, names: Sequence[str], categorical: Sequence[str] = ()) -> dict[str, str]:
    """The kinds of the named columns, by what they hold."""
    return {name: "text" if name in categorical else find_kind(find_column(table, name)) for name in names}


def make_features(table: pa.Table, kinds: Mapping[str, str], first_row: int = 1) -> pd.DataFrame:
    """The columns that `kinds` names, in its order: floats with NaN, and texts with None."""
    return pd.DataFrame(
        {
            name: pd.Series(READERS[kind](table, name, first_row), dtype=object if kind == "text" else float)
            for name, kind in kinds.items()
        }
    )


def read_rows(
    table: pa.Table,
    parts: Parts,
    kinds: Mapping[str, str],
    read_target: ReadTarget = as_numbers,
    *,
    to_learn: bool = False,
) -> tuple[LabelledRows, list[str]]:
    """The rows whose target and group are known, and a note for those that were left out.

    Rows `to_learn` from need no group: they teach the outcome, and serve the parity step.
    """
    require_columns(table.column_names, [*parts.sensitive, *kinds])
    groups = _read_groups(table, parts)
    grouped = groups.notna().all(axis=1).to_numpy(copy=True)
    known = np.ones(len(grouped), bool) if to_learn else grouped
    notes = (_used_all_the_same if to_learn else _left_out)(grouped, BETWEEN.join(parts.sensitive))
    target = None
    if parts.target is not None:
        target = read_target(table, parts.target)
        has_target = ~pd.isna(target)
        notes += _left_out(has_target, parts.target)
        known = known & has_target
    weights = None if parts.weight is None else as_numbers(table, parts.weight)
    rows = np.flatnonzero(known)
    if not (known & grouped).any():
        raise DataError("No row has both a target and a group.")
    ids = None
    if parts.id is not None:
        fault = find_missing_ids(table, parts.id)
        if fault is None:
            ids = np.fromiter(as_ids(table, parts.id), dtype=object)
        else:
            notes.append(f"{fault} Predictions that are measured here are drawn by the features instead.")
    found = LabelledRows(make_features(table, kinds), target, groups, weights, ids).take(rows)
    if found.y is not None and found.y.dtype == object:  # text, and none of it is missing now
        found = replace(found, y=text_array(found.y))
    return found, notes


def _read_groups(table: pa.Table, parts: Parts) -> pd.DataFrame:
    if parts.separate:
        return pd.DataFrame({name: as_texts(table, name) for name in parts.sensitive}, dtype=object)
    return pd.DataFrame({BETWEEN.join(parts.sensitive): as_groups(table, parts.sensitive)}, dtype=object)


def _left_out(known: AnyArray, name: str) -> list[str]:
    missing = int(np.sum(~known))
    return [f"{missing} of {len(known)} rows are left out: they have no {plain(name)}."] if missing else []


def _used_all_the_same(grouped: AnyArray, name: str) -> list[str]:
    missing = int(np.sum(~grouped))
    if not missing:
        return []
    return [
        f"{missing} of {len(grouped)} rows have no {plain(name)}: they teach the outcome, and serve the "
        "parity step without a group."
    ]


def check_groups(rows: LabelledRows, smallest: int, *, merge: bool) -> LabelledRows:
    """The rows with small groups merged into one, or an error that names them."""
    checked = {name: _check_attribute(rows.groups[name], smallest, merge=merge) for name in rows.groups}
    return replace(rows, groups=pd.DataFrame(checked, dtype=object))


def _check_attribute(groups: pd.Series, smallest: int, *, merge: bool) -> pd.Series:
    counts = groups.value_counts().sort_index()
    small = counts[counts < smallest]
    if len(small) and merge:
        groups = groups.where(~groups.isin(small.index), OTHER)
        counts = groups.value_counts().sort_index()
        if counts[OTHER] < smallest:
            raise DataError(
                f"Groups with fewer rows than {smallest} are merged, and still too few: {OTHER} "
                f"({counts[OTHER]}). --min-group-size sets the limit."
            )
        small = counts[:0]
    if len(small):
        named = ", ".join(f"{plain(label)} ({count})" for label, count in list(small.items())[:5])
        named += ", ..." if len(small) > 5 else ""
        raise DataError(
            f"Groups with fewer rows than {smallest}: {named}. --merge-small joins them into one group, and "
            "--min-group-size sets the limit."
        )
    if len(counts) < 2:
        raise DataError(
            f"All {counts.sum()} rows are in one group, {plain(counts.index[0])}: parity needs two."
        )
    return groups


def number_notes(rows: LabelledRows) -> list[str]:
    """A note for each attribute that looks like a number, such as an age, and not like a label."""
    notes = []
    for name in rows.groups:
        labels = pd.to_numeric(pd.Series(rows.groups[name].dropna().unique()), errors="coerce")
        if labels.notna().all() and look_like_a_number(sorted(labels.tolist())):
            notes.append(f"column {plain(name)} {numbers_text(sorted(labels.tolist()))}")
    return notes


def split(rows: LabelledRows, held_out: float) -> tuple[LabelledRows, LabelledRows | None]:
    """The rows to fit on, and a share of each group to measure on; rows without a group are for the fit."""
    if held_out == 0.0:
        return rows, None
    grouped = rows.groups.notna().all(axis=1).to_numpy()
    known = np.flatnonzero(grouped)
    codes = pool_rare(np.unique(text_array(rows.labels[known]), return_inverse=True)[1], 2)
    fit, test = train_test_split(known, test_size=held_out, stratify=codes, random_state=SPLIT_SEED)
    return rows.take(np.sort(np.append(fit, np.flatnonzero(~grouped)))), rows.take(np.sort(test))
