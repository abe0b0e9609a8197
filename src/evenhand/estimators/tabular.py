"""The default pipeline for a table as it comes: numbers with gaps, and columns of text."""

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

KINDS = ("number", "moment", "text")  # a moment is a number, of days, that was written as a date
MIN_FREQUENCY = 10  # rows: a category with fewer is counted among the infrequent ones
MAX_CATEGORIES = 50  # of one column; the rarest beyond are counted among the infrequent ones


def table_pipeline(model: BaseEstimator, columns: Any) -> Pipeline:
    """Put `model` behind a preparation of mixed columns that a model file can hold without any type to trust.

    Numbers: the median where a value is missing, with one more column that says so, then zero mean and unit
    variance. Text: one column of zeros and ones for each category, a missing value being a category too;
    categories of fewer than 10 rows, and those beyond the 50 most frequent ones, count as one, and so does
    a category that the fit has not seen.

    Parameters
    ----------
    model : estimator
        The last step.
    columns : data frame, or dict of "number", "moment" or "text" by column name (or number, of an array)
        Of a data frame only the types of the columns count. Other columns are left out.

    Examples
    --------
    >>> from evenhand import table_pipeline
    >>> import pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> frame = pd.DataFrame({"age": [31.0, None, 58.0], "town": ["A", "B", "A"]})
    >>> pipeline = table_pipeline(Ridge(), frame).fit(frame, [1.0, 2.0, 3.0])
    >>> from evenhand.estimators.tabular import pipeline_kinds
    >>> pipeline_kinds(pipeline)
    {'age': 'number', 'town': 'text'}
    """
    kinds = dict(columns) if isinstance(columns, Mapping) else frame_kinds(columns)
    unknown = {kind for kind in kinds.values() if kind not in KINDS}
    if unknown:
        raise ValueError(f"The kind of a column is one of {', '.join(KINDS)}: got {unknown.pop()!r}.")
    if not kinds:
        raise ValueError("There are no columns to learn from: name at least one.")
    makers = {"number": _numbers, "moment": _numbers, "text": _texts}
    named = {kind: [name for name, each in kinds.items() if each == kind] for kind in KINDS}
    steps = [(kind, makers[kind](), names) for kind, names in named.items() if names]
    return Pipeline([("columns", ColumnTransformer(steps)), ("model", model)])


def table_kinds(X: Any) -> dict[Any, str]:
    """The kind of each column of a frame by its name, or of an array by its number; nothing of a list.

    What can be read as numbers is one, whatever its type.

    >>> table_kinds(np.array([[1, "a"], [2, "b"]], dtype=object))
    {0: 'number', 1: 'text'}
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        typed = frame_kinds(X)
        return {
            name: "number" if kind == "number" or _are_numbers(frame[name].to_list()) else "text"
            for name, kind in typed.items()
        }
    array = np.asarray(X) if hasattr(X, "shape") else np.empty(0)
    if array.ndim != 2 or array.dtype.kind not in "OUS":
        return {}
    return {place: "number" if _are_numbers(column) else "text" for place, column in enumerate(array.T)}


def text_columns(X: Any) -> list[Any]:
    """Columns that hold text which cannot be read as numbers, of a table of any kind."""
    try:
        named = [column for column, kind in table_kinds(X).items() if kind == "text"]
    except ValueError:  # dates, which are no text
        return []
    return [name for name in named if any(isinstance(cell, str) for cell in _safe_indexing(X, name, axis=1))]


def _are_numbers(values: Any) -> bool:
    try:
        np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def frame_kinds(frame: Any) -> dict[str, str]:
    """The kind of each column of a data frame, by its type."""
    kinds = {}
    for name, dtype in nw.from_native(frame, eager_only=True).schema.items():
        if dtype.is_temporal():
            raise ValueError(f"Column {name!r} holds {dtype}: turn it into a number, of days for example.")
        kinds[name] = "number" if dtype.is_numeric() or dtype == nw.Boolean else "text"
    return kinds


def pipeline_kinds(pipeline: Any) -> dict[str, str] | None:
    """The kinds that a pipeline of `table_pipeline` was made for; None for any other model."""
    step = pipeline.steps[0][1] if isinstance(pipeline, Pipeline) else None
    if not isinstance(step, ColumnTransformer) or not all(kind in KINDS for kind, _, _ in step.transformers):
        return None
    return {name: kind for kind, _, names in step.transformers for name in names}


def _numbers() -> Pipeline:
    imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler())


def _texts() -> OneHotEncoder:
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=MIN_FREQUENCY, max_categories=MAX_CATEGORIES
    )
