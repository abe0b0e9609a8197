"""Partitions of a Spark frame: scored where they are, cached there, and asked for sums.

Only the frame's own methods are used (`mapInArrow`, `persist`, `collect`), so that it may be one of Spark
Connect too. What is cached are packets of a few kilobytes, each the numbers of some rows as bytes: Spark puts
up to ten thousand of its rows into one batch, and larger packets would make that too large. A lost executor's
partitions are scored again by Spark. Rows have no order here: a shuffle changes it.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from evenhand._kernels.chunks import set_num_threads
from evenhand._utils.typing import FloatArray
from evenhand.tables.numbers import BLOCK_ROWS
from evenhand.tables.partition_predictions import Predictor
from evenhand.tables.partition_tasks import Blocks, Failure, PartitionError, Scorer

T = TypeVar("T")

PACKET_BYTES = 4096
PACKETS = pa.schema([("numbers", pa.binary()), ("failure", pa.string())])
RESULTS = pa.schema([("number", pa.int64()), ("result", pa.binary())])


class SparkPartitions:
    """Scored partitions in Spark's cache, in memory and on the executors' disks."""

    ordered = False

    def __init__(self, frame: Any, scorer: Scorer) -> None:
        from pyspark import StorageLevel  # not above: workers that predict have no need of it

        self._width = scorer.layout.width
        scored = frame.mapInArrow(_Score(scorer), "numbers binary, failure string")
        self._cached = scored.persist(StorageLevel.MEMORY_AND_DISK)

    def run(self, task: Callable[[Blocks, int], T]) -> Sequence[T | Failure]:
        """Results of `task(blocks, number)` on every partition, in their order."""
        asked = self._cached.mapInArrow(_Apply(task, self._width), "number long, result binary")
        rows = sorted(asked.collect(), key=lambda row: row["number"])
        return [pickle.loads(row["result"]) for row in rows]

    def close(self) -> None:
        """Let the executors forget the partitions."""
        self._cached.unpersist()


def predict_frame(frame: Any, predictor: Predictor) -> Any:
    """A lazy Spark frame of kept columns and predictions."""
    from pyspark.sql.types import StructField, StructType

    kept = [field for field in frame.schema.fields if field.name in predictor.kept]
    kept.sort(key=lambda field: predictor.kept.index(field.name))
    schema = StructType([*kept, StructField(predictor.name, _spark_type(predictor), nullable=True)])
    return frame.mapInArrow(_Predict(predictor), schema)


class _Score:
    """From batches of the user's table to packets of numbers, or one row that says what is wrong."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _start()
        try:
            for block in self._scorer.blocks(_tables(batches), number):
                yield pa.record_batch([_packets(block), pa.nulls(_n_packets(block), pa.string())], PACKETS)
        except PartitionError as error:
            yield pa.record_batch([[None], [str(error)]], PACKETS)


class _Apply:
    """A task on the packets of a partition."""

    def __init__(self, task: Callable[[Blocks, int], Any], width: int) -> None:
        self._task, self._width = task, width

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _start()
        try:
            result = self._task(self._blocks(batches), number)
        except PartitionError as error:
            result = Failure(str(error))
        yield pa.record_batch([[number], [pickle.dumps(result)]], RESULTS)

    def _blocks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[FloatArray]:
        for batch in batches:
            failures = batch.column("failure").drop_null()
            if len(failures):
                raise PartitionError(failures[0].as_py())
            table = _unpack(batch.column("numbers"), self._width)
            for start in range(0, len(table), BLOCK_ROWS):
                yield table[start : start + BLOCK_ROWS]


class _Predict:
    """Kept columns and predictions of a partition."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept, name, number = self._predictor.kept, self._predictor.name, _start()
        for table, predictions in self._predictor.blocks(_tables(batches), number):
            column = pa.array(list(predictions) if predictions.ndim == 2 else predictions)
            yield from table.select(kept).append_column(name, column).to_batches()


def _start() -> int:
    """The number of the partition; executors run one Python process for each core, so one thread each."""
    from pyspark import TaskContext

    if "EVENHAND_NUM_THREADS" not in os.environ:
        set_num_threads(1)
    context = TaskContext.get()
    assert context is not None  # inside a task there is one
    return int(context.partitionId())


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches as tables of some ten thousand rows; Spark's own are cut by its settings."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= BLOCK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _packet_rows(width: int) -> int:
    return max(1, PACKET_BYTES // (8 * width))


def _n_packets(table: FloatArray) -> int:
    return -(-len(table) // _packet_rows(table.shape[1]))


def _packets(table: FloatArray) -> pa.Array:
    """A table of numbers as one packet of bytes for every few rows, without a copy of each."""
    size = 8 * table.shape[1]
    edges = np.minimum(np.arange(_n_packets(table) + 1) * _packet_rows(table.shape[1]), len(table)) * size
    buffers = [None, pa.py_buffer(edges.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(table))]
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, buffers)


def _unpack(packets: pa.Array, width: int) -> FloatArray:
    """The numbers of packets, which lie one after the other in the buffer of their array."""
    if not len(packets):
        return np.empty((0, width))
    _, edges, data = packets.buffers()
    offsets = np.frombuffer(edges, np.int32)[packets.offset : packets.offset + len(packets) + 1]
    numbers = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]].view(np.float64)
    return np.require(numbers.reshape(-1, width), requirements="A")


def _spark_type(predictor: Predictor) -> Any:
    """Spark's type of a prediction."""
    from pyspark.sql import types

    values = predictor.values()
    if values is None:
        return types.ArrayType(types.DoubleType())
    found = {"i": types.LongType, "u": types.LongType, "f": types.DoubleType, "b": types.BooleanType}
    return found.get(values.dtype.kind, types.StringType)()
