"""Tables out: batch by batch, into a file that appears whole or not at all, or onto standard output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from evenhand._atomic import whole_file
from evenhand.cli.tables import STANDARD, find_format

Write = Callable[[pa.Table], None]


@contextmanager
def table_writer(path: str, format: str | None = None, delimiter: str = ",") -> Iterator[Write]:
    """A function that writes the next rows; the first ones say what the columns are."""
    kind = find_format(path, format)
    writers: list[Any] = []
    with _destination(path) as file, ExitStack() as stack:

        def write(table: pa.Table) -> None:
            if not writers:
                writers.append(stack.enter_context(_open(kind, file, table.schema, delimiter)))
            writers[0].write_table(table.cast(writers[0].schema if kind == "parquet" else table.schema))

        yield write


def _open(kind: str, file: BinaryIO, schema: pa.Schema, delimiter: str) -> Any:
    if kind == "parquet":
        return pa.parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        return pa.ipc.new_file(file, schema)
    options = pa.csv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    return pa.csv.CSVWriter(file, schema, write_options=options)


@contextmanager
def _destination(path: str) -> Iterator[BinaryIO]:
    if path != STANDARD:
        with whole_file(path) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def write_frame(table: pa.Table, path: str, format: str | None = None) -> None:
    """A table that is there already."""
    with table_writer(path, format) as write:
        write(table)
