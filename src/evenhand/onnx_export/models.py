"""Fitted models and transformers of scikit-learn as graphs, step by step in the graph's own precision.

What is not here goes to skl2onnx, part by part; what that does not know has no graph.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand._utils.missing import is_missing
from evenhand._utils.typing import AnyArray
from evenhand.onnx_export.boosters import BOOSTERS
from evenhand.onnx_export.foreign import foreign_model, foreign_transformer
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.hashing import character_codes
from evenhand.onnx_export.tables import TEXT, NoConverterError, Table, column_places, matrix_table
from evenhand.onnx_export.trees import TREE_MODELS, sigmoid_pair, softmax

LINEAR = (
    "ARDRegression",
    "BayesianRidge",
    "ElasticNet",
    "ElasticNetCV",
    "HuberRegressor",
    "Lars",
    "LarsCV",
    "Lasso",
    "LassoCV",
    "LassoLars",
    "LassoLarsCV",
    "LassoLarsIC",
    "LinearRegression",
    "LinearSVR",
    "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
    "QuantileRegressor",
    "Ridge",
    "RidgeCV",
    "SGDRegressor",
    "TheilSenRegressor",
)


def model_output(graph: Graph, model: Any, table: Table) -> str:
    """What a fitted model says of rows: scores, (n_rows, 1), or probabilities, (n_rows, n_classes)."""
    kind = _kind(model)
    if kind == "FrozenEstimator":
        return model_output(graph, model.estimator, table)
    if kind == "Pipeline":
        *steps, (_, last) = model.steps
        for _, step in steps:
            table = transformed(graph, step, table)
        return model_output(graph, last, table)
    if kind in MODELS:
        return MODELS[kind](graph, model, table)
    return foreign_model(graph, model, table.numbers(), table.width)


def transformed(graph: Graph, step: Any, table: Table) -> Table:
    """Columns after a fitted transformer."""
    kind = _kind(step)
    if step is None or step == "passthrough":
        return table
    if kind == "FrozenEstimator":
        return transformed(graph, step.estimator, table)
    if kind == "Pipeline":
        for _, each in step.steps:
            table = transformed(graph, each, table)
        return table
    if kind in TRANSFORMERS:
        return TRANSFORMERS[kind](graph, step, table)
    return foreign_transformer(graph, step, table.numbers(), table.width)


def _kind(model: Any) -> str:
    """Name of a class that is scikit-learn's, XGBoost's or LightGBM's own, and not one that extends it."""
    cls = type(model)
    known = cls.__module__.partition(".")[0] in ("sklearn", "xgboost", "lightgbm")
    return cls.__name__ if known else ""


def _linear(graph: Graph, model: Any, table: Table) -> str:
    slopes = np.asarray(model.coef_, np.float64).reshape(-1, table.width)
    if len(slopes) != 1:
        raise NoConverterError(f"{type(model).__name__} of several outcomes")
    return graph.product(table.numbers(), slopes.T, np.asarray(model.intercept_, np.float64).reshape(1))


def _logistic(graph: Graph, model: Any, table: Table) -> str:
    raw = graph.product(table.numbers(), model.coef_.T, np.asarray(model.intercept_))
    return sigmoid_pair(graph, raw) if len(model.classes_) == 2 else softmax(graph, raw)


def _affine(shift: str, scale: str) -> Callable[[Graph, Any, Table], Table]:
    """A scaler that takes `shift` from each column and divides by `scale`, where it has them."""

    def scaled(graph: Graph, step: Any, table: Table) -> Table:
        numbers = table.numbers()
        for kind, learned in (("Sub", getattr(step, shift, None)), ("Div", getattr(step, scale, None))):
            if learned is not None:
                numbers = graph.op(kind, numbers, np.asarray(learned, graph.dtype))
        return matrix_table(graph, numbers, table.width)

    return scaled


def _standard_scaler(graph: Graph, step: Any, table: Table) -> Table:
    learned = "mean_" if step.with_mean else "", "scale_" if step.with_std else ""
    return _affine(*learned)(graph, step, table)


def _min_max_scaler(graph: Graph, step: Any, table: Table) -> Table:
    numbers = graph.op("Mul", table.numbers(), step.scale_.astype(graph.dtype))
    numbers = graph.op("Add", numbers, step.min_.astype(graph.dtype))
    if step.clip:
        numbers = graph.op("Clip", numbers, *(np.asarray(end, graph.dtype) for end in step.feature_range))
    return matrix_table(graph, numbers, table.width)


def _column_transformer(graph: Graph, step: Any, table: Table) -> Table:
    parts, width = [], 0
    names = np.fromiter(table.names, object, table.width)
    for _, part, columns in step.transformers_:
        places = column_places(columns, names)
        if part == "drop" or not places:
            continue
        found = transformed(graph, part, table.take(places))
        parts.append(found.numbers())
        width += found.width
    return matrix_table(graph, graph.join(parts), width)


