"""Calibrated group probabilities, and what is said about those that are not."""

import json
import pickle

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, mean_squared_error

from evenhand.calibration import METHODS, Calibrator, diagnose_calibration, diagnosis, fit_calibrator


def draw_codes(truth, seed):
    uniform = np.random.default_rng(seed).random((len(truth), 1))
    return (uniform > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)


def population(n_groups, n_rows, seed=0):
    """Logits, the true probabilities and a group for each row."""
    # three times as sharp, no probability is under the floor of the logs
    logits = np.random.default_rng(seed).normal(scale=1.2, size=(n_rows, n_groups)).clip(-2, 2)
    truth = softmax(logits, axis=1)
    return logits, truth, draw_codes(truth, seed + 1)


def diagnose(proba, codes, **options):
    return diagnose_calibration(proba, codes, range(proba.shape[1]), proba.mean(axis=0), **options)


# ---- the maps ----


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


# ---- the diagnosis ----


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrated_probabilities_are_at_their_noise_floor(n_groups, weighted):
    above = []
    for seed in range(30):
        logits, truth, codes = population(n_groups, 1_500, seed=2 * seed)
        weights = np.random.default_rng(seed).uniform(0.1, 2.0, 1_500) if weighted else None
        found = diagnose(truth, codes, scores=logits[:, 0], sample_weight=weights)
        for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term"):
            figure, floor, limit = (getattr(found, name + suffix) for suffix in ("", "_floor", "_limit"))
            assert (floor < limit).all()
            above.append((figure > limit).mean())
            assert (figure < 2.5 * floor).all()
    assert np.mean(above) < 0.12  # 0.05 is what the limit promises; the figures of a sample go together


def test_a_distorted_classifier_stands_far_above_the_floor_until_it_is_calibrated():
    logits, _, codes = population(3, 8_000)
    fresh, _, fresh_codes = population(3, 8_000, seed=9)
    distorted = softmax(3 * fresh, axis=1)
    before = diagnose(distorted, fresh_codes)
    after = diagnose(fit_calibrator("sigmoid", softmax(3 * logits, axis=1), codes)(distorted), fresh_codes)
    assert (before.parity_cost > 8 * before.parity_cost_limit).all()
    assert (before.calibration_error > 8 * before.calibration_error_limit).all()
    assert (after.parity_cost < 2 * after.parity_cost_limit).all()
    assert "More than noise for 0, 1, 2" in str(before)
    assert after.log_loss < before.log_loss
    assert after.brier_score < before.brier_score


def test_the_figures_are_those_of_a_plain_loop_over_bins():
    logits, _, codes = population(3, 1_000)
    proba, prior = softmax(2 * logits, axis=1), np.array([0.3, 0.3, 0.4])
    found = diagnose_calibration(proba, codes, "abc", prior, n_bins=5)
    for group in range(3):
        bins = np.array_split(np.argsort(proba[:, group]), 5)
        tau = np.array([proba[rows, group].mean() for rows in bins])
        share = np.array([(codes[rows] == group).mean() for rows in bins])
        d = tau / prior[group] - share / (codes == group).mean()
        np.testing.assert_allclose(found.curve_proba[group], tau)
        np.testing.assert_allclose(found.curve_share[group], share)
        np.testing.assert_array_equal(found.curve_count[group], 200)
        assert found.calibration_error[group] == pytest.approx(np.abs(tau - share).mean())
        assert found.largest_error[group] == pytest.approx(np.abs(tau - share).max())
        assert found.parity_cost[group] == pytest.approx(max(d.clip(0).mean(), -d.clip(max=0).mean()))
        assert found.lemma_term[group] == pytest.approx(np.sqrt((d**2).mean()))
    assert found.log_loss == pytest.approx(log_loss(codes, proba))
    assert found.brier_score == pytest.approx(3 * mean_squared_error(np.eye(3)[codes], proba))


def true_excess(policies, truth, proba, prior, group):
    """True violation minus the one that `proba` claims, of each policy `h` on a whole population."""
    true = policies.mean(axis=1) - policies @ truth[:, group] / truth[:, group].sum()
    claimed = policies.mean(axis=1) - policies @ proba[:, group] / len(proba) / prior[group]
    return true - claimed


