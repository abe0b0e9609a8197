"""The deterministic solvers against the linear program, closed forms and generic optimisers."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenhand import ParityPostprocessor, get_num_threads, set_num_threads
from evenhand.datasets import load_adult, load_communities, load_law_school, make_population, paper_split
from evenhand.dual import partial_curvature
from evenhand.dual.band import Band
from evenhand.dual.curvature import hessian as hessian_of
from evenhand.dual.dense import Dense
from evenhand.dual.objective import evaluate, optimality_error
from evenhand.dual.parity import SupNorm
from evenhand.dual.partial_curvature import hessian_at
from evenhand.exceptions import ConvergenceWarning
from evenhand.solvers import Auto, Batch, Lbfgs, Status, make_solver, quadratic, run, solve_lp
from evenhand.solvers.batch import binding_groups
from evenhand.solvers.faces import PartialSolver
from evenhand.solvers.quadratic import AbsoluteModel, HeightModel, solve_model
from tests.problems import NOTIONS, make_problem, plain_distance, random_problem

LOADERS = {"law": load_law_school, "communities": load_communities, "adult": load_adult}


@pytest.fixture(scope="module")
def paper_rows(data_home):
    """Scores in [-1, 1] and group probabilities on the unlabelled rows of the paper's splits."""
    rows = {}
    for name, load in LOADERS.items():
        data = load(data_home=data_home)
        split = paper_split(data, random_state=0)
        low, high = data.target.min(), data.target.max()
        target = 2.0 * (data.target - low) / (high - low) - 1.0
        features, groups = data.data[split.labeled], data.sensitive_features[split.labeled]
        regressor = LinearRegression().fit(features, target[split.labeled])
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(features, groups)
        unlabeled = data.data[split.unlabeled]
        rows[name] = regressor.predict(unlabeled).clip(-1.0, 1.0), classifier.predict_proba(unlabeled)
    return rows


def paper_problem(rows, parity, epsilon, beta):
    scores, group_proba = rows
    atoms = np.linspace(-1.0, 1.0, 57)
    return make_problem(
        scores,
        group_proba,
        atoms=atoms,
        parity=parity,
        slack=np.full(group_proba.shape[1], epsilon),
        temperature=beta,
    )


def policy_risk(problem, multipliers):
    """Expected cost of the policy, from its definition."""
    exponents = problem.imbalance() @ problem.parity.operator.adjoint(multipliers).T - problem.costs()
    powers = np.exp(problem.temperature * (exponents - exponents.max(axis=1, keepdims=True)))
    pmf = powers / powers.sum(axis=1, keepdims=True)
    return float(problem.rows.weights @ (pmf * problem.costs()).sum(axis=1))


@pytest.mark.parametrize("name", ["law", "communities"])
@pytest.mark.parametrize(("parity", "epsilon"), [("pmf", 2.0**-8), ("cdf", 0.05), ("tv", 0.05), ("w1", 0.02)])
def test_high_beta_comes_within_half_a_percent_of_the_linear_program(paper_rows, name, parity, epsilon):
    problem = paper_problem(paper_rows[name], parity, epsilon, 20_000.0)
    result = run(Batch(tol=1e-7), problem)  # the risk is small: a gap of 1e-6 is a quarter of a percent of it
    exact = solve_lp(problem).risk
    assert result.status is Status.CONVERGED
    assert policy_risk(problem, result.multipliers) <= 1.005 * exact
    assert plain_distance(parity, result.violation).max() <= epsilon + 2e-5


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("parity", NOTIONS)
@pytest.mark.parametrize("epsilon", [0.0, 2.0**-512])
def test_no_tolerance_at_all_neither_diverges_nor_stops_short(paper_rows, name, parity, epsilon):
    problem = paper_problem(paper_rows[name], parity, epsilon, 136.0)
    result = run(Batch(), problem)
    assert result.status is Status.CONVERGED
    assert plain_distance(parity, result.violation).max() <= 1e-6
    # a constant prediction meets every tolerance, so the optimum costs no more, but for smoothing
    constant = (problem.rows.weights @ problem.costs()).min()
    assert policy_risk(problem, result.multipliers) <= constant + np.log(57) / 136.0
    assert np.abs(result.multipliers).max() < 10.0


