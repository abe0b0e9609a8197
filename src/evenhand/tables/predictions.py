"""Predictions for tables bigger than memory, block by block."""

import os
from collections.abc import Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, overload

import numpy as np

from evenhand._utils.atomic import remove_leftovers
from evenhand._utils.optional import import_optional
from evenhand._utils.progress import report_progress
from evenhand._utils.typing import AnyArray
from evenhand.tables.clusters import predict_partitions
from evenhand.tables.formats import suffix_format
from evenhand.tables.model_inputs import Model, TableReader, as_frame, make_reader, read_ids
from evenhand.tables.partition_predictions import Predictor
from evenhand.tables.progress import Reporter, showing
from evenhand.tables.sources import Chunk, Source, blaming, check_size, count_rows, is_cluster_frame

METHODS = ("predict", "predict_mode", "predict_mean", "predict_quantile", "predict_pmf", "predict_proba")
BLOCK_ROWS = 32_768  # with 201 atoms a block of distributions is 53 MB


def iter_predictions(
    model: Model,
    source: Any,
    *,
    method: str = "predict",
    columns: Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    group_proba: Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    ids: str | None = None,
    block_rows: int = BLOCK_ROWS,
    **options: Any,
) -> Iterator[AnyArray]:
    """Predictions of a table that need not fit in memory, one array for each block of rows, in order.

    Draws are those of `predict` on all rows at once: a row's draw depends on no other row.

    Parameters
    ----------
    model : fitted ParityPostprocessor or estimator
    source, columns, scores, group_proba, sensitive_features
        As in `fit_table`.
    method : str, default="predict"
        Which method of the model predicts: "predict", "predict_mean", "predict_quantile", "predict_pmf"; of
        a classifier "predict", "predict_mode", "predict_proba".
    ids : str, default=None
        Column that says who each row is; for "predict".
    block_rows : int, default=32768
    **options
        Further arguments of the method, such as `q`.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> from evenhand.tables import iter_predictions
    >>> data = make_population(1000, n_groups=2, random_state=0)
    >>> step = ParityPostprocessor(epsilon=0.05).fit(data.scores, data.group_proba)
    >>> chunks = ((data.scores[i : i + 400], data.group_proba[i : i + 400]) for i in range(0, 1000, 400))
    >>> together = np.concatenate(list(iter_predictions(step, chunks)))
    >>> bool((together == step.predict(data.scores, data.group_proba)).all())
    True
    """
    reader = make_reader(model, columns, scores, group_proba, sensitive_features)
    _check_method(model, method, ids)
    blocks = _predict_blocks(reader, reader.open(source, ids), check_size(block_rows), method, ids, options)
    return (predictions for _, predictions in blocks)


@overload
def predict_table(model: Model, source: Any, target: str | os.PathLike[str], **options: Any) -> int: ...


@overload
def predict_table(model: Model, source: Any, target: None = None, **options: Any) -> Any: ...


