"""What must hold for the terms of a policy that a file brings: its strata and its cost."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.costs import Absolute, CostMatrix, Huber, Pinball, Squared

COSTS = (Squared, Absolute, Pinball, Huber, CostMatrix)  # a cost that is a function is not a file's to hold


def strata_faults(strata: Any, prior: Any) -> Iterator[str]:
    """Strata count from zero, one for each group; None is one for all."""
    if strata is None:
        return
    if not isinstance(strata, np.ndarray) or strata.dtype != np.int64 or strata.shape != np.shape(prior):
        yield "its strata are not one integer for each group"
    elif not len(strata) or strata.min() < 0 or len(np.unique(strata)) != strata.max() + 1:
        yield "its strata do not count from zero"


def cost_faults(cost: Any, n_atoms: int) -> Iterator[str]:
    """A cost of the closed list, over as many atoms."""
    if type(cost) not in COSTS:
        yield "its cost is not a cost"
    elif type(cost) is CostMatrix and cost.matrix.shape[1] != n_atoms:
        yield "its cost matrix does not have a column for each atom"


def cost_matrix_faults(cost: Any) -> Iterator[str]:
    """Finite costs of two classes or more."""
    if not is_floats(cost.matrix, 2) or min(cost.matrix.shape) < 2 or not np.isfinite(cost.matrix).all():
        yield "its matrix is not a table of finite numbers"


def is_floats(value: Any, ndim: int) -> bool:
    """Whether a value is an array of doubles with `ndim` dimensions."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == ndim
