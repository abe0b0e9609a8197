"""Weights of rows: only their ratios count."""

import numpy as np

from evenhand._utils.typing import AnyArray, FloatArray

FAR = 1e100  # weights beyond it, or below its inverse, are scaled: squares and sums would leave the floats


def within_floats(weights: FloatArray) -> FloatArray:
    """The same weights, scaled to at most one where they are very large or very small.

    >>> import numpy as np
    >>> within_floats(np.array([1e300, 2e300])), within_floats(np.array([3.0, 4.0]))
    (array([0.5, 1. ]), array([3., 4.]))
    """
    largest = float(weights.max())
    return weights if 1.0 / FAR < largest < FAR else weights / largest


def scale_weights(weights: FloatArray, used: AnyArray) -> FloatArray:
    """Weights as models get them: whole numbers count copies of a row, all others have a mean of one.

    Models with a penalty depend on the sum of the weights, which says nothing where they are relative.

    >>> import numpy as np
    >>> scale_weights(np.array([0.0, 1e-300, 3e-300]), np.array([False, True, True]))
    array([0. , 0.5, 1.5])
    >>> scale_weights(np.array([1.0, 3.0]), np.array([True, True]))
    array([1., 3.])
    """
    if (weights == np.floor(weights)).all() and weights.max() < FAR:
        return weights
    relative = weights / weights.max()
    scaled: FloatArray = relative / relative[used].mean()
    return scaled
