"""A whole estimator as a graph: from raw columns to what the parity step takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand._utils.labels import OTHER
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels
from evenhand.calibration import JointCalibrator
from evenhand.calibration.joint import PROBA_FLOOR
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.models import FittedModel, came_fitted, require_known_groups
from evenhand.estimators.strata import Strata
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.hashing import character_codes
from evenhand.onnx_export.models import model_output
from evenhand.onnx_export.policy import StepRows, checked_proba, normalised
from evenhand.onnx_export.tables import TEXT, NoConverterError, Table

SENSITIVE = "sensitive_features"  # the input of aware models


def estimator_rows(graph: Graph, model: ParityEstimator, table: Table) -> StepRows:
    """Rows as `model.predict_scores` has them."""
    strata, n_classes = model.strata_, model.policy_.cost.n_classes
    scores = _scores(graph, model, table)
    groups = model.scorer_.groups
    proba = [_group_proba(graph, each, table) for each in groups]
    known = _known_groups(graph, strata) if model.aware else None
    maps = [each.calibrator for each in (model.scorer_.outcome, *groups)]
    if any(maps):
        sizes = [len(each.labels or ()) for each in groups] or [len(each) for each in strata.groups]
        inputs = joint_inputs(graph, scores, n_classes, list(zip(proba or known or [], sizes, strict=True)))
        scores, *proba = (
            given if each is None else jointly_calibrated(graph, each, inputs)
            for each, given in zip(maps, (scores, *proba), strict=True)
        )
    blocks = _blocks(graph, strata, proba, scores, known)
    columns = _columns(graph, strata, blocks, _factors(graph, model, table))
    tau = checked_proba(graph, model.policy_, columns)
    return StepRows(scores, tau.high, proba_rest=tau.low)  # scores of classes sum to one by now


def _scores(graph: Graph, model: ParityEstimator, table: Table) -> str:
    """Scores, (n_rows, 1), or probabilities of the classes in their order, (n_rows, n_classes)."""
    found = model_output(graph, model.estimator_, table)
    classes = model.strata_.classes or _classes_of(model)
    if classes is None:
        return found
    known = np.asarray(model.estimator_.classes_).tolist()
    found = _in_places(graph, found, [classes.index(label) for label in known], len(classes))
    return normalised(graph, found, len(classes))


def _classes_of(model: ParityEstimator) -> Labels | None:
    classes = getattr(model, "classes_", None)
    return None if classes is None else tuple(classes.tolist())


def _in_places(graph: Graph, proba: str, places: list[int], n_columns: int) -> str:
    """Columns in their places; those that a model has not seen have no probability."""
    if places == list(range(n_columns)):
        return proba
    return graph.product(proba, np.eye(n_columns)[places])


def _group_proba(graph: Graph, model: FittedModel, table: Table) -> str:
    """Probabilities of a model of the group, in the order of its groups."""
    assert model.labels is not None
    proba, classifier = model_output(graph, model.model, table), model.model
    if came_fitted(classifier):
        known = require_known_groups(classifier, model.labels)
        proba = graph.columns(proba, [known.index(label) for label in model.labels])
    else:
        places = np.asarray(classifier.classes_).tolist()
        proba = _in_places(graph, proba, places, len(model.labels))
    return proba


def _known_groups(graph: Graph, strata: Strata) -> list[str]:
    """Zeros and ones for the groups of each attribute, from inputs that hold their labels."""
    names = strata.sensitive_columns
    if strata.separate or len(names) == 1:
        single = len(names) == 1
        return [
            _one_hot(graph, [_label_input(graph, name, labels, single)], [(label,) for label in labels])
            for name, labels in zip(names, strata.groups, strict=True)
        ]
    labels = [label for label in strata.groups[0] if label != OTHER]
    if len(labels) < len(strata.groups[0]):
        raise NoConverterError("groups of several columns, some of them merged,")
    parts = list(zip(*labels, strict=True))
    columns = [
        _label_input(graph, name, tuple(dict.fromkeys(part)), False)
        for name, part in zip(names, parts, strict=True)
    ]
    return [_one_hot(graph, columns, labels)]  # type: ignore[arg-type]


def _label_input(graph: Graph, name: Any, labels: Labels, single: bool) -> tuple[str, AnyArray]:
    """An input for labels of one column, and these labels as an array of its type."""
    values = label_values(labels)
    title = SENSITIVE if single else f"{SENSITIVE}.{name}"
    return graph.column(graph.add_input(title, values.dtype, "rows")), values


def label_values(labels: Sequence[Any]) -> AnyArray:
    """Labels as an array of text, of integers or of floats."""
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, object)
    if all(isinstance(label, bool | np.bool_) for label in labels):
        return np.array(labels, bool)
    if all(isinstance(label, int | np.integer) for label in labels):
        return np.array(labels, np.int64)
    if all(isinstance(label, int | float | np.number) for label in labels):
        return np.array(labels, np.float64)
    raise NoConverterError("labels that are neither all text nor all numbers")


def _one_hot(graph: Graph, columns: list[tuple[str, AnyArray]], labels: Sequence[tuple[Any, ...]]) -> str:
    """Which of the labels each row has, zeros and ones, (n_rows, n_labels); the run fails where it is none.

    A label that the fit has not seen counts as the merged small groups, where there are any.
    """
    found = None
    for place, (column, _) in enumerate(columns):
        values = label_values([label[place] for label in labels])
        same = _same(graph, column, values)
        found = same if found is None else graph.op("And", found, same)
    assert found is not None
    hits = graph.cast(found, np.int64)
    count = graph.op("ReduceSum", hits, np.array([1]), keepdims=1)
    none = graph.op("Equal", count, np.int64(0))
    if (OTHER,) in labels:
        other = np.array([int(label == (OTHER,)) for label in labels], np.int64)
        hits = graph.op("Where", none, other, hits)
    else:
        hits = graph.fail_where(none, hits)
    return graph.cast(hits, graph.dtype)


def _same(graph: Graph, column: str, values: AnyArray) -> str:
    """Whether each row's label is each of the values, (n_rows, n_values)."""
    if values.dtype == object:
        distinct = {text: place for place, text in enumerate(dict.fromkeys(values.tolist()))}
        codes = character_codes(graph, column, distinct)
        return graph.op("Equal", codes, np.array([distinct[text] for text in values.tolist()], np.int64))
    if values.dtype == bool:
        return graph.op("Equal", graph.cast(column, np.int64), values.astype(np.int64))
    return graph.op("Equal", column, values)


