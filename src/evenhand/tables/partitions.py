"""Rows that live on the workers of a cluster, of which only sums cross the wire.

A backend (`on_spark`, `on_dask`, or `LocalPartitions` in this process) runs a function on every partition of
a scored table and gives the results in the partitions' order. `ScoredPartitions` is the table to `fit_table`,
and `PartitionedRows` its rows to a solver. Sums are added in the order of the partitions, so that the same
partitions give the same bits.
"""

import logging
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Protocol, TypeVar

import numpy as np

from evenhand._utils.progress import report_progress
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels, Rows
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.rows import MemoryRows, PolicyMoments
from evenhand.dual.step import ParityStep
from evenhand.tables import partition_tasks as tasks
from evenhand.tables.numbers import Layout
from evenhand.tables.sampling import as_table, merge_copies, sample_of_pool

T = TypeVar("T")

MOST_WHOLE = 8  # features of a cost that are summed in every pass: the certificate then needs none of its own
SAME_POINT = 1e-14  # relative difference of loadings that is rounding
MOST_GATHERED = 262_144  # rows that a sample may bring to the driver when the first one does not do
FEWEST_SAMPLED = 0.25  # of the rows asked for; a sample by hash of few different rows asks again for more

logger = logging.getLogger(__name__)


class Backend(Protocol):
    """A scored table on workers: partitions that are lists of blocks of numbers."""

    @property
    def ordered(self) -> bool:
        """Whether rows have an order, which partitions keep."""
        ...

    def run(self, task: Callable[[tasks.Blocks, int], T]) -> Sequence[T | tasks.Failure]:
        """Results of `task(blocks, number)` on every partition, in their order."""
        ...

    def close(self) -> None:
        """Let the workers forget the partitions."""
        ...


class LocalPartitions:
    """Partitions in this process: what a cluster does, without one."""

    def __init__(self, scorer: tasks.Scorer, chunks: Sequence[Any], *, ordered: bool = True) -> None:
        self.ordered = ordered
        self._parts = [list(scorer.blocks([chunk], number)) for number, chunk in enumerate(chunks)]

    def run(self, task: Callable[[tasks.Blocks, int], T]) -> Sequence[T | tasks.Failure]:
        """Results of `task(blocks, number)` on every partition, through pickles as on a cluster."""
        travelled = pickle.loads(pickle.dumps(task))
        return [travelled(blocks, number) for number, blocks in enumerate(self._parts)]

    def close(self) -> None:
        """Forget the partitions."""
        self._parts = []


class ScoredPartitions:
    """A scored table on a cluster, as `fit_table` reads it; `Spool` is the same on disk."""

    def __init__(self, backend: Backend, layout: Layout) -> None:
        self._backend, self._layout = backend, layout
        self.n_passes = 0
        parts = self.run("score", partial(tasks.summarise, layout=layout))
        sizes = [part.n_rows for part in parts]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.n_rows = int(self._starts[-1])
        self.total_weight = float(sum(part.total_weight for part in parts))
        self.lowest = min((part.lowest for part in parts), default=np.inf)
        self.highest = max((part.highest for part in parts), default=-np.inf)
        self._mass: FloatArray = np.sum([part.mass for part in parts], axis=0)
        if self.n_rows == 0:
            raise ValueError("The table has no rows, or none of positive weight: give at least one.")
        report_progress("read", self.n_rows, self.n_rows)

    @property
    def groups(self) -> Labels:
        """Labels of the groups."""
        return self._layout.groups

    @property
    def strata(self) -> Any:
        """Stratum of each group."""
        return self._layout.strata

    @property
    def n_classes(self) -> int | None:
        """Columns of the scores; None where a score is one number."""
        return self._layout.n_classes

    def run(self, name: str, task: Callable[[tasks.Blocks, int], T]) -> list[T]:
        """One pass over all partitions: its results in their order, or the first error."""
        begin = perf_counter()
        results = self._backend.run(task)
        for result in results:
            if isinstance(result, tasks.Failure):
                raise tasks.PartitionError(result.message)
        self.n_passes += 1
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "pass %d (%s): %d partitions, at most %d bytes from one, %.3f s",
                self.n_passes,
                name,
                len(results),
                max((len(pickle.dumps(result)) for result in results), default=0),
                perf_counter() - begin,
            )
        return results  # type: ignore[return-value]  # no failure is left

    def group_mass(self) -> FloatArray:
        """Weighted mean of the probabilities, shape (n_groups,)."""
        mean: FloatArray = self._mass / self.total_weight
        return mean

    def all_rows(self) -> Rows:
        """Every row, in memory; where they have no order, in that of their hashes."""
        if not self._backend.ordered:
            return self._layout.rows(as_table(self._share(1.0)))
        return self._layout.rows(
            np.concatenate(self.run("gather", partial(tasks.gather, layout=self._layout)))
        )

    def sample_rows(self, size: int) -> Rows:
        """About `size` rows, the same for every way to cut the table into partitions."""
        if self._backend.ordered:
            task = partial(tasks.gather_places, layout=self._layout, size=size, starts=self._starts)
            return self._layout.rows(np.concatenate(self.run("sample", task)))
        share = size / self.n_rows
        found = self._share(share)
        while len(found) < FEWEST_SAMPLED * size and share < 1.0:  # most rows are copies of others
            share = min(1.0, share * size / max(len(found), 1))
            found = self._share(share)
        return self._layout.rows(as_table(found))

    def _share(self, share: float) -> FloatArray:
        """Rows (hash, numbers, count) whose hash is below a share."""
        task = partial(
            tasks.gather_share, layout=self._layout, share=share, lowest=self.lowest, highest=self.highest
        )
        return merge_copies(np.concatenate(self.run("sample", task)))

    @contextmanager
    def rows(self, step: ParityStep, sample: Rows) -> Iterator["PartitionedRows"]:
        """All the rows as a problem takes them; curvature is taken on the sample."""
        yield PartitionedRows(self, self._layout, step, step.rows(sample))


