"""Frames of Spark and Dask: which they are, and the partitions and predictions that are made of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from evenhand._utils.optional import import_optional
from evenhand.tables.formats import require_columns
from evenhand.tables.model_inputs import TableReader
from evenhand.tables.partition_predictions import Predictor
from evenhand.tables.partition_tasks import Scorer
from evenhand.tables.partitions import Backend, ScoredPartitions
from evenhand.tables.sources import SPARK, cluster_of


@contextmanager
def open_partitions(reader: TableReader, frame: Any, sample_weight: str | None) -> Iterator[ScoredPartitions]:
    """The scored partitions of a frame, which the workers forget at the end."""
    layout = reader.layout()
    backend = _backend(_select(frame, reader.columns(sample_weight)), Scorer(reader, layout, sample_weight))
    try:
        yield ScoredPartitions(backend, layout)
    finally:
        backend.close()


def predict_partitions(predictor: Predictor, frame: Any) -> Any:
    """A lazy frame of kept columns and predictions."""
    selected = _select(frame, predictor.reader.columns(*predictor.kept))
    if cluster_of(frame) == SPARK:
        _need("pyarrow", SPARK)
        from evenhand.tables.on_spark import predict_frame  # not above: Arrow and Spark are extras

        return predict_frame(selected, predictor)
    from evenhand.tables.on_dask import predict_frame as predict_dask  # not above: Dask is an extra

    return predict_dask(selected, predictor)


def _backend(frame: Any, scorer: Scorer) -> Backend:
    if cluster_of(frame) == SPARK:
        _need("pyarrow", SPARK)
        from evenhand.tables.on_spark import SparkPartitions  # not above: Arrow and Spark are extras

        return SparkPartitions(frame, scorer)
    from evenhand.tables.on_dask import DaskPartitions  # not above: Dask is an extra

    return DaskPartitions(frame, scorer)


def _need(module: str, extra: str) -> None:
    import_optional(module, extra=extra, purpose=f"Frames of {extra.capitalize()}")


def _select(frame: Any, columns: Sequence[str] | None) -> Any:
    """The frame with some of its columns, or an error that names those that it lacks."""
    if columns is None:
        return frame
    require_columns(list(frame.columns), columns, where="The table has")
    return frame.select(*[f"`{name}`" for name in columns]) if cluster_of(frame) == SPARK else frame[columns]
