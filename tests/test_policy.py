"""The policy against its definition, and that a row's answer is the row's alone."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand.dual.grid import (
    Grid,
    automatic_beta,
    automatic_bounds,
    automatic_n_atoms,
    make_grid,
    paper_beta,
    uniform_grid,
)
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.postprocessor import ParityPostprocessor


def make_policy(n_groups=3, n_atoms=21, beta=30.0, seed=0, grid=None):
    rng = np.random.default_rng(seed)
    grid = grid or uniform_grid(100.0, 300.0, n_atoms)
    prior = rng.dirichlet(5 * np.ones(n_groups))
    return SoftmaxPolicy(grid, prior, 0.3 * rng.normal(size=(len(grid.atoms), n_groups)), beta)


def make_rows(policy, n_rows=1500, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(100.0, 300.0, n_rows), rng.dirichlet(np.ones(len(policy.group_prior)), n_rows)


def plain_pmf(policy, scores, proba):
    """Equation (7) of the paper, on the scale where the atoms span [-1, 1]."""
    low, high = policy.grid.atoms[[0, -1]]
    atoms = (2 * policy.grid.atoms - low - high) / (high - low)
    eta = (2 * scores - low - high) / (high - low)
    logits = (1 - proba / policy.group_prior) @ policy.tilt.T - (eta[:, None] - atoms) ** 2
    powers = np.exp(policy.temperature * (logits - logits.max(axis=1, keepdims=True)))
    return powers / powers.sum(axis=1, keepdims=True)


POLICIES = {
    "two groups": make_policy(n_groups=2),
    "three groups": make_policy(),
    "five groups, cold": make_policy(n_groups=5, n_atoms=201, beta=20_000.0),
    "two atoms": make_policy(n_atoms=2),
    "uneven atoms": make_policy(grid=Grid(np.array([100.0, 101.0, 150.0, 290.0, 300.0]), (-np.inf, np.inf))),
}


@pytest.mark.parametrize("case", POLICIES)
def test_the_pmf_is_the_softmax_of_the_paper(case):
    policy = POLICIES[case]
    rows = make_rows(policy)
    pmf = policy.pmf(*rows)
    np.testing.assert_allclose(pmf, plain_pmf(policy, *rows), atol=1e-9)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("case", POLICIES)
def test_means_and_quantiles_are_those_of_the_pmf(case):
    policy = POLICIES[case]
    rows = make_rows(policy)
    pmf = plain_pmf(policy, *rows)
    np.testing.assert_allclose(policy.mean(*rows), pmf @ policy.grid.atoms, rtol=1e-9)
    cumulated = pmf.cumsum(axis=1)
    levels = np.random.default_rng(2).uniform(0.001, 0.999, len(pmf))
    for level in (0.1, 0.5, levels):
        index = (cumulated < np.reshape(level, (-1, 1))).sum(axis=1)
        answer = policy.quantile(*rows, level)
        at_an_edge = np.abs(cumulated - np.reshape(level, (-1, 1))).min(axis=1) < 1e-9
        assert np.array_equal(answer[~at_an_edge], policy.grid.atoms[index][~at_an_edge])


def test_draws_have_the_frequencies_of_the_pmf():
    policy = make_policy(n_atoms=7, beta=3.0)
    scores, proba = np.full(200_000, 170.0), np.tile([0.2, 0.5, 0.3], (200_000, 1))
    draws = policy.draw(scores, proba, np.random.default_rng(0).random(200_000))
    frequencies = (draws[:, None] == policy.grid.atoms).mean(axis=0)
    expected = policy.pmf(scores[:1], proba[:1])[0]
    assert np.all(np.abs(frequencies - expected) < 5 * np.sqrt(expected / 200_000))


def answers(policy, scores, proba, levels):
    return [
        policy.pmf(scores, proba),
        policy.mean(scores, proba),
        policy.quantile(scores, proba, levels),
        policy.draw(scores, proba, levels),
    ]


@pytest.mark.parametrize("case", POLICIES)
def test_the_answer_for_a_row_is_the_same_bit_for_bit_in_any_batch_order_and_threads(case):
    policy = POLICIES[case]
    scores, proba = make_rows(policy, 2500)
    rng = np.random.default_rng(3)
    levels = rng.uniform(0.001, 0.999, 2500)
    together = answers(policy, scores, proba, levels)
    order = rng.permutation(2500)
    shuffled = answers(policy, scores[order], proba[order], levels[order])
    later = answers(policy, scores[777:], np.asfortranarray(proba[777:]), levels[777:])
    threads = get_num_threads()
    try:
        set_num_threads(1)
        serial = answers(policy, scores, proba, levels)
        set_num_threads(2)
        parallel = answers(policy, scores, proba, levels)
    finally:
        set_num_threads(threads)
    for whole, a, b, c, d in zip(together, shuffled, later, serial, parallel, strict=True):
        assert np.array_equal(whole[order], a)
        assert np.array_equal(whole[777:], b)
        assert np.array_equal(whole, c)
        assert np.array_equal(whole, d)
    for i in range(0, 2500, 97):
        alone = answers(policy, scores[i : i + 1], proba[i : i + 1], levels[i : i + 1])
        assert all(np.array_equal(whole[i : i + 1], one) for whole, one in zip(together, alone, strict=True))


def test_scores_outside_the_bounds_are_read_as_the_nearest_bound():
    policy = make_policy()
    proba = np.tile([0.2, 0.5, 0.3], (2, 1))
    outside = policy.pmf(np.array([-1e6, 1e300]), proba)
    assert np.array_equal(outside, policy.pmf(np.array([100.0, 300.0]), proba))


def test_scores_far_outside_atoms_without_bounds_choose_the_last_atom():
    policy = POLICIES["uneven atoms"]
    pmf = policy.pmf(np.array([1e9]), np.array([[0.2, 0.5, 0.3]]))
    np.testing.assert_allclose(pmf, [[0, 0, 0, 0, 1]], atol=1e-12)


def test_draws_means_and_quantiles_never_hold_rows_times_atoms():
    policy = make_policy(n_atoms=201)
    scores, proba = make_rows(policy, 40_000)
    levels = np.full(40_000, 0.5)
    policy.draw(scores[:10], proba[:10], levels[:10])
    policy.mean(scores[:10], proba[:10])
    tracemalloc.start()
    try:
        policy.draw(scores, proba, levels)
        policy.mean(scores, proba)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40_000 * 8 * 8  # a few numbers per row; the pmf would be 201


def test_automatic_atoms_follow_the_paper_and_stop_growing():
    assert [automatic_n_atoms(n) for n in (1, 794, 800, 10_000, 10**9)] == [3, 57, 57, 201, 201]


def test_the_automatic_beta_grows_with_few_rows_and_is_never_below_the_paper_s():
    assert [round(paper_beta(n)) for n in (1, 794, 800)] == [1, 136, 136]
    assert [automatic_beta(n) for n in (1, 100, 1250, 10**6)] == [8.0, 800.0, 10_000.0, 10_000.0]
    assert automatic_beta(10**8) == paper_beta(10**8) > 10_000.0


def test_a_truth_value_is_no_beta():
    with pytest.raises(ValueError, match=r"beta must be .*got True"):
        ParityPostprocessor(beta=True).fit([0.1, 0.2, 0.3], np.full((3, 2), 0.5))


def test_between_classes_the_automatic_beta_is_the_paper_s():
    chances = np.random.default_rng(0).dirichlet([1.0, 1.0], 400)
    step = ParityPostprocessor(cost=1.0 - np.eye(2), parity="pmf").fit(chances, np.full((400, 2), 0.5))
    assert step.beta_ == paper_beta(400)
    assert step.beta_ != automatic_beta(400)


def test_the_automatic_beta_adds_next_to_nothing_to_the_risk():
    scores = np.random.default_rng(0).uniform(0.2, 0.8, 2000)
    proba = np.full((2000, 2), 0.5)
    fine = {"atoms": 401, "bounds": (0.0, 1.0), "epsilon": 0.99}
    added = [
        ParityPostprocessor(beta=beta, **fine).fit(scores, proba).certificate_.risk
        for beta in ("paper", "auto")
    ]
    np.testing.assert_allclose(added, [1 / (8 * paper_beta(2000)), 1 / 80_000], rtol=0.05)


@pytest.mark.parametrize("constant", [0.0, 1.0, -5e4, 1e15, 1e-300, 1e300])
def test_constant_scores_get_distinct_atoms_around_them(constant):
    low, high = automatic_bounds(np.full(5, constant))
    grid = uniform_grid(low, high, 201)
    assert low <= constant <= high
    assert np.all(np.diff(grid.atoms) > 0)
    assert np.all(np.isfinite(grid.normalised()))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 7.0), (1e8, 1e8 + 1), (-1e308, 1e308), (0.1, 0.7)])
def test_uniform_atoms_reach_both_bounds_and_normalise_to_plus_and_minus_one(bounds):
    grid = uniform_grid(*bounds, 57)
    assert (grid.atoms[0], grid.atoms[-1]) == bounds
    np.testing.assert_allclose(grid.normalised(), np.linspace(-1, 1, 57), atol=1e-6)
    assert (grid.normalised()[0], grid.normalised()[-1]) == (-1.0, 1.0)


def test_the_support_covers_the_scores_unless_told_otherwise():
    scores = np.array([2.0, 5.0, 3.0])
    assert make_grid("auto", "auto", scores).bounds == pytest.approx((1.94, 5.06))  # a margin of 2 %
    assert make_grid(5, (0, 10), scores).atoms.tolist() == [0.0, 2.5, 5.0, 7.5, 10.0]
    own = make_grid([1, 2, 4], "auto", scores)
    assert own.atoms.tolist() == [1.0, 2.0, 4.0]
    assert own.count_outside(scores) == 0
    assert make_grid([1, 2, 4], (2, 3), scores).count_outside(scores) == 1


ASKED = {
    "pmf": lambda policy, rows: policy.pmf(*rows),
    "mean": lambda policy, rows: policy.mean(*rows),
    "likeliest": lambda policy, rows: policy.likeliest(*rows),
    "quantile": lambda policy, rows: policy.quantile(*rows, np.array(0.5)),
    "draw": lambda policy, rows: policy.draw(*rows, np.full(len(rows[0]), 0.5)),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("case", ["two groups", "three groups"])
def test_no_prediction_is_returned_where_probabilities_do_not_sum_to_one(case, ask):
    policy = POLICIES[case]
    rows = make_rows(policy, 200)
    tilt = policy.tilt.copy()
    tilt[3, 0] = np.nan
    with pytest.raises(FloatingPointError, match="not finite or do not sum to 1"):
        ask(replace(policy, tilt=tilt), rows)
    rows[0][150] = np.nan  # one row among sound ones
    with pytest.raises(FloatingPointError, match="probabilities of 1 or more rows"):
        ask(policy, rows)


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_prediction_is_returned_where_an_atom_is_not_finite(ask):
    policy = POLICIES["uneven atoms"]
    atoms = np.where(policy.grid.atoms == 150.0, np.nan, policy.grid.atoms)
    with pytest.raises(FloatingPointError, match="atoms of the model are not finite"):
        ask(replace(policy, grid=Grid(atoms, policy.grid.bounds)), make_rows(policy, 200))
