"""Parity notions: a linear operator over atoms, and a norm over its rows.

The violation of group s is the vector `V_s = A E[pi(. | X) t_s(X)]`; a notion asks `norm(V_s) <=
epsilon_s`. Its multipliers `Phi_s` enter the dual through the tilt `A^T Phi_s` and the penalty
`epsilon_s * dualnorm(Phi_s)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand._utils.typing import FloatArray


class Operator(Protocol):
    """A linear map from masses on atoms (n_atoms, ...) to rows of a constraint (n_rows, ...)."""

    @property
    def n_rows(self) -> int:
        """Number of rows of A."""
        ...

    def apply(self, masses: FloatArray) -> FloatArray:
        """A x."""
        ...

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """One row for each atom."""

    n_rows: int

    def apply(self, masses: FloatArray) -> FloatArray:
        """A x."""
        return masses

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y."""
        return multipliers


@dataclass(frozen=True, slots=True, eq=False)
class Cumulative:
    """Sums up to each atom but the last (whose sum is fixed), scaled row by row."""

    scales: FloatArray  # (n_atoms - 1,)

    @property
    def n_rows(self) -> int:
        """Number of rows of A."""
        return len(self.scales)

    def apply(self, masses: FloatArray) -> FloatArray:
        """A x."""
        sums: FloatArray = np.cumsum(masses, axis=0)[:-1]
        return sums * _as_column(self.scales, sums)

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y."""
        tilt = np.zeros((self.n_rows + 1, *multipliers.shape[1:]))
        scaled = multipliers * _as_column(self.scales, multipliers)
        tilt[:-1] = np.cumsum(scaled[::-1], axis=0)[::-1]
        return tilt


@dataclass(frozen=True, slots=True, eq=False)
class Functional:
    """One weighted sum of the masses."""

    weights: FloatArray  # (n_atoms,)

    @property
    def n_rows(self) -> int:
        """Number of rows of A."""
        return 1

    def apply(self, masses: FloatArray) -> FloatArray:
        """A x."""
        return np.tensordot(self.weights[None], masses, axes=1)

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y."""
        return np.tensordot(self.weights[:, None], multipliers, axes=1)


def _as_column(scales: FloatArray, like: FloatArray) -> FloatArray:
    return scales.reshape(-1, *(1,) * (like.ndim - 1))


def matrix(operator: Operator) -> FloatArray:
    """A as a dense array, shape (n_rows, n_atoms).

    >>> matrix(Cumulative(np.ones(2)))
    array([[1., 0., 0.],
           [1., 1., 0.]])
    """
    return operator.adjoint(np.eye(operator.n_rows)).T


class Norm(Protocol):
    """The norm of a constraint, and what its dual norm brings to the objective.

    By Moreau's identity `x - prox_dual(x, r)` is the point nearest to x whose norm is at most r, so
    `prox_dual(V, epsilon)` is by how much V has to move to meet the tolerances.
    """

    def value(self, rows: FloatArray) -> FloatArray:
        """Norm of each column: (n_rows, n_groups) -> (n_groups,)."""
        ...

    def dual(self, multipliers: FloatArray) -> FloatArray:
        """Dual norm of each column."""
        ...

    def prox_dual(self, multipliers: FloatArray, thresholds: FloatArray) -> FloatArray:
        """`argmin_z 1/2 |z - x_s|^2 + thresholds_s * dual(z)`, column by column."""
        ...


@dataclass(frozen=True, slots=True)
class SupNorm:
    """Every row within the tolerance; the dual norm is the sum of absolute values."""

    def value(self, rows: FloatArray) -> FloatArray:
        """Largest absolute entry of each column."""
        largest: FloatArray = np.abs(rows).max(axis=0)
        return largest

    def dual(self, multipliers: FloatArray) -> FloatArray:
        """Sum of absolute entries of each column."""
        total: FloatArray = np.abs(multipliers).sum(axis=0)
        return total

    def prox_dual(self, multipliers: FloatArray, thresholds: FloatArray) -> FloatArray:
        """Soft threshold."""
        return np.sign(multipliers) * np.maximum(np.abs(multipliers) - thresholds, 0.0)


