"""Parts of a model that only skl2onnx knows how to write, taken into a graph."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from evenhand._utils.optional import import_optional
from evenhand.onnx_export.graph import DOMAINS, ML, ML_OPSET, OPSET, Graph
from evenhand.onnx_export.tables import NoConverterError, Table, matrix_table

N_TRIED = 64  # rows on which what skl2onnx wrote is compared with the model
NEAR = 1e-4  # apart at most: single precision, and not another answer
SAME = 1e-11  # apart at most: double precision throughout


def foreign_model(graph: Graph, model: Any, numbers: str, width: int) -> str:
    """Scores, (n_rows, 1), or probabilities, (n_rows, n_classes), of a model that skl2onnx knows."""
    outputs = _converted(graph, model, numbers, width)
    last = outputs[1] if is_classifier(model) else outputs[0]
    found = graph.cast(last, graph.dtype)
    return found if is_classifier(model) else graph.column(found)


def foreign_transformer(graph: Graph, step: Any, numbers: str, width: int) -> Table:
    """Columns after a transformer that skl2onnx knows."""
    numbers = graph.cast(_converted(graph, step, numbers, width)[0], graph.dtype)
    size = step.transform(np.zeros((1, width))).shape[1]
    return matrix_table(graph, numbers, size)


def _converted(graph: Graph, part: Any, numbers: str, width: int) -> list[str]:
    """Names of the outputs of a part that was written by skl2onnx, with its nodes in the graph.

    What it cannot write, or writes in a way that does not run, in double precision is tried in single.
    """
    for dtype in dict.fromkeys([graph.dtype, np.dtype(np.float32)]):
        written = _write(graph, part, width, dtype)
        off = np.inf if written is None else _difference(part, written, width, dtype)
        if off <= NEAR:
            given = numbers if dtype == graph.dtype else graph.cast(numbers, dtype)
            if graph.dtype == np.float64 and (dtype == np.float32 or off > SAME):
                graph.single_parts.append(type(part).__name__)
            return _taken_in(graph, written.graph, {written.graph.input[0].name: given})
    raise NoConverterError(type(part).__name__)


def _write(graph: Graph, part: Any, width: int, dtype: Any) -> Any:
    """The part by itself as skl2onnx writes it; None where it cannot."""
    skl2onnx = import_optional("skl2onnx", extra="onnx", purpose=f"eh.export_onnx of {type(part).__name__}")
    types = import_optional("skl2onnx.common.data_types", extra="onnx", purpose="eh.export_onnx")
    kind = types.FloatTensorType if dtype == np.float32 else types.DoubleTensorType
    versions = {"": OPSET, ML: ML_OPSET}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            written = skl2onnx.convert_sklearn(
                part,
                initial_types=[("X", kind([None, width]))],
                target_opset=versions,
                options={id(part): {"zipmap": False}} if is_classifier(part) else None,
            )
        for domain in written.opset_import:  # its nodes must mean the same among those of this graph
            domain.version = versions.get(domain.domain, domain.version)
        graph.onnx.checker.check_model(written)
    except Exception:  # of every kind: whatever it is, this part has no graph
        return None
    # Functions that a file brings along are not taken in, so operators are those of ONNX and its runtime.
    known = all(node.domain in DOMAINS for node in written.graph.node)
    return written if known and not written.functions else None


def _difference(part: Any, written: Any, width: int, dtype: Any) -> float:
    """How far what was written is from the part itself on some rows; infinite where it does not run."""
    runtime = import_optional("onnxruntime", extra="onnx", purpose="eh.export_onnx")
    rows = np.random.default_rng(0).normal(size=(N_TRIED, width)).astype(dtype)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(
            written.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found = session.run(None, {session.get_inputs()[0].name: rows})
    except Exception:  # it does not run
        return np.inf
    method = next(name for name in ("predict_proba", "predict", "transform") if hasattr(part, name))
    try:
        wanted = getattr(part, method)(rows)
    except ValueError:  # it does not take such rows, and there are no others to try it on
        return 0.0
    wanted = wanted.toarray() if hasattr(wanted, "toarray") else np.asarray(wanted)
    said = np.asarray(found[1] if method == "predict_proba" else found[0]).reshape(wanted.shape)
    off = np.abs(said - wanted) / (1.0 + np.abs(wanted).max())
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0.0))


def _taken_in(graph: Graph, other: Any, names: dict[str, str]) -> list[str]:
    """Add the nodes of another graph, whose inputs are `names`, under names of their own."""
    names = dict(names)
    for constant in other.initializer:
        names[constant.name] = graph.constant(graph.onnx.numpy_helper.to_array(constant))
    for node in _renamed(graph, other.node, names):
        graph.nodes.append(node)
        if node.domain:
            graph.domains.add(node.domain)
    return [names[output.name] for output in other.output]


def _renamed(graph: Graph, nodes: Any, names: dict[str, str]) -> list[Any]:
    """Copies of nodes under new names, which are added to `names`; graphs inside them, too."""
    copies = []
    for node in nodes:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = ""
        copy.input[:] = [names[each] if each else "" for each in node.input]
        names |= {each: graph.new_name("part") for each in node.output if each}
        copy.output[:] = [names[each] if each else "" for each in node.output]
        for attribute in copy.attribute:
            if attribute.HasField("g"):
                _rename_inside(graph, attribute.g, dict(names))
        copies.append(copy)
    return copies


def _rename_inside(graph: Graph, inner: Any, names: dict[str, str]) -> None:
    """Rename all that is in a graph inside a node, which sees the names around it."""
    for named in (*inner.input, *inner.initializer):
        names[named.name] = graph.new_name("part")
        named.name = names[named.name]
    nodes = _renamed(graph, inner.node, names)
    del inner.node[:]
    inner.node.extend(nodes)
    for output in inner.output:
        output.name = names[output.name]
    del inner.value_info[:]
