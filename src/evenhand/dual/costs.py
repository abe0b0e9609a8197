"""Costs of atoms: what it costs to predict a value, which score is best for that, and what it is called.

Every cost is divided by its `unit`, a quarter of the most that a wrong atom can cost, so that costs reach
from 0 to 4 as the squared cost does where the atoms span [-1, 1], and beta means the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np

from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import as_floats
from evenhand.dual.cost_terms import CostModel, RowCosts, clip_within_reach, squared_cost, squared_cost_rows
from evenhand.dual.grid import Grid

ERROR_RATE = "share of wrong decisions"
REACH = 4.0  # the largest cost in a problem: (1 - (-1))^2


class Cost(Stored, ABC):
    """What it costs to predict an atom for a row with given scores.

    One of your own needs `table` alone; make it a frozen dataclass. `unit`, `model` and `rows` take the
    table as it is: one feature for each atom. Rows then hold n_atoms numbers, and a pass takes n_atoms
    products for each atom, where the squared cost takes one (`benchmarks/bench_costs.py` has what that
    comes to). docs/how-to/extending.md takes a cost all the way.

    In all methods `scores` and `atoms` are those of `table`, and `grid` is the `Grid` that the atoms are of.
    """

    __slots__ = ()

    number: ClassVar[str] = ""  # what N is in `--cost NAME:N`, such as "level between 0 and 1"
    of_difference: ClassVar[bool] = False  # it depends on the score less the atom alone
    scores_are_means: ClassVar[bool] = False  # predicted as they are where no parity is asked for

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores; None where a score is one number."""
        return None

    @property
    def quantile(self) -> float | None:
        """Level of the quantile that is the best score; None where that is the mean, or something else."""
        return None

    @property
    def risk_name(self) -> str:
        """What the mean cost is called."""
        return "expected cost"

    @property
    def score_risk_name(self) -> str:
        """What it is called where scores stand in for outcomes."""
        return self.risk_name

    @abstractmethod
    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms).

        Parameters
        ----------
        scores : array of shape (n_rows,), or (n_rows, n_classes) where `n_classes` is not None
            A score of each row, or an outcome in its place; or probabilities of the classes.
        atoms : array of shape (n_atoms,)
            What can be predicted, in the units of the outcomes.
        """

    def expected(self, pmf: FloatArray, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Expected cost of each row in the user's units, (n_rows,), under its `pmf`, (n_rows, n_atoms)."""
        costs: FloatArray = np.einsum("il,il->i", pmf, self.table(scores, atoms))
        return costs

    def cheapest(self, scores: FloatArray, atoms: FloatArray) -> IntArray:
        """Place of the atom that costs each row least, (n_rows,)."""
        places: IntArray = self.table(scores, atoms).argmin(axis=1)
        return places

    @property
    def loss(self) -> str | Callable[[FloatArray, FloatArray], FloatArray]:
        """The cost as the `loss=` of `evenhand.metrics.risk`."""
        return self.paired

    def paired(self, truth: FloatArray, values: FloatArray) -> FloatArray:
        """Costs of `values`, each for the outcome in its place in `truth`; all of one shape."""
        if self.of_difference:
            return self.table((truth - values).ravel(), np.zeros(1)).reshape(truth.shape)
        costs = np.empty(truth.shape)
        points, places = np.unique(values, return_inverse=True)
        order = np.argsort(places.ravel(), kind="stable")
        ends = np.cumsum(np.bincount(places.ravel()))
        for point, some in zip(points, np.split(order, ends[:-1]), strict=True):
            costs.flat[some] = self.table(truth.flat[some], np.array([point]))[:, 0]
        return costs

    def unit(self, grid: Grid) -> float:
        """One unit of a problem's costs: a quarter of the most that an atom costs in place of another."""
        costs = _check_table(self.table(grid.atoms, grid.atoms), grid.atoms, grid.atoms)
        return _positive(float(np.ptp(costs, axis=1).max()) / REACH)

    def model(self, grid: Grid) -> CostModel:
        """The atoms' part, in units of a problem: the features are the costs themselves."""
        n_atoms = len(grid.atoms)
        return CostModel(np.eye(n_atoms), np.zeros(n_atoms))

    def rows(self, grid: Grid, scores: FloatArray) -> RowCosts:
        """The rows' part, in units of a problem: how much cheaper each atom is, above the cheapest one."""
        costs = self.table(clip_within_reach(grid, scores), grid.atoms) / self.unit(grid)
        cheapest = costs.min(axis=1)
        return RowCosts(np.ascontiguousarray((cheapest[:, None] - costs).T), cheapest)