def _factors(graph: Graph, model: ParityEstimator, table: Table) -> str | None:
    """Which value of the legitimate factor each row has, zeros and ones, (n_rows, n_factors)."""
    factors = model.strata_.factors
    if factors is None:
        return None
    given = model.conditional_on if isinstance(model.conditional_on, list | tuple) else [model.conditional_on]
    labels = [label if len(given) > 1 else (label,) for label in factors]
    columns = []
    for key in given:
        place = table.place(key)
        column = table.column(place)
        columns.append((column if table.kind(place) == TEXT else graph.cast(column, np.float64), np.empty(0)))
    numbers = [_as_numbers(label) for label in labels]
    return _one_hot(graph, columns, numbers)


def _as_numbers(label: Any) -> tuple[Any, ...]:
    """Values of a factor as the columns hold them: text, or floats."""
    return tuple(part if isinstance(part, str) else float(part) for part in label)


def _blocks(
    graph: Graph, strata: Strata, modelled: list[str], scores: str, known: list[str] | None
) -> list[str]:
    """What `_columns` takes for each attribute: see `Cells.blocks`."""
    if strata.outcomes is None:
        return modelled if known is None else known
    assert strata.classes is not None
    if not strata.joint:
        return [_times(graph, scores, each) for each in (modelled if known is None else known)]
    if known is None:
        return modelled
    blocks = []
    for joint, shares in zip(modelled, known, strict=True):
        table = graph.op("Reshape", joint, np.array([0, len(strata.classes), -1], np.int64))
        total = graph.op("ReduceSum", table, np.array([1]), keepdims=1)
        total = graph.op("Max", total, float(np.finfo(graph.dtype).tiny))
        within = graph.op("Div", table, total)
        product = graph.op("Mul", within, graph.op("Unsqueeze", shares, np.array([1])))
        blocks.append(graph.op("Reshape", product, np.array([0, -1], np.int64)))
    return blocks


def _times(graph: Graph, outcomes: str, groups: str) -> str:
    """`P(Y | x) P(S | x)`, (n_rows, n_classes * n_groups)."""
    product = graph.op(
        "Mul", graph.op("Unsqueeze", outcomes, np.array([2])), graph.op("Unsqueeze", groups, np.array([1]))
    )
    return graph.op("Reshape", product, np.array([0, -1], np.int64))


def _columns(graph: Graph, strata: Strata, blocks: list[str], factors: str | None) -> str:
    """Columns of rows, (n_rows, n_cells): see `Cells.columns`."""
    if strata.outcomes is not None:
        assert strata.classes is not None
        wanted = np.array([strata.classes.index(outcome) for outcome in strata.outcomes])
        chosen = []
        for block, groups in zip(blocks, strata.groups, strict=True):
            places = (wanted[:, None] * len(groups) + np.arange(len(groups))).ravel()
            chosen.append(graph.columns(block, places))
        blocks = chosen
    inner = graph.join(blocks)
    if factors is None:
        return inner
    outer = graph.op(
        "Mul", graph.op("Unsqueeze", factors, np.array([2])), graph.op("Unsqueeze", inner, np.array([1]))
    )
    return graph.op("Reshape", outer, np.array([0, -1], np.int64))


def log_floored(graph: Graph, proba: str) -> str:
    """Natural log of probabilities, raised to the smallest that counts first."""
    return graph.op("Log", graph.op("Max", proba, PROBA_FLOOR))


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
