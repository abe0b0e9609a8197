"""The models of the outcome and of the group: default models, fitting, and predictions.

A fitted model returns scores, or probabilities of labels in the order of the fit.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import has_fit_parameter

from evenhand._utils.missing import without_mask
from evenhand._utils.stored import Stored
from evenhand._utils.text import is_wide_text, some_of
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, check_scores
from evenhand.calibration import JointCalibrator

KINDS = ("number", "moment", "text")  # a moment is a date that was converted to a number of days
MIN_FREQUENCY = 10  # rows; categories with fewer rows are pooled as infrequent
MAX_CATEGORIES = 50  # per column; the rarest categories beyond this number are pooled as infrequent
DESCENTS = ("lbfgs", "newton-cg", "newton-cholesky")  # solvers of logistic regression that only descend


def default_regressor(X: Any = None) -> BaseEstimator:
    """Ridge regression on imputed and scaled features: a regularized version of the paper's linear model.

    It is fast enough to fit once per fold, needs no tuning, and can be loaded from a model file without
    trusted types, unlike trees.
    """
    if issparse(X):  # without cv, RidgeCV would build a dense matrix of n_rows x n_rows
        return _prepared(RidgeCV(alphas=np.logspace(-2, 2, 5), cv=3), X)
    return _prepared(RidgeCV(alphas=np.logspace(-3, 3, 13)), X)


def default_classifier(X: Any = None) -> BaseEstimator:
    """Logistic regression, because parity depends on calibrated probabilities."""
    return _prepared(LogisticRegression(max_iter=1000), X)


def _prepared(model: BaseEstimator, X: Any) -> Pipeline:
    """Return a pipeline that prepares the columns of X for the model; text columns are one-hot encoded."""
    kinds = {} if X is None or issparse(X) else table_kinds(X)
    if "text" in kinds.values():
        return table_pipeline(model, kinds)
    imputer = SimpleImputer(keep_empty_features=True)
    return make_pipeline(imputer, StandardScaler(with_mean=not issparse(X)), model)


def fit_model(
    model: BaseEstimator,
    X: Any,
    y: AnyArray,
    weights: FloatArray | None,
    name: str,
    warm_start_from: Any = None,
) -> Any:
    """Fit a clone of `model`; weights are passed to it, or to the last step of a pipeline.

    `warm_start_from` is a fit of the same model on more rows, from which the solver starts if possible.
    """
    given = {}
    if weights is not None and not isinstance(model, FrozenEstimator):
        given = {weight_parameter(model, name): weights}
    copy = clone(model)
    started = warm_start_from is not None and _warm_start(_last_step(copy), _last_step(warm_start_from), y)
    try:
        return copy.fit(X, y, **given)
    except (ValueError, TypeError) as error:
        if started:  # fewer rows may have fewer categories, and then fewer columns than the starting model
            return fit_model(model, X, y, weights, name)
        text = text_columns(X)
        if not text:
            raise
        raise ValueError(
            f"{name}={type(model).__name__} could not be fitted: {error}\nX has text in column(s) "
            f"{some_of(text)}: if the model accepts only numbers, pass evenhand.table_pipeline(model, X)."
        ) from error


def weight_parameter(model: Any, name: str) -> str:
    """Return the name of the weights in a model's `fit`; raise an error if it does not accept weights."""
    found = _weight_argument(model)
    if found is None:
        raise ValueError(
            f"sample_weight was given, but {name}={type(model).__name__} does not accept it in fit: "
            "leave sample_weight out, or choose a model that accepts it."
        )
    return found


def _weight_argument(model: Any) -> str | None:
    """Return the name of the weights in the `fit` of a model or pipeline; None: it does not accept them."""
    if isinstance(model, FrozenEstimator) or has_fit_parameter(model, "sample_weight"):
        return "sample_weight"
    if isinstance(model, Pipeline) and has_fit_parameter(model.steps[-1][1], "sample_weight"):
        return f"{model.steps[-1][0]}__sample_weight"
    return None


def require_weighted(classifier: BaseEstimator) -> None:
    """Check that a model of the group accepts weights, which it needs to learn from group probabilities."""
    if _weight_argument(classifier) is None and not came_fitted(classifier):
        raise ValueError(
            "Groups that are given as probabilities are learned from weighted rows, but "
            f"sensitive_estimator={type(classifier).__name__} does not accept sample_weight in fit: choose a "
            "model that does, or pass the most likely group of each row."
        )


def _warm_start(model: Any, warm_start_from: Any, y: AnyArray) -> bool:
    """Start a logistic regression at the solution of another, if this cannot change the result.

    The result is the same within the tolerance of the solver: the loss is convex, the steps descend, and the
    other fit converged. No other model is warm-started, because its result could depend on the start.
    """
    if type(model) is not LogisticRegression or model.solver not in DESCENTS:
        return False
    was_cut_short = max(warm_start_from.n_iter_) >= warm_start_from.max_iter
    if was_cut_short or not np.array_equal(np.unique(y), warm_start_from.classes_):
        return False
    model.set_params(warm_start=True)
    model.coef_, model.intercept_ = warm_start_from.coef_.copy(), warm_start_from.intercept_.copy()
    return True


