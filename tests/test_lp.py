"""The exact linear program against brute force, a closed form and its own dual."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from evenhand.dual.objective import penalty
from evenhand.dual.parity import matrix
from evenhand.solvers.lp import solve_lp
from tests.problems import L1_NOTIONS, NOTIONS, make_problem, plain_distance, random_problem, random_rows

CASES = [(parity, groups, eps) for parity in NOTIONS for groups in (2, 3, 4) for eps in (0.0, 2.0**-8, 0.05)]


def dual_without_smoothing(problem, multipliers):
    tilt = problem.parity.operator.adjoint(multipliers)
    best = (problem.imbalance() @ tilt.T - problem.costs()).max(axis=1)
    return float(problem.rows.weights @ best) + penalty(problem, multipliers)


def solve_dense(problem):
    """The same program written down plainly: dense rows, every group, two inequalities each.

    Those say `|V| <= U`; U is the tolerance, or variables of its own whose sum is bounded.
    """
    n, m, K = problem.n_rows, problem.n_atoms, problem.n_groups
    operator, imbalance = matrix(problem.parity.operator), problem.imbalance()
    rows = [
        np.outer(problem.rows.weights * imbalance[:, s], row).ravel() for s in range(K) for row in operator
    ]
    limits = np.repeat(problem.slack, len(operator))
    costs = (problem.rows.weights[:, None] * problem.costs()).ravel()
    above, ones = np.concatenate([rows, np.negative(rows)]), np.kron(np.eye(n), np.ones(m))
    right = np.concatenate([limits, limits])
    if problem.parity.name in L1_NOTIONS:
        sizes = np.eye(len(limits))
        sums = L1_NOTIONS[problem.parity.name] * np.kron(np.eye(K), np.ones(len(operator)))
        above = np.block([[above, np.tile(-sizes, (2, 1))], [np.zeros((K, n * m)), sums]])
        right = np.concatenate([0.0 * right, problem.slack])
        costs = np.concatenate([costs, np.zeros(len(limits))])
        ones = np.concatenate([ones, np.zeros((n, len(limits)))], axis=1)
    found = linprog(costs, A_ub=above, b_ub=right, A_eq=ones, b_eq=np.ones(n))
    return found.fun


@pytest.mark.parametrize(("parity", "n_groups", "epsilon"), CASES)
def test_the_multipliers_prove_the_policy_optimal(parity, n_groups, epsilon):
    problem = random_problem(parity, n_groups=n_groups, epsilon=epsilon, n_rows=80, n_atoms=11, weighted=True)
    solution = solve_lp(problem)
    assert solution.risk == pytest.approx(-dual_without_smoothing(problem, solution.multipliers), abs=1e-9)
    assert np.all(plain_distance(parity, solution.violation) <= epsilon + 1e-9)


@pytest.mark.parametrize(("parity", "n_groups", "epsilon"), CASES[::2])
def test_the_sparse_program_equals_the_plain_one(parity, n_groups, epsilon):
    problem = random_problem(parity, n_groups=n_groups, epsilon=epsilon, n_rows=30, n_atoms=7)
    # two inequalities at epsilon = 0 leave the plain program HiGHS's tolerance on both sides
    assert solve_lp(problem).risk == pytest.approx(solve_dense(problem), abs=1e-6)


def test_the_policy_is_a_policy_and_has_the_stated_risk_and_violation():
    problem = random_problem("cdf", n_groups=3, epsilon=0.03)
    solution = solve_lp(problem)
    pmf = solution.pmf
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0, atol=1e-12)
    assert pmf.min() >= 0.0
    assert solution.risk == pytest.approx(problem.rows.weights @ (pmf * problem.costs()).sum(axis=1))
    masses = np.einsum("i,il,is->ls", problem.rows.weights, pmf, problem.imbalance())
    np.testing.assert_allclose(solution.violation, np.cumsum(masses, axis=0)[:-1], atol=1e-12)


def test_loose_tolerances_give_the_nearest_atom():
    problem = random_problem("pmf", epsilon=10.0)
    solution = solve_lp(problem)
    assert solution.risk == pytest.approx(problem.rows.weights @ problem.costs().min(axis=1))
    np.testing.assert_array_equal(solution.multipliers, 0.0)


def test_aware_rows_at_zero_tolerance_give_the_wasserstein_barycentre():
    # Two equal groups with the scores x and x + 1/2 on atoms that hold every mid point: the barycentre
    # moves each row by 1/4.
    scores = np.concatenate([[-0.75, -0.25, 0.25], [-0.25, 0.25, 0.75]])
    group_proba = np.repeat(np.eye(2), 3, axis=0)
    atoms = np.linspace(-1.0, 1.0, 9)
    problem = make_problem(
        scores,
        group_proba,
        atoms=atoms,
        parity="pmf",
        slack=np.zeros(2),
        temperature=1.0,
    )
    assert solve_lp(problem).risk == pytest.approx(1 / 16)


def test_tolerances_may_differ_by_group():
    problem = random_problem("cdf", n_groups=3)
    solution = solve_lp(problem.with_slack(np.array([0.01, 0.2, 0.05])))
    largest = np.abs(solution.violation).max(axis=0)
    assert np.all(largest <= np.array([0.01, 0.2, 0.05]) + 1e-9)
    assert largest[0] == pytest.approx(0.01, abs=1e-9)


def test_beta_plays_no_part():
    problem = random_problem("mean", epsilon=0.01)
    assert solve_lp(problem).risk == solve_lp(problem.at_temperature(1e6)).risk


def problem_with_a_prior_of_its_own(parity, epsilon):
    scores, group_proba = random_rows(30)
    atoms = np.linspace(-1.0, 1.0, 5)
    return make_problem(
        scores,
        group_proba,
        atoms=atoms,
        parity=parity,
        slack=np.broadcast_to(epsilon, 2),
        temperature=1.0,
        group_prior=np.array([0.2, 0.8]),
    )


def test_an_infeasible_program_says_why():
    with pytest.raises(ValueError, match=r"meets the tolerances.*mean imbalance.*group_prior"):
        solve_lp(problem_with_a_prior_of_its_own("pmf", 1e-3))


@pytest.mark.parametrize("parity", ["pmf", "tv"])
def test_the_smallest_feasible_tolerance_is_where_the_program_becomes_feasible(parity):
    problem = problem_with_a_prior_of_its_own(parity, 0.0)
    smallest = problem.parity.smallest_feasible(problem.rows.weights @ problem.imbalance())
    solve_lp(problem.with_slack(1.001 * smallest))
    for group in range(2):
        slack = 10.0 * smallest
        slack[group] = 0.999 * smallest[group]
        with pytest.raises(ValueError, match="meets the tolerances"):
            solve_lp(problem.with_slack(slack))


@pytest.mark.parametrize("parity", ["mean", "w1"])
def test_the_mean_and_the_area_are_feasible_under_any_prior(parity):
    assert solve_lp(problem_with_a_prior_of_its_own(parity, 0.0)).risk > 0.0


def test_too_large_a_program_names_the_way_out():
    with pytest.raises(ValueError, match=r"60 rows x 9 atoms = 540 variables.*batch solver"):
        solve_lp(random_problem(), max_size=539)


def test_a_notion_with_another_norm_is_refused_by_name():
    class OtherNorm:
        pass

    problem = random_problem()
    other = replace(problem, parity=replace(problem.parity, name="other", norm=OtherNorm()))
    with pytest.raises(ValueError, match="got parity 'other'"):
        solve_lp(other)
