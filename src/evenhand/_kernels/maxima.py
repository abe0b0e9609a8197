"""Largest logits of rows: the dual without smoothing, for the certificate's lower bound."""

import numpy as np
from numba import njit

from evenhand._kernels.softmax import LANES, _logits_into


@njit(nogil=True, cache=True, error_model="numpy")
def maxima(design, weights, loadings, offset, start, stop):
    """`sum_i w_i * max_l logits_i[l]` over rows `start : stop`."""
    n_features = design.shape[0]
    logits = np.empty((loadings.shape[0], LANES), design.dtype)
    top = np.empty(LANES, design.dtype)
    lanes = np.zeros((n_features, LANES), design.dtype)
    value = 0.0
    for block in range(start, stop, LANES):
        size = min(LANES, stop - block)
        for k in range(n_features):
            for r in range(size):
                lanes[k, r] = design[k, block + r]
        for r in range(LANES):
            top[r] = -np.inf
        _logits_into(logits, top, lanes, loadings, offset)
        for r in range(size):
            value += weights[block + r] * top[r]
    return value
