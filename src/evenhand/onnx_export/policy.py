"""The parity step as a graph: scores and group probabilities in, a distribution over the atoms out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._kernels.softmax import LOG_2
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.costs import Absolute, Cost, CostMatrix, Huber, Pinball, Squared
from evenhand.dual.floors import RateFloor
from evenhand.dual.imbalance import ImbalanceModel, stratum_sums
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.single import Pair, difference, joined, linear, minus, number_pair, ratio, shares
from evenhand.onnx_export.single_costs import cost_pair

LOWEST_LOGIT = {4: -80.0, 8: -690.0}  # of the likeliest atom's zero, by the bytes of a number


@dataclass(frozen=True, slots=True)
class StepRows:
    """Rows of a graph as the parity step takes them."""

    scores: str  # (n_rows, 1), or class probabilities (n_rows, n_classes)
    group_proba: str  # (n_rows, n_groups)
    scores_rest: str | None = None  # what single precision leaves out of them, where it is known
    proba_rest: str | None = None


def normalised(graph: Graph, proba: str, n_columns: int) -> str:
    """Probabilities that are not negative, each row divided by its sum."""
    proba = graph.op("Max", proba, 0.0)
    return graph.op("Div", proba, graph.add_columns(proba, n_columns))


def checked_rows(graph: Graph, policy: SoftmaxPolicy, scores: str, group_proba: str) -> StepRows:
    """Rows after what `predict` does to those that a user gives."""
    n_classes = policy.cost.n_classes
    scores = graph.op("Where", graph.op("IsInf", scores), np.asarray(np.nan, graph.dtype), scores)
    eta = Pair(scores) if n_classes is None else _shares(graph, scores, n_classes)
    tau = checked_proba(graph, policy, group_proba)
    return StepRows(eta.high, tau.high, eta.low, tau.low)


def checked_proba(graph: Graph, policy: SoftmaxPolicy, group_proba: str) -> Pair:
    """Group probabilities that are not negative, and sum to one where they are not within strata."""
    if policy.strata is not None:
        return Pair(graph.op("Max", group_proba, 0.0))
    return _shares(graph, group_proba, len(policy.group_prior))


def _shares(graph: Graph, proba: str, n_columns: int) -> Pair:
    """Each row divided by its sum, with what single precision leaves out."""
    if graph.dtype == np.float64:
        return Pair(normalised(graph, proba, n_columns))
    return shares(graph, graph.op("Max", proba, 0.0), n_columns)


def scaled_scores(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    """Scores on the scale where the atoms span [-1, 1]."""
    return graph.op("Div", graph.op("Sub", scores, policy.grid.centre), policy.grid.half_width)


def logits(graph: Graph, policy: SoftmaxPolicy, rows: StepRows) -> str:
    """Logits of the policy, (n_rows, n_atoms), up to one number for each row."""
    if graph.dtype == np.float32:
        return _single_logits(graph, policy, rows)
    kept = _imbalance(graph, policy, rows.group_proba)
    if type(policy.cost) in LINEAR:
        features = _linear_features(graph, policy, rows.scores)
        loadings, offset = (part * LOG_2 for part in policy.logits())
        return graph.product(graph.join([kept, features]), loadings.T, offset)
    tilt = graph.product(kept, _slopes(policy))
    costs = COSTS[type(policy.cost)](graph, policy, rows.scores)
    return graph.op("Mul", graph.op("Sub", tilt, costs), policy.temperature)


def _slopes(policy: SoftmaxPolicy) -> FloatArray:
    """What the imbalance of each kept group adds to each atom, (n_kept, n_atoms)."""
    return (policy.tilt @ ImbalanceModel.from_prior(policy.group_prior, policy.strata).mixing.T).T


def _single_logits(graph: Graph, policy: SoftmaxPolicy, rows: StepRows) -> str:
    """The same in single precision, by `evenhand.onnx_export.single`."""
    model = ImbalanceModel.from_prior(policy.group_prior, policy.strata)
    n_groups, slopes = len(policy.group_prior), _slopes(policy)
    at_zero = model.kept_rows(np.zeros((1, n_groups)))  # the imbalance is a constant and a part linear in tau
    loadings = (model.kept_rows(np.eye(n_groups)) - at_zero).T @ slopes
    offset = at_zero[:, 0] @ slopes
    features = [Pair(rows.group_proba, rows.proba_rest)]
    is_linear = type(policy.cost) in LINEAR
    if is_linear:
        cost = policy.cost.model(policy.grid)
        loadings, offset = np.concatenate([loadings, cost.loadings.T]), offset + cost.offset
        features.append(_single_features(graph, policy, rows))
    found = linear(graph, joined(graph, features), loadings, offset)
    if not is_linear:
        found = difference(graph, found, cost_pair(graph, policy, _clipped(graph, policy, rows.scores)))
    lead, rest = found.high, found.low
    assert rest is not None
    top = graph.op("ReduceMax", lead, np.array([1]), keepdims=1)
    whole = graph.op("Add", graph.op("Sub", lead, top), rest)
    return graph.op("Mul", whole, policy.temperature)


def _single_features(graph: Graph, policy: SoftmaxPolicy, rows: StepRows) -> Pair:
    """The part of a linear cost that belongs to the rows, as a pair."""
    if isinstance(policy.cost, CostMatrix):
        others, low = np.arange(1, len(policy.cost.matrix)), rows.scores_rest
        return Pair(graph.columns(rows.scores, others), None if low is None else graph.columns(low, others))
    near = minus(graph, _clipped(graph, policy, rows.scores), policy.grid.centre)
    return ratio(graph, near, number_pair(graph, policy.grid.half_width))


def require_cost(cost: Cost) -> None:
    """Refuse a cost that has no graph."""
    if type(cost) not in (*LINEAR, *COSTS):
        named = getattr(getattr(cost, "function", None), "__name__", type(cost).__name__)
        raise TypeError(
            f"The cost {named} has no form in ONNX: only the costs of evenhand itself (squared, absolute, "
            "pinball, huber and matrices) can be exported."
        )


def _imbalance(graph: Graph, policy: SoftmaxPolicy, group_proba: str) -> str:
    """Imbalance of the kept groups, (n_rows, n_kept)."""
    model = ImbalanceModel.from_prior(policy.group_prior, policy.strata)
    prior = policy.group_prior[model.kept].astype(graph.dtype)
    shares = graph.op("Div", graph.columns(group_proba, model.kept), prior)
    if policy.strata is None:
        return graph.op("Sub", 1.0, shares)
    totals = _stratum_totals(graph, policy.strata, group_proba)
    of_prior = stratum_sums(policy.group_prior, policy.strata)[model.kept].astype(graph.dtype)
    within = graph.columns(totals, policy.strata[model.kept])
    return graph.op("Sub", graph.op("Div", within, of_prior), shares)


def _stratum_totals(graph: Graph, strata: IntArray, group_proba: str) -> str:
    """Sum of each row over the groups of each stratum, (n_rows, n_strata)."""
    parts = []
    for stratum in range(int(strata.max()) + 1):
        members = np.flatnonzero(strata == stratum)
        parts.append(graph.add_columns(graph.columns(group_proba, members), len(members)))
    return graph.join(parts)


def _linear_features(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    """The part of the cost that belongs to the rows, where it is linear in the atoms' part."""
    if isinstance(policy.cost, CostMatrix):
        return graph.columns(scores, np.arange(1, len(policy.cost.matrix)))
    return scaled_scores(graph, policy, _clipped(graph, policy, scores))


