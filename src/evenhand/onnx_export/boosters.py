"""Models of XGBoost and LightGBM as graphs, from what the libraries themselves write of their trees."""

import json
from typing import Any

import numpy as np

from evenhand.onnx_export.graph import Graph, Value
from evenhand.onnx_export.tables import NoConverterError, Table
from evenhand.onnx_export.trees import Tree, as_single, leaf_values, raw_sums, sigmoid_pair, softmax

FAR_LOG_ODDS = 88.7  # beyond, XGBoost's own sigmoid takes them for this
CELLS = 32  # of a power of two, in the C library's exponential
# 2^r for |r| up to half a cell, from the third power down to the first, as that exponential has it.
CUBIC = tuple(map(float.fromhex, ("0x1.c6af84b912394p-5", "0x1.ebfce50fac4f3p-3", "0x1.62e42ff0c52d6p-1")))


def xgboost_model(graph: Graph, model: Any, table: Table) -> str:
    """A model of XGBoost's scikit-learn interface: sums in single precision, in its own order."""
    learner = json.loads(bytes(model.get_booster().save_raw("json")))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if booster["name"] != "gbtree" or getattr(model, "missing", np.nan) == model.missing:
        raise NoConverterError("a model of XGBoost that is not of plain trees with NaN for what is missing")
    grown = booster["model"]
    turns, n_classes = grown["tree_info"], max(1, int(learner["learner_model_param"]["num_class"]))
    best = getattr(model.get_booster(), "best_iteration", None) if model.early_stopping_rounds else None
    if best is not None:
        turns = turns[: grown["iteration_indptr"][best + 1]]
    if turns != [place % n_classes for place in range(len(turns))]:
        raise NoConverterError("a model of XGBoost with several trees in parallel")
    trees = [_xgboost_tree(each) for each in grown["trees"][: len(turns)]]
    start = np.atleast_1d(json.loads(learner["learner_model_param"]["base_score"])).astype(np.float32)
    values = leaf_values(graph, trees, as_single(graph, table.numbers()), strict=True)
    if objective == "binary:logistic":
        return _single_sigmoid(graph, _single_sums(graph, values, _log_odds(start)))
    if objective in ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "reg:pseudohubererror"):
        return graph.cast(_single_sums(graph, values, start), graph.dtype)
    if objective != "multi:softprob":
        raise NoConverterError(f"a model of XGBoost with the objective {objective!r}")
    starts = np.broadcast_to(start, n_classes)
    return _single_softmax(graph, _single_sums(graph, values, starts))


def _xgboost_tree(tree: dict[str, Any]) -> Tree:
    if any(tree["split_type"]):
        raise NoConverterError("a model of XGBoost with categorical features")
    conditions = np.array(tree["split_conditions"], np.float32)
    left = np.array(tree["left_children"])
    return Tree(
        left=left,
        right=np.array(tree["right_children"]),
        is_leaf=left < 0,
        feature=np.array(tree["split_indices"]),
        threshold=conditions.astype(np.float64),
        missing_left=np.array(tree["default_left"]),
        value=conditions,  # of a leaf it is what the leaf says
    )


def _log_odds(share: Any) -> Any:
    return -np.log(np.float32(1.0) / share - np.float32(1.0))


def _single_sums(graph: Graph, values: str, start: Any) -> str:
    """Sums for each class, (n_rows, n_classes), added one after the other in single precision."""
    n_classes = len(start)
    turns = graph.op("Reshape", values, np.array([0, -1, n_classes], np.int64))
    shape = graph.join(
        [graph.number_of_rows(values), graph.constant(np.array([1, n_classes], np.int64))], axis=0
    )
    first = graph.op("Expand", np.asarray(start, np.float32), shape)
    sums = graph.op("CumSum", graph.join([first, turns]), np.int64(1))
    return graph.op("Gather", sums, np.int64(-1), axis=1)


def _single_sigmoid(graph: Graph, raw: str) -> str:
    """Probabilities of two classes as XGBoost rounds them: every step is rounded to single precision."""
    far = graph.op("Min", graph.op("Neg", raw), np.float32(FAR_LOG_ODDS))
    second = graph.op("Div", np.float32(1.0), graph.op("Add", _single_exp(graph, far), np.float32(1.0)))
    both = graph.join([graph.op("Sub", np.float32(1.0), second), second])
    return graph.cast(both, graph.dtype)


