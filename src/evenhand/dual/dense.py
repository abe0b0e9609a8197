"""Symmetric matrices over some of the multipliers, as LAPACK stores them.

With many groups a Hessian is no narrow band, but most multipliers rest at zero: of those that move it is
small enough to be stored whole.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dsymm, dsymv

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.band import Band, Factor


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """A symmetric matrix H, with what the models of a Newton step ask of a `Band`.

    >>> whole = Dense(np.array([[2.0, 1.0], [0.0, 3.0]]))
    >>> whole @ np.ones(2)
    array([3., 4.])
    """

    entries: FloatArray  # (size, size): the upper triangle counts

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.entries)

    @property
    def diagonal(self) -> FloatArray:
        """The diagonal, (size,)."""
        return np.diagonal(self.entries)

    def __matmul__(self, right: FloatArray) -> FloatArray:
        """H x, for one x or for each column of an array."""
        if right.ndim == 2:
            return np.asarray(dsymm(1.0, self.entries.T, right, lower=1))
        product: FloatArray = dsymv(1.0, self.entries.T, right, lower=1)
        return product

    def __add__(self, other: Band) -> "Dense":
        """The sum with a band."""
        total = Dense(self.entries.copy())
        total.add_in_place(other)
        return total

    def add_in_place(self, other: Band) -> None:
        """Add a band to the entries themselves: to copy a large matrix takes as long as many products."""
        size, width = other.columns.shape
        flat = self.entries.reshape(-1)
        for step in range(width):
            flat[step : (size - step) * size : size + 1] += other.columns[: size - step, step]

    def plus_diagonal(self, values: FloatArray) -> "Dense":
        """H + diag(values)."""
        return self + Band(values[:, None])

    def scaled(self, values: FloatArray) -> "Dense":
        """diag(values) H diag(values)."""
        return Dense(values[:, None] * self.entries * values)

    def between(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """The entries at some rows and at some columns, which rise."""
        entries = np.empty((len(rows), len(columns)))  # row by row: a fraction of the time of all at once
        before = np.searchsorted(columns, rows)
        for found, row, left in zip(entries, rows, before, strict=True):
            found[:left] = self.entries[columns[:left], row]
            self.entries[row].take(columns[left:], out=found[left:], mode="clip")
        return entries

    def factor(self) -> Factor:
        """Cholesky's factor; LinAlgError where H is not positive definite in floats."""
        return Factor.of_triangle(self.entries.copy().T)

    def factor_at(self, places: IntArray) -> Factor:
        """Cholesky's factor of the rows and columns at `places`, which rise."""
        triangle = np.empty((len(places), len(places)))  # row by row: half the time of all entries at once
        for row, place in enumerate(places):
            self.entries[place].take(places[row:], out=triangle[row, row:], mode="clip")
        return Factor.of_triangle(triangle.T)
