"""The default models take tables as they come: text, missing cells, dates told apart, sparse matrices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.estimators.models import table_kinds, table_pipeline

DATA = eh.datasets.make_population(600, n_groups=2, random_state=0)
STATES = np.random.default_rng(0).choice(["MS", "NY", "CA"], 600)
NUMBERS = pd.DataFrame(DATA.data, columns=DATA.feature_names)
TABLE = NUMBERS.assign(state=STATES)
EFFECT = DATA.target + np.where(STATES == "MS", 2.0, 0.0)
LABELS = {"sensitive_features": DATA.sensitive_features}


def quick(*models, **settings):
    return eh.ParityRegressor(*models, epsilon=0.1, confidence=None, atoms=31, **settings)


TABLES = {
    "frame": TABLE,
    "category": TABLE.assign(state=TABLE.state.astype("category")),
    "polars": pl.from_pandas(TABLE),
    "array": TABLE.to_numpy(dtype=object),
    "missing": TABLE.assign(state=TABLE.state.astype(object).where(STATES != "CA", None)),
    "numbers as objects": TABLE.assign(x1=TABLE.x1.astype(object)),
}


@pytest.mark.parametrize("name", TABLES)
def test_text_is_learned_from(name, tmp_path):
    X = TABLES[name]
    model = quick().fit(X, EFFECT, **LABELS)
    assert model.score(X, EFFECT) > quick().fit(NUMBERS, EFFECT, **LABELS).score(NUMBERS, EFFECT) + 0.3
    by_hand = quick(
        table_pipeline(RidgeCV(alphas=np.logspace(-3, 3, 13)), table_kinds(X)),
        table_pipeline(LogisticRegression(max_iter=1000), table_kinds(X)),
    ).fit(X, EFFECT, **LABELS)
    assert np.array_equal(model.predict_pmf(X), by_hand.predict_pmf(X))
    eh.save(model, tmp_path / "model.evenhand")
    again = eh.load(tmp_path / "model.evenhand")
    assert np.array_equal(again.predict(X), model.predict(X))


def test_classes_are_learned_from_text_too():
    target = np.where(EFFECT > 1.0, "high", "low")
    model = eh.ParityClassifier(epsilon=0.1, confidence=None).fit(TABLE, target, **LABELS)
    assert model.score(TABLE, target) > 0.9


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_matrices_are_learned_from(kind):
    X = kind(DATA.data)
    model = quick().fit(X, DATA.target, **LABELS)
    dense = quick().fit(DATA.data, DATA.target, **LABELS)
    assert model.score(X, DATA.target) == pytest.approx(dense.score(DATA.data, DATA.target), abs=0.01)
    assert model.predict(X).shape == (600,)


def test_numbers_are_learned_from_as_ever():
    as_ever = make_pipeline(StandardScaler(), RidgeCV(alphas=np.logspace(-3, 3, 13)))
    groups = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    wanted = quick(as_ever, groups).fit(NUMBERS, DATA.target, **LABELS).predict_pmf(NUMBERS)
    for X in (NUMBERS, NUMBERS.astype(object), NUMBERS.convert_dtypes(), DATA.data):
        found = quick().fit(X, DATA.target, **LABELS).predict_pmf(X)
        np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_folds_without_a_category_are_fitted_all_the_same():
    """A fold may have too few rows of a category for a column of its own: the fit begins anew there."""
    states = np.repeat(["MS", "NY", "CA"], [579, 11, 10])
    X = NUMBERS.assign(state=states)
    assert quick().fit(X, DATA.target, **LABELS).score(X, DATA.target) > 0.7


def test_a_model_for_numbers_alone_names_the_way_out():
    with pytest.raises(
        ValueError, match=r"(?s)could not convert.*column\(s\) 'state'.*table_pipeline\(model, X\)"
    ):
        quick(LinearRegression()).fit(TABLE, DATA.target, **LABELS)
    kept = quick(table_pipeline(LinearRegression(), TABLE)).fit(TABLE, DATA.target, **LABELS)
    assert kept.score(TABLE, DATA.target) > 0.7


def test_dates_are_told_apart_before_any_fit():
    with pytest.raises(
        ValueError, match=r"'since' has type .*: convert it to a number, such as a number of days"
    ):
        quick().fit(NUMBERS.assign(since=pd.Timestamp("2020-02-01")), DATA.target, **LABELS)


def test_the_tags_say_what_the_default_models_take():
    tags = quick().__sklearn_tags__().input_tags
    assert tags.sparse
    assert tags.string
    assert not quick(LinearRegression()).__sklearn_tags__().input_tags.string
