"""Ensembles of trees as graphs that answer as the trees do, to the last bits of a sum.

ONNX's operator for trees adds up leaves in single precision. Here it tells only in which leaf of each tree a
row ends, which is a whole number; what the leaves say is looked up beside it and added in double precision.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.onnx_export.graph import ML, Graph
from evenhand.onnx_export.tables import NoConverterError, Table

MOST_LEAVES = 1 << 24  # beyond, single precision does not tell their numbers apart


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree: its nodes in arrays, (n_nodes,), and what the leaves say, (n_nodes, ...)."""

    left: IntArray  # where the condition holds; of leaves anything
    right: IntArray
    is_leaf: AnyArray
    feature: IntArray
    threshold: FloatArray
    missing_left: AnyArray  # a missing value goes left
    value: AnyArray


def leaf_values(graph: Graph, trees: list[Tree], numbers: str, *, strict: bool = False) -> str:
    """What the leaf of each row says in each tree, (n_rows, n_trees, ...).

    The condition of a node is `x <= threshold`, or with `strict` `x < threshold`.
    """
    sizes = [int(tree.is_leaf.sum()) for tree in trees]
    if sum(sizes) > MOST_LEAVES:
        raise NoConverterError(f"trees of {sum(sizes)} leaves, more than {MOST_LEAVES}")
    ids = np.repeat(np.arange(len(trees)), [len(tree.left) for tree in trees])
    leaves = np.concatenate([tree.is_leaf.astype(bool) for tree in trees])
    nodes = np.concatenate([np.arange(len(tree.left)) for tree in trees])
    thresholds = np.concatenate([tree.threshold for tree in trees])

    def listed(name: str) -> list[int]:
        values = np.concatenate([getattr(tree, name) for tree in trees]).astype(np.int64)
        inner: list[int] = np.where(leaves, 0, values).tolist()
        return inner

    places = graph.op(
        "TreeEnsembleRegressor",
        numbers,
        domain=ML,
        n_targets=len(trees),
        nodes_treeids=ids.tolist(),
        nodes_nodeids=nodes.tolist(),
        nodes_featureids=listed("feature"),
        nodes_modes=np.where(leaves, "LEAF", "BRANCH_LT" if strict else "BRANCH_LEQ").tolist(),
        nodes_truenodeids=listed("left"),
        nodes_falsenodeids=listed("right"),
        nodes_missing_value_tracks_true=listed("missing_left"),
        target_treeids=ids[leaves].tolist(),
        target_nodeids=nodes[leaves].tolist(),
        target_ids=ids[leaves].tolist(),
        **_numbers_of(graph, np.where(leaves, 0.0, thresholds), np.arange(sum(sizes)), strict),
    )
    said = np.concatenate([tree.value[tree.is_leaf.astype(bool)] for tree in trees])
    return graph.op("Gather", said, graph.cast(places, np.int64))


def _numbers_of(graph: Graph, thresholds: FloatArray, leaves: IntArray, strict: bool) -> dict[str, Any]:
    """Thresholds and the numbers of leaves in the graph's own precision.

    In single precision a threshold is moved to the next number on the side where every single-precision
    number still falls as it did.
    """
    if graph.dtype == np.float64:
        tensor = graph.onnx.numpy_helper.from_array
        return {
            "nodes_values_as_tensor": tensor(thresholds.astype(np.float64)),
            "target_weights_as_tensor": tensor(leaves.astype(np.float64)),
        }
    with np.errstate(over="ignore"):
        single = thresholds.astype(np.float32)
    beyond = single < thresholds if strict else single > thresholds
    towards = np.float32(np.inf if strict else -np.inf)
    single = np.where(beyond, np.nextafter(single, towards), single)
    return {"nodes_values": single.tolist(), "target_weights": leaves.astype(np.float64).tolist()}


def sum_of_trees(graph: Graph, values: str) -> str:
    """The sum over trees of what their leaves say, (n_rows, ...), from (n_rows, n_trees, ...)."""
    return graph.op("ReduceSum", values, np.array([1]), keepdims=0)


def as_single(graph: Graph, numbers: str) -> str:
    """Numbers rounded to single precision, as many libraries of trees do to their input."""
    return graph.cast(graph.cast(numbers, np.float32), graph.dtype)


def sigmoid_pair(graph: Graph, raw: str) -> str:
    """Probabilities of two classes, (n_rows, 2), from the log-odds of the second, (n_rows, 1)."""
    second = graph.op("Div", 1.0, graph.op("Add", graph.op("Exp", graph.op("Neg", raw)), 1.0))
    return graph.join([graph.op("Sub", 1.0, second), second])