@pytest.mark.parametrize("parity", NOTIONS)
@pytest.mark.parametrize("n_groups", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.2])
def test_batch_and_lbfgs_find_the_same_optimum(parity, n_groups, epsilon):
    problem = random_problem(
        parity, n_rows=300, n_atoms=15, n_groups=n_groups, epsilon=epsilon, weighted=True
    )
    newton, quasi = run(Batch(tol=1e-9), problem), run(Lbfgs(tol=1e-6), problem)
    assert newton.status is Status.CONVERGED
    assert newton.objective == pytest.approx(quasi.objective, abs=1e-6)
    assert plain_distance(parity, newton.violation).max() <= epsilon + 1e-9
    assert quasi.status is Status.CONVERGED


def test_tolerances_of_their_own_are_met_by_each_group():
    slack = np.array([0.001, 0.2, 0.05])
    problem = random_problem("cdf", n_rows=400, n_groups=3).with_slack(slack)
    result = run(Batch(), problem)
    assert np.all(np.abs(result.violation).max(axis=0) <= slack + 1e-6)
    assert np.abs(result.violation).max(axis=0)[0] == pytest.approx(0.001, abs=1e-6)


def barycentre_risk(samples):
    """Smallest squared risk under exact parity with the group known: distance to the barycentre."""
    levels = (np.arange(20_000) + 0.5) / 20_000
    total = sum(len(sample) for sample in samples)
    shares = [len(sample) / total for sample in samples]
    curves = [np.quantile(sample, levels, method="inverted_cdf") for sample in samples]
    centre = sum(share * curve for share, curve in zip(shares, curves, strict=True))
    return sum(share * np.mean((curve - centre) ** 2) for share, curve in zip(shares, curves, strict=True))


@pytest.mark.parametrize("parity", ["pmf", "cdf", "tv", "w1"])
def test_known_groups_and_no_tolerance_give_the_wasserstein_barycentre(parity):
    rng = np.random.default_rng(0)
    samples = [rng.normal(-0.3, 0.15, 1200), rng.normal(0.2, 0.2, 2000), rng.normal(0.4, 0.1, 800)]
    scores = np.concatenate(samples)
    groups = np.repeat(np.arange(3), [len(sample) for sample in samples])
    model = ParityPostprocessor(parity=parity, epsilon=0.0, atoms=201, beta=20_000.0)
    model.fit(scores, np.eye(3)[groups])
    assert model.certificate_.risk == pytest.approx(barycentre_risk(samples), rel=0.02)
    pmf = model.predict_pmf(scores, np.eye(3)[groups])
    everybody = pmf.mean(axis=0).cumsum()
    distances = [np.abs(pmf[groups == s].mean(axis=0).cumsum() - everybody).max() for s in range(3)]
    assert max(distances) <= 0.01


def test_a_ladder_of_subsamples_ends_at_the_optimum_of_all_rows():
    data = make_population(60_000, n_groups=3, random_state=0)
    atoms = np.linspace(-1.0, 1.0, 41)
    scores = np.interp(data.scores, [data.scores.min(), data.scores.max()], [-1.0, 1.0])
    for parity, epsilon in (("pmf", 0.0), ("cdf", 0.02)):
        problem = make_problem(
            scores,
            data.group_proba,
            atoms=atoms,
            parity=parity,
            slack=np.full(3, epsilon),
            temperature=500.0,
        )
        result = run(Batch(first_rows=1000), problem)
        assert result.status is Status.CONVERGED
        assert optimality_error(problem, result.multipliers, evaluate(problem, result.multipliers)) <= 1e-6
        plain = run(Batch(first_rows=10**9, first_temperature=1e9, curvature_rows=10**9), problem)
        assert result.objective == pytest.approx(plain.objective, abs=1e-6)


