"""Automatic bounds, and the choice of beta and atoms on held-out rows."""

import numpy as np
import pandas as pd
import pytest

from evenhand import ParityPostprocessor
from evenhand._utils.validation import check_rows
from evenhand.datasets import make_population
from evenhand.dual.grid import automatic_beta, automatic_bounds
from evenhand.estimators.selection import _folds, _jackknife, _price, atom_candidates, beta_candidates
from evenhand.exceptions import ConvergenceWarning

POPULATION = make_population(300, n_groups=2, random_state=0)
SCORES, PROBA = POPULATION.scores, POPULATION.group_proba


def cut(scores, weights=None):
    low, high = automatic_bounds(scores, weights)
    return int(np.sum((scores < low) | (scores > high)))


SAMPLES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.uniform(size=n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)),
    "wide lognormal": lambda rng, n: np.exp(1.5 * rng.normal(size=n)),
    "t with three degrees of freedom": lambda rng, n: rng.standard_t(3, n),
    "two modes": lambda rng, n: np.where(rng.random(n) < 0.5, 0, 100) + rng.normal(size=n),
    "a rare mode": lambda rng, n: np.where(rng.random(n) < 0.01, 50, 0) + rng.normal(size=n),
    "a mass at zero": lambda rng, n: np.where(np.arange(n) % 20, 0.0, rng.exponential(size=n)),
    "two values": lambda rng, n: (np.arange(n) == 3) * 1e12,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("n_rows", [3, 100, 5000, 100_000])
def test_bounds_cover_ordinary_scores_with_a_margin(name, n_rows):
    scores = SAMPLES[name](np.random.default_rng(0), n_rows)
    low, high = automatic_bounds(scores)
    if np.ptp(scores) > 0:
        margin = 0.02 * np.ptp(scores)
        assert (low, high) == pytest.approx((scores.min() - margin, scores.max() + margin), abs=1e-3 * margin)
    assert cut(scores) == 0


@pytest.mark.parametrize("n_rows", [20, 50, 2000])
@pytest.mark.parametrize("outlier", [1e12, -1e12, 1e300])
def test_one_far_outlier_is_cut_and_the_rest_keep_their_bounds(n_rows, outlier):
    scores = np.random.default_rng(0).normal(1.0, 0.3, n_rows)
    with_it = np.append(scores, outlier)
    assert automatic_bounds(with_it) == automatic_bounds(scores)
    assert cut(with_it) == 1


def test_no_more_than_a_hundredth_of_the_rows_is_cut_on_a_side():
    scores = np.random.default_rng(0).normal(size=1000)
    for n_outliers, expected in [(5, 5), (30, 0)]:
        assert cut(np.append(scores, np.full(n_outliers, 1e12))) == expected


def test_weights_say_how_much_of_the_rows_an_outlier_is():
    scores = np.append(np.random.default_rng(0).normal(size=999), 1e12)
    light = np.full(1000, 1e-3)
    heavy = np.append(np.full(999, 0.9 / 999), 0.1)
    assert cut(scores, light) == cut(scores) == 1
    assert cut(scores, heavy) == 0


@pytest.mark.parametrize("outliers", [[], [1e9]])
@pytest.mark.parametrize(("factor", "shift"), [(1000.0, 0.0), (1.0, 5.0), (-1.0, 0.0), (1e-6, 3.0)])
def test_bounds_go_with_the_units_of_the_scores(factor, shift, outliers):
    scores = np.append(np.random.default_rng(0).normal(size=500), outliers)
    expected = sorted(factor * bound + shift for bound in automatic_bounds(scores))
    assert automatic_bounds(factor * scores + shift) == pytest.approx(expected, rel=1e-9)


def test_bounds_of_the_largest_numbers_are_finite():
    huge = np.finfo(float).max
    assert automatic_bounds(np.linspace(-1, 1, 50) * huge) == (-huge, huge)


def fit(scores=SCORES, proba=PROBA, **parameters):
    return ParityPostprocessor(**{"epsilon": 0.05, "beta": "cv"} | parameters).fit(scores, proba)


def cross_fitted(scores, proba, folds, **parameters):
    """Distribution of every row by the fit that did not see it."""
    pmf = None
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(scores)), fold)
        model = ParityPostprocessor(**parameters).fit(scores[rest], proba[rest])
        pmf = np.zeros((len(scores), len(model.atoms_))) if pmf is None else pmf
        pmf[fold] = model.predict_pmf(scores[fold], proba[fold])
    return model.atoms_, pmf