def _last_step(model: Any) -> Any:
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def require_proba(classifier: BaseEstimator, name: str = "sensitive_estimator") -> None:
    """Check that a classifier has `predict_proba`."""
    if not hasattr(classifier, "predict_proba"):
        raise ValueError(
            f"{name} must have predict_proba: {type(classifier).__name__} has none. Wrap it in "
            "sklearn.calibration.CalibratedClassifierCV."
        )


def real_floats(predictions: Any) -> FloatArray:
    """Return predictions as floats; raise an error for complex numbers."""
    found = np.asarray(predictions)
    if found.dtype.kind == "c":
        raise ValueError("A model predicts complex numbers, but scores and probabilities must be real.")
    return found.astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class FittedModel(Stored):
    """A fitted model, the labels of its predictions, and the map that recalibrates them."""

    model: Any
    labels: Labels | None  # classes or groups, in the order of the columns; None: a regressor
    positions: bool = False  # the model was fitted to positions of the labels, like models of groups
    calibrator: JointCalibrator | None = None  # needs the outputs of all models, so `Scorer` applies it

    def faults(self) -> Iterator[str]:
        """Check that the model can predict, and the types of its labels and its map."""
        method = "predict" if self.labels is None else "predict_proba"
        if isinstance(self.model, list) or not callable(getattr(self.model, method, None)):
            yield f"its model has no {method}"
        if self.labels is not None and type(self.labels) is not tuple:
            yield "its labels are not a tuple"
        if type(self.positions) is not bool:
            yield "its positions is neither true nor false"
        if not isinstance(self.calibrator, JointCalibrator | None):
            yield "its calibrator is not a JointCalibrator"

    def __call__(self, X: Any) -> FloatArray:
        """Return scores, (n_rows,), or label probabilities, (n_rows, n_labels), before recalibration."""
        if self.labels is None:
            scores = real_floats(self.model.predict(X))
            return check_scores(scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores)
        proba = real_floats(self.model.predict_proba(X))
        if self.positions and came_fitted(self.model):  # it knows groups by their labels
            known = require_known_groups(self.model, self.labels)
            return proba[:, [known.index(label) for label in self.labels]]
        classes = np.asarray(self.model.classes_).tolist()
        if self.positions:
            return _in_columns(proba, classes, len(self.labels))
        if any(label not in self.labels for label in classes):
            raise ValueError(
                f"estimator knows the classes {', '.join(map(repr, classes))}, but y has "
                f"{', '.join(map(repr, self.labels))}."
            )
        places = [self.labels.index(label) for label in classes]
        return check_scores(_in_columns(proba, places, len(self.labels)), len(self.labels))


def require_known_groups(classifier: Any, groups: Labels) -> list[Hashable]:
    """Return the groups that a fitted model predicts; raise an error if they are not `groups`."""
    classes = np.asarray(classifier.classes_).tolist()
    known = [tuple(label) if isinstance(label, list) else label for label in classes]
    if set(known) != set(groups):
        raise ValueError(
            f"sensitive_estimator was fitted on the groups {some_of(known)}, but sensitive_features has "
            f"{some_of(groups)}. Pass a sensitive_estimator for these groups, or one that is not fitted."
        )
    return known


def class_codes(target: AnyArray, classes: Labels) -> IntArray:
    """Return the position of each row's outcome among the sorted classes, (n_rows,)."""
    known = np.array(classes, dtype=object) if is_wide_text(classes) else np.array(classes)
    if target.dtype.kind == known.dtype.kind and known.dtype.kind in "biufU":
        places = np.searchsorted(known, target)
        if np.array_equal(known[np.minimum(places, len(known) - 1)], target):
            return places
    place = {label: code for code, label in enumerate(classes)}
    labels = target.tolist()
    unknown = next((label for label in labels if label not in place), None)
    if unknown is not None:
        raise ValueError(
            f"y has {unknown!r}, which is not one of the classes {', '.join(map(repr, classes))}."
        )
    return np.array([place[label] for label in labels])


def _in_columns(proba: FloatArray, places: list[int], n_columns: int) -> FloatArray:
    """Put columns in their positions; labels that a model was not fitted on get probability zero."""
    if len(places) == n_columns and places == list(range(n_columns)):
        return proba
    known = all(type(place) is int and 0 <= place < n_columns for place in places)
    if not known or len(set(places)) < len(places) or proba.shape != (len(proba), len(places)):
        raise ValueError(
            f"The model predicts the classes {some_of(places)}, with probabilities of shape "
            f"{proba.shape}, but {n_columns} other classes are expected."
        )
    out = np.zeros((len(proba), n_columns))
    out[:, places] = proba
    return out


