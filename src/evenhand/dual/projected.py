"""The paper's own form of the dual, over `(Lambda, V) >= 0` with `Phi = Lambda - V`.

It is the form that the stochastic solvers run on and that the paper's lemmas are about. It holds for
every notion whose constraint is a sup-norm; the arrays have shape (2, n_constraints, n_groups).
"""

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import matrix
from evenhand.dual.problem import DualProblem

LEAST_SMOOTHNESS = 1e-100  # no row tells the groups apart: any step will do that can be multiplied


def split(multipliers: FloatArray) -> FloatArray:
    """The smallest `(Lambda, V) >= 0` with `Lambda - V = Phi`."""
    return np.stack([np.maximum(multipliers, 0.0), np.maximum(-multipliers, 0.0)])


def merge(point: FloatArray) -> FloatArray:
    """`Phi = Lambda - V`."""
    merged: FloatArray = point[0] - point[1]
    return merged


def projected_gradient(problem: DualProblem, violation: FloatArray) -> FloatArray:
    """Gradient of F(Lambda, V) from `V = A E[pi t^T]` (paper, eq. 10)."""
    return np.stack([violation + problem.slack, -violation + problem.slack])


def gradient_map(problem: DualProblem, point: FloatArray, violation: FloatArray, step: float) -> FloatArray:
    """`(w - (w - step * grad)_+) / step = min(w / step, grad)` (paper, eq. 8)."""
    return np.minimum(point / step, projected_gradient(problem, violation))


def imbalance_spread(problem: DualProblem) -> float:
    """`E |t|^2` on the rows: sigma-hat squared of the paper's appendix on unknown eta and tau."""
    return float(np.trace(problem.mixing.T @ problem.rows.second_moment() @ problem.mixing))


def gradient_variance(problem: DualProblem) -> float:
    """Bound on the variance of a single-row gradient (Lemma 4.1 for any operator).

    `E |A pi t^T|^2 <= max_l |A e_l|^2 E |t|^2`, since pi is a mean of unit vectors e_l.
    """
    columns = matrix(problem.parity.operator)
    return float((columns**2).sum(axis=0).max()) * imbalance_spread(problem)


def smoothness(problem: DualProblem, spread: float | None = None) -> float:
    """Lipschitz constant M of the gradient (Lemma 3.4 for any operator).

    The paper's `2 beta sigma^2` for the identity. In general the Hessian holds the covariance of the
    points A e_l under pi, at most their squared radius around any centre. `spread` is `E |t|^2`, that of
    the problem's rows by default.
    """
    columns = matrix(problem.parity.operator)
    centre = (columns.min(axis=1) + columns.max(axis=1)) / 2
    radius = ((columns - centre[:, None]) ** 2).sum(axis=0).max()
    largest = (columns**2).sum(axis=0).max()
    spread = imbalance_spread(problem) if spread is None else spread
    bound = 2.0 * problem.temperature * spread * float(min(radius, largest))
    return max(bound, LEAST_SMOOTHNESS)