def test_risk_and_excess_are_those_of_rows_predicted_by_the_fit_that_did_not_see_them():
    model = fit()
    folds = _folds(check_rows(SCORES, PROBA), None)
    columns = model.selection_.columns
    for place in (0, 3):
        atoms, pmf = cross_fitted(
            SCORES, PROBA, folds, beta=columns["beta"][place], atoms=35, bounds=model.bounds_, epsilon=0.05
        )
        risk = (pmf * (SCORES[:, None] - atoms) ** 2).sum(axis=1).mean()
        everybody = pmf.mean(axis=0)
        distances = [
            np.abs((everybody - np.average(pmf, axis=0, weights=PROBA[:, s])).cumsum()).max() for s in (0, 1)
        ]
        assert columns["risk"][place] == pytest.approx(risk, rel=1e-2)
        assert columns["excess"][place] == pytest.approx(max(distances) - 0.05, abs=1e-3)


@pytest.mark.parametrize(
    ("parity", "epsilon", "step"), [("cdf", 0.05, 1e-3), ("mean", 100, 1), ("pmf", 5e-3, 1e-4)]
)
def test_the_price_is_what_a_smaller_epsilon_costs_in_risk(parity, epsilon, step):
    scores = 1000.0 * SCORES  # a difference of the optimal values, in the users' units, on either side
    settings = {"beta": 50.0, "atoms": 21, "parity": parity, "tol": 1e-9}
    tighter, middle, looser = (fit(scores, epsilon=epsilon + move, **settings) for move in (-step, 0.0, step))
    slope = (tighter.certificate_.entropic_risk - looser.certificate_.entropic_risk) / (2 * step)
    assert _price(middle).sum() == pytest.approx(slope, rel=0.02)


def test_the_smallest_candidate_within_one_standard_error_of_the_smallest_loss_is_chosen():
    for columns in (fit().selection_.columns, fit(beta=40.0, atoms="cv").selection_.columns):
        np.testing.assert_allclose(columns["loss"], columns["risk"] + columns["excess_cost"])
        best = columns["loss"].argmin()
        within = columns["loss"] - columns["loss"][best] <= columns["loss_se"]
        assert columns["loss_se"][best] == 0
        assert np.flatnonzero(columns["chosen"]).tolist() == [int(np.flatnonzero(within)[0])]


def test_leaving_out_folds_gives_the_standard_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=(5, 3))
    without = np.array([np.delete(values, k, axis=0).mean(axis=0) for k in range(5)])
    np.testing.assert_allclose(_jackknife(without), values.std(axis=0, ddof=1) / np.sqrt(5))


def test_higher_beta_has_less_risk_and_more_violation_on_held_out_rows():
    columns = fit().selection_.columns
    assert np.all(np.diff(columns["risk"]) < 0)
    assert columns["excess"][-1] > columns["excess"][0]


def test_where_parity_costs_nothing_risk_alone_decides():
    columns = fit(epsilon=0.99).selection_.columns
    assert not columns["excess"].any()
    assert np.array_equal(columns["loss"], columns["risk"])


def test_the_final_fit_uses_the_chosen_beta_on_all_rows():
    model = fit()
    assert model.selection_.n_folds == 5
    assert model.beta_ == model.selection_.beta
    assert model.beta_ in beta_candidates(automatic_beta(300))
    plain = ParityPostprocessor(epsilon=0.05, beta=model.beta_).fit(SCORES, PROBA)
    assert np.array_equal(model.multipliers_, plain.multipliers_)
    assert np.array_equal(model.atoms_, plain.atoms_)
    assert model.get_params()["beta"] == "cv"


def test_atoms_alone_are_chosen_at_the_given_beta():
    model = fit(beta=30.0, atoms="cv")
    columns = model.selection_.columns
    assert set(columns["searched"]) == {"atoms"}
    assert tuple(columns["atoms"]) == atom_candidates(300) == (26, 35, 51)
    assert set(columns["beta"]) == {30.0}
    assert model.beta_ == 30.0
    assert len(model.atoms_) == model.selection_.n_atoms == columns["atoms"][columns["chosen"]][0]


def test_both_are_chosen_one_after_the_other():
    model = fit(atoms="cv")
    columns = model.selection_.columns
    assert columns["searched"].tolist() == ["beta"] * 7 + ["atoms"] * 3
    assert {len(column) for column in columns.values()} == {10}
    assert model.beta_ == fit().beta_
    assert set(columns["beta"][7:]) == {model.beta_}
    assert len(model.atoms_) == model.selection_.n_atoms


def test_the_choice_is_the_same_again_and_folds_follow_an_integer_random_state():
    first, again, other = fit(random_state=1), fit(random_state=1), fit(random_state=2)
    for name, column in first.selection_.columns.items():
        assert np.array_equal(column, again.selection_.columns[name])
    assert not np.array_equal(first.selection_.columns["risk"], other.selection_.columns["risk"])
    by_generator = fit(random_state=np.random.default_rng(0))
    assert np.array_equal(by_generator.selection_.columns["risk"], fit().selection_.columns["risk"])


