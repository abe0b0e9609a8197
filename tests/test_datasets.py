import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.utils import Bunch

from evenhand.datasets import (
    load_adult,
    load_communities,
    load_law_school,
    make_class_population,
    make_paper_synthetic,
    make_population,
    paper_split,
)

LOADERS = {
    load_law_school: ((20_800, 9), 2000),
    load_communities: ((1_984, 118), 1984),
    load_adult: ((30_162, 6), 2000),
}


@pytest.mark.parametrize("load", LOADERS)
def test_a_file_has_the_size_and_scale_that_its_rule_gives(load, data_home):
    bunch = load(data_home)
    shape, _ = LOADERS[load]
    assert bunch.data.shape == shape
    assert bunch.data.dtype == np.float64
    assert np.isfinite(bunch.data).all()
    assert len(bunch.feature_names) == shape[1]
    assert 0.0 <= bunch.target.min() < bunch.target.max() <= 1.0
    assert set(bunch.sensitive_features) == {0, 1}


@pytest.mark.parametrize("load", LOADERS)
def test_a_file_is_split_as_the_paper_does(load, data_home):
    bunch = load(data_home)
    _, size = LOADERS[load]
    split = paper_split(bunch, random_state=0)
    assert sum(map(len, split)) == len(np.unique(np.concatenate(split))) == size
    shares = [bunch.sensitive_features[rows].mean() for rows in split]
    assert np.ptp(shares) <= 1 / len(split.test)


def test_the_group_of_a_file_is_not_among_its_features(data_home):
    assert "race" not in load_law_school(data_home).feature_names
    assert "sex" not in load_adult(data_home).feature_names
    assert not [name for name in load_communities(data_home).feature_names if name.startswith("racep")]


def test_the_finer_groups_of_a_file_refine_its_two_groups(data_home):
    for load, n_groups in [(load_law_school, 8), (load_communities, 4)]:
        bunch = load(data_home)
        assert len(np.unique(bunch.race)) == n_groups
        pairs = set(zip(bunch.race.tolist(), bunch.sensitive_features.tolist(), strict=True))
        assert len(pairs) == n_groups


@pytest.mark.parametrize(
    ("load", "sensitive", "n_groups", "n_features"),
    [
        (load_law_school, "race", 8, 9),
        (load_law_school, ["white", "gender"], 4, 8),
        (load_communities, "race", 4, 118),
        (load_adult, ["sex", "white"], 4, 6),
        (load_adult, ["sex", "race"], 10, 6),
    ],
)
def test_other_groups_can_be_asked_for(load, sensitive, n_groups, n_features, data_home):
    bunch = load(data_home, sensitive=sensitive)
    assert len(np.unique(bunch.sensitive_features)) == n_groups
    assert bunch.data.shape[1] == len(bunch.feature_names) == n_features
    assert not set(np.atleast_1d(sensitive)) & set(bunch.feature_names)
    assert [len(rows) for rows in paper_split(bunch, random_state=0)][2] > 0


@pytest.mark.parametrize(
    ("load", "target"),
    [(load_law_school, "lsat"), (load_communities, "medIncome"), (load_adult, "hours.per.week")],
)
def test_another_target_trades_places_with_the_papers(load, target, data_home):
    papers, other = load(data_home), load(data_home, target=target)
    assert target in papers.feature_names
    assert target not in other.feature_names
    assert papers.target_name in other.feature_names
    assert other.data.shape == papers.data.shape
    assert 0.0 <= other.target.min() < other.target.max() <= 1.0
    np.testing.assert_array_equal(other.sensitive_features, papers.sensitive_features)


@pytest.mark.parametrize("load", LOADERS)
def test_unknown_groups_and_targets_are_refused_with_the_known_ones(load, data_home):
    with pytest.raises(ValueError, match=r"sensitive must be one or several of .*white.*'eyes'"):
        load(data_home, sensitive="eyes")
    with pytest.raises(ValueError, match=r"target must be one of .*'shoe size'"):
        load(data_home, target="shoe size")


def test_law_school_is_prepared_by_its_rule_on_a_file_of_three_rows(tmp_path, monkeypatch):
    (tmp_path / "lawschool.csv").write_text(
        "race,cluster,lsat,ugpa,zfygpa,zgpa,bar1,fulltime,fam_inc,age,gender\n"
        "7,1,44,3.0,1.5,2.0,P,1,5,-62,female\n"
        "7,1,44,3.5,1.5,NA,P,1,5,-62,female\n"
        "2,3,40,2.0,0.5,1.0,F,2,4,-60,male\n"
    )
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    bunch = load_law_school()
    assert bunch.target.tolist() == [0.75, 0.5]
    assert bunch.sensitive_features.tolist() == [1, 0]
    assert bunch.data.tolist() == [[1, 44, 1.5, 2, 1, 1, 5, -62, 0], [3, 40, 0.5, 1, 0, 2, 4, -60, 1]]


