"""Total variation and Wasserstein-1: their form of short steps, and what a fit with them gives."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import evenhand as eh
from evenhand import ParityPostprocessor
from evenhand.certificates import certify, certify_held_out
from evenhand.certificates.deviations import tv_excess_width, w1_excess_width
from evenhand.datasets import make_population
from evenhand.dual.band import Band
from evenhand.dual.curvature import hessian
from evenhand.dual.forms import Composite, form_of
from evenhand.dual.objective import duality_gap, evaluate
from evenhand.dual.parity import L1Norm
from evenhand.exceptions import PriorWarning
from evenhand.solvers import Batch, Sgd, Status, run, solve_lp
from evenhand.solvers.quadratic import HeightModel, solve_model
from tests.problems import plain_distance, random_multipliers, random_problem, wide_step
from tests.test_batch import policy_risk, random_model
from tests.test_stochastic_solvers import SOLVERS, assert_same_state, finish, population

TABLE = [(parity, n_groups) for parity in ("tv", "w1") for n_groups in (2, 3)]


# the form


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
@pytest.mark.parametrize("step", [1e-3, 1.0, 1e3])
def test_the_gradient_map_bounds_the_excess_and_the_gap(parity, n_groups, step):
    problem = random_problem(parity, n_groups=n_groups)
    for size in (0.0, 0.1, 2.0):
        point = random_multipliers(problem, size)[None]
        violation = evaluate(problem, point[0]).violation
        norm = np.linalg.norm(Composite().gradient_map(problem, point, violation, step))
        excess = problem.parity.norm.value(violation) - problem.slack
        # a violation of total size r beyond the ball is at least r / sqrt(rows) away from it
        assert excess.max() <= norm * np.sqrt(len(violation)) * (0.5 if parity == "tv" else 1.0) + 1e-12
        gap = duality_gap(problem, point[0], violation)
        assert gap <= Composite().gap_bound(problem, point, violation, step) + 1e-12


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_the_gradient_map_vanishes_at_the_optimum_alone(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups)
    best = run(Batch(tol=1e-10), problem)
    assert best.gradient_map_norm < 1e-7
    at_zero = np.zeros((1, *problem.multipliers_shape))
    violation = evaluate(problem, at_zero[0]).violation
    assert np.linalg.norm(form_of(problem).gradient_map(problem, at_zero, violation, 1.0)) > 1e-3


@pytest.mark.parametrize(("parity", "n_groups"), TABLE)
def test_the_smoothness_bounds_the_curvature(parity, n_groups):
    problem = random_problem(parity, n_groups=n_groups)
    for size in (0.0, 0.1, 3.0):
        curvature = np.linalg.norm(hessian(problem, random_multipliers(problem, size)).matrix(), 2)
        assert curvature <= form_of(problem).smoothness(problem)


def test_a_norm_without_a_form_is_named():
    problem = random_problem("tv")
    with pytest.raises(ValueError, match="got Norm2"):
        form_of(replace(problem, parity=replace(problem.parity, norm=type("Norm2", (), {})())))


# the solvers


@pytest.mark.parametrize("parity", ["tv", "w1"])
@pytest.mark.parametrize("n_groups", [2, 3, 5, 9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.02, 0.1, 1.0])
def test_l1_constraints_agree_with_the_linear_program_at_any_tolerance(parity, n_groups, epsilon):
    problem = random_problem(
        parity, n_rows=200, n_atoms=15, n_groups=n_groups, epsilon=epsilon, beta=20_000.0, weighted=True
    )
    result = run(Batch(), problem)
    assert result.status is Status.CONVERGED
    assert policy_risk(problem, result.multipliers) == pytest.approx(solve_lp(problem).risk, rel=5e-3)
    assert plain_distance(parity, result.violation).max() <= epsilon + 2e-5


@pytest.mark.parametrize("seed", range(8))
def test_the_model_of_an_l1_step_is_minimised(seed, monkeypatch):
    hessian, linear, slack = random_model(2, 8, seed)
    slack *= [np.zeros(2), np.array([0.0, 4.0]), np.full(2, 4.0), np.full(2, 20.0)][seed % 4]
    shape, n = linear.shape, linear.size
    if seed % 2:  # where guesses go in circles
        monkeypatch.setattr(HeightModel, "by_active_set", lambda self, start: (start, False))
    every = np.arange(n)
    band = Band.of_matrix(hessian)
    found = solve_model(L1Norm(scale=0.5), band, linear.ravel(), np.zeros(n), slack / 2, every).reshape(shape)
    spread = np.tile(np.eye(2), (8, 1))  # heights h with |x| <= h make the penalty linear
    generic = minimize(
        lambda z: 0.5 * z[:n] @ hessian @ z[:n] + linear.ravel() @ z[:n] + slack @ z[n:],
        np.concatenate([np.zeros(n), np.ones(2)]),
        jac=lambda z: np.concatenate([hessian @ z[:n] + linear.ravel(), slack]),
        constraints={
            "type": "ineq",
            "fun": lambda z: np.concatenate([spread @ z[n:] - z[:n], spread @ z[n:] + z[:n]]),
            "jac": lambda z: np.block([[-np.eye(n), spread], [np.eye(n), spread]]),
        },
        method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    value = 0.5 * found.ravel() @ hessian @ found.ravel() + (linear * found).sum()
    assert value + slack @ np.abs(found).max(axis=0) <= generic.fun + 1e-7


@pytest.mark.parametrize(("parity", "epsilon"), [("tv", 0.05), ("tv", 0.0), ("w1", 0.02)])
@pytest.mark.parametrize("name", ["sgd", "sgd3", "sgd3+acsa"])
def test_l1_constraints_are_brought_near_their_optimum(name, parity, epsilon):
    problem = population(parity=parity, epsilon=epsilon)
    best = run(Batch(), problem)  # itself compared with the linear program elsewhere
    zero = evaluate(problem, np.zeros(problem.multipliers_shape))
    result = run(SOLVERS[name](random_state=0), problem)
    assert 0.0 <= result.objective - best.objective < 0.05 * (zero.value - best.objective)
    at_zero = run(Sgd(n_steps=1, step_size=1e-12, random_state=0), problem).gradient_map_norm
    assert result.gradient_map_norm < (0.8 if name == "sgd" else 0.3) * at_zero


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("batch_size", [1, 8])
def test_any_cut_of_a_run_under_an_l1_constraint_gives_the_same_bits(name, batch_size):
    problem = population(n=130, m=7, parity="w1")
    options = {"n_steps": 3000, "batch_size": batch_size, "random_state": 5}
    whole = finish(SOLVERS[name](chunk_size=3000, **options), problem)
    assert_same_state(finish(SOLVERS[name](chunk_size=61, **options), problem), whole)


# what holds between notions


@pytest.mark.parametrize("n_groups", [2, 3])
def test_without_a_tolerance_all_distributions_are_equal_whatever_the_notion(n_groups):
    risks = [
        run(Batch(), random_problem(parity, n_rows=300, n_groups=n_groups, epsilon=0.0)).objective
        for parity in ("pmf", "cdf", "tv", "w1")
    ]
    np.testing.assert_allclose(risks, risks[0], atol=1e-6)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("epsilon", [0.005, 0.05])
def test_a_weaker_notion_costs_no_more(n_groups, epsilon):
    def risk(parity, tolerance):
        problem = random_problem(parity, n_rows=100, n_groups=n_groups, epsilon=tolerance)
        return solve_lp(problem).risk

    # atom gap <= TV, KS <= TV, W1 <= 2 KS on [-1, 1], |difference of means| <= W1, TV <= m / 2 * atom gap
    assert risk("pmf", epsilon) <= risk("tv", epsilon) + 1e-9
    assert risk("cdf", epsilon) <= risk("tv", epsilon) + 1e-9
    assert risk("w1", 2 * epsilon) <= risk("cdf", epsilon) + 1e-9
    assert risk("mean", epsilon) <= risk("w1", epsilon) + 1e-9
    assert risk("tv", 4.5 * epsilon) <= risk("pmf", epsilon) + 1e-9


# what a fit gives


@pytest.fixture(scope="module")
def aware_rows():
    rng = np.random.default_rng(0)
    groups = rng.integers(3, size=900)
    return np.clip(20.0 + 5.0 * rng.normal(groups / 2.0, 1.0), 6.0, 39.0), groups


@pytest.mark.parametrize("atoms", [31, np.array([5.0, 12.0, 18.0, 19.0, 20.0, 21.5, 23.0, 26.0, 30.0, 40.0])])
@pytest.mark.parametrize(("parity", "epsilon"), [("tv", 0.05), ("w1", 0.3), ("w1", 0.0)])
def test_the_metrics_of_the_predictions_are_the_certified_violations(aware_rows, parity, epsilon, atoms):
    scores, groups = aware_rows
    proba = np.eye(3)[groups]  # with known groups the imbalance is the very difference of distributions
    model = ParityPostprocessor(parity=parity, epsilon=epsilon, atoms=atoms, bounds=(5.0, 40.0))
    model.fit(scores, proba)
    measure = {"tv": eh.metrics.tv_unfairness, "w1": eh.metrics.w1_unfairness}[parity]
    found = measure(model.predict_pmf(scores, proba), groups, model.atoms_)
    np.testing.assert_allclose(list(found.values()), model.certificate_.violation, atol=1e-9)
    assert max(found.values()) <= epsilon + 1e-6 * 17.5
    assert max(found.values()) >= epsilon - 1e-5  # and no parity is given away


@pytest.mark.parametrize(("parity", "epsilon"), [("tv", 0.05), ("w1", 0.02)])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_population_keeps_the_tolerance_under_oracle_models(parity, epsilon, n_groups):
    pile, fresh = (make_population(n, n_groups, random_state=i) for i, n in enumerate((20_000, 200_000)))
    model = ParityPostprocessor(parity=parity, epsilon=epsilon, atoms=21).fit(pile.scores, pile.group_proba)
    pmf = model.predict_pmf(fresh.scores, fresh.group_proba)
    found = eh.metrics.unfairness(pmf, fresh.sensitive_features, model.atoms_, metric=parity)
    assert max(found.values()) <= epsilon + 0.01


def test_the_oracle_and_the_stochastic_solvers_know_the_new_notions():
    data = make_population(300, 2, random_state=0)
    for parity in ("tv", "w1"):
        exact = ParityPostprocessor(parity=parity, solver="lp", atoms=11, epsilon=0.02)
        exact.fit(data.scores, data.group_proba)
        assert exact.certificate_.relative_gap < 5e-3
        steps = ParityPostprocessor(
            parity=parity,
            solver="sgd3+acsa",
            max_iter=50_000,
            atoms=11,
            beta=40.0,
            epsilon=0.1,
            random_state=0,
        )
        steps.fit(data.scores, data.group_proba)
        assert steps.certificate_.violation.max() < 0.12


def test_a_prior_of_ones_own_is_checked_for_total_variation():
    data = make_population(400, 2, random_state=0)
    prior = data.group_proba.mean(axis=0) * [1.2, 1.0]
    prior /= prior.sum()
    smallest = np.abs(1.0 - data.group_proba.mean(axis=0) / prior) / 2
    model = ParityPostprocessor(parity="tv", epsilon=0.9 * smallest.max())
    with pytest.raises(ValueError, match="below the smallest feasible"):
        model.fit(data.scores, data.group_proba, group_prior=prior)
    model.set_params(epsilon=1.01 * smallest.max()).fit(data.scores, data.group_proba, group_prior=prior)
    with pytest.warns(PriorWarning, match="even a constant prediction"):
        ParityPostprocessor(parity="w1", epsilon=0.01).fit(data.scores, data.group_proba, group_prior=prior)


@pytest.mark.parametrize("parity", ["tv", "w1"])
def test_a_model_file_and_a_path_know_the_notion(parity, tmp_path):
    data = make_population(600, 2, random_state=0)
    model = ParityPostprocessor(parity=parity, epsilon=0.02, atoms=15, random_state=0)
    model.fit(data.scores, data.group_proba)
    eh.save(model, tmp_path / "model.eh")
    again = eh.load(tmp_path / "model.eh")
    rows = data.scores[:50], data.group_proba[:50]
    np.testing.assert_array_equal(again.predict(*rows), model.predict(*rows))
    path = eh.frontier(
        ParityPostprocessor(parity=parity, atoms=15), data.scores, data.group_proba, epsilons=[0.01, 0.05]
    )
    reached = [float(point.certificate.violation.max()) for point in path.points]
    np.testing.assert_allclose(sorted(reached), [0.01, 0.05], atol=1e-5)


# on held-out rows


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["tv", "w1"])
@pytest.mark.parametrize("kind", ["pmf", "values"])
def test_a_certificate_misses_the_population_no_more_often_than_it_may(metric, kind):
    rng = np.random.default_rng(6)
    atoms = np.array([0.0, 1.0, 2.0, 5.0])
    pool = rng.dirichlet(np.ones(4), size=3000) + 0.0
    groups = (rng.random(3000) < 0.3 + 0.3 * pool[:, 0]).astype(int)  # the pool is the population
    truth = np.array(list(eh.metrics.unfairness(pool, groups, atoms, metric=metric).values()))
    delta, failed = 0.2, 0
    for _ in range(300):
        rows = rng.integers(3000, size=250)
        given = pool[rows]
        if kind == "values":
            given = atoms[(rng.random((250, 1)) > np.cumsum(given, axis=1)[:, :-1]).sum(axis=1)]
        found = certify_held_out(given, groups[rows], atoms=atoms, metric=metric, delta=delta)
        failed += bool((found.upper < truth).any() or (found.lower > truth).any())
        assert (found.lower <= found.estimate).all()
        assert (found.estimate <= found.upper + 1e-12).all()
    assert failed <= 300 * delta
    assert found.upper.max() < 0.5 * (5.0 if metric == "w1" else 1.0)  # and it says something


@pytest.mark.parametrize("n_atoms", [2, 5, 40, 400])
def test_the_lower_widths_hold_where_both_groups_are_alike(n_atoms):
    # the population's distance is zero there, so all that is seen is error; equal shares are the worst case
    rng = np.random.default_rng(7)
    shares = np.full(n_atoms, 1.0 / n_atoms)
    one, two = (rng.multinomial(size, shares, size=2000) / size for size in (40, 60))
    tv = 0.5 * np.abs(one - two).sum(axis=1)
    w1 = np.abs(np.cumsum(one - two, axis=1))[:, :-1].sum(axis=1) / (n_atoms - 1)
    assert (tv > tv_excess_width(40, 60, 0.2, n_atoms)).mean() <= 0.2
    assert (w1 > w1_excess_width(40, 60, 0.2, averaged=False, n_atoms=n_atoms)).mean() <= 0.2
    assert np.quantile(tv, 0.8) > 0.4 * tv_excess_width(40, 60, 0.2, n_atoms)  # within reach


def test_a_held_out_certificate_says_which_distance_it_bounds(aware_rows):
    scores, groups = aware_rows
    proba = np.eye(3)[groups]
    model = ParityPostprocessor(parity="w1", epsilon=0.5, atoms=15).fit(scores, proba)
    found = certify_held_out(model, groups, X=(scores, proba), metric="w1", epsilon=4.0)
    assert found.holds
    assert "in W1 from everybody" in str(found)
    assert found.to_dict()["metric"] == "w1"
    pmf = model.predict_pmf(scores, proba)
    direct = certify_held_out(pmf, groups, atoms=model.atoms_, metric="w1")
    np.testing.assert_allclose(direct.upper, found.upper)
    expected = eh.metrics.w1_unfairness(pmf, groups, model.atoms_)
    np.testing.assert_allclose(found.estimate, list(expected.values()), atol=1e-9)


@pytest.mark.parametrize(
    ("predictions", "metric", "message"),
    [
        (np.zeros(4), "tv", "needs atoms=, all that the predictor can give"),
        (np.full((4, 2), 0.5), "w1", "needs atoms=, the value of each column"),
        (np.zeros(4), "w2", r"metric must be one of ks, tv, w1, sup, mean, or .*: got 'w2'"),
    ],
)
def test_a_distance_that_cannot_be_bounded_says_why(predictions, metric, message):
    with pytest.raises(ValueError, match=message):
        certify_held_out(predictions, [0, 0, 1, 1], metric=metric)


@pytest.mark.parametrize(("parity", "unit"), [("tv", 1.0), ("w1", 50.0)])
def test_the_certificate_of_an_l1_notion_has_its_units(parity, unit):
    problem = random_problem(parity)
    result = run(Batch(), problem)
    one, other = certify(problem, result), certify(problem, result, step=wide_step(problem, parity))
    np.testing.assert_allclose(other.violation, unit * one.violation)
    np.testing.assert_allclose(other.risk_bound, 2500.0 * one.risk_bound)