def test_weights_count_in_the_choice_and_rows_of_weight_zero_do_not():
    weights = np.r_[np.ones(200), np.zeros(100)]
    with_them = ParityPostprocessor(beta="cv").fit(SCORES, PROBA, sample_weight=weights)
    without = ParityPostprocessor(beta="cv").fit(SCORES[:200], PROBA[:200], sample_weight=np.ones(200))
    for name, column in with_them.selection_.columns.items():
        assert np.array_equal(column, without.selection_.columns[name])
    doubled = ParityPostprocessor(beta="cv").fit(SCORES, PROBA, sample_weight=1.0 + (SCORES > 0))
    assert not np.array_equal(doubled.selection_.columns["risk"], fit().selection_.columns["risk"])
    even = ParityPostprocessor(beta="cv").fit(SCORES, PROBA, sample_weight=np.full(300, 7.0))
    np.testing.assert_allclose(even.selection_.columns["risk"], fit().selection_.columns["risk"], rtol=1e-6)


@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean"])
def test_every_parity_notion_can_be_selected_for(parity):
    model = fit(parity=parity, atoms="cv")
    assert np.isfinite(model.selection_.columns["loss"]).all()


def test_tolerances_by_label_and_atoms_of_the_users_own_are_kept():
    frame = pd.DataFrame(PROBA, columns=["a", "b"])
    by_label = fit(proba=frame, epsilon={"b": 0.1, "a": 0.02})
    assert np.array_equal(
        by_label.selection_.columns["loss"], fit(epsilon=[0.02, 0.1]).selection_.columns["loss"]
    )
    own = fit(atoms=np.array([-1.0, -0.2, 0.1, 1.0]))
    assert own.atoms_.tolist() == [-1.0, -0.2, 0.1, 1.0]
    assert set(own.selection_.columns["atoms"]) == {4}


def test_a_group_that_is_known_is_in_every_fold():
    one_hot = np.eye(2)[(np.arange(300) < 12).astype(int)]
    folds = _folds(check_rows(SCORES, one_hot), 0)
    assert np.array_equal(np.sort(np.concatenate(folds)), np.arange(300))
    assert {len(fold) for fold in folds} == {60}
    assert {int(one_hot[fold, 1].sum()) for fold in folds} <= {2, 3}
    assert np.isfinite(fit(proba=one_hot).selection_.columns["loss"]).all()


def test_a_group_of_two_rows_is_absent_from_some_folds_and_still_measured():
    one_hot = np.eye(2)[(np.arange(300) < 2).astype(int)]
    assert np.isfinite(fit(proba=one_hot, epsilon=0.5).selection_.columns["loss"]).all()


def test_few_rows_make_fewer_folds_and_too_few_are_an_error():
    assert fit(SCORES[:35], PROBA[:35]).selection_.n_folds == 3
    for parameters in ({"beta": "cv"}, {"beta": 1.0, "atoms": "cv"}):
        with pytest.raises(ValueError, match='beta="cv" and atoms="cv" need at least 20 rows: got 19'):
            fit(SCORES[:19], PROBA[:19], **parameters)
    lonely = np.eye(2)[(np.arange(300) == 7).astype(int)]
    with pytest.raises(ValueError, match="Group 1 has a probability above zero in too few rows"):
        fit(proba=lonely)


def test_a_fit_without_selection_forgets_the_last_one():
    model = fit()
    assert hasattr(model, "selection_")
    model.set_params(beta="auto").fit(SCORES, PROBA)
    assert not hasattr(model, "selection_")


def test_the_folds_warn_of_nothing_and_the_final_fit_of_everything():
    with pytest.warns(ConvergenceWarning) as record:
        fit(max_iter=1, epsilon=0.001)
    assert len(record) == 1
    assert record[0].filename == __file__


@pytest.mark.slow
def test_the_choice_is_better_than_the_paper_s_and_close_to_the_default_where_the_truth_is_known():
    fresh = make_population(100_000, 2, random_state=99)
    losses = {"paper": [], "auto": [], "cv": []}
    for seed in range(6):
        sample = make_population(800, 2, random_state=seed)
        for beta, found in losses.items():
            model = fit(sample.scores, sample.group_proba, beta=beta)
            pmf = model.predict_pmf(fresh.scores, fresh.group_proba)
            risk = (pmf * (fresh.scores[:, None] - model.atoms_) ** 2).sum(axis=1).mean()
            everybody = pmf.mean(axis=0)
            shares = fresh.group_proba / fresh.group_proba.sum(axis=0)
            violation = np.abs((everybody[:, None] - pmf.T @ shares).cumsum(axis=0)).max(axis=0)
            price = np.abs(model.multipliers_).sum(axis=0) * (np.ptp(model.atoms_) / 2) ** 2
            found.append(risk + price @ np.maximum(violation - 0.05, 0.0))
    assert np.mean(losses["cv"]) < np.mean(losses["paper"])
    assert np.mean(losses["cv"]) < 1.02 * np.mean(losses["auto"])
