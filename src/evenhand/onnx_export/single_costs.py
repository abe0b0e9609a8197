"""Costs in single precision that are not linear in what they know of a row, each as a pair of numbers."""

from collections.abc import Callable

from evenhand.dual.costs import Absolute, Huber, Pinball
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.single import FARTHEST, Pair, minus, number_pair, ratio, settled, single, square


def cost_pair(graph: Graph, policy: SoftmaxPolicy, scores: str) -> Pair:
    """Cost of each atom in units of the problem, (n_rows, n_atoms)."""
    inside = graph.op("Clip", scores, single(-FARTHEST), single(FARTHEST))
    away = settled(graph, minus(graph, inside, policy.grid.atoms))
    return COSTS[type(policy.cost)](graph, policy, away)


def _absolute(graph: Graph, policy: SoftmaxPolicy, away: Pair) -> Pair:
    return ratio(graph, _size(graph, away), number_pair(graph, policy.cost.unit(policy.grid)))


def _pinball(graph: Graph, policy: SoftmaxPolicy, away: Pair) -> Pair:
    assert isinstance(policy.cost, Pinball)
    unit, alpha = policy.cost.unit(policy.grid), policy.cost.alpha
    is_above = graph.op("Greater", away.high, single(0.0))
    sides = [number_pair(graph, unit / alpha), number_pair(graph, unit / (1.0 - alpha))]
    return ratio(graph, _size(graph, away), _where(graph, is_above, *sides))


def _huber(graph: Graph, policy: SoftmaxPolicy, away: Pair) -> Pair:
    assert isinstance(policy.cost, Huber)
    unit, delta, size = policy.cost.unit(policy.grid), policy.cost.delta, _size(graph, away)
    near = ratio(graph, square(graph, size), number_pair(graph, unit))
    beyond = minus(graph, graph.op("Mul", size.high, single(2.0)), delta)
    low = graph.op("Add", _low(beyond), graph.op("Mul", _low(size), single(2.0)))
    far = ratio(graph, Pair(beyond.high, low), number_pair(graph, unit / delta))
    return _where(graph, graph.op("LessOrEqual", size.high, single(delta)), near, far)


def _size(graph: Graph, values: Pair) -> Pair:
    """Absolute values."""
    turned = graph.op("Mul", _low(values), graph.op("Sign", values.high))
    return Pair(graph.op("Abs", values.high), turned)


def _where(graph: Graph, mask: str, one: Pair, other: Pair) -> Pair:
    high = graph.op("Where", mask, one.high, other.high)
    return Pair(high, graph.op("Where", mask, _low(one), _low(other)))


def _low(values: Pair) -> str:
    assert values.low is not None
    return values.low


COSTS: dict[type, Callable[[Graph, SoftmaxPolicy, Pair], Pair]] = {
    Absolute: _absolute,
    Pinball: _pinball,
    Huber: _huber,
}
