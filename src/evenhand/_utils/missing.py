"""What counts as a missing value, in the cells of any library."""

import numbers
from typing import Any

import numpy as np


def is_missing(cell: Any) -> bool:
    """Whether a cell of any library holds no value.

    >>> is_missing(None), is_missing(float("nan")), is_missing(0), is_missing("")
    (True, True, False, False)
    """
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, numbers.Number | np.generic) and bool(cell != cell)
