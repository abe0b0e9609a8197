"""CSV, Parquet and Arrow files, folders of them, and standard input as sources of Arrow tables."""

import errno
import gzip
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds

from evenhand._utils.progress import report_progress
from evenhand._utils.text import plain
from evenhand.tables.columns import as_numbers
from evenhand.tables.formats import (
    STANDARD,
    TableError,
    find_delimiter,
    find_format,
    require_columns,
    suffix_format,
)
from evenhand.tables.sources import Source, skip_rows, too_short

BATCH_ROWS = 65_536  # most rows of a batch
READ_ROWS = 32_768  # rows that a Parquet or Arrow file gives at a time
BLOCK_BYTES = 2**20  # of CSV text in one chunk, of which several are read ahead; no row may be longer
MOST_COLUMNS = 20_000  # of a CSV file
STAGE = "rows"  # what the progress of reading is called; it is told in bytes where nobody knows the rows

_DATASET_FORMATS = {"parquet": ds.ParquetFileFormat, "arrow": ds.IpcFileFormat}
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow"}  # how files begin whose names do not tell their format


def read_table(source: Source) -> pa.Table:
    """All the rows of a source of Arrow tables, at least one."""
    return pa.concat_tables(read_batches(source))


def read_batches(source: Source) -> Iterator[pa.Table]:
    """The rows of a source of Arrow tables in batches of bounded size, at least one row."""
    n_rows = 0
    for chunk in source.chunks_from(0):
        for start in range(0, chunk.num_rows, BATCH_ROWS):
            yield chunk.slice(start, BATCH_ROWS)
        n_rows += chunk.num_rows
    if not n_rows:
        raise TableError(f"{source.name} has no rows.")


def open_path(
    path: str,
    columns: Sequence[str] | None,
    text: Collection[str] | None,
    format: str | None,
    delimiter: str | None,
) -> Source:
    """The table of a file, of all files of a folder, or of standard input; `open_source` says how."""
    sign = find_delimiter(path, delimiter)
    if path != STANDARD and not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", path)
    paths = _files_of(path)
    formats = sorted({_format_of(each, format) for each in paths})
    if len(formats) != 1:
        raise TableError(f"{plain(path)} must hold files of one format: got {', '.join(formats) or 'none'}.")
    name, kind = _name_of(path), formats[0]
    with _explained(name, kind):
        if kind == "csv":
            files = _CsvFiles(paths, sign, columns, text)
            opened = Source(lambda start: skip_rows(files.tables(), start), is_text=True)
        else:
            opened = _open_typed(path, kind, columns)

    def chunks_from(start: int) -> Iterator[pa.Table]:
        with _explained(name, kind):
            yield from opened.chunks_from(start)

    return replace(opened, chunks_from=chunks_from, name=name)


def open_dataset(dataset: ds.Dataset, columns: Sequence[str] | None) -> Source:
    """The table of a dataset, of which only the named columns are read, one row group at a time."""
    names = dataset.schema.names
    wanted = None if columns is None else list(columns)
    require_columns(names, wanted or ())
    _require_in_each_file(dataset, names if wanted is None else wanted)
    return Source(lambda start: _read_dataset(dataset, wanted, start), int(dataset.count_rows()))


