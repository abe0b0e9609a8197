"""The dual against its definition, finite differences, and the paper's other form of it."""

import tracemalloc

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from evenhand.dual.curvature import hessian
from evenhand.dual.objective import evaluate, penalty
from evenhand.dual.parity import matrix
from evenhand.dual.projected import (
    gradient_map,
    gradient_variance,
    imbalance_spread,
    merge,
    projected_gradient,
    smoothness,
    split,
)
from tests.paper_form import projected_objective, variance_bound
from tests.problems import (
    NOTIONS,
    SUP_NOTIONS,
    make_problem,
    plain_dual,
    plain_policy,
    random_multipliers,
    random_problem,
    random_rows,
    with_rows,
)

TABLE = [(parity, n_groups) for parity in NOTIONS for n_groups in (2, 3, 4)]
PAPER_TABLE = [case for case in TABLE if case[0] in SUP_NOTIONS]


def smooth_value(problem, multipliers):
    return evaluate(problem, multipliers).value - penalty(problem, multipliers)


def central_differences(function, point, step):
    """Derivatives of `function` by each entry of `point`, stacked in the point's order."""
    slopes = []
    for index in np.ndindex(point.shape):
        shift = np.zeros_like(point)
        shift[index] = step
        slopes.append((function(point + shift) - function(point - shift)) / (2 * step))
    return np.array(slopes)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
@pytest.mark.parametrize("beta", [0.5, 20.0, 1e4])
def test_the_value_and_the_violation_follow_their_definition(parity, n_groups, beta):
    problem = random_problem(parity, n_groups=n_groups, beta=beta, weighted=True)
    multipliers = random_multipliers(problem)
    policy, exponents = plain_policy(problem, multipliers)
    smooth = problem.rows.weights @ logsumexp(beta * exponents, axis=1) / beta
    masses = np.einsum("i,il,is->ls", problem.rows.weights, policy, problem.imbalance())
    now = evaluate(problem, multipliers)
    assert now.value == pytest.approx(smooth + problem.slack @ plain_dual(parity, multipliers), abs=1e-11)
    np.testing.assert_allclose(now.violation, matrix(problem.parity.operator) @ masses, atol=1e-11)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_the_violation_is_the_gradient_of_the_smooth_part(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_atoms=5)
    multipliers = random_multipliers(problem)
    slopes = central_differences(lambda point: smooth_value(problem, point), multipliers, 1e-5)
    violation = evaluate(problem, multipliers).violation
    np.testing.assert_allclose(slopes.reshape(violation.shape), violation, atol=1e-7)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_the_hessian_is_the_derivative_of_the_violation(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_atoms=5, weighted=True)
    multipliers = random_multipliers(problem)

    def violation(flat):
        return evaluate(problem, flat.reshape(multipliers.shape)).violation.ravel()

    slopes = central_differences(violation, multipliers.ravel(), 1e-5)
    np.testing.assert_allclose(hessian(problem, multipliers).matrix(), slopes, atol=1e-6)


