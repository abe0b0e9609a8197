"""Sweeps over single atoms, and the steps for total variation of many groups that they belong to."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from evenhand.datasets import make_population
from evenhand.dual.objective import evaluate, penalty
from evenhand.solvers import Auto, Batch, Status, atom_steps, batch, run, solve_lp
from evenhand.solvers.by_atom import AtomSweeps
from tests.problems import make_problem


def problem_of(n_groups, *, n_rows=300, beta=2000.0, epsilon=0.05, parity="tv"):
    people = make_population(n_rows, n_groups, random_state=3)
    return make_problem(
        people.scores / np.abs(people.scores).max(),
        people.group_proba,
        atoms=np.linspace(-1.0, 1.0, 31),
        parity=parity,
        slack=np.full(n_groups, epsilon),
        temperature=beta,
    )


def random_point(problem, size, seed):
    return size * np.random.default_rng(seed).standard_normal(problem.multipliers_shape)


def smooth_part(problem, point):
    return evaluate(problem, point).value - penalty(problem, point)


@pytest.mark.parametrize("beta", [50.0, 2000.0, 20_000.0])
@pytest.mark.parametrize("size", [0.0, 0.001, 0.02])
def test_an_atom_ends_where_a_generic_optimiser_ends(beta, size):
    problem = problem_of(6, beta=beta)
    start = random_point(problem, size, seed=0)
    ends = np.maximum(np.abs(start).max(axis=0), 0.005)
    for atom in (8, 15, 22):
        sweeps = AtomSweeps.at(problem, start)
        sweeps.sweep(np.full(6, atom), ends)
        moved = np.abs(sweeps.point - start).max(axis=1) > 0.0
        assert moved.sum() <= 1
        assert (np.abs(sweeps.point[atom]) <= ends).all()

        def value_and_slope(multipliers, atom=atom):
            point = start.copy()
            point[atom] = multipliers
            now = evaluate(problem, point)
            return now.value - penalty(problem, point), now.violation[atom]

        bounds = list(zip(-ends, ends, strict=True))
        best = minimize(
            value_and_slope, start[atom], jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}
        )
        assert smooth_part(problem, sweeps.point) <= best.fun + 1e-9


@pytest.mark.parametrize("beta", [50.0, 2000.0, 20_000.0])
@pytest.mark.parametrize("seed", range(5))
def test_what_rows_know_of_the_point_stays_true(beta, seed):
    """Also of rows that are all but sure of an atom, and of those that were too far away to be looked at."""
    problem = problem_of(6, beta=beta)
    start = random_point(problem, 0.01, seed)
    sweeps = AtomSweeps.at(problem, start)
    for _ in range(2):
        sweeps.sweep(np.random.default_rng(seed).permutation(problem.n_atoms), np.abs(start).max(axis=0))
    assert np.abs(sweeps.point - start).max() > 1e-3
    logits = beta * (
        problem.imbalance() @ sweeps.point.T - (problem.costs() - problem.rows.constant[:, None])
    )
    np.testing.assert_allclose(sweeps.totals, logsumexp(logits, axis=1), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("beta", [50.0, 20_000.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_every_atom_lowers_the_objective(beta, epsilon):
    """Without a tolerance, multipliers have no end: rows that are far from the atom have to be minded."""
    problem = problem_of(6, beta=beta, epsilon=epsilon)
    point = random_point(problem, 0.05, seed=1)
    ends = np.abs(point).max(axis=0) if epsilon else np.full(problem.n_groups, np.inf)
    value = first = smooth_part(problem, point)
    for atom in range(problem.n_atoms):
        sweeps = AtomSweeps.at(problem, point)
        sweeps.sweep(np.array([atom]), ends)
        point = sweeps.point
        after = smooth_part(problem, point)
        assert after <= value + 1e-12
        value = after
    assert value < first - 1e-4


def test_an_atom_that_no_row_looks_at_stays():
    people = make_population(300, 6, random_state=3)
    problem = make_problem(
        np.clip(people.scores, -0.2, 0.2),
        people.group_proba,
        atoms=np.linspace(-1.0, 1.0, 31),
        parity="tv",
        slack=np.full(6, 0.05),
        temperature=20_000.0,
    )
    start = np.zeros(problem.multipliers_shape)
    sweeps = AtomSweeps.at(problem, start)
    sweeps.sweep(np.array([0, 30]), np.full(6, 1e-3))
    np.testing.assert_array_equal(sweeps.point, start)


@pytest.mark.parametrize(
    ("n_groups", "parity", "expected"),
    [(6, "tv", True), (4, "tv", False), (6, "w1", False), (6, "cdf", False)],
)
def test_total_variation_of_many_groups_goes_by_atom(n_groups, parity, expected):
    problem = problem_of(n_groups, parity=parity)
    state = Batch().init(problem, None)
    assert {atom_steps.goes_by_atom(stage) for stage in state.stages} == {expected}


def test_rows_that_are_not_all_in_the_hessian_go_the_plain_way():
    state = Batch(curvature_rows=100).init(problem_of(6), None)
    assert not atom_steps.goes_by_atom(state.stages[-1])


def test_a_warm_start_that_is_only_measured_goes_the_plain_way():
    """Its sweeps took three times as long as the plain steps that they saved."""
    problem = problem_of(6)
    state = Batch(tol=0.004).init(problem, np.zeros(problem.multipliers_shape))
    assert not atom_steps.goes_by_atom(state.stages[-1])


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.05])
def test_sweeps_lead_to_the_same_optimum_in_fewer_steps(epsilon, monkeypatch):
    problem = problem_of(8, n_rows=600, epsilon=epsilon, beta=5000.0)
    by_atom = run(Auto(), problem)
    monkeypatch.setattr(batch, "goes_by_atom", lambda stage: False)
    plain = run(Auto(), problem)
    assert by_atom.status is plain.status is Status.CONVERGED
    assert abs(by_atom.objective - plain.objective) < 2e-6  # each is within 1e-6 of the optimum
    assert by_atom.n_iter < 0.9 * plain.n_iter


def test_the_program_has_the_same_risk():
    """A beta that adds next to nothing: HiGHS knows neither atoms nor groups."""
    problem = problem_of(8, n_rows=150, beta=20_000.0)
    found = run(Auto(), problem)
    assert found.status is Status.CONVERGED
    best = solve_lp(problem).risk
    assert abs(best + found.objective) < 0.005 * best


def test_a_step_that_sweeps_do_not_make_good_is_a_plain_one(monkeypatch):
    monkeypatch.setattr(atom_steps, "_along", lambda stage, state, *move: (state, 0.0))
    monkeypatch.setattr(atom_steps, "_TRIES", 2)
    assert run(Auto(), problem_of(6)).status is Status.CONVERGED


@pytest.mark.parametrize(
    ("error", "damping", "share", "length", "expected"),
    [
        (1e-3, 1e-6, 1.0, 1.0, 1e-7),  # kept its word: the ridge
        (1e-3, 1e-6, 0.5, 1.0, 1e-6),
        (1e-3, 1e-6, 1.0, 0.3, 3e-6),  # shortened
        (1e-5, 1e-6, 1.0, 1.0, 1e-5),  # near the end, where it would go far for a gain that does not count
        (1e-5, 1e-5, 1.0, 1.0, 1e-5 / 12.0),  # held already, to no avail
    ],
)
def test_a_step_is_held_by_what_the_last_one_was_worth(error, damping, share, length, expected, monkeypatch):
    state = Batch(tol=1e-6).init(problem_of(6), np.zeros((31, 6)))
    monkeypatch.setattr(atom_steps, "error_of", lambda stage, state: error)
    monkeypatch.setattr(atom_steps, "share_of_promise", lambda *given: share)
    state = replace(state, damping=damping)
    found = atom_steps._next_damping(state.stages[0], state, state, damping, length, 1.0)
    assert found == pytest.approx(expected)


def test_a_sweep_that_leaves_a_quarter_is_followed_by_another(monkeypatch):
    """What a step raised the objective by, in units of its promise, before sweeps and after each."""
    problem = problem_of(6)
    state = Batch(tol=1e-6).init(problem, np.zeros(problem.multipliers_shape))
    value = state.now.value

    def number_of_sweeps(rises):
        left = list(rises)
        of_point = replace(state.now, value=value + left.pop(0))
        monkeypatch.setattr(atom_steps, "evaluate", lambda problem, point: of_point)
        monkeypatch.setattr(
            atom_steps,
            "swept",
            lambda stage, state: replace(
                state, point=state.point.copy(), now=replace(state.now, value=value + left.pop(0))
            ),
        )
        monkeypatch.setattr(atom_steps, "_LENGTHS", (1.0,))
        is_used = np.ones(31, bool)
        move = np.ones(problem.multipliers_shape)
        _, length = atom_steps._along(state.stages[0], state, move, is_used, 1.0)
        return len(rises) - 1 - len(left), length

    assert number_of_sweeps([-0.5, -1.0]) == (1, 1.0)
    assert number_of_sweeps([1000.0, 100.0, 10.0, -1.0]) == (3, 1.0)
    assert number_of_sweeps([1000.0, 100.0, 10.0, 1.0, -1.0]) == (3, 0.0)  # no more than three
    assert number_of_sweeps([1000.0, 500.0, -1.0]) == (1, 0.0)
    assert number_of_sweeps([1e4, -1.0]) == (0, 0.0)  # hopeless


def test_atoms_that_are_left_out_follow_their_neighbours_within_the_heights():
    is_used = np.array([False, True, False, True, False])
    move = np.array([[9.0], [1.0], [9.0], [3.0], [9.0]])
    followed = atom_steps._followed(move, is_used)
    np.testing.assert_array_equal(followed.ravel(), [1.0, 1.0, 2.0, 3.0, 3.0])
    point = np.array([[-5.0], [2.0], [1.0], [-2.0], [5.0]])
    cut = atom_steps._cut_off(np.array([0.05]), point, is_used)
    np.testing.assert_array_equal(cut.ravel(), [-2.0, 2.0, 1.0, -2.0, 2.0])
    np.testing.assert_array_equal(atom_steps._cut_off(np.zeros(1), point, is_used), point)
