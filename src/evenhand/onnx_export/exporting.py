"""Write a fitted model as an ONNX graph."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.atomic import whole_file
from evenhand._utils.typing import AnyArray
from evenhand._utils.validation import check_levels
from evenhand._utils.version import __version__
from evenhand._utils.warn import warn_user
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.exceptions import SinglePrecisionWarning, StepAloneWarning
from evenhand.onnx_export.graph import OPSET, Graph, load_onnx
from evenhand.onnx_export.hashing import hash_integers, hash_rows, hash_text, uniforms
from evenhand.onnx_export.policy import Answers, StepRows, checked_rows, require_cost, scaled_scores
from evenhand.onnx_export.tables import NoConverterError, Table, column_kinds, input_table
from evenhand.onnx_export.whole import estimator_rows, label_values

METHODS = {
    "pmf": "predict_pmf",
    "proba": "predict_proba",
    "mean": "predict_mean",
    "median": "predict_quantile",
    "quantile": "predict_quantile",
    "mode": "predict_mode",
    "draw": "predict",
}
SCORES, PROBA = "scores", "group_proba"  # inputs of the parity step alone
DRAWS = ("features", "integers", "text", "uniform")
PRECISIONS = {"float64": np.float64, "float32": np.float32}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a graph is to tell."""

    outputs: tuple[str, ...]
    draw_by: str
    q: float
    dtype: Any


def export_onnx(
    model: Any,
    path: str | os.PathLike[str],
    output: str | Sequence[str] = "pmf",
    *,
    draw_by: str = "features",
    q: float = 0.5,
    precision: str = "float64",
    columns: Any = None,
) -> None:
    """Write a fitted model as an ONNX graph, for services, browsers and devices without Python.

    Of a `ParityPostprocessor` the graph takes `scores` and `group_proba`. Of an estimator it takes raw
    columns: one input `X` where all of them are numbers, and one input for each column by its name where some
    hold text, in which empty text stands for a missing value. Where a model inside has no form in ONNX, the
    parity step is written alone, with a `StepAloneWarning`; a `SinglePrecisionWarning` names parts that ONNX
    has in single precision alone. Answers are those of the model itself (docs/how-to/onnx.md tells how near).
    The file appears whole or not at all.

    Parameters
    ----------
    model : fitted ParityPostprocessor, ParityRegressor or ParityClassifier
    path : str or path
    output : str or list of str, default="pmf"
        What the graph tells, an output for each: "pmf", "mean", "median", "quantile" and "draw"; of a
        classifier "proba" (or "pmf"), "mode" and "draw".
    draw_by : {"features", "integers", "text", "uniform"}, default="features"
        What "draw" rests on. "features": the keyed hash of the row, as `predict(X)` has it; "integers" or
        "text": that of an input `ids` of int64 or text, as `predict(X, ids=ids)`; "uniform": an input
        `uniform` of numbers in (0, 1), for devices without 64-bit integers. All but the last write the
        model's key into the graph, and who has the file can foresee a draw.
    q : float, default=0.5
        Level of the output "quantile".
    precision : {"float64", "float32"}, default="float64"
        Of the numbers in the graph, its inputs and its outputs.
    columns : dict or data frame, default=None
        "number" or "text" by column name, or a frame with such columns, where the model's encoders do not say
        which columns hold text.

    Examples
    --------
    >>> import evenhand as eh
    >>> from evenhand.datasets import make_population
    >>> data = make_population(500, n_groups=2, random_state=0)
    >>> step = eh.ParityPostprocessor().fit(data.scores, data.group_proba)
    >>> eh.export_onnx(step, "step.onnx", output=["pmf", "draw"])  # doctest: +SKIP
    """
    load_onnx()
    if not isinstance(model, ParityPostprocessor | ParityEstimator):
        raise TypeError(
            "export_onnx takes a fitted ParityPostprocessor, ParityRegressor or ParityClassifier: got "
            f"{type(model).__name__}. A pipeline goes inside, ParityRegressor(pipeline); of a search, export "
            "its best_estimator_."
        )
    check_is_fitted(model)
    wish = _check_wish(model, output, draw_by, q, precision)
    if isinstance(model, ParityPostprocessor) and columns is not None:
        raise ValueError(
            "columns is for models of raw columns: a ParityPostprocessor takes scores and group_proba."
        )
    require_cost(model.policy_.cost)
    graph, kinds = _build(model, wish, columns)
    if graph.single_parts:
        warn_user(
            f"ONNX has {', '.join(dict.fromkeys(graph.single_parts))} in single precision alone: scores of "
            "the graph are off by 1e-7 of their size, and probabilities, at a sharp beta, by 1e-3 at times.",
            SinglePrecisionWarning,
        )
    made = graph.model(type(model).__name__, _metadata(model, wish, kinds, graph.single_parts))
    with whole_file(path) as file:
        file.write(made.SerializeToString())


def _check_wish(model: Any, output: Any, draw_by: str, q: float, precision: str) -> Wish:
    listed = isinstance(output, Sequence) and not isinstance(output, str)
    outputs = tuple(output) if listed else (output,)
    offered = [name for name, method in METHODS.items() if hasattr(model, method)]
    if not outputs or any(name not in offered for name in outputs) or len(set(outputs)) < len(outputs):
        raise ValueError(
            f"output of {type(model).__name__} must be among {', '.join(offered)}, each once at most: got "
            f"{output!r}."
        )
    if draw_by not in DRAWS:
        raise ValueError(f"draw_by must be one of {', '.join(DRAWS)}: got {draw_by!r}.")
    if precision not in tuple(PRECISIONS):
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}: got {precision!r}.")
    level = check_levels(q, 1)
    if level.ndim:
        raise ValueError("q must be one number, which is then part of the graph.")
    return Wish(outputs, draw_by, float(level), PRECISIONS[precision])


