"""Streams with strata, classes, other costs and l1 norms: what holds for plain parity holds for all."""

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError

from evenhand import ParityClassifier, ParityPostprocessor, ParityRegressor, load, save
from evenhand.datasets import make_population
from evenhand.dual.imbalance import stratum_sums
from evenhand.dual.objective import evaluate
from evenhand.estimators.streaming import BLOCK_ROWS
from evenhand.estimators.streaming.moments import measure, moment_shift
from evenhand.estimators.streaming.update import (
    QUANTUM,
    Extension,
    _on_wider_grid,
    block_problem,
    extend,
    round_proba,
)
from tests.notions import (
    CASES,
    ESTIMATORS,
    STRATA,
    Case,
    every_case,
    excess_on,
    fitted,
    people,
    population,
    risk_on,
)
from tests.problems import plain_policy, random_multipliers

every_solver = pytest.mark.parametrize(
    ("case", "solver"),
    [
        pytest.param(case, solver, id=f"{name}-{solver}")
        for name, case in CASES.items()
        for solver in case.solvers
    ],
)


def fed(model, case, scores, columns, sizes):
    """The model after the rows in chunks of the given sizes, over and over."""
    first, turn, strata = 0, 0, {} if case.strata is None else {"strata": case.strata}
    while first < len(scores):
        last = first + sizes[turn % len(sizes)]
        model.partial_fit(scores[first:last], columns[first:last], **strata)
        first, turn, strata = last, turn + 1, {}
    return model


@every_solver
def test_any_chunking_gives_the_same_bits(case, solver):
    rows = case.rows(3 * BLOCK_ROWS + 11)
    whole, *others = (
        fed(case.model(solver), case, *rows, sizes)
        for sizes in ([len(rows[0])], [1000, 1, 37], [BLOCK_ROWS - 1, 2])
    )
    for other in others:
        assert pickle.dumps(vars(whole)) == pickle.dumps(vars(other))


