"""CSV, Parquet and Arrow files, folders of them, and standard input as sources of Arrow tables."""

import errno
import gzip
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

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
from evenhand.tables.quotes import QuoteCheck
from evenhand.tables.sources import Source, skip_rows, too_short

BATCH_ROWS = 65_536  # most rows of a batch, and what a Parquet or Arrow file gives at a time
BLOCK_BYTES = 2**20  # of CSV text in one chunk, of which several are read ahead; no row may be longer
BUFFER_BYTES = 2**18  # of each column of a Parquet file, as it is packed
MOST_COLUMNS = 20_000  # of a CSV file
STAGE = "rows"  # what the progress of reading is called; it is told in bytes where nobody knows the rows

_DATASETS = {"parquet": ds.ParquetFileFormat(), "arrow": ds.IpcFileFormat()}
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow"}  # how files begin


def read_table(source: Source) -> pa.Table:
    """All the rows of a source of Arrow tables, at least one."""
    return pa.concat_tables(read_batches(source))


def read_batches(source: Source) -> Iterator[pa.Table]:
    """The rows of a source of Arrow tables in batches of bounded size, at least one row.

    Chunks of text are bounded in bytes, and stay as they are but for those of very many rows.
    """
    n_rows = 0
    for chunk in source.chunks_from(0) if source.is_text else source.blocks(BATCH_ROWS):
        n_rows += chunk.num_rows
        if not source.is_text:  # which tells its bytes where they are read
            report_progress(STAGE, n_rows, source.n_rows)
        for start in range(0, chunk.num_rows, BATCH_ROWS):
            yield chunk.slice(start, BATCH_ROWS)
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
    find_delimiter(path, delimiter)  # a bad one is refused whatever the format
    if path != STANDARD and not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", path)
    paths = _files_of(path)
    formats = sorted({_format_of(each, format) for each in paths})
    if len(formats) != 1:
        raise TableError(f"{plain(path)} must hold files of one format: got {', '.join(formats) or 'none'}.")
    name, kind = _name_of(path), formats[0]
    if kind == "csv":
        return Source(
            lambda start: skip_rows(_read_csv(paths, delimiter, columns, text), start), None, name, True
        )
    with _explained(name, kind):
        return _open_typed(path, kind, columns)


def open_dataset(dataset: ds.Dataset, columns: Sequence[str] | None, name: str = "The table") -> Source:
    """The table of a dataset, of which only the named columns are read."""
    wanted = dataset.schema.names if columns is None else list(columns)
    require_columns(dataset.schema.names, wanted)
    for fragment in dataset.get_fragments():
        own = {*fragment.physical_schema.names, *ds.get_partition_keys(fragment.partition_expression)}
        missing = [each for each in wanted if each not in own]
        if missing:  # Arrow would read gaps, which some models take
            raise TableError(
                f"{getattr(fragment, 'path', 'A part of the table')} has no column {', '.join(missing)}, "
                "which the table has elsewhere. Move it away, or give it that column."
            )
    return Source(
        lambda start: _explained_tables(_read_dataset(dataset, wanted, start), name, "a table"),
        int(dataset.count_rows()),
        name,
    )


def _open_typed(path: str, kind: str, columns: Sequence[str] | None) -> Source:
    """The table of a Parquet or Arrow file, of a folder of them, or of standard input."""
    format, name = _DATASETS[kind], _name_of(path)
    if os.path.isdir(path):
        return open_dataset(ds.dataset(path, format=format, partitioning="hive"), columns, name)
    if kind == "parquet" and os.path.isfile(path):
        return open_dataset(ds.dataset(path, format=format), columns, name)
    with _opened(path) as file:
        content = pa.OSFile(path) if os.path.isfile(path) else pa.BufferReader(file.read())
    fragment = format.make_fragment(content)
    if kind == "parquet":
        return open_dataset(ds.FileSystemDataset([fragment], fragment.physical_schema, format), columns, name)
    has_index = _MAGIC.get(content.read(6)) == kind  # which Arrow's format for streams has not
    tables = _read_arrow(content, has_index, columns, name)
    n_rows = int(fragment.count_rows()) if has_index else None
    return Source(lambda start: _explained_tables(skip_rows(tables, start), name, kind), n_rows, name)


def _read_arrow(
    file: pa.NativeFile, has_index: bool, columns: Sequence[str] | None, name: str
) -> Iterator[pa.Table]:
    """The batches of one Arrow file, one at a time: as a dataset, several would be in memory."""
    read = pa.ipc.open_file if has_index else pa.ipc.open_stream
    file.seek(0)
    names = read(file).schema.names
    fields = None if columns is None else [place for place, each in enumerate(names) if each in columns]
    file.seek(0)
    reader = read(file, options=pa.ipc.IpcReadOptions(included_fields=fields))
    batches = map(reader.get_batch, range(reader.num_record_batches)) if has_index else reader
    return (_select(_validated(batch), columns, name) for batch in batches)


def _validated(batch: pa.RecordBatch) -> pa.Table:
    """A batch as a table, refused where its lengths, offsets or text are unsound: Arrow trusts them."""
    batch.validate(full=True)
    return pa.Table.from_batches([batch])


def _read_dataset(dataset: ds.Dataset, columns: list[str], start: int) -> Iterator[pa.Table]:
    """Tables of a dataset from row `start` on, in the order of the names of its files."""
    schema = pa.schema([dataset.schema.field(name) for name in columns], dataset.schema.metadata)
    n_before = 0
    for fragment in sorted(dataset.get_fragments(), key=lambda fragment: getattr(fragment, "path", "")):
        left, n_rows = max(0, start - n_before), int(fragment.count_rows())
        n_before += n_rows
        if left < n_rows:
            yield from _read_fragment(fragment, schema, left)
    if n_before < start:
        raise too_short(n_before, start)