def _single_exp(graph: Graph, values: str) -> str:
    """The exponential in single precision, rounded as the C library of Linux (glibc 2.27 or later) rounds it.

    That is `2^(k/32)` times a cubic in double precision, and in one of 20 000 numbers not the nearest: the
    last bit differs. XGBoost calls it, and at a sharp beta the last bit is seen.
    """
    places = graph.op("Mul", graph.cast(values, np.float64), np.float64(CELLS / np.log(2.0)))
    whole = graph.op("Round", places)
    rest = graph.op("Div", graph.op("Sub", places, whole), np.float64(CELLS))
    near: Value = np.float64(0.0)
    for factor in (*CUBIC, 1.0):
        near = graph.op("Add", graph.op("Mul", near, rest), np.float64(factor))
    power = graph.op("Pow", np.float64(2.0), graph.op("Div", whole, np.float64(CELLS)))
    return graph.cast(graph.op("Mul", near, power), np.float32)


def _single_softmax(graph: Graph, raw: str) -> str:
    """The same for several classes: only the sum is in double precision, and rounded before it divides."""
    top = graph.op("ReduceMax", raw, np.array([1]), keepdims=1)
    rounded = _single_exp(graph, graph.op("Sub", raw, top))
    total = graph.op("ReduceSum", graph.cast(rounded, np.float64), np.array([1]), keepdims=1)
    return graph.cast(graph.op("Div", rounded, graph.cast(total, np.float32)), graph.dtype)


def lightgbm_model(graph: Graph, model: Any, table: Table) -> str:
    """A model of LightGBM's scikit-learn interface."""
    best = getattr(model, "best_iteration_", None) or -1
    written = model.booster_.dump_model(num_iteration=best)
    objective, n_classes = written.get("objective", "none").split(" "), written["num_tree_per_iteration"]
    if written["average_output"]:
        raise NoConverterError("a forest of LightGBM")
    trees = [_lightgbm_tree(each["tree_structure"], graph) for each in written["tree_info"]]
    raw = raw_sums(graph, leaf_values(graph, trees, table.numbers()), np.zeros(n_classes))
    if objective[0] == "binary":
        slope = float(objective[1].partition(":")[2])
        return sigmoid_pair(graph, graph.op("Mul", raw, slope))
    if objective[0] == "multiclass":
        return softmax(graph, raw)
    if objective[0] not in ("regression", "regression_l1", "huber", "fair", "quantile", "mape"):
        raise NoConverterError(f"a model of LightGBM with the objective {objective[0]!r}")
    if "sqrt" in objective[1:]:
        raise NoConverterError("a model of LightGBM of square roots (reg_sqrt)")
    return raw


def _lightgbm_tree(root: dict[str, Any], graph: Graph) -> Tree:
    """Nodes in arrays, the root first."""
    nodes: list[dict[str, Any]] = [root]
    children: list[tuple[int, int]] = []
    for node in nodes:  # which grows as it is read
        if "left_child" not in node:
            children.append((0, 0))
            continue
        if node["decision_type"] != "<=" or node["missing_type"] not in ("None", "NaN"):
            raise NoConverterError("a model of LightGBM with categories, or with zeros for missing values")
        children.append((len(nodes), len(nodes) + 1))
        nodes += [node["left_child"], node["right_child"]]
    leaves = np.array(["left_child" not in node for node in nodes])
    # a missing value counts as zero where the fit has seen none
    missing_left = [
        node.get("default_left", False)
        if node.get("missing_type") == "NaN"
        else node.get("threshold", 0.0) >= 0.0
        for node in nodes
    ]
    return Tree(
        left=np.array([left for left, _ in children]),
        right=np.array([right for _, right in children]),
        is_leaf=leaves,
        feature=np.array([node.get("split_feature", 0) for node in nodes]),
        threshold=np.array([node.get("threshold", 0.0) for node in nodes], np.float64),
        missing_left=np.array(missing_left),
        value=np.array([node.get("leaf_value", 0.0) for node in nodes], graph.dtype),
    )


BOOSTERS = {
    "LGBMClassifier": lightgbm_model,
    "LGBMRegressor": lightgbm_model,
    "XGBClassifier": xgboost_model,
    "XGBRegressor": xgboost_model,
}
