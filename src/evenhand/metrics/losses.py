"""What a prediction costs."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.scalars import check_word
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import as_floats
from evenhand.dual.costs import Squared
from evenhand.metrics._inputs import (
    as_prediction,
    as_vector,
    as_weights,
    checked_blocks,
    needed_atoms,
    within_reach,
)

MOST_TRIED = 256  # constants, where nothing is known of a loss

Loss: TypeAlias = str | Callable[[FloatArray, FloatArray], AnyArray]

expected_losses = Squared().expected  # squared errors of each row, from its pmf, its target and the atoms
LOSSES: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "squared": lambda y_true, values: (values - y_true) ** 2,
    "absolute": lambda y_true, values: np.abs(values - y_true),
    "zero_one": lambda y_true, values: (values != y_true).astype(np.float64),
}


def risk(
    y_true: ArrayLike,
    pmf_or_values: ArrayLike,
    atoms: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    loss: Loss = "squared",
) -> float:
    """Expected loss of a randomised prediction (paper, "Evaluation measures").

        1/n sum_i sum_l pi(l | x_i) loss(y_i, y_l)

    `risk(y_true, y_pred, sample_weight=...)` is a metric that fairlearn's `MetricFrame` takes as it is.

    Parameters
    ----------
    y_true : array of shape (n,)
        Observed targets.
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one predicted value for each row.
    atoms : array of shape (n_atoms,), optional
        Value of each column; needed with a pmf, not read with values.
    sample_weight : array of shape (n,), optional
        Weight of each row.
    loss : {"squared", "absolute", "zero_one"} or callable, default="squared"
        A callable `loss(y_true, values)` works elementwise on two arrays of one shape, which has two
        dimensions (rows, atoms) for a pmf.

    Examples
    --------
    >>> from evenhand.metrics import risk
    >>> risk([0.0, 1.0], [[0.5, 0.5], [0.0, 1.0]], atoms=[0.0, 1.0])
    0.25
    >>> risk([0.0, 1.0], [1.0, 1.0])
    0.5
    >>> risk([0.0, 4.0], [1.0, 1.0], loss="absolute")
    2.0
    """
    losses = row_losses(y_true, pmf_or_values, atoms, loss)
    return float(np.average(losses, weights=as_weights(sample_weight, len(losses))))


def constant_risk(
    y_true: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    loss: Loss = "squared",
    atoms: ArrayLike | None = None,
) -> float:
    """Risk of the best prediction that is the same for everybody, which is at parity and knows nothing.

    A model's `1 - risk / constant_risk` is what it gains over that: R^2 where the loss is squared.

    Parameters
    ----------
    y_true : array of shape (n,)
    sample_weight : array of shape (n,), optional
    loss : {"squared", "absolute", "zero_one"} or callable, default="squared"
        As in `risk`.
    atoms : array of shape (n_atoms,), optional
        Constants to choose from, for losses other than squared. By default the targets, or 256 quantiles.

    Examples
    --------
    >>> from evenhand.metrics import constant_risk
    >>> constant_risk([0.0, 2.0, 4.0]), constant_risk([0.0, 0.0, 1.0], loss="zero_one")
    (2.6666666666666665, 0.3333333333333333)
    """
    target = within_reach("y_true", as_vector("y_true", y_true))
    weights = as_weights(sample_weight, len(target))
    if isinstance(loss, str) and loss == "squared":
        tried = np.array([np.average(target, weights=weights)])
    elif atoms is not None:
        tried = within_reach("atoms", as_vector("atoms", atoms))
    else:  # the best of most losses is a target itself
        tried = np.unique(target)
        if len(tried) > MOST_TRIED:
            tried = np.quantile(target, np.linspace(0.0, 1.0, MOST_TRIED + 1))
    function = _as_loss(loss)
    losses = (_elementwise(function, target, np.full(len(target), value)) for value in tried)
    return float(min(np.average(each, weights=weights) for each in losses))


def row_losses(
    y_true: ArrayLike, pmf_or_values: ArrayLike, atoms: ArrayLike | None = None, loss: Loss = "squared"
) -> FloatArray:
    """Expected loss of each row, (n_rows,)."""
    prediction = as_prediction(pmf_or_values)
    target = within_reach("y_true", as_vector("y_true", y_true, len(prediction)))
    function = _as_loss(loss)
    if prediction.ndim == 1:
        return _elementwise(function, target, prediction)
    grid = needed_atoms("risk", atoms, prediction.shape[1])
    losses = np.empty(len(prediction))
    for rows, block in checked_blocks(prediction):
        if loss == "squared":
            losses[rows] = expected_losses(block, target[rows], grid)
        else:
            values = np.broadcast_to(grid, block.shape)
            truth = np.broadcast_to(target[rows, None], block.shape)
            losses[rows] = np.einsum("ij,ij->i", block, _elementwise(function, truth, values))
    return losses


def _as_loss(loss: Loss) -> Callable[[FloatArray, FloatArray], AnyArray]:
    if callable(loss):
        return loss
    return LOSSES[check_word(loss, "loss", LOSSES)]


def _elementwise(
    function: Callable[[FloatArray, FloatArray], AnyArray], truth: FloatArray, values: FloatArray
) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        try:
            given = function(truth, values)
        except Exception as error:
            raise ValueError(f"loss(y_true, values) failed: {type(error).__name__}: {error}") from error
        losses = as_floats(given, "loss")
    if losses.shape != values.shape:
        raise ValueError(
            f"loss must return one number for each pair of its arguments: got shape {losses.shape} "
            f"for arguments of shape {values.shape}."
        )
    if not np.isfinite(losses).all():
        raise ValueError(
            "loss returned NaN or infinite numbers; are targets and predictions too large to be squared? "
            "Use other units."
        )
    return losses
