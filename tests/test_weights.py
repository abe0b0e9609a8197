"""The scale of the weights of rows decides nothing, and whole numbers count copies of a row."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from evenhand.exceptions import SharedDrawsWarning


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1 / 3000, 1e5])
def test_the_scale_of_the_weights_changes_nothing(scale):
    data = eh.datasets.make_population(3000, n_groups=2, separation=2.0, random_state=0)
    weights = np.random.default_rng(0).uniform(0.2, 2.0, 3000)

    def fit(weights):
        model = eh.ParityRegressor(epsilon=0.02, confidence=None)
        return model.fit(
            data.data, data.target, sensitive_features=data.sensitive_features, sample_weight=weights
        )

    one, other = fit(weights), fit(scale * weights)
    np.testing.assert_allclose(other.predict_pmf(data.data), one.predict_pmf(data.data), atol=1e-6)
    proba = other.predict_scores(data.data)[1]
    expected = LogisticRegression(max_iter=1000)  # with weights of mean one, as scikit-learn's users expect
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    expected.fit(X, data.sensitive_features, sample_weight=weights / weights.mean())
    np.testing.assert_allclose(proba, expected.predict_proba(X), atol=2e-3)  # the scaler is not weighted


def test_whole_numbers_count_copies_of_a_row():
    data = eh.datasets.make_population(600, n_groups=2, separation=2.0, random_state=0)
    counts = np.random.default_rng(0).integers(1, 4, 600)
    copies = np.repeat(np.arange(600), counts)

    def fit(rows, weights):
        model = eh.ParityRegressor(LinearRegression(), LogisticRegression(), confidence=None)
        groups = data.sensitive_features[rows]
        model.fit(
            data.data[rows],
            data.target[rows],
            sensitive_features=groups,
            sample_weight=weights,
            X_unlabeled=data.data,
        )
        return model.predict_scores(data.data)

    with pytest.warns(SharedDrawsWarning):
        repeated = fit(copies, None)
    for one, other in zip(fit(np.arange(600), counts), repeated, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)  # the precision of logistic regression
