"""Streams: any chunking gives the same model, and the model is as good as one that stored its rows."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from evenhand import ParityPostprocessor, get_num_threads, load, save, set_num_threads
from evenhand.datasets import make_population
from evenhand.dual.objective import evaluate
from evenhand.dual.parity import make_parity
from evenhand.estimators.streaming import BLOCK_ROWS
from evenhand.estimators.streaming.moments import measure, moment_shift
from evenhand.estimators.streaming.update import (
    FIRST_MARK,
    Extension,
    _on_wider_grid,
    block_problem,
    extend,
    round_proba,
)
from evenhand.exceptions import ClippingWarning
from evenhand.metrics import risk
from tests.problems import make_problem, plain_policy, random_multipliers, random_problem, random_rows

SOLVERS = ("auto", "sgd3", "sgd3+acsa2")


def population(n_rows, seed=0, **options):
    rows = make_population(n_rows, **{"n_groups": 3, "random_state": seed, **options})
    return rows.scores, rows.group_proba


def fed(model, scores, group_proba, sizes, **options):
    """The model after the rows in chunks of the given sizes, over and over."""
    first, turn = 0, 0
    while first < len(scores):
        last = first + sizes[turn % len(sizes)]
        model.partial_fit(scores[first:last], group_proba[first:last], **options)
        first, turn = last, turn + 1
    return model


def assert_same(model, other):
    """The same model and the same state, bit for bit."""
    assert pickle.dumps(vars(model)) == pickle.dumps(vars(other))


def fresh_rows(n_rows=100_000, **options):
    return population(n_rows, seed=99, **options)


def violation_on(model, scores, group_proba):
    """Largest violation on rows with their own prior, straight from its definition."""
    masses = model.predict_pmf(scores, group_proba).T @ (1.0 - group_proba / group_proba.mean(axis=0))
    parity = make_parity(model.parity, model.policy_.grid.normalised())
    unit = model.policy_.grid.half_width if parity.in_outcome_units else 1.0
    return unit * parity.norm.value(parity.operator.apply(masses / len(scores))).max()


def risk_on(model, scores, group_proba):
    return risk(scores, model.predict_pmf(scores, group_proba), model.atoms_)


# chunks


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_rows", [37, 700, 5 * BLOCK_ROWS + 11])
def test_any_chunking_gives_the_same_bits(n_rows, solver):
    rows = population(n_rows)
    whole, *others = (
        fed(ParityPostprocessor(epsilon=0.03, atoms=31, solver=solver, random_state=0), *rows, sizes)
        for sizes in ([n_rows], [1000, 1, 37], [BLOCK_ROWS - 1, 2])
    )
    for other in others:
        assert_same(whole, other)


def test_any_chunking_gives_the_same_bits_with_forgetting_and_a_growing_range():
    scores, proba = population(6 * BLOCK_ROWS)
    scores = scores * np.linspace(1.0, 4.0, len(scores))
    whole, parts = (
        fed(ParityPostprocessor(parity="pmf", epsilon=0.01, atoms=15), scores, proba, sizes, half_life=5000)
        for sizes in ([len(scores)], [999, 64])
    )
    assert_same(whole, parts)
    assert len(whole.atoms_) > 15


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n_first", [10, 100, 3 * BLOCK_ROWS + 5])
def test_a_saved_stream_goes_on_as_if_it_had_not_been_saved(n_first, solver, tmp_path):
    scores, proba = population(5 * BLOCK_ROWS)
    model = ParityPostprocessor(epsilon=0.03, atoms=21, solver=solver, random_state=0)
    model.partial_fit(scores[:n_first], proba[:n_first])
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    for one in (model, again):
        one.partial_fit(scores[n_first:], proba[n_first:])
    for name, one in (("one", model), ("two", again)):
        save(one, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_last_bits_of_scores_that_come_and_go_with_the_batch_change_nothing():
    scores, proba = population(3 * BLOCK_ROWS)
    start = ParityPostprocessor(atoms=21).fit(scores[:500], proba[:500])
    wobble = np.random.default_rng(0).integers(-2, 3, size=len(scores)) * 2.0**-52
    one, other = pickle.loads(pickle.dumps(start)), pickle.loads(pickle.dumps(start))
    one.partial_fit(scores, proba)
    other.partial_fit(scores * (1.0 + wobble), proba)
    assert one.tilt_.tobytes() == other.tilt_.tobytes()


def test_the_number_of_threads_changes_nothing():
    rows, n_threads = population(4 * BLOCK_ROWS), get_num_threads()
    models = []
    for n in (1, 3):
        set_num_threads(n)
        try:
            models.append(ParityPostprocessor(atoms=101).partial_fit(*rows))
        finally:
            set_num_threads(n_threads)
    assert_same(*models)


def test_the_state_does_not_grow_with_the_rows():
    sizes = []
    model = ParityPostprocessor(atoms=31)
    for seed in range(12):
        model.partial_fit(*population(2 * BLOCK_ROWS, seed))
        sizes.append(len(pickle.dumps(model)))
    assert max(sizes[1:]) <= sizes[0] + 2000


# how good the model is


@pytest.mark.parametrize(("parity", "epsilon"), [("cdf", 0.03), ("pmf", 0.006), ("mean", 0.02)])
def test_a_stream_is_as_good_on_new_rows_as_a_fit_on_stored_ones(parity, epsilon):
    rows, fresh = population(30 * BLOCK_ROWS), fresh_rows()
    stream = fed(ParityPostprocessor(parity=parity, epsilon=epsilon), *rows, [5000])
    stored = ParityPostprocessor(parity=parity, epsilon=epsilon, atoms=101, beta=stream.beta_).fit(*rows)
    assert violation_on(stream, *fresh) <= 1.5 * epsilon
    assert risk_on(stream, *fresh) <= 1.05 * risk_on(stored, *fresh)


def test_the_papers_solver_by_name_comes_to_parity_too():
    model = fed(ParityPostprocessor(epsilon=0.03, solver="sgd3", random_state=0), *population(60_000), [9000])
    assert violation_on(model, *fresh_rows()) <= 1.5 * 0.03
    assert model.result_.solver == "stream of sgd3"


def test_parity_without_tolerance_comes_closer_as_rows_come():
    model, reached = ParityPostprocessor(epsilon=0.0, beta=300.0), []
    for n_blocks in (1, 5, 30):
        model.partial_fit(*population(n_blocks * BLOCK_ROWS, seed=n_blocks))
        reached.append(violation_on(model, *fresh_rows()))
    assert reached[2] < 0.7 * reached[1] < 0.5 * reached[0]
    assert np.isfinite(model.multipliers_).all()


def test_the_certificate_says_what_new_rows_show():
    model = fed(ParityPostprocessor(epsilon=0.03), *population(20 * BLOCK_ROWS), [7777])
    fresh = fresh_rows()
    certificate = model.certificate_
    assert certificate.violation.max() == pytest.approx(violation_on(model, *fresh), abs=0.006)
    assert certificate.risk == pytest.approx(risk_on(model, *fresh), rel=0.03)
    assert certificate.lower_bound <= certificate.risk
    assert model.result_.n_gradient_rows == 20 * BLOCK_ROWS


def test_before_the_first_block_the_last_mark_is_what_a_fit_on_its_rows_gives():
    scores, proba = population(3 * FIRST_MARK)
    model = ParityPostprocessor(atoms=21, beta=50.0).partial_fit(scores, proba)
    first = slice(2 * FIRST_MARK)
    fit = ParityPostprocessor(atoms=21, beta=50.0, tol=1e-3).fit(scores[first], round_proba(proba[first]))
    np.testing.assert_allclose(model.predict_pmf(scores, proba), fit.predict_pmf(scores, proba), atol=0.02)


def test_before_the_first_mark_scores_stay_where_they_are():
    scores, proba = population(20)
    model = ParityPostprocessor(bounds=(-1.0, 1.0), beta=1e5).partial_fit(scores, proba)
    assert np.abs(model.predict_mean(scores, proba) - scores).max() <= 0.011


def test_a_group_that_nobody_is_in_at_first_waits_for_its_rows():
    scores, proba = population(8 * BLOCK_ROWS, n_groups=2)
    proba[: 3 * BLOCK_ROWS] = [1.0, 0.0]
    model = ParityPostprocessor(epsilon=0.02, atoms=31).partial_fit(
        scores[: 3 * BLOCK_ROWS], proba[: 3 * BLOCK_ROWS]
    )
    assert not model.multipliers_.any()
    model.partial_fit(scores[3 * BLOCK_ROWS :], proba[3 * BLOCK_ROWS :], on_drift=lambda drift: None)
    assert model.multipliers_.any()
    assert np.isfinite(model.certificate_.violation).all()


# after a fit


def test_the_rows_of_a_fit_count_as_the_first_of_the_stream():
    scores, proba = population(10 * BLOCK_ROWS)
    n_fit = 6 * BLOCK_ROWS
    model = ParityPostprocessor(epsilon=0.03, atoms=41).fit(scores[:n_fit], proba[:n_fit])
    model.partial_fit(scores[n_fit:], proba[n_fit:])
    np.testing.assert_allclose(model.stream_.record.moments.prior, proba.mean(axis=0), atol=1e-7)
    assert model.stream_.record.weight == len(scores)
    assert model.result_.n_gradient_rows == len(scores)
    assert violation_on(model, *fresh_rows()) <= 1.5 * 0.03


def test_a_stream_that_starts_from_a_fit_knows_its_violation():
    scores, proba = population(4000)
    model = ParityPostprocessor(epsilon=0.03, atoms=21).fit(scores, proba)
    parity = make_parity("cdf", model.policy_.grid.normalised())
    block = random_block_moments(model)
    matched = block.matched(model.result_.violation, model.group_prior_, parity.operator)
    np.testing.assert_allclose(matched.violation(parity.operator), model.result_.violation, atol=1e-12)
    np.testing.assert_allclose(matched.groups.sum(axis=1), model.group_prior_, atol=1e-12)


def random_block_moments(model):
    scores, proba = population(BLOCK_ROWS, seed=5)
    return measure(block_problem(model.step_.step, scores, proba), proba, model.multipliers_)


def test_a_new_fit_ends_the_stream():
    rows = population(300)
    model = ParityPostprocessor(atoms=11).partial_fit(*rows)
    assert not hasattr(clone(model), "stream_")
    assert not hasattr(model.fit(*rows), "stream_")


# the surrogate


@pytest.mark.parametrize("parity", ["pmf", "cdf", "mean"])
def test_moments_are_those_of_the_plain_policy(parity):
    problem = random_problem(parity, n_groups=3)
    proba = random_rows(n_groups=3)[1]
    multipliers = random_multipliers(problem)
    policy, exponents = plain_policy(problem, multipliers)
    found = measure(problem, proba, multipliers)
    np.testing.assert_allclose(found.groups, proba.T @ policy / len(proba), atol=1e-12)
    np.testing.assert_allclose(found.squares, (proba**2).T @ policy / len(proba), atol=1e-12)
    np.testing.assert_allclose(found.prior, proba.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(
        found.violation(problem.parity.operator), evaluate(problem, multipliers).violation, atol=1e-12
    )
    np.testing.assert_allclose(found.peak - found.constant, exponents.max(axis=1).mean(), atol=1e-9)
    imbalance = (problem.imbalance() ** 2).T @ policy / len(proba)
    np.testing.assert_allclose(found.squared_imbalance(), imbalance, atol=1e-12)


def test_a_few_rows_with_the_shift_have_the_gradient_of_all_rows():
    scores, proba = random_rows(400, n_groups=3)
    atoms = np.linspace(-1.0, 1.0, 9)
    options = {"atoms": atoms, "parity": "cdf", "slack": np.full(3, 0.02)}
    options |= {"temperature": 20.0, "group_prior": proba.mean(axis=0)}
    whole, some = (make_problem(scores[rows], proba[rows], **options) for rows in (slice(400), slice(50)))
    point = random_multipliers(whole, size=0.1)
    shift = moment_shift(
        measure(some, proba[:50], point), measure(whole, proba, point), options["group_prior"]
    )
    shifted = replace(some, moment_shift=shift)
    np.testing.assert_allclose(
        evaluate(shifted, point).violation, evaluate(whole, point).violation, atol=1e-12
    )
    step = 1e-6 * random_multipliers(whole, size=1.0, seed=3)
    rise = evaluate(shifted, point + step).value - evaluate(shifted, point - step).value
    slope = (evaluate(shifted, point).violation + 0.02 * np.sign(point)) * step
    assert rise == pytest.approx(2 * slope.sum(), rel=1e-4)  # at a kink the two penalties are the same


# the grid


def test_the_grid_extends_with_its_spacing_and_keeps_its_atoms():
    scores, proba = population(4 * BLOCK_ROWS)
    half = 2 * BLOCK_ROWS
    model = ParityPostprocessor(epsilon=0.03, atoms=21).partial_fit(scores[:half], proba[:half])
    before = model.atoms_
    model.partial_fit(1.6 * scores[half:], proba[half:], on_drift=lambda drift: None)
    after = model.atoms_
    start = int(np.flatnonzero(after == before[0])[0])
    assert after[start : start + len(before)].tobytes() == before.tobytes()
    assert after[0] < -1.55
    assert after[-1] > 1.55
    np.testing.assert_allclose(np.diff(after), np.diff(before)[0], rtol=1e-9)
    assert model.n_clipped_ == 0


def test_extending_the_grid_keeps_the_policy_on_the_atoms_that_were_there():
    scores, proba = population(3000)
    for parity, epsilon in (("cdf", 0.03), ("pmf", 0.006), ("mean", 0.02)):
        options = {"epsilon": epsilon, "atoms": 21, "beta": "paper"}  # soft: every atom keeps some mass
        model = ParityPostprocessor(parity=parity, **options).fit(scores, proba)
        old = model.step_.step
        grid = extend(old.grid, Extension(4, 9))
        block = random_block_moments(model)
        wider, carried, stream, _ = _on_wider_grid(old, model.multipliers_, grid, block, block)
        pmf = wider.policy(carried).pmf(scores, proba)[:, 4:25]
        pmf /= pmf.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(pmf, model.predict_pmf(scores, proba), atol=1e-9)
        assert wider.beta / grid.half_width**2 == pytest.approx(old.beta / old.grid.half_width**2)
        assert stream.groups.sum() == pytest.approx(1.0)


def test_a_single_far_score_does_not_stretch_the_grid():
    scores, proba = population(3 * BLOCK_ROWS)
    scores[-1] = 1e9
    model = ParityPostprocessor(atoms=21)
    with pytest.warns(ClippingWarning, match="1 of 6144 scores lie outside"):
        model.partial_fit(scores, proba)
    assert model.bounds_[1] < 1.1
    assert model.n_clipped_ == 1


def test_a_range_that_keeps_growing_stops_at_four_times_the_atoms():
    scores, proba = population(5 * BLOCK_ROWS)
    scores = scores * np.repeat(10.0 ** np.arange(5), BLOCK_ROWS)
    model = ParityPostprocessor(atoms=11, epsilon=0.1)
    with pytest.warns(ClippingWarning):
        model.partial_fit(scores, proba, on_drift=lambda drift: None)
    assert len(model.atoms_) == 44


def test_bounds_of_ones_own_stay():
    scores, proba = population(2 * BLOCK_ROWS)
    model = ParityPostprocessor(atoms=11, bounds=(-0.5, 0.5))
    with pytest.warns(ClippingWarning, match=r"outside bounds=\(-0\.5, 0\.5\)"):
        model.partial_fit(scores, proba)
    assert model.bounds_ == (-0.5, 0.5)
    assert model.n_clipped_ == np.count_nonzero(np.abs(scores) > 0.5)


def test_a_callback_that_cannot_be_called_is_refused_before_a_row_is_taken():
    model = ParityPostprocessor().partial_fit(*population(100, 0))
    with pytest.raises(TypeError, match="on_drift must be a function"):
        model.partial_fit(*population(100, 1), on_drift=3)
    assert model.stream_.n_rows == 100


def test_a_grid_that_may_grow_no_more_says_so():
    model = ParityPostprocessor(atoms=11).partial_fit(*population(BLOCK_ROWS, 0))
    scores, proba = population(BLOCK_ROWS, 1)
    with pytest.warns(ClippingWarning, match="grown as far as it may"):
        model.partial_fit(20.0 * scores, proba, on_drift=lambda drift: None)


def test_a_grid_that_grows_with_every_block_hides_no_shift_of_the_shares():
    alarms = []
    for grows in (False, True):
        model, heard = ParityPostprocessor(atoms=21), []
        for block in range(12):
            scores, proba = population(BLOCK_ROWS, block)
            if block >= 4:
                scores = scores * (1.0 + 0.05 * grows * block)
                proba = np.column_stack(
                    [0.7 * proba[:, :1], proba[:, 1:-1], proba[:, -1:] + 0.3 * proba[:, :1]]
                )
            model.partial_fit(scores, proba, on_drift=heard.append)
        assert (len(model.atoms_) > 30) == grows
        alarms.append(next(alarm.n_rows for alarm in heard if alarm.kind == "prior"))
    assert alarms[0] == alarms[1] > 4 * BLOCK_ROWS
