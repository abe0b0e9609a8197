"""What a proxy can hide: bounds against linear programs over all that is possible, and over populations."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand import metrics
from evenhand.metrics import METRICS, Membership, unfairness, unfairness_bounds
from evenhand.metrics.proxies import bound_distances


def draw_table(seed, n_cells=3, n_points=4, n_groups=2):
    """Weights, group shares and distributions of a few cells, some of them with zeros and ones."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_cells))
    shares = rng.dirichlet(np.full(n_groups, 0.5), n_cells)
    laws = rng.dirichlet(np.full(n_points, 0.6), n_cells)
    laws[0] = np.eye(n_points)[rng.integers(n_points)]
    return weights, shares, laws, np.sort(rng.normal(size=n_points))


def possible_joint_laws(weights, shares, laws):
    """Equations of P(S = s, Y = l | z), variables in the order of cell, group and point."""
    (n_cells, n_groups), n_points = shares.shape, laws.shape[1]
    groups = np.kron(np.eye(n_cells * n_groups), np.ones(n_points))
    points = np.kron(np.eye(n_cells), np.kron(np.ones(n_groups), np.eye(n_points)))
    return np.vstack([groups, points]), np.concatenate([shares.ravel(), laws.ravel()])


def gap_of(weights, shares, laws, group):
    """The matrix whose product with the variables is the group's distribution, and everybody's."""
    n_groups, n_points = shares.shape[1], laws.shape[1]
    inside = np.kron(weights / (weights @ shares[:, group]), np.eye(n_groups)[group])
    return np.kron(inside, np.eye(n_points)), weights @ laws


def norms(metric, points):
    """Rows that are largest gaps (True), or rows whose sizes are added."""
    below = np.tril(np.ones((len(points), len(points))))[:-1]
    return {
        "ks": (below, True),
        "sup": (np.eye(len(points)), True),
        "mean": (points[None], True),
        "tv": (0.5 * np.eye(len(points)), False),
        "w1": (np.diff(points)[:, None] * below, False),
    }[metric]


def by_programs(metric, weights, shares, laws, points, group):
    """Least and largest distance, by linear programs over all joint laws."""
    equations, totals = possible_joint_laws(weights, shares, laws)
    own, everybody = gap_of(weights, shares, laws, group)
    rows, largest = norms(metric, points)
    target = rows @ everybody
    signs = [*np.eye(len(rows)), *-np.eye(len(rows))] if largest else product([-1.0, 1.0], repeat=len(rows))
    most = max(
        -linprog(-(np.array(sign) @ rows @ own), A_eq=equations, b_eq=totals).fun - np.array(sign) @ target
        for sign in signs
    )
    heights = np.ones((len(rows), 1)) if largest else np.eye(len(rows))
    n_heights = heights.shape[1]
    least = linprog(
        np.concatenate([np.zeros(own.shape[1]), np.ones(n_heights)]),
        A_ub=np.block([[rows @ own, -heights], [-rows @ own, -heights]]),
        b_ub=np.concatenate([target, -target]),
        A_eq=np.hstack([equations, np.zeros((len(equations), n_heights))]),
        b_eq=totals,
    ).fun
    return least, most


def of_table(weights, shares, laws, points, metric, proxy=True):
    return unfairness_bounds(
        laws,
        shares,
        points,
        metric=metric,
        sample_weight=weights,
        proxy=np.arange(len(weights)) if proxy else None,
    )


@pytest.mark.parametrize("metric", ["ks", "sup", "mean", "tv", "w1"])
@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_small_tables_are_those_of_linear_programs_over_all_joint_laws(metric, seed):
    table = draw_table(seed, n_cells=2 + seed % 3, n_points=3 + seed % 3, n_groups=2 + seed % 2)
    found = of_table(*table, metric)
    assert found.sharp.all()
    for group in range(table[1].shape[1]):
        least, most = by_programs(metric, *table, group)
        assert found.most[group] == pytest.approx(most, abs=1e-7)
        assert found.least[group] == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("metric", ["ks", "sup", "mean", "tv", "w1"])
def test_bounds_of_large_tables_are_never_narrower_than_those_of_small_ones(metric, monkeypatch):
    for seed in range(10):
        table = draw_table(seed, n_cells=4, n_points=6)
        small = of_table(*table, metric)
        with monkeypatch.context() as patch:
            patch.setattr("evenhand.metrics.possible_laws.MOST_VARIABLES", 0)
            large = of_table(*table, metric)
        assert (large.most >= small.most - 1e-9).all()
        assert (large.least <= small.least + 1e-6).all()
        if metric in ("ks", "sup", "mean"):
            np.testing.assert_allclose(large.most, small.most)


def draw_population(rng):
    """Rows of true groups with exact shares by cell, whose predictions go with the errors of the proxy."""
    n_cells, n_groups = int(rng.integers(1, 8)), int(rng.integers(2, 5))
    n_rows = int(rng.integers(60, 400))
    place = rng.integers(n_cells, size=n_rows)
    leaning = rng.dirichlet(np.full(n_groups, rng.choice([0.3, 1.0, 5.0])), n_cells)
    groups = np.array([rng.choice(n_groups, p=leaning[cell]) for cell in place])
    groups[:n_groups] = np.arange(n_groups)
    shares = np.array([np.bincount(groups[place == cell], minlength=n_groups) for cell in range(n_cells)])
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)
    # what the proxy does not know of a person moves the prediction, little or very much
    error = np.eye(n_groups)[groups] - shares[place]
    values = rng.normal(size=n_cells)[place] + rng.normal(size=n_rows)
    values = values + rng.choice([0.0, 1.0, 10.0]) * error @ rng.normal(size=n_groups)
    values = np.round(values, int(rng.integers(0, 3)))
    return values, groups, shares[place], place


def violations(rng, with_proxy):
    """Measures of one population that lie outside their bounds."""
    values, groups, shares, place = draw_population(rng)
    members = Membership.of_proba(tuple(range(shares.shape[1])), shares)
    predictions = metrics.masses.Predictions.read(values, None)
    found = bound_distances(METRICS, predictions, members, place if with_proxy else None)
    outside = []
    for metric, bounds in found.items():
        truth = np.array(list(unfairness(values, groups, metric=metric).values()))
        slack = 1e-9 * (1.0 + np.ptp(values))
        wrong = (truth > bounds.most + slack) | (truth < bounds.least - slack)
        outside += [metric] * int(wrong.sum())
        assert (bounds.least <= bounds.estimate).all()
        assert (bounds.estimate <= bounds.most).all()
    return outside


@pytest.mark.slow
def test_no_population_is_outside_its_bounds():
    rng = np.random.default_rng(0)
    assert [violations(rng, with_proxy=bool(number % 2)) for number in range(40)] == [[]] * 40


@pytest.mark.slow
def test_none_of_a_thousand_populations_with_dependent_proxy_errors_is_outside_its_bounds():
    rng = np.random.default_rng(1)
    assert [violations(rng, with_proxy=bool(number % 2)) for number in range(1000)] == [[]] * 1000
