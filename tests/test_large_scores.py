"""Scores so large that their squares are no numbers: refused by name, or read as the nearest bound."""

import warnings

import numpy as np
import pytest

from evenhand import ParityPostprocessor, ParityRegressor
from evenhand.dual.costs import COSTS
from evenhand.exceptions import ClippingWarning

RNG = np.random.default_rng(0)
BASE = RNG.normal(size=300)
SHARE = RNG.random(300)
PROBA = np.column_stack([SHARE, 1.0 - SHARE])
TOO_LARGE = "scores lie up to .* Divide scores, atoms and bounds by a constant"


@pytest.mark.parametrize("size", [1e155, 1e200, 1e300, 4e307])
@pytest.mark.parametrize(
    "settings",
    [
        *({"cost": cost} for cost in COSTS),
        {"parity": "mean"},
        {"solver": "sgd"},
        {"atoms": [-1.0, 0.0, 1.0]},
    ],
    ids=str,
)
def test_scores_whose_squares_overflow_are_refused_before_the_fit(size, settings):
    for method in ("fit", "partial_fit"):
        model = ParityPostprocessor(**settings)
        with pytest.raises(ValueError, match=TOO_LARGE):
            getattr(model, method)(BASE * size, PROBA)
        assert not hasattr(model, "policy_")


@pytest.mark.parametrize("cost", ["squared", "absolute", "pinball"])
def test_a_constant_factor_of_the_scores_changes_no_policy(cost):
    model = ParityPostprocessor(cost=cost)
    small, large = (model.fit(BASE * size, PROBA).tilt_ for size in (1.0, 2.0**400))
    np.testing.assert_allclose(large, small, atol=1e-9)
    assert np.isfinite(model.certificate_.risk)


def test_atoms_of_a_cost_matrix_may_be_no_larger():
    model = ParityPostprocessor(cost=1.0 - np.eye(2), atoms=[0.0, 1e300])
    with pytest.raises(ValueError, match=TOO_LARGE):
        model.fit(PROBA, PROBA)


@pytest.mark.parametrize("size", [1e155, 1e300, 1.7e308])
def test_new_rows_of_any_size_are_read_as_the_nearest_bound(size):
    model = ParityPostprocessor(random_state=1).fit(BASE, PROBA)
    scores = np.sign(BASE) * size
    nearest = np.clip(scores, *model.bounds_)
    np.testing.assert_array_equal(model.predict_pmf(scores, PROBA), model.predict_pmf(nearest, PROBA))
    assert set(model.predict(scores, PROBA)) <= set(model.atoms_)  # no warning, which would be an error


def test_new_rows_out_of_reach_of_atoms_without_bounds_are_refused():
    model = ParityPostprocessor(atoms=[-1.0, 0.0, 1.0]).fit(BASE, PROBA)
    for predict in (model.predict, model.predict_pmf, model.predict_mean):
        with pytest.raises(ValueError, match=TOO_LARGE):
            predict(BASE * 1e300, PROBA)


@pytest.mark.parametrize("size", [1e155, 1e300, 1.7e308])
def test_a_stream_clips_rows_that_its_grid_cannot_follow(size):
    model = ParityPostprocessor().fit(BASE, PROBA)
    with pytest.warns(ClippingWarning):
        model.partial_fit(np.sign(np.tile(BASE, 10)) * size, np.tile(PROBA, (10, 1)))
    assert np.isfinite(model.atoms_).all()
    assert np.isfinite(model.predict_pmf(BASE, PROBA)).all()


@pytest.mark.parametrize("size", [1e160, 1e300])
def test_an_estimator_whose_scores_are_too_large_says_so(size):
    X = RNG.normal(size=(300, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of its regressor, which squares outcomes
        with pytest.raises(ValueError, match=TOO_LARGE):
            ParityRegressor(cv=2).fit(X, X[:, 0] * size, sensitive_features=X[:, 1] > 0)
