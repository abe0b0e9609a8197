"""ParityPostprocessor: what it reaches, what it takes in, and that its draws stay."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning

from evenhand.datasets import make_population
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.exceptions import ClippingWarning, ConvergenceWarning, InactiveConstraintWarning, PriceWarning


def population(n_rows=600, n_groups=3, seed=0):
    """Scores in dollars that depend on the group, and the group's probabilities."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=(n_rows, n_groups))
    proba = np.exp(1.5 * strength)
    proba /= proba.sum(axis=1, keepdims=True)
    scores = 50_000 + 9_000 * np.tanh(strength[:, 0]) + 4_000 * rng.normal(size=n_rows)
    return scores, proba


SCORES, PROBA = population()


@pytest.fixture(scope="module")
def fitted():
    return ParityPostprocessor(epsilon=0.02).fit(SCORES, PROBA)


def violations(model, pmf, proba, parity, weights=None):
    """The parity notion straight from its words: each group's distribution against everybody's."""
    weights = np.ones(len(pmf)) if weights is None else weights
    everybody = np.average(pmf, axis=0, weights=weights)
    found = []
    for s in range(proba.shape[1]):
        gap = everybody - np.average(pmf, axis=0, weights=weights * proba[:, s])
        sizes = {"pmf": gap, "cdf": gap.cumsum(), "mean": gap @ model.atoms_}
        found.append(np.abs(sizes[parity]).max())
    return np.array(found)


@pytest.mark.parametrize("epsilon", [0.0, 0.02, [0.01, 0.3, 0.05]])
@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean"])
def test_predict_pmf_is_within_epsilon_on_the_rows_of_the_fit(parity, epsilon):
    unit = 5_000 if parity == "mean" else 1.0
    model = ParityPostprocessor(parity=parity, epsilon=unit * np.array(epsilon), atoms=31)
    model.fit(SCORES, PROBA)
    pmf = model.predict_pmf(SCORES, PROBA)
    found = violations(model, pmf, PROBA, parity)
    scale = np.ptp(model.atoms_) / 2 if parity == "mean" else 1.0
    assert np.all(found <= model.epsilon_ + 2e-5 * scale)
    np.testing.assert_allclose(found, model.certificate_.violation, atol=1e-8 * scale)
    risk = (pmf * (SCORES[:, None] - model.atoms_) ** 2).sum(axis=1).mean()
    assert model.certificate_.risk == pytest.approx(risk, rel=1e-6)
    assert model.certificate_.lower_bound <= risk


def test_a_large_epsilon_leaves_the_scores_alone():
    with pytest.warns(InactiveConstraintWarning, match=r"epsilon=2 constrains nothing.*epsilon=0\.02"):
        model = ParityPostprocessor(epsilon=2.0, beta=1e5).fit(SCORES, PROBA)
    step = np.diff(model.atoms_)[0]
    assert np.all(np.abs(model.predict(SCORES, PROBA) - SCORES) < step)
    assert not model.multipliers_.any()


def test_the_fitted_attributes_have_their_shapes(fitted):
    assert fitted.atoms_.shape == (49,)
    margin = 0.02 * np.ptp(SCORES)
    assert fitted.bounds_ == pytest.approx((SCORES.min() - margin, SCORES.max() + margin))
    assert fitted.beta_ == 8 * 600
    assert fitted.n_groups_ == 3
    assert fitted.groups_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(fitted.group_prior_, PROBA.mean(axis=0))
    assert fitted.epsilon_.tolist() == [0.02] * 3
    assert fitted.multipliers_.shape == (48, 3)
    assert fitted.tilt_.shape == (49, 3)
    assert fitted.n_clipped_ == 0
    assert fitted.result_.status.success


def test_fit_returns_the_model_and_leaves_its_parameters_and_input_alone():
    model = ParityPostprocessor(epsilon={0: 0.1, 1: 0.2, 2: 0.3}, atoms=9)
    before = model.get_params()
    scores, proba = SCORES.copy(), PROBA.copy()
    assert model.fit(scores, proba) is model
    assert model.get_params() == before
    assert np.array_equal(scores, SCORES)
    assert np.array_equal(proba, PROBA)
    assert clone(model).get_params() == before