def _read_fragment(fragment: ds.Fragment, schema: pa.Schema, start: int) -> Iterator[pa.Table]:
    """Tables of one file from row `start` on, in bounded memory: nothing is read ahead.

    Row groups of Parquet files before that row are not read, and the others page by page: a dataset would
    hold each of them as a whole.
    """
    if getattr(fragment, "format", None) != _DATASETS["parquet"]:
        ahead = {"batch_readahead": 0, "fragment_readahead": 0}
        batches = fragment.to_batches(schema, columns=schema.names, batch_size=BATCH_ROWS, **ahead)
        yield from skip_rows(batches, start)
        return
    groups, n_before = fragment.row_groups, 0
    while n_before + groups[0].num_rows <= start:
        n_before += groups.pop(0).num_rows
    told = ds.get_partition_keys(fragment.partition_expression)  # by the names of folders
    batches = pq.ParquetFile(fragment.open(), pre_buffer=False, buffer_size=BUFFER_BYTES).iter_batches(
        BATCH_ROWS,
        row_groups=[group.id for group in groups],
        columns=[name for name in schema.names if name not in told],
        use_threads=False,
    )
    for chunk in skip_rows(batches, start - n_before):
        cells = [pa.repeat(told[name], len(chunk)) if name in told else chunk[name] for name in schema.names]
        yield pa.table(cells, schema.names).cast(schema)


def _read_csv(
    paths: list[str], delimiter: str | None, columns: Sequence[str] | None, text: Collection[str] | None
) -> Iterator[pa.Table]:
    """The rows of CSV files that are one table, chunk by chunk."""
    n_rows = n_bytes = n_read = 0
    total = sum(map(os.path.getsize, paths)) if all(map(os.path.isfile, paths)) else None
    for path in paths:
        name = _name_of(path)
        with _opened(path) as file, _explained(name, "csv"):
            for cells in _parse_csv(file, path, delimiter):
                table = _select(cells, columns, name)
                columns = table.column_names  # which every file must have
                if total:  # another thread reads ahead, so that a place may be told late
                    n_read = max(n_read, n_bytes + file.tell())
                report_progress(STAGE, n_read, total)
                yield table if text is None else _with_numbers(table, text, n_rows + 1)
                n_rows += table.num_rows
        n_bytes += os.path.getsize(path) if total else 0


def _parse_csv(file: BinaryIO, path: str, delimiter: str | None) -> Iterator[pa.Table]:
    """The rows of one CSV file, every cell as text."""
    # The header is read as a row, by the same parser as the others, since names may hold anything.
    names = [f"f{number}" for number in range(MOST_COLUMNS)]
    sign = find_delimiter(path, delimiter)
    quotes = QuoteCheck(file, path, _name_of(path), sign)
    header: list[str] = []
    with quotes.explaining():
        reader = pa.csv.open_csv(
            quotes,
            read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(delimiter=sign, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        for batch in reader:
            if batch.num_columns > MOST_COLUMNS:  # whose cells the parser has taken for what they look like
                raise TableError(
                    f"{_name_of(path)} has {batch.num_columns} columns: of a CSV file at most {MOST_COLUMNS} "
                    "are read. Write it as Parquet or Arrow, or leave columns out."
                )
            quotes.check(batch)
            table = pa.Table.from_batches([batch])
            if not header:
                cells = [column[0].as_py() for column in table.columns]
                header = [name or f"unnamed_{place}" for place, name in enumerate(cells, 1)]
                table = table.slice(1)
            yield table.rename_columns(header)


def _with_numbers(table: pa.Table, text: Collection[str], first_row: int) -> pa.Table:
    """The table with all columns as numbers but for those of text."""
    names = table.column_names
    try:
        return pa.table(
            {name: table[name] if name in text else as_numbers(table, name, first_row) for name in names}
        )
    except TableError as error:
        raise TableError(
            f"{error} Of CSV files models get numbers alone: give them text in a frame, or in a Parquet or "
            "Arrow file."
        ) from error


def _select(table: pa.Table, columns: Sequence[str] | None, name: str) -> pa.Table:
    """The named columns of a table in which every column has a name of its own."""
    twice = sorted(each for each, count in Counter(table.column_names).items() if count > 1)
    if twice:
        raise TableError(
            f"{name} has more than one column named {', '.join(map(plain, twice))}: rename them."
        )
    require_columns(table.column_names, columns or ())
    return table if columns is None else table.select(list(columns))


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
        with _opened(path) as file:
            head = file.read(6)
        given = _MAGIC.get(head) or _MAGIC.get(head[:4])
    return find_format(path, given)


def _name_of(path: str) -> str:
    return "standard input" if path == STANDARD else plain(path)


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if path == STANDARD else open(path, "rb")


def _explained_tables(tables: Iterator[pa.Table], name: str, kind: str) -> Iterator[pa.Table]:
    """The same tables; what fails while they are read is an error about the file."""
    with _explained(name, kind):
        yield from tables


@contextmanager
def _explained(name: str, kind: str) -> Iterator[None]:
    """Failures of the readers, as errors about the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(f"{name} is not UTF-8 text ({error.reason}): save it as UTF-8.") from error
    except (pa.ArrowException, gzip.BadGzipFile, EOFError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the system's word: no such file, no room, no right
            raise
        words = plain(error)
        if any(empty in words.lower() for empty in ("empty csv", "file is too small", "size is 0")):
            words = "it is empty"
        elif "utf8" in words.lower().replace("-", ""):
            words = "it is not UTF-8 text: save it as UTF-8"
        elif "Could not open" in words:  # the reason comes after the paths
            words = words.rpartition("': ")[2]
        raise TableError(f"{name} cannot be read as {kind}: {words}") from error
