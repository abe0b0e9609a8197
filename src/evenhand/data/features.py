"""Represent rows of features as 64-bit words that do not depend on the type of the container.

A cell is a number (converted to float64), a date or time, a duration, text, bytes, or missing. The word of a
number is its bits, so zero is the word 0; other cells are hashed with the key. A word depends on the cell
only, not on the type of the column, which other rows can change.
"""

import datetime as dt
import numbers
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from evenhand._kernels.hashing import siphash_into
from evenhand._utils.missing import is_missing
from evenhand._utils.typing import AnyArray, FloatArray

WordArray: TypeAlias = NDArray[np.uint64]

MISSING = np.array(np.nan).view(np.uint64)[()]  # the word of None, NaN, NaT and NA
_MOMENT, _SPAN = b"t", b"d"  # prefixes of dates and durations; text starts with s and bytes with b
_PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}


class DenseTable:
    """Dense rows."""

    def __init__(self, n_rows: int, n_columns: int, read: Callable[[int, int, WordArray], WordArray]) -> None:
        self.n_rows, self.n_columns = n_rows, n_columns
        self._read = read

    def words(self, start: int, stop: int, key: WordArray) -> WordArray:
        """Return the words of the rows in `start : stop`, shape (stop - start, n_columns)."""
        return self._read(start, stop, key)


class SparseTable:
    """Rows of a sparse matrix."""

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise _not_a_table(matrix.shape)
        if matrix.dtype.kind not in "biuf":
            raise _unsupported(f"a sparse matrix of {matrix.dtype}")
        self._rows = csr_array(matrix)
        self.n_rows, self.n_columns = matrix.shape

    def words(self, start: int, stop: int) -> tuple[WordArray, NDArray[np.int64], NDArray[np.int64]]:
        """Return the stored words of the rows in `start : stop`, their columns, and the start of each row."""
        block = self._rows[start:stop].copy()
        block.sum_duplicates()  # also sorts the columns
        return (
            _number_words(block.data),
            block.indices.astype(np.int64),
            block.indptr.astype(np.int64),
        )


def read_table(X: Any) -> DenseTable | SparseTable:
    """Read X: an array, a list of rows, a data frame of any library, or a SciPy sparse matrix.

    >>> table = read_table([[1, "a"], [None, "b"]])
    >>> table.n_rows, table.n_columns
    (2, 2)
    """
    if issparse(X):
        return SparseTable(X)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _frame_table(frame)
    array = _as_array(X)
    if array.ndim != 2:
        raise _not_a_table(array.shape)
    n_rows, n_columns = array.shape

    def read(start: int, stop: int, key: WordArray) -> WordArray:
        block = array[start:stop]
        return _words(block.ravel(), key).reshape(block.shape)

    return DenseTable(n_rows, n_columns, read)


def _as_array(X: Any) -> AnyArray:
    """Convert X to an array without changing its cells; NumPy would turn [1, "a"] into two strings."""
    if hasattr(X, "dtype"):
        return np.asarray(X)
    try:
        cells = np.array(X, dtype=object)
        plain = np.asarray(X) if cells.ndim == 2 else cells
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"X cannot be read as a table of rows and columns: {error}") from error
    return plain if plain.dtype.kind in "biuf" else cells


def _frame_table(frame: nw.DataFrame[Any]) -> DenseTable:
    columns = [frame[:, j] for j in range(len(frame.columns))]

    def read(start: int, stop: int, key: WordArray) -> WordArray:
        words = np.empty((stop - start, len(columns)), np.uint64)
        for j, column in enumerate(columns):
            words[:, j] = _words(_cells(column[start:stop]), key)
        return words

    return DenseTable(len(frame), len(columns), read)


def _cells(column: nw.Series[Any]) -> AnyArray:
    """Return the values of a column; categories and decimals are converted to Python objects."""
    if column.dtype in (nw.Categorical, nw.Enum, nw.Decimal):
        return np.fromiter(column.to_list(), dtype=object, count=len(column))
    return np.asarray(column.to_numpy())


def _words(cells: AnyArray, key: WordArray) -> WordArray:
    """Return the words of cells of one dtype, (n_cells,)."""
    kind = cells.dtype.kind
    if kind in "biuf":
        return _number_words(cells)
    if kind in "Mm":
        words = _hash_all(_time_bytes(cells).tobytes(), 17 * np.arange(len(cells) + 1), key)
        words[np.isnat(cells)] = MISSING
        return words
    if kind in "OUST":
        return _object_words(cells.tolist(), key)
    raise _unsupported(f"values of type {cells.dtype}")


