"""What must hold for the parts of a model that a file brings: strata, costs, and maps of what models say."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from evenhand.dual.costs import Absolute, CostMatrix, Huber, Pinball, Squared

MOST_POWER = 10  # of an input in one term: far beyond what is fitted
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


def joint_calibrator_faults(calibrator: Any) -> Iterator[str]:
    """A polynomial in as many inputs as there are scales for, with coefficients for every term."""
    scales = (calibrator.low, calibrator.high, calibrator.centre, calibrator.scale)
    powers, coefficients, offsets = calibrator.powers, calibrator.coefficients, calibrator.offsets
    if calibrator.link not in ("softmax", "shift"):
        yield "its link is neither softmax nor shift"
    elif not isinstance(powers, np.ndarray) or powers.dtype != np.int64 or powers.ndim != 2:
        yield "its powers are not a table of integers"
    elif not powers.size or powers.min() < 0 or powers.sum(axis=1).min() < 1 or powers.max() > MOST_POWER:
        yield "its powers are not those of terms"
    elif not all(is_floats(scale, 1) and len(scale) == powers.shape[1] for scale in scales):
        yield "its scales are not one number for each input"
    elif not is_floats(coefficients, 2) or not is_floats(offsets, 1):
        yield "its coefficients are not arrays of numbers"
    elif coefficients.shape != (len(offsets), len(powers)) or not len(offsets):
        yield "the shapes of its coefficients do not agree"
    elif not all(np.isfinite(part).all() for part in (*scales, coefficients, offsets)):
        yield "its numbers are not finite"
    elif calibrator.scale.min() <= 0:
        yield "its scales are not positive"


def is_floats(value: Any, ndim: int) -> bool:
    """Whether a value is an array of doubles with `ndim` dimensions."""
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == ndim
