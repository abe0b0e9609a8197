"""Symmetric matrices whose entries lie near the diagonal, as LAPACK stores them.

A policy that is nearly sure of every row touches few atoms at once. Its Hessian, with the multipliers of an
atom side by side, is then narrow: a factorisation costs size x width^2 and not size^3.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.lib.stride_tricks import as_strided
from scipy.linalg.blas import dsbmv
from scipy.linalg.lapack import dpbtrf, dpbtrs, dpotrf, dpotrs

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
    def of_blocks(cls, blocks: FloatArray) -> Self:
        """Of symmetric blocks: `blocks[a, d]` stands at block row a + d and block column a.

        Shape (n_blocks, n_offsets, size, size); blocks beyond the last row must be zero.
        """
        n_blocks, n_offsets, size, _ = blocks.shape
        width = n_offsets * size
        # Within a column rows go on by one, so entry (s, t) of a block is s * (length - 1) + t numbers behind
        # its first. What is above the diagonal falls into the padding of the column before.
        length = width + size
        columns = np.zeros((n_blocks * size, length))
        steps = (size * length, size, length - 1, 1)
        view = as_strided(columns, blocks.shape, [step * columns.itemsize for step in steps])
        view[...] = blocks
        return cls(np.ascontiguousarray(columns[:, :width]))

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

    def restricted(self, places: IntArray) -> "Band":
        """The rows and columns at `places`, which rise."""
        size, width = len(places), self.columns.shape[1]
        # of the places behind each one, how many are within reach
        reach = np.searchsorted(places, places + width) - np.arange(size)
        narrower = int(reach.max(initial=1))
        behind = np.minimum(np.arange(size)[:, None] + np.arange(narrower), size - 1)
        steps = places[behind] - places[:, None]
        inside = np.arange(narrower) < reach[:, None]
        entries = self.columns[places[:, None], np.where(inside, steps, 0)]
        return Band(np.where(inside, entries, 0.0))

    def factor(self) -> "Factor":
        """Cholesky's factor; LinAlgError where H is not positive definite in floats."""
        if self.columns.shape[1] > _NARROW * self.size:
            factor, failed = dpotrf(self._lower_triangle(), lower=1, clean=0, overwrite_a=1)
        else:
            factor, failed = dpbtrf(self.columns.T, lower=1)
        if failed:
            raise np.linalg.LinAlgError(f"Row {failed - 1} of {self.size} makes the matrix indefinite.")
        return Factor(factor, is_band=len(factor) < self.size)

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

    def solve(self, right: FloatArray) -> FloatArray:
        """`H^-1 x`, for one x or for each column of an array."""
        solve = dpbtrs if self.is_band else dpotrs
        found, _ = solve(self.entries, right, lower=1)
        return np.asarray(found).reshape(right.shape)
