"""Automatic bounds, which leave far outliers out, and the automatic beta."""

import numpy as np
import pytest

from evenhand import ParityPostprocessor
from evenhand.datasets import make_population
from evenhand.dual.grid import automatic_bounds


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


@pytest.mark.slow
def test_the_automatic_beta_is_better_than_the_paper_s_where_the_truth_is_known():
    fresh = make_population(100_000, 2, random_state=99)
    losses = {"paper": [], "auto": []}
    for seed in range(6):
        sample = make_population(800, 2, random_state=seed)
        for beta, found in losses.items():
            model = ParityPostprocessor(epsilon=0.05, beta=beta).fit(sample.scores, sample.group_proba)
            pmf = model.predict_pmf(fresh.scores, fresh.group_proba)
            risk = (pmf * (fresh.scores[:, None] - model.atoms_) ** 2).sum(axis=1).mean()
            everybody = pmf.mean(axis=0)
            shares = fresh.group_proba / fresh.group_proba.sum(axis=0)
            violation = np.abs((everybody[:, None] - pmf.T @ shares).cumsum(axis=0)).max(axis=0)
            price = np.abs(model.multipliers_).sum(axis=0) * (np.ptp(model.atoms_) / 2) ** 2
            found.append(risk + price @ np.maximum(violation - 0.05, 0.0))
    assert np.mean(losses["auto"]) < np.mean(losses["paper"])
