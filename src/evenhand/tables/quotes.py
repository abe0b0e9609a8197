"""Quotes in CSV files that join rows: one that is never closed, or only many rows further down.

A parser takes all that follows such a quote for the text of one cell, so that rows are lost without an error.
"""

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenhand._utils.warn import warn_user
from evenhand.exceptions import LongCellWarning
from evenhand.tables.formats import TableError

MOST_LINE_BREAKS = 20  # of an unremarkable cell: an address has fewer than 10, joined rows often hundreds
END = "\n\r\r\n\n\n\r\r\n\r\n\n\r"  # blank lines, mixed as no program writes them
REMEDY = 'Close it, or double each quote that is part of the text and quote the cell: "6"" pipe".'


class QuoteCheck:
    """A CSV file as the parser reads it, and a check of the rows that the parser found.

    The text ends with additional blank lines. The parser skips them, unless the file ends inside quotes: then
    they are the end of the last cell.
    """

    closed = False  # the parser asks

    def __init__(self, file: BinaryIO, path: str, name: str, delimiter: str) -> None:
        self._text: Any = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
        self._path, self._name, self._delimiter = path, name, delimiter
        self._n_rows = 0  # found so far, the header among them
        self._has_quotes = self._has_ended = self._has_warned = False

    def read(self, size: int) -> bytes:
        """The next bytes of the file, and at its end blank lines."""
        text: bytes = b"" if self._has_ended else self._text.read(size)
        self._has_quotes = self._has_quotes or b'"' in text
        if not self._has_ended and len(text) + len(END) <= size:
            self._has_ended = True
            text += END.encode()
        return text

    def check(self, batch: pa.RecordBatch) -> None:
        """Refuse the next rows where a quote has joined several of them."""
        first_row, self._n_rows = self._n_rows, self._n_rows + batch.num_rows
        if not self._has_quotes or not batch.num_rows:
            return
        if batch.column(batch.num_columns - 1)[-1].as_py().endswith(END):
            raise self._never_closed(self._find_open(), self._n_rows - 1)
        for column in batch.columns:
            self._check_line_breaks(column, batch.num_columns, first_row)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Errors of the parser that come from a quote, as errors about that quote."""
        try:
            yield
        except pa.ArrowInvalid as error:
            if not self._has_quotes:
                raise
            line = self._find_open()
            if line is not None or "Empty CSV" in str(error):  # no row ends, not even the header
                raise self._never_closed(line, self._n_rows) from error
            if "straddling" in str(error):  # a row of more bytes than a block
                raise self._too_long() from error
            raise

    def _check_line_breaks(self, column: pa.Array, n_columns: int, first_row: int) -> None:
        """Refuse a cell whose lines are rows of the table, and warn once of another one of many lines."""
        if not _may_have_long_cells(column, n_columns):
            return
        n_breaks = pc.max_element_wise(*(pc.count_substring(column, sign) for sign in "\n\r"))
        places = pc.indices_nonzero(pc.greater(n_breaks, MOST_LINE_BREAKS))
        cells, n_breaks = column.take(places), n_breaks.take(places)
        # Lines inside quotes hold no quote, so that rows among them have one delimiter between two columns.
        n_expected = pc.multiply(n_breaks, n_columns - 1)
        n_apart = pc.abs(pc.subtract(pc.count_substring(cells, self._delimiter), n_expected))
        is_rows = pc.and_(pc.less_equal(n_apart, n_columns - 1), n_columns > 1)
        for place, count, are_rows in zip(
            places.to_pylist(), n_breaks.to_pylist(), is_rows.to_pylist(), strict=True
        ):
            self._report(first_row + place, count, are_rows=are_rows)

    def _report(self, row: int, n_breaks: int, *, are_rows: bool) -> None:
        """Refuse a cell of many lines that are rows, and warn of the first one whose lines are not."""
        if are_rows:
            found = (line for line, count, _ in self._long_cells() if count == n_breaks)
            raise TableError(
                f"{self._name} has a quoted cell with {n_breaks} line breaks, whose lines are rows of the "
                f"table. A quote is missing or out of place in {_place(next(found, None), row)}. {REMEDY}"
            )
        if not self._has_warned:
            self._has_warned = True
            warn_user(
                f"{self._name} has a quoted cell of {n_breaks} line breaks in row {row}. If this is not one "
                "text, a quote is missing or out of place there, and rows are lost.",
                LongCellWarning,
            )

    def _never_closed(self, line: int | None, row: int) -> TableError:
        return TableError(
            f"{self._name} ends inside quotes: the quote that opens in {_place(line, row)} is never closed, "
            f"so that the rows below it would be lost. {REMEDY}"
        )

    def _too_long(self) -> TableError:
        line = max(((count, line) for line, count, _ in self._long_cells()), default=(0, None))[1]
        return TableError(
            f"{self._name} has a row that is too long to be read. The likely cause is a quote that is not "
            f"closed in {_place(line, self._n_rows)}. {REMEDY}"
        )

    def _find_open(self) -> int | None:
        """The line of the quote that is never closed, where there is one and the file can be read again."""
        return next((line for line, _, is_closed in self._long_cells() if not is_closed), None)

    def _long_cells(self) -> Iterator[tuple[int, int, bool]]:
        """The quoted cells of several lines, from another look at the file; none of a pipe."""
        if os.path.isfile(self._path):
            unpack: Any = gzip.open if self._path.endswith(".gz") else open
            with io.TextIOWrapper(unpack(self._path, "rb"), "utf-8-sig", errors="replace") as lines:
                yield from find_long_cells(lines, self._delimiter)


def _may_have_long_cells(column: pa.Array, n_columns: int) -> bool:
    """Whether a cell of the column may hold many lines: it is long enough, and line breaks are close enough.

    A row has at least as many signs as columns: delimiters, and a line break.
    """
    _, offsets, text = column.buffers()
    longest = np.diff(np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]).max()
    if longest < MOST_LINE_BREAKS * n_columns:
        return False
    places = np.flatnonzero(np.frombuffer(text, np.uint8) <= ord("\r"))  # "\n" and a few rare signs, too
    if len(places) <= MOST_LINE_BREAKS:
        return False
    return bool((places[MOST_LINE_BREAKS:] - places[:-MOST_LINE_BREAKS]).min() < longest)


def find_long_cells(lines: Iterator[str], delimiter: str) -> Iterator[tuple[int, int, bool]]:
    r"""Quoted cells of several lines: the line where each opens, its line breaks, and whether it is closed.

    >>> list(find_long_cells(iter(['a,"b\n', 'c","d"\n', 'e,"f\n', 'g']), ","))
    [(1, 1, True), (3, 1, False)]
    """
    opened = number = 0  # the line of the quote that is open, and of the text
    for number, line in enumerate(lines, 1):
        text, place = line if opened else delimiter + line, 0
        while True:
            if opened:
                place = text.find('"', place)
                if place < 0:
                    break
                if text.startswith('""', place):
                    place += 2
                    continue
                if number > opened:
                    yield opened, number - opened, True
                opened, place = 0, place + 1
            place = text.find(f'{delimiter}"', place)  # elsewhere in a cell, a quote is a sign like any other
            if place < 0:
                break
            opened, place = number, place + 2
    if opened:
        yield opened, number - opened, False


def _place(line: int | None, row: int) -> str:
    """Where something is: the line if it is known, otherwise the row of the table, counted from one."""
    if line is not None:
        return f"line {line}"
    return f"row {row}" if row else "the header"
