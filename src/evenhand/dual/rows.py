"""Rows of a dual problem, wherever they live: in memory, in a mapped file, on a GPU or on a cluster.

To a solver a row is a column of numbers (the imbalance of the kept groups, then the features of its cost), a
constant that no atom changes, and a weight. Solvers never look at all the rows one by one; they ask for the
sums below, which are small however many rows there are, and for a sample, on which they take the curvature.
`DualRows` is all that a new home for rows has to offer, and `tests/rows_contract.py` is what it has to pass.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from evenhand._kernels.chunks import chunk_bounds, map_chunks
from evenhand._kernels.softmax import moments
from evenhand._utils.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class PolicyMoments:
    """Means over the rows under the policy of some logits, which are in units of log 2."""

    smooth: float  # E[log2 sum_l 2^logit_l]
    columns: FloatArray  # E[column * pi_l], (n_columns, n_atoms)
    peak: float  # E[max_l logit_l]


class DualRows(Protocol):
    """What a problem and its solvers ask of rows; weights are positive and sum to one.

    `loadings` (n_atoms, n_kept + n_features) and `offset` (n_atoms,) give the logits of every row,
    `loadings @ column + offset`, in units of log 2.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def n_kept(self) -> int:
        """Number of imbalances in a row's column, which come first."""
        ...

    @property
    def passes_are_cheap(self) -> bool:
        """Whether a pass takes no longer than the Hessian of some ten thousand rows in memory."""
        ...

    def moments(self, loadings: FloatArray, offset: FloatArray, *, whole: bool = False) -> PolicyMoments:
        """Moments of the kept imbalances; with `whole` also of the features, and last of a one."""
        ...

    def mean_constant(self) -> float:
        """Mean of the cost that no atom changes."""
        ...

    def second_moment(self) -> FloatArray:
        """`E[u u^T]` of the kept imbalances, (n_kept, n_kept)."""
        ...

    def sample(self, size: int) -> "DualRows":
        """The same `size` rows every time, in memory or on a device, with the mean imbalance of all rows.

        The sample's own mean would make tight tolerances infeasible, as a wrong prior does. Where so many
        cannot be had in memory, all rows are the sample.
        """
        ...

    def in_memory(self) -> "MemoryRows":
        """The rows as arrays: asked of samples alone."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRows:
    """Rows as arrays in memory."""

    design: FloatArray  # kept imbalances, then cost features: (n_kept + n_features, n_rows)
    constant: FloatArray  # (n_rows,)
    weights: FloatArray  # (n_rows,), sums to one
    n_kept: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.design.shape[1])

    @property
    def passes_are_cheap(self) -> bool:
        """They are not."""
        return False

    def moments(self, loadings: FloatArray, offset: FloatArray, *, whole: bool = False) -> PolicyMoments:
        """Moments of the kept imbalances; with `whole` also of the features, and last of a one."""
        n_columns, n_atoms = len(self.design) + 1 if whole else self.n_kept, len(offset)
        if whole:  # a row of ones, which no logit looks at: its moment is the mean policy
            loadings = np.concatenate([loadings, np.zeros((n_atoms, 1))], axis=1)

        def run(start: int, stop: int) -> tuple[float, FloatArray, float]:
            rows = self.design, self.weights
            first, last = start, stop
            if whole:
                part = np.concatenate([self.design[:, start:stop], np.ones((1, stop - start))])
                rows, first, last = (part, self.weights[start:stop]), 0, stop - start
            result: tuple[float, FloatArray, float] = moments(*rows, loadings, offset, n_columns, first, last)
            return result

        smooth = peak = 0.0
        columns = np.zeros((n_columns, n_atoms))
        for part_smooth, part_columns, part_peak in map_chunks(run, self.n_rows, n_atoms):
            smooth += part_smooth
            columns += part_columns
            peak += part_peak
        return PolicyMoments(smooth, columns, peak)

    def mean_constant(self) -> float:
        """Mean of the cost that no atom changes."""
        # Not `@`: BLAS wakes threads of its own, which go on spinning beside those of the kernels.
        return float(np.einsum("i,i->", self.weights, self.constant))

    def second_moment(self) -> FloatArray:
        """`E[u u^T]` of the kept imbalances, (n_kept, n_kept)."""
        total = np.zeros((self.n_kept, self.n_kept))
        for start, stop in chunk_bounds(self.n_rows):  # not at once: the arrays may be maps of a file
            kept = self.design[: self.n_kept, start:stop]
            total += (kept * self.weights[start:stop]) @ kept.T
        return total

    def sample(self, size: int) -> "MemoryRows":
        """The same `size` rows every time, with the mean imbalance of all rows."""
        places = np.random.default_rng(size).choice(self.n_rows, size, replace=False)
        part = self.take(np.sort(places))
        weights = part.weights / part.weights.sum()
        kept = slice(self.n_kept)
        part.design[kept] += (self.design[kept] @ self.weights - part.design[kept] @ weights)[:, None]
        return replace(part, weights=weights)

    def in_memory(self) -> "MemoryRows":
        """The rows as arrays."""
        return self

    def take(self, places: IntArray) -> "MemoryRows":
        """Copies of some of the rows, with the weights that they have among all."""
        design = np.ascontiguousarray(self.design[:, places])
        return MemoryRows(design, self.constant[places], self.weights[places], self.n_kept)


def stored_rows(rows: DualRows, purpose: str) -> MemoryRows:
    """The rows as arrays, for what cannot do without; refused where they live elsewhere."""
    if not isinstance(rows, MemoryRows):
        raise ValueError(
            f"{purpose} looks at single rows, and these are {type(rows).__name__}, which give sums alone. "
            'Use solver="auto".'
        )
    return rows
