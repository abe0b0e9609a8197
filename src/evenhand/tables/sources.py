"""A table of any kind as blocks of rows: files, Arrow datasets, frames, arrays, and iterables of these.

Blocks are counted from the first row of the table, whatever the chunks that it comes in: the same table
gives the same blocks from one file, from many, and from an iterator.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from evenhand._utils.optional import import_optional

SPARK, DASK = "spark", "dask"

Chunk: TypeAlias = Any  # a frame, an array, a sparse matrix, or a tuple of them with equally many rows


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table to be read once from some row on."""

    chunks_from: Callable[[int], Iterator[Chunk]]  # of any size, from that row on
    n_rows: int | None = None  # None where it is known only at the end
    name: str = "The table"  # in messages
    is_text: bool = False  # a CSV file, whose cells have no types

    def blocks(self, block_rows: int, start: int = 0, first_rows: int = 0) -> Iterator[Chunk]:
        """Blocks of `block_rows` rows, the last one maybe shorter, from row `start` on.

        The first one has `first_rows` rows instead, where that is given.
        """
        waiting: list[Chunk] = []
        n_waiting = 0
        wanted = first_rows or block_rows
        for chunk in self.chunks_from(start):
            taken = 0
            while n_waiting + count_rows(chunk) - taken >= wanted:
                stop = taken + wanted - n_waiting
                yield _join([*waiting, take_rows(chunk, taken, stop)])
                waiting, n_waiting, taken, wanted = [], 0, stop, block_rows
            if taken < count_rows(chunk):
                waiting.append(take_rows(chunk, taken, count_rows(chunk)))
                n_waiting += count_rows(chunk) - taken
        if waiting:
            yield _join(waiting)


def open_source(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    text: Collection[str] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
) -> Source:
    """A table that is a file, an Arrow dataset, a frame, an array, or an iterable of frames or arrays.

    Parameters
    ----------
    source
        The path of a CSV, Parquet or Arrow file, or of a folder of them, read in the order of their names;
        "-", standard input; a `pyarrow.dataset.Dataset`, a frame of any library, an array, or an iterable
        of chunks.
    columns : list of str or None
        What to read from files; None is every column.
    text : names, default=None
        Columns of CSV files whose cells stay text, while all others are numbers; None is every column. A
        type guessed from the first rows would change ids such as 007, and be wrong for the rows to come.
    format : {"csv", "parquet", "arrow"}, default=None
        Of a file; None is what its name tells.
    delimiter : str, default=None
        Of a CSV file; None is a comma, or a tab where the name ends in `.tsv`.

    Examples
    --------
    >>> chunks = (np.arange(3 * i, 3 * i + 3)[:, None] for i in range(4))
    >>> [len(block) for block in open_source(chunks).blocks(5)]
    [5, 5, 2]
    """
    is_path = isinstance(source, str | os.PathLike)
    if is_path or _is_dataset(source):
        import_optional("pyarrow", extra="tables", purpose="Reading files of tables")
        from evenhand.tables import files  # not above: Arrow is an extra

        if is_path:
            return files.open_path(os.fspath(source), columns, text, format, delimiter)
        return files.open_dataset(source, columns)
    if _is_chunk(source):
        return Source(lambda start: skip_rows([source], start), count_rows(source))
    if is_cluster_frame(source):
        raise TypeError("Frames of Spark and Dask are for fit_table and predict_table alone.")
    if not isinstance(source, Iterable) or isinstance(source, bytes | dict):
        raise TypeError(
            "source must be the path of a CSV, Parquet or Arrow file or folder, a pyarrow dataset, a frame, "
            f"or an iterable of frames: got {type(source).__name__}."
        )
    return Source(lambda start: skip_rows(source, start))


def cluster_of(source: Any) -> str | None:
    """The name of the library of a frame of Spark or Dask, None for all else; neither is imported.

    >>> cluster_of([1, 2]) is None
    True
    """
    for kind in type(source).__mro__:
        home = kind.__module__.split(".")
        if kind.__name__ == "DataFrame" and home[:2] == ["pyspark", "sql"]:
            return SPARK
        if kind.__name__ == "DataFrame" and home[0] in ("dask", "dask_expr"):
            return DASK
    return None


