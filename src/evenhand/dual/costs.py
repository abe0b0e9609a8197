"""Costs of atoms, as few numbers per row as they need.

Inside a problem the cost of atom l for row i is `c_il = constant_i - <features_i, loadings_l> - offset_l`:
the squared cost needs one feature, a cost matrix one for each class but the first, any other cost one for
each atom. The constant leaves the policy alone and enters the risk only.

Every cost is divided by its `unit`, a quarter of the most that a wrong atom can cost, so that costs reach
from 0 to 4 as the squared cost does where the atoms span [-1, 1], and beta means the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.grid import Support

REACH = 4.0  # the largest cost in a problem: (1 - (-1))^2
FARTHEST = 1e150  # between scores and atoms: its square, and sums of that, are still numbers


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """The part of a cost that belongs to the atoms."""

    loadings: FloatArray  # (n_atoms, n_features)
    offset: FloatArray  # (n_atoms,)


@dataclass(frozen=True, slots=True, eq=False)
class RowCosts:
    """The part of a cost that belongs to the rows."""

    features: FloatArray  # (n_features, n_rows)
    constant: FloatArray  # (n_rows,)


class Cost(Protocol):
    """What it costs to predict an atom for a row with given scores."""

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores; None where a score is one number."""
        ...

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        ...

    def unit(self, support: Support) -> float:
        """One unit of a problem's costs, in the user's units."""
        ...

    def model(self, support: Support) -> CostModel:
        """The atoms' part, in units of a problem."""
        ...

    def rows(self, support: Support, scores: FloatArray) -> RowCosts:
        """The rows' part, in units of a problem."""
        ...


@dataclass(frozen=True, slots=True)
class Squared:
    """`(eta - y)^2`, whose best score is the mean.

    >>> Squared().table(np.array([0.5, 2.0]), np.array([0.0, 1.0]))
    array([[0.25, 0.25],
           [4.  , 1.  ]])
    """

    @property
    def n_classes(self) -> int | None:
        """Scores are numbers."""
        return None

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        squares: FloatArray = (scores[:, None] - atoms) ** 2
        return squares

    def unit(self, support: Support) -> float:
        """Half of the atoms' range, squared."""
        return support.half_width**2

    def model(self, support: Support) -> CostModel:
        """`(eta - y_l)^2 = eta^2 - (2 y_l eta - y_l^2)`."""
        return squared_cost(support.normalised())

    def rows(self, support: Support, scores: FloatArray) -> RowCosts:
        """Scores on the normalised scale."""
        return squared_cost_rows(support.scale(clip_within_reach(support, scores)))


class _Tabulated(ABC):
    """A cost that is a number for every pair of score and atom: one feature for each atom.

    Rows then hold n_atoms numbers, and a pass takes n_atoms products for each atom, where the squared cost
    takes one (`benchmarks/bench_costs.py` has what that comes to).
    """

    __slots__ = ()

    @property
    def n_classes(self) -> int | None:
        """Scores are numbers."""
        return None

    @abstractmethod
    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""

    def unit(self, support: Support) -> float:
        """A quarter of the most that an atom costs where another one is the score."""
        costs = self.table(support.atoms, support.atoms)
        return _positive(float(np.ptp(costs, axis=1).max()) / REACH)

    def model(self, support: Support) -> CostModel:
        """The features are the costs themselves."""
        n_atoms = len(support.atoms)
        return CostModel(np.eye(n_atoms), np.zeros(n_atoms))

    def rows(self, support: Support, scores: FloatArray) -> RowCosts:
        """How much cheaper each atom is than nothing, above the cheapest one."""
        costs = self.table(clip_within_reach(support, scores), support.atoms) / self.unit(support)
        cheapest = costs.min(axis=1)
        return RowCosts(np.ascontiguousarray((cheapest[:, None] - costs).T), cheapest)


@dataclass(frozen=True, slots=True)
class Absolute(_Tabulated):
    """`|eta - y|`, whose best score is the median."""

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        return np.abs(scores[:, None] - atoms)


@dataclass(frozen=True, slots=True)
class Pinball(_Tabulated):
    """`alpha (eta - y)` where the atom is too low, `(1 - alpha) (y - eta)` where it is too high.

    >>> Pinball(0.9).table(np.array([1.0]), np.array([0.0, 2.0])).round(3)
    array([[0.9, 0.1]])
    """

    alpha: float = 0.5

    def __post_init__(self) -> None:
        _require("alpha", self.alpha, 0.0 < self.alpha < 1.0, "strictly between 0 and 1")

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        short = scores[:, None] - atoms
        return np.maximum(self.alpha * short, (self.alpha - 1.0) * short)


@dataclass(frozen=True, slots=True)
class Huber(_Tabulated):
    """`r^2` up to `|r| = delta`, `delta (2 |r| - delta)` beyond, for `r = eta - y`; delta is in its units."""

    delta: float = 1.0

    def __post_init__(self) -> None:
        _require("delta", self.delta, 0.0 < self.delta < np.inf, "positive and finite")

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        away = np.abs(scores[:, None] - atoms)
        return np.where(away <= self.delta, away**2, self.delta * (2.0 * away - self.delta))


@dataclass(frozen=True, slots=True, eq=False)
class Custom(_Tabulated):
    """Any `function(scores, atoms)` that returns costs of shape (n_rows, n_atoms), one row from one score."""

    function: Callable[[FloatArray, FloatArray], Any]

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        costs = as_floats(self.function(scores, atoms), "cost")
        if costs.shape != (len(scores), len(atoms)):
            raise ValueError(
                f"cost(scores, atoms) must return one row for each score and one column for each atom, "
                f"{(len(scores), len(atoms))}: got shape {costs.shape}."
            )
        if not np.isfinite(costs).all():
            raise ValueError("cost(scores, atoms) returned NaN or infinite numbers.")
        return costs


