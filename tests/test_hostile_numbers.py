"""Odd numbers, flags, masks and words: an answer, or an error of ours that names the argument."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityPostprocessor, ParityRegressor, audit, costs, frontier, metrics
from evenhand.calibration import diagnose_calibration
from evenhand.certificates import certify_held_out, certify_prediction_powered
from evenhand.certificates.bounds import level_of_pair
from evenhand.dual.forms import Composite, Projected
from evenhand.dual.grid import uniform_grid
from evenhand.exceptions import ClippingWarning, InactiveConstraintWarning, OutlierWarning
from evenhand.metrics.intervals import check_draws
from fuzz.judge import is_ours
from tests.problems import random_problem, random_rows

RNG = np.random.default_rng(0)
N = 40
SCORES, PROBA = random_rows(N, 2, seed=3)
GROUPS = np.array(["a", "b"])[(PROBA[:, 1] > 0.5).astype(int)]
PMF, ATOMS = RNG.dirichlet(np.ones(4), N), np.array([0.0, 1.0, 2.0, 4.0])
OUTCOMES = RNG.normal(size=N)
WEIGHTS = RNG.exponential(size=N)


def masked(values, rows=(3,)):
    mask = np.zeros(np.shape(values), bool)
    mask[list(rows)] = True
    return np.ma.masked_array(values, mask=mask)


# Masks


def test_masked_numbers_are_missing_and_not_what_stands_under_the_mask():
    with pytest.raises(ValueError, match=r"scores must be finite.*row 3"):
        ParityPostprocessor(atoms=5).fit(masked(SCORES), PROBA)
    with pytest.raises(ValueError, match="group_proba must be finite"):
        ParityPostprocessor(atoms=5).fit(SCORES, masked(PROBA))
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        ParityPostprocessor(atoms=5).fit(SCORES, PROBA, sample_weight=masked(np.arange(1, N + 1)))
    with pytest.raises(ValueError, match="y_true has NaN"):
        metrics.risk(masked(OUTCOMES), SCORES)
    with pytest.raises(ValueError, match="pmf must be probabilities"):
        metrics.risk(OUTCOMES, masked(PMF), atoms=ATOMS)
    with pytest.raises(ValueError, match="ids must not be missing"):
        ParityPostprocessor(atoms=5).fit(SCORES, PROBA).predict(SCORES, PROBA, ids=masked(np.arange(N)))


def test_masked_labels_are_rows_whose_group_is_not_known():
    found = audit(SCORES, masked(GROUPS, rows=(0, 7)), n_boot=20)
    assert found.n_unknown == 2
    kept = np.delete(np.arange(N), [0, 7])
    expected = metrics.ks_unfairness(SCORES[kept], GROUPS[kept])
    assert metrics.ks_unfairness(SCORES, masked(GROUPS, rows=(0, 7))) == expected


def test_an_empty_mask_changes_nothing():
    plain = ParityPostprocessor(atoms=5).fit(SCORES, PROBA)
    clear = ParityPostprocessor(atoms=5).fit(
        np.ma.masked_array(SCORES, mask=False), np.ma.masked_array(PROBA)
    )
    assert np.array_equal(plain.multipliers_, clear.multipliers_)


def test_masked_features_and_outcomes_of_an_estimator_are_missing():
    X = np.column_stack([SCORES, OUTCOMES])
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=5, cv=2, min_group_size=2)
    for arguments in ((masked(X), OUTCOMES), (X, masked(OUTCOMES))):
        with pytest.raises(ValueError, match="NaN"):
            model.fit(*arguments, sensitive_features=GROUPS)


# Extreme parameters


def test_a_hundred_thousand_atoms_are_refused_by_the_memory_that_they_would_take():
    for atoms in (100_000, 10**30, np.arange(20_000.0)):
        with pytest.raises(ValueError, match=r"atoms are too many: .* GiB.* ask for 10362 at most"):
            ParityPostprocessor(atoms=atoms).fit(SCORES, PROBA)


@pytest.mark.parametrize("cost", ["pinball", "absolute", "squared", "huber"])
@pytest.mark.parametrize("size", [1e-310, 1e-200])
def test_scores_whose_squares_vanish_are_refused_and_no_warning_is_left(cost, size):
    with pytest.raises(ValueError, match=r"squares of such numbers are zero in a float. Multiply scores"):
        ParityPostprocessor(cost=cost, atoms=5).fit(SCORES * size, PROBA)


@pytest.mark.parametrize("cost", ["pinball", "squared"])
def test_a_tiny_factor_of_the_scores_changes_no_policy(cost):
    model = ParityPostprocessor(cost=cost, atoms=7)
    usual, tiny = (model.fit(SCORES * size, PROBA).tilt_ for size in (1.0, 2.0**-400))
    np.testing.assert_allclose(tiny, usual, atol=1e-9)


@pytest.mark.parametrize("beta", [5e-324, 1e-300, 1e300, True, pd.NA, np.timedelta64(3, "s")])
def test_a_beta_that_no_float_could_work_with_is_refused(beta):
    with pytest.raises(ValueError, match="beta must be"):
        ParityPostprocessor(beta=beta, atoms=5).fit(SCORES, PROBA)


@pytest.mark.parametrize("beta", [1e-6, 1e15])
def test_the_extreme_betas_that_are_allowed_have_finite_certificates(beta):
    certificate = (
        ParityPostprocessor(beta=beta, atoms=5, max_iter=30, tol=1e-2).fit(SCORES, PROBA).certificate_
    )
    numbers = [certificate.risk, certificate.lower_bound, certificate.smoothing_cost, certificate.risk_bound]
    assert np.isfinite(numbers).all()


@pytest.mark.parametrize("parity", ["w1", "tv", "cdf", "pmf", "mean"])
def test_one_row_fits_without_a_warning(parity):
    model = ParityPostprocessor(parity=parity).fit([0.3], [[0.4, 0.6]])
    assert np.isfinite(model.predict([0.3], [[0.4, 0.6]])).all()
    assert np.isfinite(model.certificate_.risk_bound)


@pytest.mark.parametrize("form", [Projected(), Composite()])
def test_bounds_of_the_gap_are_finite_where_no_row_tells_the_groups_apart(form):
    problem = random_problem("cdf" if isinstance(form, Projected) else "tv", epsilon=1e100)
    point = form.split(np.zeros(problem.multipliers_shape))
    bound = form.gap_bound(problem, point, np.zeros(problem.multipliers_shape), 1e100)
    assert bound == 0.0


@pytest.mark.parametrize("epsilon", [True, np.bool_(False)])
def test_a_flag_is_no_tolerance(epsilon):
    with pytest.raises(ValueError, match="epsilon must be a number"):
        ParityPostprocessor(epsilon=epsilon, atoms=5).fit(SCORES, PROBA)


def test_a_tolerance_next_to_nothing_is_nothing():
    model = ParityPostprocessor(epsilon=5e-324, atoms=5).fit(
        SCORES, PROBA, sensitive_features=PROBA.argmax(axis=1)
    )
    assert np.array_equal(model.epsilon_, [0.0, 0.0])


def test_a_tolerance_beyond_all_bounds_asks_for_nothing():
    with pytest.warns(InactiveConstraintWarning):
        model = ParityPostprocessor(epsilon=1e300, atoms=5).fit(SCORES, PROBA)
    assert not model.multipliers_.any()
    assert np.array_equal(model.certificate_.epsilon, [1e300, 1e300])
    tiny = ParityPostprocessor(epsilon=1e300, atoms=5, parity="w1").fit(SCORES * 1e-120, PROBA)
    assert np.isfinite(tiny.certificate_.risk_bound)


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_a_weight_that_is_nothing_beside_the_others_is_no_row():
    rng = np.random.default_rng(0)
    scores, proba = rng.normal(size=60), rng.dirichlet(np.ones(2), 60)
    groups, weights = (rng.random(60) < proba[:, 1]).astype(int), np.ones(60)
    for weights[3] in (0.0, 5e-324):
        model = ParityPostprocessor(epsilon=0.3, atoms=5).fit(
            scores, proba, sample_weight=weights, sensitive_features=groups
        )
        assert model.n_rows_ == 59


def test_bounds_without_room_for_the_atoms_are_refused():
    with pytest.raises(ValueError, match="not 7 different numbers between the bounds"):
        ParityPostprocessor(atoms=7, bounds=(1.0, 1.000000000000001)).fit(SCORES, PROBA)


def test_a_group_of_tiny_weight_has_as_many_rows_as_its_ratios_say():
    groups, chosen = np.array([0, 0, 0, 1, 1, 1]), np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    weights = np.where(groups == 0, 1e-200, 1.0)
    found = metrics.selection_rates(chosen, groups, sample_weight=weights)
    low = found.tables[0].rate.low
    assert low[0] == pytest.approx(low[1])


def test_labels_of_numbers_of_several_types_are_put_in_order():
    odd = np.array([1e300, np.float32(0.1), np.uint64(2**63)], dtype=object)
    assert len(metrics.ks_unfairness(np.arange(3.0), odd)) == 3


def test_a_duration_is_no_flag():
    with pytest.raises(ValueError, match="must be True or False"):
        metrics.ks_unfairness(SCORES, np.arange(len(SCORES)) % 2, pairwise=np.timedelta64(1))


def test_weights_of_any_size_count_by_their_ratios():
    usual = ParityPostprocessor(atoms=5).fit(SCORES, PROBA, sample_weight=WEIGHTS)
    for size in (1e300, 1e-300):
        large = ParityPostprocessor(atoms=5).fit(SCORES, PROBA, sample_weight=WEIGHTS * size)
        np.testing.assert_allclose(large.multipliers_, usual.multipliers_, atol=1e-6)
        for metric in ("ks", "w1", "mean"):
            found, expected = (
                metrics.unfairness_interval(
                    SCORES, GROUPS, sample_weight=WEIGHTS * each, metric=metric, n_boot=20
                )
                for each in (size, 1.0)
            )
            np.testing.assert_allclose(found.low, expected.low, atol=1e-9)
            np.testing.assert_allclose(found.high, expected.high, atol=1e-9)
        assert metrics.risk(OUTCOMES, SCORES, sample_weight=WEIGHTS * size) == pytest.approx(
            metrics.risk(OUTCOMES, SCORES, sample_weight=WEIGHTS)
        )


def test_a_group_that_one_huge_weight_leaves_nothing_of_is_refused():
    weights = np.where(np.arange(N) == 0, 1e300, 1.0)
    with pytest.raises(ValueError, match="no mass"):
        ParityPostprocessor(atoms=5).fit(
            SCORES, np.eye(2)[(GROUPS == "a").astype(int)], sample_weight=weights
        )


def test_a_far_outlier_is_clipped_without_a_warning_of_numpy():
    scores = np.append(SCORES, 1e200)
    with pytest.warns(ClippingWarning):
        model = ParityPostprocessor(atoms=7).fit(scores, np.vstack([PROBA, [0.5, 0.5]]))
    assert np.isfinite(model.price_.risk)
    constant = ParityPostprocessor(atoms=7).fit(np.full(N, 1e154), PROBA)
    assert np.isfinite(constant.price_.risk)


def test_outcomes_that_no_model_could_square_are_refused_before_any_is_fitted():
    y = OUTCOMES.copy()
    y[5] = 1e200
    with pytest.warns(OutlierWarning), pytest.raises(ValueError, match=r"y has values of 1e\+200 \(row 5\)"):
        ParityRegressor(LinearRegression(), LogisticRegression(), atoms=5, cv=2, min_group_size=2).fit(
            np.column_stack([SCORES, OUTCOMES]), y, sensitive_features=GROUPS
        )


# Metrics, audits and certificates

CALLS = {
    "level": lambda value: metrics.risk_interval(OUTCOMES, SCORES, GROUPS, level=value),
    "level ": lambda value: audit(SCORES, GROUPS, level=value),
    "n_boot": lambda value: metrics.unfairness_interval(SCORES, GROUPS, n_boot=value),
    "n_boot ": lambda value: audit(SCORES, GROUPS, n_boot=value),
    "method": lambda value: metrics.unfairness_interval(SCORES, GROUPS, method=value),
    "pairwise": lambda value: metrics.unfairness(SCORES, GROUPS, pairwise=value),
    "random_state": lambda value: metrics.unfairness_interval(SCORES, GROUPS, random_state=value),
    "random_state ": lambda value: audit(SCORES, GROUPS, random_state=value),
    "threshold": lambda value: metrics.selection_rates(SCORES, GROUPS, threshold=value),
    "min_share": lambda value: metrics.selection_rates(SCORES, GROUPS, min_share=value),
    "loss": lambda value: metrics.risk(OUTCOMES, SCORES, loss=value),
    "loss ": lambda value: metrics.constant_risk(OUTCOMES, loss=value),
    "atoms": lambda value: metrics.constant_risk(OUTCOMES, loss="absolute", atoms=value),
    "metric": lambda value: certify_held_out(SCORES, GROUPS, metric=value),
    "delta": lambda value: certify_held_out(SCORES, GROUPS, delta=value),
    "side": lambda value: certify_held_out(SCORES, GROUPS, side=value),
    "delta ": lambda value: certify_prediction_powered(
        PMF, GROUPS, PROBA, pmf_unlabeled=PMF, group_proba_unlabeled=PROBA, delta=value
    ),
    "metric ": lambda value: certify_prediction_powered(
        PMF, GROUPS, PROBA, pmf_unlabeled=PMF, group_proba_unlabeled=PROBA, metric=value
    ),
    "pmf": lambda value: certify_prediction_powered(
        value, GROUPS, PROBA, pmf_unlabeled=PMF, group_proba_unlabeled=PROBA
    ),
    "decisions": lambda value: metrics.decision_gaps(value, GROUPS),
    "tol": lambda value: ParityPostprocessor(tol=value).fit(SCORES, PROBA),
    "confidence": lambda value: ParityPostprocessor(confidence=value).fit(SCORES, PROBA),
    "half_life": lambda value: ParityPostprocessor().partial_fit(SCORES, PROBA, half_life=value),
    "atoms ": lambda value: ParityPostprocessor(atoms=value).fit(SCORES, PROBA),
}
ODD = (
    pd.NA,
    -1,
    np.timedelta64(3, "s"),
    np.datetime64("NaT"),
    object,
    {"a": 1},
    [[1], [1, 2]],
    b"bytes",
    1e-310,
)


@pytest.mark.parametrize("name", CALLS)
def test_an_odd_argument_is_refused_in_our_own_words(name):
    for value in ODD:
        if name in ("threshold", "min_share", "tol") and isinstance(value, float):
            continue  # as good as any other
        if name == "threshold" and isinstance(value, int):
            continue
        with pytest.raises(ValueError, match=name.strip()) as caught:
            CALLS[name](value)
        assert is_ours(caught.value), value


def test_more_draws_than_anybody_would_wait_for_are_refused():
    with pytest.raises(ValueError, match="n_boot must be at most 1000000"):
        check_draws(2**63, 0.95)


def test_predictions_and_targets_beyond_the_floats_are_refused():
    for size in (1e80, 1e300):
        for call in (
            lambda size=size: metrics.risk(OUTCOMES, SCORES * size),
            lambda size=size: metrics.risk_interval(OUTCOMES * size, SCORES, GROUPS),
            lambda size=size: audit(SCORES * size, GROUPS, n_boot=20),
            lambda size=size: metrics.w1_unfairness(PMF, GROUPS, atoms=ATOMS * size),
        ):
            with pytest.raises(ValueError, match="squares of such numbers are too large"):
                call()


def test_what_is_no_pmf_is_refused_without_a_warning_of_numpy():
    bad = PMF.copy()
    bad[2] = [np.inf, -np.inf, 1.0, 0.0]
    for call in (
        lambda: metrics.ks_unfairness(bad, GROUPS),
        lambda: metrics.unfairness_bounds(bad, PROBA),
        lambda: certify_held_out(bad, GROUPS),
    ):
        with pytest.raises(ValueError, match="pmf must be probabilities"):
            call()
    with pytest.raises(ValueError, match="group_proba must sum to one"):
        ParityPostprocessor(atoms=5).fit(SCORES, np.full((N, 2), 1.7e308))
    with pytest.raises(ValueError, match="group_prior must sum to one"):
        ParityPostprocessor(atoms=5).fit(SCORES, PROBA, group_prior=[1.7e308, 1.7e308])


def test_a_cost_or_loss_of_the_users_that_fails_says_whose_fault_it_is():
    with pytest.raises(ValueError, match=r"cost\(scores, atoms\) failed: TypeError"):
        ParityPostprocessor(cost=len, atoms=5).fit(SCORES, PROBA)
    with pytest.raises(ValueError, match=r"loss\(y_true, values\) failed: TypeError"):
        metrics.risk(OUTCOMES, SCORES, loss=len)
    assert costs.make_cost("pinball").alpha == 0.5


def test_half_precision_ids_are_those_of_the_numbers():
    model = ParityPostprocessor(atoms=5).fit(SCORES, PROBA)
    ids = np.arange(N)
    assert np.array_equal(
        model.predict(SCORES, PROBA, ids=ids.astype(np.float16)), model.predict(SCORES, PROBA, ids=ids)
    )


def test_scores_beyond_all_bounds_share_a_draw_without_a_warning():
    model = ParityPostprocessor(atoms=5).fit(SCORES * 1e-100, PROBA)
    assert set(model.predict(np.full(N, 1e300), PROBA)) <= set(model.atoms_)


def test_a_tolerance_is_chosen_on_held_out_rows_of_huge_scores_as_of_others():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 2, 600)
    scores, proba = rng.random(600) + 0.3 * groups, 0.8 * np.eye(2)[groups] + 0.1
    small, large = (
        ParityPostprocessor(atoms=11, epsilon=0.2).fit(scores * size, proba, sensitive_features=groups)
        for size in (1.0, 2.0**270)
    )
    np.testing.assert_allclose(large.tolerance_, small.tolerance_, rtol=1e-9)
    estimates = [model.certificate_.out_of_sample for model in (large, small)]
    np.testing.assert_allclose(*(estimate.expected for estimate in estimates), rtol=1e-9)


@pytest.mark.parametrize("correlation", [-1.0, -0.9999999999979271, -1.0 + 1e-9])
def test_bounds_whose_errors_are_opposite_have_half_of_the_level_each(correlation):
    level = 2.7930719592886822e-05
    assert level_of_pair(level, correlation) == pytest.approx(level / 2, rel=1e-6)


def test_a_grid_over_all_floats_is_made_without_an_overflow():
    assert uniform_grid(-1.7e308, 1.7e308, 2).atoms.tolist() == [-1.7e308, 1.7e308]


def test_a_frontier_refuses_tolerances_that_are_no_table_of_numbers():
    rows = np.linspace(0.0, 1.0, 30), np.tile([[0.3, 0.7], [0.6, 0.4]], (15, 1))
    with pytest.raises(ValueError, match="epsilon"):
        frontier(ParityPostprocessor(atoms=5, epsilon=[[1], [1, 2]]), *rows)


def test_a_calibration_is_diagnosed_where_a_group_has_next_to_no_weight():
    weights = np.ones(12)
    weights[10] = 1e-310
    groups = np.zeros(12, int)
    groups[10] = 1
    proba = np.column_stack([np.full(12, 0.7), np.full(12, 0.3)])
    proba[10] = 0.1, 0.9  # and a cell of its own
    found = diagnose_calibration(proba, groups, (0, 1), [0.7, 0.3], sample_weight=weights)
    assert np.isfinite(found.lemma_term).all()
