"""Uniform numbers for random draws: a keyed hash of each row, so that the same row gets the same draw.

The number of a row does not depend on batch, order, process or machine. Without the key nobody can predict a
draw, or search for features with a favorable draw: pass an integer `random_state` and keep it secret.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from uuid import UUID

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from evenhand._kernels.chunks import run_chunks
from evenhand._kernels.hashing import siphash_cells_into, siphash_into, siphash_sparse_into
from evenhand._utils.missing import without_mask
from evenhand._utils.scalars import is_whole
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.data.features import DenseTable, read_table

HashArray: TypeAlias = NDArray[np.uint64]
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None

DEFAULT_KEY = b"evenhand draws 1"  # public on purpose, so that draws are reproducible by default
GRID = 2.0**20  # cells per unit; see `uniforms_from_rows`

ROW_TAG, _TABLE_TAG = ord("r"), ord("c")  # ids start with i, I, s, b or f, so messages are unambiguous


def key_from(random_state: RandomState) -> HashArray:
    """Return the 128-bit key of a `random_state`, shape (2,).

    None is a fixed public key. An integer is expanded by `numpy.random.SeedSequence`, whose output is stable
    between versions of NumPy. A generator provides two words of its stream.

    >>> key_from(7).dtype, bool((key_from(7) == key_from(7)).all())
    (dtype('uint64'), True)
    """
    if random_state is None:
        return np.frombuffer(DEFAULT_KEY, "<u8").astype(np.uint64)
    if is_whole(random_state):
        words = np.random.SeedSequence(_check_seed(random_state)).generate_state(2, np.uint64)
        return words.astype(np.uint64)
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(0, 2**64, size=2, dtype=np.uint64)
    if isinstance(random_state, np.random.RandomState):
        return np.frombuffer(random_state.bytes(16), "<u8").astype(np.uint64)
    raise _unknown_random_state(random_state)


def uniforms_from_rows(scores: FloatArray, group_proba: FloatArray, key: HashArray) -> FloatArray:
    """Return a uniform number in (0, 1) for each row, hashed from its score and group probabilities.

    The output of a model for the same features can differ in the last bits with the size of the batch (BLAS).
    So scores, on the normalized scale, and probabilities are first rounded to multiples of 2^-20. Rounding
    errors of 1e-15 then change about one value in 10^9. Rounding errors of float32 models (1e-7) change
    about one value in ten: pass `ids` for such models. Rows with the same rounded values share one draw:
    each draw follows the policy, but the draws are not independent.

    Parameters
    ----------
    scores : array of shape (n_rows,) or (n_rows, n_classes)
        Scores on the normalized scale of the grid, or class probabilities.
    group_proba : array of shape (n_rows, n_groups)
        Group probabilities.
    key : array of shape (2,)
        Key from `key_from`.

    Returns
    -------
    uniforms : array of shape (n_rows,)
        A number in (0, 1) for each row.
    """

    def words(start: int, stop: int) -> FloatArray:
        cells = np.column_stack([scores[start:stop], group_proba[start:stop]])
        with np.errstate(over="ignore"):  # scores that overflow are in the same cell
            return np.rint(cells * GRID)

    width = (1 if scores.ndim == 1 else scores.shape[1]) + group_proba.shape[1]
    return _to_uniforms(_hash_words(words, len(scores), width, ROW_TAG, key))


def uniforms_from_table(X: Any, key: HashArray) -> FloatArray:
    """Return a uniform number in (0, 1) for each row of features, the same for any container.

    The number depends on the value and the position of each cell. Numbers are converted to float64 (3 equals
    3.0, True equals 1, -0.0 equals 0.0). Categories are represented by their values, and dates and times by
    the instant in UTC (a date is its midnight). All missing values are equal. Column names are ignored. The
    number of a row does not depend on other rows: if a column becomes float because another row has a
    missing value, nothing changes.

    Parameters
    ----------
    X : array, list of rows, data frame or sparse matrix of shape (n_rows, n_features)
        Features.
    key : array of shape (2,)
        Key from `key_from`.

    Returns
    -------
    uniforms : array of shape (n_rows,)
        A number in (0, 1) for each row.

    Examples
    --------
    >>> in_an_array = uniforms_from_table(np.array([[1.0, 0.0], [2.0, np.nan]]), key_from(0))
    >>> in_a_list = uniforms_from_table([[True, 0], [2, None]], key_from(0))
    >>> in_an_array == in_a_list
    array([ True,  True])
    """
    table = read_table(X)
    head = np.uint64(_TABLE_TAG | table.n_columns << 8)  # rows of different widths get different hashes
    out = np.empty(table.n_rows, np.uint64)

    def run(start: int, stop: int) -> None:
        if isinstance(table, DenseTable):
            siphash_cells_into(out[start:stop], table.words(start, stop, key), head, key[0], key[1])
        else:
            siphash_sparse_into(out[start:stop], *table.words(start, stop), head, key[0], key[1])

    run_chunks(run, table.n_rows, 8 * table.n_columns)
    return _to_uniforms(out)


def uniforms_from_ids(ids: Any, key: HashArray) -> FloatArray:
    """Return a uniform number in (0, 1) for each id, the same for any container.

    Ids are integers, strings, bytes, UUIDs or floats, in lists, NumPy arrays or series of any data frame
    library. Whole floats count as integers, because a missing value elsewhere in a column turns integers
    into floats.

    >>> in_a_list = uniforms_from_ids([17, 4], key_from(0))
    >>> in_an_array = uniforms_from_ids(np.array([4, 17], dtype=np.uint8), key_from(0))
    >>> in_a_list == in_an_array[::-1]
    array([ True,  True])
    """
    data, offsets = _messages(_id_values(ids))
    return _to_uniforms(_hash_messages(data, offsets, key))


def uniforms_from_generator(n_rows: int, random_state: RandomState) -> FloatArray:
    """Return new uniform numbers in (0, 1), shape (n_rows,)."""
    if is_whole(random_state):
        random_state = np.random.default_rng(_check_seed(random_state))
    if isinstance(random_state, np.random.Generator):
        return _to_uniforms(random_state.integers(0, 2**64, size=n_rows, dtype=np.uint64))
    if isinstance(random_state, np.random.RandomState):
        return _to_uniforms(np.frombuffer(random_state.bytes(8 * n_rows), "<u8").astype(np.uint64))
    raise _unknown_random_state(random_state)


def choose_uniforms(
    n_rows: int,
    key: HashArray,
    random_state: RandomState,
    ids: Any,
    from_rows: Callable[[], FloatArray],
) -> FloatArray:
    """Return uniform numbers for `predict`: from ids, from a random state, or from the rows."""
    if ids is None:
        return from_rows() if random_state is None else uniforms_from_generator(n_rows, random_state)
    if random_state is not None:
        raise ValueError("ids asks for the same draws in each call, random_state for new ones: pass one.")
    uniforms = uniforms_from_ids(ids, key)
    if len(uniforms) != n_rows:
        raise ValueError(f"ids has {len(uniforms)} values, but there are {n_rows} rows.")
    return uniforms


def _check_seed(seed: Any) -> int:
    if seed < 0:
        raise ValueError(f"random_state must not be negative: got {seed}.")
    return int(seed)


def _unknown_random_state(random_state: object) -> ValueError:
    return ValueError(
        "random_state must be None, an integer, a numpy.random.Generator or a "
        f"numpy.random.RandomState: got {type(random_state).__name__}."
    )


def _to_uniforms(hashes: HashArray) -> FloatArray:
    """Return the midpoints of 2^52 equal cells; with 2^53 cells the last midpoint would round to 1.0."""
    return ((hashes >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _hash_words(
    words: Callable[[int, int], FloatArray], n_rows: int, width: int, tag: int, key: HashArray
) -> HashArray:
    """Hash `width` floats for each row, chunk by chunk."""
    out = np.empty(n_rows, np.uint64)

    def run(start: int, stop: int) -> None:
        block = np.empty((stop - start, 1 + width), "<u8")
        block[:, 0] = tag
        block[:, 1:] = (words(start, stop) + 0.0).view(np.uint64)  # + 0.0 removes negative zeros
        offsets = np.arange(stop - start + 1) * (8 * (1 + width))
        siphash_into(out[start:stop], block.view(np.uint8).ravel(), offsets, key[0], key[1], 0, stop - start)

    run_chunks(run, n_rows, 8 * width)
    return out


def _hash_messages(data: NDArray[np.uint8], offsets: NDArray[np.int64], key: HashArray) -> HashArray:
    n_rows = len(offsets) - 1
    out = np.empty(n_rows, np.uint64)

    def run(start: int, stop: int) -> None:
        siphash_into(out, data, offsets, key[0], key[1], start, stop)

    run_chunks(run, n_rows, max(1, len(data) // max(1, n_rows)))
    return out


def _id_values(ids: Any) -> AnyArray:
    """Return the ids as a 1-d array without changing their values."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise ValueError(f"ids needs one value per row: got {type(ids).__name__}.")
    native = nw.from_native(ids, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.Series):
        return np.asarray(native.to_numpy())
    if isinstance(native, nw.DataFrame) or getattr(ids, "ndim", 1) != 1:
        raise ValueError("ids must be one-dimensional: pass one column, or join several into text.")
    if isinstance(ids, np.ndarray):
        return np.asarray(without_mask(ids))
    # a list is converted element by element: NumPy would turn [1, "a"] into two strings
    return np.fromiter(ids, dtype=object)