@every_solver
@pytest.mark.parametrize("n_first", [100, 2 * BLOCK_ROWS + 5])
def test_a_saved_stream_goes_on_as_if_it_had_not_been_saved(case, solver, n_first, tmp_path):
    scores, columns = case.rows(4 * BLOCK_ROWS)
    model = fed(case.model(solver), case, scores[:n_first], columns[:n_first], [n_first])
    save(model, tmp_path / "model")
    for name, one in (("one", model), ("two", load(tmp_path / "model"))):
        one.partial_fit(scores[n_first:], columns[n_first:])
        save(one, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@every_case
def test_a_stream_is_as_good_on_new_rows_as_a_fit_on_stored_ones(case):
    rows, fresh = case.rows(20 * BLOCK_ROWS), case.rows(100_000, seed=99)
    stream = fed(case.model(), case, *rows, [5000])
    stored = case.model().set_params(beta=stream.beta_).fit(*rows, strata=case.strata)
    assert excess_on(stream, *fresh) <= 1.35
    assert risk_on(stream, *fresh) <= 1.05 * risk_on(stored, *fresh)
    certificate = stream.certificate_
    assert certificate.risk == pytest.approx(risk_on(stream, *fresh), rel=0.03)
    assert (certificate.violation / certificate.epsilon).max() == pytest.approx(1.0, abs=0.1)
    assert certificate.lower_bound <= certificate.risk * 1.001  # violations may be over epsilon by as much


@every_case
def test_a_stream_after_a_fit_takes_its_rows_for_the_first_ones(case):
    scores, columns = case.rows(8 * BLOCK_ROWS)
    n_fit = 5 * BLOCK_ROWS
    model = case.model().fit(scores[:n_fit], columns[:n_fit], strata=case.strata)
    model.partial_fit(scores[n_fit:], columns[n_fit:])
    np.testing.assert_allclose(model.stream_.record.moments.prior, columns.mean(axis=0), atol=1e-7)
    assert excess_on(model, *case.rows(100_000, seed=99)) <= 1.6
    assert model.certificate_.excess.max() <= 0.2 * model.epsilon_.max()


# what strata ask of the surrogate


def block_of(case, n_rows=BLOCK_ROWS, seed=5):
    """A fitted model's problem, columns and strata on rows of its stream."""
    model = case.model().fit(*case.rows(3000), strata=case.strata)
    scores, columns = case.rows(n_rows, seed)
    step = model.step_.step
    return model, step, block_problem(step, scores, columns), columns


@every_case
def test_moments_are_those_of_the_plain_policy(case):
    _, step, problem, columns = block_of(case)
    problem = replace(problem, temperature=20.0)  # the kernel drops chances that are next to none
    multipliers = random_multipliers(problem)
    policy, exponents = plain_policy(problem, multipliers)
    found = measure(problem, columns, multipliers, step.strata)
    totals = stratum_sums(columns, step.strata)
    for name, weights in {"groups": columns, "squares": columns**2, "crossed": columns * totals}.items():
        np.testing.assert_allclose(getattr(found, name), weights.T @ policy / len(policy), atol=1e-9)
    np.testing.assert_allclose(found.policy, policy.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.peak - found.constant, exponents.max(axis=1).mean(), atol=1e-9)
    smooth = logsumexp(problem.temperature * exponents, axis=1).mean() / problem.temperature
    np.testing.assert_allclose(found.smooth - found.constant, smooth, atol=1e-9)
    prior = columns.mean(axis=0)
    imbalance = totals / stratum_sums(prior, step.strata) - columns / prior
    operator = problem.parity.operator
    violation = operator.apply(policy.T @ imbalance / len(policy))
    np.testing.assert_allclose(found.violation(operator), violation, atol=1e-9)
    squared = (imbalance**2).T @ policy / len(policy)
    np.testing.assert_allclose(found.squared_imbalance(), squared, atol=1e-9)


@every_case
def test_the_moments_of_two_parts_blend_into_those_of_the_whole(case):
    _, step, whole, columns = block_of(case)
    multipliers, parts = random_multipliers(whole), []
    for rows in (np.arange(300), np.arange(300, whole.n_rows)):
        part = replace(whole.rows.take(rows), weights=np.full(len(rows), 1 / len(rows)))
        parts.append(measure(replace(whole, rows=part), columns[rows], multipliers, step.strata))
    blended = parts[0].blended(parts[1], 1 - 300 / whole.n_rows)
    expected = measure(whole, columns, multipliers, step.strata)
    for field in fields(expected):
        if field.name != "strata":
            found, wanted = getattr(blended, field.name), getattr(expected, field.name)
            np.testing.assert_allclose(found, wanted, atol=1e-9, err_msg=field.name)


@every_case
def test_a_few_rows_with_the_shift_have_the_gradient_of_all_rows(case):
    model, step, whole, columns = block_of(case)
    few = whole.rows.take(np.arange(300))
    some = replace(whole, rows=replace(few, weights=np.full(300, 1 / 300)))
    point = random_multipliers(whole, size=0.05)
    here, there = (
        measure(problem, columns[: problem.n_rows], point, step.strata) for problem in (some, whole)
    )
    shifted = replace(some, moment_shift=moment_shift(here, there, model.group_prior_))
    np.testing.assert_allclose(
        evaluate(shifted, point).violation, evaluate(whole, point).violation, atol=1e-9
    )


@every_case
def test_a_stream_that_starts_from_a_fit_knows_its_violation(case):
    model, step, problem, columns = block_of(case)
    block = measure(problem, columns, model.multipliers_, step.strata)
    operator = problem.parity.operator
    matched = block.matched(model.result_.violation, model.group_prior_, operator)
    np.testing.assert_allclose(matched.violation(operator), model.result_.violation, atol=1e-9)
    np.testing.assert_allclose(matched.groups.sum(axis=1), model.group_prior_, atol=1e-9)


def test_rounding_keeps_what_a_row_has_in_each_stratum():
    for name, strata in STRATA.items():
        codes = None if strata is None else np.unique(strata, return_inverse=True)[1]
        columns = population(2000)[name]
        rounded = round_proba(columns, codes)
        assert (rounded >= 0).all()
        assert (rounded % QUANTUM == 0).all()
        np.testing.assert_allclose(rounded, columns, atol=3 * QUANTUM)
        sums = stratum_sums(columns, codes)
        np.testing.assert_array_equal(stratum_sums(rounded, codes), np.round(sums / QUANTUM) * QUANTUM)


def test_a_stratum_that_nobody_is_in_at_first_waits_for_its_rows():
    case = CASES["given a factor"]
    scores, columns = case.rows(8 * BLOCK_ROWS)
    columns[: 2 * BLOCK_ROWS, :2] += columns[: 2 * BLOCK_ROWS, 2:]
    columns[: 2 * BLOCK_ROWS, 2:] = 0.0
    half = 2 * BLOCK_ROWS
    model = fed(case.model(), case, scores[:half], columns[:half], [half])
    assert not model.multipliers_.any()
    model.partial_fit(scores[half:], columns[half:], on_drift=lambda drift: None)
    assert model.multipliers_.any()
    assert np.isfinite(model.certificate_.violation).all()


# the grid


@pytest.mark.parametrize("cost", ["squared", "absolute", "huber"])
def test_extending_the_grid_keeps_the_policy_and_the_risk_on_the_atoms_that_were_there(cost):
    case = Case({"cost": cost, "epsilon": 0.03})
    model, old, problem, columns = block_of(case)
    scores = case.rows(BLOCK_ROWS, 5)[0]
    grid = extend(old.grid, Extension(4, 9))
    block = measure(problem, columns, model.multipliers_)
    wider, carried, moved, _ = _on_wider_grid(old, model.multipliers_, grid, block, block)
    pmf = wider.policy(carried).pmf(scores, columns)[:, 4:19]
    pmf /= pmf.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pmf, model.predict_pmf(scores, columns), atol=1e-9)
    units = old.cost.unit(old.grid), old.cost.unit(grid)
    for moments, unit, where in ((block, units[0], old.grid), (moved, units[1], grid)):
        terms = old.cost.model(where)
        gain = (moments.costs * terms.loadings.T).sum() + moments.policy @ terms.offset
        assert unit * (moments.constant - gain) == pytest.approx(risk_on(model, scores, columns), rel=1e-6)