def test_the_units_of_the_scores_do_not_matter():
    for parity, epsilon in [("cdf", 0.02), ("mean", 200.0)]:
        plain = ParityPostprocessor(parity=parity, epsilon=epsilon).fit(SCORES, PROBA)
        unit = 1e-6 if parity == "mean" else 1.0
        moved = ParityPostprocessor(parity=parity, epsilon=epsilon * unit)
        moved.fit(1e-6 * SCORES - 3.0, PROBA)
        np.testing.assert_allclose(
            moved.predict_pmf(1e-6 * SCORES - 3.0, PROBA), plain.predict_pmf(SCORES, PROBA), atol=1e-4
        )


def test_a_thousand_times_the_scores_is_a_change_of_units_alone():
    plain = ParityPostprocessor(epsilon=0.02).fit(SCORES, PROBA)
    for factor, shift in [(1000.0, 0.0), (1.0, -50_000.0), (1e-3, 7.0)]:
        scores = factor * SCORES + shift
        moved = ParityPostprocessor(epsilon=0.02).fit(scores, PROBA)
        assert moved.beta_ == plain.beta_
        np.testing.assert_allclose(moved.atoms_, factor * plain.atoms_ + shift, rtol=1e-9)
        np.testing.assert_allclose(
            moved.predict_pmf(scores, PROBA), plain.predict_pmf(SCORES, PROBA), atol=1e-4
        )


def test_scores_a_little_outside_those_of_the_fit_are_not_clipped(fitted):
    step = np.diff(fitted.atoms_)[0]
    scores = np.array([SCORES.max(), SCORES.max() + step / 2])
    first, second = fitted.predict_pmf(scores, PROBA[[0, 0]])
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("outliers", [[1e12], [-1e12], [1e12, -1e9, 3e15]])
def test_outliers_that_would_ruin_the_grid_are_cut_and_counted(outliers):
    scores = np.append(SCORES, outliers)
    proba = np.append(PROBA, PROBA[: len(outliers)], axis=0)
    with pytest.warns(
        ClippingWarning, match=rf'{len(outliers)} of .*bounds="auto" found: outliers.*pass bounds='
    ) as record:
        model = ParityPostprocessor(epsilon=0.02).fit(scores, proba)
    assert record[0].filename == __file__
    assert model.n_clipped_ == len(outliers)
    assert model.bounds_ == ParityPostprocessor().fit(SCORES, PROBA).bounds_
    pmf = model.predict_pmf(scores, proba)
    assert np.all(violations(model, pmf, proba, "cdf") <= 0.02 + 2e-5)
    wide = ParityPostprocessor(bounds=(min(scores), max(scores)), atoms=9).fit(scores, proba)
    assert wide.n_clipped_ == 0


def test_predictions_are_read_off_the_pmf(fitted):
    pmf = fitted.predict_pmf(SCORES, PROBA)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(fitted.predict_mean(SCORES, PROBA), pmf @ fitted.atoms_, rtol=1e-12)
    medians = fitted.atoms_[(pmf.cumsum(axis=1) < 0.5).sum(axis=1)]
    assert np.mean(fitted.predict_quantile(SCORES, PROBA) == medians) > 0.99
    assert np.all(fitted.predict_quantile(SCORES, PROBA, q=0.9) >= medians)
    assert np.isin(fitted.predict(SCORES, PROBA), fitted.atoms_).all()


def test_draws_follow_the_policy_however_they_are_made(fitted):
    scores, proba = population(60_000, seed=5)
    pmf = fitted.predict_pmf(scores, proba)
    expected = pmf.mean(axis=0)
    ways = {
        "rows": fitted.predict(scores, proba),
        "ids": fitted.predict(scores, proba, ids=np.arange(60_000)),
        "fresh": fitted.predict(scores, proba, random_state=0),
    }
    for draws in ways.values():
        frequencies = (draws[:, None] == fitted.atoms_).mean(axis=0)
        assert np.all(np.abs(frequencies - expected) < 5 * np.sqrt(expected / 60_000) + 1e-4)


def test_the_same_row_gets_the_same_answer_in_any_batch_and_order(fitted):
    together = fitted.predict(SCORES, PROBA)
    order = np.random.default_rng(0).permutation(600)
    ids = [f"person {i}" for i in range(600)]
    by_id = fitted.predict(SCORES, PROBA, ids=ids)
    assert np.array_equal(fitted.predict(SCORES, PROBA), together)
    assert np.array_equal(fitted.predict(SCORES[order], PROBA[order]), together[order])
    assert np.array_equal(
        fitted.predict(SCORES[order], PROBA[order], ids=[ids[i] for i in order]), by_id[order]
    )
    for i in range(0, 600, 37):
        one = slice(i, i + 1)
        assert fitted.predict(SCORES[one], PROBA[one])[0] == together[i]
        assert fitted.predict(SCORES[one], PROBA[one], ids=ids[one])[0] == by_id[i]


