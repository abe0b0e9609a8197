"""The paper's stochastic optimisers against SciPy, their NumPy twins, and their own theory."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from evenhand._kernels import reference_stochastic as reference
from evenhand.dual.objective import evaluate
from evenhand.dual.projected import (
    gradient_map,
    merge,
    projected_gradient,
    smoothness,
    split,
)
from evenhand.solvers import schedules, stochastic
from evenhand.solvers.acsa import AcSa, AcSa2
from evenhand.solvers.base import run
from evenhand.solvers.result import Status
from evenhand.solvers.sgd import Sgd
from evenhand.solvers.sgd3 import Sgd3
from tests.paper_form import projected_objective, stochastic_gradient
from tests.problems import NOTIONS, make_problem, plain_distance, with_rows

SOLVERS = {
    "sgd": Sgd,
    "acsa": AcSa,
    "acsa2": AcSa2,
    "sgd3": Sgd3,
    "sgd3+acsa": lambda **options: Sgd3(inner=AcSa(), **options),
    "sgd3+acsa2": lambda **options: Sgd3(inner=AcSa2(), **options),
}
all_solvers = pytest.mark.parametrize("name", SOLVERS)
all_parities = pytest.mark.parametrize("parity", NOTIONS)


def population(n=4000, m=41, beta=60.0, epsilon=0.01, parity="pmf", weights=None, seed=0):
    """Three groups whose probabilities and scores follow from three normal features."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    logits = np.stack([2.0 * x[:, 0], 1.6 * x[:, 1] - 0.6 * x[:, 0] + 0.6, np.zeros(n)], axis=1)
    atoms = np.linspace(-1.0, 1.0, m)
    return make_problem(
        0.9 * np.tanh(x @ np.array([0.5, 0.2, 0.3])),
        softmax(logits, axis=1),
        atoms=atoms,
        parity=parity,
        slack=np.full(3, epsilon),
        temperature=beta,
        weights=weights,
    )


def risk(problem, multipliers):
    costs = problem.costs()
    tilt = problem.parity.operator.adjoint(multipliers)
    policy = softmax(problem.temperature * (problem.imbalance() @ tilt.T - costs), axis=1)
    return problem.rows.weights @ (policy * costs).sum(axis=1)