def test_a_stream_of_another_cost_follows_the_range_too():
    scores, columns = CASES["absolute"].rows(4 * BLOCK_ROWS)
    half = 2 * BLOCK_ROWS
    model = CASES["absolute"].model().partial_fit(scores[:half], columns[:half])
    model.partial_fit(1.6 * scores[half:], columns[half:], on_drift=lambda drift: None)
    assert model.n_clipped_ == 0
    assert len(model.atoms_) > 15
    assert model.stream_.record.moments.costs.shape == (len(model.atoms_),) * 2


def test_classes_and_atoms_of_ones_own_stay():
    case = CASES["classes"]
    assert case.model().partial_fit(*case.rows(3000)).atoms_.tolist() == [0.0, 1.0, 2.0]
    scores, columns = CASES["tv"].rows(2 * BLOCK_ROWS)
    own = ParityPostprocessor(atoms=[-1.0, 0.0, 0.5]).partial_fit(scores, columns)
    own.partial_fit(5 * scores, columns, on_drift=lambda drift: None)
    assert own.atoms_.tolist() == [-1.0, 0.0, 0.5]


# what cannot be


def test_a_stream_keeps_its_strata_and_its_cost():
    case = CASES["given a factor"]
    scores, columns = case.rows(100)
    model = fed(case.model(), case, scores, columns, [100])
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match="strata differ from those"):
        model.partial_fit(scores, columns, strata=["a", "a", "b", "b"])
    with pytest.raises(ValueError, match="at most one within a stratum"):
        model.partial_fit(scores, columns + 0.5)
    assert pickle.dumps(vars(model)) == before
    with pytest.raises(ValueError, match="cost differs from the cost"):
        model.set_params(cost="absolute").partial_fit(scores, columns)


# estimators


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_goes_on_in_any_chunks(name):
    stream = people(4 * BLOCK_ROWS + 100, seed=1)[0]
    whole, parts = pickle.loads(fitted(name)), pickle.loads(fitted(name))
    whole.partial_fit(stream)
    for first in range(0, len(stream), 999):
        parts.partial_fit(stream[first : first + 999])
    assert whole.tilt_.tobytes() == parts.tilt_.tobytes()
    assert whole.stream_.record.weight == 4 * BLOCK_ROWS + 3000
    fresh = people(50_000, seed=2)[0]
    scores, columns = whole.predict_scores(fresh)
    assert excess_on(whole.postprocessor_, scores, columns) <= 1.35
    labels = set(getattr(whole, "classes_", whole.atoms_))
    assert set(whole.predict(fresh[:500])) <= labels


def test_a_factor_that_the_fit_has_not_seen_leaves_the_model_as_it_was():
    model, frame = pickle.loads(fitted("conditional")), people(200, seed=3)[0]
    before = pickle.dumps(vars(model))
    with pytest.raises(ValueError, match="conditional_on"):
        model.partial_fit(frame.assign(branch=2.0))
    assert pickle.dumps(vars(model)) == before


def test_a_classifier_takes_the_classes_of_its_fit_and_no_others():
    rows = make_population(2000, n_groups=2, random_state=0)
    labels = np.where(rows.target > 0.2, "yes", "no")
    model = ParityClassifier().fit(rows.data, labels, sensitive_features=rows.sensitive_features)
    plain = pickle.loads(pickle.dumps(model)).partial_fit(rows.data)
    model.partial_fit(rows.data, labels, classes=np.array(["yes", "no"]))
    assert model.predict_proba(rows.data).tobytes() == plain.predict_proba(rows.data).tobytes()
    with pytest.raises(ValueError, match="A new class needs a new fit"):
        model.partial_fit(rows.data, labels, classes=["no", "perhaps", "yes"])
    assert model.stream_.n_rows == 2000
    with pytest.raises(NotFittedError):
        ParityClassifier().partial_fit(rows.data, labels, classes=["no", "yes"])


def test_the_table_of_partial_fit_is_no_metadata():
    for model in (ParityClassifier(), ParityRegressor()):
        asked = model.get_metadata_routing().partial_fit.requests
        assert "X_unlabeled" not in asked
        assert asked["sensitive_features"] is False