def test_the_same_row_gets_the_same_answer_in_another_process(fitted, tmp_path):
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps((fitted, SCORES[100:200], PROBA[100:200])))
    code = (
        "import pickle, sys, numpy as np\n"
        "model, scores, proba = pickle.load(open(sys.argv[1], 'rb'))\n"
        "np.save(sys.argv[1] + '.npy', [model.predict(scores, proba), "
        "model.predict(scores, proba, ids=np.arange(100))])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    rows, ids = np.load(f"{path}.npy")
    assert np.array_equal(rows, fitted.predict(SCORES, PROBA)[100:200])
    assert np.array_equal(ids, fitted.predict(SCORES[100:200], PROBA[100:200], ids=np.arange(100)))


def test_the_random_state_of_the_model_is_the_key_of_its_draws(fitted):
    models = [ParityPostprocessor(epsilon=0.02, random_state=r).fit(SCORES, PROBA) for r in (1, 1, 2)]
    first, again, other = (model.predict(SCORES, PROBA) for model in models)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, fitted.predict(SCORES, PROBA))
    pmfs = [model.predict_pmf(SCORES, PROBA) for model in models]
    assert np.array_equal(pmfs[0], pmfs[2])


def test_a_random_state_at_predict_asks_for_fresh_draws(fitted):
    rng = np.random.default_rng(0)
    first = fitted.predict(SCORES, PROBA, random_state=rng)
    assert not np.array_equal(first, fitted.predict(SCORES, PROBA, random_state=rng))
    assert np.array_equal(first, fitted.predict(SCORES, PROBA, random_state=0))


def frames():
    names = ["north", "south", "west"]
    return {
        "pandas": pd.DataFrame(PROBA, columns=names, index=np.arange(600)[::-1]),
        "polars": pl.DataFrame(PROBA, schema=names, orient="row"),
    }


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_give_the_same_model_as_arrays_and_name_the_groups(fitted, library):
    frame = frames()[library]
    series = pd.Series(SCORES) if library == "pandas" else pl.Series(SCORES)
    model = ParityPostprocessor(epsilon={"west": 0.02, "north": 0.02, "south": 0.02}).fit(series, frame)
    assert model.groups_.tolist() == ["north", "south", "west"]
    assert model.certificate_.groups == ("north", "south", "west")
    assert np.array_equal(model.multipliers_, fitted.multipliers_)
    assert np.array_equal(model.predict(series, frame), fitted.predict(SCORES, PROBA))
    assert np.array_equal(model.predict(SCORES, PROBA), fitted.predict(SCORES, PROBA))
    swapped = frame[["west", "north", "south"]]
    assert np.array_equal(model.predict_pmf(series, swapped), fitted.predict_pmf(SCORES, PROBA))


def test_named_columns_go_by_name_and_others_by_position(fitted):
    pmf = fitted.predict_pmf(SCORES, PROBA)
    numbered = pd.DataFrame(PROBA)
    assert np.array_equal(fitted.predict_pmf(SCORES, numbered[[2, 0, 1]]), pmf)
    assert np.array_equal(fitted.predict_pmf(SCORES, frames()["polars"]), pmf)


def test_epsilon_by_label_goes_to_its_group():
    model = ParityPostprocessor(epsilon={"south": 0.3, "west": 0.01, "north": 0.1}, atoms=9)
    model.fit(SCORES, frames()["pandas"])
    assert model.epsilon_.tolist() == [0.1, 0.3, 0.01]


def test_integer_and_single_precision_input_is_read_as_it_is():
    scores = np.round(SCORES).astype(np.int32)
    model = ParityPostprocessor(atoms=9).fit(scores, PROBA.astype(np.float32))
    plain = ParityPostprocessor(atoms=9).fit(scores.astype(float), PROBA.astype(np.float32).astype(float))
    assert np.array_equal(model.multipliers_, plain.multipliers_)


def test_weights_count_like_repeated_rows():
    counts = np.random.default_rng(0).integers(0, 4, 600)
    settings = {"atoms": 21, "beta": 50.0, "bounds": (20_000, 80_000), "epsilon": 0.01}
    weighted = ParityPostprocessor(**settings).fit(SCORES, PROBA, sample_weight=counts)
    repeated = ParityPostprocessor(**settings).fit(
        np.repeat(SCORES, counts), np.repeat(PROBA, counts, axis=0)
    )
    np.testing.assert_allclose(weighted.group_prior_, repeated.group_prior_)
    pmf = weighted.predict_pmf(SCORES, PROBA)
    np.testing.assert_allclose(pmf, repeated.predict_pmf(SCORES, PROBA), atol=1e-4)
    assert np.all(violations(weighted, pmf, PROBA, "cdf", counts) <= 0.01 + 2e-5)