def random_policies(scores, proba, rng, n_policies=300):
    """Chances of an event, as functions of what a policy sees: steep and soft, of random directions."""
    seen = np.column_stack([scores / scores.std(), logit(proba.clip(1e-9, 1 - 1e-9))])
    directions = rng.normal(size=(seen.shape[1], n_policies)) * rng.exponential(3.0, n_policies)
    return expit(directions.T @ seen.T + rng.normal(scale=2.0, size=(n_policies, 1)))


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("prior_of", ["tau", "truth"])
def test_the_parity_cost_bounds_the_true_extra_violation_of_any_policy(n_groups, prior_of):
    rng = np.random.default_rng(0)
    logits, truth, codes = population(n_groups, 60_000)
    proba = softmax(2.0 * logits + 0.4 * np.arange(n_groups), axis=1)
    scores = logits[:, 0] + rng.normal(size=len(logits))
    prior = (proba if prior_of == "tau" else truth).mean(axis=0)
    found = diagnose_calibration(proba, codes, range(n_groups), prior, scores=scores)
    policies = random_policies(scores, proba, rng)
    for group in range(n_groups):
        excess = np.abs(true_excess(policies, truth, proba, prior, group))
        assert excess.max() > 0.2 * found.parity_cost[group]
        assert excess.max() <= found.parity_cost[group] + found.parity_cost_floor[group]
        assert found.parity_cost[group] <= found.lemma_term[group]


@pytest.mark.parametrize("prior_of", ["tau", "truth"])
def test_the_worst_policy_reaches_the_parity_cost(prior_of):
    logits, truth, codes = population(2, 200_000)
    proba = softmax(2.0 * logits + [0.0, 0.4], axis=1)
    prior = (proba if prior_of == "tau" else truth).mean(axis=0)
    found = diagnose_calibration(proba, codes, range(2), prior, n_bins=20)
    for group in range(2):
        d = proba[:, group] / prior[group] - truth[:, group] / truth[:, group].mean()
        worst = np.abs(true_excess(np.stack([d > 0, d < 0]), truth, proba, prior, group)).max()
        assert found.parity_cost[group] == pytest.approx(worst, rel=0.03)
        half = 0.5 * np.abs(d).mean()
        if prior_of == "tau":  # d has mean zero: half of E|d| is the most that any policy can reach
            assert worst == pytest.approx(half)
        else:
            assert worst > 1.05 * half


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_floors_of_large_tables_are_those_of_simulated_rows(weighted, sharpness, monkeypatch):
    logits, _, codes = population(3, 12_000)
    proba = softmax(sharpness * logits, axis=1)  # sharp ones have cells that are all but certain
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 12_000) if weighted else None
    found = []
    for most in (0, 10**9):
        monkeypatch.setattr(diagnosis, "EXACT_ENTRIES", most)
        drawn = [
            diagnose(proba, codes, scores=logits[:, 0], sample_weight=weights, seed=seed)
            for seed in range(15)
        ]
        found.append(drawn)
    for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term"):
        for suffix in ("_floor", "_limit"):
            normal, exact = (np.array([getattr(each, name + suffix) for each in drawn]) for drawn in found)
            noise = np.sqrt((normal.var(axis=0) + exact.var(axis=0)) / 14)
            np.testing.assert_array_less(
                np.abs(normal.mean(axis=0) - exact.mean(axis=0)), 4 * noise + 0.01 * exact.mean(axis=0)
            )


def test_the_cells_of_one_of_two_groups_do_for_the_other():
    logits, _, codes = population(2, 2_001)
    proba = softmax(2 * logits, axis=1)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 2_001)
    two = diagnose(proba, codes, scores=logits[:, 0], sample_weight=weights)
    turned = diagnose(proba[:, ::-1], 1 - codes, scores=logits[:, 0], sample_weight=weights)
    for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term", "curve_share"):
        np.testing.assert_allclose(getattr(two, name), getattr(turned, name)[::-1], rtol=1e-9)
    np.testing.assert_allclose(two.parity_cost_floor, turned.parity_cost_floor[::-1], rtol=0.1)
    np.testing.assert_allclose(two.curve_proba[0], 1.0 - two.curve_proba[1][::-1])


