"""Tables bigger than memory, as blocks of rows: files, Arrow datasets, and iterables of frames.

Blocks are counted from the first row of the table, whatever the chunks that it comes in: the same table
gives the same blocks from one file, from many, and from an iterator.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from evenhand._utils.optional import import_optional

Chunk: TypeAlias = Any  # a frame, an array, a sparse matrix, or a tuple of them with equally many rows

_IPC_SUFFIXES = {".arrow": "ipc", ".ipc": "ipc", ".feather": "ipc"}
_READ_ROWS = 32_768  # rows that a file gives at a time: a block is put together from whole ones


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A table to be read once from some row on."""

    chunks_from: Callable[[int], Iterator[Chunk]]
    n_rows: int | None  # None where it is known only at the end

    def blocks(self, block_rows: int, start: int = 0) -> Iterator[Chunk]:
        """Blocks of `block_rows` rows, the last one maybe shorter, from row `start` on."""
        waiting: list[Chunk] = []
        n_waiting = 0
        for chunk in self.chunks_from(start):
            taken = 0
            while n_waiting + count_rows(chunk) - taken >= block_rows:
                stop = taken + block_rows - n_waiting
                yield _join([*waiting, take_rows(chunk, taken, stop)])
                waiting, n_waiting, taken = [], 0, stop
            if taken < count_rows(chunk):
                waiting.append(take_rows(chunk, taken, count_rows(chunk)))
                n_waiting += count_rows(chunk) - taken
        if waiting:
            yield _join(waiting)


def open_source(source: Any, columns: Sequence[str] | None) -> Source:
    """A table that is a path, an Arrow dataset, a frame, an array, or an iterable of frames or arrays.

    Parameters
    ----------
    source
        A Parquet or Arrow IPC file, a folder of them, a `pyarrow.dataset.Dataset`, a frame of any library,
        an array, or an iterable of chunks. A folder is read in the order of its file names.
    columns : list of str or None
        What to read from files; None is every column.

    Examples
    --------
    >>> chunks = (np.arange(3 * i, 3 * i + 3)[:, None] for i in range(4))
    >>> [len(block) for block in open_source(chunks, None).blocks(5)]
    [5, 5, 2]
    """
    if isinstance(source, str | os.PathLike):
        return _open_dataset(_find_dataset(Path(source)), columns)
    if _is_dataset(source):
        return _open_dataset(source, columns)
    if _is_chunk(source):
        return Source(lambda start: _skip_rows([source], start), count_rows(source))
    if not isinstance(source, Iterable) or isinstance(source, bytes | dict):
        raise TypeError(
            "source must be the path of a Parquet or Arrow file or folder, a pyarrow dataset, a frame, or an "
            f"iterable of frames: got {type(source).__name__}."
        )
    return Source(lambda start: _skip_rows(source, start), None)


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


def _skip_rows(chunks: Iterable[Chunk], start: int) -> Iterator[Chunk]:
    """The chunks of an iterable without their first `start` rows, and without empty ones."""
    left = start
    for given in chunks:
        chunk = _readable(given)
        n_rows = count_rows(chunk)
        if n_rows > left:
            yield chunk if left == 0 else take_rows(chunk, left, n_rows)
        left = max(left - n_rows, 0)
    if left:
        raise _too_short(start - left, start)


def _too_short(n_rows: int, start: int) -> ValueError:
    return ValueError(f"The source has only {n_rows} rows, but {start} were read from it before.")


def _readable(chunk: Any) -> Chunk:
    """A chunk as one of the kinds that can be cut: what Arrow's readers give is not a frame yet."""
    if type(chunk).__name__ == "RecordBatch" and type(chunk).__module__.startswith("pyarrow"):
        return _pyarrow("pyarrow").Table.from_batches([chunk])
    if isinstance(chunk, list):
        return np.asarray(chunk)
    if isinstance(chunk, tuple):
        return tuple(_readable(part) for part in chunk)
    if not hasattr(chunk, "shape"):
        raise TypeError(f"A source gives frames, arrays or tuples of them: got a {type(chunk).__name__}.")
    return chunk


def _pyarrow(module: str) -> Any:
    return import_optional(module, extra="tables", purpose="Reading files of tables")


def _is_dataset(source: Any) -> bool:
    return type(source).__module__.startswith("pyarrow") and hasattr(source, "get_fragments")


def _find_dataset(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(f"There is no file or folder {path}.")
    names = path.rglob("*") if path.is_dir() else [path]
    kinds = {_IPC_SUFFIXES.get(name.suffix, "parquet") for name in names if _is_data(name)}
    if len(kinds) != 1:
        raise ValueError(
            f"{path} must hold files of one kind, Parquet or Arrow: got {sorted(kinds) or 'none'}."
        )
    return _pyarrow("pyarrow.dataset").dataset(path, format=kinds.pop(), partitioning="hive")


def _is_data(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((".", "_"))  # Arrow skips those too


def _open_dataset(dataset: Any, columns: Sequence[str] | None) -> Source:
    names = dataset.schema.names
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise ValueError(f"The table has no column {', '.join(missing)}. It has {', '.join(names)}.")
    wanted = None if columns is None else list(columns)
    _require_columns(dataset, names if wanted is None else wanted)
    return Source(lambda start: _read_dataset(dataset, wanted, start), int(dataset.count_rows()))


def _require_columns(dataset: Any, names: Sequence[str]) -> None:
    """Refuse a file without a column that is needed: Arrow would read gaps, which some models take."""
    keys_of = _pyarrow("pyarrow.dataset").get_partition_keys
    for fragment in dataset.get_fragments():
        own = {*fragment.physical_schema.names, *keys_of(fragment.partition_expression)}
        missing = [name for name in names if name not in own]
        if missing:
            path = getattr(fragment, "path", "a part of the table")
            raise ValueError(
                f"{path} has no column {', '.join(missing)}, which the table has elsewhere. Move it away, or "
                "give it that column."
            )


def _read_dataset(dataset: Any, columns: list[str] | None, start: int) -> Iterator[Chunk]:
    """Tables of a dataset from row `start` on; whole row groups before it are not read."""
    table = _pyarrow("pyarrow").Table
    n_before = 0
    for piece, n_rows in _pieces(dataset):
        n_before += n_rows
        if n_before <= start:
            continue
        batches = (table.from_batches([batch]) for batch in _scan(piece, dataset.schema, columns))
        yield from _skip_rows(batches, max(0, start - (n_before - n_rows)))
    if n_before < start:
        raise _too_short(n_before, start)


def _pieces(dataset: Any) -> Iterator[tuple[Any, int]]:
    """The row groups of Parquet files, one by one, other files as a whole, and their numbers of rows."""
    for fragment in sorted(dataset.get_fragments(), key=lambda fragment: getattr(fragment, "path", "")):
        groups = getattr(fragment, "row_groups", None)
        if groups is None:
            yield fragment, int(fragment.count_rows())
            continue
        for group in groups:
            yield fragment.subset(row_group_ids=[group.id]), int(group.num_rows)


def _scan(piece: Any, schema: Any, columns: list[str] | None) -> Iterator[Any]:
    # No read-ahead and no threads: one row group at a time bounds the memory.
    return iter(
        piece.to_batches(
            schema=schema,
            columns=columns,
            batch_size=_READ_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            cache_metadata=False,
        )
    )