def softmax(graph: Graph, raw: str) -> str:
    """Probabilities of classes, (n_rows, n_classes)."""
    top = graph.op("ReduceMax", raw, np.array([1]), keepdims=1)
    powers = graph.op("Exp", graph.op("Sub", raw, top))
    return graph.op("Div", powers, graph.op("ReduceSum", powers, np.array([1]), keepdims=1))


def raw_sums(graph: Graph, values: str, start: FloatArray) -> str:
    """Sums of boosted trees for each class, (n_rows, n_classes), where they take turns; `start` is added."""
    turns = graph.op("Reshape", values, np.array([0, -1, len(start)], np.int64))
    return graph.op("Add", sum_of_trees(graph, turns), start.astype(graph.dtype))


def _forest(graph: Graph, model: Any, table: Table) -> str:
    """Mean of the trees of a forest, or the one tree: (n_rows, 1), or probabilities (n_rows, n_classes)."""
    found = getattr(model, "estimators_", None) or [model]
    trees = [_grown(each.tree_, graph) for each in found]
    values = leaf_values(graph, trees, as_single(graph, table.numbers()))
    return graph.op("Div", sum_of_trees(graph, values), float(len(trees)))


def _grown(tree: Any, graph: Graph, scale: float = 1.0) -> Tree:
    """A tree of scikit-learn's; values have one column, or one for each class."""
    if tree.n_outputs != 1:
        raise NoConverterError("trees of several outcomes")
    return Tree(
        left=tree.children_left,
        right=tree.children_right,
        is_leaf=tree.children_left < 0,
        feature=tree.feature,
        threshold=tree.threshold,
        missing_left=tree.missing_go_to_left,
        value=(scale * tree.value[:, 0, :]).astype(graph.dtype),
    )


def _gradient_boosting(graph: Graph, model: Any, table: Table) -> str:
    if model.init is not None and model.init != "zero":
        raise NoConverterError(f"{type(model).__name__} that starts from a model of its own (init)")
    start = model._raw_predict_init(np.zeros((1, model.n_features_in_)))[0]
    stages = [_grown(each.tree_, graph, model.learning_rate) for each in model.estimators_.ravel()]
    values = leaf_values(graph, stages, as_single(graph, table.numbers()))
    raw = raw_sums(graph, values, start)
    if not hasattr(model, "classes_"):
        return raw
    if len(start) > 1:
        return softmax(graph, raw)
    return sigmoid_pair(graph, graph.op("Mul", raw, 2.0) if model.loss == "exponential" else raw)


def _hist_gradient_boosting(graph: Graph, model: Any, table: Table) -> str:
    if model._preprocessor is not None or model.is_categorical_ is not None:
        raise NoConverterError(f"{type(model).__name__} with categorical features")
    trees = [
        Tree(
            left=nodes["left"].astype(np.int64),
            right=nodes["right"].astype(np.int64),
            is_leaf=nodes["is_leaf"].astype(bool),
            feature=nodes["feature_idx"],
            threshold=nodes["num_threshold"],
            missing_left=nodes["missing_go_to_left"],
            value=nodes["value"].astype(graph.dtype),
        )
        for nodes in (tree.nodes for turn in model._predictors for tree in turn)
    ]
    start = model._baseline_prediction[0]
    raw = raw_sums(graph, leaf_values(graph, trees, table.numbers()), start)
    if hasattr(model, "classes_"):
        return softmax(graph, raw) if len(start) > 1 else sigmoid_pair(graph, raw)
    link = type(model._loss.link).__name__
    if link not in ("IdentityLink", "LogLink"):
        raise NoConverterError(f"{type(model).__name__} with the loss {model.loss!r}")
    return graph.op("Exp", raw) if link == "LogLink" else raw


TREE_MODELS = {
    "DecisionTreeClassifier": _forest,
    "DecisionTreeRegressor": _forest,
    "ExtraTreeClassifier": _forest,
    "ExtraTreeRegressor": _forest,
    "ExtraTreesClassifier": _forest,
    "ExtraTreesRegressor": _forest,
    "GradientBoostingClassifier": _gradient_boosting,
    "GradientBoostingRegressor": _gradient_boosting,
    "HistGradientBoostingClassifier": _hist_gradient_boosting,
    "HistGradientBoostingRegressor": _hist_gradient_boosting,
    "RandomForestClassifier": _forest,
    "RandomForestRegressor": _forest,
}
