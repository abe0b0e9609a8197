"""A choice among several predictors on the rows that prove something about it."""

import json

import numpy as np
import pytest

from evenhand.certificates import certify_held_out, certify_sequence
from evenhand.datasets import make_population
from evenhand.metrics import Membership


@pytest.fixture(scope="module")
def held():
    return make_population(3000, 3, random_state=1)


def test_the_last_of_a_sequence_that_passes_is_chosen(held):
    groups = held.sensitive_features
    pmfs = [_step(shift, groups) for shift in (0.0, 0.02, 0.3, 0.0)]
    found = certify_sequence(pmfs, groups, epsilon=0.1, atoms=[0.0, 1.0])
    assert found.chosen == 1
    assert found.n_tested == 3  # the last would pass, but comes after one that does not
    single = certify_held_out(pmfs[1], groups, epsilon=0.1, side="upper")
    assert (found.upper[1] <= single.upper).all()  # no union over groups is paid
    assert "predictor 1 and those before it" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    none = certify_sequence(iter(pmfs[2:]), groups, epsilon=0.1)
    assert (none.chosen, none.n_tested) == (None, 1)
    absent = certify_sequence(pmfs, groups, epsilon=1.0, groups=[0, 1, 2, 3])
    assert absent.chosen is None
    assert "no held-out rows of 3" in str(absent)


def _step(shift, groups):
    chance = 0.5 + shift * (groups == 0)
    return np.column_stack([1 - chance, chance])


def test_a_sequence_is_judged_within_strata():
    rng = np.random.default_rng(4)
    stratum, group = rng.integers(2, size=(2, 6000))
    chance = 0.2 + 0.6 * stratum  # depends on the stratum alone, which depends on nothing
    biased = chance + 0.3 * group * (stratum == 0)
    pmfs = [np.column_stack([1 - p, p]) for p in (chance, biased)]
    found = certify_sequence(pmfs, group, strata=stratum, epsilon=0.05)
    assert found.chosen == 0
    assert found.groups == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert (found.upper[1] > 0.1).tolist() == [True, True, False, False]
    members = Membership(found.groups, stratum * 2 + group, strata=np.array([0, 0, 1, 1]))
    again = certify_sequence(pmfs, members, epsilon=0.05)
    np.testing.assert_allclose(again.upper, found.upper)
    for group_, inside in ((1, stratum == 0), (3, stratum == 1)):
        alone = certify_sequence([pmfs[1][inside]], group[inside], epsilon=0.05)
        assert alone.upper[0, 1] == pytest.approx(found.upper[1, group_])


def test_what_is_chosen_is_beyond_epsilon_no_more_often_than_it_may():
    """Ten predictors, of which the fourth is the first just beyond epsilon: the hardest to tell."""
    rng = np.random.default_rng(5)
    delta, wrong = 0.2, 0
    for _ in range(300):
        groups = np.repeat([0, 1], [150, 250])
        draws = rng.random((10, 400))
        shifts = 0.2 * np.arange(1, 11) / 4  # a gap of 0.2 is 0.1 or so from everybody
        values = (draws < 0.4 + np.minimum(shifts, 0.5)[:, None] * groups).astype(float)
        found = certify_sequence(
            list(values), groups, epsilon=[0.2 * 250 / 400, 0.2 * 150 / 400], delta=delta
        )
        wrong += found.chosen is not None and found.chosen >= 3
    assert wrong <= delta * 300


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": []}, "one candidate"),
        ({"delta": 1.0}, "delta"),
        ({"metric": "w2"}, "metric must be one of"),
    ],
)
def test_bad_input_of_a_sequence_is_refused(change, message):
    good = {"candidates": [[0.1, 0.2]], "sensitive_features": ["a", "b"], "epsilon": 0.1}
    with pytest.raises(ValueError, match=message):
        certify_sequence(**(good | change))


def test_rows_that_count_unequally_are_refused():
    weights, proba = np.array([1.0, 2.0]), np.array([[0.5, 0.5], [0.2, 0.8]])
    unequal = Membership(("a", "b"), np.array([0, 1]), weights=weights)
    for members in (unequal, Membership.of_proba(("a", "b"), proba)):
        with pytest.raises(ValueError, match="count unequally"):
            certify_sequence([[0.1, 0.2]], members, epsilon=0.1)


def test_rows_in_groups_of_several_strata_are_compared_in_each():
    rng = np.random.default_rng(6)
    sex, age = rng.integers(2, size=(2, 4000))
    cells = np.column_stack([sex == 0, sex == 1, age == 0, age == 1]).astype(float)
    labels = (("sex", 0), ("sex", 1), ("age", 0), ("age", 1))
    members = Membership.of_cells(labels, cells, np.array([0, 0, 1, 1]))
    chance = 0.4 + 0.2 * age
    found = certify_sequence([np.column_stack([1 - chance, chance])], members, epsilon=0.05)
    assert found.chosen is None
    assert (found.upper[0] > 0.09).tolist() == [False, False, True, True]
