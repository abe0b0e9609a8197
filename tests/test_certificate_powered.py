"""Held-out bounds that unlabelled rows narrow."""

import json

import numpy as np
import pytest

from evenhand.certificates import certify_held_out, certify_prediction_powered
from evenhand.metrics import ks_unfairness


def _population(rng, n_rows=20_000):
    """Two groups that are nearly known from x, and a pmf that is far from parity."""
    x = rng.random(n_rows)
    proba = np.column_stack([0.95 - 0.9 * (x > 0.5), 0.05 + 0.9 * (x > 0.5)])
    groups = (rng.random(n_rows) < proba[:, 1]).astype(int)
    chance = np.where(rng.random(n_rows) < 0.4 + 0.2 * groups, 0.9, 0.2)
    pmf = np.column_stack([chance * 0.5, chance * 0.5, 1 - chance])
    return pmf, groups, proba


def _powered(pmf, known, proba, rows, more, **options):
    return certify_prediction_powered(
        pmf[rows],
        known[rows],
        proba[rows],
        pmf_unlabeled=pmf[more],
        group_proba_unlabeled=proba[more],
        **options,
    )


def test_unlabelled_rows_narrow_the_bounds_and_they_still_hold():
    rng = np.random.default_rng(0)
    pmf, groups, proba = _population(rng)
    truth = np.array(list(ks_unfairness(pmf, groups).values()))
    wider, failed = [], 0
    for _ in range(200):
        rows, more = rng.integers(len(pmf), size=300), rng.integers(len(pmf), size=4000)
        found = _powered(pmf, groups, proba, rows, more, delta=0.2)
        alone = certify_held_out(pmf[rows], groups[rows], delta=0.2, side="upper")
        failed += bool((found.upper < truth).any())
        wider.append((alone.upper - truth).mean() - (found.upper - truth).mean())
    assert failed <= 0.2 * 200 + 3 * np.sqrt(0.16 * 200)
    assert np.mean(wider) > 0.1 * (alone.upper - truth).mean()


def test_probabilities_that_foresee_nothing_change_nothing():
    rng = np.random.default_rng(1)
    pmf, groups, _ = _population(rng, 4000)
    blind = np.full((4000, 2), 0.5)
    rows, more = np.arange(1000), np.arange(1000, 4000)
    found = _powered(pmf, groups, blind, rows, more, metric="sup")
    alone = certify_held_out(pmf[rows], groups[rows], side="upper", metric="sup")
    np.testing.assert_allclose(found.upper, alone.upper, rtol=0.1)


def test_absent_groups_and_tolerances_are_those_of_any_held_out_certificate():
    rng = np.random.default_rng(2)
    pmf, groups, proba = _population(rng, 2000)
    three = np.column_stack([proba * 0.99, np.full(2000, 0.01)])
    rows, more = np.arange(500), np.arange(500, 2000)
    found = _powered(pmf, groups, three, rows, more, groups=[0, 1, 2], epsilon=0.9)
    assert found.absent == (2,)
    assert not found.holds
    assert found.method == "prediction-powered"
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"metric": "tv"}, "ks, sup"),
        ({"groups": [0, 1, 2]}, "one column for each"),
    ],
)
def test_bad_input_is_refused(change, message):
    pmf, groups, proba = _population(np.random.default_rng(3), 100)
    with pytest.raises(ValueError, match=message):
        _powered(pmf, groups, proba, slice(0, 50), slice(50, 100), **change)