@pytest.mark.parametrize("n_groups", [3, 7])
def test_the_answer_is_the_same_for_any_number_of_threads(n_groups, monkeypatch):
    monkeypatch.setattr(partial_curvature, "_LEAST_BLOCK", 16)  # so that many groups have many blocks
    problem = random_problem("cdf", n_rows=20_000, n_atoms=31, n_groups=n_groups, beta=300.0)
    before = get_num_threads()
    answers = []
    try:
        for n_threads in (1, 2, 4):
            set_num_threads(n_threads)
            answers.append(run(Batch(first_rows=2000), problem).multipliers)
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


@pytest.mark.parametrize("n_groups", [2, 3])
def test_a_warm_start_at_the_answer_needs_no_step(n_groups):
    problem = random_problem("pmf", n_rows=500, n_groups=n_groups)
    first = run(Batch(), problem)
    again = run(Batch(), problem, start=first.multipliers)
    assert again.n_iter == 0
    np.testing.assert_allclose(again.multipliers, first.multipliers)


def test_a_warm_start_of_groups_that_do_not_bind_keeps_its_tilt():
    problem = random_problem("pmf", n_rows=500, n_groups=2)
    start = np.random.default_rng(0).normal(size=problem.multipliers_shape)
    state = Batch().init(problem, start)
    assert len(state.binding) == 1
    np.testing.assert_allclose(state.multipliers @ problem.mixing.T, start @ problem.mixing.T)


@pytest.mark.parametrize("parity", NOTIONS)
@pytest.mark.parametrize("beta", [5.0, 800.0, 20_000.0])
def test_scores_that_sit_on_the_atoms_are_solved_like_any_others(parity, beta):
    """Every policy is all on one atom there, and has no curvature to start with."""
    rng = np.random.default_rng(0)
    tau = rng.uniform(0.1, 0.9, 400)
    atoms = np.linspace(-1.0, 1.0, 5)
    problem = make_problem(
        rng.choice(atoms, 400, p=[0.1, 0.2, 0.4, 0.2, 0.1]) * np.sign(tau - 0.3),
        np.column_stack([tau, 1.0 - tau]),
        atoms=atoms,
        parity=parity,
        slack=np.full(2, 0.02),
        temperature=beta,
    )
    result = run(Batch(), problem)
    assert result.status is Status.CONVERGED
    assert plain_distance(parity, result.violation).max() <= 0.02 + 1e-6
    if beta == 20_000.0:
        assert policy_risk(problem, result.multipliers) == pytest.approx(solve_lp(problem).risk, rel=5e-3)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("slack", [[0.0, 0.0], [0.01, 0.01], [0.0099, 99.0]])
def test_a_tiny_group_is_held_to_the_tolerance_wherever_it_stands(order, slack):
    rng = np.random.default_rng(0)
    rare = rng.uniform(0.0, 2e-4, 3000)
    proba = np.column_stack([1.0 - rare, rare])[:, order]
    model = ParityPostprocessor(epsilon=np.array(slack)[order]).fit(rng.normal(5e3 * rare, 0.3), proba)
    assert np.all(model.certificate_.violation <= model.epsilon_ + 1e-6)


def test_of_two_groups_the_one_with_the_tighter_bound_is_solved_for():
    mixing = np.array([[1.0, -0.25]])
    np.testing.assert_array_equal(binding_groups(mixing, np.array([0.01, 0.01])), [0])
    np.testing.assert_array_equal(binding_groups(mixing, np.array([0.01, 0.001])), [1])
    three = np.array([[1.0, 0.0, -0.5], [0.0, 1.0, -0.5]])
    np.testing.assert_array_equal(binding_groups(three, np.full(3, 0.01)), [0, 1, 2])