def _build(model: Any, wish: Wish, columns: Any) -> tuple[Graph, dict[Any, str] | None]:
    """The graph, and the kinds of its raw columns; None where it takes scores and group probabilities."""
    if isinstance(model, ParityPostprocessor):
        return _build_step(model, wish), None
    kinds = column_kinds(model, columns)
    graph = Graph(wish.dtype)
    try:
        table = input_table(graph, list(kinds), list(kinds.values()))
        rows = estimator_rows(graph, model, table)
        _add_answers(graph, model, rows, wish, table)
        return graph, kinds
    except NoConverterError as error:
        way_out = "" if wish.draw_by != "features" or "draw" not in wish.outputs else (
            " Its draw takes an input uniform, since it sees no features."
        )  # fmt: skip
        warn_user(
            f"There is no ONNX form of {error} in this {type(model).__name__}: the graph has the parity step "
            f"alone, and takes scores and group_proba as predict_scores has them.{way_out}",
            StepAloneWarning,
        )
    if wish.draw_by == "features":
        wish = Wish(wish.outputs, "uniform", wish.q, wish.dtype)
    return _build_step(model, wish), None


def _build_step(model: Any, wish: Wish) -> Graph:
    """The parity step alone."""
    graph, policy = Graph(wish.dtype), model.policy_
    n_classes = policy.cost.n_classes
    scores = graph.add_input(SCORES, graph.dtype, "rows", *([] if n_classes is None else [n_classes]))
    proba = graph.add_input(PROBA, graph.dtype, "rows", len(policy.group_prior))
    rows = checked_rows(graph, policy, graph.column(scores) if n_classes is None else scores, proba)
    _add_answers(graph, model, rows, wish, None)
    return graph


def _add_answers(graph: Graph, model: Any, rows: StepRows, wish: Wish, table: Table | None) -> None:
    """Declare the outputs."""
    policy = model.policy_
    answers, values = Answers(graph, policy, rows), _answer_values(model, graph)
    for name in wish.outputs:
        title = name
        while title in graph.input_names():
            title = f"predicted_{title}"
        if name in ("pmf", "proba"):
            graph.add_output(title, answers.pmf(), graph.dtype, "rows", len(policy.grid.atoms))
            continue
        if name == "mean":
            graph.add_output(title, answers.mean(), graph.dtype, "rows")
            continue
        if name == "mode":
            place = answers.mode()
        elif name == "draw":
            level = _uniforms(graph, model, wish.draw_by, table)
            place = answers.place(graph.cast(level, graph.dtype))
        else:
            place = answers.place(0.5 if name == "median" else wish.q)
        graph.add_output(title, graph.op("Gather", values, place), values.dtype, "rows")


def _answer_values(model: Any, graph: Graph) -> AnyArray:
    """What each place among the atoms stands for: the atom, or the class."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        atoms: AnyArray = model.atoms_.astype(graph.dtype)
        return atoms
    try:
        return label_values(classes.tolist())
    except NoConverterError as error:
        raise TypeError(f"classes_ cannot be the output of a graph: these are {error}.") from error


def _uniforms(graph: Graph, model: Any, draw_by: str, table: Table | None) -> str:
    """A number in (0, 1) for each row, (n_rows,)."""
    key, policy = model.draw_key_, model.policy_
    if draw_by == "uniform":
        return graph.add_input("uniform", graph.dtype, "rows")
    if draw_by == "integers":
        return uniforms(graph, hash_integers(graph, graph.add_input("ids", np.int64, "rows"), key))
    if draw_by == "text":
        return uniforms(graph, hash_text(graph, graph.add_input("ids", np.str_, "rows"), key))
    if table is not None:
        return uniforms(graph, table.hashes(key))
    graph = graph.in_double()  # in a graph of single precision, too: a hash has no use for nearly the same
    given = [graph.cast(name, np.float64) for name in (SCORES, PROBA)]
    if policy.cost.n_classes is None:
        given[0] = graph.column(given[0])
    rows = checked_rows(graph, policy, *given)
    scaled = scaled_scores(graph, policy, rows.scores) if policy.cost.n_classes is None else rows.scores
    return uniforms(graph, hash_rows(graph, scaled, rows.group_proba, key))


def _metadata(model: Any, wish: Wish, kinds: dict[Any, str] | None, single: list[str]) -> dict[str, str]:
    """Facts of the model card that a fitted model knows by itself, as text and JSON."""
    classes = getattr(model, "classes_", None)
    facts: dict[str, Any] = {
        "evenhand": __version__,
        "model": type(model).__name__,
        "opset": OPSET,
        "precision": np.dtype(wish.dtype).name,
        "parts_in_single_precision": single,
        "columns": None if kinds is None else {str(name): kind for name, kind in kinds.items()},
        "outputs": list(wish.outputs),
        "draw_by": wish.draw_by if "draw" in wish.outputs else None,
        "q": wish.q if "quantile" in wish.outputs else None,
        "aware": bool(getattr(model, "aware", False)),
        "atoms": model.atoms_.tolist(),
        "classes": None if classes is None else [str(label) for label in classes.tolist()],
        "groups": [str(label) for label in model.groups_.tolist()],
        "group_prior": model.group_prior_.tolist(),
        "epsilon": model.epsilon_.tolist(),
        "beta": model.beta_,
        "out_of_sample": model._estimate_text(),
        "certificate": model.certificate_.to_dict(),
    }
    return {
        name if name == "evenhand" else f"evenhand.{name}": (
            value if isinstance(value, str) else json.dumps(value, default=str)
        )
        for name, value in facts.items()
    }