@dataclass(frozen=True, slots=True, eq=False)
class CostMatrix:
    """Expected cost of each atom under class probabilities, `sum_k P(Y = k | x) matrix[k, l]`.

    >>> CostMatrix(np.array([[0.0, 1.0], [5.0, 0.0]])).table(np.array([[0.75, 0.25]]), np.arange(2.0))
    array([[1.25, 0.75]])
    """

    matrix: FloatArray  # (n_classes, n_atoms)

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores."""
        return len(self.matrix)

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        costs: FloatArray = scores @ self.matrix
        return costs

    def unit(self, support: Support) -> float:
        """A quarter of the most that an atom can cost more than another in one class."""
        return _positive(float(np.ptp(self.matrix, axis=1).max()) / REACH)

    def model(self, support: Support) -> CostModel:
        """Relative to the first class, whose probability follows from the others."""
        scaled = self.matrix / self.unit(support)
        return CostModel(np.ascontiguousarray((scaled[0] - scaled[1:]).T), -scaled[0])

    def rows(self, support: Support, scores: FloatArray) -> RowCosts:
        """Probabilities of all classes but the first."""
        return RowCosts(np.ascontiguousarray(scores[:, 1:].T), np.zeros(len(scores)))


COSTS: dict[str, Callable[[], Cost]] = {
    "squared": Squared,
    "absolute": Absolute,
    "pinball": Pinball,
    "huber": Huber,
}
_KINDS = (Squared, Absolute, Pinball, Huber, Custom, CostMatrix)


def make_cost(cost: Any) -> Cost:
    """The cost that a name, a cost of this module, a function or a matrix asks for.

    >>> make_cost("pinball")
    Pinball(alpha=0.5)
    """
    if isinstance(cost, _KINDS):
        return cost
    if isinstance(cost, str):
        if cost not in COSTS:
            raise ValueError(f"Unknown cost {cost!r}. Valid names: {', '.join(sorted(COSTS))}.")
        return COSTS[cost]()
    if callable(cost):
        return Custom(cost)
    return check_cost_matrix(cost)


def check_cost_matrix(matrix: Any, n_classes: int | None = None) -> CostMatrix:
    """Finite costs of shape (n_classes, n_atoms)."""
    costs = as_floats(matrix, "cost")
    rows = "n_classes" if n_classes is None else n_classes
    if costs.ndim != 2 or min(costs.shape) < 2 or n_classes not in (None, len(costs)):
        raise ValueError(f"A cost matrix must have shape ({rows}, n_atoms): got {costs.shape}.")
    if not np.isfinite(costs).all():
        raise ValueError("A cost matrix must be finite.")
    return CostMatrix(costs.copy())


def same_cost(one: Cost, other: Cost) -> bool:
    """Whether two costs of this module are of one kind and have the same parameters.

    >>> same_cost(Pinball(0.5), Pinball(0.5)), same_cost(Pinball(0.5), Pinball(0.9))
    (True, False)
    """
    kinds: tuple[Any, Any] = (one, other)
    return type(one) is type(other) and all(
        np.array_equal(*(getattr(kind, part.name) for kind in kinds)) for part in fields(kinds[0])
    )


def squared_cost(atoms: FloatArray) -> CostModel:
    """`(eta_i - y_l)^2 = eta_i^2 - (2 y_l eta_i - y_l^2)`."""
    return CostModel(loadings=2.0 * atoms[:, None], offset=-(atoms**2))


def squared_cost_rows(scores: FloatArray) -> RowCosts:
    """Features and constants of the squared cost for `scores`, shape (n_rows,)."""
    return RowCosts(features=scores[None, :], constant=scores**2)


def cost_matrix(model: CostModel, rows: RowCosts) -> FloatArray:
    """Costs of all atoms for all rows, shape (n_rows, n_atoms): for small problems and tests.

    >>> atoms = np.array([0.0, 1.0])
    >>> cost_matrix(squared_cost(atoms), squared_cost_rows(np.array([0.5, 2.0])))
    array([[0.25, 0.25],
           [4.  , 1.  ]])
    """
    gain = rows.features.T @ model.loadings.T + model.offset
    return rows.constant[:, None] - gain


def clip_within_reach(support: Support, scores: FloatArray) -> FloatArray:
    """Scores within the bounds, refused where squares of what is between them and the atoms would overflow.

    >>> from evenhand.dual.grid import uniform_support
    >>> clip_within_reach(uniform_support(0.0, 10.0, 3), np.array([5.0, 1e300]))
    array([ 5., 10.])
    """
    clipped, half_width = support.clip(scores), support.half_width
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        away = float(np.abs(clipped - support.centre).max(initial=0.0))
        farthest = max(half_width, away, float(np.divide(away, half_width)))
    if farthest > FARTHEST:
        raise ValueError(
            f"scores lie up to {away:g} from the centre of atoms that span {2 * half_width:g}, and squares "
            "of such numbers are too large for a float. Divide scores, atoms and bounds by a constant, or "
            "pass bounds=(low, high) where the scores are outliers."
        )
    return clipped


def _positive(unit: float) -> float:
    if not 0.0 < unit < np.inf:
        raise ValueError("cost is the same for every atom: there is nothing to choose by.")
    return unit


def _require(name: str, value: float, holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {what}: got {value!r}.")
