"""Maps that calibrate group probabilities."""

import pickle

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from evenhand.calibration import METHODS, Calibrator, fit_calibrator
from tests.calibrated import draw_codes, population


@pytest.mark.parametrize("n_groups", [2, 3, 5])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_temperature_recovers_the_one_that_sharpened_the_logits(n_groups, temperature):
    logits, truth, codes = population(n_groups, 60_000)
    calibrator = fit_calibrator("temperature", softmax(logits * temperature, axis=1), codes)
    # the standard error of log T is about 1 / sqrt(n * information); information is above 0.2 here
    assert calibrator.temperature == pytest.approx(temperature, rel=4 / np.sqrt(0.2 * 60_000))
    np.testing.assert_allclose(calibrator(softmax(logits * temperature, axis=1)), truth, atol=0.02)


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_sigmoid_recovers_a_known_affine_distortion(n_groups):
    rng = np.random.default_rng(3)
    distorted = softmax(rng.normal(scale=1.5, size=(100_000, n_groups)), axis=1)
    slopes = np.full(2, 0.6) if n_groups == 2 else np.linspace(0.4, 1.3, n_groups)
    offsets = np.linspace(-1.0, 1.0, n_groups)
    truth = softmax(slopes * np.log(distorted) + offsets, axis=1)
    calibrator = fit_calibrator("sigmoid", distorted, draw_codes(truth, 4))
    np.testing.assert_allclose(calibrator.slopes, slopes, atol=0.04)
    np.testing.assert_allclose(calibrator.offsets - calibrator.offsets.mean(), offsets, atol=0.06)
    assert np.abs(calibrator(distorted) - truth).mean() < 0.005


@pytest.mark.parametrize("weighted", [False, True])
def test_sigmoid_for_two_groups_is_a_logistic_regression_on_the_log_odds(weighted):
    logits, _, codes = population(2, 5_000, seed=7)
    odds = 2.5 * (logits[:, 1] - logits[:, 0]).clip(-5, 5) + 0.7  # within the floor of the logs
    proba = np.column_stack([expit(-odds), expit(odds)])
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 5_000) if weighted else None
    platt = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(odds[:, None], codes, weights)
    calibrated = fit_calibrator("sigmoid", proba, codes, weights)(proba)
    expected = platt.predict_proba(odds[:, None])
    np.testing.assert_allclose(
        calibrated, expected, atol=1e-4
    )  # the pull to identity is a hundredth of a row


def test_sigmoid_gives_each_group_its_share_on_average():
    logits, _, codes = population(4, 3_000)
    distorted = softmax(2.0 * logits + np.arange(4), axis=1)
    calibrated = fit_calibrator("sigmoid", distorted, codes)(distorted)
    np.testing.assert_allclose(calibrated.mean(axis=0), np.bincount(codes) / 3_000, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_for_two_groups_is_the_isotonic_regression_of_either(weighted):
    logits, _, codes = population(2, 2_000, seed=5)
    proba = softmax(3.0 * logits, axis=1)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 2_000) if weighted else None
    fresh = softmax(3.0 * population(2, 500, seed=6)[0], axis=1)
    reference = IsotonicRegression(out_of_bounds="clip").fit(proba[:, 1], codes, sample_weight=weights)
    calibrated = fit_calibrator("isotonic", proba, codes, weights)(fresh)
    np.testing.assert_allclose(calibrated[:, 1], reference.predict(fresh[:, 1]), atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_groups", [2, 3, 4, 5])
def test_calibration_improves_the_log_loss_of_a_classifier_that_is_too_sure(method, n_groups):
    logits, _, codes = population(n_groups, 4_000, seed=n_groups)
    fresh_logits, truth, fresh_codes = population(n_groups, 20_000, seed=n_groups + 10)
    calibrated = fit_calibrator(method, softmax(3 * logits, axis=1), codes)(softmax(3 * fresh_logits, axis=1))
    before, after, best = (
        -np.log(np.maximum(proba[np.arange(20_000), fresh_codes], 1e-3)).mean()  # isotonic says zero at times
        for proba in (softmax(3 * fresh_logits, axis=1), calibrated, truth)
    )
    # isotonic maps one probability at a time, which is not all there is for several groups
    assert after - best < (0.2 if method == "isotonic" else 0.05) * (before - best)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_a_row_has_the_same_bits_in_any_batch_and_sums_to_one(method, n_groups):
    logits, _, codes = population(n_groups, 1_003)
    proba = softmax(3 * logits, axis=1)
    calibrator = fit_calibrator(method, proba, codes)
    whole = calibrator(proba)
    assert whole.dtype == np.float64
    assert whole.min() >= 0
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=0, atol=1e-15 * n_groups)
    for size in (1, 2, 3, 7, 64, 500):
        parts = [calibrator(proba[start : start + size]) for start in range(0, len(proba), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    shuffled = np.random.default_rng(0).permutation(len(proba))
    assert np.array_equal(calibrator(np.asfortranarray(proba[shuffled])), whole[shuffled])


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_of_exactly_zero_and_one_are_taken(method):
    codes = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 0])
    certain = np.eye(3)[codes]
    certain[-1] = [0, 1, 0]  # certain, and wrong
    calibrated = fit_calibrator(method, certain, codes)(np.eye(3))
    assert np.isfinite(calibrated).all()
    np.testing.assert_allclose(calibrated.sum(axis=1), 1.0)
    assert calibrated[1, 0] > 1e-3