def test_rows_of_weight_zero_count_as_if_they_were_not_there():
    weights = np.r_[np.ones(400), np.zeros(200)]
    without = ParityPostprocessor().fit(SCORES[:400], PROBA[:400], sample_weight=np.ones(400))
    with_them = ParityPostprocessor().fit(SCORES, PROBA, sample_weight=weights)
    assert with_them.beta_ == without.beta_
    assert np.array_equal(with_them.atoms_, without.atoms_)
    assert np.array_equal(with_them.multipliers_, without.multipliers_)


def test_atoms_of_the_users_own_are_where_predictions_live():
    grades = np.array([30_000.0, 45_000.0, 50_000.0, 70_000.0])
    model = ParityPostprocessor(atoms=grades, beta=500.0, epsilon=0.02).fit(SCORES, PROBA)
    assert np.array_equal(model.atoms_, grades)
    assert model.n_clipped_ == 0
    pmf = model.predict_pmf(SCORES, PROBA)
    assert np.all(violations(model, pmf, PROBA, "cdf") <= 0.02 + 2e-5)


@pytest.mark.parametrize("constant", [0.0, 7.0, -1e9])
def test_constant_scores_are_predicted_as_they_are(constant):
    model = ParityPostprocessor(epsilon=0.0, beta=1e4).fit(np.full(600, constant), PROBA)
    draws = model.predict(np.full(600, constant), PROBA)
    np.testing.assert_allclose(draws, constant, rtol=1e-8, atol=0.1)


def test_groups_that_nothing_tells_apart_need_no_parity():
    model = ParityPostprocessor(epsilon=0.0, atoms=9).fit(SCORES, np.full((600, 2), 0.5))
    assert np.all(model.certificate_.violation <= 1e-12)


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_a_handful_of_rows_is_enough_to_fit(n_rows):
    model = ParityPostprocessor(epsilon=0.0).fit(SCORES[:n_rows], PROBA[:n_rows])
    assert np.isfinite(model.predict_pmf(SCORES, PROBA)).all()


def test_a_warm_start_takes_fewer_iterations_to_the_same_answer():
    model = ParityPostprocessor(epsilon=0.01, warm_start=True).fit(SCORES, PROBA)
    first, pmf = model.result_.n_iter, model.predict_pmf(SCORES, PROBA)
    model.fit(SCORES, PROBA)
    assert model.result_.n_iter < first
    np.testing.assert_allclose(model.predict_pmf(SCORES, PROBA), pmf, atol=1e-4)
    model.set_params(atoms=9).fit(SCORES, PROBA)  # another shape: a cold start
    assert model.multipliers_.shape == (8, 3)


def test_a_solver_that_stops_short_warns_what_to_raise():
    with pytest.warns(
        ConvergenceWarning, match="'batch' stopped after 1 iterations.*raise max_iter"
    ) as record:
        model = ParityPostprocessor(epsilon=0.001, max_iter=1).fit(SCORES, PROBA)
    assert isinstance(record[0].message, SklearnConvergenceWarning)
    assert record[0].filename == __file__
    assert model.predict(SCORES, PROBA).shape == (600,)


def test_a_callback_sees_every_step_and_may_stop():
    seen = []
    ParityPostprocessor(epsilon=0.01).fit(SCORES, PROBA, callback=seen.append)
    counts = [progress.n_iter for progress in seen]
    assert counts == sorted(counts)  # a move to the next stage is no iteration of its own
    assert set(counts) == set(range(1, counts[-1] + 1))
    with pytest.warns(ConvergenceWarning, match="asked to stop"):
        model = ParityPostprocessor(epsilon=0.01).fit(SCORES, PROBA, callback=lambda progress: True)
    assert model.result_.n_iter == 1


@pytest.mark.parametrize(("parity", "epsilon"), [("pmf", 0.0), ("tv", 1e-6)])
def test_a_halt_by_rounding_at_the_solution_is_no_cause_for_alarm(parity, epsilon):
    data = make_population(20, n_groups=8, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PriceWarning)  # eight groups, and no tolerance
        model = ParityPostprocessor(parity=parity, epsilon=epsilon).fit(data.scores, data.group_proba)
    assert model.certificate_.violation.max() <= epsilon + 1e-5
