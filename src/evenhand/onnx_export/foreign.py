"""Parts of a model that only skl2onnx knows how to write, taken into a graph."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from evenhand._utils.optional import import_optional
from evenhand.onnx_export.graph import ML, ML_OPSET, OPSET, Graph
from evenhand.onnx_export.tables import NoConverterError, Table, matrix_table


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
    """Names of the outputs of a part that was written by skl2onnx, with its nodes in the graph."""
    skl2onnx = import_optional("skl2onnx", extra="onnx", purpose=f"eh.export_onnx of {type(part).__name__}")
    types = skl2onnx.common.data_types
    single = graph.dtype == np.float32
    kind = types.FloatTensorType if single else types.DoubleTensorType
    options = {id(part): {"zipmap": False}} if is_classifier(part) else None
    try:
        written = skl2onnx.convert_sklearn(
            part,
            initial_types=[("X", kind([None, width]))],
            target_opset={"": OPSET, ML: ML_OPSET},
            options=options,
        )
        versions = {"": OPSET, ML: ML_OPSET}
        for domain in written.opset_import:  # its nodes must mean the same among those of this graph
            domain.version = versions.get(domain.domain, domain.version)
        graph.onnx.checker.check_model(written)
    except Exception as error:  # of every kind: whatever it is, this part has no graph
        raise NoConverterError(f"{type(part).__name__}") from error
    return _taken_in(graph, written.graph, numbers)


def _taken_in(graph: Graph, other: Any, numbers: str) -> list[str]:
    """Add the nodes of another graph of one input, under names of their own."""
    names = {other.input[0].name: numbers}
    for constant in other.initializer:
        names[constant.name] = graph.constant(graph.onnx.numpy_helper.to_array(constant))
    for node in other.node:
        for output in node.output:
            names[output] = graph.new_name(output) if output else ""
    for node in other.node:
        if any(attribute.HasField("g") for attribute in node.attribute):
            raise NoConverterError("a model whose graph has graphs inside")
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = ""
        copy.input[:] = [names[each] if each else "" for each in node.input]
        copy.output[:] = [names[each] for each in node.output]
        graph.nodes.append(copy)
        if node.domain:
            graph.domains.add(node.domain)
    return [names[output.name] for output in other.output]