def random_model(n_groups, n_constraints, seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n_groups * n_constraints, n_groups * n_constraints))
    hessian = factor @ factor.T / len(factor) + 1e-3 * np.eye(len(factor))
    return hessian, rng.normal(size=(n_constraints, n_groups)), rng.uniform(0.0, 1.0, n_groups)


def model_value(hessian, linear, slack, x):
    flat = x.ravel()
    return 0.5 * flat @ hessian @ flat + linear.ravel() @ flat + slack @ np.abs(x).sum(axis=0)


@pytest.mark.parametrize("kind", [Band.of_matrix, Dense])
@pytest.mark.parametrize("seed", range(12))
def test_the_model_of_a_step_is_minimised(seed, kind):
    hessian, linear, slack = random_model(2, 8, seed)
    slack[seed % 2] *= seed % 3 > 0  # some without any slack
    found = solve_model(SupNorm(), kind(hessian), linear.ravel(), np.zeros(16), slack, np.arange(16))
    signed = np.concatenate([hessian, -hessian], axis=1)
    generic = minimize(
        lambda pair: (
            0.5 * (pair[:16] - pair[16:]) @ hessian @ (pair[:16] - pair[16:])
            + linear.ravel() @ (pair[:16] - pair[16:])
            + np.tile(slack, 16) @ pair
        ),
        np.zeros(32),
        jac=lambda pair: (
            np.concatenate([signed @ pair + linear.ravel(), -(signed @ pair) - linear.ravel()])
            + np.tile(slack, 16)
        ),
        bounds=[(0.0, None)] * 32,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000},
    )
    assert model_value(hessian, linear, slack, found.reshape(8, 2)) <= generic.fun + 1e-8


@pytest.mark.parametrize("seed", range(12))
def test_a_model_over_some_places_leaves_the_others_out(seed):
    hessian, linear, slack = random_model(2, 8, seed)
    places = np.flatnonzero(np.random.default_rng(seed).random(16) < 0.6)
    part = Dense(hessian[np.ix_(places, places)])
    found = solve_model(SupNorm(), part, linear.ravel()[places], np.zeros(len(places)), slack, places)
    slope = part @ found + linear.ravel()[places]
    price = slack[places % 2]
    assert np.abs(slope + price * np.sign(found))[found != 0].max(initial=0.0) < 1e-7
    assert (np.abs(slope) - price)[found == 0].max(initial=-1.0) < 1e-7