def came_fitted(model: Any) -> bool:
    """Whether a model is already fitted: frozen, or a pipeline with a frozen last step."""
    return isinstance(_last_step(model), FrozenEstimator)


def as_table(X: Any) -> Any:
    """X as something that has rows and columns."""
    (X,) = indexable(without_mask(X))
    require_table(X)
    return X


def require_table(X: Any) -> None:
    """Check that X is a table, with error messages like those of scikit-learn."""
    if isinstance(X, memoryview):
        raise ValueError("X must be an array, a frame, a sparse matrix or a list of rows: got a memoryview.")
    try:
        shape = getattr(X, "shape", None) or np.shape(X)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"X cannot be read as a table: {error}") from error
    if len(shape) != 2:
        raise ValueError(
            f"X must have shape (n_rows, n_features): got {tuple(shape)}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one row."
        )
    if shape[0] == 0:
        raise ValueError(f"X has 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required.")


def input_tags(model: Any) -> Any:
    """Return the input tags of a model; `allow_nan` of a pipeline comes from its first step."""
    tags = get_tags(model).input_tags
    if isinstance(model, Pipeline):
        tags.allow_nan = get_tags(model.steps[0][1]).input_tags.allow_nan
    return tags


def table_pipeline(model: BaseEstimator, columns: Any) -> Pipeline:
    """Return a pipeline that prepares numeric and text columns and then applies `model`.

    Numeric columns: missing values are replaced by the median, with an additional indicator column; then the
    values are scaled to mean zero and unit variance. Text columns are one-hot encoded, and a missing value is
    a category. Categories with fewer than 10 rows, categories beyond the 50 most frequent ones, and
    categories that are absent in the fit are pooled into one. A model file with this pipeline can be loaded
    without trusted types.

    Parameters
    ----------
    model : estimator
        Last step of the pipeline.
    columns : data frame, or dict of {"number", "moment", "text"} by column
        Kind of each column, by its name or, for arrays, by its position. A "moment" is treated as a number.
        The kinds of the columns of a data frame are taken from their types. Columns that are not listed are
        left out.

    Returns
    -------
    pipeline : Pipeline
        Unfitted pipeline with the steps "columns" and "model".

    Examples
    --------
    >>> from evenhand import table_pipeline
    >>> import pandas as pd
    >>> from sklearn.linear_model import Ridge
    >>> frame = pd.DataFrame({"age": [31.0, None, 58.0], "town": ["A", "B", "A"]})
    >>> pipeline = table_pipeline(Ridge(), frame).fit(frame, [1.0, 2.0, 3.0])
    >>> from evenhand.estimators.models import pipeline_kinds
    >>> pipeline_kinds(pipeline)
    {'age': 'number', 'town': 'text'}
    """
    kinds = dict(columns) if isinstance(columns, Mapping) else frame_kinds(columns)
    unknown = {kind for kind in kinds.values() if kind not in KINDS}
    if unknown:
        raise ValueError(f"The kind of a column must be one of {', '.join(KINDS)}: got {unknown.pop()!r}.")
    if not kinds:
        raise ValueError("There are no columns to learn from: name at least one.")
    makers = {"number": _numbers, "moment": _numbers, "text": _texts}
    named = {kind: [name for name, each in kinds.items() if each == kind] for kind in KINDS}
    steps = [(kind, makers[kind](), names) for kind, names in named.items() if names]
    return Pipeline([("columns", ColumnTransformer(steps)), ("model", model)])


def table_kinds(X: Any) -> dict[Any, str]:
    """Return the kind of each column, by name for a frame and by position for an array; empty for a list.

    A column whose values can be converted to numbers is a "number", whatever its type.

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
    """Return the columns with text that cannot be converted to numbers, for any table."""
    try:
        named = [column for column, kind in table_kinds(X).items() if kind == "text"]
    except ValueError:  # dates, which are not text
        return []
    return [name for name in named if any(isinstance(cell, str) for cell in _safe_indexing(X, name, axis=1))]


def _are_numbers(values: Any) -> bool:
    try:
        np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def frame_kinds(frame: Any) -> dict[str, str]:
    """Return the kind of each column of a data frame, from its type."""
    kinds = {}
    for name, dtype in nw.from_native(frame, eager_only=True).schema.items():
        if dtype.is_temporal():
            raise ValueError(
                f"Column {name!r} has type {dtype}: convert it to a number, such as a number of days."
            )
        kinds[name] = "number" if dtype.is_numeric() or dtype == nw.Boolean else "text"
    return kinds


def pipeline_kinds(pipeline: Any) -> dict[str, str] | None:
    """Return the kinds of the columns of a pipeline from `table_pipeline`; None for any other model."""
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
