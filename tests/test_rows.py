"""Rows give the same sums wherever they live (`tests/rows_contract.py` lists the homes)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from evenhand.dual.objective import evaluate
from evenhand.dual.rows import DualRows, MemoryRows, stored_rows
from evenhand.solvers import Batch, Lbfgs, Status, run
from tests.rows_contract import HOMES, make_step, plain_policy, random_logits, scored

every_home = pytest.mark.parametrize("home", HOMES)


@pytest.fixture
def case(home):
    """The rows at their home, and the same as plain arrays."""
    rows = scored()
    step = make_step(rows)
    with HOMES[home](step, rows) as there:
        yield there, step.rows(rows)


@every_home
def test_counts_agree(case):
    there, plain = case
    assert (there.n_rows, there.n_kept) == (plain.n_rows, plain.n_kept)


@every_home
@pytest.mark.parametrize("whole", [False, True])
def test_moments_are_those_of_the_plain_policy(case, whole):
    there, plain = case
    loadings, offset = random_logits(plain, 21)
    policy, smooth, peak = plain_policy(plain, loadings, offset)
    columns = np.vstack([plain.design, np.ones(plain.n_rows)]) if whole else plain.design[: plain.n_kept]
    found = there.moments(loadings, offset, whole=whole)
    assert_allclose(found.columns, (columns * plain.weights) @ policy, atol=1e-12)
    assert found.smooth == pytest.approx(plain.weights @ smooth, abs=1e-11)
    assert found.peak == pytest.approx(plain.weights @ peak, abs=1e-11)


@every_home
def test_means_are_those_of_the_rows(case):
    there, plain = case
    kept = plain.design[: plain.n_kept]
    assert there.mean_constant() == pytest.approx(plain.weights @ plain.constant, rel=1e-12)
    assert_allclose(there.second_moment(), (kept * plain.weights) @ kept.T, rtol=1e-12)


@every_home
def test_a_sample_is_in_memory_always_the_same_and_has_the_mean_imbalance_of_all(case):
    there, plain = case
    sample, again = there.sample(500), there.sample(500)
    assert isinstance(sample, MemoryRows)
    assert sample.n_rows == 500
    assert np.array_equal(sample.design, again.design)
    assert sample.weights.sum() == pytest.approx(1.0)
    kept = slice(plain.n_kept)
    assert_allclose(sample.design[kept] @ sample.weights, plain.design[kept] @ plain.weights, atol=1e-12)
    assert np.isin(sample.design[-1], plain.design[-1]).all()


@every_home
@pytest.mark.parametrize("parity", ["cdf", "pmf", "mean", "tv", "w1"])
@pytest.mark.parametrize("solver", [Batch(first_rows=300, curvature_rows=400), Lbfgs()])
def test_a_problem_is_solved_wherever_its_rows_live(home, parity, solver):
    rows = scored(n_rows=2500)
    step = make_step(rows, parity)
    plain = step.problem(rows)
    best = run(Batch(), plain)
    with HOMES[home](step, rows) as there:
        problem = step.problem(there)
        found = run(solver, problem)
        assert found.status is Status.CONVERGED
        assert found.objective == pytest.approx(best.objective, abs=2e-6)
        point = best.multipliers
        assert evaluate(problem, point).value == pytest.approx(best.objective, abs=1e-12)


def test_what_looks_at_single_rows_says_so_where_there_are_none():
    class SumsAlone:
        n_rows = n_kept = 1

    with pytest.raises(
        ValueError, match=r'The linear program looks at single rows.*SumsAlone.*solver="auto"'
    ):
        stored_rows(SumsAlone(), "The linear program")
    assert DualRows  # a protocol: nothing has to inherit from it
