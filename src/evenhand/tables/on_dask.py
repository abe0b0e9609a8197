"""Partitions of a Dask frame: scored where they are, kept there, and asked for sums.

Everything is a graph of Dask's, run by whatever scheduler is in charge: a lost worker's partitions are scored
again by the rest, and nothing but the time changes. Dask frames have an order, which their partitions keep.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from evenhand._utils.typing import FloatArray
from evenhand.tables.partition_predictions import Predictor
from evenhand.tables.partition_tasks import Blocks, Failure, PartitionError, Scorer, told

T = TypeVar("T")

LISTS = pd.ArrowDtype(pa.list_(pa.float64()))


class DaskPartitions:
    """Scored partitions in the memory of Dask's workers."""

    ordered = True

    def __init__(self, frame: Any, scorer: Scorer) -> None:
        self._sources = frame.to_delayed()
        of_all = dask.delayed(scorer, traverse=False)  # one node of the graph: shipped once to a worker
        score = dask.delayed(_score, pure=False)
        scored = [score(of_all, part, number) for number, part in enumerate(self._sources)]
        self._parts = self._blaming(lambda: dask.persist(*scored, traverse=False))

    def run(self, task: Callable[[Blocks, int], T]) -> Sequence[T | Failure]:
        """Results of `task(blocks, number)` on every partition, in their order."""
        shared, apply = dask.delayed(task, traverse=False), dask.delayed(_apply, pure=False)
        asked = [apply(shared, part, number) for number, part in enumerate(self._parts)]
        results: Sequence[T | Failure] = self._blaming(lambda: dask.compute(*asked, traverse=False))
        return results

    def close(self) -> None:
        """Let the workers forget the partitions."""
        self._parts = ()

    def _blaming(self, compute: Callable[[], Any]) -> Any:
        """What `compute` gives; an error in what the frame itself is made by names the partition."""
        try:
            return compute()
        except Exception as error:
            for number, part in enumerate(self._sources):
                try:
                    dask.compute(dask.delayed(_touch, pure=False)(part))
                except Exception as found:
                    raise PartitionError(f"Partition {number}: {told(found)}") from error
            raise


def predict_frame(frame: Any, predictor: Predictor) -> Any:
    """A lazy Dask frame of kept columns and predictions, with the partitions and the index of `frame`."""
    values = predictor.values()
    # Dask makes text of objects, so lists have a type of their own.
    empty = pd.Series([], dtype=LISTS if values is None else pd.Series(values).dtype)
    meta = frame._meta[predictor.kept].assign(**{predictor.name: empty})
    predict, of_all = dask.delayed(_predict, pure=False), dask.delayed(predictor, traverse=False)
    parts = [predict(of_all, part, number, meta) for number, part in enumerate(frame.to_delayed())]
    known = frame.divisions if len(frame.divisions) == len(parts) + 1 else (None,) * (len(parts) + 1)
    return dd.from_delayed(parts, meta=meta, divisions=known, verify_meta=False)


def _score(scorer: Scorer, part: Any, number: int) -> list[FloatArray] | Failure:
    try:
        return list(scorer.blocks([part], number))
    except PartitionError as error:
        return Failure(str(error))


def _apply(task: Callable[[Blocks, int], T], part: list[FloatArray] | Failure, number: int) -> T | Failure:
    return part if isinstance(part, Failure) else task(part, number)


def _touch(part: Any) -> None:
    """Nothing: to ask for it is to make the partition."""


def _predict(predictor: Predictor, part: Any, number: int, meta: Any) -> Any:
    """Kept columns and predictions of a partition."""
    found = []
    for block, predictions in predictor.blocks([part], number):
        values = list(predictions) if predictions.ndim == 2 else predictions
        column = pd.Series(values, index=block.index, dtype=meta[predictor.name].dtype)
        found.append(block[predictor.kept].assign(**{predictor.name: column}))
    return pd.concat(found) if found else meta
