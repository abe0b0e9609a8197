"""The default pipeline for a table as it comes: numbers with gaps, and columns of text."""

from collections.abc import Mapping
from typing import Any

import narwhals.stable.v1 as nw
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

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
    columns : data frame, or dict of "number", "moment" or "text" by column name
        Of a data frame only the types of the columns count. Other columns are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> frame = pd.DataFrame({"age": [31.0, None, 58.0], "town": ["A", "B", "A"]})
    >>> pipeline = table_pipeline(Ridge(), frame).fit(frame, [1.0, 2.0, 3.0])
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