def test_only_with_the_scores_is_an_uninformative_classifier_found_out():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=20_000)
    truth = np.column_stack([expit(-4 * scores), expit(4 * scores)])
    codes = draw_codes(truth, 1)
    constant = np.full((20_000, 2), 0.5)  # calibrated, and blind to what the scores tell
    blind, seeing = diagnose(constant, codes), diagnose(constant, codes, scores=scores)
    low_scores = (scores < 0)[None].astype(float)
    violation = np.abs(true_excess(low_scores, truth, constant, np.full(2, 0.5), 1))
    assert violation > 0.35
    assert blind.parity_cost[1] <= blind.parity_cost_limit[1] + 0.02
    # the middle of five bins of the scores hides the change of sign inside it
    assert 0.9 * violation < seeing.parity_cost[1]
    finer = diagnose(constant, codes, scores=scores, n_score_bins=20)
    assert violation <= finer.parity_cost[1] + finer.parity_cost_floor[1]
    assert "scores were not given" in str(blind)
    assert "scores were not given" not in str(seeing)


def test_a_weight_counts_like_as_many_rows_in_the_figures():
    logits, _, codes = population(2, 300)
    proba, times = softmax(2 * logits, axis=1), np.random.default_rng(0).integers(0, 4, 300)
    prior = np.array([0.5, 0.5])
    weighted = diagnose_calibration(proba, codes, "ab", prior, 4, sample_weight=times)
    repeated = diagnose_calibration(proba.repeat(times, axis=0), codes.repeat(times), "ab", prior, 4)
    for name in ("calibration_error", "largest_error", "parity_cost", "lemma_term", "curve_share"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name))
    assert weighted.log_loss == pytest.approx(repeated.log_loss)
    # copies of a row tell no more than the row: their floor takes them for independent, and is lower
    assert (weighted.parity_cost_floor > repeated.parity_cost_floor).all()


def test_few_rows_and_ties_leave_empty_bins_and_no_trouble():
    proba = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], dtype=np.float32)
    found = diagnose(proba, np.array([0, 1, 0, 1, 0]))
    assert found.curve_count.sum(axis=1).tolist() == [5, 5]
    assert np.array_equal(np.isnan(found.curve_proba), found.curve_count == 0)
    assert np.isfinite(found.parity_cost_limit).all()
    never = np.column_stack([np.ones(50), np.zeros(50)])  # a group that the classifier never sees
    found = diagnose_calibration(never, np.r_[np.zeros(40, int), np.ones(10, int)], "ab", [0.8, 0.2])
    assert found.parity_cost[1] == pytest.approx(1.0)  # nothing is known about its violation
    assert np.isfinite(found.parity_cost_floor).all()


def test_a_diagnosis_repeats_itself_and_becomes_json_and_text():
    _, truth, codes = population(2, 500)
    first, second = (diagnose(truth, codes, n_bins=700).to_dict() for _ in range(2))
    assert json.loads(json.dumps(first, allow_nan=False)) == second
    assert first["groups"] == ["0", "1"]
    named = diagnose_calibration(truth, codes, ["women", "men"], truth.mean(axis=0))
    lines = str(named).splitlines()
    assert len({len(line) for line in lines[1:4]}) == 1
    assert lines[2].split()[0] == "women"
    assert pickle.loads(pickle.dumps(named)).to_dict() == named.to_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": "abc"}, "groups has 3 labels, but group_proba 2 columns"),
        ({"group_prior": [0.5, 0.6]}, "group_prior must sum to one"),
        ({"group_prior": [1.0, 0.0]}, "group_prior must be positive"),
        ({"n_bins": 0}, "n_bins and n_score_bins must be at least 1"),
        ({"scores": [1.0, 2.0]}, "scores has shape"),
        ({"scores": [1.0, 2.0, np.nan]}, "scores must be finite"),
        ({"codes": [0, 0, 0]}, "No row has the group of column 1"),
    ],
)
def test_a_diagnosis_refuses_bad_input(options, message):
    arguments = {"group_proba": PROBA, "codes": [0, 1, 1], "groups": "ab", "group_prior": [0.5, 0.5]}
    with pytest.raises(ValueError, match=message):
        diagnose_calibration(**(arguments | options))