def optimum(problem):
    """Phi at the optimum of the projected form, by SciPy."""
    shape = (2, *problem.multipliers_shape)

    def value_and_gradient(flat):
        point = flat.reshape(shape)
        violation = evaluate(problem, merge(point)).violation
        return projected_objective(problem, point), projected_gradient(problem, violation).ravel()

    found = minimize(
        value_and_gradient,
        np.zeros(np.prod(shape)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * int(np.prod(shape)),
        options={"maxiter": 5000, "maxfun": 5000, "ftol": 1e-14, "gtol": 1e-7, "maxcor": 30},
    )
    return merge(found.x.reshape(shape))


def raw_gradient_map(problem, state):
    """At (Lambda, V) as the solver left it, which is what the theorem bounds."""
    violation = evaluate(problem, state.multipliers).violation
    return np.linalg.norm(gradient_map(problem, state.pair, violation, 1.0 / smoothness(problem)))


def finish(solver, problem, start=None):
    state = solver.init(problem, start)
    while solver.done(problem, state) is None:
        state = solver.step(problem, state)
    return state


def assert_same_state(first, second):
    for field in ("iterate", "output", "centre", "gradient"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
    for field in ("cursor", "n_iter", "n_gradient_rows", "regularisation"):
        assert getattr(first, field) == getattr(second, field)


@all_parities
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_of_the_row_gradients_is_the_gradient(parity, weighted):
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.ones(200)) if weighted else None
    problem = population(n=200, m=11, parity=parity, weights=weights)
    point = random.random((2, *problem.multipliers_shape)) * 0.2
    rows = [stochastic_gradient(problem, point, np.array([i])) for i in range(200)]
    full = projected_gradient(problem, evaluate(problem, merge(point)).violation)
    np.testing.assert_allclose(np.tensordot(problem.rows.weights, rows, axes=1), full, atol=1e-13)
    batch = stochastic_gradient(problem, point, np.array([3, 5, 5]))
    np.testing.assert_allclose(batch, (rows[3] + 2 * rows[5]) / 3, atol=1e-14)


def test_full_gradient_agrees_with_finite_differences():
    problem = population(n=100, m=7)
    random = np.random.default_rng(2)
    point, direction = random.random((2, 2, *problem.multipliers_shape)) * 0.1
    gradient = stochastic_gradient(problem, point, np.arange(100))
    ahead, behind = (projected_objective(problem, point + h * direction) for h in (1e-5, -1e-5))
    assert (ahead - behind) / 2e-5 == pytest.approx((gradient * direction).sum(), abs=1e-8)


@all_solvers
@all_parities
@pytest.mark.parametrize("batch_size", [1, 7])
def test_kernel_does_what_its_numpy_twin_does(name, parity, batch_size, monkeypatch):
    # A low beta: where steps exceed 2 / M the iteration itself doubles every rounding error.
    problem = population(n=120, m=9, parity=parity, beta=4.0)
    solver = SOLVERS[name](n_steps=600, batch_size=batch_size, random_state=3, chunk_size=250)
    compiled = finish(solver, problem)
    for kernel in ("sgd_steps_into", "acsa_steps_into"):
        monkeypatch.setattr(stochastic.kernels, kernel, getattr(reference, kernel))
    plain = finish(solver, problem)
    for field in ("output", "iterate", "centre"):
        np.testing.assert_allclose(getattr(compiled, field), getattr(plain, field), atol=1e-10)
    assert compiled.cursor == plain.cursor
    assert compiled.regularisation == pytest.approx(plain.regularisation, rel=1e-14)


def test_kernel_holds_at_extreme_temperature_and_multipliers(monkeypatch):
    problem = population(n=50, m=9, beta=1e6)
    start = np.random.default_rng(0).normal(size=problem.multipliers_shape) * 1e3
    solver = Sgd(n_steps=200, random_state=0, step_size=0.1)
    compiled = finish(solver, problem, start)
    monkeypatch.setattr(stochastic.kernels, "sgd_steps_into", reference.sgd_steps_into)
    np.testing.assert_allclose(compiled.output, finish(solver, problem, start).output, rtol=1e-9, atol=1e-9)


@all_solvers
@pytest.mark.parametrize(("n_steps", "batch_size"), [(1, 1), (997, 1), (1000, 32), (5, 32), (1003, 10)])
def test_budget_is_used_exactly(name, n_steps, batch_size):
    problem = population(n=90, m=7)
    result = run(SOLVERS[name](n_steps=n_steps, batch_size=batch_size, random_state=0), problem)
    assert result.status is Status.BUDGET_SPENT
    assert result.n_gradient_rows == n_steps
    assert result.n_iter == -(-n_steps // batch_size)
    assert np.isfinite(result.multipliers).all()


@all_solvers
@pytest.mark.parametrize("sampling", ["passes", "replacement"])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_any_cut_into_chunks_gives_the_same_bits(name, sampling, batch_size):
    problem = population(n=130, m=7, weights=np.random.default_rng(0).dirichlet(np.ones(130)))
    options = {"n_steps": 5000, "sampling": sampling, "batch_size": batch_size, "random_state": 5}
    whole = finish(SOLVERS[name](chunk_size=5000, **options), problem)
    for chunk_size in (61, 1000):
        assert_same_state(finish(SOLVERS[name](chunk_size=chunk_size, **options), problem), whole)


@all_solvers
def test_state_goes_on_after_a_pickle(name):
    problem = population(n=100, m=7)
    solver = SOLVERS[name](n_steps=3000, chunk_size=700, random_state=1)
    state = solver.step(problem, solver.init(problem))
    before = state.output.copy()
    again = pickle.loads(pickle.dumps(state))
    while solver.done(problem, again) is None:
        again = solver.step(problem, again)
    assert_same_state(again, finish(solver, problem))
    np.testing.assert_array_equal(state.output, before)  # a step leaves the state it came from alone


@all_solvers
def test_seed_fixes_the_answer(name):
    problem = population(n=200, m=7)
    for kind in (int, np.random.default_rng, np.random.RandomState):
        first, second, other = (
            run(SOLVERS[name](n_steps=2000, random_state=kind(seed)), problem).multipliers
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)


def test_a_pass_takes_every_row_once():
    problem = population(n=70, m=5)
    rows = stochastic.draw_rows(problem, 0, 0, 210, "passes").reshape(3, 70)
    np.testing.assert_array_equal(np.sort(rows, axis=1), np.tile(np.arange(70), (3, 1)))
    assert not np.array_equal(rows[0], rows[1])


@pytest.mark.parametrize("sampling", ["passes", "replacement"])
def test_rows_come_in_proportion_to_their_weights(sampling):
    weights = np.arange(1.0, 41.0) / np.arange(1.0, 41.0).sum()
    problem = population(n=40, m=5, weights=weights)
    rows = stochastic.draw_rows(problem, 0, 0, 400_000, sampling)
    share = np.bincount(rows, minlength=40) / len(rows)
    error = 5 * np.sqrt(weights / len(rows))  # five standard errors of independent draws
    assert (np.abs(share - weights) < error).all()


def test_integer_weights_mean_repeated_rows():
    counts = np.random.default_rng(0).integers(1, 4, size=300)
    problem = population(n=300, m=9, weights=counts / counts.sum())
    rows = np.repeat(np.arange(300), counts)
    repeated = with_rows(
        problem,
        design=np.ascontiguousarray(problem.rows.design[:, rows]),
        constant=problem.rows.constant[rows],
        weights=np.full(len(rows), 1.0 / len(rows)),
    )
    options = {"n_steps": 200_000, "sampling": "replacement", "random_state": 0}
    first, second = (run(Sgd(**options), p) for p in (problem, repeated))
    gain = evaluate(problem, np.zeros(problem.multipliers_shape)).value - first.objective
    assert first.objective == pytest.approx(evaluate(repeated, first.multipliers).value, abs=1e-12)
    assert abs(first.objective - second.objective) < 0.02 * gain
    ignored = evaluate(with_rows(problem, weights=np.full(300, 1 / 300)), first.multipliers).value
    assert abs(first.objective - ignored) > 1e-5  # so that the check above can fail


@all_solvers
def test_the_sum_of_regularisers_is_one_number_and_one_vector(name):
    """Replays the anchors of the plan: `sum_j mu_j (w - w_j) = mu w - c`."""
    problem = population(n=80, m=7)
    solver = SOLVERS[name](n_steps=1000, chunk_size=1, random_state=0)
    state = solver.init(problem)
    anchors = []
    while solver.done(problem, state) is None:
        phase, update, _ = state.cursor
        if update == 0 and state.plan[phase].anchor > 0:
            anchors.append((state.plan[phase].anchor, state.output.copy()))
        state = solver.step(problem, state)
    w = np.random.default_rng(0).random(state.output.shape)
    expected = sum((mu * (w - centre) for mu, centre in anchors), np.zeros_like(w))
    np.testing.assert_allclose(state.regularisation * w - state.centre, expected, atol=1e-9)
    if name.startswith("sgd3"):
        assert len(anchors) > 1
        assert [mu / anchors[0][0] for mu, _ in anchors] == [2.0**j for j in range(len(anchors))]


def test_sgd_returns_the_mean_of_its_iterates():
    problem = population(n=60, m=7)
    solver = Sgd(n_steps=50, chunk_size=1, random_state=0)
    state = solver.init(problem)
    iterates = []
    while solver.done(problem, state) is None:
        state = solver.step(problem, state)
        iterates.append(state.iterate)
    np.testing.assert_allclose(state.output, np.mean(iterates, axis=0), atol=1e-15)


@pytest.mark.parametrize("n_updates", [1, 7, 100, 5000, 123_457])
@pytest.mark.parametrize("convexity", [1e-6, 0.01, 1.0, 64.0, 1e4])
def test_every_plan_adds_up_to_its_budget(n_updates, convexity):
    inner = (schedules.strongly_convex_sgd, schedules.acsa, schedules.acsa_squared)
    plans = [stage(n_updates, 100.0, convexity) for stage in inner]
    plans += [schedules.sgd3(stage, n_updates, 100.0, convexity) for stage in inner]
    for plan in plans:
        assert sum(phase.n_updates for phase in plan) == n_updates
        assert all(phase.n_updates > 0 and 0 < phase.period <= phase.n_updates for phase in plan)


def test_strongly_convex_sgd_follows_its_theory_when_the_budget_allows():
    equal, *halved = schedules.strongly_convex_sgd(1600, smoothness=10.0, convexity=1.0)
    assert (equal.n_updates, equal.period, equal.constants[0]) == (20 * 40, 40, 1 / 20)
    assert [phase.constants[0] for phase in halved] == [1 / 20, 1 / 40, 1 / 80]
    assert [phase.n_updates for phase in halved] == [80, 160, 560]


@all_solvers
@all_parities
def test_every_notion_improves_on_the_zero_start(name, parity):
    problem = population(n=1000, m=21, parity=parity, epsilon=0.05 if parity in ("cdf", "tv") else 0.01)
    zero = evaluate(problem, np.zeros(problem.multipliers_shape))
    result = run(SOLVERS[name](random_state=0), problem)
    assert result.objective < zero.value
    assert plain_distance(parity, result.violation).max() < 0.7 * plain_distance(parity, zero.violation).max()


@pytest.fixture(scope="module")
def three_groups():
    problem = population()
    return problem, optimum(problem)


@all_solvers
def test_default_budget_reaches_the_neighbourhood_of_the_optimum(name, three_groups):
    problem, best = three_groups
    zero, exact = (evaluate(problem, phi) for phi in (np.zeros_like(best), best))
    result = run(SOLVERS[name](random_state=0), problem)
    assert result.n_gradient_rows == 100_000
    assert 0.0 <= result.objective - exact.value < 0.1 * (zero.value - exact.value)
    excess = np.abs(zero.violation).max() - 0.01
    assert np.abs(result.violation).max() < 0.01 + excess / 3
    price = risk(problem, best) - risk(problem, np.zeros_like(best))
    assert abs(risk(problem, result.multipliers) - risk(problem, best)) < price / 5


@pytest.mark.parametrize("epsilon", [0.01, 2.0**-8])
def test_sgd3_makes_the_gradient_map_small(epsilon):
    problem = population(epsilon=epsilon)
    norms = {
        name: np.mean([raw_gradient_map(problem, finish(make(random_state=s), problem)) for s in range(3)])
        for name, make in SOLVERS.items()
    }
    others = min(norms[name] for name in ("sgd", "acsa", "acsa2"))
    for name in ("sgd3", "sgd3+acsa", "sgd3+acsa2"):
        assert norms[name] < 0.6 * others


def pieces(problem, n_pieces=7):
    """The rows of `problem`, untouched, as a stream of smaller problems (`sample` would recentre them)."""
    for rows in np.array_split(np.arange(problem.n_rows), n_pieces):
        weights = np.full(len(rows), 1.0 / len(rows))
        design = np.ascontiguousarray(problem.rows.design[:, rows])
        yield with_rows(problem, design=design, constant=problem.rows.constant[rows], weights=weights)


@all_solvers
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_stream_gives_the_same_bits_however_it_arrives(name, batch_size):
    stream = population(n=3000, m=9)
    solver = SOLVERS[name](n_steps=3000, batch_size=batch_size)
    state = solver.init(stream)
    whole = solver.feed(stream, state)
    for piece in pieces(stream):
        state = solver.feed(piece, state)
    assert_same_state(state, whole)


@all_solvers
def test_a_stream_may_outlast_its_plan(name):
    stream = population(n=20_000, m=9)
    solver = SOLVERS[name](n_steps=1000)
    state = solver.init(stream)
    for piece in pieces(stream):
        state = solver.feed(piece, state)
    assert state.n_gradient_rows == state.n_iter == 20_000
    assert state.budget == 32_000  # 1000, doubled each time it was spent
    zero = evaluate(stream, np.zeros(stream.multipliers_shape))
    reached = evaluate(stream, state.multipliers)
    assert reached.value < zero.value
    assert np.abs(reached.violation).max() < np.abs(zero.violation).max()


@all_solvers
def test_a_stream_goes_on_in_smaller_batches_than_its_plan_was_made_for(name):
    """The compiled loops read the plan without a look at its end."""
    stream = population(n=3000, m=9)
    first, *rest = pieces(stream)
    coarse, fine = SOLVERS[name](n_steps=3000, batch_size=64), SOLVERS[name](n_steps=3000)
    state = coarse.feed(first, coarse.init(stream))
    assert state.outlasts_plan(1)
    assert not state.outlasts_plan(64)
    for piece in rest:
        state = fine.feed(piece, state)
        assert not state.outlasts_plan(1)
    assert state.n_gradient_rows == 3000
    assert np.isfinite(state.multipliers).all()


def test_weights_of_fresh_rows_scale_their_gradients():
    problem = population(n=30, m=5, weights=np.random.default_rng(0).dirichlet(np.ones(30)))
    solver = Sgd(n_steps=30, batch_size=30, step_size=0.1)
    point = solver.feed(problem, solver.init(problem)).pair
    gradient = projected_gradient(problem, evaluate(problem, np.zeros(problem.multipliers_shape)).violation)
    np.testing.assert_allclose(point, np.maximum(-0.1 * gradient, 0.0), atol=1e-14)


def test_warm_start_is_kept():
    problem = population(n=500, m=11)
    best = optimum(problem)
    start_gap = evaluate(problem, np.zeros_like(best)).value - evaluate(problem, best).value
    result = run(Sgd3(inner=AcSa(), n_steps=5000, random_state=0), problem, start=best)
    assert result.objective - evaluate(problem, best).value < 0.05 * start_gap
    np.testing.assert_array_equal(Sgd().init(problem, best).pair, split(best))


def test_rows_that_tell_nothing_about_groups_leave_everything_at_zero():
    problem = population(n=50, m=5)
    blind = with_rows(problem, design=problem.rows.design * np.array([[0.0], [0.0], [1.0]]))
    for make in SOLVERS.values():
        assert (finish(make(n_steps=200, random_state=0), blind).multipliers == 0.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_steps": 0}, "n_steps must be a positive integer: got 0"),
        ({"batch_size": -1}, "batch_size must be a positive integer"),
        ({"chunk_size": 1.5}, "chunk_size must be a positive integer"),
        ({"smoothness": float("nan")}, "smoothness must be a positive number"),
        ({"sampling": "once"}, "sampling must be 'passes' or 'replacement'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Sgd(**options).init(population(n=20, m=5))