@dataclass(frozen=True, slots=True)
class Squared(Cost):
    """`(eta - y)^2`, whose best score is the mean.

    >>> import numpy as np
    >>> import evenhand as eh
    >>> eh.costs.Squared().table(np.array([0.5, 2.0]), np.array([0.0, 1.0]))
    array([[0.25, 0.25],
           [4.  , 1.  ]])
    """

    of_difference = scores_are_means = True
    risk_name = "mean squared error"
    score_risk_name = "squared distance to the scores"
    loss = "squared"

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        squares: FloatArray = (scores[:, None] - atoms) ** 2
        return squares

    def expected(self, pmf: FloatArray, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """`sum_l pi(l | x_i) (y_l - y_i)^2`, (n_rows,), from two moments of the prediction."""
        centre = atoms.mean()  # moments about the centre lose no digits when the grid lies far from zero
        powers = np.column_stack([atoms - centre, (atoms - centre) ** 2])
        mean, square = (pmf @ powers).T
        offset = scores - centre
        losses: FloatArray = square - 2.0 * offset * mean + offset**2
        return losses

    def cheapest(self, scores: FloatArray, atoms: FloatArray) -> IntArray:
        """Place of the nearest atom, (n_rows,)."""
        return np.searchsorted(atoms[:-1] + np.diff(atoms) / 2, scores)

    def unit(self, grid: Grid) -> float:
        """Half of the atoms' range, squared."""
        return grid.half_width**2

    def model(self, grid: Grid) -> CostModel:
        """`(eta - y_l)^2 = eta^2 - (2 y_l eta - y_l^2)`."""
        return squared_cost(grid.normalised())

    def rows(self, grid: Grid, scores: FloatArray) -> RowCosts:
        """Scores on the normalised scale."""
        return squared_cost_rows(grid.scale(clip_within_reach(grid, scores)))


@dataclass(frozen=True, slots=True)
class Absolute(Cost):
    """`|eta - y|`, whose best score is the median."""

    of_difference = True
    quantile = 0.5
    risk_name = "mean absolute error"
    score_risk_name = "absolute distance to the scores"

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        return np.abs(scores[:, None] - atoms)


@dataclass(frozen=True, slots=True)
class Pinball(Cost):
    """`alpha (eta - y)` where the atom is too low, `(1 - alpha) (y - eta)` where it is too high.

    >>> import numpy as np
    >>> import evenhand as eh
    >>> eh.costs.Pinball(0.9).table(np.array([1.0]), np.array([0.0, 2.0])).round(3)
    array([[0.9, 0.1]])
    """

    alpha: float = 0.5

    number = "level between 0 and 1"
    of_difference = True
    risk_name = "mean pinball loss"

    def __post_init__(self) -> None:
        _require("alpha", self.alpha, 0.0 < self.alpha < 1.0, "strictly between 0 and 1")

    @property
    def quantile(self) -> float | None:
        """The level itself."""
        return self.alpha

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        short = scores[:, None] - atoms
        return np.maximum(self.alpha * short, (self.alpha - 1.0) * short)


@dataclass(frozen=True, slots=True)
class Huber(Cost):
    """`r^2` up to `|r| = delta`, `delta (2 |r| - delta)` beyond, for `r = eta - y`; delta is in its units."""

    delta: float = 1.0

    number = "positive delta, in the target's units"
    of_difference = True
    risk_name = "mean Huber loss"

    def __post_init__(self) -> None:
        _require("delta", self.delta, 0.0 < self.delta < np.inf, "positive and finite")

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        away = np.abs(scores[:, None] - atoms)
        return np.where(away <= self.delta, away**2, self.delta * (2.0 * away - self.delta))


@dataclass(frozen=True, slots=True, eq=False)
class Custom(Cost):
    """Any `function(scores, atoms)` that returns costs of shape (n_rows, n_atoms), one row from one score."""

    function: Callable[[FloatArray, FloatArray], Any]

    def faults(self) -> Iterator[str]:
        """No file holds a function."""
        yield "its cost is a function: make it a class of its own"

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        try:
            costs = self.function(scores, atoms)
        except Exception as error:
            raise ValueError(f"cost(scores, atoms) failed: {type(error).__name__}: {error}") from error
        return _check_table(costs, scores, atoms)


@dataclass(frozen=True, slots=True, eq=False)
class CostMatrix(Cost):
    """Expected cost of each atom under class probabilities, `sum_k P(Y = k | x) matrix[k, l]`.

    >>> import numpy as np
    >>> import evenhand as eh
    >>> cost = eh.costs.CostMatrix(np.array([[0.0, 1.0], [5.0, 0.0]]))
    >>> cost.table(np.array([[0.75, 0.25]]), np.arange(2.0))
    array([[1.25, 0.75]])
    """

    matrix: FloatArray  # (n_classes, n_atoms)

    def faults(self) -> Iterator[str]:
        """Finite costs of two classes or more."""
        matrix = self.matrix
        if not is_floats(matrix, None, None) or min(matrix.shape) < 2 or not np.isfinite(matrix).all():
            yield "its matrix is not a table of finite numbers"

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores."""
        return len(self.matrix)

    @property
    def risk_name(self) -> str:
        """What the mean cost is called; a share, where wrong decisions cost one and right ones nothing."""
        counts_errors = np.array_equal(self.matrix, 1.0 - np.eye(*self.matrix.shape))
        return ERROR_RATE if counts_errors else "expected cost"

    def paired(self, truth: FloatArray, values: FloatArray) -> FloatArray:
        """Costs of decisions, each for the true class in its place, both by their places in the matrix."""
        costs: FloatArray = self.matrix[truth.astype(np.int64), values.astype(np.int64)]
        return costs

    def table(self, scores: FloatArray, atoms: FloatArray) -> FloatArray:
        """Costs in the user's units, (n_rows, n_atoms)."""
        costs: FloatArray = scores @ self.matrix
        return costs

    def unit(self, grid: Grid) -> float:
        """A quarter of the most that an atom can cost more than another in one class."""
        return _positive(float(np.ptp(self.matrix, axis=1).max()) / REACH)

    def model(self, grid: Grid) -> CostModel:
        """Relative to the first class, whose probability follows from the others."""
        scaled = self.matrix / self.unit(grid)
        return CostModel(np.ascontiguousarray((scaled[0] - scaled[1:]).T), -scaled[0])

    def rows(self, grid: Grid, scores: FloatArray) -> RowCosts:
        """Probabilities of all classes but the first."""
        return RowCosts(np.ascontiguousarray(scores[:, 1:].T), np.zeros(len(scores)))


COSTS: dict[str, Callable[..., Cost]] = {
    "squared": Squared,
    "absolute": Absolute,
    "pinball": Pinball,
    "huber": Huber,
}


def register_cost(name: str, factory: Callable[..., Cost]) -> None:
    """Let `cost=name` stand for `factory()`, and `--cost name:N` of the command line for `factory(N)`.

    Parameters
    ----------
    name : str
        A cost that has this name already is replaced.
    factory : class that extends Cost, or function that makes one
        `--cost name:N` needs `factory.number`, a text that says what N is.
    """
    COSTS[name] = factory


def make_cost(cost: Any) -> Cost:
    """The cost that a name, a cost, a function or a matrix asks for.

    Parameters
    ----------
    cost : str, Cost, function or array of shape (n_classes, n_atoms)
        A registered name; a cost, which is returned as it is; the function of a `Custom`; or the entries of a
        `CostMatrix`.

    Examples
    --------
    >>> import evenhand as eh
    >>> eh.costs.make_cost("pinball")
    Pinball(alpha=0.5)
    """
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, str):
        if cost not in COSTS:
            raise ValueError(f"Unknown cost {cost!r}. Valid names: {', '.join(sorted(COSTS))}.")
        return COSTS[cost]()
    if callable(cost):
        return Custom(cost)
    return check_cost_matrix(cost)