def test_separable_groups_do_not_send_the_sigmoid_to_infinity():
    proba = np.repeat([[0.6, 0.4], [0.4, 0.6]], 200, axis=0)
    calibrator = fit_calibrator("sigmoid", proba, np.repeat([0, 1], 200))
    assert 5 < calibrator.slopes[0] < 50
    assert calibrator(proba)[0, 0] > 0.99


def test_isotonic_falls_back_to_the_shares_where_every_group_maps_to_zero():
    proba = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]).repeat(4, axis=0)
    calibrator = fit_calibrator("isotonic", proba, np.repeat([0, 1, 2], 4), np.repeat([2.0, 1.0, 1.0], 4))
    row = calibrator([[0.1, 0.1, 0.8], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(row[0], [0, 0, 1])
    low = Calibrator("isotonic", np.array([0.5, 0.3, 0.2]), np.ones(3), np.zeros(3),
                     np.tile([0.4, 0.9], 3), np.tile([0.0, 1.0], 3), np.array([0, 2, 4, 6]))  # fmt: skip
    np.testing.assert_allclose(low([[0.34, 0.33, 0.33]]), [[0.5, 0.3, 0.2]])


@pytest.mark.parametrize("method", METHODS)
def test_a_group_of_few_rows_is_calibrated_without_trouble(method):
    rng = np.random.default_rng(0)
    proba = softmax(rng.normal(size=(500, 3)) + np.array([3, 3, 0]), axis=1)
    codes = np.r_[np.full(3, 2), rng.integers(0, 2, 497)]
    calibrated = fit_calibrator(method, proba, codes)(proba)
    assert np.isfinite(calibrated).all()
    if method != "temperature":  # which has no offset to mend a share with
        assert calibrated[:, 2].mean() == pytest.approx(3 / 500, abs=0.004)


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_is_as_good_as_double(method):
    logits, _, codes = population(3, 2_000)
    proba = softmax(2 * logits, axis=1)
    double, single = (fit_calibrator(method, proba.astype(kind), codes) for kind in (np.float64, np.float32))
    assert single(proba.astype(np.float32)).dtype == np.float64
    # a step of the isotonic map may fall between a number and its rounding
    assert np.mean(np.abs(single(proba.astype(np.float32)) - double(proba)) > 1e-4) < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_counts_like_as_many_rows(method):
    logits, _, codes = population(3, 400)
    proba = softmax(2 * logits, axis=1)
    times = np.random.default_rng(0).integers(0, 4, 400)
    weighted = fit_calibrator(method, proba, codes, times)
    repeated = fit_calibrator(method, proba.repeat(times, axis=0), codes.repeat(times))
    # the sigmoid's pull is a hundredth of a row of those given, and repeated rows are more
    np.testing.assert_allclose(weighted(proba), repeated(proba), atol=2e-3 if method == "sigmoid" else 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_calibrator_survives_pickling_and_holds_arrays_only(method):
    logits, _, codes = population(3, 300)
    proba = softmax(logits, axis=1)
    calibrator = fit_calibrator(method, proba, codes)
    values = {name: getattr(calibrator, name) for name in Calibrator.__slots__}
    assert all(isinstance(value, np.ndarray) for name, value in values.items() if name != "method")
    for copy in (pickle.loads(pickle.dumps(calibrator)), Calibrator(**values)):
        assert np.array_equal(copy(proba), calibrator(proba))


PROBA = np.array([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("platt", PROBA, [0, 1, 1]), "Unknown calibration 'platt'. Valid names: isotonic, sigmoid, temp"),
        (("sigmoid", PROBA, [0, 1]), "codes has shape"),
        (("sigmoid", PROBA, [0, 1, 2]), r"codes must lie in 0..1"),
        (("sigmoid", PROBA, [0, 1, -1]), r"codes must lie in 0..1"),
        (("sigmoid", PROBA, ["a", "b", "b"]), "codes must be integers"),
        (("sigmoid", PROBA, [0.0, 1.0, 1.0]), "codes must be integers"),
        (("sigmoid", PROBA, [1, 1, 1]), "No row has the group of column 0"),
        (("sigmoid", PROBA, [0, 1, 1], [0, 1, 1]), "No row has the group of column 0"),
        (("sigmoid", PROBA, [0, 1, 1], [1, 1]), "sample_weight has shape"),
        (("sigmoid", PROBA, [0, 1, 1], [1, 1, -1]), "sample_weight must not be negative"),
        (("sigmoid", PROBA * 2, [0, 1, 1]), "must sum to one"),
        (("sigmoid", np.full((3, 2), np.nan), [0, 1, 1]), "must be finite"),
        (("sigmoid", PROBA[:, 0], [0, 1, 1]), "must have shape"),
        (("sigmoid", PROBA[:0], []), "group_proba is empty"),
    ],
)
def test_bad_input_is_refused_with_its_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit_calibrator(*arguments)


def test_a_calibrator_refuses_other_groups_than_it_was_fitted_with():
    with pytest.raises(ValueError, match="3 columns, but the calibrator was fitted with 2 groups"):
        fit_calibrator("temperature", PROBA, [0, 1, 1])(np.full((1, 3), 1 / 3))