def _messages(values: AnyArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the canonical bytes of all ids, joined, and the offset of each id."""
    whole = _as_int64(values)
    if whole is not None:
        block = np.empty((len(whole), 9), np.uint8)
        block[:, 0] = ord("i")
        block[:, 1:] = whole.astype("<i8").view(np.uint8).reshape(-1, 8)
        return block.ravel(), np.arange(len(whole) + 1) * 9
    if values.dtype.kind not in "iubfUSO":
        raise _unknown_id(values[0])
    encoded = [_encode(value) for value in values.tolist()]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def _as_int64(values: AnyArray) -> NDArray[np.int64] | None:
    """Convert numeric ids to int64 at once if all are whole and fit; otherwise return None."""
    kind = values.dtype.kind
    if kind in "ib" or (kind == "u" and (values.dtype.itemsize < 8 or np.all(values < 2**63))):
        return values.astype(np.int64)
    if kind == "f" and np.all((values == np.floor(values)) & (np.abs(values.astype(np.float64)) < 2.0**63)):
        return values.astype(np.int64)
    return None


def _encode(value: Any) -> bytes:
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            raise ValueError(f"ids must not be missing or infinite: got {value}.")
        if not float(value).is_integer():
            return b"f" + np.array(value, "<f8").tobytes()
        value = int(value)
    if isinstance(value, int | np.integer | np.bool_):
        return _encode_integer(int(value))
    if isinstance(value, bytes):
        return b"b" + value
    if isinstance(value, UUID):
        return b"s" + str(value).encode()
    raise _unknown_id(value)


def _encode_integer(value: int) -> bytes:
    if -(2**63) <= value < 2**63:
        return b"i" + value.to_bytes(8, "little", signed=True)
    return b"I" + value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _unknown_id(value: object) -> ValueError:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ValueError("ids must not be missing: every row needs an id, such as a customer number.")
    return ValueError(
        f"ids must be integers, text, bytes or UUIDs: got {type(value).__name__}. Convert them to text."
    )
