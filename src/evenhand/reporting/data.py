"""A short summary of the rows that a report is made from."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._utils.missing import is_missing
from evenhand._utils.typing import FloatArray
from evenhand.metrics import ScoredRows
from evenhand.reporting.facts import Data, Feature
from evenhand.reporting.words import number, percent

MOST_FEATURES = 200  # described one by one
MOST_VALUES = 3  # of a column of text, named
FEWEST_NAMED = 10  # rows with a value that is named: a rarer one may tell who somebody is


def summarise(X: Any, rows: ScoredRows, classes: Any = None) -> Data:
    """The rows in a few words and numbers."""
    features, n_features = ((), 0) if isinstance(X, tuple) else _features(X)
    return Data(
        n_rows=len(rows.scores),
        n_features=n_features,
        weighted=rows.members.has_weights,
        features=tuple(features),
        outcome="" if rows.target is None else _values(rows.target, classes),
        scores=_values(rows.scores, classes),
    )


def _features(X: Any) -> tuple[list[Feature], int]:
    """The first columns, and how many there are."""
    native = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        named = zip(native.columns, native.iter_columns(), strict=True)
        return [_column(str(name), each) for name, each in islice(named, MOST_FEATURES)], native.shape[1]
    shape = getattr(X, "shape", None) or np.shape(X)
    if hasattr(X, "toarray") or len(shape) != 2:  # a sparse matrix: too wide to describe
        return [], int(shape[1]) if len(shape) == 2 else 0
    table = np.asarray(X)
    described = [
        _numeric(f"column {place}", column)
        if column.dtype.kind in "biuf"
        else _other(f"column {place}", column)
        for place, column in enumerate(table.T[:MOST_FEATURES])
    ]
    return described, table.shape[1]


def _column(name: str, column: Any) -> Feature:
    if column.dtype.is_numeric():
        missing = column.is_null().to_numpy()
        return _numeric(name, np.where(missing, np.nan, column.fill_null(0).to_numpy().astype(np.float64)))
    return _other(name, column.to_list())


def _numeric(name: str, values: Any) -> Feature:
    known = values[np.isfinite(values)].astype(np.float64)
    return Feature(name, "number", len(values) - len(known), _numbers(known) if len(known) else "no values")


def _other(name: str, values: Iterable[Any]) -> Feature:
    """A column of text, dates, flags or anything else: its most frequent values."""
    counts = Counter(None if is_missing(value) else str(value) for value in values)
    missing = counts.pop(None, 0)
    frequent = [str(value)[:40] for value, n in counts.most_common(MOST_VALUES) if n >= FEWEST_NAMED]
    more = ", and others" if len(counts) > len(frequent) else ""
    named = f": {', '.join(frequent)}{more}" if frequent else ""
    return Feature(name, "other", missing, f"{len(counts):,} distinct{named}" if counts else "no values")


def _values(values: FloatArray, classes: Any) -> str:
    """Numbers, or the mean share of each class."""
    if values.ndim == 1:
        return _numbers(values)
    names = range(values.shape[1]) if classes is None else classes.tolist()
    shares = zip(names, values.mean(axis=0).tolist(), strict=True)
    return ", ".join(f"{name}: {percent(share)}" for name, share in shares) + ", on average"


def _numbers(values: FloatArray) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0]).tolist()
    return f"{number(low)} to {number(high)}, median {number(middle)}, mean {number(float(values.mean()))}"