def is_cluster_frame(source: Any) -> bool:
    """Whether a table is a frame of Spark or Dask."""
    return cluster_of(source) is not None


@contextmanager
def blaming(start: int, stop: int) -> Iterator[None]:
    """Note on errors inside where in the table they come from."""
    try:
        yield
    except Exception as error:
        error.add_note(f"This is about rows {start} to {stop - 1} of the table.")
        raise


def check_size(block_rows: int) -> int:
    """The number of rows of a block, positive."""
    if isinstance(block_rows, bool) or not isinstance(block_rows, int) or block_rows < 1:
        raise ValueError(f"block_rows must be a positive integer: got {block_rows!r}.")
    return block_rows


def count_rows(chunk: Chunk) -> int:
    """Number of rows of a chunk; the parts of a tuple must agree."""
    if isinstance(chunk, tuple):
        lengths = {count_rows(part) for part in chunk}
        if len(lengths) != 1:
            raise ValueError(f"The parts of a chunk have different numbers of rows: {sorted(lengths)}.")
        return lengths.pop()
    return int(chunk.shape[0])


def take_rows(chunk: Chunk, start: int, stop: int) -> Chunk:
    """Rows `start` to `stop` of a chunk, of the same kind."""
    if isinstance(chunk, tuple):
        return tuple(take_rows(part, start, stop) for part in chunk)
    frame = nw.from_native(chunk, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame[start:stop].to_native()
    return chunk[start:stop]


def skip_rows(chunks: Iterable[Chunk], start: int) -> Iterator[Chunk]:
    """The chunks of an iterable without their first `start` rows, and without empty ones."""
    left = start
    for given in chunks:
        chunk = _readable(given)
        n_rows = count_rows(chunk)
        if n_rows > left:
            yield chunk if left == 0 else take_rows(chunk, left, n_rows)
        left = max(left - n_rows, 0)
    if left:
        raise too_short(start - left, start)


def too_short(n_rows: int, start: int) -> ValueError:
    """The error for a table that ends before the row to go on from."""
    return ValueError(f"The source has only {n_rows} rows, but {start} were read from it before.")


def _join(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    first = chunks[0]
    if isinstance(first, tuple):
        return tuple(_join(list(parts)) for parts in zip(*chunks, strict=True))
    frames = [
        nw.from_native(chunk, eager_only=True, allow_series=True, pass_through=True) for chunk in chunks
    ]
    if isinstance(frames[0], nw.DataFrame):
        return nw.concat(frames).to_native()
    if isinstance(frames[0], nw.Series):
        return np.concatenate([frame.to_numpy() for frame in frames])
    if scipy.sparse.issparse(first):
        return scipy.sparse.vstack(chunks, format="csr")
    return np.concatenate(chunks)


def _is_chunk(source: Any) -> bool:
    if isinstance(source, np.ndarray) or scipy.sparse.issparse(source):
        return True
    return nw.from_native(source, eager_only=True, pass_through=True) is not source


def _is_dataset(source: Any) -> bool:
    return type(source).__module__.startswith("pyarrow") and hasattr(source, "get_fragments")


def _readable(chunk: Any) -> Chunk:
    """A chunk as one of the kinds that can be cut: what Arrow's readers give is not a frame yet."""
    if type(chunk).__name__ == "RecordBatch" and type(chunk).__module__.startswith("pyarrow"):
        import pyarrow as pa  # which made the chunk

        return pa.Table.from_batches([chunk])
    if isinstance(chunk, list):
        return np.asarray(chunk)
    if isinstance(chunk, tuple):
        return tuple(_readable(part) for part in chunk)
    if not hasattr(chunk, "shape"):
        raise TypeError(f"A source gives frames, arrays or tuples of them: got a {type(chunk).__name__}.")
    return chunk
