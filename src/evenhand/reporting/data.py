"""A short summary of the rows that a report is made from."""

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from evenhand._typing import FloatArray
from evenhand.reporting.facts import Data, Feature
from evenhand.reporting.measure import ReportRows
from evenhand.reporting.words import number

MOST_FEATURES = 200  # described one by one
MOST_VALUES = 3  # of a column of text, named


def summarise(X: Any, rows: ReportRows) -> Data:
    """The rows in a few words and numbers."""
    features, n_features = ((), 0) if isinstance(X, tuple) else _features(X)
    return Data(
        n_rows=len(rows.scores),
        n_features=n_features,
        weighted=rows.has_weights,
        features=tuple(features),
        outcome="" if rows.target is None or rows.target.ndim > 1 else _numbers(rows.target),
        scores=_numbers(rows.scores) if rows.scores.ndim == 1 else "probabilities of classes",
    )


def _features(X: Any) -> tuple[list[Feature], int]:
    native = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(native, nw.DataFrame):
        columns = native.columns
        return [_column(str(name), native[name]) for name in columns[:MOST_FEATURES]], len(columns)
    shape = getattr(X, "shape", None) or np.shape(X)
    if hasattr(X, "toarray") or len(shape) != 2:  # a sparse matrix: too wide to describe
        return [], int(shape[1]) if len(shape) == 2 else 0
    table = np.asarray(X)
    names = [f"column {place}" for place in range(min(table.shape[1], MOST_FEATURES))]
    return [_array(name, table[:, place]) for place, name in enumerate(names)], table.shape[1]


def _column(name: str, column: Any) -> Feature:
    values = column.to_numpy()
    missing = int(column.null_count())
    if column.dtype.is_numeric():
        return _array(name, np.asarray(values, dtype=np.float64))
    counts = column.drop_nulls().cast(nw.String).value_counts(sort=True)
    named = [str(value) for value in counts[counts.columns[0]].head(MOST_VALUES).to_list()]
    more = ", and others" if len(counts) > MOST_VALUES else ""
    summary = f"{len(counts):,} distinct: {', '.join(text[:40] for text in named)}{more}"
    return Feature(name, "text" if column.dtype == nw.String else str(column.dtype).lower(), missing, summary)


def _array(name: str, values: Any) -> Feature:
    if values.dtype.kind not in "biuf":
        distinct = len({str(value) for value in values.tolist()})
        return Feature(name, "text", 0, f"{distinct:,} distinct")
    known = values[np.isfinite(values)].astype(np.float64)
    summary = _numbers(known) if len(known) else "no values"
    return Feature(name, "number", len(values) - len(known), summary)


def _numbers(values: FloatArray) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0]).tolist()
    return f"{number(low)} to {number(high)}, median {number(middle)}, mean {number(float(values.mean()))}"
