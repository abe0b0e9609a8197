"""The few numbers that the parity step keeps of a row: its scores, its group probabilities and its weight.

Wherever rows wait between passes, on disk or on the workers of a cluster, they are tables of such numbers,
one row of doubles for each row, however wide the user's table was.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows
from evenhand.dual.rows import DualRows
from evenhand.dual.step import ParityStep

BLOCK_ROWS = 65_536  # that are encoded and summed at a time


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What the columns of a table of numbers are: scores first, then groups, last the weight."""

    groups: Labels
    strata: IntArray | None
    n_classes: int | None  # columns of the scores; None where a score is one number

    @property
    def width(self) -> int:
        """Number of columns."""
        return (self.n_classes or 1) + len(self.groups) + 1

    def split(self, table: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores and probabilities of the rows of a table."""
        if self.n_classes is None:
            return table[:, 0], table[:, 1:-1]
        return table[:, : self.n_classes], table[:, self.n_classes : -1]

    def rows(self, table: FloatArray) -> Rows:
        """The table as rows to fit on, whose weights sum to one."""
        weights = table[:, -1]
        scaled = None if (weights == weights[0]).all() else weights / weights.sum()
        scores, proba = map(np.ascontiguousarray, self.split(table))
        return Rows(scores, proba, self.groups, scaled, self.strata)


def row_numbers(rows: Rows, weights: FloatArray | None) -> FloatArray:
    """Rows as a table of numbers, without those of weight zero.

    >>> rows = Rows(np.array([3.0, 4.0]), np.array([[0.2, 0.8], [1.0, 0.0]]), ("a", "b"), None)
    >>> row_numbers(rows, np.array([0.0, 5.0]))
    array([[4., 1., 0., 5.]])
    """
    used = np.ones(len(rows.scores)) if weights is None else weights
    table: FloatArray = np.column_stack([rows.scores, rows.group_proba, used])[used > 0]
    return table


class TableRows(DualRows, Protocol):
    """The rows of a problem that were encoded from a table."""

    def count_clipped(self) -> int:
        """Number of scores outside the bounds."""
        ...


class ScoredTable(Protocol):
    """A table of numbers that need not be in memory, as a fit reads it."""

    n_rows: int
    lowest: float  # of all scores
    highest: float

    @property
    def groups(self) -> Labels | None:
        """Labels of the groups."""
        ...

    @property
    def strata(self) -> IntArray | None:
        """Stratum of each group."""
        ...

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores; None where a score is one number."""
        ...

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        ...

    def all_rows(self) -> Rows:
        """Every row, in memory."""
        ...

    def sample_rows(self, size: int) -> Rows:
        """About `size` rows, the same every time."""
        ...

    def rows(self, step: ParityStep, sample: Rows) -> AbstractContextManager[TableRows]:
        """All the rows as a problem takes them; smaller samples are taken from the given one."""
        ...
