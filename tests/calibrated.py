"""Populations whose outcome and group have known probabilities, for the tests of calibration."""

import numpy as np
from scipy.special import expit, softmax


def draw_codes(truth, seed):
    uniform = np.random.default_rng(seed).random((len(truth), 1))
    return (uniform > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)


def population(n_groups, n_rows, seed=0):
    """Logits, the true probabilities and a group for each row."""
    # three times as sharp, no probability is under the floor of the logs
    logits = np.random.default_rng(seed).normal(scale=1.2, size=(n_rows, n_groups)).clip(-2, 2)
    truth = softmax(logits, axis=1)
    return logits, truth, draw_codes(truth, seed + 1)


def table(proba):
    return np.column_stack([1.0 - proba, proba])


def both_wrong(n_rows, seed, shape=lambda u, v: u + v):
    """Outcome and group depend on u and v; scores of u alone, and tau of v alone, can still be calibrated."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, n_rows))
    truth, group_truth = expit(shape(u, v)), expit(1.5 * v + u)
    return u, v, truth, group_truth, rng.random(n_rows) < truth, rng.random(n_rows) < group_truth