def _clipped(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    low, high = policy.grid.bounds
    if np.isinf(low) and np.isinf(high):
        return scores
    limits = [np.asarray(limit, graph.dtype) for limit in (low, high)]
    return graph.op("Clip", scores, *limits)


def _away(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    """Scores less atoms, in the user's units, (n_rows, n_atoms)."""
    return graph.op("Sub", _clipped(graph, policy, scores), policy.grid.atoms.astype(graph.dtype))


def _in_units(graph: Graph, policy: SoftmaxPolicy, costs: str) -> str:
    return graph.op("Div", costs, policy.cost.unit(policy.grid))


def _absolute(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    return _in_units(graph, policy, graph.op("Abs", _away(graph, policy, scores)))


def _pinball(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    assert isinstance(policy.cost, Pinball)
    short, alpha = _away(graph, policy, scores), policy.cost.alpha
    sides = [graph.op("Mul", short, slope) for slope in (alpha, alpha - 1.0)]
    return _in_units(graph, policy, graph.op("Max", *sides))


def _huber(graph: Graph, policy: SoftmaxPolicy, scores: str) -> str:
    assert isinstance(policy.cost, Huber)
    away, delta = graph.op("Abs", _away(graph, policy, scores)), policy.cost.delta
    line = graph.op("Mul", graph.op("Sub", graph.op("Mul", away, 2.0), delta), delta)
    inside = graph.op("LessOrEqual", away, delta)
    return _in_units(graph, policy, graph.op("Where", inside, graph.op("Mul", away, away), line))


LINEAR = (Squared, CostMatrix, RateFloor)  # costs that are linear in what they know of a row
COSTS: dict[type, Callable[[Graph, SoftmaxPolicy, str], str]] = {
    Absolute: _absolute,
    Pinball: _pinball,
    Huber: _huber,
}


class Answers:
    """What can be read off the policy of rows; the distribution is computed once for all of it."""

    def __init__(self, graph: Graph, policy: SoftmaxPolicy, rows: StepRows) -> None:
        self.graph, self.policy = graph, policy
        found = logits(graph, policy, rows)
        top = graph.op("ReduceMax", found, np.array([1]), keepdims=1)
        # Lower powers are as good as zero, and exponentials that underflow take several times as long.
        below = graph.op("Max", graph.op("Sub", found, top), LOWEST_LOGIT[graph.dtype.itemsize])
        self._powers = graph.op("Exp", below)
        self._running: str | None = None

    def pmf(self) -> str:
        """Probability of each atom, (n_rows, n_atoms)."""
        total = self.graph.op("ReduceSum", self._powers, np.array([1]), keepdims=1)
        return self.graph.op("Div", self._powers, total)

    def mean(self) -> str:
        """Mean of each row, (n_rows,)."""
        graph, grid = self.graph, self.policy.grid
        means = graph.product(
            self.pmf(), grid.half_width * grid.normalised()[:, None], np.array([grid.centre])
        )
        return graph.flat(means)

    def mode(self) -> str:
        """Place of the likeliest atom of each row, (n_rows,)."""
        total = self.graph.op("ReduceSum", self._powers, np.array([1]), keepdims=0)
        return self._known(self.graph.op("ArgMax", self._powers, axis=1, keepdims=0), total)

    def place(self, levels: Any) -> str:
        """Place of the smallest atom whose cumulated probability reaches each row's level, (n_rows,)."""
        graph, n_atoms = self.graph, len(self.policy.grid.atoms)
        if self._running is None:
            self._running = graph.op("CumSum", self._powers, np.int64(1))
        total = graph.columns(self._running, [n_atoms - 1])
        least = graph.op("Mul", graph.column(levels) if isinstance(levels, str) else levels, total)
        below = graph.cast(graph.op("Less", self._running, least), np.int64)
        count = graph.op("ReduceSum", below, np.array([1]), keepdims=0)
        return self._known(graph.op("Min", count, np.int64(n_atoms - 1)), graph.flat(least))

    def _known(self, places: str, numbers: str) -> str:
        """Places that rest on numbers; where one is NaN the run fails: the first place would be told."""
        return self.graph.fail_where(self.graph.op("IsNaN", numbers), places)
