"""Rows reduced once to masses of each group at each point: all that a distance between groups needs."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.dual.imbalance import stratum_sums
from evenhand.metrics._inputs import Blocks, as_atoms, as_prediction, as_weights, block_slices, checked_blocks
from evenhand.metrics.membership import Membership

ROWS_OF_VALUES = 1 << 13  # of a block of plain values, which has one entry in each row


@dataclass(frozen=True, slots=True, eq=False)
class GroupMasses:
    """How the predictions of each group are spread."""

    labels: tuple[Hashable, ...]
    masses: FloatArray  # of each group at each point, (n_groups, n_points); groups may differ in total
    points: FloatArray | None  # (n_points,), increasing; None for a pmf whose atoms were not told
    strata: IntArray | None = None  # of each group, (n_groups,): those of one stratum are compared

    @classmethod
    def of_values(cls, values: FloatArray, members: Membership) -> "GroupMasses":
        """Masses of plain values at the distinct ones.

        Parameters
        ----------
        values : array of shape (n_rows,)
        members : Membership
            The groups of these rows.
        """
        points, places = np.unique(values, return_inverse=True)
        return cls(members.labels, members.sums_at(places, len(points)), points, members.strata)

    @classmethod
    def of_blocks(cls, blocks: Blocks, members: Membership, points: FloatArray | None) -> "GroupMasses":
        """Masses of a pmf that is read, and dropped, block by block.

        Parameters
        ----------
        blocks : iterator of pairs (slice, array of shape (n_some, n_points))
            Some of the rows, and the pmf of each of them. All rows have to come once.
        members : Membership
            The groups of all rows.
        points : array of shape (n_points,) or None
            Value of each column, increasing; None where the atoms are not known.
        """
        masses: Any = 0.0
        with one_blas_thread():  # more cost more than they bring on products as flat as these
            for rows, block in blocks:
                masses = masses + members.sums(block, rows)[:-1]
        return cls(members.labels, masses, points, members.strata)

    def some(self, groups: AnyArray) -> "GroupMasses":
        """The groups of which the mask `groups`, (n_groups,), says so."""
        strata = None if self.strata is None else self.strata[groups]
        return GroupMasses(tuple(compress(self.labels, groups)), self.masses[groups], self.points, strata)

    def distributions(self) -> FloatArray:
        """Distribution of each group, (n_groups, n_points)."""
        distributions: FloatArray = self.masses / self.masses.sum(axis=1, keepdims=True)
        return distributions

    def everybody(self) -> FloatArray:
        """Distribution of all rows, (n_points,), or of all of each group's stratum, (n_groups, n_points)."""
        together = self.masses.sum(axis=0)
        if self.strata is not None:
            together = stratum_sums(self.masses.T, self.strata).T
        everybody: FloatArray = together / together.sum(axis=-1, keepdims=True)
        return everybody

    def gaps(self) -> FloatArray:
        """Distribution of each group minus that of everybody it is compared with, (n_groups, n_points)."""
        return self.distributions() - self.everybody()


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Checked predictions over points: a pmf in each row, or the place of its value."""

    n_rows: int
    n_points: int
    points: FloatArray | None  # (n_points,), increasing
    pmf: AnyArray | None = None  # (n_rows, n_points), as it was given
    places: IntArray | None = None  # (n_rows,)

    @classmethod
    def read(
        cls, pmf_or_values: ArrayLike, atoms: ArrayLike | None, name: str = "pmf_or_values"
    ) -> "Predictions":
        """A pmf, whose rows are checked as they are first used, or plain values."""
        given = as_prediction(pmf_or_values, name)
        if given.ndim == 2:
            points = None if atoms is None else as_atoms(atoms, given.shape[1])
            return cls(len(given), given.shape[1], points, pmf=given)
        points, places = np.unique(given, return_inverse=True)
        return cls(len(given), len(points), points, places=places)

    def masses(self, members: Membership) -> GroupMasses:
        """Masses of each group; refuses a pmf that is none."""
        if self.pmf is not None:
            return GroupMasses.of_blocks(checked_blocks(self.pmf), members, self.points)
        assert self.places is not None
        masses = members.sums_at(self.places, self.n_points)
        return GroupMasses(members.labels, masses, self.points, members.strata)

    def part(self, rows: AnyArray | slice) -> "Predictions":
        """Those of some of the rows."""
        if isinstance(rows, slice):
            return self
        if self.pmf is not None:
            return replace(self, n_rows=len(rows), pmf=self.pmf[rows])
        assert self.points is not None
        assert self.places is not None
        present, places = np.unique(self.places[rows], return_inverse=True)
        return Predictions(len(rows), len(present), self.points[present], places=places)

    def means(self) -> FloatArray:
        """Expected prediction of each row, (n_rows,)."""
        assert self.points is not None
        if self.places is not None:
            return self.points[self.places]
        means = np.empty(self.n_rows)
        with one_blas_thread():
            for rows, block in self.blocks():
                means[rows] = block @ self.points
        return means

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Blocks of rows as matrices over the points: dense for a pmf, sparse for values."""
        if self.pmf is not None:
            for rows in block_slices(self.n_rows, self.n_points):
                block = self.pmf[rows]
                yield rows, block if block.dtype.kind == "f" else block.astype(np.float64)
        else:
            assert self.places is not None
            for start in range(0, self.n_rows, ROWS_OF_VALUES):
                rows = slice(start, min(start + ROWS_OF_VALUES, self.n_rows))
                places = self.places[rows]
                entries = (np.ones(len(places)), places, np.arange(len(places) + 1))
                yield rows, sparse.csr_array(entries, shape=(len(places), self.n_points))

    def some(self, rows: IntArray) -> FloatArray:
        """Distribution of the prediction over a few rows, (n_points,)."""
        if self.pmf is not None:
            distribution: FloatArray = self.pmf[rows].mean(axis=0, dtype=np.float64)
            return distribution
        assert self.places is not None
        return np.bincount(self.places[rows], minlength=self.n_points) / len(rows)

    def merged(self, most: int) -> "Predictions":
        """Values at no more than `most` points, each the mean of about equally many neighbours."""
        if self.places is None or self.points is None or self.n_points <= most:
            return self
        counts = np.bincount(self.places)
        shares = (np.cumsum(counts) - counts) * most // self.n_rows
        bins = np.unique(shares, return_inverse=True)[1]
        means = np.bincount(bins, weights=counts * self.points) / np.bincount(bins, weights=counts)
        return Predictions(self.n_rows, len(means), means, places=bins[self.places])


def read_rows(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> tuple[Predictions, Membership, AnyArray | slice]:
    """Checked predictions of the rows whose groups are known, their groups, and which rows these are."""
    predictions = Predictions.read(pmf_or_values, atoms)
    weights = as_weights(sample_weight, predictions.n_rows)
    rows, members = Membership.read_known(sensitive_features, predictions.n_rows, weights)
    return predictions.part(rows), members, rows
