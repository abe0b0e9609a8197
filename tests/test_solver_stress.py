"""Random problems of every shape, from trivial to nearly infeasible, and of many groups: no solver stalls."""

import numpy as np
import pytest

from evenhand._utils.validation import Rows
from evenhand.datasets import make_population
from evenhand.dual.costs import Squared
from evenhand.dual.grid import automatic_beta, make_grid, uniform_grid
from evenhand.dual.step import ParityStep
from evenhand.solvers import Auto, Status, run

N_PROBLEMS = 389
NOTIONS = ("cdf", "pmf", "tv", "w1", "mean")


def random_problem(seed):
    """Rows 1 to 2 000, groups 2 to 5, atoms 2 to 101, beta .1 to 1e5, tolerances from 0."""
    rng = np.random.default_rng(seed)
    n_rows = int(np.exp(rng.uniform(0.0, np.log(2000.0))))
    n_groups, n_atoms = int(rng.integers(2, 6)), int(rng.integers(2, 102))
    scores = rng.normal(size=n_rows) * rng.choice([0.1, 1.0])
    lean = rng.normal(size=(n_rows, n_groups)) * rng.choice([0.3, 2.0, 6.0]) + scores[:, None]
    proba = np.exp(lean - lean.max(axis=1, keepdims=True)) + 1e-6
    proba /= proba.sum(axis=1, keepdims=True)
    low, high = scores.min() - 0.1, scores.max() + 0.1
    epsilon = rng.choice([0.0, 1e-4, 0.01, 0.1, 0.5]) * np.ones(n_groups)
    parity, beta = str(rng.choice(NOTIONS)), 10.0 ** rng.uniform(-1.0, 5.0)
    step = ParityStep(
        uniform_grid(low, high, n_atoms), parity, Squared(), proba.mean(axis=0), None, epsilon, beta
    )
    return step.problem(Rows(scores, proba, tuple(range(n_groups)), None))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, N_PROBLEMS, 40))
def test_no_random_problem_stalls(first):
    stalled = []
    for seed in range(first, min(first + 40, N_PROBLEMS)):
        result = run(Auto(), random_problem(seed))
        if result.status is not Status.CONVERGED:
            stalled.append((seed, result.status.name, result.message))
    assert not stalled


def many_groups(n_rows, n_groups, parity, seed, epsilon=0.05):
    people = make_population(n_rows, n_groups, random_state=seed)
    grid, prior = make_grid("auto", "auto", people.scores, None), people.group_proba.mean(axis=0)
    tolerances = np.full(n_groups, epsilon)
    step = ParityStep(grid, parity, Squared(), prior, None, tolerances, automatic_beta(n_rows))
    return step.problem(Rows(people.scores, people.group_proba, tuple(range(n_groups)), None))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1000, 12), (3000, 12), (3000, 20), (3000, 40), (20_000, 20)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_problem_of_many_groups_stalls(size, seed):
    """Once, the benchmark's own sample converged and the next one took all of its iterations."""
    result = run(Auto(), many_groups(*size, "cdf", seed))
    assert result.status is Status.CONVERGED
    assert result.n_iter < 150


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1000, 6), (1000, 12), (3000, 12), (20_000, 8)])
@pytest.mark.parametrize("parity", ["tv", "w1"])
@pytest.mark.parametrize("epsilon", [0.0, 0.005, 0.05])
def test_no_sum_of_violations_of_many_groups_stalls(size, parity, epsilon):
    for seed in (1, 2):
        result = run(Auto(), many_groups(*size, parity, seed, epsilon))
        assert result.status is Status.CONVERGED
        assert result.n_iter < 200