def test_the_hessian_of_means_takes_no_memory_for_pairs_of_atoms():
    """Forty groups: pairs of them times pairs of atoms would be 53 MB, all it needs is a pair's number."""
    problem = random_problem("mean", n_groups=40, n_atoms=91, n_rows=3000)
    multipliers = random_multipliers(problem)
    hessian(problem, multipliers)  # a kernel that is loaded takes memory of its own
    tracemalloc.start()
    found = hessian(problem, multipliers)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * problem.rows.design.nbytes
    policy, _ = plain_policy(problem, multipliers)
    atoms = matrix(problem.parity.operator)[0]
    spread = policy @ atoms**2 - (policy @ atoms) ** 2
    imbalance = problem.imbalance()
    expected = problem.temperature * (imbalance.T * (problem.rows.weights * spread)) @ imbalance
    np.testing.assert_allclose(found.matrix(), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("parity", NOTIONS)
def test_the_dual_is_convex_along_random_segments(parity):
    problem = random_problem(parity, n_groups=3)
    for seed in range(20):
        one, two = random_multipliers(problem, 1.0, seed), random_multipliers(problem, 1.0, seed + 100)
        ends = 0.5 * evaluate(problem, one).value + 0.5 * evaluate(problem, two).value
        assert evaluate(problem, 0.5 * (one + two)).value <= ends + 1e-12


@pytest.mark.parametrize(("parity", "n_groups"), PAPER_TABLE)
def test_both_forms_agree_where_nothing_is_counted_twice(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups)
    multipliers = random_multipliers(problem)
    point = split(multipliers)
    np.testing.assert_array_equal(merge(point), multipliers)
    assert point.min() >= 0.0
    value = evaluate(problem, multipliers).value
    assert projected_objective(problem, point) == pytest.approx(value, abs=1e-12)
    # the same Phi with a common part on both sides pays epsilon for it, twice
    doubled = projected_objective(problem, point + 0.1)
    assert doubled == pytest.approx(value + 0.2 * problem.slack.sum() * len(multipliers), abs=1e-12)


@pytest.mark.parametrize(("parity", "n_groups"), PAPER_TABLE)
def test_the_projected_gradient_is_the_gradient_of_the_projected_form(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_atoms=4)
    point = np.random.default_rng(0).exponential(0.3, size=(2, *problem.multipliers_shape))
    slopes = central_differences(lambda at: projected_objective(problem, at), point, 1e-5)
    found = projected_gradient(problem, evaluate(problem, merge(point)).violation)
    np.testing.assert_allclose(slopes.reshape(point.shape), found, atol=1e-7)


def minimise(value_and_gradient, size, bounds):
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    found = minimize(
        value_and_gradient, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return found.x, found.fun


@pytest.mark.parametrize(("parity", "n_groups"), [(parity, k) for parity in SUP_NOTIONS for k in (2, 3)])
def test_both_forms_have_the_same_minimum_and_policy(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_atoms=5, epsilon=0.03, beta=10.0)
    shape = problem.multipliers_shape
    size = shape[0] * shape[1]

    def projected(flat):
        point = flat.reshape(2, *shape)
        violation = evaluate(problem, merge(point)).violation
        return projected_objective(problem, point), projected_gradient(problem, violation).ravel()

    # sqrt(Phi^2 + delta^2) in place of |Phi|: smooth, at most delta too much for each entry
    delta = 1e-7

    def rounded(flat):
        point = flat.reshape(shape)
        now = evaluate(problem.with_slack(np.zeros(n_groups)), point)
        length = np.sqrt(point**2 + delta**2)
        gradient = now.violation + problem.slack * point / length
        return now.value + float(problem.slack @ length.sum(axis=0)), gradient.ravel()

    point, value = minimise(projected, 2 * size, [(0.0, None)] * (2 * size))
    multipliers = merge(point.reshape(2, *shape))
    rounded_at, _ = minimise(rounded, size, None)
    assert evaluate(problem, multipliers).value == pytest.approx(value, abs=1e-9)
    assert evaluate(problem, rounded_at.reshape(shape)).value == pytest.approx(value, abs=1e-6)
    policy, _ = plain_policy(problem, multipliers)
    np.testing.assert_allclose(policy, plain_policy(problem, rounded_at.reshape(shape))[0], atol=5e-3)


@pytest.mark.parametrize(("parity", "n_groups"), PAPER_TABLE)
def test_the_gradient_map_is_a_projected_step(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups)
    point = split(random_multipliers(problem))
    violation = evaluate(problem, merge(point)).violation
    for step in (1e-3, 1.0, 1e3):
        after = np.maximum(point - step * projected_gradient(problem, violation), 0.0)
        np.testing.assert_allclose(
            gradient_map(problem, point, violation, step), (point - after) / step, atol=1e-10
        )


def smoothed_gap(problem, point):
    """`risk_beta(pi) + F(Lambda, V)` straight from the policy."""
    policy, _ = plain_policy(problem, merge(point))
    entropic = policy * (problem.costs() + np.log(policy) / problem.temperature)
    return problem.rows.weights @ entropic.sum(axis=1) + projected_objective(problem, point)


@pytest.mark.parametrize(("parity", "n_groups"), PAPER_TABLE)
@pytest.mark.parametrize("step", [1e-3, 1.0, 1e3])
def test_the_gradient_map_bounds_the_excess_and_the_smoothed_gap(parity, n_groups, step):
    # Lemma 3.5, for points that are no split of a Phi as well
    problem = random_problem(parity, n_groups=n_groups)
    point = np.random.default_rng(0).exponential(0.3, size=(2, *problem.multipliers_shape))
    violation = evaluate(problem, merge(point)).violation
    gradient = projected_gradient(problem, violation)
    norm = np.linalg.norm(gradient_map(problem, point, violation, step))
    excess = np.maximum(np.abs(violation) - problem.slack, 0.0)
    assert np.linalg.norm(excess) <= norm + 1e-12
    gap = smoothed_gap(problem, point)
    # min(a, b) max(a, b) = a b makes the gap <w, grad> a product with the gradient map
    assert gap == pytest.approx(np.sum(point * gradient), abs=1e-10)
    assert gap <= norm * np.linalg.norm(np.maximum(point, step * gradient)) + 1e-12


def test_the_norm_of_the_multipliers_alone_does_not_bound_the_risk():
    # The paper's proof of Lemma 3.5 has <w, -grad> for the gap where it is <w, grad>. A policy that is
    # held back for no reason shows it: under loose tolerances the best multipliers are zero, and the
    # gradient map of a long step vanishes at any others.
    problem = random_problem("cdf", epsilon=2.0, beta=2000.0)
    point = split(np.full(problem.multipliers_shape, [0.3, 0.0]))
    violation = evaluate(problem, merge(point)).violation
    norm = np.linalg.norm(gradient_map(problem, point, violation, 1e6))
    policy, _ = plain_policy(problem, merge(point))
    excess_risk = problem.rows.weights @ (policy * problem.costs()).sum(axis=1)
    excess_risk -= problem.rows.weights @ problem.costs().min(axis=1)
    assert excess_risk > 10 * (np.linalg.norm(point) * norm + np.log(problem.n_atoms) / problem.temperature)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
@pytest.mark.parametrize("size", [0.0, 0.1, 3.0])
def test_the_smoothness_bounds_the_curvature_of_the_projected_form(parity, n_groups, size):
    problem = random_problem(parity, n_groups=n_groups)
    bound = smoothness(problem)
    for seed in range(5):
        # (Lambda, V) -> Lambda - V doubles the norm of the Hessian over Phi
        curvature = 2.0 * np.linalg.norm(
            hessian(problem, random_multipliers(problem, size, seed)).matrix(), 2
        )
        assert curvature <= bound


def test_the_smoothness_of_the_identity_is_the_papers():
    problem = random_problem("pmf", n_groups=3)
    paper = 2.0 * problem.temperature * variance_bound(problem_prior(problem))
    assert smoothness(problem) <= paper


def problem_prior(problem):
    _, group_proba = random_rows(problem.n_rows, problem.n_groups)
    return problem.rows.weights @ group_proba


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_the_variance_bound_bounds_the_variance_of_one_row(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, weighted=True)
    for size in (0.0, 0.3, 3.0):
        policy, _ = plain_policy(problem, random_multipliers(problem, size))
        rows = np.einsum("jl,il,is->ijs", matrix(problem.parity.operator), policy, problem.imbalance())
        mean = np.tensordot(problem.rows.weights, rows, axes=1)
        variance = problem.rows.weights @ ((rows - mean) ** 2).sum(axis=(1, 2))
        assert variance <= gradient_variance(problem)


def test_the_spread_of_the_imbalance_is_largest_for_known_groups():
    scores, group_proba = random_rows(200, 3)
    known = np.eye(3)[group_proba.argmax(axis=1)]
    atoms = np.linspace(-1.0, 1.0, 5)

    def spread(proba):
        problem = make_problem(
            scores,
            proba,
            atoms=atoms,
            parity="pmf",
            slack=np.zeros(3),
            temperature=1.0,
        )
        return imbalance_spread(problem), variance_bound(proba.mean(axis=0))

    assert spread(known)[0] == pytest.approx(spread(known)[1])  # Lemma 4.1 with equality
    assert spread(group_proba)[0] <= spread(group_proba)[1]


@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_the_imbalance_follows_its_definition_and_balances(n_groups):
    scores, group_proba = random_rows(50, n_groups)
    prior = group_proba.mean(axis=0)
    problem = random_problem(n_rows=50, n_groups=n_groups)
    np.testing.assert_allclose(problem.imbalance(), 1.0 - group_proba / prior, atol=1e-12)
    np.testing.assert_allclose(problem.imbalance() @ prior, 0.0, atol=1e-12)
    np.testing.assert_allclose(problem.rows.weights @ problem.imbalance(), 0.0, atol=1e-12)
    np.testing.assert_allclose(problem.costs(), (scores[:, None] - np.linspace(-1, 1, 9)) ** 2, atol=1e-12)


@pytest.mark.parametrize("parity", NOTIONS)
def test_a_row_of_weight_three_counts_as_three_rows(parity):
    problem = random_problem(parity, n_rows=20)
    times = np.random.default_rng(0).integers(0, 4, size=20)
    weighted = with_rows(problem, weights=times / times.sum())
    rows = np.repeat(np.arange(20), times)
    repeated = with_rows(
        problem,
        design=np.ascontiguousarray(problem.rows.design[:, rows]),
        constant=problem.rows.constant[rows],
        weights=np.full(len(rows), 1.0 / len(rows)),
    )
    multipliers = random_multipliers(problem)
    one, two = evaluate(repeated, multipliers), evaluate(weighted, multipliers)
    assert one.value == pytest.approx(two.value, abs=1e-12)
    np.testing.assert_allclose(one.violation, two.violation, atol=1e-12)
    once, often = (hessian(each, multipliers).matrix() for each in (repeated, weighted))
    np.testing.assert_allclose(once, often, atol=1e-11)


def test_a_sample_has_the_costs_of_its_rows_and_the_mean_imbalance_of_all():
    problem = random_problem("cdf", n_groups=3, weighted=True)
    part = problem.sample(3)
    rows = np.flatnonzero(np.isin(problem.rows.constant, part.rows.constant))
    np.testing.assert_array_equal(part.costs(), problem.costs()[rows])
    np.testing.assert_allclose(
        part.rows.weights, problem.rows.weights[rows] / problem.rows.weights[rows].sum()
    )
    np.testing.assert_allclose(
        part.rows.weights @ part.imbalance(), problem.rows.weights @ problem.imbalance(), atol=1e-12
    )
    shift = part.imbalance() - problem.imbalance()[rows]
    np.testing.assert_allclose(shift, np.broadcast_to(shift[0], shift.shape), atol=1e-12)
    assert (part.n_rows, problem.n_rows) == (3, 60)


def test_multipliers_that_are_equal_up_to_the_prior_change_nothing():
    # sum_s p_s t_s = 0: adding z p_s to group s for any z leaves the tilt of every row alone
    problem = random_problem("pmf", n_groups=3)
    multipliers = random_multipliers(problem)
    gauge = np.outer(np.random.default_rng(1).normal(size=problem.n_atoms), problem_prior(problem))
    one, two = evaluate(problem, multipliers), evaluate(problem, multipliers + gauge)
    np.testing.assert_allclose(one.violation, two.violation, atol=1e-12)
    assert smooth_value(problem, multipliers) == pytest.approx(smooth_value(problem, multipliers + gauge))
