"""Plain NumPy twins of the compiled kernels: the same names, arguments and results.

They hold the whole (rows x atoms) matrix in float64 and are written to be read; the tests compare
the kernels with them.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from evenhand._utils.typing import AnyArray, FloatArray


def _logits(design: AnyArray, loadings: AnyArray, offset: AnyArray, start: int, stop: int) -> FloatArray:
    """Logits of rows `start : stop` in units of log 2, shape (rows, n_atoms)."""
    columns = design[:, start:stop].astype(np.float64)
    products: FloatArray = columns.T @ loadings.astype(np.float64).T
    return products + offset.astype(np.float64)


def _policy(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Softmax of base 2 of each row, and its log2-sum-exp2."""
    top = logits.max(axis=1, keepdims=True)
    powers = np.exp2(logits - top)
    total = powers.sum(axis=1, keepdims=True)
    return powers / total, (np.log2(total) + top)[:, 0]


def moments(
    design: AnyArray,
    weights: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    n_moments: int,
    start: int,
    stop: int,
) -> tuple[float, FloatArray, float]:
    """Sums of log-sum-exps, of `design[k, i] * policy_i` for k < n_moments, and of largest logits."""
    logits = _logits(design, loadings, offset, start, stop)
    policy, log_sum = _policy(logits)
    rows = weights[start:stop].astype(np.float64)
    moment: FloatArray = (design[:n_moments, start:stop] * rows) @ policy
    return float(rows @ log_sum), moment, float(rows @ logits.max(axis=1))


def blocks(
    design: AnyArray,
    weights: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    n_kept: int,
    cumulative: bool,
) -> FloatArray:
    """`sum_i w_i u_is u_it Cov_i(a, a + d)` of atoms or sums up to them, (n_atoms, n_atoms, n_pairs)."""
    policy, _ = _policy(_logits(design, loadings, offset, 0, design.shape[1]))
    rows = np.tril(np.ones((len(offset),) * 2)) if cumulative else np.eye(len(offset))
    kept = design[:n_kept].astype(np.float64)
    firsts, seconds = np.triu_indices(n_kept)
    pairs = kept[firsts] * kept[seconds] * weights
    means = policy @ rows.T
    out = np.zeros((len(offset), len(offset), len(firsts)))
    for a in range(len(offset)):
        for b in range(a, len(offset)):
            covariance = policy @ (rows[a] * rows[b]) - means[:, a] * means[:, b]
            out[a, b - a] = pairs @ covariance
    return out


def means_into(
    out: AnyArray,
    design: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    atoms: AnyArray,
    start: int,
    stop: int,
) -> None:
    """Mean of the policy of each row."""
    policy, _ = _policy(_logits(design, loadings, offset, start, stop))
    out[start:stop] = policy @ atoms


def quantiles_into(
    out: AnyArray,
    levels: AnyArray,
    design: AnyArray,
    loadings: AnyArray,
    offset: AnyArray,
    start: int,
    stop: int,
) -> None:
    """Index of the smallest atom whose cumulated probability reaches `levels[i]`."""
    policy, _ = _policy(_logits(design, loadings, offset, start, stop))
    below = np.cumsum(policy, axis=1) < levels[start:stop, None]
    out[start:stop] = np.minimum(below.sum(axis=1), len(offset) - 1)


def pmf_into(
    out: AnyArray, design: AnyArray, loadings: AnyArray, offset: AnyArray, start: int, stop: int
) -> None:
    """Policy of each row, one row of `out` each."""
    out[start:stop], _ = _policy(_logits(design, loadings, offset, start, stop))


def lowest_of_atom(
    imbalance: FloatArray,
    weights: FloatArray,
    ahead: FloatArray,
    start: FloatArray,
    ends: FloatArray,
    settled: float,
    enough: float,
) -> FloatArray:
    """The minimiser of a logistic regression in a box, as SciPy finds it."""

    def value_and_slope(x: FloatArray) -> tuple[float, FloatArray]:
        logits = ahead + imbalance @ (x - start)
        return float(weights @ np.logaddexp(0.0, logits)), (weights * expit(logits)) @ imbalance

    settings = {"ftol": 1e-15, "gtol": settled, "maxiter": 10_000}
    bounds = list(zip(-ends, ends, strict=True))
    return np.asarray(minimize(value_and_slope, start, jac=True, bounds=bounds, options=settings).x)
