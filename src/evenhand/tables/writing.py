"""Tables out: batch by batch, into a file that appears whole or not at all, or onto standard output."""

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

from evenhand._utils.atomic import is_written_directly, whole_file
from evenhand.tables.formats import STANDARD, TableError, find_delimiter, find_format

Write = Callable[[pa.Table], object]


@contextmanager
def table_writer(path: str, format: str | None = None, delimiter: str | None = None) -> Iterator[Write]:
    """A function that writes the next rows; the first ones say what the columns are and hold."""
    kind, sign = find_format(path, format), find_delimiter(path, delimiter)
    with _destination(path, kind) as file, ExitStack() as stack:
        schema: pa.Schema = None
        write_next: Write

        def write(table: pa.Table) -> None:
            nonlocal schema, write_next
            if schema is None:
                schema = table.schema
                write_next = _start(kind, file, schema, sign, stack)
            write_next(table.cast(schema))

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


def _start(kind: str, file: BinaryIO, schema: pa.Schema, delimiter: str, stack: ExitStack) -> Write:
    """What writes rows of a schema; the stack ends it."""
    if kind != "csv":
        make = pa.parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file
        write_table: Write = stack.enter_context(make(file, schema)).write_table
        return write_table
    lists = [field.name for field in schema if pa.types.is_nested(field.type)]
    if lists:
        raise TableError(
            f"Column {lists[0]} holds lists, which a CSV file cannot: write a Parquet or Arrow file."
        )
    file.write(csv_text(pa.table({name: [name] for name in schema.names}), delimiter))
    return lambda table: file.write(csv_text(table, delimiter))


def csv_text(table: pa.Table, delimiter: str) -> bytes:
    """Rows as CSV text with quotes only where a cell needs them, so that cells stay as they were read.

    pyarrow's own writer quotes all text or none, and the cells of a CSV file are text here, numbers too.
    """
    special = f'[\\n\\r"{re.escape(delimiter)}]'
    cells = []
    for column in table.columns:
        text = pc.fill_null(pc.cast(column.combine_chunks(), pa.string()), "")
        quoted = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
        cells.append(pc.if_else(pc.match_substring_regex(text, special), quoted, text))
    lines = pc.binary_join_element_wise(*cells, delimiter).to_pylist()
    return "\n".join([*lines, ""]).encode()


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
        if is_written_directly(path):
            continue  # a device or a pipe, which says itself who may write to it
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", os.fspath(folder))
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(folder))
