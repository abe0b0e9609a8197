"""Certificates against brute force, the linear program, and the inequalities they state."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from evenhand.certificates import certify
from evenhand.dual.objective import evaluate
from evenhand.dual.projected import merge, projected_gradient
from evenhand.solvers.lp import solve_lp
from evenhand.solvers.result import SolverResult, Status
from tests.paper_form import projected_objective
from tests.problems import (
    L1_NOTIONS,
    NOTIONS,
    plain_distance,
    plain_dual,
    plain_policy,
    random_multipliers,
    random_problem,
    wide_step,
)

TABLE = [(parity, n_groups) for parity in NOTIONS for n_groups in (2, 3)]


def result_at(multipliers):
    """A result whose numbers, but for the multipliers, are wrong: a certificate must not trust them."""
    nothing = np.full(multipliers.shape, np.nan)
    return SolverResult("none", Status.CONVERGED, multipliers, 0, 0, np.nan, nothing, np.nan)


def optimum(problem):
    """Multipliers from SciPy on the projected form, or with heights above the multipliers as variables."""
    if problem.parity.name in L1_NOTIONS:
        return optimum_under_heights(problem)
    shape = (2, *problem.multipliers_shape)

    def value_and_gradient(flat):
        point = flat.reshape(shape)
        violation = evaluate(problem, merge(point)).violation
        return projected_objective(problem, point), projected_gradient(problem, violation).ravel()

    found = minimize(
        value_and_gradient,
        np.zeros(int(np.prod(shape))),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * int(np.prod(shape)),
        options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9},
    )
    return merge(found.x.reshape(shape))


def optimum_under_heights(problem):
    shape, n = problem.multipliers_shape, int(np.prod(problem.multipliers_shape))
    prices = problem.slack / L1_NOTIONS[problem.parity.name]
    smooth = problem.with_slack(np.zeros(problem.n_groups))
    spread = np.tile(np.eye(problem.n_groups), (shape[0], 1))
    found = minimize(
        lambda z: evaluate(smooth, z[:n].reshape(shape)).value + prices @ z[n:],
        np.concatenate([np.zeros(n), np.ones(problem.n_groups)]),
        jac=lambda z: np.append(evaluate(smooth, z[:n].reshape(shape)).violation.ravel(), prices),
        constraints={
            "type": "ineq",
            "fun": lambda z: np.concatenate([spread @ z[n:] - z[:n], spread @ z[n:] + z[:n]]),
            "jac": lambda z: np.block([[-np.eye(n), spread], [np.eye(n), spread]]),
        },
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    return found.x[:n].reshape(shape)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_risks_and_violations_are_those_of_the_policy(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_rows=700, weighted=True)
    multipliers = random_multipliers(problem)
    certificate = certify(problem, result_at(multipliers))
    policy, exponents = plain_policy(problem, multipliers)
    risk = problem.rows.weights @ (policy * problem.costs()).sum(axis=1)
    entropy = problem.rows.weights @ (policy * np.log(policy)).sum(axis=1)
    masses = np.einsum("i,il,is->ls", problem.rows.weights, policy, problem.imbalance())
    violation = plain_distance(parity, problem.parity.operator.apply(masses))
    paid = problem.slack @ plain_dual(parity, multipliers)
    assert certificate.risk == pytest.approx(risk, rel=1e-10)
    assert certificate.entropic_risk == pytest.approx(risk + entropy / problem.temperature, rel=1e-10)
    assert certificate.lower_bound == pytest.approx(-(problem.rows.weights @ exponents.max(axis=1) + paid))
    np.testing.assert_allclose(certificate.violation, violation, rtol=1e-10)
    np.testing.assert_allclose(certificate.excess, np.maximum(violation - problem.slack, 0.0), atol=1e-12)


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
@pytest.mark.parametrize("size", [0.0, 0.03, 3.0])
def test_the_inequalities_hold_at_any_multipliers(parity, n_groups, size):
    problem = random_problem(parity, n_groups=n_groups, n_rows=150)
    best = solve_lp(problem).risk
    for seed in range(5):
        certificate = certify(problem, result_at(random_multipliers(problem, size, seed)))
        assert certificate.lower_bound <= best + 1e-9
        assert certificate.excess_norm <= certificate.gradient_map_norm + 1e-12
        assert certificate.risk - best <= certificate.optimality_gap + 1e-9
        assert certificate.risk - best <= certificate.risk_bound + 1e-9
        # the mean of LSE - max over the rows, at most log(m) / beta
        below = certificate.lower_bound + certificate.smoothed_gap - certificate.entropic_risk
        assert -1e-12 <= below <= certificate.smoothing_cost + 1e-12


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_at_the_optimum_every_gap_closes_with_beta(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups, n_rows=150, beta=500.0)
    certificate = certify(problem, result_at(optimum(problem)))
    best = solve_lp(problem).risk
    assert abs(certificate.smoothed_gap) <= 1e-4
    assert certificate.lower_bound <= best + 1e-9
    assert np.all(certificate.excess <= 1e-4)
    assert best <= certificate.risk + 1e-4
    assert certificate.optimality_gap <= certificate.smoothing_cost + 1e-4


@pytest.mark.parametrize("parity", NOTIONS)
def test_the_multipliers_of_the_linear_program_give_its_risk_as_the_lower_bound(parity):
    problem = random_problem(parity, n_groups=3, epsilon=0.01)
    solution = solve_lp(problem)
    certificate = certify(problem, result_at(solution.multipliers))
    assert certificate.lower_bound == pytest.approx(solution.risk, abs=1e-9)


def test_no_policy_that_meets_the_tolerances_beats_the_lower_bound():
    problem = random_problem("cdf", epsilon=0.1)
    certificate = certify(problem, result_at(random_multipliers(problem)))
    rng = np.random.default_rng(0)
    for _ in range(20):  # mixtures with one constant policy shrink any violation below the tolerance
        policy = rng.dirichlet(np.ones(problem.n_atoms) * 0.1, size=problem.n_rows)
        masses = np.einsum("i,il,is->ls", problem.rows.weights, policy, problem.imbalance())
        largest = np.abs(problem.parity.operator.apply(masses)).max()
        share = min(1.0, 0.1 / largest)
        mixed = share * policy + (1.0 - share) * np.eye(problem.n_atoms)[problem.n_atoms // 2]
        assert problem.rows.weights @ (mixed * problem.costs()).sum(axis=1) >= certificate.lower_bound


def test_the_bound_on_the_risk_holds_for_a_policy_held_back_for_no_reason():
    # tiny multipliers under loose tolerances: |Phi| |gradient map| alone would be far too small
    problem = random_problem("cdf", epsilon=2.0, beta=1e6, n_rows=400)
    best = problem.rows.weights @ problem.costs().min(axis=1)
    for size in (1e-5, 1e-3, 0.1):
        certificate = certify(problem, result_at(np.full(problem.multipliers_shape, [size, 0.0])))
        assert certificate.risk - best <= certificate.risk_bound + 1e-12


def test_units_follow_the_scale_of_the_outcome():
    for parity, unit in [("cdf", 1.0), ("mean", 50.0), ("tv", 1.0), ("w1", 50.0)]:
        problem = random_problem(parity)
        result = result_at(random_multipliers(problem))
        plain, scaled = certify(problem, result), certify(problem, result, step=wide_step(problem, parity))
        for name in ("risk", "entropic_risk", "lower_bound", "optimality_gap", "smoothed_gap", "risk_bound"):
            assert getattr(scaled, name) == pytest.approx(2500.0 * getattr(plain, name))
        for name in ("violation", "epsilon", "excess", "gradient_map_norm", "excess_norm"):
            np.testing.assert_allclose(getattr(scaled, name), unit * getattr(plain, name))
        assert scaled.relative_gap == pytest.approx(plain.relative_gap)


def test_the_words_name_groups_and_numbers():
    problem = random_problem("cdf", epsilon=0.05)
    certificate = certify(problem, result_at(random_multipliers(problem)), groups=["north", "south"])
    words = str(certificate)
    for piece in ("'cdf'", "north", "south", "0.05", "Lemma 3.5", f"{certificate.risk:.6g}"):
        assert piece in words
    assert Status.CONVERGED.value in words


def test_the_dictionary_is_ready_for_json():
    certificate = certify(random_problem("mean"), result_at(np.zeros((1, 2))))
    read = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert read["risk"] == certificate.risk
    assert read["violation"] == certificate.violation.tolist()
    useless = replace(certificate, lower_bound=-1.0)
    assert useless.relative_gap == np.inf
    assert useless.to_dict()["relative_gap"] is None


def test_a_wrong_number_of_group_names_is_an_error():
    problem = random_problem()
    with pytest.raises(ValueError, match="got 3 for 2 groups"):
        certify(problem, result_at(np.zeros(problem.multipliers_shape)), groups=["a", "b", "c"])