@dataclass(frozen=True, slots=True)
class _CsvFiles:
    """CSV files that are one table."""

    paths: list[str]
    delimiter: str
    columns: Sequence[str] | None  # None: those of the first file
    text: Collection[str] | None  # columns that are no numbers; None: all

    def tables(self) -> Iterator[pa.Table]:
        """The rows of every file, chunk by chunk."""
        wanted, n_rows, n_bytes = self.columns, 0, 0
        sizes = [_size_of(path) for path in self.paths]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        for path, size in zip(self.paths, sizes, strict=True):
            with _opened(path) as file, _explained(_name_of(path), "csv"):
                for chunk in self._parse(file, path):
                    table = _select(chunk, wanted, _name_of(path))
                    wanted = table.column_names
                    report_progress(STAGE, n_bytes + file.tell() if total else 0, total)
                    yield self._with_numbers(table, n_rows + 1)
                    n_rows += chunk.num_rows
            n_bytes += size or 0

    def _parse(self, file: BinaryIO, path: str) -> Iterator[pa.Table]:
        """The rows of one file, every cell as text."""
        content: Any = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
        # The header is read as a row, by the same parser as the others, since names may hold anything.
        names = [f"f{number}" for number in range(MOST_COLUMNS)]
        reader = pa.csv.open_csv(
            content,
            read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        header: list[str] | None = None
        for batch in reader:
            table = pa.Table.from_batches([batch])
            if header is None:
                cells = [column[0].as_py() for column in table.columns]
                header = [name or f"unnamed_{place}" for place, name in enumerate(cells, 1)]
                table = table.slice(1)
            yield table.rename_columns(header)

    def _with_numbers(self, table: pa.Table, first_row: int) -> pa.Table:
        for place, name in enumerate(table.column_names if self.text is not None else ()):
            if name in (self.text or ()):
                continue
            try:
                numbers = as_numbers(table, name, first_row)
            except TableError as error:
                raise TableError(
                    f"{error} Of CSV files models get numbers alone: give them text in a frame, or in a "
                    "Parquet or Arrow file."
                ) from error
            table = table.set_column(place, name, pa.array(numbers))
        return table


def _open_typed(path: str, kind: str, columns: Sequence[str] | None) -> Source:
    """The table of a Parquet or Arrow file, of a folder of them, or of a stream."""
    if os.path.isdir(path):
        return open_dataset(ds.dataset(path, format=kind, partitioning="hive"), columns)
    file = _random_access(path)
    if kind == "arrow" and _MAGIC.get(file.read(6)) != kind:
        return Source(lambda start: skip_rows(_read_stream(file, columns, _name_of(path)), start))
    if not _is_stream(path):
        return open_dataset(ds.dataset(path, format=kind), columns)
    format = _DATASET_FORMATS[kind]()
    fragment = format.make_fragment(file)
    return open_dataset(ds.FileSystemDataset([fragment], fragment.physical_schema, format), columns)


def _read_stream(file: pa.NativeFile, columns: Sequence[str] | None, name: str) -> Iterator[pa.Table]:
    """The tables of Arrow's format for streams, which has no index at its end."""
    file.seek(0)
    n_rows = 0
    for batch in pa.ipc.open_stream(file):
        n_rows += batch.num_rows
        report_progress(STAGE, n_rows)
        yield _select(pa.Table.from_batches([batch]), columns, name)


def _read_dataset(dataset: ds.Dataset, columns: list[str] | None, start: int) -> Iterator[pa.Table]:
    """Tables of a dataset from row `start` on; whole row groups before it are not read."""
    n_before, n_total = 0, int(dataset.count_rows())
    for piece, n_rows in _pieces(dataset):
        n_before += n_rows
        if n_before <= start:
            continue
        n_read = n_before - n_rows
        batches = (pa.Table.from_batches([batch]) for batch in _scan(piece, dataset.schema, columns))
        for table in skip_rows(batches, max(0, start - n_read)):
            n_read += table.num_rows
            report_progress(STAGE, n_read, n_total)
            yield table
    if n_before < start:
        raise too_short(n_before, start)


def _pieces(dataset: ds.Dataset) -> Iterator[tuple[ds.Fragment, int]]:
    """The row groups of Parquet files, one by one, other files as a whole, and their numbers of rows."""
    for fragment in sorted(dataset.get_fragments(), key=lambda fragment: getattr(fragment, "path", "")):
        groups = getattr(fragment, "row_groups", None)
        if groups is None:
            yield fragment, int(fragment.count_rows())
            continue
        for group in groups:
            yield fragment.subset(row_group_ids=[group.id]), int(group.num_rows)


def _scan(piece: ds.Fragment, schema: pa.Schema, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    # No read-ahead and no threads: one row group at a time bounds the memory.
    return iter(
        piece.to_batches(
            schema=schema,
            columns=columns,
            batch_size=READ_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
            cache_metadata=False,
        )
    )


def _require_in_each_file(dataset: ds.Dataset, names: Sequence[str]) -> None:
    """Refuse a file without a column that is needed: Arrow would read gaps, which some models take."""
    for fragment in dataset.get_fragments():
        own = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
        missing = [name for name in names if name not in own]
        if missing:
            path = getattr(fragment, "path", "a part of the table")
            raise TableError(
                f"{path} has no column {', '.join(missing)}, which the table has elsewhere. Move it away, or "
                "give it that column."
            )


def _select(table: pa.Table, columns: Sequence[str] | None, name: str) -> pa.Table:
    """The named columns of a table in which every column has a name of its own."""
    twice = sorted(each for each, count in Counter(table.column_names).items() if count > 1)
    if twice:
        raise TableError(
            f"{name} has more than one column named {', '.join(map(plain, twice))}: rename them."
        )
    if columns is None:
        return table
    require_columns(table.column_names, columns)
    return table.select(list(columns))


def _files_of(path: str) -> list[str]:
    """The file, or the files of a folder in the order of their names; hidden ones are not data."""
    if not os.path.isdir(path):
        return [path]
    names = (each.relative_to(path) for each in Path(path).rglob("*") if each.is_file())
    seen = (name for name in names if not any(part.startswith((".", "_")) for part in name.parts))
    return sorted(os.path.join(path, name) for name in seen)


def _format_of(path: str, given: str | None) -> str:
    """The format by its name, by the suffix of the path, or by how the file begins."""
    if given is None and suffix_format(path) is None and os.path.isfile(path):
        with open(path, "rb") as file:
            head = file.read(6)
        given = next((kind for start, kind in _MAGIC.items() if head.startswith(start)), None)
    return find_format(path, given)


def _name_of(path: str) -> str:
    return "standard input" if path == STANDARD else plain(path)


def _is_stream(path: str) -> bool:
    """Whether a path can be read only once: standard input, or a pipe with a name."""
    return path == STANDARD or not os.path.isfile(path)


def _size_of(path: str) -> int | None:
    """Bytes of a file; None where that is known only at the end."""
    if path != STANDARD:
        return None if _is_stream(path) else os.path.getsize(path)
    if not sys.stdin.buffer.seekable():
        return None
    here = sys.stdin.buffer.tell()
    size = sys.stdin.buffer.seek(0, os.SEEK_END)
    sys.stdin.buffer.seek(here)
    return size


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == STANDARD:
        yield sys.stdin.buffer
        return
    with open(path, "rb") as file:
        yield file


def _random_access(path: str) -> pa.NativeFile:
    """The file, or all of a stream that cannot be sought in: typed formats are read from their ends."""
    if not _is_stream(path):
        return pa.OSFile(path)
    if path == STANDARD and sys.stdin.buffer.seekable():
        return pa.PythonFile(sys.stdin.buffer, "r")
    with _opened(path) as file:
        return pa.BufferReader(file.read())


@contextmanager
def _explained(name: str, kind: str) -> Iterator[None]:
    """Failures of the readers, as errors about the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text ({error.reason}): save it as UTF-8.") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, gzip.BadGzipFile, EOFError) as error:
        raise TableError(f"{name} cannot be read as {kind}: {_plain_reason(plain(error))}") from error


def _plain_reason(words: str) -> str:
    """What Arrow says is wrong with a file, in fewer words."""
    lower = words.lower()
    if any(empty in lower for empty in ("empty csv", "file is too small", "size is 0")):
        return "it is empty"
    if "utf8" in lower.replace("-", ""):
        return "it is not UTF-8 text: save it as UTF-8"
    if "duplicate field names" in lower:
        return "two of its columns have the same name: rename one"
    return words.rpartition("': ")[2] if "could not open" in lower else words  # without the paths in between
