"""The paper's formulas in its own form, over `(Lambda, V) >= 0`, to compare solvers and bounds with."""

import numpy as np
from scipy.special import softmax

from evenhand.dual.objective import evaluate
from evenhand.dual.projected import merge, projected_gradient


def projected_objective(problem, point):
    """F(Lambda, V), eq. (5) of the paper."""
    multipliers = merge(point)
    smooth = evaluate(problem.with_slack(np.zeros(problem.n_groups)), multipliers).value
    return smooth + float(point.sum(axis=(0, 1)) @ problem.slack)


def stochastic_gradient(problem, point, rows):
    """Mean of the single-row gradients of F(Lambda, V) over `rows` (paper, eq. 11).

    A row's gradient is `(+g + epsilon, -g + epsilon)` with `g = A pi t^T`. Its mean is the gradient of F
    when rows are drawn in proportion to the problem's weights. Returns shape (2, n_constraints, n_groups).
    """
    features = problem.rows.design[:, rows]
    tilt = problem.parity.operator.adjoint(merge(point)) @ problem.mixing.T
    loadings = np.concatenate([tilt, problem.cost.loadings], axis=1)
    logits = problem.temperature * (features.T @ loadings.T + problem.cost.offset)
    imbalance = features[: problem.n_kept].T @ problem.mixing
    moments = softmax(logits, axis=1).T @ imbalance / features.shape[1]
    return projected_gradient(problem, problem.parity.operator.apply(moments))


def variance_bound(group_prior):
    """`sigma^2 = sum_s (1 - p_s) / p_s`, the bound for known tau (paper, Lemma 4.1).

    >>> variance_bound(np.array([0.5, 0.5]))
    2.0
    """
    return float(np.sum((1.0 - group_prior) / group_prior))