def check_cost_matrix(matrix: Any, n_classes: int | None = None) -> CostMatrix:
    """A matrix of finite costs, two by two at least; all else is refused with a `ValueError`.

    Parameters
    ----------
    matrix : array of shape (n_classes, n_atoms)
        Cost of each atom in each class. It is copied.
    n_classes : int, default=None
        How many rows it must have; None: any number.
    """
    costs = as_floats(matrix, "cost")
    rows = "n_classes" if n_classes is None else n_classes
    if costs.ndim != 2 or min(costs.shape) < 2 or n_classes not in (None, len(costs)):
        raise ValueError(f"A cost matrix must have shape ({rows}, n_atoms): got {costs.shape}.")
    if not np.isfinite(costs).all():
        raise ValueError("A cost matrix must be finite.")
    return CostMatrix(costs.copy())


def cost_faults(cost: object, n_atoms: int) -> Iterator[str]:
    """Why something that was read from a file is not a cost of as many atoms; nothing, where it is one.

    Parameters
    ----------
    cost : object
    n_atoms : int
        How many columns a `CostMatrix` must have.
    """
    if not isinstance(cost, Cost):
        yield "its cost is not a cost"
    elif isinstance(cost, CostMatrix) and cost.matrix.shape[1] != n_atoms:
        yield "its cost matrix does not have a column for each atom"


def same_cost(one: Cost, other: Cost) -> bool:
    """Whether two costs are of one class and have the same parameters; equal, if that is no dataclass.

    Parameters
    ----------
    one, other : Cost

    Examples
    --------
    >>> from evenhand.dual.costs import Pinball, same_cost
    >>> same_cost(Pinball(0.5), Pinball(0.5)), same_cost(Pinball(0.5), Pinball(0.9))
    (True, False)
    """
    if type(one) is not type(other) or not is_dataclass(one):
        return one == other
    parts = (part.name for part in fields(one) if part.compare)
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in parts)


def _check_table(given: Any, scores: FloatArray, atoms: FloatArray) -> FloatArray:
    costs = as_floats(given, "cost")
    if costs.shape != (len(scores), len(atoms)):
        raise ValueError(
            f"cost(scores, atoms) must return one row for each score and one column for each atom, "
            f"{(len(scores), len(atoms))}: got shape {costs.shape}."
        )
    if not np.isfinite(costs).all():
        raise ValueError("cost(scores, atoms) returned NaN or infinite numbers.")
    return costs


def _positive(unit: float) -> float:
    if not 0.0 < unit < np.inf:
        raise ValueError("cost is the same for every atom: there is nothing to choose by.")
    return unit


def _require(name: str, value: float, holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {what}: got {value!r}.")
