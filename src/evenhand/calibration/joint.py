"""Maps to the outcome, and to the group, given what both models say of a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import Ridge

from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import check_weights
from evenhand.calibration.logistic import fit_logistic
from evenhand.calibration.rows import divide_by_sum, log
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.grid import range_without_outliers

JOINT = "joint"  # this calibration's name among the others

# On Adult, where a logistic model is a poor one, degrees 1 and 2 gain nothing in accuracy at a given parity,
# 3 gains 0.001 and 4 no more than that.
MOST_DEGREE = 3
MOST_TERMS = 60  # five inputs at degree 3 have 56, the constant counted; beyond, the degree is lower
# Rows of the smallest group for each term. Of five groups, the smallest of 150 rows, degree 1 left less than
# half of the distance on new rows that degree 3 left, and that was less than without a map.
LEAST_ROWS_PER_TERM = 40
# Pull of the coefficients to zero, in rows: what ridge and logistic regression have by default.
PENALTY = 1.0
MOST_COEFFICIENTS = 600  # of one map: Newton's steps take the cube of their number
MOST_POWER = 10  # of an input in one term of a map that a file brings: far beyond what is fitted
# Of a map that is kept, on rows that it has not seen, in standard errors over the root of its coefficients.
# Chance costs many coefficients more than few: nine need half an error, two a whole one, and exact models
# then get a map in one of thirty fits. With a whole one for all, some that keep a promise are missed.
LEAST_GAIN = 1.5
# Rows for each coefficient of a map that is kept untested. Chance then moves a group by some .001, where a
# test still overlooks models by which it is .003 to .007 off (`make bench ONLY=exact`).
ENOUGH_ROWS = 10_000
EVERY_ROW = slice(None)  # of very many, of which no copy is to be made


@dataclass(frozen=True, slots=True, eq=False)
class JointCalibrator(Stored):
    """A polynomial in what both models say of a row: its softmax, or the score and itself added up.

    Inputs beyond those of the fit count as the farthest that it saw, but for far outliers, so that nothing
    is extrapolated.
    It holds arrays and a string only. A row's answer does not depend on the rows beside it.
    """

    link: str  # "softmax": probabilities; "shift": a number that is added to the first input
    low: FloatArray  # range of the inputs at fit, (n_inputs,) as the next three
    high: FloatArray
    centre: FloatArray
    scale: FloatArray
    powers: IntArray  # of each input in each term, (n_terms, n_inputs)
    coefficients: FloatArray  # (n_outputs, n_terms)
    offsets: FloatArray  # (n_outputs,)

    def faults(self) -> Iterator[str]:
        """A polynomial in as many inputs as there are scales for, with coefficients for every term."""
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
        """Probabilities, (n_rows, n_outputs), or scores, (n_rows,), of rows of `joint_inputs`."""
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
    """What the models say of rows, in numbers without bounds, (n_rows, n_inputs).

    Class probabilities, and those of each model of the group, become log-ratios to their first column, after
    any below 1e-6 are raised to that; scores of shape (n_rows,) stay as they are, and come first.

    Parameters
    ----------
    scores : array of shape (n_rows,) or (n_rows, n_classes)
        Scores, or class probabilities.
    group_proba : sequence of arrays of shape (n_rows, n_groups)
        One array for each model of the group.

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
    """Labelled rows to fit such maps on, with terms that all of the fits share."""

    inputs: FloatArray  # (n_rows, n_inputs)
    weights: FloatArray  # (n_rows,), of mean one
    low: FloatArray  # (n_inputs,) as the next three
    high: FloatArray
    centre: FloatArray
    scale: FloatArray
    powers: IntArray  # (n_terms, n_inputs)
    term_centre: FloatArray  # (n_terms,)
    term_scale: FloatArray
    design: FloatArray  # ones and standardised terms, (1 + n_terms, n_rows)

    @classmethod
    def of(
        cls, inputs: FloatArray, sample_weight: ArrayLike | None = None, n_smallest: int | None = None
    ) -> "JointRows":
        """Standardise the inputs and their products.

        Parameters
        ----------
        inputs : array of shape (n_rows, n_inputs)
            `joint_inputs` of rows by models that were not fitted on them.
        sample_weight : array of shape (n_rows,), optional
        n_smallest : int, optional
            Rows of the smallest group: the fewer they are, the lower is the degree. All rows by default.
        """
        n_rows = len(inputs)
        weights = np.ones(n_rows) if sample_weight is None else n_rows * check_weights(sample_weight, n_rows)
        ends = np.array([range_without_outliers(column) for column in inputs.T]).T
        low, high = np.clip(ends, -FARTHEST, FARTHEST)
        centre, scale = _centre_and_scale(np.ascontiguousarray(np.clip(inputs, low, high).T), weights)
        flat = high - low <= 1e-11 * np.abs(centre)  # rounding, which would be scaled up to a signal
        low, high = np.where(flat, centre, low), np.where(flat, centre, high)
        powers = _choose_powers(inputs.shape[1], n_rows if n_smallest is None else n_smallest)
        design = _design(_standardise(inputs, low, high, centre, scale), powers)
        term_centre, term_scale = _centre_and_scale(design[1:], weights)
        design[1:] -= term_centre[:, None]
        design[1:] /= term_scale[:, None]
        return cls(inputs, weights, low, high, centre, scale, powers, term_centre, term_scale, design)

    def on(self, inputs: FloatArray, sample_weight: ArrayLike | None = None) -> "JointRows":
        """Other rows with the terms and scales of these, so that fits of these are a start for theirs.

        Parameters
        ----------
        inputs : array of shape (n_rows, n_inputs)
            `joint_inputs` of the other rows.
        sample_weight : array of shape (n_rows,), optional
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
        """A map from the inputs to `target`, where it helps on rows that it has not seen.

        It helps where maps that were fitted without a fold have a smaller loss there than the outputs, by
        more than chance makes of it: half a standard error over all folds for nine coefficients, a whole one
        for two. Otherwise there is none, but for very many rows, of which a map learns nothing but what there
        is; nor is there one of very many groups. The loss is the squared error for scores, the log loss for
        probabilities.

        Parameters
        ----------
        target : array of shape (n_rows,)
            Outcomes that are numbers, or column of `outputs` that is the row's class or group.
        outputs : array of shape (n_rows,) or (n_rows, n_columns)
            Scores, or probabilities, of the model that the map is to mend.
        folds : arrays of rows
            Those that one and the same model scored. New rows will be scored by yet another model, so what a
            map does to a fold says more where it has not learned from that fold's model.
        n_rows : int, optional
            How many the map will be learned from in the end, where these are a sample.
        """
        if (
            outputs.ndim == 1 and np.abs(outputs).max() > FARTHEST
        ):  # no map mends scores that no float can square
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
        """The map from the inputs to `target`, be it a help or not.

        Parameters
        ----------
        target, outputs
            As in `cross_fit`.
        start : JointFit, optional
            That of the rows that these were made from by `on`: a fit from there is quicker.
        """
        found = None if start is None else start.coefficients
        return self._calibrator(self._fit(target, outputs, EVERY_ROW, found), outputs)

    def _helps(
        self, target: AnyArray, outputs: FloatArray, folds: Sequence[IntArray], without: Sequence[FloatArray]
    ) -> bool:
        """Whether maps with the coefficients of fits without each fold have a smaller loss there."""
        held_out = np.empty_like(outputs)
        for fold, coefficients in zip(folds, without, strict=True):
            held_out[fold] = self._mend(coefficients, outputs, fold)
        gain = self.weights * (_losses(target, outputs) - _losses(target, held_out))
        gain /= max(float(np.abs(gain).max()) / FARTHEST, 1.0)  # so that its squares are numbers, too
        n_coefficients = without[0][:, 1:].size
        return bool(gain.mean() > LEAST_GAIN * gain.std() / np.sqrt(n_coefficients * len(gain)))

    def _has_all(self, target: AnyArray, outputs: FloatArray, rows: IntArray) -> bool:
        """Whether there are rows, and some of every class or group."""
        if outputs.ndim == 1:
            return len(rows) > 0
        return bool(np.bincount(target[rows], minlength=outputs.shape[1]).min() > 0)

    def _fit(
        self, target: AnyArray, outputs: FloatArray, rows: IntArray | slice, start: FloatArray | None = None
    ) -> FloatArray:
        """Coefficients of the design, (n_outputs, 1 + n_terms), learned from a part of its rows."""
        design, weights = self.design[:, rows], self.weights[rows]
        if outputs.ndim == 2:
            return fit_logistic(design, target[rows], outputs.shape[1], weights, PENALTY, start)
        missing = target[rows] - outputs[rows]
        ridge = Ridge(alpha=PENALTY).fit(design[1:].T, missing, sample_weight=weights)
        return np.concatenate([[ridge.intercept_], ridge.coef_])[None]

    def _mend(self, found: FloatArray, outputs: FloatArray, rows: IntArray) -> FloatArray:
        """What the map of such coefficients says of some of the rows."""
        values = found @ self.design[:, rows]
        if outputs.ndim == 1:
            shifted: FloatArray = outputs[rows] + values[0]
            return shifted
        return _softmax(np.vstack([np.zeros_like(values[:1]), values]))

    def _calibrator(self, found: FloatArray, outputs: FloatArray) -> JointCalibrator:
        """The map in terms of the inputs as they are."""
        slopes = found[:, 1:] / self.term_scale
        offsets = found[:, 0] - slopes @ self.term_centre
        link = "shift"
        if outputs.ndim == 2:  # the first column is what the others are compared with
            link = "softmax"
            slopes, offsets = np.vstack([np.zeros_like(slopes[:1]), slopes]), np.append(0.0, offsets)
        return JointCalibrator(
            link, self.low, self.high, self.centre, self.scale, self.powers, slopes, offsets
        )


@dataclass(frozen=True, slots=True, eq=False)
class JointFit:
    """A map that helps, and those that were fitted without each fold."""

    calibrator: JointCalibrator
    without: list[JointCalibrator]
    coefficients: FloatArray  # of the design, (n_outputs, 1 + n_terms)


def _losses(target: AnyArray, outputs: FloatArray) -> FloatArray:
    """Loss of each row."""
    if outputs.ndim == 1:
        return (target - outputs) ** 2
    return -log(outputs[np.arange(len(outputs)), target])


def _without(n_rows: int, fold: IntArray) -> IntArray:
    """All rows but those of a fold."""
    kept = np.ones(n_rows, bool)
    kept[fold] = False
    return np.flatnonzero(kept)


def _choose_powers(n_inputs: int, n_smallest: int) -> IntArray:
    """Powers of the terms of the highest degree that has few enough of them for these rows."""
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
    """Products of the inputs, (n_inputs, n_rows), one term after the other."""
    for exponents in powers:
        factors = [standard[place] for place in np.repeat(np.arange(len(exponents)), exponents)]
        term = factors[0]
        for factor in factors[1:]:
            term = term * factor
        yield term


def _design(standard: FloatArray, powers: IntArray) -> FloatArray:
    """Ones and the terms, (1 + n_terms, n_rows)."""
    design = np.ones((1 + len(powers), standard.shape[1]))
    for place, term in enumerate(_terms(standard, powers)):
        design[1 + place] = term
    return design


def _standardise(
    inputs: FloatArray, low: FloatArray, high: FloatArray, centre: FloatArray, scale: FloatArray
) -> FloatArray:
    """Inputs within their range, of zero mean and unit variance at the fit, (n_inputs, n_rows)."""
    return np.ascontiguousarray(((np.clip(inputs, low, high) - centre) / scale).T)


def _centre_and_scale(columns: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and spread of each of (n_columns, n_rows); a spread of one where all rows have the same value."""
    centre = columns @ weights / len(weights)
    spread = np.sqrt((columns - centre[:, None]) ** 2 @ weights / len(weights))
    return centre, np.where(spread > 1e-12 * np.abs(centre), spread, 1.0)


def _softmax(logits: FloatArray) -> FloatArray:
    """Probabilities, (n_rows, n_outputs), from logits (n_outputs, n_rows)."""
    return divide_by_sum(np.ascontiguousarray(np.exp(logits - logits.max(axis=0)).T))


def _log_ratios(proba: FloatArray) -> FloatArray:
    logs = log(proba)
    return logs[:, 1:] - logs[:, :1]
