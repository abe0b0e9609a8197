"""Fold fits of logistic regression begin where the fit on all rows ended, and end where they would have."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand.estimators.models import fit_model


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 8))
    logits = X @ rng.normal(size=(8, 3))
    return X, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def last(model):
    return model[-1] if hasattr(model, "steps") else model


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cg", "newton-cholesky"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_answer_is_the_same_and_the_way_is_shorter(rows, solver, n_classes, scaled):
    X, y = rows[0], np.minimum(rows[1], n_classes - 1)
    model = LogisticRegression(solver=solver, tol=1e-6)
    model = make_pipeline(StandardScaler(), model) if scaled else model
    near = fit_model(model, X, y, None, "estimator")
    cold = fit_model(model, X[::2], y[::2], None, "estimator")
    warm = fit_model(model, X[::2], y[::2], None, "estimator", near)
    np.testing.assert_allclose(warm.predict_proba(X), cold.predict_proba(X), atol=1e-4)
    assert max(last(warm).n_iter_) <= max(last(cold).n_iter_)


def test_a_fit_that_was_cut_short_is_no_start(rows):
    X, y = rows
    short = LogisticRegression(max_iter=2)
    with pytest.warns(UserWarning, match="converge"):
        near = fit_model(short, X, y, None, "estimator")
    with pytest.warns(UserWarning, match="converge"):
        warm, cold = (fit_model(short, X[::2], y[::2], None, "estimator", start) for start in (near, None))
    np.testing.assert_array_equal(warm.coef_, cold.coef_)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(solver="saga", random_state=0, max_iter=300),
        RandomForestClassifier(10, random_state=0),
    ],
    ids=["saga", "forest"],
)
def test_models_that_could_tell_where_they_began_do_not_begin_there(rows, model):
    X, y = rows
    near = fit_model(model, X, y, None, "estimator")
    warm, cold = (fit_model(model, X[::2], y[::2], None, "estimator", start) for start in (near, None))
    np.testing.assert_array_equal(warm.predict_proba(X), cold.predict_proba(X))


def test_a_fold_without_one_of_the_classes_begins_at_zero(rows):
    X, y = rows
    near = fit_model(LogisticRegression(), X, y, None, "estimator")
    some = y < 2
    warm, cold = (
        fit_model(LogisticRegression(), X[some], y[some], None, "estimator", start) for start in (near, None)
    )
    np.testing.assert_array_equal(warm.coef_, cold.coef_)
