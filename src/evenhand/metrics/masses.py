"""Rows reduced once to masses of each group at each point: all that a distance between groups needs."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.metrics._inputs import (
    as_atoms,
    as_groups,
    as_prediction,
    as_weights,
    block_slices,
    checked_blocks,
)

ROWS_OF_VALUES = 1 << 13  # of a block of plain values, which has one entry in each row


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """How much each row counts in each group: wholly in the group of its code, or by its shares in all."""

    labels: tuple[Hashable, ...]
    codes: IntArray | None = None  # (n_rows,), the place of each row's label
    shares: FloatArray | None = None  # (n_rows, n_groups), where the group itself is not known
    weights: FloatArray | None = None  # (n_rows,), on top of either

    def column(self, group: int, rows: slice = slice(None)) -> FloatArray:
        """What each of some rows counts in one group."""
        if self.shares is not None:
            counts = self.shares[rows, group]
        else:
            assert self.codes is not None
            counts = (self.codes[rows] == group).astype(np.float64)
        return counts if self.weights is None else counts * self.weights[rows]

    def of_rows(self, rows: slice) -> FloatArray:
        """What each of some rows counts in each group, (n_groups, n_some)."""
        return np.stack([self.column(group, rows) for group in range(len(self.labels))])

    @property
    def counts_rows(self) -> bool:
        """Every row counts once, in one group: what distribution-free bounds need."""
        equal = self.weights is None or bool((self.weights == self.weights[0]).all())
        return self.codes is not None and equal


@dataclass(frozen=True, slots=True, eq=False)
class GroupMasses:
    """How the predictions of each group are spread."""

    labels: tuple[Hashable, ...]
    masses: FloatArray  # of each group at each point, (n_groups, n_points); groups may differ in total
    points: FloatArray | None  # (n_points,), increasing; None for a pmf whose atoms were not told

    @classmethod
    def of_values(cls, values: FloatArray, members: Membership) -> "GroupMasses":
        """Masses of plain values at the distinct ones."""
        points, places = np.unique(values, return_inverse=True)
        masses = [
            np.bincount(places, weights=members.column(group), minlength=len(points))
            for group in range(len(members.labels))
        ]
        return cls(members.labels, np.stack(masses), points)

    def distributions(self) -> FloatArray:
        """Distribution of each group, (n_groups, n_points)."""
        distributions: FloatArray = self.masses / self.masses.sum(axis=1, keepdims=True)
        return distributions

    def everybody(self) -> FloatArray:
        """Distribution of all rows, (n_points,)."""
        together = self.masses.sum(axis=0)
        everybody: FloatArray = together / together.sum()
        return everybody

    def gaps(self) -> FloatArray:
        """Distribution of each group minus that of all rows, (n_groups, n_points)."""
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
    def read(cls, pmf_or_values: ArrayLike, atoms: ArrayLike | None) -> "Predictions":
        """A pmf, whose rows are checked as they are first used, or plain values."""
        given = as_prediction(pmf_or_values)
        if given.ndim == 2:
            points = None if atoms is None else as_atoms(atoms, given.shape[1])
            return cls(len(given), given.shape[1], points, pmf=given)
        points, places = np.unique(given, return_inverse=True)
        return cls(len(given), len(points), points, places=places)

    def masses(self, members: Membership) -> GroupMasses:
        """Masses of each group; refuses a pmf that is none, and a group without any."""
        n_groups = len(members.labels)
        if self.pmf is None:
            masses = np.stack([self._counts(members.column(group)) for group in range(n_groups)])
        else:
            masses = np.zeros((n_groups, self.n_points))
            with one_blas_thread():  # more cost more than they bring on products as flat as these
                for rows, block in checked_blocks(self.pmf):
                    masses += members.of_rows(rows) @ block
        for label, total in zip(members.labels, masses.sum(axis=1), strict=True):
            if not total > 0:
                raise ValueError(f"No row counts in group {label!r}: leave it out, or add rows.")
        return GroupMasses(members.labels, masses, self.points)

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

    def _counts(self, weights: FloatArray) -> FloatArray:
        assert self.places is not None
        counts = np.bincount(self.places, weights=weights, minlength=self.n_points)
        return counts.astype(np.float64, copy=False)


def membership_of(
    sensitive_features: ArrayLike, n_rows: int, weights: FloatArray | None = None
) -> Membership:
    """Rows in the groups that their labels name, labels in sorted order."""
    labels, codes = as_groups(sensitive_features, n_rows)
    return Membership(tuple(labels.tolist()), codes=codes, weights=weights)


def read_groups(
    pmf_or_values: ArrayLike,
    sensitive_features: ArrayLike,
    atoms: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> tuple[Predictions, Membership]:
    """Predictions and the groups that the labels name."""
    predictions = Predictions.read(pmf_or_values, atoms)
    weights = as_weights(sample_weight, predictions.n_rows)
    return predictions, membership_of(sensitive_features, predictions.n_rows, weights)
