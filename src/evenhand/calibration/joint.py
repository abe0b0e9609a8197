"""Joint recalibration: predict the outcome and the group from the outputs of both models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.linear_model import Ridge

from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import check_weights
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.grid import range_without_outliers

JOINT = "joint"  # name of this calibration
# Lower limit of probabilities before a log is taken, so that 0 has large but finite log-odds. With a smaller
# limit the exact zeros of some classifiers (neighbors, trees) dominate the fit; with a larger one the ratio
# `tau / p` of rare groups changes.
PROBA_FLOOR = 1e-6

# On Adult, where a logistic model fits poorly, degrees 1 and 2 do not improve the accuracy at a given level
# of parity, degree 3 improves it by 0.001, and degree 4 by no more.
MOST_DEGREE = 3
MOST_TERMS = 60  # five inputs at degree 3 have 56 terms with the constant; otherwise the degree is lower
# Rows of the smallest group per term. With five groups, the smallest of 150 rows, degree 1 left less than
# half of the distance on new rows that degree 3 left; degree 3 still left less than no map.
LEAST_ROWS_PER_TERM = 40
# L2 penalty, in rows: the default of ridge and logistic regression in scikit-learn.
PENALTY = 1.0
MOST_COEFFICIENTS = 600  # maximum per map: the cost of a Newton step is cubic in this number
MOST_POWER = 10  # maximum power of an input in a map from a file, far above the fitted degrees
# Minimum gain of a map on held-out rows, in standard errors divided by the root of its number of
# coefficients. Many coefficients overfit more, so a small gain on held-out rows is stronger evidence for
# them: nine coefficients need half a standard error, two need one. Exact models then get a map in 1 of 30
# fits. One standard error for all maps would miss some that are needed to keep epsilon on new data.
LEAST_GAIN = 1.5
# Rows per coefficient from which a map is kept without a test. Sampling noise then changes the distance of a
# group by about 0.001; the test would still miss errors of 0.003 to 0.007 (`make bench ONLY=exact`).
ENOUGH_ROWS = 10_000
# Of the logistic regression, by Newton steps
MAX_STEPS = 50
MAX_HALVINGS = 20
# Gain in the mean loss below which a step is the last one; the gain is about squared at each step.
SMALLEST_GAIN = 1e-6
LEAST_SHARE = 1e-15  # minimum share of a class among all rows
LARGEST_LOGIT = 500.0  # its exponential is finite, and its probability is one up to rounding
EVERY_ROW = slice(None)  # avoids a copy of very many rows


@dataclass(frozen=True, slots=True, eq=False)
class JointCalibrator(Stored):
    """Recalibration map: a polynomial in the outputs of both models, with a softmax or added to the score.

    Inputs are clipped to their range in the fit, without extreme outliers, so that nothing is extrapolated.
    The map consists of arrays and a string only. The result for a row does not depend on other rows.
    """

    link: str  # "softmax": the result is probabilities; "shift": it is added to the first input
    low: FloatArray  # range of the inputs in the fit, (n_inputs,) like the next three
    high: FloatArray
    centre: FloatArray
    scale: FloatArray
    powers: IntArray  # power of each input in each term, (n_terms, n_inputs)
    coefficients: FloatArray  # (n_outputs, n_terms)
    offsets: FloatArray  # (n_outputs,)

    def faults(self) -> Iterator[str]:
        """Check the shapes and values of the scales, powers, coefficients and offsets."""
        scales, powers = (self.low, self.high, self.centre, self.scale), self.powers
        if self.link not in ("softmax", "shift"):
            yield "its link is neither softmax nor shift"
        elif not isinstance(powers, np.ndarray) or powers.dtype != np.int64 or powers.ndim != 2:
            yield "its powers are not a table of integers"
        elif not powers.size or powers.min() < 0 or powers.sum(axis=1).min() < 1 or powers.max() > MOST_POWER:
            yield "its powers are not those of terms"
        elif not all(is_floats(scale, powers.shape[1]) for scale in scales):
            yield "its scales are not one number for each input"
        elif not is_floats(self.coefficients, None, None) or not is_floats(self.offsets, None):
            yield "its coefficients are not arrays of numbers"
        elif self.coefficients.shape != (len(self.offsets), len(powers)) or not len(self.offsets):
            yield "the shapes of its coefficients do not agree"
        elif not all(np.isfinite(part).all() for part in (*scales, self.coefficients, self.offsets)):
            yield "its numbers are not finite"
        elif self.scale.min() <= 0:
            yield "its scales are not positive"
        elif np.any(self.low > self.high):
            yield "its lower bounds are above its upper ones"

    def __call__(self, inputs: FloatArray) -> FloatArray:
        """Return probabilities, (n_rows, n_outputs), or scores, (n_rows,), for rows of `joint_inputs`."""
        if inputs.ndim != 2 or inputs.shape[1] != len(self.low):
            raise ValueError(
                f"inputs has shape {inputs.shape}, but the calibrator was fitted with {len(self.low)} "
                "columns."
            )
        values = np.repeat(self.offsets[:, None], len(inputs), axis=1)
        standard = _standardise(inputs, self.low, self.high, self.centre, self.scale)
        for term, slopes in zip(_terms(standard, self.powers), self.coefficients.T, strict=True):
            for value, slope in zip(values, slopes, strict=True):  # one by one: BLAS sums by batch
                value += slope * term
        if self.link == "shift":
            shifted: FloatArray = inputs[:, 0] + values[0]
            return shifted
        return _softmax(values)


def joint_inputs(scores: FloatArray, group_proba: Sequence[FloatArray]) -> FloatArray:
    """Return the outputs of the models as unbounded inputs of the maps.

    Class and group probabilities become log-ratios to their first column, after values below 1e-6 are raised
    to 1e-6. Scores of shape (n_rows,) are not changed, and come first.

    Parameters
    ----------
    scores : array of shape (n_rows,) or (n_rows, n_classes)
        Scores, or class probabilities.
    group_proba : sequence of arrays of shape (n_rows, n_groups)
        Group probabilities of each model of the group.

    Returns
    -------
    inputs : array of shape (n_rows, n_inputs)
        One row of inputs for each row.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.calibration import joint_inputs
    >>> joint_inputs(np.array([3.0]), [np.array([[0.2, 0.8]])]).round(2)
    array([[3.  , 1.39]])
    """
    first = scores[:, None] if scores.ndim == 1 else _log_ratios(scores)
    return np.hstack([first, *map(_log_ratios, group_proba)])


@dataclass(frozen=True, slots=True, eq=False)
class JointRows:
    """Labeled rows for fitting maps, with the polynomial terms that all fits share."""

    inputs: FloatArray  # (n_rows, n_inputs)
    weights: FloatArray  # (n_rows,), of mean one
    low: FloatArray  # (n_inputs,) as the next three
    high: FloatArray
    centre: FloatArray
    scale: FloatArray
    powers: IntArray  # (n_terms, n_inputs)
    term_centre: FloatArray  # (n_terms,)
    term_scale: FloatArray
    design: FloatArray  # ones and standardized terms, (1 + n_terms, n_rows)

    @classmethod
    def of(
        cls, inputs: FloatArray, sample_weight: ArrayLike | None = None, n_smallest: int | None = None
    ) -> "JointRows":
        """Standardize the inputs and their products.

        Parameters
        ----------
        inputs : array of shape (n_rows, n_inputs)
            `joint_inputs` of held-out rows: outputs of models that were not fitted on them.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows. None: all rows have the same weight.
        n_smallest : int, default=None
            Number of rows of the smallest group, which limits the degree. None: the number of rows.
        """
        n_rows = len(inputs)
        weights = np.ones(n_rows) if sample_weight is None else n_rows * check_weights(sample_weight, n_rows)
        ends = np.array([range_without_outliers(column) for column in inputs.T]).T
        low, high = np.clip(ends, -FARTHEST, FARTHEST)
        centre, scale = _centre_and_scale(np.ascontiguousarray(np.clip(inputs, low, high).T), weights)
        flat = high - low <= 1e-11 * np.abs(centre)  # rounding errors, which scaling would amplify
        low, high = np.where(flat, centre, low), np.where(flat, centre, high)
        powers = _choose_powers(inputs.shape[1], n_rows if n_smallest is None else n_smallest)
        design = _design(_standardise(inputs, low, high, centre, scale), powers)
        term_centre, term_scale = _centre_and_scale(design[1:], weights)
        design[1:] -= term_centre[:, None]
        design[1:] /= term_scale[:, None]
        return cls(inputs, weights, low, high, centre, scale, powers, term_centre, term_scale, design)

    def on(self, inputs: FloatArray, sample_weight: ArrayLike | None = None) -> "JointRows":
        """Return other rows with the same terms and scales, so that their fits can start from fits of these.

        Parameters
        ----------
        inputs : array of shape (n_rows, n_inputs)
            `joint_inputs` of the other rows.
        sample_weight : array of shape (n_rows,), default=None
            Weights of the rows. None: all rows have the same weight.
        """
        n_rows = len(inputs)
        weights = np.ones(n_rows) if sample_weight is None else n_rows * check_weights(sample_weight, n_rows)
        standard = _standardise(inputs, self.low, self.high, self.centre, self.scale)
        design = _design(standard, self.powers)
        design[1:] -= self.term_centre[:, None]
        design[1:] /= self.term_scale[:, None]
        return replace(self, inputs=inputs, weights=weights, design=design)

    def cross_fit(
        self, target: AnyArray, outputs: FloatArray, folds: Sequence[IntArray], n_rows: int | None = None
    ) -> "JointFit | None":
        """Fit a map from the inputs to `target`, and return it if it helps on held-out rows.

        It helps if maps that were fitted without a fold have a smaller loss on that fold than the outputs, by
        more than sampling noise: half a standard error over all folds for nine coefficients, one standard
        error for two. With very many rows overfitting is negligible, and the map is returned without this
        test. With very many groups there is no map. The loss is the squared error for scores and the log loss
        for probabilities.

        Parameters
        ----------
        target : array of shape (n_rows,)
            Numeric outcomes, or the position of the row's class or group among the columns of `outputs`.
        outputs : array of shape (n_rows,) or (n_rows, n_columns)
            Scores or probabilities of the model that the map recalibrates.
        folds : list of arrays of rows
            Each fold has the rows that the same model scored. New rows are scored by another model, so the
            map is tested on folds whose model it was not fitted to.
        n_rows : int, default=None
            Number of rows on which the final map is fitted, if these rows are a sample. None: these rows.

        Returns
        -------
        fit : JointFit or None
            The map and its versions without each fold. None if there is no map.
        """
        if (
            outputs.ndim == 1 and np.abs(outputs).max() > FARTHEST
        ):  # the squares of such scores are not finite
            return None
        n_coefficients = len(self.design) * (1 if outputs.ndim == 1 else outputs.shape[1] - 1)
        enough = (n_rows or len(target)) >= ENOUGH_ROWS * n_coefficients
        rests = [_without(len(target), fold) for fold in folds]
        if n_coefficients > MOST_COEFFICIENTS or not all(
            self._has_all(target, outputs, rest) for rest in rests
        ):
            return None
        found = self._fit(target, outputs, np.arange(len(target)))
        without = [self._fit(target, outputs, rest, found) for rest in rests]
        if not enough and not self._helps(target, outputs, folds, without):
            return None
        maps = [self._calibrator(coefficients, outputs) for coefficients in without]
        return JointFit(self._calibrator(found, outputs), maps, found)

    def fit(self, target: AnyArray, outputs: FloatArray, start: "JointFit | None" = None) -> JointCalibrator:
        """Fit a map from the inputs to `target` and return it without a test.

        Parameters
        ----------
        target : array of shape (n_rows,)
            Numeric outcomes, or the position of the row's class or group among the columns of `outputs`.
        outputs : array of shape (n_rows,) or (n_rows, n_columns)
            Scores or probabilities of the model that the map recalibrates.
        start : JointFit, default=None
            Fit on the rows from which these rows were made by `on`, as a starting point.

        Returns
        -------
        calibrator : JointCalibrator
            The fitted map.
        """
        found = None if start is None else start.coefficients
        return self._calibrator(self._fit(target, outputs, EVERY_ROW, found), outputs)

    def _helps(
        self, target: AnyArray, outputs: FloatArray, folds: Sequence[IntArray], without: Sequence[FloatArray]
    ) -> bool:
        """Whether maps that were fitted without each fold have a smaller loss on that fold."""
        held_out = np.empty_like(outputs)
        for fold, coefficients in zip(folds, without, strict=True):
            held_out[fold] = self._mend(coefficients, outputs, fold)
        gain = self.weights * (_losses(target, outputs) - _losses(target, held_out))
        gain /= max(float(np.abs(gain).max()) / FARTHEST, 1.0)  # so that its squares are finite
        n_coefficients = without[0][:, 1:].size
        return bool(gain.mean() > LEAST_GAIN * gain.std() / np.sqrt(n_coefficients * len(gain)))

    def _has_all(self, target: AnyArray, outputs: FloatArray, rows: IntArray) -> bool:
        """Whether there are rows, and for probabilities rows of every class or group."""
        if outputs.ndim == 1:
            return len(rows) > 0
        return bool(np.bincount(target[rows], minlength=outputs.shape[1]).min() > 0)

    def _fit(
        self, target: AnyArray, outputs: FloatArray, rows: IntArray | slice, start: FloatArray | None = None
    ) -> FloatArray:
        """Fit the coefficients of the design, (n_outputs, 1 + n_terms), on some of its rows."""
        design, weights = self.design[:, rows], self.weights[rows]
        if outputs.ndim == 2:
            return fit_logistic(design, target[rows], outputs.shape[1], weights, PENALTY, start)
        missing = target[rows] - outputs[rows]
        ridge = Ridge(alpha=PENALTY).fit(design[1:].T, missing, sample_weight=weights)
        return np.concatenate([[ridge.intercept_], ridge.coef_])[None]

    def _mend(self, found: FloatArray, outputs: FloatArray, rows: IntArray) -> FloatArray:
        """Apply the map with these coefficients to some of the rows."""
        values = found @ self.design[:, rows]
        if outputs.ndim == 1:
            shifted: FloatArray = outputs[rows] + values[0]
            return shifted
        return _softmax(np.vstack([np.zeros_like(values[:1]), values]))

    def _calibrator(self, found: FloatArray, outputs: FloatArray) -> JointCalibrator:
        """Return the map with coefficients for the terms before standardization."""
        slopes = found[:, 1:] / self.term_scale
        offsets = found[:, 0] - slopes @ self.term_centre
        link = "shift"
        if outputs.ndim == 2:  # the first column is the reference category
            link = "softmax"
            slopes, offsets = np.vstack([np.zeros_like(slopes[:1]), slopes]), np.append(0.0, offsets)
        return JointCalibrator(
            link, self.low, self.high, self.centre, self.scale, self.powers, slopes, offsets
        )


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """A map, and its versions that were fitted without each fold."""

    calibrator: JointCalibrator
    without: list[JointCalibrator]
    coefficients: FloatArray  # coefficients of the design, (n_outputs, 1 + n_terms)


def _losses(target: AnyArray, outputs: FloatArray) -> FloatArray:
    """Return the loss of each row."""
    if outputs.ndim == 1:
        return (target - outputs) ** 2
    return -log(outputs[np.arange(len(outputs)), target])


def _without(n_rows: int, fold: IntArray) -> IntArray:
    """Return all rows except those of a fold."""
    kept = np.ones(n_rows, bool)
    kept[fold] = False
    return np.flatnonzero(kept)


def _choose_powers(n_inputs: int, n_smallest: int) -> IntArray:
    """Return the powers of all terms up to the highest degree that the number of rows allows."""
    most = min(MOST_TERMS, n_smallest // LEAST_ROWS_PER_TERM)
    degree = MOST_DEGREE
    while degree > 1 and comb(n_inputs + degree, degree) > most:
        degree -= 1
    products = [
        places
        for size in range(1, degree + 1)
        for places in combinations_with_replacement(range(n_inputs), size)
    ]
    return np.array([np.bincount(places, minlength=n_inputs) for places in products])


def _terms(standard: FloatArray, powers: IntArray) -> Iterator[FloatArray]:
    """Yield the terms one by one: products of the inputs, (n_inputs, n_rows)."""
    for exponents in powers:
        factors = [standard[place] for place in np.repeat(np.arange(len(exponents)), exponents)]
        term = factors[0]
        for factor in factors[1:]:
            term = term * factor
        yield term


def _design(standard: FloatArray, powers: IntArray) -> FloatArray:
    """Return ones and the terms, (1 + n_terms, n_rows)."""
    design = np.ones((1 + len(powers), standard.shape[1]))
    for place, term in enumerate(_terms(standard, powers)):
        design[1 + place] = term
    return design


def _standardise(
    inputs: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray, scale: FloatArray
) -> FloatArray:
    """Clip the inputs to their range and scale them by mean and spread of the fit, (n_inputs, n_rows)."""
    return np.ascontiguousarray(((np.clip(inputs, low, high) - centre) / scale).T)


def _centre_and_scale(columns: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (one if constant) of each of the columns, (n_columns, n_rows)."""
    centre = columns @ weights / len(weights)
    spread = np.sqrt((columns - centre[:, None]) ** 2 @ weights / len(weights))
    return centre, np.where(spread > 1e-12 * np.abs(centre), spread, 1.0)


