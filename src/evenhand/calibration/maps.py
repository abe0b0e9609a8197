"""Maps from group probabilities to calibrated ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize, minimize_scalar
from sklearn.isotonic import IsotonicRegression

from evenhand._utils.stored import Stored, is_finite
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.calibration.rows import KnownRows, as_proba, check_known_rows, divide_by_sum, log

METHODS = ("isotonic", "sigmoid", "temperature")

TEMPERATURES = (0.01, 100.0)  # a temperature is looked for between these
# Pull of the sigmoid towards identity, in rows. As in Platt's smoothed targets, a fixed small number of
# rows: it keeps separable data finite, and any others hardly notice.
RIDGE = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Calibrator(Stored):
    """A map from group probabilities to calibrated ones, `softmax(a_s log tau_s + b_s)` or isotonic.

    It holds arrays and a string only. A row's answer does not depend on the rows beside it.
    """

    method: str
    group_prior: FloatArray  # share of each group at fit, (n_groups,); for rows that isotonic maps to zeros
    slopes: FloatArray  # a, (n_groups,); ones where the method is isotonic
    offsets: FloatArray  # b, (n_groups,); zeros where the method is isotonic
    knots_x: FloatArray  # knots of all groups, one group after another; empty unless isotonic
    knots_y: FloatArray
    knot_starts: IntArray  # group s has the knots [starts[s], starts[s + 1]), (n_groups + 1,)

    def faults(self) -> Iterator[str]:
        """A known method, and slopes, offsets and knots of the same groups."""
        if self.method not in METHODS:
            yield f"its method is none of {', '.join(METHODS)}"
        if not is_finite(self.group_prior, None) or not np.all(self.group_prior > 0):
            yield "its prior is not a list of positive numbers"
        n_groups = len(self.group_prior)
        if not is_finite(self.slopes, n_groups) or not is_finite(self.offsets, n_groups):
            yield "its slopes and offsets are not one number for each group"
        if not is_finite(self.knots_x, None) or not is_finite(self.knots_y, len(self.knots_x)):
            yield "its knots are not pairs of numbers"
        elif len(self.knots_y) and not 0 <= self.knots_y.min() <= self.knots_y.max() <= 1:
            yield "its knots are not probabilities"
        starts, least = self.knot_starts, int(self.method == "isotonic")
        if starts.dtype != np.int64 or starts.shape != (n_groups + 1,):
            yield "its knots do not begin somewhere for each group"
        elif starts[0] != 0 or starts[-1] != len(self.knots_x) or np.diff(starts).min() < least:
            yield "its knots are not dealt out to its groups"
        elif any(np.diff(self.knots_x[first:last]).min(initial=0) < 0 for first, last in pairwise(starts)):
            yield "its knots do not increase"

    @property
    def temperature(self) -> float:
        """T of `softmax(log tau / T)`, where the slopes of all groups are one number; else nan."""
        shared = self.method == "temperature"
        return float(1.0 / self.slopes[0]) if shared else float("nan")

    def __call__(self, group_proba: ArrayLike) -> FloatArray:
        """Calibrated probabilities, shape (n_rows, n_groups)."""
        proba = as_proba(group_proba)
        if proba.shape[1] != len(self.group_prior):
            raise ValueError(
                f"group_proba has {proba.shape[1]} columns, but the calibrator was fitted with "
                f"{len(self.group_prior)} groups."
            )
        if self.method == "isotonic":
            return divide_by_sum(self._interpolate(proba), self.group_prior)
        logits = self.slopes * log(proba) + self.offsets
        return divide_by_sum(np.exp(logits - logits.max(axis=1, keepdims=True)), self.group_prior)

    def _interpolate(self, proba: FloatArray) -> FloatArray:
        mapped = np.empty_like(proba)
        for group, (start, stop) in enumerate(zip(self.knot_starts, self.knot_starts[1:], strict=False)):
            mapped[:, group] = np.interp(proba[:, group], self.knots_x[start:stop], self.knots_y[start:stop])
        return mapped


def fit_calibrator(
    method: str, group_proba: ArrayLike, codes: ArrayLike, sample_weight: ArrayLike | None = None
) -> Calibrator:
    """Learn to calibrate group probabilities from rows whose group is known.

        temperature   softmax(log tau_s / T)
        sigmoid       softmax(a_s log tau_s + b_s); two groups share one slope: Platt's map of the log-odds
        isotonic      a nondecreasing map of each tau_s, then each row is divided by its sum

    The first two maximise the likelihood, after probabilities below 1e-6 are raised to that. Temperature
    has one number to learn and mends a classifier that is too sure or too shy; sigmoid mends wrong
    shares too (the mean of each calibrated column is the share of its group); isotonic mends any monotone
    distortion, wants about a thousand rows of the smallest group, and is the one for classifiers that
    count, such as neighbours and trees, whose exact zeros have no log.

    Parameters
    ----------
    method : "sigmoid", "isotonic" or "temperature"
    group_proba : array of shape (n_rows, n_groups)
        Out-of-fold probabilities: the classifier must not have been fitted on the row it scores.
    codes : array of shape (n_rows,)
        Group of each row, as its column of `group_proba`.
    sample_weight : array of shape (n_rows,), optional

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.calibration import fit_calibrator
    >>> too_sure = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9], [0.1, 0.9]])
    >>> calibrator = fit_calibrator("temperature", too_sure, [0, 0, 1, 1, 1, 0])
    >>> calibrator([[0.9, 0.1]]).round(3)
    array([[0.667, 0.333]])
    """
    if method not in METHODS:
        raise ValueError(f"Unknown calibration {method!r}. Valid names: {', '.join(METHODS)}.")
    known = check_known_rows(group_proba, codes, sample_weight)
    n_groups = known.n_groups
    slopes, offsets = np.ones(n_groups), np.zeros(n_groups)
    knots = [(np.empty(0), np.empty(0))] * n_groups
    if method == "temperature":
        slopes = np.full(n_groups, 1.0 / _best_temperature(known))
    elif method == "sigmoid":
        slopes, offsets = _best_scaling(known)
    else:
        knots = [_isotonic_knots(known, group) for group in range(n_groups)]
    return Calibrator(
        method=method,
        group_prior=known.shares(),
        slopes=slopes,
        offsets=offsets,
        knots_x=np.concatenate([x for x, _ in knots]),
        knots_y=np.concatenate([y for _, y in knots]),
        knot_starts=np.cumsum([0, *(len(x) for x, _ in knots)], dtype=np.int64),
    )


def _best_temperature(known: KnownRows) -> float:
    logs = log(known.proba)

    def loss(log_temperature: float) -> float:
        log_shares, _ = _log_softmax(logs * np.exp(-log_temperature))
        return _loss(log_shares, known)

    best = minimize_scalar(
        loss, bounds=np.log(TEMPERATURES), method="bounded", options={"xatol": 1e-9, "maxiter": 200}
    )
    return float(np.exp(best.x))


def _best_scaling(known: KnownRows) -> tuple[FloatArray, FloatArray]:
    """Slopes and offsets of the largest penalised likelihood, by Newton steps in a trust region."""
    logs, size = log(known.proba), known.n_groups
    hits = (known.codes[:, None] == np.arange(size)).astype(np.float64)
    # two groups have one log-odds, hence one slope
    ties = np.ones((size, 1)) if size == 2 else np.eye(size)
    spread = np.zeros((2 * size, ties.shape[1] + size))  # what is searched -> (slopes, offsets)
    spread[:size, : ties.shape[1]] = ties
    spread[size:, ties.shape[1] :] = np.eye(size)
    identity = np.concatenate([np.ones(ties.shape[1]), np.zeros(size)])
    pull = RIDGE / known.n_rows

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        slopes, offsets = np.split(spread @ point, 2)
        log_shares, shares = _log_softmax(slopes * logs + offsets)
        errors = known.weights[:, None] * (shares - hits)
        slope = spread.T @ np.concatenate([(errors * logs).sum(axis=0), errors.sum(axis=0)])
        away = point - identity
        return _loss(log_shares, known) + 0.5 * pull * float(away @ away), slope + pull * away

    def curvature(point: FloatArray) -> FloatArray:
        slopes, offsets = np.split(spread @ point, 2)
        _, shares = _log_softmax(slopes * logs + offsets)
        weighted = known.weights[:, None] * shares
        features = np.concatenate([shares * logs, shares], axis=1)
        full = -features.T @ (known.weights[:, None] * features)
        squares, products, sums = (np.diag((weighted * logs**power).sum(axis=0)) for power in (2, 1, 0))
        full += np.block([[squares, products], [products, sums]])
        searched: FloatArray = spread.T @ full @ spread + pull * np.eye(len(point))
        return searched

    best = minimize(loss, identity, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-8})
    slopes, offsets = np.split(spread @ best.x, 2)
    return slopes, offsets


def _isotonic_knots(known: KnownRows, group: int) -> tuple[FloatArray, FloatArray]:
    fit = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    fit.fit(known.proba[:, group], known.codes == group, sample_weight=known.weights * known.n_rows)
    return np.asarray(fit.X_thresholds_, dtype=np.float64), np.asarray(fit.y_thresholds_, dtype=np.float64)


def _log_softmax(logits: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log of the softmax of each row, and the softmax."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted, np.exp(shifted)


def _loss(log_shares: FloatArray, known: KnownRows) -> float:
    return -float(known.weights @ log_shares[np.arange(known.n_rows), known.codes])
