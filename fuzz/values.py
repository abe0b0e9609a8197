"""Hostile values: what a valid argument can be spoilt to."""

import warnings
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

EXTREMES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-310, 1e-300, 1e-17, 1e17,
    1e154, -1e154, 1e155, 1e300, -1e300, 1.7e308, -1.7e308, 2.0**53, 0.5, 1e-9,
)  # fmt: skip


class Odd:
    """Not a number, not text, not hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False

    def __repr__(self) -> str:
        return "Odd()"


SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 3, 7, 100_000, 10**30, -(10**30), 0.5, "", "auto", "joint", "é\x00",
    b"bytes", 1j, complex(np.nan, 1), np.float32(0.1), np.float16(60_000), np.int8(-3), np.uint64(2**63),
    np.bool_(True), datetime(2020, 1, 1), np.datetime64("2020-01-01"), np.timedelta64(3, "s"),
    np.datetime64("NaT"), pd.NA, pd.NaT, Odd(), object, len, (), [], {}, set(), (0.0, 1.0), [0.1, 0.2],
    [[0.1, 0.2]], [[]], {"a": 0.1}, {0: 0.1, 1: 0.2}, {0: np.nan, 1: 0.2}, [None, None], ["a", 1],
    [[1], [1, 2]], range(3), slice(2), ..., *EXTREMES,
)  # fmt: skip


def scalar(rng: np.random.Generator) -> Any:
    """Anything at all."""
    return SCALARS[int(rng.integers(len(SCALARS)))]


def spoil(rng: np.random.Generator, value: Any) -> Any:
    """A value like the given one, with something wrong or odd about it."""
    if not isinstance(value, np.ndarray) or rng.random() < 0.15:
        return scalar(rng)
    ways = (_entries, _entries, _whole, _shape, _type, _wrapped, _scaled, _scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the spoiling itself
        try:
            return ways[int(rng.integers(len(ways)))](rng, value)
        except Exception:  # what was spoilt before may be beyond any more of it
            return value


def _entries(rng: np.random.Generator, array: np.ndarray) -> Any:
    """Some entries are extreme."""
    if not array.size:
        return array
    spoilt = array.astype(float if array.dtype.kind in "biuf" else object)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(spoilt.size))
        spoilt.flat[place] = EXTREMES[int(rng.integers(len(EXTREMES)))]
        if spoilt.dtype.kind == "O" and rng.random() < 0.5:
            spoilt.flat[place] = scalar(rng)
    return spoilt


def _whole(rng: np.random.Generator, array: np.ndarray) -> Any:
    """All entries are the same extreme one, or noise of its size."""
    extreme = EXTREMES[int(rng.integers(len(EXTREMES)))]
    if rng.random() < 0.5:
        return np.full(array.shape, extreme)
    with np.errstate(all="ignore"):
        return extreme * rng.normal(size=array.shape)


def _scaled(rng: np.random.Generator, array: np.ndarray) -> Any:
    """Other units: huge, tiny, or far from zero."""
    if array.dtype.kind not in "biuf":
        return _entries(rng, array)
    with np.errstate(all="ignore"):
        factor = float(10.0 ** rng.integers(-320, 309))
        return array * factor if rng.random() < 0.7 else array + factor * rng.choice([-1.0, 1.0])


def _shape(rng: np.random.Generator, array: np.ndarray) -> Any:
    """Rows or dimensions too many or too few."""
    options = (
        lambda: array[:0],
        lambda: array[:1],
        lambda: array[: len(array) // 2],
        lambda: np.concatenate([array, array]),
        lambda: array[:, None] if array.ndim == 1 else array[:, 0],
        lambda: array.T,
        lambda: array[None],
        lambda: array[..., None],
        lambda: array.ravel(),
        lambda: array.ravel()[0] if array.size else array,
        lambda: array[:, :1] if array.ndim == 2 else array,
        lambda: array[:, :0] if array.ndim == 2 else array,
        lambda: np.column_stack([array, array]),
    )
    return options[int(rng.integers(len(options)))]()


def _type(rng: np.random.Generator, array: np.ndarray) -> Any:
    """Another kind of entries."""
    kinds = ["O", "U8", "S8", "c16", "f2", "f4", "i1", "u8", "?", "M8[D]", "m8[s]", "g"]
    kind = kinds[int(rng.integers(len(kinds)))]
    with np.errstate(all="ignore"):
        try:
            return array.astype(kind)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return array.astype(object)


def _wrapped(rng: np.random.Generator, array: np.ndarray) -> Any:
    """The same numbers in a container of another library."""
    flat = array.ndim == 1
    options = (
        lambda: array.tolist(),
        lambda: tuple(array.tolist()),
        lambda: pd.Series(array) if flat else pd.DataFrame(array),
        lambda: pd.Series(array, dtype=object) if flat else pd.DataFrame(array, dtype=object),
        lambda: pd.Series(array, index=rng.permutation(len(array))) if flat else pd.DataFrame(array[:, ::-1]),
        lambda: pd.Categorical(array.tolist()) if flat else pd.DataFrame(array).astype("category"),
        lambda: pl.Series(array.tolist()) if flat else pl.DataFrame(array.tolist(), orient="row"),
        lambda: np.ma.masked_array(array, mask=rng.random(array.shape) < 0.2),
        lambda: np.ma.masked_array(array, mask=False),
        lambda: sparse.csr_array(np.atleast_2d(array)),
        lambda: np.asfortranarray(array)[::-1],
        lambda: np.broadcast_to(array[:1], array.shape),
        lambda: memoryview(np.ascontiguousarray(array)) if array.dtype.kind in "if" else array.tolist(),
        lambda: iter(array.tolist()),
        lambda: dict(enumerate(array.tolist())),
        lambda: np.matrix(array) if array.dtype.kind in "if" else array.tolist(),
        lambda: pd.array(array.tolist()) if flat else array.tolist(),
        lambda: np.rec.fromarrays([array.ravel()], names="a"),
    )
    try:
        return options[int(rng.integers(len(options)))]()
    except (TypeError, ValueError, IndexError, OverflowError, RuntimeError, pl.exceptions.PolarsError):
        return array.tolist()
