"""Tables go out as data frames of a library that the user has."""

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import narwhals.stable.v1 as nw

BACKENDS = ("pandas", "polars", "pyarrow")  # in the order of preference


def make_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """A data frame of `columns`, of the named library, or of the first one that is installed.

    Parameters
    ----------
    columns : dict of equally long sequences
    backend : {"pandas", "polars", "pyarrow"} or None, default=None

    Examples
    --------
    >>> make_frame({"epsilon": [0.1, 0.2]}, backend="polars").shape
    (2, 1)
    """
    library = _first_installed() if backend is None else _named(backend)
    return nw.from_dict(dict(columns), native_namespace=library).to_native()


def frame_from_arrow(table: Any) -> Any:
    """An Arrow table as a frame of pandas, or of polars where that is what is installed.

    >>> import pyarrow
    >>> frame_from_arrow(pyarrow.table({"epsilon": [0.1, 0.2]})).shape
    (2, 1)
    """
    if _import("pandas") is not None:
        return table.to_pandas()
    return _named("polars").from_arrow(table)


def _named(backend: str) -> ModuleType:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}: got {backend!r}.")
    library = _import(backend)
    if library is None:
        raise ImportError(f"backend={backend!r} is not installed. Run: pip install {backend}")
    return library


def _first_installed() -> ModuleType:
    for name in BACKENDS:
        library = _import(name)
        if library is not None:
            return library
    raise ImportError(
        "A data frame needs pandas, polars or pyarrow, and none of them is installed. Run: pip install pandas"
    )


def _import(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
