import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evenhand.metrics import (
    BLOCK_ENTRIES,
    DISTANCES,
    GroupMasses,
    Membership,
    group_distances,
    ks_unfairness,
    risk,
    tv_unfairness,
    w1_unfairness,
)

UNFAIRNESS = {"ks": ks_unfairness, "tv": tv_unfairness, "w1": w1_unfairness}


def random_pmf(rng, n_rows, n_atoms):
    return rng.dirichlet(np.full(n_atoms, 0.3), size=n_rows)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_risk_of_a_pmf_is_the_double_sum_of_the_paper(shift):
    rng = np.random.default_rng(0)
    pmf, atoms, target = (
        random_pmf(rng, 50, 7),
        np.sort(rng.normal(size=7)) + shift,
        rng.normal(size=50) + shift,
    )
    by_hand = np.mean(
        [
            sum(p * (a - y) ** 2 for p, a in zip(row, atoms, strict=True))
            for row, y in zip(pmf, target, strict=True)
        ]
    )
    assert risk(target, pmf, atoms) == pytest.approx(by_hand, rel=1e-10)


def test_risk_of_values_is_the_mean_squared_error_and_that_of_their_one_hot_pmf():
    rng = np.random.default_rng(1)
    atoms, target = np.linspace(-1, 1, 5), rng.normal(size=30)
    drawn = rng.integers(5, size=30)
    expected = np.mean((atoms[drawn] - target) ** 2)
    assert risk(target, atoms[drawn]) == pytest.approx(expected)
    assert risk(target, np.eye(5)[drawn], atoms) == pytest.approx(expected)


def test_whole_weights_in_risk_repeat_rows():
    rng = np.random.default_rng(2)
    pmf, atoms, target = random_pmf(rng, 20, 4), np.arange(4.0), rng.normal(size=20)
    times = rng.integers(0, 4, size=20)
    repeated = risk(np.repeat(target, times), np.repeat(pmf, times, axis=0), atoms)
    assert risk(target, pmf, atoms, sample_weight=times) == pytest.approx(repeated)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=40))
def test_ks_of_values_agrees_with_scipy_on_any_sample_with_ties(rows):
    groups, values = np.array([g for g, _ in rows]), np.array([float(v) for _, v in rows])
    distances = ks_unfairness(values, groups)
    assert list(distances) == sorted(set(groups.tolist()))
    for group, distance in distances.items():
        own, every = stats.ecdf(values[groups == group]).cdf, stats.ecdf(values).cdf
        expected = np.abs(own.evaluate(values) - every.evaluate(values)).max()
        assert distance == pytest.approx(expected, abs=1e-12)


def test_ks_of_a_pmf_is_the_supremum_of_the_paper_by_brute_force():
    rng = np.random.default_rng(3)
    pmf, atoms = random_pmf(rng, 60, 9), np.sort(rng.normal(size=9))
    groups = rng.integers(3, size=60)
    for group, distance in ks_unfairness(pmf, groups, atoms).items():
        gaps = [
            abs(
                pmf[groups == group][:, atoms <= t].sum(axis=1).mean() - pmf[:, atoms <= t].sum(axis=1).mean()
            )
            for t in atoms
        ]
        assert distance == pytest.approx(max(gaps), abs=1e-12)


def test_ks_of_a_one_hot_pmf_is_that_of_its_values():
    rng = np.random.default_rng(4)
    drawn, groups = rng.integers(6, size=80), rng.integers(2, size=80)
    of_pmf, of_values = ks_unfairness(np.eye(6)[drawn], groups), ks_unfairness(drawn, groups)
    assert of_pmf == pytest.approx(of_values, abs=1e-12)


LABELLED_VALUES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), min_size=1, max_size=40)


@given(LABELLED_VALUES)
def test_w1_of_values_agrees_with_scipy_on_any_sample_with_ties(rows):
    groups, values = np.array([g for g, _ in rows]), np.array([float(v) for _, v in rows])
    distances = w1_unfairness(values, groups)
    assert list(distances) == sorted(set(groups.tolist()))
    for group, distance in distances.items():
        expected = stats.wasserstein_distance(values[groups == group], values)
        assert distance == pytest.approx(expected, abs=1e-12)


