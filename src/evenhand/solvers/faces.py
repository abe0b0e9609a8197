"""Linear systems on faces, where some entries may move and the others are bound; faces differ in few."""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import BoolArray, FloatArray, IntArray
from evenhand.dual.band import Band, Factor
from evenhand.dual.dense import Dense

_NEAR = 0.3  # of the factorised entries: faces that differ in more are factorised anew


class PartialSolver:
    """Solves `H x = c` where only some entries of x may move and the others stay zero.

    Faces of one model differ in few entries. The first one is factorised, `H = L L^T`, and those near it are
    solved by elimination of what is bound and what is new: each such entry b costs one `L^-1 b`, once, and k
    of them a small system.
    """

    def __init__(self, hessian: Band | Dense) -> None:
        self.hessian = hessian
        self.factor: Factor | None = None
        self.n_factors = 0
        self._restart(np.empty(0, np.int64))

    def _restart(self, base: IntArray) -> None:
        self.base = base
        self.order: IntArray = np.full(self.hessian.size, -1)  # in which entries were eliminated; -1: not yet
        self.halfway = np.empty((0, len(base)))  # L^-1 b of each, in that order, and their inner products
        self.products = np.empty((0, 0))

    def solve(self, is_free: BoolArray, right: FloatArray) -> FloatArray:
        """The solution where only the free entries move."""
        return self.halve(is_free, right[:, None]).solution(np.ones(1))

    def halve(self, is_free: BoolArray, right: FloatArray) -> "Halfway":
        """Half of the way to the solutions for all columns of `right`."""
        places, sizes = np.flatnonzero(is_free), right[:0]
        if not len(places):
            return Halfway(right, is_free, None, places, sizes, sizes, places, sizes)
        others = np.setxor1d(places, self.base, assume_unique=True)  # bound ones of the base, and new ones
        if self.factor is None or len(others) > _NEAR * len(self.base):
            self.factor = self.hessian.factor_at(places)
            self._restart(places)
            self.n_factors += 1
            others = others[:0]
        first = found = self.factor.halfway(right[self.base])
        added = others[is_free[others]]
        if len(others):
            rows = self._eliminated(others, self.factor)
            is_new = is_free[others]
            corner = -self.products[np.ix_(rows, rows)]
            corner[np.ix_(is_new, is_new)] += self.hessian.between(added, added)
            known = -(self.halfway @ first)[rows]
            known[is_new] += right[added]
            sizes = np.asarray(np.linalg.solve(corner, known), float)
            shares = np.zeros((len(self.halfway), right.shape[1]))
            shares[rows] = sizes
            found = first - self.halfway.T @ shares
            sizes = sizes[is_new]
        return Halfway(right, is_free, self.factor, self.base, first, found, added, sizes)

    def _eliminated(self, entries: IntArray, factor: Factor) -> IntArray:
        """Where `L^-1 b` of each entry is kept.

        Its row b of H over the base is taken for a new one, and a unit for one of the base itself.
        """
        missing = entries[self.order[entries] < 0]
        if len(missing):
            borders = np.zeros((len(missing), len(self.base)))
            place = np.searchsorted(self.base, missing)
            is_bound = np.isin(missing, self.base)
            borders[is_bound, place[is_bound]] = 1.0
            borders[~is_bound] = self.hessian.between(missing[~is_bound], self.base)
            added = factor.halfway(borders.T).T
            across = self.halfway @ added.T
            self.order[missing] = len(self.halfway) + np.arange(len(missing))
            self.halfway = np.concatenate([self.halfway, added])
            self.products = np.block([[self.products, across], [across.T, added @ added.T]])
        rows: IntArray = self.order[entries]
        return rows


@dataclass(frozen=True, slots=True, eq=False)
class Halfway:
    """Solutions of `H x = c` for several c on a face, up to the second half of a factor's solve."""

    right: FloatArray  # the columns c, (size, n_columns)
    is_free: BoolArray
    factor: Factor | None  # L of the base; None where no entry is free
    base: IntArray
    first: FloatArray  # L^-1 c over the base
    found: FloatArray  # the same, with bound and new entries eliminated
    added: IntArray  # free entries that are not in the base
    sizes: FloatArray  # of their solutions

    def products(self) -> FloatArray:
        """`c^T x` of every c with the solution of every other, (n_columns, n_columns)."""
        inner: FloatArray = self.first.T @ self.found + self.right[self.added].T @ self.sizes
        return inner

    def solution(self, weights: FloatArray) -> FloatArray:
        """The solution of `sum_k weights_k c_k`."""
        x = np.zeros(len(self.right))
        if self.factor is not None:
            x[self.base] = self.factor.rest(self.found @ weights)
            x[self.added] = self.sizes @ weights
            x[~self.is_free] = 0.0
        return x
