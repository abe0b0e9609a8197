"""Scores and group probabilities of every row on disk: what a solver that passes over them often needs.

A row is a few doubles, however wide its table was. The files have no name: they go when the process does.
"""

import math
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.rows import MemoryRows
from evenhand.dual.step import ParityStep
from evenhand.tables import numbers
from evenhand.tables.numbers import Layout, row_numbers
from evenhand.tables.sampling import places_of, sample_of_pool

BLOCK_ROWS = numbers.BLOCK_ROWS
RELEASE_SECONDS = 0.005  # in which a pass that does nothing but read maps some 50 MB

_DOUBLE = 8


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows(MemoryRows):
    """Rows whose arrays are maps of a file: read in windows, so that memory does not grow with them."""

    pool: MemoryRows | None = None  # a large sample in memory, from which smaller ones are taken
    mean: FloatArray | None = None  # imbalance of all rows, (n_kept,)
    n_clipped: int = 0  # scores outside the bounds

    def count_clipped(self) -> int:
        """Number of scores outside the bounds."""
        return self.n_clipped

    def sample(self, size: int) -> MemoryRows:
        """The same `size` rows every time; with a pool, at least so many of that, or else all rows."""
        if self.pool is None or self.mean is None:
            return MemoryRows.sample(self, size)
        return sample_of_pool(self.pool, size, self.mean, self.n_rows) or self

    def mean_constant(self) -> float:
        """Mean over the rows of the cost that no atom changes, window by window, as in `take`."""
        windows = (slice(start, start + BLOCK_ROWS) for start in range(0, self.n_rows, BLOCK_ROWS))
        return math.fsum(
            np.einsum("i,i->", self.weights[window], self.constant[window]) for window in windows
        )

    def take(self, places: IntArray) -> MemoryRows:
        """Copies of sorted rows, window by window.

        A page holds 512 rows, so a sample touches nearly all of them: at once, all would be in memory.
        """
        edges = range(0, self.n_rows, BLOCK_ROWS)
        cuts = np.searchsorted(places, edges)
        parts = []
        for start, first, last in zip(edges, cuts, [*cuts[1:], len(places)], strict=True):
            window, inside = slice(start, start + BLOCK_ROWS), places[first:last] - start
            parts.append(
                (
                    self.design[:, window][:, inside],
                    self.constant[window][inside],
                    self.weights[window][inside],
                )
            )
        design, constant, weights = zip(*parts, strict=True)
        return MemoryRows(
            np.concatenate(design, axis=1), np.concatenate(constant), np.concatenate(weights), self.n_kept
        )


class Spool:
    """Rows in the order in which they came, each with its scores, probabilities and weight."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._layout = Layout((), None, None)  # until the first row
        self.n_rows = 0
        self.total_weight = 0.0
        self.lowest, self.highest = np.inf, -np.inf
        self._mass: FloatArray = np.zeros(1)
        self._folder = None if folder is None else Path(folder)
        self._file: Any = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115, the spool is its manager

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    @property
    def groups(self) -> Labels | None:
        """Labels of the groups; None before the first row."""
        return self._layout.groups or None

    @property
    def strata(self) -> IntArray | None:
        """Stratum of each group."""
        return self._layout.strata

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores; None where a score is one number."""
        return self._layout.n_classes

    def append(self, rows: Rows, weights: FloatArray | None) -> None:
        """Add rows; those of weight zero are left out."""
        n_classes = rows.scores.shape[1] if rows.scores.ndim == 2 else None
        self._layout = Layout(rows.groups, rows.strata, n_classes)
        table = row_numbers(rows, weights)
        if not len(table):
            return
        self._file.write(table.tobytes())
        self.n_rows += len(table)
        self.total_weight += float(table[:, -1].sum())
        scores, proba = self._layout.split(table)
        self._mass = self._mass + table[:, -1] @ proba
        self.lowest = min(self.lowest, float(scores.min()))
        self.highest = max(self.highest, float(scores.max()))

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        mean: FloatArray = self._mass / self.total_weight
        return mean

    def all_rows(self) -> Rows:
        """Every row, in memory."""
        return self._layout.rows(np.concatenate(list(self._blocks())))

    def sample_rows(self, size: int) -> Rows:
        """The same `size` rows every time, in order: one at random from each of `size` equal stretches."""
        chosen = places_of(size, self.n_rows)
        parts, start = [], 0
        for block in self._blocks():
            first, last = np.searchsorted(chosen, [start, start + len(block)])
            parts.append(block[chosen[first:last] - start])
            start += len(block)
        return self._layout.rows(np.concatenate(parts))

    @contextmanager
    def rows(self, step: ParityStep, sample: Rows) -> Iterator[MappedRows]:
        """All the rows as a problem takes them; smaller samples are taken from the given one."""
        n_clipped = 0

        def encode(rows: Rows) -> MemoryRows:
            nonlocal n_clipped
            n_clipped += step.grid.count_outside(rows.scores)
            return step.rows(rows)

        imbalance = ImbalanceModel.from_prior(step.group_prior, step.strata)
        mean = imbalance.kept_rows(self.group_mass()[None])[:, 0]
        with self.mapped(encode) as mapped:
            yield replace(mapped, pool=step.rows(sample), mean=mean, n_clipped=n_clipped)

    @contextmanager
    def mapped(self, encode: Callable[[Rows], MemoryRows]) -> Iterator[MappedRows]:
        """All the rows as a problem takes them, on a map of a file; `encode` does that for a block.

        While the block of `with` runs, pages that were read are given back to the system at once: the page
        cache keeps them for as long as nobody needs the memory, and this process holds next to nothing.
        """
        with tempfile.TemporaryFile(dir=self._folder) as file:
            n_kept = self._write_columns(file, encode)
            file.flush()
            pages = mmap.mmap(file.fileno(), 0)  # ends with the last array that looks at it
            columns = np.frombuffer(pages, np.float64).reshape(-1, self.n_rows)
            with _released(pages):
                yield MappedRows(columns[:-2], columns[-2], columns[-1], n_kept)

    def _blocks(self) -> Iterator[FloatArray]:
        width = self._layout.width
        self._file.flush()
        self._file.seek(0)
        while data := self._file.read(BLOCK_ROWS * width * _DOUBLE):
            yield np.frombuffer(data).reshape(-1, width)

    def _write_columns(self, file: Any, encode: Callable[[Rows], MemoryRows]) -> int:
        """Write design, constant and weights column by column, as kernels read them; the number kept."""
        n_kept = start = 0
        for block in self._blocks():
            rows = encode(self._layout.rows(block))
            n_kept = rows.n_kept
            columns = [*rows.design, rows.constant, block[:, -1] / self.total_weight]
            for number, column in enumerate(columns):
                file.seek((number * self.n_rows + start) * _DOUBLE)
                file.write(np.ascontiguousarray(column).tobytes())
            start += len(block)
        return n_kept


@contextmanager
def _released(pages: mmap.mmap) -> Iterator[None]:
    """Give back pages of a map as they are read, from a thread, until the end."""
    if not hasattr(mmap, "MADV_DONTNEED"):  # the system will take them when it needs them
        yield
        return
    ended = threading.Event()

    def release() -> None:
        while not ended.wait(RELEASE_SECONDS):
            pages.madvise(mmap.MADV_DONTNEED)  # of a shared map of a file: nothing is lost

    thread = threading.Thread(target=release, name="evenhand-release", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