def predict_table(
    model: Model,
    source: Any,
    target: str | os.PathLike[str] | None = None,
    *,
    method: str = "predict",
    name: str = "prediction",
    keep: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    group_proba: Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    ids: str | None = None,
    block_rows: int = BLOCK_ROWS,
    progress: bool | Reporter | None = None,
    **options: Any,
) -> Any:
    """Write the predictions of a table to a file, block by block, and return the number of rows.

    Of a frame of Spark or Dask nothing is computed or written: what is returned is a lazy frame of the kept
    columns and the predictions, to be written or gone on with as any other (docs/how-to/clusters.md).

    The file appears whole or not at all: an error, Ctrl-C or a kill leaves what was at `target` before; the
    next call removes what a killed one left beside it. Draws are those of `predict` on all rows at once.

    Parameters
    ----------
    model : fitted ParityPostprocessor or estimator
    source, columns, scores, group_proba, sensitive_features, progress
        As in `fit_table`; the chunks of an iterable must be frames where columns are kept.
    target : path, default=None
        The file to write, in the format that its suffix tells: Parquet, Arrow or CSV; without one, Parquet.
        Frames of Spark and Dask need none.
    method : str, default="predict"
        Which method of the model predicts; "predict_pmf" gives a list of `n_atoms` numbers for each
        row, which CSV files cannot hold.
    name : str, default="prediction"
        The column of the predictions.
    keep : list of str, default=()
        Columns of the source to write beside them.
    ids : str, default=None
        Column that says who each row is, for "predict"; it is kept.
    block_rows : int, default=32768
        Rows that are predicted at a time: a row group of a Parquet file.
    **options
        Further arguments of the method, such as `q`.
    """
    reader = make_reader(model, columns, scores, group_proba, sensitive_features)
    _check_method(model, method, ids)
    kept = list(dict.fromkeys([*([] if ids is None else [ids]), *keep]))
    if name in kept:
        raise ValueError(f"The column {name!r} of the source is kept: give the predictions another name=.")
    if is_cluster_frame(source):
        _check_lazy(target, options)
        size = check_size(block_rows)
        return predict_partitions(Predictor(reader, method, name, kept, ids, options, size), source)
    if target is None:
        raise ValueError("predict_table writes a file: pass its path as target, or use iter_predictions.")
    import_optional("pyarrow", extra="tables", purpose="Writing files of tables")
    from evenhand.tables.writing import make_table, table_writer  # not above: Arrow is an extra

    table, path, n_rows = reader.open(source, *kept), os.fspath(target), 0
    blocks = _predict_blocks(reader, table, check_size(block_rows), method, ids, options)
    _require_other_file(source, path)
    remove_leftovers(path)
    with showing(progress), table_writer(path, suffix_format(path) or "parquet") as write:
        for block, predictions in blocks:
            write(make_table({**_kept_columns(block, kept), name: predictions}))
            n_rows += len(predictions)
            report_progress("predict", n_rows, table.n_rows)
        if n_rows == 0:
            raise ValueError("The table has no rows: give at least one.")
    return n_rows


def _predict_blocks(
    reader: TableReader, table: Source, size: int, method: str, ids: str | None, options: dict[str, Any]
) -> Iterator[tuple[Chunk, AnyArray]]:
    """Each block of a table with its predictions; an error says which rows it is about."""
    call, asked = getattr(reader.model, method), _continued(options)
    n_before = 0
    for block in table.blocks(size):
        n_after = n_before + count_rows(block)
        with blaming(n_before, n_after):
            if ids is not None:
                asked["ids"] = read_ids(block, ids, table.is_text, n_before + 1)
            predictions: AnyArray = call(*reader.arguments(block), **reader.keywords(block), **asked)
        yield block, predictions
        n_before = n_after


def _kept_columns(block: Chunk, names: list[str]) -> dict[str, Any]:
    """Columns of a block as Arrow takes them."""
    if not names:
        return {}
    table = as_frame(block).select(names).to_arrow()
    return {name: table.column(name) for name in names}


def _continued(options: dict[str, Any]) -> dict[str, Any]:
    """A copy of the options with a seed made a generator: fresh draws go on from block to block."""
    seed = options.get("random_state")
    going_on = {"random_state": np.random.default_rng(int(seed))} if isinstance(seed, Integral) else {}
    return {**options, **going_on}


def _require_other_file(source: Any, path: str) -> None:
    """Refuse to write over the table that is read."""
    if not isinstance(source, str | os.PathLike) or not os.path.exists(source) or not os.path.exists(path):
        return
    inside = os.path.isdir(source) and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source))
    if inside or os.path.samefile(source, path):
        raise ValueError(f"{path} is what the rows are read from, and would be lost: give another target.")


def _check_lazy(target: object, options: dict[str, Any]) -> None:
    """Refuse what a frame that is computed later, partition by partition, cannot do."""
    if target is not None:
        raise ValueError(
            "Predictions of a frame of Spark or Dask are a frame again: leave out target, and write what is "
            "returned with its own methods."
        )
    if options.get("random_state") is not None:
        raise ValueError(
            "random_state asks for fresh draws one after the other, and the rows of a cluster come in no "
            "order: leave it out, or pass ids=."
        )


def _check_method(model: Model, method: str, ids: str | None) -> None:
    known = [name for name in METHODS if hasattr(model, name)]
    if method not in known:
        raise ValueError(f"method must be one of {', '.join(known)}: got {method!r}.")
    if ids is not None and method != "predict":
        raise ValueError(f"ids= is for the draws of predict, and {method} draws nothing: use keep= for ids.")
