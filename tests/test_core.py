"""Small changes of the core that other tests do not see at once: `python -m fuzz.mutants` makes them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from evenhand.data import draws
from evenhand.dual import policy as policies
from evenhand.dual.grid import uniform_grid
from evenhand.dual.objective import duality_gap, evaluate, optimality_error, penalty
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.modelfile import codec
from evenhand.solvers import batch, newton, run
from tests.problems import (
    NOTIONS,
    plain_distance,
    plain_dual,
    plain_policy,
    random_multipliers,
    random_problem,
)

STEP = 1e-6


@pytest.mark.parametrize("parity", NOTIONS)
def test_a_shift_of_moments_adds_a_linear_term_whose_slope_the_violation_has(parity):
    problem, rng = random_problem(parity, n_groups=3), np.random.default_rng(0)
    shift = rng.normal(size=(problem.n_kept, problem.n_atoms))
    shifted, point = replace(problem, moment_shift=shift), random_multipliers(problem)
    plain, found = evaluate(problem, point), evaluate(shifted, point)
    tilt = problem.parity.operator.adjoint(point)
    linear = sum(
        tilt[atom, group] * (shift.T @ problem.mixing)[atom, group]
        for atom in range(problem.n_atoms)
        for group in range(3)
    )
    assert found.value - plain.value == pytest.approx(linear, rel=1e-9)
    move = rng.normal(size=point.shape)
    ahead, behind = (evaluate(shifted, point + sign * STEP * move) for sign in (1.0, -1.0))
    prices = [penalty(problem, point + sign * STEP * move) for sign in (1.0, -1.0)]
    slope = (ahead.value - prices[0] - behind.value + prices[1]) / (2 * STEP)
    assert slope == pytest.approx(float((found.violation * move).sum()), rel=1e-5)


@pytest.mark.parametrize("parity", NOTIONS)
def test_the_optimality_error_is_the_larger_of_excess_and_gap(parity):
    problem = random_problem(parity, epsilon=0.02)
    for size in (0.0, 0.01, 0.3):
        point = random_multipliers(problem, size)
        now = evaluate(problem, point)
        excess = (plain_distance(parity, now.violation) - problem.slack).max()
        gap = (problem.slack * plain_dual(parity, point)).sum() + (point * now.violation).sum()
        assert duality_gap(problem, point, now.violation) == pytest.approx(gap, abs=1e-12)
        assert optimality_error(problem, point, now) == pytest.approx(max(excess, abs(gap)), abs=1e-12)


def test_the_objective_is_that_of_its_definition():
    problem = random_problem("cdf", weighted=True)
    point = random_multipliers(problem)
    _, exponents = plain_policy(problem, point)
    highest = exponents.max(axis=1)
    soft = (
        highest
        + np.log(np.exp(problem.temperature * (exponents - highest[:, None])).sum(axis=1))
        / problem.temperature
    )
    assert evaluate(problem, point).value == pytest.approx(
        float(problem.rows.weights @ soft) + penalty(problem, point)
    )


def make_policy():
    rng = np.random.default_rng(0)
    return SoftmaxPolicy(uniform_grid(0.0, 1.0, 5), np.array([0.3, 0.7]), rng.normal(size=(5, 2)), 30.0)


def test_a_policy_has_no_fault_and_one_with_parts_that_do_not_agree_has():
    good = make_policy()
    assert not list(good.faults())
    for changes in (
        {"grid": None},
        {"tilt": good.tilt.astype(np.float32)},
        {"tilt": good.tilt[:-1]},
        {"tilt": good.tilt[:, :1]},
        {"group_prior": good.group_prior.tolist()},
        {"group_prior": np.array([0.0, 1.0])},
        {"group_prior": np.array([-0.5, 1.5])},
        {"temperature": 30},
        {"temperature": "30"},
    ):
        try:
            assert list(replace(good, **changes).faults()), changes
        except (AttributeError, TypeError):  # a check that fails is a fault, too: `find_fault` says so
            continue


@pytest.mark.parametrize("entries", [1, 7, 1 << 20])
def test_the_likeliest_atom_is_that_of_the_pmf_in_blocks_of_any_size(entries, monkeypatch):
    monkeypatch.setattr(policies, "BLOCK_ENTRIES", entries)
    policy, rng = make_policy(), np.random.default_rng(1)
    scores, proba = rng.random(23), rng.dirichlet(np.ones(2), 23)
    assert_allclose(
        policy.likeliest(scores, proba), policy.grid.atoms[policy.pmf(scores, proba).argmax(axis=1)]
    )


def test_a_group_that_is_not_solved_for_counts_in_the_error():
    """With one hundredth of the rows in a group, its violation is a hundred times that of the others."""
    problem = random_problem("cdf", n_rows=200, epsilon=0.05)
    mixing = np.array([[1.0, -9.0]])
    problem = replace(problem, mixing=mixing, slack=np.array([0.01, 0.2]))
    state = batch.Batch().init(problem, None)
    assert state.binding.tolist() == [0]
    stage = state.stages[0]
    beyond = np.full_like(state.now.violation, 0.03)  # 0.27 in the other group
    told = newton.error_of(stage, replace(state, now=replace(state.now, violation=beyond)))
    assert told == pytest.approx(0.27 - 0.2 * stage.widening, abs=1e-12)


@pytest.mark.parametrize("slack", [(0.01, 0.05), (0.05, 0.01), (0.02, 0.02), (0.0, 0.1)])
@pytest.mark.parametrize("lengths", [(1.0, 9.0), (9.0, 1.0), (1.0, 1.0)])
def test_of_groups_with_proportional_imbalance_the_tightest_binds(slack, lengths):
    mixing = np.array([[lengths[0], -lengths[1]]])
    (found,) = batch.binding_groups(mixing, np.array(slack))
    reach = np.array(slack) / lengths
    assert reach[found] == reach.min()
    if reach[0] == reach[1]:
        assert lengths[found] == max(lengths)


def test_the_result_of_a_run_is_measured_over_all_rows():
    problem = random_problem("cdf", n_rows=300, n_groups=3, epsilon=0.01)
    found = run(batch.Batch(tol=1e-8), problem)
    again = evaluate(problem, found.multipliers)
    assert found.objective == pytest.approx(again.value, abs=1e-10)
    assert_allclose(found.violation, again.violation, atol=1e-9)
    assert optimality_error(problem, found.multipliers, again) <= 1e-7


def test_numbers_stand_in_a_file_as_they_are_wherever_every_reader_knows_them():
    for value in (0, 5, -5, 2**53 - 1, -(2**53) + 1):
        assert codec._encode_int(value) == value
    for value in (2**60, -(2**60)):
        assert codec._encode_int(value) == {"int": hex(value)}


def test_a_key_of_a_generator_has_all_its_bits():
    for seed in range(5):
        key = draws.key_from(np.random.default_rng(seed))
        assert key.dtype == np.uint64
        assert (key > 2**40).all()  # a chance of 2^-24 for each of ten words to be less


def test_ids_beyond_64_bits_have_draws_of_their_own_whatever_their_sign_and_container():
    key = draws.key_from(0)
    ids = [2**63, -(2**63), 2**70, -(2**70), 2**63 - 1]
    found = draws.uniforms_from_ids(ids, key)
    assert len(set(found.tolist())) == len(ids)
    floats = np.array([2.0**63, -(2.0**63), 2.0**70, -(2.0**70)])
    assert np.array_equal(draws.uniforms_from_ids(floats, key), found[:4])
    assert np.array_equal(draws.uniforms_from_ids(np.array([2**63], np.uint64), key), found[:1])
