"""Columns of an Arrow table as arrays of what they mean: numbers, moments, texts, classes, groups, ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evenhand._utils.text import plain
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.tables.formats import TableError, require_columns

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")  # words of a CSV file
TRUE_AND_FALSE = {"true": 1.0, "false": 0.0}
PER_DAY = 86_400e6  # microseconds
BETWEEN = " / "  # of the values of several sensitive columns in the label of a group
LONGEST_ID = 15  # digits of an integer that every format can hold


def find_kind(column: pa.ChunkedArray) -> str:
    """The kind of a feature: "number", "moment", or "text" for all the rest."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return "moment"
    if pa.types.is_boolean(kind) or _is_number(kind) or pa.types.is_null(kind):
        return "number"
    if not _is_text(kind):
        return "text"
    filled = pc.drop_null(drop_missing(column))
    for candidate, parse in (("number", _parse_numbers), ("moment", _parse_moments)):
        try:
            parse(filled)
        except pa.ArrowInvalid:
            continue
        return candidate
    return "text"


def as_numbers(table: pa.Table, name: str, first_row: int = 1) -> FloatArray:
    """A column as float64 with NaN where a value is missing; infinite ones are refused."""
    column = find_column(table, name)
    try:
        parsed = _parse_numbers(drop_missing(column))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _not_a("number", name, column, _parse_numbers, first_row) from error
    values: FloatArray = np.asarray(parsed.to_numpy(), dtype=np.float64)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values))) + first_row
        raise TableError(
            f"Column {plain(name)} has an infinite value in row {row}: mend it, or drop the column."
        )
    return values


def as_moments(table: pa.Table, name: str, first_row: int = 1) -> FloatArray:
    """A column of dates or times as days since 1970, NaN where a value is missing."""
    column = find_column(table, name)
    try:
        parsed = _parse_moments(drop_missing(column))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _not_a("date", name, column, _parse_moments, first_row) from error
    return np.asarray(pc.cast(parsed, pa.float64(), safe=False).to_numpy(), dtype=np.float64) / PER_DAY


def as_texts(table: pa.Table, name: str, first_row: int = 1) -> AnyArray:
    """A column as text, None where a value is missing; 7 and 7.0 are both "7"."""
    column = drop_missing(find_column(table, name))
    if pa.types.is_floating(column.type):
        values = column.to_numpy()
        texts = [None if np.isnan(value) else f"{value:.15g}" for value in values.tolist()]
    else:
        try:
            texts = pc.cast(column, pa.string()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TableError(
                f"Column {plain(name)} holds {column.type}, which is neither number nor text: --drop it."
            ) from error
    out = np.empty(len(texts), dtype=object)
    out[:] = texts
    return out


def as_classes(table: pa.Table, name: str) -> AnyArray:
    """Classes as text, None where one is missing; the same cells are the same class in every format."""
    column = find_column(table, name)
    if not pa.types.is_boolean(column.type):
        try:
            numbers = pc.cast(drop_missing(column), pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        else:
            return as_texts(pa.table({name: numbers}), name)
    texts = as_texts(table, name)
    lower = [None if text is None else text.lower() for text in texts]
    if all(text is None or text in TRUE_AND_FALSE for text in lower):
        texts[:] = lower
    return texts


def as_groups(table: pa.Table, names: Sequence[str]) -> AnyArray:
    """The group of each row as text, None where it is missing; of several columns, their combination."""
    columns = [as_texts(table, name) for name in names]
    if len(columns) == 1:
        return columns[0]
    rows = list(zip(*columns, strict=True))
    labels = {row: BETWEEN.join(map(str, row)) for row in set(rows) if None not in row}
    if len(set(labels.values())) < len(labels):
        raise TableError(
            f"Two groups have the same label, since their values contain {BETWEEN!r}: rename them."
        )
    out = np.empty(len(rows), dtype=object)
    out[:] = [labels.get(row) for row in rows]
    return out


def as_ids(table: pa.Table, name: str, first_row: int = 1) -> list[Any]:
    """Who each row is; in CSV files, text that is an integer is one, so that all formats draw alike."""
    require_ids(table, name, first_row)
    column = find_column(table, name)
    values: list[Any] = column.to_pylist()
    return [_id(value) for value in values] if _is_text(column.type) else values


def require_ids(table: pa.Table, name: str, first_row: int = 1) -> None:
    """Refuse a column of ids in which some are missing."""
    fault = find_missing_ids(table, name, first_row)
    if fault is not None:
        raise TableError(
            f"{fault} Rows without an id would share one draw: fill in the ids, or leave that column out."
        )


def find_missing_ids(table: pa.Table, name: str, first_row: int = 1) -> str | None:
    """A sentence on the rows without an id, if there are any; the same cells are missing in all formats.

    >>> find_missing_ids(pa.table({"person": ["7", "", "NA"]}), "person")
    'Column person has no id in row 2 (rows without an id so far: 2; empty cells and words such as NA count).'
    """
    missing = pc.is_null(drop_missing(find_column(table, name)), nan_is_null=True)
    count = pc.sum(missing).as_py() or 0
    if not count:
        return None
    row = pc.index(missing, True).as_py() + first_row
    return (
        f"Column {plain(name)} has no id in row {row} (rows without an id so far: {count}; empty cells and "
        "words such as NA count)."
    )


def find_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column by its name, categories as their values."""
    require_columns(table.column_names, [name])
    column = table.column(name)
    return pc.cast(column, column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _id(text: str) -> int | str:
    is_integer = text.lstrip("-").isdecimal() and len(text) <= LONGEST_ID and str(int(text)) == text
    return int(text) if is_integer else text


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def drop_missing(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without spaces around it, and null where it is a word for missing."""
    if not _is_text(column.type):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    words = pa.array(MISSING, type=column.type)
    return pc.if_else(pc.is_in(trimmed, value_set=words), pa.scalar(None, column.type), trimmed)


def _parse_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if not _is_text(column.type):
        return pc.cast(column, pa.float64(), safe=False)
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        place = pc.index_in(pc.utf8_lower(column), value_set=pa.array(TRUE_AND_FALSE, type=column.type))
        if place.null_count > column.null_count:
            raise
        return pc.cast(pc.equal(place, 0), pa.int8()).cast(pa.float64())


def _parse_moments(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Microseconds since 1970."""
    if pa.types.is_time(column.type) or pa.types.is_duration(column.type):
        raise pa.ArrowNotImplementedError("a time of day or a duration is not a date")
    try:
        moments = pc.cast(column, pa.timestamp("us"), safe=False)
    except pa.ArrowInvalid:  # text with nine digits after the second
        moments = pc.cast(pc.cast(column, pa.timestamp("ns")), pa.timestamp("us"), safe=False)
    return pc.cast(moments, pa.int64())


def _not_a(kind: str, name: str, column: pa.ChunkedArray, parse: Any, first_row: int) -> TableError:
    """The error for the first cell that is not of the kind."""
    try:
        cells = drop_missing(column).to_pylist()
    except (OverflowError, ValueError):  # such as a duration that Python has no number for
        cells = []
    for row, cell in enumerate(cells, first_row):
        if cell is None:
            continue
        try:
            parse(pa.chunked_array([pa.array([cell])]))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
            return TableError(f"Column {plain(name)} must hold {kind}s: row {row} holds {plain(repr(cell))}.")
    return TableError(f"Column {plain(name)} must hold {kind}s: it holds {column.type}.")