def _simple_imputer(graph: Graph, step: Any, table: Table) -> Table:
    if not is_missing(step.missing_values):
        raise NoConverterError(f"an imputer of {step.missing_values!r}")
    if any(table.kind(place) == TEXT for place in range(table.width)):
        return _filled_text(graph, step, table)
    numbers, filling = table.numbers(), np.asarray(step.statistics_, np.float64)
    gaps = graph.op("IsNaN", numbers)
    whole = graph.op("Where", gaps, filling.astype(graph.dtype), numbers)
    width = table.width
    if not step.keep_empty_features and np.isnan(filling).any():
        kept = np.flatnonzero(~np.isnan(filling))
        whole, width = graph.columns(whole, kept), len(kept)
    if step.add_indicator and len(step.indicator_.features_):
        told = graph.cast(graph.columns(gaps, step.indicator_.features_), graph.dtype)
        whole, width = graph.join([whole, told]), width + len(step.indicator_.features_)
    return matrix_table(graph, whole, width)


def _filled_text(graph: Graph, step: Any, table: Table) -> Table:
    """Columns of text with their gaps, which are empty text, filled."""
    if step.add_indicator:
        raise NoConverterError("an imputer of text that says where it was missing")
    cells = []
    for place, filling in enumerate(step.statistics_):
        if table.kind(place) != TEXT or not isinstance(filling, str):
            raise NoConverterError("an imputer of text and numbers together")
        column = table.column(place)
        gaps = graph.op("Equal", character_codes(graph, column, {"": 1}), np.int64(1))
        cells.append((TEXT, graph.op("Where", gaps, np.array([[filling]], object), column)))
    return Table(graph, None, tuple(cells), table.names)


def _one_hot_encoder(graph: Graph, step: Any, table: Table) -> Table:
    if step.drop is not None:
        raise NoConverterError("a OneHotEncoder that drops a category")
    parts, width = [], 0
    for place, categories in enumerate(step.categories_):
        mapping = np.arange(len(categories))
        rare = None
        if getattr(step, "_infrequent_enabled", False):
            found = step._default_to_infrequent_mappings[place]
            if found is not None:
                mapping, rare = found, int(found.max())
        if step.handle_unknown not in ("infrequent_if_exist", "warn"):
            rare = None
        encode = _text_codes if table.kind(place) == TEXT else _number_codes
        codes = encode(graph, table.column(place), categories, mapping, rare)
        if step.handle_unknown == "error":
            codes = graph.fail_where(graph.op("Less", codes, np.int64(0)), codes)
        size = int(mapping.max()) + 1
        parts.append(graph.cast(graph.op("Equal", codes, np.arange(size)), graph.dtype))
        width += size
    return matrix_table(graph, graph.join(parts), width)


def _text_codes(graph: Graph, column: str, categories: AnyArray, mapping: AnyArray, rare: int | None) -> str:
    """Which column of zeros and ones each text has a one in, (n_rows, 1); -1: none."""
    codes = {}
    for category, code in zip(categories.tolist(), mapping.tolist(), strict=True):
        key = "" if is_missing(category) else str(category)
        if key in codes:
            raise NoConverterError("empty text beside missing values, which are the same in ONNX,")
        codes[key] = int(code)
    known = character_codes(graph, column, codes)
    if rare is None:
        return known
    return graph.op("Where", graph.op("Less", known, np.int64(0)), np.int64(rare), known)


def _number_codes(
    graph: Graph, column: str, categories: AnyArray, mapping: AnyArray, rare: int | None
) -> str:
    """The same for a column of numbers."""
    values = np.asarray(categories, np.float64)
    same = graph.op("Equal", column, np.where(np.isnan(values), 0.0, values).astype(graph.dtype))
    if np.isnan(values).any():
        gap = graph.op("And", graph.op("IsNaN", column), np.isnan(values))
        same = graph.op("Or", graph.op("And", same, ~np.isnan(values)), gap)
    counted = graph.op("Mul", graph.cast(same, np.int64), mapping.astype(np.int64) + 1)
    code = graph.op("ReduceSum", counted, np.array([1]), keepdims=1)
    if rare is not None:
        code = graph.op("Where", graph.op("Equal", code, np.int64(0)), np.int64(rare + 1), code)
    return graph.op("Sub", code, np.int64(1))


def _function(graph: Graph, step: Any, table: Table) -> Table:
    if step.func is not None:
        raise NoConverterError("a FunctionTransformer")
    return table


MODELS: dict[str, Callable[[Graph, Any, Table], str]] = {
    **dict.fromkeys(LINEAR, _linear),
    "LogisticRegression": _logistic,
    "LogisticRegressionCV": _logistic,
    **TREE_MODELS,
    **BOOSTERS,
}
TRANSFORMERS: dict[str, Callable[[Graph, Any, Table], Table]] = {
    "ColumnTransformer": _column_transformer,
    "FunctionTransformer": _function,
    "MaxAbsScaler": _affine("", "scale_"),
    "MinMaxScaler": _min_max_scaler,
    "OneHotEncoder": _one_hot_encoder,
    "RobustScaler": _affine("center_", "scale_"),
    "SimpleImputer": _simple_imputer,
    "StandardScaler": _standard_scaler,
}
