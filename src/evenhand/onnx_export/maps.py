"""Calibrations as graphs: from what the models say to probabilities and scores that are mended."""

from collections.abc import Sequence

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.calibration import Calibrator, JointCalibrator
from evenhand.calibration.rows import PROBA_FLOOR
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.policy import normalised


def log_floored(graph: Graph, proba: str) -> str:
    """Natural log of probabilities, raised to the smallest that counts first."""
    return graph.op("Log", graph.op("Max", proba, PROBA_FLOOR))


def calibrated(graph: Graph, calibrator: Calibrator, proba: str) -> str:
    """Group probabilities after a map of each model alone, (n_rows, n_groups)."""
    n_groups = len(calibrator.group_prior)
    proba = normalised(graph, proba, n_groups)
    if calibrator.method == "isotonic":
        columns = graph.split(proba, n_groups)
        ends = zip(calibrator.knot_starts, calibrator.knot_starts[1:], strict=False)
        mapped = [
            _interpolated(graph, column, calibrator.knots_x[start:stop], calibrator.knots_y[start:stop])
            for column, (start, stop) in zip(columns, ends, strict=True)
        ]
        return _divided(graph, graph.join(mapped), n_groups, calibrator.group_prior)
    slopes, offsets = (part.astype(graph.dtype) for part in (calibrator.slopes, calibrator.offsets))
    logits = graph.op("Add", graph.op("Mul", log_floored(graph, proba), slopes), offsets)
    return _softmax(graph, logits, n_groups)


def joint_inputs(graph: Graph, scores: str, n_classes: int | None, proba: Sequence[tuple[str, int]]) -> str:
    """What the models say of rows, in numbers without bounds: see `evenhand.calibration.joint_inputs`.

    `proba` has each table of group probabilities with its number of columns.
    """
    first = scores if n_classes is None else _log_ratios(graph, scores, n_classes)
    return graph.join([first, *(_log_ratios(graph, table, size) for table, size in proba)])


def jointly_calibrated(graph: Graph, calibrator: JointCalibrator, inputs: str) -> str:
    """Probabilities, (n_rows, n_outputs), or scores, (n_rows, 1), after a map of what both models say."""

    def number(values: FloatArray) -> FloatArray:
        return values.astype(graph.dtype)

    inside = graph.op("Max", inputs, number(calibrator.low))
    inside = graph.op("Min", inside, number(calibrator.high))
    standard = graph.op("Div", graph.op("Sub", inside, number(calibrator.centre)), number(calibrator.scale))
    terms = _terms(graph, standard, calibrator)
    values = graph.product(terms, calibrator.coefficients.T, calibrator.offsets)
    if calibrator.link == "shift":
        return graph.op("Add", graph.columns(inputs, [0]), values)
    return _softmax(graph, values, len(calibrator.offsets))


def _terms(graph: Graph, standard: str, calibrator: JointCalibrator) -> str:
    """Products of inputs, (n_rows, n_terms); a factor that a term does not have is one."""
    powers, n_inputs = calibrator.powers, len(calibrator.low)
    ones = graph.op("Mul", graph.columns(standard, [0]), 0.0)
    with_one = graph.join([standard, graph.op("Add", ones, 1.0)])
    factors = np.full((int(powers.sum(axis=1).max()), len(powers)), n_inputs)
    for term, exponents in enumerate(powers):
        places = np.repeat(np.arange(n_inputs), exponents)
        factors[: len(places), term] = places
    product = graph.columns(with_one, factors[0])
    for places in factors[1:]:
        product = graph.op("Mul", product, graph.columns(with_one, places))
    return product


def _log_ratios(graph: Graph, proba: str, n_columns: int) -> str:
    logs = log_floored(graph, proba)
    return graph.op("Sub", graph.columns(logs, np.arange(1, n_columns)), graph.columns(logs, [0]))


def _softmax(graph: Graph, logits: str, n_columns: int) -> str:
    top = graph.op("ReduceMax", logits, np.array([1]), keepdims=1)
    powers = graph.op("Exp", graph.op("Sub", logits, top))
    return graph.op("Div", powers, graph.add_columns(powers, n_columns))


def _divided(graph: Graph, values: str, n_columns: int, fallback: FloatArray) -> str:
    """Rows divided by their sum, or the fallback where that is zero."""
    total = graph.add_columns(values, n_columns)
    empty = graph.op("Equal", total, 0.0)
    shares = graph.op("Div", values, graph.op("Where", empty, 1.0, total))
    return graph.op("Where", empty, fallback.astype(graph.dtype), shares)


def _interpolated(graph: Graph, column: str, x: FloatArray, y: FloatArray) -> str:
    """The line through the knots at each number of a column, as far as the first and the last."""
    x, y = x.astype(graph.dtype), y.astype(graph.dtype)
    if len(x) == 1:
        return graph.op("Add", graph.op("Mul", column, 0.0), y)
    inside = graph.op("Clip", column, x[0], x[-1])
    passed = graph.cast(graph.op("GreaterOrEqual", inside, x[1:-1]), np.int64)
    places = graph.op("ReduceSum", passed, np.array([1]), keepdims=1)
    slopes = np.diff(y) / np.diff(x)
    begins, lows, rates = (graph.op("Gather", part, places) for part in (x, y, slopes))
    return graph.op("Add", graph.op("Mul", rates, graph.op("Sub", inside, begins)), lows)
