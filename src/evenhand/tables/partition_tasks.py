"""What is done on a worker to one partition of a table; everything here travels to other processes.

A partition is scored once, into blocks of numbers (`tables.numbers`) that stay on the worker. A pass is a
function of these blocks and of the partition's number, and what it returns is small.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.rows import MemoryRows
from evenhand.dual.step import ParityStep
from evenhand.tables.model_inputs import TableReader, read_weights
from evenhand.tables.numbers import BLOCK_ROWS, Layout, row_numbers
from evenhand.tables.sampling import hashed, merge_copies, places_of
from evenhand.tables.sources import Chunk, count_rows, take_rows

T = TypeVar("T")
Blocks: TypeAlias = Iterable[FloatArray]
Sums: TypeAlias = tuple[FloatArray, ...]
Ask: TypeAlias = Callable[[MemoryRows], Sums]


class PartitionError(ValueError):
    """What is wrong with the rows of a partition, in one line that names it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way to the driver as a value: no scheduler tries again, or adds words of its own."""

    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """From chunks of a partition of the user's table to blocks of numbers."""

    reader: TableReader
    layout: Layout
    sample_weight: str | None

    def blocks(self, chunks: Iterable[Chunk], number: int) -> Iterator[FloatArray]:
        """The numbers of each block; an error names the partition and the rows in it."""
        for start, chunk in cut(chunks):
            yield blame(self._numbers, chunk, number, start)

    def _numbers(self, chunk: Chunk) -> FloatArray:
        rows = self.reader.rows(chunk, self.layout.groups, self.layout.strata)
        return row_numbers(rows, read_weights(chunk, self.sample_weight))


def cut(chunks: Iterable[Chunk], size: int = BLOCK_ROWS) -> Iterator[tuple[int, Chunk]]:
    """Chunks of at most `size` rows, without empty ones, each with the place of its first row."""
    n_before = 0
    for chunk in chunks:
        n_rows = count_rows(chunk)
        for start in range(0, n_rows, size):
            part = chunk if n_rows <= size else take_rows(chunk, start, min(start + size, n_rows))
            yield n_before + start, part
        n_before += n_rows


def blame(compute: Callable[[Chunk], T], chunk: Chunk, number: int, start: int) -> T:
    """What `compute` gives for a chunk; its error is told as one about rows of the partition."""
    try:
        return compute(chunk)
    except Exception as error:
        last = start + count_rows(chunk) - 1
        raise PartitionError(f"Partition {number}, rows {start} to {last}: {told(error)}") from None


def told(error: BaseException) -> str:
    """An error's message in one line; some libraries tell no more than a name."""
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError | TypeError) and text else f"{type(error).__name__}: {text}"


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Counts and sums of a table of numbers."""

    n_rows: int
    total_weight: float
    mass: FloatArray  # weighted sum of the probabilities, (n_groups,)
    lowest: float
    highest: float


def summarise(blocks: Blocks, number: int, *, layout: Layout) -> Summary:
    """Counts and sums of a partition."""
    n_rows, weight, mass, lowest, highest = 0, 0.0, np.zeros(len(layout.groups)), np.inf, -np.inf
    for block in blocks:
        if not len(block):
            continue
        scores, proba = layout.split(block)
        n_rows += len(block)
        weight += float(block[:, -1].sum())
        # Not `@`: BLAS rounds by how an array lies in memory, and one that has travelled lies elsewhere.
        mass += (block[:, -1:] * proba).sum(axis=0)
        lowest, highest = min(lowest, float(scores.min())), max(highest, float(scores.max()))
    return Summary(n_rows, weight, mass, lowest, highest)


def gather(blocks: Blocks, number: int, *, layout: Layout) -> FloatArray:
    """All rows of a partition, in order."""
    return np.concatenate([np.empty((0, layout.width)), *blocks])


def gather_places(blocks: Blocks, number: int, *, layout: Layout, size: int, starts: IntArray) -> FloatArray:
    """The partition's part of a sample by place; `starts` are the first places of all, and the end."""
    start, stop = starts[number], starts[number + 1]
    chosen = places_of(size, int(starts[-1]))
    chosen = chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, stop)] - start
    parts, before = [np.empty((0, layout.width))], 0
    for block in blocks:
        first, last = np.searchsorted(chosen, [before, before + len(block)])
        parts.append(block[chosen[first:last] - before])
        before += len(block)
    return np.concatenate(parts)


def gather_share(
    blocks: Blocks, number: int, *, layout: Layout, share: float, lowest: float, highest: float
) -> FloatArray:
    """The partition's part of a sample by hash: rows (hash, numbers, count), copies as one."""
    parts = [np.empty((0, layout.width + 2))]
    for block in blocks:
        keys = hashed(block, layout, lowest, highest)
        taken = keys < share
        parts.append(np.column_stack([keys[taken], block[taken], np.ones(np.count_nonzero(taken))]))
    return merge_copies(np.concatenate(parts))


def add_up(
    blocks: Blocks, number: int, *, layout: Layout, step: ParityStep, total_weight: float, ask: Ask
) -> Sums | None:
    """Sums over the rows of a partition, encoded block by block; None where there are no rows."""
    total: Sums | None = None
    for block in blocks:
        if not len(block):
            continue
        rows = step.rows(layout.rows(block))
        weighted = MemoryRows(rows.design, rows.constant, block[:, -1] / total_weight, rows.n_kept)
        outside = step.grid.count_outside(layout.split(block)[0])
        total = add_sums(total, (np.array(float(outside)), *ask(weighted)))
    return total


def add_sums(total: Sums | None, part: Sums | None) -> Sums | None:
    """Sums of both, where one may be missing."""
    if total is None or part is None:
        return part if total is None else total
    return tuple(one + other for one, other in zip(total, part, strict=True))


def ask_moments(rows: MemoryRows, *, loadings: FloatArray, offset: FloatArray, whole: bool) -> Sums:
    """What `DualRows.moments` is made of."""
    found = rows.moments(loadings, offset, whole=whole)
    return np.array(found.smooth), found.columns, np.array(found.peak)


def ask_constants(rows: MemoryRows, *, also: Ask | None = None) -> Sums:
    """What no policy changes: the mean constant and the second moment of imbalances; then `also`."""
    own = np.array(rows.mean_constant()), rows.second_moment()
    return own if also is None else (*own, *also(rows))
