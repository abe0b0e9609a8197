"""What counts as a missing value, in the cells of any library."""

import numbers
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray


def without_mask(values: Any) -> Any:
    """An array whose masked entries are missing: NaN among floats, None among all else.

    What is no masked array is returned as it is. NumPy itself would bring back what stands under the mask.

    >>> without_mask(np.ma.masked_array([1.0, 2.0], mask=[False, True]))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain: AnyArray = np.array(values.data)
    hidden = np.ma.getmaskarray(values)
    if plain.dtype.names is None and hidden.any():
        plain = plain if plain.dtype.kind == "f" else plain.astype(object)
        plain[hidden] = np.nan if plain.dtype.kind == "f" else None
    return plain


def is_missing(cell: Any) -> bool:
    """Whether a cell of any library holds no value.

    >>> is_missing(None), is_missing(float("nan")), is_missing(0), is_missing("")
    (True, True, False, False)
    """
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, numbers.Number | np.generic) and bool(cell != cell)
