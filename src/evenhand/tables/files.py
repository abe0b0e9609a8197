"""Tables in: CSV, Parquet and Arrow, from files or standard input, whole or batch by batch.

Cells of a CSV file stay text until somebody asks for a kind: a type guessed from the first rows would change
ids such as 007, and could be wrong for the rows to come.
"""

import gzip
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from evenhand._utils.text import plain
from evenhand.tables.errors import TableError, TableOptionError

STANDARD = "-"  # stdin or stdout, in place of a path
FORMATS = ("csv", "parquet", "arrow")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
BATCH_ROWS = 65_536
BLOCK_BYTES = 2**20  # of CSV text in one batch, of which several are read ahead; no row may be longer
MOST_COLUMNS = 20_000  # of a CSV file

Advance = Callable[[float, float | None], None]  # done, total where it is known


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from."""

    path: str  # or "-"
    format: str
    delimiter: str = ","

    @classmethod
    def of(cls, path: str, format: str | None = None, delimiter: str | None = None) -> "Source":
        """The source that a path and its options name."""
        found = find_format(path, format)
        tabs = path.removesuffix(".gz").endswith(".tsv")
        delimiter = ("\t" if tabs else ",") if delimiter is None else delimiter.replace("\\t", "\t")
        if len(delimiter.encode()) != 1:
            raise TableOptionError(f"--delimiter must be one ASCII character: got {delimiter!r}.")
        return cls(path, found, delimiter)

    @property
    def name(self) -> str:
        """For messages."""
        return "standard input" if self.path == STANDARD else plain(self.path)


def find_format(path: str, given: str | None) -> str:
    """The format by its name, or by the suffix of the path; CSV for standard input and output."""
    if given is not None:
        if given not in FORMATS:
            raise TableOptionError(f"The format is one of {', '.join(FORMATS)}: got {given!r}.")
        return given
    if path == STANDARD:
        return "csv"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise TableOptionError(
            f"The name {plain(path)} does not tell its format: end it in {', '.join(SUFFIXES)}, or name the "
            "format with an option."
        )
    return SUFFIXES[suffix]


def read_table(source: Source) -> pa.Table:
    """All the rows."""
    return pa.concat_tables(read_batches(source))


def read_batches(source: Source, advance: Advance | None = None) -> Iterator[pa.Table]:
    """The rows, in batches of bounded size and at least one; each column has a name of its own."""
    readers = {"csv": _csv_batches, "parquet": _parquet_batches, "arrow": _arrow_batches}
    n_rows = 0
    with _opened(source) as file, _explained(source):
        for batch in readers[source.format](file, source, advance or ignore):
            if not n_rows:
                _require_names(batch.column_names, source)
            n_rows += batch.num_rows
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)
    if not n_rows:
        raise TableError(f"{source.name} has no rows.")


def ignore(done: float, total: float | None) -> None:
    """Nobody looks."""


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    if source.path == STANDARD:
        yield sys.stdin.buffer
        return
    with open(source.path, "rb") as file:
        yield file


@contextmanager
def _explained(source: Source) -> Iterator[None]:
    """Failures of the readers, as errors about the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise TableError(f"{source.name} is not UTF-8 text ({error.reason}): save it as UTF-8.") from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, gzip.BadGzipFile, EOFError) as error:
        words = plain(error)
        if "empty csv" in words.lower() or "file is too small" in words.lower():
            words = "it is empty"
        elif "utf8" in words.lower().replace("-", ""):
            words = "it is not UTF-8 text: save it as UTF-8"
        raise TableError(f"{source.name} cannot be read as {source.format}: {words}") from error


def _csv_batches(file: BinaryIO, source: Source, advance: Advance) -> Iterator[pa.Table]:
    total = _size(file)
    text: Any = gzip.GzipFile(fileobj=file) if source.path.endswith(".gz") else file
    # The header is read as a row, by the same parser as the others, since names may hold anything.
    names = [f"f{number}" for number in range(MOST_COLUMNS)]
    reader = pa.csv.open_csv(
        text,
        read_options=pa.csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK_BYTES),
        parse_options=pa.csv.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
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
        advance(file.tell() if total else 0, total)
        yield table.rename_columns(header)


def _parquet_batches(file: BinaryIO, source: Source, advance: Advance) -> Iterator[pa.Table]:
    reader = pa.parquet.ParquetFile(_seekable(file))
    total, done = reader.metadata.num_rows, 0
    for batch in reader.iter_batches(batch_size=BATCH_ROWS):
        done += batch.num_rows
        advance(done, total)
        yield pa.Table.from_batches([batch])


def _arrow_batches(file: BinaryIO, source: Source, advance: Advance) -> Iterator[pa.Table]:
    data = _seekable(file)
    is_file = data.read(6) == b"ARROW1"
    data.seek(0)
    if is_file:
        reader = pa.ipc.open_file(data)
        whole = (reader.get_batch(number) for number in range(reader.num_record_batches))
        total: int | None = reader.num_record_batches
    else:
        reader = pa.ipc.open_stream(data)
        whole, total = iter(reader), None
    for done, batch in enumerate(whole, 1):
        yield pa.Table.from_batches([batch])
        advance(done, total)


def _seekable(file: BinaryIO) -> BinaryIO:
    """The file, or all of a stream: these formats are read from their ends."""
    return file if file.seekable() else io.BytesIO(file.read())


def _size(file: BinaryIO) -> float | None:
    if not file.seekable():
        return None
    here = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(here)
    return float(size)


def _require_names(names: list[str], source: Source) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableError(
            f"{source.name} has more than one column named {', '.join(map(plain, twice))}: rename them."
        )
