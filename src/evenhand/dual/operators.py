"""Linear maps over atoms, and norms over their rows: what parity notions are made of."""

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
        """A x, (n_rows, ...).

        Parameters
        ----------
        masses : array of shape (n_atoms, ...)
            x, such as the mass of each group on each atom.
        """
        ...

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y, (n_atoms, ...).

        Parameters
        ----------
        multipliers : array of shape (n_rows, ...)
            y, such as the multipliers of each group.
        """
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


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """Rows of any kind, as the array of their entries."""

    entries: FloatArray  # (n_rows, n_atoms)

    @property
    def n_rows(self) -> int:
        """Number of rows of A."""
        return len(self.entries)

    def apply(self, masses: FloatArray) -> FloatArray:
        """A x."""
        return np.tensordot(self.entries, masses, axes=1)

    def adjoint(self, multipliers: FloatArray) -> FloatArray:
        """A^T y."""
        return np.tensordot(self.entries.T, multipliers, axes=1)


def _as_column(scales: FloatArray, like: FloatArray) -> FloatArray:
    return scales.reshape(-1, *(1,) * (like.ndim - 1))


def matrix(operator: Operator) -> FloatArray:
    """A as a dense array, shape (n_rows, n_atoms).

    Parameters
    ----------
    operator : Operator

    Examples
    --------
    >>> import numpy as np
    >>> import evenhand as eh
    >>> eh.parity.matrix(eh.parity.Cumulative(np.ones(2)))
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
        """Norm of each column, (n_groups,).

        Parameters
        ----------
        rows : array of shape (n_rows, n_groups)
            Rows of a constraint, such as the violation.
        """
        ...

    def dual(self, multipliers: FloatArray) -> FloatArray:
        """Dual norm of each column, (n_groups,).

        Parameters
        ----------
        multipliers : array of shape (n_rows, n_groups)
        """
        ...

    def prox_dual(self, multipliers: FloatArray, thresholds: FloatArray) -> FloatArray:
        """`argmin_z 1/2 |z - x_s|^2 + thresholds_s * dual(z)`, column by column.

        Parameters
        ----------
        multipliers : array of shape (n_rows, n_groups)
            Its columns are the `x_s`.
        thresholds : array of shape (n_groups,)
        """
        ...


@dataclass(frozen=True, slots=True)
class SupNorm:
    """Every row within the tolerance; the dual norm is the sum of absolute values."""

    def value(self, rows: FloatArray) -> FloatArray:
        """Largest absolute entry of each column."""
        largest: FloatArray = np.abs(rows).max(axis=0, initial=0.0)
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
        """Largest sum of absolute entries, and so Euclidean length, of a column within its threshold.

        Parameters
        ----------
        thresholds : array of shape (n_groups,)
            Largest `value` of each column.
        """
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
