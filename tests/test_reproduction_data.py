"""What the paper's experiments are run on: its splits, and its population of four groups."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.utils import Bunch

from evenhand.datasets import load_adult, load_communities, load_law_school
from reproduction.splits import paper_split
from reproduction.synthetic import make_paper_synthetic

SIZES = {load_law_school: 2000, load_communities: 1984, load_adult: 2000}


@pytest.mark.parametrize(("load", "size"), SIZES.items())
def test_a_file_is_split_as_the_paper_does(load, size, data_home):
    bunch = load(data_home)
    split = paper_split(bunch, random_state=0)
    assert sum(map(len, split)) == len(np.unique(np.concatenate(split))) == size
    shares = [bunch.sensitive_features[rows].mean() for rows in split]
    assert np.ptp(shares) <= 1 / len(split.test)


@pytest.mark.parametrize(
    ("load", "sensitive"),
    [
        (load_law_school, "race"),
        (load_law_school, ["white", "gender"]),
        (load_communities, "race"),
        (load_adult, ["sex", "white"]),
        (load_adult, ["sex", "race"]),
    ],
)
def test_a_file_with_many_groups_can_be_split(load, sensitive, data_home):
    bunch = load(data_home, sensitive=sensitive)
    assert len(paper_split(bunch, random_state=0).test) > 0


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (0.0, 0.5, 0.5)])
def test_shares_of_a_split_are_positive_and_sum_to_one(shares):
    with pytest.raises(ValueError, match="sum to one"):
        paper_split(Bunch(sensitive_features=["a", "b"] * 50), random_state=0, shares=shares)


def test_any_bunch_with_groups_can_be_split():
    split = paper_split(Bunch(sensitive_features=["a", "b"] * 50), random_state=0)
    assert [len(rows) for rows in split] == [40, 40, 20]


def test_the_paper_population_has_four_groups_by_thresholds_and_a_linear_target():
    population = make_paper_synthetic(50_000, random_state=0)
    first = population.data[:, 0]
    for group, (low, high) in enumerate([(-np.inf, -0.7), (-0.7, 0), (0, 0.7), (0.7, np.inf)]):
        np.testing.assert_array_equal(population.sensitive_features == group, (low <= first) & (first < high))
    model = LinearRegression().fit(population.data, population.target)
    np.testing.assert_allclose(model.coef_, [5, 4, 4], atol=5 / np.sqrt(50_000))
    assert np.var(population.target - population.scores) == pytest.approx(1.0, abs=0.03)
    shares = population.group_proba.mean(axis=0)
    np.testing.assert_allclose(shares, population.group_prior, atol=5 * 0.5 / np.sqrt(50_000))