def _softmax(logits: FloatArray) -> FloatArray:
    """Return probabilities, (n_rows, n_outputs), from logits, (n_outputs, n_rows)."""
    return divide_by_sum(np.ascontiguousarray(np.exp(logits - logits.max(axis=0)).T))


def _log_ratios(proba: FloatArray) -> FloatArray:
    logs = log(proba)
    return logs[:, 1:] - logs[:, :1]


def log(proba: FloatArray) -> FloatArray:
    """Return the natural logarithm of probabilities, after values below 1e-6 are raised to 1e-6."""
    return np.log(np.maximum(proba, PROBA_FLOOR))


def divide_by_sum(values: FloatArray, fallback: FloatArray | float = 0.0) -> FloatArray:
    """Divide each row by its sum, added column by column so that a row does not depend on its batch."""
    total = values[:, 0].copy()
    for column in range(1, values.shape[1]):
        total += values[:, column]
    empty = total == 0
    shares: FloatArray = values / np.where(empty, 1.0, total)[:, None]
    shares[empty] = fallback
    return shares


def fit_logistic(
    design: FloatArray,
    codes: IntArray,
    n_classes: int,
    weights: FloatArray,
    penalty: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """Return the coefficients of all classes except the first, (n_classes - 1, n_terms).

    They minimize `sum_i w_i -log softmax(0, z_i)[codes_i] + penalty / 2 |coefficients|^2`, where
    `z = coefficients @ design` and the design has shape (n_terms, n_rows). Its first term is all ones; the
    coefficients of this term are not penalized.

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
        except LinAlgError:  # the curvature is numerically singular
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
    """Return coefficients that predict the shares of the classes for every row."""
    masses = hits @ weights
    point = np.zeros((len(hits), n_terms))
    rest = weights.sum() - masses.sum()  # mass of the first class, which can be zero or less after rounding
    least = LEAST_SHARE * weights.sum()
    point[:, 0] = np.log(np.maximum(masses, least) / max(rest, least))
    return point


def _loss(
    design: FloatArray, hits: AnyArray, weights: FloatArray, pull: FloatArray, point: FloatArray
) -> tuple[float, FloatArray]:
    """Return the penalized loss, and the probabilities of all classes except the first."""
    logits = np.minimum(point @ design, LARGEST_LOGIT)
    proba = np.exp(logits)
    total = proba.sum(axis=0) + 1.0
    proba /= total
    loss = weights @ np.log(total) - ((hits * logits) @ weights).sum()
    return float(loss + 0.5 * (pull * point**2).sum()), proba


def _curvature(design: FloatArray, weights: FloatArray, proba: FloatArray, pull: FloatArray) -> FloatArray:
    """Return the matrix of second derivatives, (n_coefficients, n_coefficients)."""
    n_classes, size = len(proba), len(design)
    full = np.empty((n_classes, size, n_classes, size))
    for one in range(n_classes):
        for other in range(one + 1):
            factor = weights * proba[one] * ((one == other) - proba[other])
            full[one, :, other] = full[other, :, one] = (design * factor) @ design.T
        full[one, :, one] += np.diag(pull)
    return full.reshape(n_classes * size, n_classes * size)