@pytest.mark.parametrize("parity", ["cdf", "pmf", "w1"])
@pytest.mark.parametrize("beta", [20.0, 2000.0])
@pytest.mark.parametrize("block", [1, 16, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_hessian_at_some_places_is_a_part_of_the_whole(parity, beta, block, dtype, monkeypatch):
    monkeypatch.setattr(partial_curvature, "_LEAST_BLOCK", block)
    monkeypatch.setattr(partial_curvature, "_N_BLOCKS", 1000)
    problem = random_problem(parity, n_rows=700, n_atoms=21, n_groups=7, beta=beta)
    multipliers = 0.1 * np.random.default_rng(0).normal(size=problem.multipliers_shape)
    whole = hessian_of(problem, multipliers).matrix()
    for share in (0.05, 0.5, 1.0):
        places = np.flatnonzero(np.random.default_rng(1).random(len(whole)) <= share)
        part = hessian_at(problem, multipliers, places, dtype)
        expected = whole[np.ix_(places, places)]
        atol = (1e-9 if dtype == np.float64 else 1e-5) * np.abs(whole).max()
        np.testing.assert_allclose(np.triu(part.entries), np.triu(expected), atol=atol)


@pytest.mark.parametrize("parity", ["cdf", "pmf"])
@pytest.mark.parametrize("n_groups", [6, 9])
def test_many_groups_meet_the_linear_program_and_leave_multipliers_at_zero(parity, n_groups):
    problem = random_problem(parity, n_rows=400, n_groups=n_groups, beta=2e4)
    result = run(Batch(), problem)
    assert result.status is Status.CONVERGED
    assert policy_risk(problem, result.multipliers) == pytest.approx(solve_lp(problem).risk, rel=5e-3)
    assert 0 < np.count_nonzero(result.multipliers) < 0.8 * result.multipliers.size


def test_with_many_groups_no_row_is_left_out_of_the_hessian():
    """Few rows tell some groups apart: with 19 of 20 of them a fit of 20 groups ran out of iterations."""
    many = random_problem("cdf", n_rows=9000, n_atoms=61, n_groups=6, beta=1e4)
    stages = Batch().init(many, None).stages
    assert {stage.curvature_rows.n_rows for stage in stages} == {9000}
    few = random_problem("cdf", n_rows=9000, n_atoms=61, n_groups=3, beta=1e4)
    assert Batch().init(few, None).stages[0].curvature_rows.n_rows < 9000


@pytest.mark.parametrize("seed", range(12))
def test_an_entry_next_to_zero_that_would_cross_does_not_end_the_search(seed):
    """It goes to zero, and the others go on: steps that stop short of it are too short to be worth taking."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(30, 30))
    hessian, linear = Dense(factor @ factor.T + 1e-4 * np.eye(30)), 3.0 * rng.normal(size=30)
    slack, places = np.full(1, 0.5), np.arange(30)
    best = solve_model(SupNorm(), hessian, linear, np.zeros(30), slack, places)
    tiny = 1e-9 * rng.choice([-1.0, 1.0], size=30)
    start = np.where(best == 0.0, tiny, best + 1e-3 * rng.normal(size=30))
    found = solve_model(SupNorm(), hessian, linear, start, slack, places)
    np.testing.assert_allclose(found, best, atol=1e-6)


@pytest.mark.parametrize("band", [True, False])
def test_two_halves_of_a_factor_are_its_solution(band):
    hessian = random_model(2, 20, 0)[0]
    if band:
        hessian = np.triu(np.tril(hessian, 3), -3) + 20.0 * np.eye(40)
    factor = Band.of_matrix(hessian).factor()
    assert factor.is_band == band
    for right in (np.arange(40.0), np.random.default_rng(0).normal(size=(40, 5))):
        halfway = factor.halfway(right)
        np.testing.assert_allclose(factor.rest(halfway), factor.solve(right), atol=1e-9)
        np.testing.assert_allclose(
            (halfway * halfway).sum(axis=0), (right * factor.solve(right)).sum(axis=0), rtol=1e-9
        )


@pytest.mark.parametrize("kind", [Band.of_matrix, Dense])
def test_faces_near_the_first_are_solved_for_several_columns_at_once(kind):
    hessian = random_model(2, 20, 0)[0]
    rng = np.random.default_rng(1)
    right, first = rng.normal(size=(40, 3)), rng.random(40) < 0.8
    solver = PartialSolver(kind(hessian))
    for share in (0.0, 0.1, 0.1, 0.1):
        is_free = first ^ (rng.random(40) < share)
        places, halfway = np.flatnonzero(is_free), solver.halve(is_free, right)
        best = np.zeros((40, 3))
        best[places] = np.linalg.solve(hessian[np.ix_(places, places)], right[places])
        for column, unit in enumerate(np.eye(3)):
            np.testing.assert_allclose(halfway.solution(unit), best[:, column], atol=1e-9)
        np.testing.assert_allclose(halfway.products(), right.T @ best, atol=1e-8)
        np.testing.assert_allclose(solver.solve(is_free, right[:, 0]), best[:, 0], atol=1e-9)
    assert solver.n_factors == 1
    assert not solver.halve(np.zeros(40, bool), right).solution(np.ones(3)).any()
    solver = PartialSolver(kind(hessian))
    assert not solver.solve(np.zeros(40, bool), right[:, 0]).any()


@pytest.mark.parametrize("seed", range(4))
def test_a_large_model_of_heights_ends_below_its_start(seed, monkeypatch):
    """Guesses that go in circles leave it at the lowest of them, with no interior point."""
    monkeypatch.setattr(quadratic, "_LARGE", 10)
    monkeypatch.setattr(HeightModel, "by_interior_point", lambda *given: pytest.fail("asked for"))
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(200, 200)) * 10.0 ** rng.uniform(-3.0, 0.0, 200)[:, None]
    hessian, linear = factor.T @ factor + 1e-7 * np.eye(200), rng.normal(size=200)
    slack = 0.1 * rng.uniform(0.0, 100.0, 4)

    def value(x):
        return 0.5 * x @ hessian @ x + linear @ x + slack @ np.abs(x.reshape(-1, 4)).max(axis=0)

    for start in (np.zeros(200), rng.normal(size=200)):
        model = HeightModel(Dense(hessian), linear, slack)
        assert not model.by_active_set(start)[1]
        assert value(model.solve(start)) < value(start)


@pytest.mark.parametrize("notion", ["heights", "heights, dense", "absolute values", "absolute values, dense"])
@pytest.mark.parametrize("seed", range(6))
def test_interior_point_and_active_set_agree(seed, notion, monkeypatch):
    hessian, linear, slack = random_model(3, 20, seed)
    slack[seed % 3] *= seed > 2  # some without a price
    kind = Dense if "dense" in notion else Band.of_matrix
    if "heights" in notion:
        model = HeightModel(kind(hessian), linear.ravel(), 20 * slack)
    else:
        model = AbsoluteModel(kind(hessian), linear.ravel(), np.tile(slack, 20))
    with monkeypatch.context() as patched:
        patched.setattr(type(model), "by_active_set", lambda self, start: (start, False))
        inner = model.by_interior_point(np.zeros(60))
    guessed, is_lowest = model.by_active_set(inner)
    assert is_lowest
    np.testing.assert_allclose(inner, guessed, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_a_step_of_sums_meets_its_conditions_from_any_start(seed):
    hessian, linear, slack = random_model(3, 20, seed)
    rng = np.random.default_rng(seed)
    for start in (np.zeros(60), rng.normal(size=60), np.full(60, 30.0)):
        x = AbsoluteModel(Band.of_matrix(hessian), linear.ravel(), np.tile(slack, 20)).solve(start)
        slope = hessian @ x + linear.ravel()
        beyond = np.abs(slope + np.tile(slack, 20) * np.sign(x))[x != 0]
        assert beyond.max(initial=0.0) < 1e-7
        assert (np.abs(slope) - np.tile(slack, 20))[x == 0].max(initial=-1.0) < 1e-7


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_start_that_is_good_for_other_rows_still_leads_to_the_minimiser(seed):
    """Faces lead nowhere from it, as after a sample of rows: where they end depends on rounding."""
    rng = np.random.default_rng(seed)
    factor = np.tril(np.triu(rng.normal(size=(200, 200)) * (rng.random((200, 200)) < 0.5)), 7)
    factor *= 10.0 ** rng.uniform(-3.0, 0.0, 200)[:, None]
    hessian = factor.T @ factor + 1e-7 * np.eye(200)
    start, other = np.where(rng.random((2, 200)) < 0.5, rng.normal(size=(2, 200)), 0.0)
    linear = 0.01 * rng.normal(size=200) - hessian @ other
    model = AbsoluteModel(Band.of_matrix(hessian), linear, np.full(200, 0.01))
    assert not model.by_active_set(start)[1]
    x = model.solve(start)
    slope = hessian @ x + linear
    assert np.abs(slope + 0.01 * np.sign(x))[x != 0].max() < 1e-10
    assert np.abs(slope)[x == 0].max() < 0.01 + 1e-10


def test_the_iterations_run_out_and_the_status_says_so():
    result = run(Batch(max_iter=1), random_problem("pmf", n_rows=300, beta=500.0))
    assert result.status is Status.MAX_ITER
    assert not result.status.success
    assert "raise max_iter" in result.message


def test_a_callback_or_an_interrupt_keeps_the_last_iterate():
    problem = random_problem("pmf", n_rows=300, beta=500.0)
    seen = []

    def stop_at_two(progress):
        seen.append(progress)
        return progress.n_iter == 2

    result = run(Batch(), problem, callback=stop_at_two)
    assert result.status is Status.STOPPED
    np.testing.assert_array_equal(result.multipliers, seen[-1].multipliers)

    def interrupt(progress):
        raise KeyboardInterrupt

    assert run(Batch(), problem, callback=interrupt).status is Status.STOPPED


def test_the_width_of_the_problem_chooses_the_solver():
    narrow, wide = random_problem("pmf", n_atoms=9), random_problem("pmf", n_atoms=20_001)
    assert isinstance(Auto().choose(narrow), Batch)
    assert isinstance(Auto(max_iter=7).choose(wide), Lbfgs)
    assert run(Auto(max_iter=7), narrow).solver == "batch"


def test_a_problem_too_wide_for_a_hessian_is_solved_too():
    rng = np.random.default_rng(0)
    n_groups = 40
    groups = rng.integers(n_groups, size=4000)
    proba = np.full((4000, n_groups), 0.5 / n_groups)
    proba[np.arange(4000), groups] += 0.5
    model = ParityPostprocessor(epsilon=0.05, atoms=101, solver=Auto(widest=2500)).fit(
        rng.normal(groups / 40.0, 0.3), proba
    )
    assert model.result_.solver == "lbfgs"
    assert model.certificate_.violation.max() <= 0.05 + 1e-6


def test_the_oracle_certifies_against_the_linear_program():
    rng = np.random.default_rng(0)
    tau = rng.uniform(0.1, 0.9, 200)
    proba = np.column_stack([tau, 1 - tau])
    model = ParityPostprocessor(solver="lp", atoms=21, epsilon=0.02).fit(tau + rng.normal(0, 0.3, 200), proba)
    assert model.beta_ == 20_000.0
    half_width = (model.bounds_[1] - model.bounds_[0]) / 2
    exact = model.result_.exact_risk * half_width**2
    assert model.certificate_.lower_bound == pytest.approx(exact)
    assert model.certificate_.risk == pytest.approx(exact, rel=0.005)


@pytest.mark.parametrize("solver", ["sgd", "acsa", "acsa2", "sgd3", "sgd3+acsa", "sgd3+acsa2"])
def test_every_name_of_the_paper_fits_a_model_and_warns_of_too_small_a_budget(solver):
    data = make_population(500, n_groups=2, random_state=0)
    model = ParityPostprocessor(solver=solver, max_iter=2000, random_state=0)
    with pytest.warns(ConvergenceWarning, match="above epsilon: raise max_iter"):
        model.fit(data.scores, data.group_proba)
    assert model.result_.solver == solver
    assert model.result_.n_gradient_rows == 2000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "magic"}, "Unknown solver 'magic'. Valid names: auto, batch"),
        ({"solver": 3}, "solver must be a name .* or an object"),
        ({"solver": "batch", "tol": 0.0}, "tol must be a positive number"),
        ({"solver": "batch", "tol": float("nan")}, "tol must be a positive number"),
        ({"solver": "batch", "max_iter": 0}, "max_iter must be a positive integer"),
    ],
)
def test_a_solver_that_cannot_be_made_says_why(options, message):
    with pytest.raises(ValueError, match=message):
        make_solver(**options)


def test_extreme_problems_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for beta in (1e-3, 1.0, 1e6):
            for epsilon in (0.0, 1e-9, 2.0):
                for parity in ("pmf", "tv", "w1"):
                    problem = random_problem(parity, n_rows=50, beta=beta, epsilon=epsilon, n_groups=3)
                    result = run(Batch(), problem)
                    assert np.all(np.isfinite(result.multipliers))
                    assert result.status is Status.CONVERGED