def test_adult_is_prepared_by_its_rule_on_a_file_of_four_rows(tmp_path):
    (tmp_path / "adult.csv").write_text(
        '"age","workclass","race","sex","hours","income"\n'
        '50,"Private","White","Male",1,">50K"\n'
        '40,"?","White","Male",2,">50K"\n'
        '30,"Private","Black","Female",3,"<=50K"\n'
        '20,"State","White","Female",7,"<=50K"\n'
    )
    bunch = load_adult(tmp_path)
    assert bunch.feature_names == ["hours", "income"]
    np.testing.assert_allclose(bunch.data, [[np.log(2), 1], [np.log(4), 0], [np.log(8), 0]])
    assert bunch.target.tolist() == [0.5, 0.3, 0.2]
    assert bunch.sensitive_features.tolist() == [1, 0, 0]
    assert bunch.race.tolist() == ["White", "Black", "White"]


@pytest.mark.parametrize("load", LOADERS)
def test_a_missing_file_says_where_it_looked_and_the_way_out(load, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"looked in .*data_home=.*EVENHAND_DATA") as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_the_argument_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "other"))
    with pytest.raises(FileNotFoundError) as caught:
        load_adult(tmp_path)
    assert "other" not in str(caught.value)


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


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_a_population_tells_the_truth_about_groups_and_targets(n_groups):
    n_rows = 200_000
    population = make_population(n_rows, n_groups, random_state=1)
    noise = 5 / np.sqrt(n_rows)
    np.testing.assert_allclose(population.group_proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(population.group_proba.mean(axis=0), population.group_prior, atol=noise)
    assert np.abs(population.target).max() <= 1.0
    # Calibration: among rows with about the same probability of group 0, that share is in group 0, and the
    # target's mean is the score's.
    order = np.array_split(np.argsort(population.group_proba[:, 0]), 10)
    for rows in order:
        member = population.sensitive_features[rows] == 0
        assert member.mean() == pytest.approx(population.group_proba[rows, 0].mean(), abs=noise * np.sqrt(10))
        assert population.target[rows].mean() == pytest.approx(
            population.scores[rows].mean(), abs=noise * np.sqrt(10)
        )


def test_a_population_does_not_change_with_the_seed_and_a_sample_does():
    one, same, other = (make_population(50, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.data, same.data)
    assert not np.array_equal(one.data, other.data)
    np.testing.assert_array_equal(one.group_prior, other.group_prior)


def test_shares_of_a_population_are_scaled_to_one():
    assert make_population(10, 2, group_prior=[1, 3], random_state=0).group_prior.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"n_groups": 1}, "n_groups"),
        ({"n_features": 0}, "n_features"),
        ({"noise": 1.5}, "noise"),
        ({"group_prior": [1, 2]}, "group_prior"),
        ({"group_prior": [1, 2, -1]}, "group_prior"),
    ],
)
def test_a_population_refuses_bad_arguments_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_population(**{"n_samples": 10, **arguments})


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (0.0, 0.5, 0.5)])
def test_shares_of_a_split_are_positive_and_sum_to_one(shares):
    with pytest.raises(ValueError, match="sum to one"):
        paper_split(Bunch(sensitive_features=["a", "b"] * 50), random_state=0, shares=shares)


@pytest.mark.parametrize(
    ("text", "message"), [("", "no rows"), ("a,b\n", "no rows"), ("a,b\n1,2\n3\n", "line 3 has not the 2")]
)
def test_half_a_file_is_refused_by_its_name(text, message, tmp_path):
    (tmp_path / "adult.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"adult.csv is not the whole data set: .*{message}"):
        load_adult(tmp_path)


def test_any_bunch_with_groups_can_be_split():
    split = paper_split(Bunch(sensitive_features=["a", "b"] * 50), random_state=0)
    assert [len(rows) for rows in split] == [40, 40, 20]


def test_the_class_population_is_drawn_from_the_probabilities_it_gives():
    data = make_class_population(50_000, n_groups=3, n_classes=3, random_state=0)
    noise = 5 * 0.5 / np.sqrt(50_000)
    cells = np.eye(9)[3 * data.target + data.sensitive_features]
    assert abs(data.joint_proba.sum(axis=1) - 1.0).max() < 1e-12
    for seen in (slice(None), data.data[:, 0] > 0.5, data.factor == 1, data.joint_proba[:, 8] > 0.3):
        few = noise * np.sqrt(50_000 / len(cells[seen]))
        np.testing.assert_allclose(cells[seen].mean(axis=0), data.joint_proba[seen].mean(axis=0), atol=few)
        second = data.second_attribute[seen].mean()
        assert second == pytest.approx(data.second_proba[seen, 1].mean(), abs=few)


def test_adult_income_has_a_column_for_each_value(data_home):
    data = load_adult(data_home, target="income")
    assert data.data.shape == (30162, 97)
    assert set(data.target) == {0, 1}
    assert "income" not in data.feature_names
    with pytest.raises(ValueError, match="target must be"):
        load_adult(data_home, target="wealth")