def _number_words(cells: AnyArray) -> WordArray:
    values: FloatArray = cells.astype(np.float64)  # a copy, even of float64
    values += 0.0  # removes negative zeros
    values[np.isnan(values)] = np.nan  # the same bits for all NaNs
    return values.view(np.uint64)


def _object_words(cells: Iterable[Any], key: WordArray) -> WordArray:
    """Return the words of Python values; each distinct value is hashed once because text often repeats."""
    places: dict[Any, int] = {}
    try:
        codes = np.fromiter((places.setdefault(cell, len(places)) for cell in cells), np.int64)
    except TypeError as error:  # not hashable: a list, an array, a dict
        raise _unsupported(str(error)) from error
    distinct = np.empty(len(places), np.uint64)
    messages: list[bytes] = []
    hashed: list[int] = []
    for cell, place in places.items():
        plain = _plain(cell)
        if isinstance(plain, bytes):
            messages.append(plain)
            hashed.append(place)
        else:
            distinct[place] = _number_words(np.array([plain]))[0]
    if messages:
        offsets = np.cumsum([0, *map(len, messages)])
        distinct[hashed] = _hash_all(b"".join(messages), offsets, key)
    return distinct[codes]


def _plain(cell: Any) -> float | bytes:
    """Return a float, NaN for missing values, or the bytes to hash."""
    if isinstance(cell, str):
        return b"s" + cell.encode("utf-8", "surrogatepass")
    if is_missing(cell):
        return float("nan")
    moment = _as_numpy_time(cell)
    if moment is not None:
        return _time_bytes(np.array([moment])).tobytes()
    if isinstance(cell, numbers.Real | Decimal | np.bool_):
        try:
            return float(cell)
        except OverflowError as error:
            raise _unsupported("a number beyond the range of float64") from error
    if isinstance(cell, bytes):
        return b"b" + cell
    if isinstance(cell, UUID):
        return b"s" + str(cell).encode()
    raise _unsupported(f"a value of type {type(cell).__name__}")


def _as_numpy_time(cell: Any) -> np.datetime64 | np.timedelta64 | None:
    """Return dates and durations as NumPy scalars, in UTC if they have a time zone; otherwise None."""
    for name in ("to_datetime64", "to_timedelta64"):  # pandas objects, with nanoseconds
        if hasattr(cell, name):
            converted: np.datetime64 | np.timedelta64 = getattr(cell, name)()
            return converted
    if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(cell, dt.date):
        return np.datetime64(cell)
    if isinstance(cell, dt.timedelta):
        return np.timedelta64(cell)
    return cell if isinstance(cell, np.datetime64 | np.timedelta64) else None


def _time_bytes(times: AnyArray) -> NDArray[np.uint8]:
    """Return kind, whole seconds and attoseconds of each time, (n, 17), independent of its unit."""
    kind = times.dtype.kind
    unit, _ = np.datetime_data(times.dtype)
    if unit == "generic" or (kind == "m" and unit in ("Y", "M")):
        raise _unsupported(f"values of type {times.dtype}, which has no length in seconds")
    block = np.zeros((len(times), 17), np.uint8)
    block[:, 0] = ord(_MOMENT if kind == "M" else _SPAN)
    if unit not in _PARTS:
        unit = "s"
    ticks = times.astype(f"{kind}8[{unit}]").view(np.int64)  # also converts units such as [10us]
    seconds, rest = np.divmod(ticks, _PARTS[unit])
    rest *= _PARTS["as"] // _PARTS[unit]
    block[:, 1:9] = seconds.astype("<i8")[:, None].view(np.uint8)
    block[:, 9:] = rest.astype("<i8")[:, None].view(np.uint8)
    return block


def _hash_all(data: bytes, offsets: NDArray[np.int64], key: WordArray) -> WordArray:
    words = np.empty(len(offsets) - 1, np.uint64)
    siphash_into(words, np.frombuffer(data, np.uint8), offsets, key[0], key[1], 0, len(words))
    return words


def _not_a_table(shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"X must have two dimensions, rows and columns: got shape {shape}.")


def _unsupported(what: str) -> ValueError:
    return ValueError(
        f"X has {what}, from which no random draw can be computed. Pass ids= to identify the rows, or "
        "convert the column to numbers or text."
    )
