"""NumPy twins of `stochastic.py`: the paper's formulas, a row at a time, for tests and for reading."""

from typing import Any

import numpy as np

from evenhand._kernels.stochastic import CUMULATIVE, IDENTITY
from evenhand._utils.typing import FloatArray, IntArray

Cursor = tuple[int, int, int]


def _matrix(operator: int, scales: FloatArray, n_atoms: int) -> FloatArray:
    """A, shape (n_constraints, n_atoms)."""
    if operator == CUMULATIVE:
        return scales[:, None] * np.tri(n_atoms - 1, n_atoms)
    return np.eye(n_atoms) if operator == IDENTITY else scales.reshape(-1, n_atoms)


def row_gradient(point: FloatArray, column: FloatArray, model: tuple[Any, ...]) -> FloatArray:
    """`t (A pi)^T` of the row with design `column`, shape (n_groups, n_constraints)."""
    mixing, loadings, offset, scale, operator, scales = model
    n_kept = len(mixing)
    a = _matrix(operator, scales, len(offset))
    t = mixing.T @ column[:n_kept]
    logits = scale * (t @ _merged(point) @ a) + column[n_kept:] @ loadings + offset
    policy = np.exp2(logits - logits.max())
    gradient: FloatArray = np.outer(t, a @ (policy / policy.sum()))
    return gradient


def _merged(point: FloatArray) -> FloatArray:
    """Phi of a point of either form."""
    merged: FloatArray = point[0] - point[1] if len(point) == 2 else point[0]
    return merged


def _full(gradient: FloatArray, slack: FloatArray, n_signs: int) -> FloatArray:
    """Gradient over (Lambda, V) from that over Phi; over Phi the penalty has a prox instead."""
    return np.stack([gradient, -gradient]) + slack[:, None] if n_signs == 2 else gradient[None]


def _settled(point: FloatArray, prices: FloatArray) -> FloatArray:
    """Where a step ends: the projection on `(Lambda, V) >= 0`, or the prox of `price * max |Phi_s|`."""
    if len(point) == 2:
        return np.maximum(point, 0.0)
    cut = point.copy()
    for row, price in zip(cut[0], prices, strict=True):
        falling = np.sort(np.abs(row))[::-1]
        height = max(0.0, np.max((np.cumsum(falling) - price) / np.arange(1, len(row) + 1)))
        np.clip(row, -height, height, out=row)
    return cut


def _steps(
    method: str,
    iterate: FloatArray,
    output: FloatArray,
    centre: FloatArray,
    gradient: FloatArray,
    cursor: Cursor,
    regularisation: float,
    design: FloatArray,
    factors: FloatArray,
    model: tuple[Any, ...],
    slack: FloatArray,
    batch_size: int,
    is_last: bool,
    lengths: IntArray,
    constants: FloatArray,
) -> tuple[Cursor, float]:
    phase, update, pending = cursor
    for row in range(design.shape[1]):
        (n_updates, period), (anchor, *pair) = lengths[phase], constants[phase]
        if pending == 0 and update == 0:
            regularisation += anchor
            centre += anchor * output
        if pending == 0 and update % period == 0:
            iterate[:] = output
        t = update % period + 1
        point = iterate if method == "sgd" else _middle(t, iterate, output, *pair)
        gradient += factors[row] * row_gradient(point, design[:, row], model)
        pending += 1
        if pending == batch_size or (is_last and row == design.shape[1] - 1):
            slope = _full(gradient / pending, slack, len(point)) + regularisation * point - centre
            take = _sgd_update if method == "sgd" else _acsa_update
            iterate[:], output[:] = take(t, iterate, output, point, slope, slack, *pair)
            gradient[:] = 0.0
            update, pending = update + 1, 0
        if update == n_updates:
            phase, update = phase + 1, 0
    return (phase, update, pending), regularisation


def _sgd_update(
    t: int,
    w: FloatArray,
    mean: FloatArray,
    _: FloatArray,
    slope: FloatArray,
    slack: FloatArray,
    step: float,
    decay: float,
) -> tuple[FloatArray, FloatArray]:
    step *= t**-decay
    w = _settled(w - step * slope, step * slack)
    return w, ((t - 1) * mean + w) / t


def _middle(t: int, w: FloatArray, ag: FloatArray, smoothness: float, mu: float) -> FloatArray:
    alpha, gamma = 2 / (t + 1), 4 * smoothness / (t * (t + 1))
    below = gamma + (1 - alpha**2) * mu
    return (1 - alpha) * (mu + gamma) / below * ag + alpha * ((1 - alpha) * mu + gamma) / below * w


def _acsa_update(
    t: int,
    w: FloatArray,
    ag: FloatArray,
    md: FloatArray,
    slope: FloatArray,
    slack: FloatArray,
    smoothness: float,
    mu: float,
) -> tuple[FloatArray, FloatArray]:
    alpha, gamma = 2 / (t + 1), 4 * smoothness / (t * (t + 1))
    pulled = ((1 - alpha) * mu + gamma) * w + alpha * mu * md - alpha * slope
    w = _settled(pulled / (mu + gamma), alpha / (mu + gamma) * slack)
    return w, alpha * w + (1 - alpha) * ag


def sgd_steps_into(*arguments: Any) -> tuple[Cursor, float]:
    """Twin of the kernel of the same name."""
    return _steps("sgd", *arguments)


def acsa_steps_into(*arguments: Any) -> tuple[Cursor, float]:
    """Twin of the kernel of the same name."""
    return _steps("acsa", *arguments)
