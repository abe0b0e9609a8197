"""Logits in single precision that are told apart as in double: what rounding leaves is carried along.

At the default beta of 10 000 a rounding of 1e-7 in a logit's parts moves a probability by a thousandth. Every
feature is therefore a pair of numbers, of which the second is what the first leaves out, and products are
taken in two parts: numbers rounded to so few bits that their products and sums are exact, and the small rest.
"""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.onnx_export.graph import Graph, Value

SPLITTER = 4097.0  # 2^12 + 1, of Dekker's split of 24 bits
FARTHEST = 1e15  # of a feature: beyond, products of single-precision numbers would be infinite
BITS = 24


@dataclass(frozen=True, slots=True)
class Pair:
    """A tensor, and what it leaves out; None where that is nothing."""

    high: str
    low: str | None = None


def single(values: FloatArray | float) -> FloatArray:
    """Numbers rounded to single precision."""
    return np.asarray(values, np.float32)


def minus(graph: Graph, values: str, numbers: FloatArray | float) -> Pair:
    """Values less a number, or less each of several beside one another."""
    near = single(numbers)
    high, low = _sum_and_error(graph, values, -near)
    return Pair(high, graph.op("Sub", low, single(numbers - near.astype(np.float64))))


def settled(graph: Graph, values: Pair) -> Pair:
    """The same sums, where the first number has the sign of the sum and is as near to it as can be."""
    assert values.low is not None
    return Pair(*_sum_and_error(graph, values.high, values.low))


def difference(graph: Graph, one: Pair, other: Pair) -> Pair:
    """One pair less another."""
    assert one.low is not None
    assert other.low is not None
    high, left = _sum_and_error(graph, one.high, graph.op("Neg", other.high))
    return Pair(high, graph.op("Add", graph.op("Sub", one.low, other.low), left))


def square(graph: Graph, values: Pair) -> Pair:
    """Each value times itself."""
    high = graph.op("Mul", values.high, values.high)
    low = _product_error(graph, values.high, values.high, high)
    if values.low is not None:
        low = graph.op("Add", low, graph.op("Mul", graph.op("Mul", values.high, values.low), single(2.0)))
    return Pair(high, low)


def ratio(graph: Graph, values: Pair, divisor: Pair) -> Pair:
    """One pair over another, of shapes that go together."""
    high = graph.op("Div", values.high, divisor.high)
    left = graph.op("Neg", _product_error(graph, high, divisor.high, values.high))
    if values.low is not None:
        left = graph.op("Add", left, values.low)
    if divisor.low is not None:
        left = graph.op("Sub", left, graph.op("Mul", high, divisor.low))
    return Pair(high, graph.op("Div", left, divisor.high))


def number_pair(graph: Graph, number: float) -> Pair:
    """A number as a pair of constants."""
    near = single(number)
    return Pair(graph.constant(near), graph.constant(single(number - float(near))))


def shares(graph: Graph, proba: str, n_columns: int) -> Pair:
    """Each row divided by its sum."""
    total, *others = graph.split(proba, n_columns)
    left = None
    for column in others:
        total, error = _sum_and_error(graph, total, column)
        left = error if left is None else graph.op("Add", left, error)
    return ratio(graph, Pair(proba), Pair(total, left))


def joined(graph: Graph, pairs: list[Pair]) -> Pair:
    """Pairs side by side."""
    lows = [pair.low or graph.op("Mul", pair.high, single(0.0)) for pair in pairs]
    return Pair(graph.join([pair.high for pair in pairs]), graph.join(lows))


def linear(graph: Graph, features: Pair, loadings: FloatArray, offset: FloatArray) -> Pair:
    """Features (n_rows, n_features) times loadings, plus the offset: the exact part and the rest."""
    assert features.low is not None
    bits = (BITS - int(np.ceil(np.log2(len(loadings) + 1)))) // 2
    step = 2.0 ** np.ceil(np.log2(max(np.abs(loadings).max(), np.abs(offset).max()))) / 2.0**bits
    coarse = np.rint(loadings / step) * step
    coarse_offset = np.rint(offset / step) * step
    inside = graph.op("Clip", features.high, single(-FARTHEST), single(FARTHEST))
    rounded = graph.op(
        "Mul", graph.op("Round", graph.op("Mul", inside, single(2.0**bits))), single(2.0**-bits)
    )
    rest = graph.op("Add", graph.op("Sub", inside, rounded), features.low)
    lead = graph.product(rounded, coarse, coarse_offset)
    beside = np.concatenate([loadings - coarse, loadings])
    return Pair(lead, graph.product(graph.join([rounded, rest]), beside, offset - coarse_offset))


def _sum_and_error(graph: Graph, one: Value, other: Value) -> tuple[str, str]:
    """The rounded sum, and what it leaves out, exactly."""
    total = graph.op("Add", one, other)
    back = graph.op("Sub", total, one)
    first = graph.op("Sub", one, graph.op("Sub", total, back))
    return total, graph.op("Add", first, graph.op("Sub", other, back))


def _halves(graph: Graph, value: str) -> tuple[str, str]:
    """A number as a sum of two of twelve bits each."""
    large = graph.op("Mul", value, single(SPLITTER))
    high = graph.op("Sub", large, graph.op("Sub", large, value))
    return high, graph.op("Sub", value, high)


def _product_error(graph: Graph, one: str, other: str, product: str) -> str:
    """`one * other - product`, exactly where the product is near."""
    a, b = _halves(graph, one)
    c, d = _halves(graph, other)
    found = graph.op("Sub", graph.op("Mul", a, c), product)
    for left, right in ((a, d), (b, c), (b, d)):
        found = graph.op("Add", found, graph.op("Mul", left, right))
    return found