@dataclass(frozen=True, slots=True)
class L1Norm:
    """All rows together within the tolerance; the dual norm is the largest absolute value."""

    scale: float = 1.0  # value = scale * sum of absolute values

    def value(self, rows: FloatArray) -> FloatArray:
        """Scaled sum of absolute entries of each column."""
        total: FloatArray = np.abs(rows).sum(axis=0)
        return self.scale * total

    def dual(self, multipliers: FloatArray) -> FloatArray:
        """Largest absolute entry of each column, over the scale."""
        largest: FloatArray = np.abs(multipliers).max(axis=0)
        return largest / self.scale

    def radius(self, thresholds: FloatArray) -> FloatArray:
        """Largest sum of absolute entries, and so Euclidean length, of a column within its threshold."""
        return thresholds / self.scale

    def prox_dual(self, multipliers: FloatArray, thresholds: FloatArray) -> FloatArray:
        """What is left of each column after the projection on an l1 ball: entries cut at one height."""
        height = _cutting_height(np.abs(multipliers), self.radius(thresholds))
        return np.clip(multipliers, -height, height)


def _cutting_height(sizes: FloatArray, radii: FloatArray) -> FloatArray:
    """Height h >= 0 of each column with `sum_j (sizes_j - h)_+ = radius`; zero where the sum is smaller."""
    falling = -np.sort(-sizes, axis=0)
    ranks = np.arange(1, len(sizes) + 1)[:, None]
    # with h between two neighbours the equation is linear; the right pair gives the largest solution
    heights: FloatArray = ((np.cumsum(falling, axis=0) - radii) / ranks).max(axis=0)
    return np.maximum(heights, 0.0)


@dataclass(frozen=True, slots=True)
class Parity:
    """A parity notion on given atoms."""

    name: str
    operator: Operator
    norm: Norm
    in_outcome_units: bool  # epsilon is a difference of outcomes, not of probabilities
    unavoidable: float = 0.0  # share of |E[t_s]| that every policy violates, see `smallest_feasible`

    def smallest_feasible(self, mean_imbalance: FloatArray) -> FloatArray:
        """Smallest tolerance that some policy meets, when `E[t_s]` is not zero: (n_groups,)."""
        return self.unavoidable * np.abs(mean_imbalance)

    def constant_violation(self, mean_imbalance: FloatArray) -> FloatArray:
        """Largest violation among predictions that are the same for all: (n_groups,).

        Such predictions are at perfect parity, so a tolerance below this has lost its meaning: the
        constant at atom l has `V_s = E[t_s] A e_l`.
        """
        return float(self.norm.value(matrix(self.operator)).max()) * np.abs(mean_imbalance)


def _pmf(atoms: FloatArray) -> Parity:
    # the atoms' violations sum to E[t_s], and the uniform policy shares it out evenly
    share = 1.0 / len(atoms)
    return Parity("pmf", Identity(len(atoms)), SupNorm(), in_outcome_units=False, unavoidable=share)


def _cdf(atoms: FloatArray) -> Parity:
    # the Kolmogorov distance counts the last atom too, where the violation is E[t_s] for any policy
    rows = Cumulative(np.ones(len(atoms) - 1))
    return Parity("cdf", rows, SupNorm(), in_outcome_units=False, unavoidable=1.0)


def _mean(atoms: FloatArray) -> Parity:
    # a constant policy whose mean is zero on the normalised scale has no violation
    return Parity("mean", Functional(atoms), SupNorm(), in_outcome_units=True, unavoidable=0.0)


def _tv(atoms: FloatArray) -> Parity:
    # the violations sum to E[t_s], so half the sum of their sizes is at least half of that
    rows = Identity(len(atoms))
    return Parity("tv", rows, L1Norm(scale=0.5), in_outcome_units=False, unavoidable=0.5)


def _w1(atoms: FloatArray) -> Parity:
    # the area between two step functions; all on the last atom, neither has begun to rise below it
    rows = Cumulative(np.diff(atoms))
    return Parity("w1", rows, L1Norm(), in_outcome_units=True, unavoidable=0.0)


PARITIES: dict[str, Callable[[FloatArray], Parity]] = {
    "pmf": _pmf,
    "cdf": _cdf,
    "mean": _mean,
    "tv": _tv,
    "w1": _w1,
}


def make_parity(name: str, atoms: FloatArray) -> Parity:
    """The parity notion called `name`, on `atoms`.

    >>> make_parity("cdf", np.array([-1.0, 0.0, 1.0])).operator.n_rows
    2
    """
    if name not in PARITIES:
        raise ValueError(f"Unknown parity {name!r}. Valid names: {', '.join(sorted(PARITIES))}.")
    return PARITIES[name](atoms)
