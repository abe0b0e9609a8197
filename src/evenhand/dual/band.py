"""Symmetric matrices whose entries lie near the diagonal, as LAPACK stores them.

A policy that is nearly sure of every row touches few atoms at once. Its Hessian, with the multipliers of an
atom side by side, is then narrow: a factorisation costs size x width^2 and not size^3.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg.blas import dsbmv
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpotrf, dpotrs, dtbtrs, dtrtrs

from evenhand._utils.typing import FloatArray, IntArray

_NARROW = 0.2  # width over size above which a dense factorisation is quicker


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A symmetric matrix H.

    >>> narrow = Band.of_matrix(np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 2.0]]))
    >>> narrow.columns
    array([[2., 1.],
           [2., 0.],
           [2., 0.]])
    >>> narrow @ np.ones(3)
    array([3., 3., 2.])
    """

    columns: FloatArray  # columns[j, p] = H[j + p, j], (size, width)

    @classmethod
    def of_matrix(cls, matrix: FloatArray) -> Self:
        """Of a dense array, without the zeros far from the diagonal."""
        size = len(matrix)
        rows, places = np.nonzero(np.tril(matrix))
        width = int((rows - places).max(initial=0)) + 1
        columns = np.zeros((size, width))
        for step in range(width):
            columns[: size - step, step] = np.diagonal(matrix, -step)
        return cls(columns)

    @classmethod
    def of_blocks(cls, blocks: FloatArray, size: int) -> Self:
        """Of symmetric blocks of a size: `blocks[a, d]` stands at block row a + d and block column a.

        Of each block the upper triangle is given, row by row: shape (n_blocks, n_offsets, n_pairs). Blocks
        beyond the last row must be zero.
        """
        n_blocks, n_offsets, _ = blocks.shape
        columns = np.empty((n_blocks, size, n_offsets * size))
        whole = np.empty((n_blocks, n_offsets, size))  # one row of each block
        for row in range(size):
            above = row * size - row * (row - 1) // 2  # where the row of the triangle starts
            whole[:, :, row:] = blocks[:, :, above : above + size - row]
            for other in range(row):
                whole[:, :, other] = blocks[:, :, other * size - other * (other - 1) // 2 + row - other]
            # rows behind the diagonal come first in a column
            columns[:, row, : n_offsets * size - row] = whole.reshape(n_blocks, -1)[:, row:]
            columns[:, row, n_offsets * size - row :] = 0.0
        return cls(columns.reshape(n_blocks * size, -1))

    def repeated(self, times: int) -> "Band":
        """`H (x) I`: each entry becomes the diagonal of a block."""
        size, width = self.columns.shape
        columns = np.zeros((size * times, (width - 1) * times + 1))
        columns[:, ::times] = np.repeat(self.columns, times, axis=0)
        return Band(columns)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.columns)

    @property
    def diagonal(self) -> FloatArray:
        """The diagonal, (size,)."""
        return self.columns[:, 0]

    def matrix(self) -> FloatArray:
        """As a dense array."""
        return self @ np.eye(self.size)

    def __matmul__(self, right: FloatArray) -> FloatArray:
        """H x, for one x or for each column of an array."""
        if right.ndim == 2:
            products = [self @ np.ascontiguousarray(column) for column in right.T]
            return np.array(products).reshape(right.shape[::-1]).T
        product: FloatArray = dsbmv(self.columns.shape[1] - 1, 1.0, self.columns.T, right, lower=1)
        return product

    def __add__(self, other: "Band") -> "Band":
        """The sum, as wide as the wider one."""
        wide, narrow = self.columns, other.columns
        if wide.shape[1] < narrow.shape[1]:
            wide, narrow = narrow, wide
        columns = wide.copy()
        columns[:, : narrow.shape[1]] += narrow
        return Band(columns)

    def __mul__(self, factor: float) -> "Band":
        """The matrix times a number."""
        return Band(self.columns * factor)

    def plus_diagonal(self, values: FloatArray) -> "Band":
        """H + diag(values)."""
        columns = self.columns.copy()
        columns[:, 0] += values
        return Band(columns)

    def scaled(self, values: FloatArray) -> "Band":
        """diag(values) H diag(values)."""
        width = self.columns.shape[1]
        padded = np.concatenate([values, np.zeros(width)])
        below = np.lib.stride_tricks.sliding_window_view(padded, width)[: self.size]
        return Band(self.columns * values[:, None] * below)

    def between(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """The entries at some rows and columns, as a dense array."""
        low = np.minimum(rows[:, None], columns)
        steps = np.abs(rows[:, None] - columns)
        inside = steps < self.columns.shape[1]
        entries: FloatArray = self.columns[low, np.where(inside, steps, 0)]
        return np.where(inside, entries, 0.0)

    def factor_at(self, places: IntArray) -> "Factor":
        """Cholesky's factor of the rows and columns at `places`, which rise."""
        reach = self._reach(places)
        if reach.max(initial=0) <= _NARROW * len(places):
            return self._at(places, reach).factor()
        triangle = np.zeros((len(places), len(places)))  # in the order of columns, as LAPACK wants it
        for column, (place, rows) in enumerate(zip(places, reach, strict=True)):
            behind = slice(column, column + rows)
            triangle[column, behind] = self.columns[place].take(places[behind] - place)
        return Factor.of_triangle(triangle.T)

    def at(self, places: IntArray) -> "Band":
        """The rows and columns at `places`, which rise."""
        return self._at(places, self._reach(places))

    def _reach(self, places: IntArray) -> IntArray:
        """Of the places from each one on, how many are within its band."""
        reach: IntArray = np.searchsorted(places, places + self.columns.shape[1]) - np.arange(len(places))
        return reach

    def _at(self, places: IntArray, reach: IntArray) -> "Band":
        size, width = len(places), int(reach.max(initial=1))
        behind = np.minimum(np.arange(size)[:, None] + np.arange(width), size - 1)
        steps = places[behind] - places[:, None]
        inside = np.arange(width) < reach[:, None]
        entries = self.columns[places[:, None], np.where(inside, steps, 0)]
        return Band(np.where(inside, entries, 0.0))

    def factor(self) -> "Factor":
        """Cholesky's factor; LinAlgError where H is not positive definite in floats."""
        if self.columns.shape[1] > _NARROW * self.size:
            return Factor.of_triangle(self._lower_triangle())
        factor, failed = dpbtrf(self.columns.T, lower=1)
        _refuse_indefinite(failed)
        return Factor(factor, is_band=True)

    def _lower_triangle(self) -> FloatArray:
        """As a dense array in the order of columns; what is above the diagonal is arbitrary."""
        size, width = self.columns.shape
        flat = np.zeros(size * size + width)
        steps = ((size + 1) * flat.itemsize, flat.itemsize)
        as_strided(flat, self.columns.shape, steps)[...] = self.columns
        return flat[: size * size].reshape(size, size).T


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The lower triangle L of `H = L L^T`."""

    entries: FloatArray  # as LAPACK has it: (width, size) of a band, else (size, size)
    is_band: bool

    @classmethod
    def of_triangle(cls, lower: FloatArray) -> Self:
        """Of the lower triangle of a dense matrix in the order of columns, which is overwritten."""
        factor, failed = dpotrf(lower, lower=1, clean=0, overwrite_a=1)
        _refuse_indefinite(failed)
        return cls(factor, is_band=False)

    def solve(self, right: FloatArray) -> FloatArray:
        """`H^-1 x`, for one x or for each column of an array."""
        solve = dpbtrs if self.is_band else dpotrs
        found, _ = solve(self.entries, right, lower=1)
        return np.asarray(found).reshape(right.shape)

    def halfway(self, right: FloatArray) -> FloatArray:
        """`L^-1 x`, for one x or for each column of an array."""
        return self._by_triangle(right, "N")

    def rest(self, right: FloatArray) -> FloatArray:
        """`L^-T x`: after `halfway`, the other half of `solve`."""
        return self._by_triangle(right, "T")

    def _by_triangle(self, right: FloatArray, transposed: str) -> FloatArray:
        if self.is_band:
            found, _ = dtbtrs(self.entries, right, uplo="L", trans=transposed)
        else:
            found, _ = dtrtrs(self.entries, right, lower=1, trans=int(transposed == "T"))
        return np.asarray(found).reshape(right.shape)


def _refuse_indefinite(failed: int) -> None:
    if failed:
        raise np.linalg.LinAlgError(f"Row {failed - 1} makes the matrix indefinite.")
