"""Logistic regression on few columns, by Newton steps.

A calibration is several such fits beside those of the models. scikit-learn's newton-cholesky takes the same
steps, and on few columns two to six times as long for them, five to nine times from a warm start
(`make bench ONLY=logistic`); of several classes it penalises all, where here the first is the one that the
others are compared with. The tests compare the two.
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from evenhand._utils.typing import AnyArray, FloatArray, IntArray

MAX_STEPS = 50
MAX_HALVINGS = 20
# Of a step in the mean loss. It is the last step's, and steps gain about the square of the one before.
SMALLEST_GAIN = 1e-6
LEAST_SHARE = 1e-15  # of a class among all rows
LARGEST_LOGIT = 500.0  # its exponential is finite, and its probability as good as one


def fit_logistic(
    design: FloatArray,
    codes: IntArray,
    n_classes: int,
    weights: FloatArray,
    penalty: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """Coefficients of the classes but the first, (n_classes - 1, n_terms).

    They minimise `sum_i w_i -log softmax(0, z_i)[codes_i] + penalty / 2 |coefficients|^2`, where
    `z = coefficients @ design` and the design is (n_terms, n_rows). Its first term is all ones, and the
    coefficients of that are free.

    >>> ones = np.ones((1, 4))
    >>> fit_logistic(ones, np.array([0, 1, 1, 1]), 2, np.ones(4), 1.0).round(3)  # log 3
    array([[1.099]])
    """
    hits = codes == np.arange(1, n_classes)[:, None]
    pull = np.full(len(design), penalty)
    pull[0] = 0.0
    point = _constant(hits, weights, len(design)) if start is None else start
    loss, proba = _loss(design, hits, weights, pull, point)
    for _ in range(MAX_STEPS):
        slope = (weights * (proba - hits)) @ design.T + pull * point
        try:
            factor = cho_factor(_curvature(design, weights, proba, pull), check_finite=False)
        except LinAlgError:  # too flat to tell where to go
            break
        step: FloatArray = cho_solve(factor, slope.ravel(), check_finite=False).reshape(point.shape)
        if (slope * step).sum() < 2.0 * SMALLEST_GAIN * len(weights):
            return point - step
        for halvings in range(MAX_HALVINGS):
            nearer = point - step / 2.0**halvings
            new_loss, new_proba = _loss(design, hits, weights, pull, nearer)
            if new_loss < loss:
                break
        else:
            break
        point, loss, proba = nearer, new_loss, new_proba
    return point


def _constant(hits: AnyArray, weights: FloatArray, n_terms: int) -> FloatArray:
    """The shares of the classes for every row."""
    masses = hits @ weights
    point = np.zeros((len(hits), n_terms))
    rest = weights.sum() - masses.sum()  # of the first class, which rounding may leave nothing of
    least = LEAST_SHARE * weights.sum()
    point[:, 0] = np.log(np.maximum(masses, least) / max(rest, least))
    return point


def _loss(
    design: FloatArray, hits: AnyArray, weights: FloatArray, pull: FloatArray, point: FloatArray
) -> tuple[float, FloatArray]:
    """Penalised loss, and the probabilities of the classes but the first, (n_classes - 1, n_rows)."""
    logits = np.minimum(point @ design, LARGEST_LOGIT)
    proba = np.exp(logits)
    total = proba.sum(axis=0) + 1.0
    proba /= total
    loss = weights @ np.log(total) - ((hits * logits) @ weights).sum()
    return float(loss + 0.5 * (pull * point**2).sum()), proba


def _curvature(design: FloatArray, weights: FloatArray, proba: FloatArray, pull: FloatArray) -> FloatArray:
    """Second derivatives, (n_coefficients, n_coefficients)."""
    n_classes, size = len(proba), len(design)
    full = np.empty((n_classes, size, n_classes, size))
    for one in range(n_classes):
        for other in range(one + 1):
            factor = weights * proba[one] * ((one == other) - proba[other])
            full[one, :, other] = full[other, :, one] = (design * factor) @ design.T
        full[one, :, one] += np.diag(pull)
    return full.reshape(n_classes * size, n_classes * size)