class PartitionedRows:
    """Rows of a dual problem on a cluster (`evenhand.dual.rows.DualRows`)."""

    def __init__(self, table: ScoredPartitions, layout: Layout, step: ParityStep, pool: MemoryRows) -> None:
        self._table, self._step, self._pool = table, step, pool
        self._add_up = partial(tasks.add_up, layout=layout, step=step, total_weight=table.total_weight)
        imbalance = ImbalanceModel.from_prior(step.group_prior, step.strata)
        self._mean = imbalance.kept_rows(table.group_mass()[None])[:, 0]
        self._constants: tuple[int, float, FloatArray] | None = None  # clipped rows, mean, second moment
        self._last: tuple[FloatArray, FloatArray, PolicyMoments] | None = None
        n_features = len(pool.design) - pool.n_kept
        self._whole = n_features <= MOST_WHOLE

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._table.n_rows

    @property
    def passes_are_cheap(self) -> bool:
        """Each is a round of the cluster."""
        return False

    @property
    def n_kept(self) -> int:
        """Number of imbalances in a row's column, which come first."""
        return self._pool.n_kept

    def moments(self, loadings: FloatArray, offset: FloatArray, *, whole: bool = False) -> PolicyMoments:
        """Moments of the kept imbalances; with `whole` also of the features, and last of a one."""
        if self._last is None or not _same_point(self._last, loadings, offset) or (whole and not self._whole):
            with_all = whole or self._whole
            ask = partial(tasks.ask_moments, loadings=loadings, offset=offset, whole=with_all)
            smooth, columns, peak = self._sum("moments", ask)
            self._last = loadings, offset, PolicyMoments(float(smooth), columns, float(peak))
        found = self._last[2]
        return found if whole else PolicyMoments(found.smooth, found.columns[: self.n_kept], found.peak)

    def mean_constant(self) -> float:
        """Mean of the cost that no atom changes."""
        return self._known_constants()[1]

    def second_moment(self) -> FloatArray:
        """`E[u u^T]` of the kept imbalances, (n_kept, n_kept)."""
        return self._known_constants()[2]

    def count_clipped(self) -> int:
        """Number of scores outside the bounds."""
        return self._known_constants()[0]

    def sample(self, size: int) -> "MemoryRows | PartitionedRows":
        """At least `size` rows on the driver, the same every time; all rows, where it is too many."""
        if self._pool.n_rows < size <= MOST_GATHERED:  # one pass more, for a Hessian that is good enough
            self._pool = self._step.rows(self._table.sample_rows(min(size, self.n_rows)))
        if size > max(self._pool.n_rows, MOST_GATHERED):
            return self
        return self._on_driver(size)

    def in_memory(self) -> MemoryRows:
        """All that is on the driver: the largest sample."""
        return self._on_driver(self._pool.n_rows)

    def _on_driver(self, size: int) -> MemoryRows:
        return sample_of_pool(self._pool, min(size, self._pool.n_rows), self._mean, self.n_rows)

    def _known_constants(self) -> tuple[int, float, FloatArray]:
        if self._constants is None:
            self._sum("constants", None)
        assert self._constants is not None
        return self._constants

    def _sum(self, name: str, ask: tasks.Ask | None) -> tasks.Sums:
        """The sums of `ask` over all rows in one pass; the first one brings the constants along."""
        first = self._constants is None
        asked = partial(tasks.ask_constants, also=ask) if first else ask
        total: tasks.Sums | None = None
        for part in self._table.run(name, partial(self._add_up, ask=asked)):
            total = tasks.add_sums(total, part)
        assert total is not None  # a table without rows was refused
        clipped, *rest = total
        if first:
            mean, second, *rest = rest
            self._constants = int(clipped), float(mean), second
        return tuple(rest)


def _same_point(
    last: tuple[FloatArray, FloatArray, PolicyMoments], loadings: FloatArray, offset: FloatArray
) -> bool:
    """Whether the logits differ by rounding at most."""
    return all(
        one.shape == other.shape and np.abs(one - other).max() <= SAME_POINT * np.abs(other).max()
        for one, other in zip(last[:2], (loadings, offset), strict=True)
    )