@given(LABELLED_VALUES)
def test_tv_of_values_is_the_largest_difference_over_all_events(rows):
    groups, values = np.array([g for g, _ in rows]), np.array([float(v) for _, v in rows])
    for group, distance in tv_unfairness(values, groups).items():
        own = {v: np.mean(values[groups == group] == v) for v in set(values.tolist())}
        above = [v for v, share in own.items() if share > np.mean(values == v)]
        expected = np.isin(values[groups == group], above).mean() - np.isin(values, above).mean()
        assert distance == pytest.approx(expected, abs=1e-12)


def test_w1_of_a_pmf_agrees_with_scipy_on_uneven_atoms():
    rng = np.random.default_rng(7)
    pmf, atoms = random_pmf(rng, 60, 9), np.sort(rng.normal(size=9))
    groups = rng.integers(3, size=60)
    for group, distance in w1_unfairness(pmf, groups, atoms).items():
        own, every = pmf[groups == group].mean(axis=0), pmf.mean(axis=0)
        expected = stats.wasserstein_distance(atoms, atoms, own, every)
        assert distance == pytest.approx(expected, abs=1e-12)


def test_tv_of_a_pmf_is_the_largest_difference_over_all_sets_of_atoms():
    rng = np.random.default_rng(8)
    pmf, groups = random_pmf(rng, 40, 6), rng.integers(2, size=40)
    events = np.array([[event >> atom & 1 for atom in range(6)] for event in range(64)])
    for group, distance in tv_unfairness(pmf, groups).items():
        gaps = events @ (pmf[groups == group].mean(axis=0) - pmf.mean(axis=0))
        assert distance == pytest.approx(gaps.max(), abs=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
def test_a_distance_of_a_one_hot_pmf_is_that_of_its_values(name):
    rng = np.random.default_rng(9)
    atoms = np.sort(rng.normal(size=6))
    drawn, groups = rng.integers(6, size=80), rng.integers(2, size=80)
    of_pmf = UNFAIRNESS[name](np.eye(6)[drawn], groups, atoms)
    assert of_pmf == pytest.approx(UNFAIRNESS[name](atoms[drawn], groups), abs=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
def test_a_distance_by_group_probabilities_is_what_many_draws_of_the_groups_show(name):
    rng = np.random.default_rng(10)
    values, shares = rng.integers(5, size=30).astype(float), rng.dirichlet([1.0, 1.0, 1.0], size=30)
    repeats = 20_000
    uniforms = rng.random((repeats, 30, 1))
    groups = (uniforms > shares.cumsum(axis=1)[None]).sum(axis=2).ravel()
    drawn = UNFAIRNESS[name](np.tile(values, repeats), groups)
    masses = GroupMasses.of_values(values, Membership.of_proba((0, 1, 2), shares))
    noise = 5.0 * np.ptp(values) / np.sqrt(repeats)
    np.testing.assert_allclose(group_distances(masses, name), list(drawn.values()), atol=noise)


@pytest.mark.parametrize("name", DISTANCES)
def test_whole_weights_of_a_membership_repeat_rows(name):
    rng = np.random.default_rng(11)
    values, codes, times = rng.normal(size=40), rng.integers(2, size=40), rng.integers(1, 4, size=40)
    weighted = Membership((0, 1), codes=codes, weights=times.astype(float))
    repeated = UNFAIRNESS[name](np.repeat(values, times), np.repeat(codes, times))
    found = group_distances(GroupMasses.of_values(values, weighted), name)
    np.testing.assert_allclose(found, list(repeated.values()), atol=1e-12)


def test_tv_of_values_without_ties_is_one_less_the_share_of_the_group():
    groups = np.repeat([0, 1], [20, 80])
    distances = tv_unfairness(np.random.default_rng(12).normal(size=100), groups)
    assert distances == pytest.approx({0: 0.8, 1: 0.2})


def test_w1_has_the_units_of_the_prediction():
    rng = np.random.default_rng(13)
    values, groups = rng.normal(size=50), rng.integers(2, size=50)
    thousands = w1_unfairness(1000 * values + 7, groups)
    assert thousands == pytest.approx({g: 1000 * d for g, d in w1_unfairness(values, groups).items()})


def test_two_groups_share_one_gap_in_proportion_to_the_other_ones_size():
    rng = np.random.default_rng(5)
    groups = np.repeat([0, 1], [20, 80])
    distances = ks_unfairness(rng.normal(size=100) + groups, groups)
    assert distances[0] * 20 == pytest.approx(distances[1] * 80)


def test_metrics_do_not_depend_on_how_many_blocks_a_pmf_is_read_in():
    rng = np.random.default_rng(6)
    n_rows = 3 * BLOCK_ENTRIES // 200
    pmf = random_pmf(rng, 50, 200)[rng.integers(50, size=n_rows)]
    atoms, target, groups = np.linspace(-1, 1, 200), rng.normal(size=n_rows), rng.integers(2, size=n_rows)
    assert risk(target, pmf, atoms) == pytest.approx(
        np.mean(pmf @ atoms**2 - 2 * target * (pmf @ atoms) + target**2)
    )
    whole = np.abs(np.cumsum(pmf[groups == 1].mean(axis=0) - pmf.mean(axis=0))).max()
    assert ks_unfairness(pmf, groups)[1] == pytest.approx(whole, abs=1e-12)


def test_metrics_of_a_large_float32_pmf_never_copy_it():
    n_rows, n_atoms = 200_000, 64
    pmf = np.full((n_rows, n_atoms), 1 / n_atoms, dtype=np.float32)
    target, groups, atoms = np.zeros(n_rows), np.arange(n_rows) % 2, np.linspace(-1, 1, n_atoms)
    tracemalloc.start()
    risk(target, pmf, atoms)
    ks_unfairness(pmf, groups, atoms)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 8 * BLOCK_ENTRIES + 100 * n_rows < 2 * pmf.nbytes


@pytest.mark.parametrize("as_series", [list, np.array, pd.Series, pl.Series])
def test_labels_of_any_container_come_back_as_plain_keys(as_series):
    assert ks_unfairness(as_series([0.0, 1.0]), as_series(["x", "y"])) == {"x": 0.5, "y": 0.5}


PMF = [[0.5, 0.5], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], PMF), "needs the atoms"),
        (([0, 1], PMF, [0, 1, 2]), "one value per column"),
        (([0, 1], PMF, [1, 0]), "strictly increasing"),
        (([0, 1, 2], PMF, [0, 1]), "y_true needs one value per row"),
        (([0, np.nan], PMF, [0, 1]), "y_true has NaN"),
        (([0, 1], [0, np.inf]), "pmf_or_values has NaN"),
        (([0, 1], [[0.5, 0.4], [0.2, 0.8]], [0, 1]), "row 0 has the sum 0.9"),
        (([0, 1], [[0.5, 0.5], [-0.2, 1.2]], [0, 1]), "row 1 .* minimum -0.2"),
        (([0, 1], [[0.5, 0.5], [np.nan, 1.0]], [0, 1]), "row 1"),
        (([], []), "not empty"),
        (([0, 1], PMF, [0, 1], [1, -1]), "sample_weight must not be negative"),
        (([0, 1], PMF, [0, 1], [0, 0]), "not zero in every row"),
    ],
)
def test_risk_refuses_bad_input_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        risk(*arguments)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"], "one label per row"),
        ([[["a"]], [["b"]]], r"must have shape \(n_rows,\) or \(n_rows, n_columns\): got \(2, 1, 1\)"),
        ([None, np.nan], "missing in every row"),
        ([["a"], ["b", "c"]], "must hold labels"),
    ],
)
def test_ks_refuses_bad_groups_by_name(groups, message):
    with pytest.raises(ValueError, match=message):
        ks_unfairness(PMF, groups)


@pytest.mark.parametrize("unfairness", [tv_unfairness, w1_unfairness])
def test_the_other_distances_refuse_what_ks_refuses(unfairness):
    with pytest.raises(ValueError, match="missing in every row"):
        unfairness(PMF, [None, None])
    with pytest.raises(ValueError, match="strictly increasing"):
        unfairness(PMF, ["a", "b"], [1, 0])


def test_w1_of_a_pmf_needs_its_atoms():
    with pytest.raises(ValueError, match="w1_unfairness needs the atoms"):
        w1_unfairness(PMF, ["a", "b"])
