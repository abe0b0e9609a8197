"""Predictions of ParityRegressor: the same for any table, batch, order and tool of scikit-learn."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand import get_num_threads, set_num_threads
from evenhand.datasets import make_population
from evenhand.metrics import risk
from tests.regressors import fit_simple, people, simple


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def fitted():
    return fit_simple()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_give_the_same_numbers_as_arrays(data, fitted, make):
    names = [f"x{j}" for j in range(data.data.shape[1])]
    frame = make({name: data.data[:, j] for j, name in enumerate(names)})
    groups = make({"s": data.sensitive_features})["s"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LinearRegression on polars may warn of names
        model = simple().fit(frame, data.target, sensitive_features=groups)
        np.testing.assert_allclose(model.predict(frame), fitted.predict(data.data), rtol=1e-9, atol=1e-12)
        assert model.feature_names_in_.tolist() == names
        with pytest.raises(ValueError, match="feature names"):
            model.predict(
                frame.rename(columns={"x0": "z"}) if make is pd.DataFrame else frame.rename({"x0": "z"})
            )
    with pytest.raises(ValueError, match="features"):
        fitted.predict(data.data[:, :2])


def test_sparse_tables_go_to_models_that_take_them(data, fitted):
    table = sparse.csr_array(data.data)
    model = simple().fit(table, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(model.predict_mean(table), fitted.predict_mean(data.data), atol=1e-6)


def test_the_same_person_gets_the_same_answer_in_any_batch_and_order(data, fitted):
    answers = fitted.predict(data.data)
    order = np.random.default_rng(0).permutation(len(answers))
    np.testing.assert_array_equal(fitted.predict(data.data[order]), answers[order])
    alone = [fitted.predict(data.data[[row]])[0] for row in range(40)]
    np.testing.assert_array_equal(alone, answers[:40])
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.predict(data.data), answers)


def test_the_number_of_threads_changes_nothing(data, fitted):
    before, answers = get_num_threads(), []
    try:
        for n_threads in (1, 3):
            set_num_threads(n_threads)
            model = clone(fitted).fit(data.data, data.target, sensitive_features=data.sensitive_features)
            answers.append(model.predict_pmf(data.data))
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(*answers)


def test_ids_and_seeds_choose_other_draws(data, fitted):
    ids = np.arange(len(data.data))
    by_id = fitted.predict(data.data, ids=ids)
    np.testing.assert_array_equal(fitted.predict(data.data[::-1], ids=ids[::-1]), by_id[::-1])
    fresh = fitted.predict(data.data, random_state=0)
    np.testing.assert_array_equal(fitted.predict(data.data, random_state=0), fresh)
    assert (fresh != by_id).mean() > 0.1
    with pytest.raises(ValueError, match="pass one"):
        fitted.predict(data.data, random_state=0, ids=ids)
    with pytest.raises(ValueError, match="ids has 2 values"):
        fitted.predict(data.data, ids=[1, 2])


def test_every_way_to_predict_is_read_off_the_pmf(data, fitted):
    pmf, atoms = fitted.predict_pmf(data.data), fitted.atoms_
    np.testing.assert_allclose(fitted.predict_mean(data.data), pmf @ atoms, atol=1e-9)
    median = atoms[(pmf.cumsum(axis=1) < 0.5).sum(axis=1)]
    np.testing.assert_array_equal(fitted.predict_quantile(data.data), median)
    assert np.isin(fitted.predict(data.data), atoms).all()
    expected = 1 - risk(data.target, pmf, atoms) / np.var(data.target)
    assert fitted.score(data.data, data.target) == pytest.approx(expected)


def test_the_units_of_the_target_change_nothing_but_the_units(data, fitted):
    dollars = simple().fit(data.data, 1000.0 * data.target + 5e4, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(
        dollars.predict(data.data), 1000.0 * fitted.predict(data.data) + 5e4, rtol=1e-9
    )


def test_parameters_of_nested_models_are_reached_and_cloned(data):
    model = simple(epsilon=0.1).set_params(estimator__fit_intercept=False, sensitive_estimator__C=0.5)
    copied = clone(model)
    assert copied.get_params()["estimator__fit_intercept"] is False
    assert copied.epsilon == 0.1
    assert "ParityRegressor" in model._repr_html_()


def test_a_grid_search_routes_the_groups():
    data = make_population(400, n_groups=2, random_state=0)
    grid = {"epsilon": [0.02, 0.99], "estimator__fit_intercept": [True, False]}
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(simple(), grid, cv=3)
        search.fit(data.data, data.target, sensitive_features=data.sensitive_features)
        assert search.best_params_["epsilon"] == 0.99
        pipeline = make_pipeline(StandardScaler(), simple())
        pipeline.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert pipeline.predict(data.data).shape == (400,)
    plain = make_pipeline(StandardScaler(), simple())
    plain.fit(data.data, data.target, parityregressor__sensitive_features=data.sensitive_features)
    np.testing.assert_array_equal(plain.predict(data.data), pipeline.predict(data.data))


def test_jobs_run_at_the_same_time_and_change_nothing(data, fitted):
    model = simple(n_jobs=2).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_array_equal(model.predict(data.data), fitted.predict(data.data))


def test_permutation_importance_reads_the_model(data, fitted):
    found = permutation_importance(fitted, data.data, data.target, n_repeats=2, random_state=0)
    assert found.importances_mean.max() > 0.01
