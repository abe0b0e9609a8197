"""Maps to the outcome and to the group given what both models say."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

from evenhand._utils.stored import find_fault
from evenhand.calibration import JointCalibrator, JointRows, joint_inputs
from evenhand.calibration.joint import _choose_powers, fit_logistic
from tests.calibrated import both_wrong, table


def two_parts(n_rows):
    return np.array_split(np.random.default_rng(5).permutation(n_rows), 2)


def cross_fit(inputs, target, said, weights=None):
    """The map, or None, and what maps that were fitted without the row say of it."""
    folds = two_parts(len(inputs))
    fit = JointRows.of(inputs, weights).cross_fit(target, said, folds)
    if fit is None:
        return None, said
    held_out = np.empty_like(said)
    for fold, without in zip(folds, fit.without, strict=True):
        held_out[fold] = without(inputs[fold])
    return fit.calibrator, held_out


# ---- logistic regression ----


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_newton_steps_end_where_scikit_learn_s_do(n_classes, weighted):
    rng = np.random.default_rng(n_classes)
    terms = rng.normal(size=(4000, 6))
    codes = (terms @ rng.normal(size=(6, n_classes)) + rng.gumbel(size=(4000, n_classes))).argmax(axis=1)
    weights = rng.uniform(0.1, 3.0, 4000) if weighted else np.ones(4000)
    design = np.vstack([np.ones(4000), terms.T])
    found = fit_logistic(design, codes, n_classes, weights, 1e-6)
    reference = LogisticRegression(C=1e6, solver="newton-cholesky", tol=1e-9).fit(terms, codes, weights)
    ours = softmax(np.vstack([np.zeros(4000), found @ design]), axis=0).T
    np.testing.assert_allclose(ours, reference.predict_proba(terms), atol=1e-4)


def test_the_penalty_of_two_classes_is_scikit_learn_s():
    rng = np.random.default_rng(0)
    terms, codes = rng.normal(size=(60, 4)), np.arange(60) % 2
    design = np.vstack([np.ones(60), terms.T])
    found = fit_logistic(design, codes, 2, np.ones(60), 5.0)
    reference = LogisticRegression(C=0.2, tol=1e-10).fit(terms, codes)
    np.testing.assert_allclose(found, [[*reference.intercept_, *reference.coef_[0]]], atol=1e-4)


def test_separable_classes_and_rows_of_any_size_come_to_an_end():
    line = np.linspace(-1, 1, 100)
    for scale in (1.0, 1e8):
        found = fit_logistic(
            np.vstack([np.ones(100), scale * line]), (line > 0).astype(int), 2, np.ones(100), 1
        )
        assert np.isfinite(found).all()
        assert np.all((found[0, 0] + found[0, 1] * scale * line > 0) == (line > 0))


# ---- the maps ----


def test_a_map_finds_the_outcome_and_the_group_given_both():
    u, v, truth, group_truth, y, group = both_wrong(40_000, 0, lambda u, v: u + 0.5 * v - 0.4 * u * v)
    scores, tau = table(expit(u)), table(expit(v))
    inputs = joint_inputs(scores, [tau])
    for target, said, wanted in ((y, scores, truth), (group, tau, group_truth)):
        calibrator, held_out = cross_fit(inputs, target.astype(int), said)
        for found in (held_out, calibrator(inputs)):
            # nine coefficients: the error of a probability is about sqrt(9 / n) times its spread
            assert np.sqrt(np.mean((found[:, 1] - wanted) ** 2)) < 4 * 0.5 * np.sqrt(9 / 20_000)
        assert np.abs(said[:, 1] - wanted).mean() > 0.05


def test_a_map_of_numbers_adds_what_the_score_lacks():
    u, v, *_ = both_wrong(20_000, 1)
    y = 3.0 * u + v - 0.3 * v**3 + np.random.default_rng(2).normal(size=len(u))
    inputs = joint_inputs(3.0 * u, [table(expit(v))])
    calibrator, held_out = cross_fit(inputs, y, 3.0 * u)
    assert calibrator.link == "shift"
    for found in (held_out, calibrator(inputs)):
        assert np.sqrt(np.mean((found - 3.0 * u - v + 0.3 * v**3) ** 2)) < 4 * np.sqrt(9 / 10_000)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_many_classes_and_several_attributes_are_mended_together(n_classes):
    rng = np.random.default_rng(n_classes)
    logits = rng.normal(size=(30_000, n_classes))
    v, w = rng.normal(size=(2, 30_000))
    truth = softmax(
        logits + np.outer(v, np.arange(n_classes)) - np.outer(w, np.arange(n_classes)) / 2, axis=1
    )
    codes = (rng.random((30_000, 1)) > truth.cumsum(axis=1)[:, :-1]).sum(axis=1)
    said = softmax(logits, axis=1)
    inputs = joint_inputs(said, [table(expit(v)), table(expit(w))])
    calibrator, held_out = cross_fit(inputs, codes, said)
    assert inputs.shape[1] == n_classes + 1
    assert np.abs(said - truth).mean() > 0.1
    assert np.abs(held_out - truth).mean() < 0.02
    assert np.abs(calibrator(inputs) - truth).mean() < 0.02


def test_what_is_exact_is_left_alone_or_hardly_moved():
    left, harm = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        u, v = rng.normal(size=(2, 600))
        truth = table(expit(1.5 * u))
        codes = (rng.random(600) < truth[:, 1]).astype(int)
        calibrator, held_out = cross_fit(joint_inputs(truth, [table(expit(v))]), codes, truth)
        left.append(calibrator is None)
        harm.append(np.mean((held_out - truth) ** 2))
        if calibrator is None:
            assert held_out is truth
    assert np.mean(left) > 0.8
    assert np.mean(harm) < 0.1 * 0.25 * 9 / 300  # always mending would cost about p (1 - p) 9 / n


@pytest.mark.parametrize("n_rows", [4, 10])
def test_few_rows_are_too_few(n_rows):
    rng = np.random.default_rng(n_rows)
    proba = rng.uniform(0.1, 0.9, n_rows)
    inputs = joint_inputs(table(proba), [table(proba[::-1])])
    codes = (rng.random(n_rows) < proba).astype(int)
    assert cross_fit(inputs, codes, table(proba))[0] is None
    only_one = np.r_[1, np.zeros(n_rows - 1, int)]  # a fold is without it
    assert cross_fit(inputs, only_one, table(proba))[0] is None


@pytest.mark.parametrize("n_rows", [30, 100, 300])
def test_exact_models_of_few_rows_seldom_get_a_map(n_rows):
    kept = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        u, v = rng.normal(size=(2, n_rows))
        truth = table(expit(1.5 * u))
        codes = (rng.random(n_rows) < truth[:, 1]).astype(int)
        kept += cross_fit(joint_inputs(truth, [table(expit(v))]), codes, truth)[0] is not None
    assert kept <= 6  # 12 without a margin


def test_a_far_outlier_moves_no_other_row():
    u, v, *_ = both_wrong(2_000, 3)
    inputs = joint_inputs(u, [table(expit(v))])
    wild = np.vstack([inputs, [1e12, 0.0]])
    plain, _ = cross_fit(inputs, u + v, u)
    beside = JointRows.of(wild).fit(np.append(u + v, 0.0), np.append(u, 0.0))
    np.testing.assert_allclose(beside(inputs), plain(inputs), atol=0.02)


def test_a_model_of_very_many_groups_gets_no_map():
    rng = np.random.default_rng(0)
    said = rng.dirichlet(np.ones(40), 4_000)
    inputs = joint_inputs(rng.normal(size=4_000), [said])
    assert cross_fit(inputs, rng.integers(40, size=4_000), said) == (None, said)


def fitted_map(n_classes, n_rows=1_003):
    """A map that is there, with the inputs and probabilities it was fitted on."""
    rng = np.random.default_rng(n_classes)
    logits, v = rng.normal(size=(n_rows, n_classes)), rng.normal(size=n_rows)
    said = softmax(logits, axis=1)
    codes = (logits + np.outer(2 * v, np.arange(n_classes)) + rng.gumbel(size=logits.shape)).argmax(axis=1)
    inputs = joint_inputs(said, [table(expit(v))])
    return cross_fit(inputs, codes, said)[0], inputs


def fitted_shift(n_rows=1_003):
    u, v, *_ = both_wrong(n_rows, 3)
    inputs = joint_inputs(u, [table(expit(v))])
    return cross_fit(inputs, u + v, u)[0], inputs


@pytest.mark.parametrize("make", [fitted_shift, *(lambda k=k: fitted_map(k) for k in (2, 3, 5))])
def test_a_row_has_the_same_bits_in_any_batch(make):
    calibrator, inputs = make()
    whole = calibrator(inputs)
    if calibrator.link == "softmax":
        np.testing.assert_allclose(whole.sum(axis=1), 1.0, rtol=0, atol=1e-15 * whole.shape[1])
    for size in (1, 2, 3, 7, 64, 500):
        parts = [calibrator(inputs[start : start + size]) for start in range(0, len(inputs), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    shuffled = np.random.default_rng(0).permutation(len(inputs))
    assert np.array_equal(calibrator(np.asfortranarray(inputs[shuffled])), whole[shuffled])


@pytest.mark.parametrize("make", [fitted_shift, lambda: fitted_map(3)])
def test_nothing_is_extrapolated(make):
    calibrator, inputs = make()
    beyond = np.vstack([inputs.max(axis=0) + 100, inputs.min(axis=0) - 100])
    edge = np.vstack([inputs.max(axis=0), inputs.min(axis=0)])
    moved = (beyond - edge)[:, 0] if calibrator.link == "shift" else 0.0  # the score itself goes on
    np.testing.assert_allclose(calibrator(beyond), calibrator(edge) + moved)


def test_a_weight_counts_like_as_many_rows_and_its_scale_does_not_count():
    u, v, _, _, y, _ = both_wrong(2_000, 4)
    times = np.random.default_rng(0).integers(1, 4, len(u))
    inputs, said, codes = joint_inputs(table(expit(u)), [table(expit(v))]), table(expit(u)), y.astype(int)

    def fit(rows, weights):
        return cross_fit(inputs[rows], codes[rows], said[rows], weights)[0]

    once = np.arange(len(u))
    weighted = fit(once, times)(inputs)
    np.testing.assert_allclose(fit(once, 10.0 * times)(inputs), weighted, atol=1e-10)
    # the penalty is a row of those given, and repeated rows are more
    np.testing.assert_allclose(fit(once.repeat(times), None)(inputs), weighted, atol=2e-2)
    assert np.abs(fit(once, None)(inputs) - weighted).max() > 1e-2


@pytest.mark.parametrize(("n_inputs", "degree"), [(1, 3), (2, 3), (5, 3), (6, 2), (9, 2), (10, 1), (80, 1)])
def test_the_terms_are_those_of_a_polynomial_whose_degree_keeps_them_few(n_inputs, degree):
    reference = PolynomialFeatures(degree, include_bias=False).fit(np.zeros((1, n_inputs)))
    np.testing.assert_array_equal(_choose_powers(n_inputs, 10_000), reference.powers_)


@pytest.mark.parametrize(("n_smallest", "degree"), [(10, 1), (239, 1), (240, 2), (399, 2), (400, 3)])
def test_a_small_group_lowers_the_degree(n_smallest, degree):
    assert _choose_powers(2, n_smallest).sum(axis=1).max() == degree  # 3, 6 or 10 terms, 40 rows for each


def test_zeros_ones_and_constants_are_taken():
    said = np.eye(2)[np.arange(200) % 2]
    codes = np.where(np.arange(200) % 7 == 0, 1, np.arange(200) % 2)
    inputs = joint_inputs(said, [np.full((200, 3), 1 / 3)])
    calibrator, held_out = cross_fit(inputs, codes, said)
    assert np.isfinite(held_out).all()
    assert calibrator(inputs)[0, 1] == pytest.approx(codes[::2].mean(), abs=0.03)


def test_rounding_of_a_constant_score_is_no_signal():
    rng = np.random.default_rng(0)
    v = rng.normal(size=4_000)
    codes = (rng.random(4_000) < expit(v)).astype(int)
    scores = 100.0 + np.spacing(100.0) * rng.integers(-1, 2, 4_000)
    inputs = joint_inputs(scores, [table(expit(v))])
    calibrator, _ = cross_fit(inputs, codes, np.full((4_000, 2), 0.5))
    moved = np.column_stack([np.nextafter(inputs[:, 0], 0), inputs[:, 1]])
    np.testing.assert_array_equal(calibrator(moved), calibrator(inputs))


def test_a_map_survives_pickling_holds_arrays_only_and_refuses_other_inputs():
    calibrator, inputs = fitted_map(3)
    values = {field.name: getattr(calibrator, field.name) for field in fields(calibrator)}
    assert all(isinstance(value, np.ndarray) for name, value in values.items() if name != "link")
    for copy in (pickle.loads(pickle.dumps(calibrator)), JointCalibrator(**values)):
        assert np.array_equal(copy(inputs), calibrator(inputs))
    with pytest.raises(ValueError, match="fitted with 3 columns"):
        calibrator(inputs[:, :2])


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"link": "exec"}, "link"),
        ({"powers": np.ones((19, 3))}, "powers"),
        ({"powers": -np.ones((19, 3), np.int64)}, "powers"),
        ({"powers": np.full((19, 3), 10**9)}, "powers"),
        ({"low": np.zeros(2)}, "one number for each input"),
        ({"coefficients": np.zeros((3, 18))}, "do not agree"),
        ({"offsets": np.zeros((3, 1))}, "coefficients"),
        ({"offsets": np.full(3, np.nan)}, "not finite"),
        ({"scale": np.zeros(3)}, "positive"),
    ],
)
def test_a_file_s_map_is_checked_when_it_is_read(changes, fault):
    calibrator, _ = fitted_map(3)
    assert find_fault(calibrator) is None
    assert fault in find_fault(replace(calibrator, **changes))


def test_log_odds_are_what_the_maps_take():
    proba = np.array([[0.2, 0.3, 0.5], [0.0, 0.5, 0.5]])
    inputs = joint_inputs(proba, [table(np.array([0.25, 1.0]))])
    np.testing.assert_allclose(inputs[0], [*np.diff(np.log([0.2, 0.3])), np.log(2.5), logit(0.25)])
    np.testing.assert_allclose(inputs[1], [np.log(5e5), np.log(5e5), np.log(1e6)])
    np.testing.assert_allclose(log_softmax(np.r_[0, inputs[0, :2]]), np.log(proba[0]))
