"""Tables out: batch by batch, into a file that appears whole or not at all, or onto standard output."""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from evenhand._utils.atomic import whole_file
from evenhand.tables.files import STANDARD, find_format

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
            writers[0].write_table(table)

        yield write


def _open(kind: str, file: BinaryIO, schema: pa.Schema, delimiter: str) -> Any:
    if kind == "parquet":
        return pa.parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        return pa.ipc.new_file(file, schema)
    return CsvWriter(file, schema, delimiter)


class CsvWriter:
    """Rows as CSV text with quotes only where a cell needs them, so that cells stay as they were read.

    pyarrow's own writer quotes all text, and the cells of a CSV file are text here, numbers too.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, delimiter: str) -> None:
        self.file, self.delimiter = file, delimiter
        self._special = f'[\\n\\r"{re.escape(delimiter)}]'
        self.write_table(pa.table({name: [name] for name in schema.names}))

    def __enter__(self) -> "CsvWriter":
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to write."""

    def write_table(self, table: pa.Table) -> None:
        """The next rows."""
        if table.num_rows:
            cells = [self._quoted(column.combine_chunks()) for column in table.columns]
            lines = pc.binary_join_element_wise(*cells, self.delimiter)
            self.file.write(("\n".join(lines.to_pylist()) + "\n").encode())

    def _quoted(self, column: pa.Array) -> pa.Array:
        text = pc.fill_null(pc.cast(column, pa.string()), "")
        inside = pc.replace_substring(text, '"', '""')
        wrapped = pc.binary_join_element_wise('"', inside, '"', "")
        return pc.if_else(pc.match_substring_regex(text, self._special), wrapped, text)


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


def require_writable(*paths: str | None) -> None:
    """Refuse places that no file can be written to, before any work is done."""
    for path in paths:
        if path is None or path == STANDARD:
            continue
        folder = Path(os.path.realpath(path)).parent
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", os.fspath(folder))
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))
