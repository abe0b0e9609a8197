"""Weights of rows: only their ratios count."""

from evenhand._utils.typing import FloatArray

FAR = 1e100  # weights beyond it, or below its inverse, are scaled: squares and sums would leave the floats


def within_floats(weights: FloatArray) -> FloatArray:
    """The same weights, scaled to at most one where they are very large or very small.

    >>> import numpy as np
    >>> within_floats(np.array([1e300, 2e300])), within_floats(np.array([3.0, 4.0]))
    (array([0.5, 1. ]), array([3., 4.]))
    """
    largest = float(weights.max())
    return weights if 1.0 / FAR < largest < FAR else weights / largest
