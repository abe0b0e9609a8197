"""Tables out: rows by rows, into a file that appears whole or not at all, or onto standard output."""

import errno
import gzip
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from evenhand._utils.atomic import whole_file
from evenhand.tables.formats import STANDARD, TableError, find_delimiter, find_format

Write = Callable[[pa.Table], None]


@contextmanager
def table_writer(path: str, format: str | None = None, delimiter: str | None = None) -> Iterator[Write]:
    """A function that writes the next rows; the first ones say what the columns are and hold."""
    kind, sign = find_format(path, format), find_delimiter(path, delimiter)
    with _destination(path, kind) as file, ExitStack() as stack:
        schema: pa.Schema = None
        writer: Any = None

        def write(table: pa.Table) -> None:
            nonlocal schema, writer
            if writer is None:
                schema = table.schema
                writer = stack.enter_context(_open(kind, file, schema, sign))
            writer.write_table(table.cast(schema))

        yield write


def write_frame(table: pa.Table, path: str, format: str | None = None) -> None:
    """Write a table that is there already."""
    with table_writer(path, format) as write:
        write(table)


def make_table(columns: Mapping[str, Any]) -> pa.Table:
    """An Arrow table of arrays; the rows of an array of two dimensions become lists."""
    return pa.table({name: _as_lists(values) for name, values in columns.items()})


def _as_lists(values: Any) -> Any:
    if not isinstance(values, np.ndarray) or values.ndim == 1:
        return values
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _open(kind: str, file: BinaryIO, schema: pa.Schema, delimiter: str) -> Any:
    if kind == "parquet":
        return pa.parquet.ParquetWriter(file, schema)
    if kind == "arrow":
        return pa.ipc.new_file(file, schema)
    return CsvWriter(file, schema, delimiter)


class CsvWriter:
    """Rows as CSV text with quotes only where a cell needs them, so that cells stay as they were read.

    pyarrow's own writer quotes all text or none, and the cells of a CSV file are text here, numbers too.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, delimiter: str) -> None:
        lists = [field.name for field in schema if pa.types.is_nested(field.type)]
        if lists:
            raise TableError(
                f"Column {lists[0]} holds lists, which a CSV file cannot: write a Parquet or Arrow file."
            )
        self._file, self._delimiter = file, delimiter
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
            lines = pc.binary_join_element_wise(*cells, self._delimiter)
            self._file.write(("\n".join(lines.to_pylist()) + "\n").encode())

    def _quoted(self, column: pa.Array) -> pa.Array:
        text = pc.fill_null(pc.cast(column, pa.string()), "")
        inside = pc.replace_substring(text, '"', '""')
        wrapped = pc.binary_join_element_wise('"', inside, '"', "")
        return pc.if_else(pc.match_substring_regex(text, self._special), wrapped, text)


@contextmanager
def _destination(path: str, kind: str) -> Iterator[BinaryIO]:
    """Where bytes go: standard output, or a file that appears at the end, packed where its name says so."""
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with whole_file(path) as file:
        if kind == "csv" and path.endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb") as packed:
                yield cast(BinaryIO, packed)
        else:
            yield file


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
