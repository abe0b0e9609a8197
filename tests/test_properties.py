"""What must hold of every fit, on rows that hypothesis chooses.

Solutions are compared at a low beta and a tight tolerance, where the policy is unique.
"""

from itertools import pairwise
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from evenhand import ParityPostprocessor, load, save
from evenhand.dual.costs import CostMatrix
from evenhand.estimators.streaming.state import BLOCK_ROWS
from evenhand.solvers.batch import binding_groups
from tests.problems import NOTIONS

QUICK = settings(max_examples=30)
TOL = 1e-9  # of the solver
CLOSE = 2e-5  # of two policies that solvers reach by different ways
BETA = 15.0

seeds = st.integers(0, 10**6)
notions = st.sampled_from(NOTIONS)


def draw_rows(seed, n_rows=40, n_groups=3):
    """Scores that lean on the group, and probabilities of it that are not all sure."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, n_groups, n_rows)
    groups[:n_groups] = np.arange(n_groups)
    scores = rng.normal(groups / n_groups, 0.4)
    proba = 0.7 * np.eye(n_groups)[groups] + 0.3 * rng.dirichlet(np.ones(n_groups), n_rows)
    return scores, proba / proba.sum(axis=1, keepdims=True)


def fit(scores, proba, *, weights=None, **changes):
    chosen = {
        "parity": "cdf",
        "epsilon": 0.03,
        "atoms": 6,
        "beta": BETA,
        "tol": TOL,
        "max_iter": 2000,
    } | changes
    return ParityPostprocessor(**chosen).fit(scores, proba, sample_weight=weights)


@QUICK
@given(seeds, notions)
def test_the_order_of_rows_does_not_matter(seed, parity):
    scores, proba = draw_rows(seed)
    order = np.random.default_rng(seed).permutation(len(scores))
    one, other = fit(scores, proba, parity=parity), fit(scores[order], proba[order], parity=parity)
    assert_allclose(one.predict_pmf(scores, proba), other.predict_pmf(scores, proba), atol=CLOSE)
    assert one.certificate_.risk == pytest.approx(other.certificate_.risk, abs=CLOSE)


@QUICK
@given(seeds, notions)
def test_the_order_of_groups_does_not_matter(seed, parity):
    scores, proba = draw_rows(seed)
    order, epsilon = np.random.default_rng(seed).permutation(3), np.array([0.01, 0.03, 0.06])
    one = fit(scores, proba, parity=parity, epsilon=epsilon)
    other = fit(scores, proba[:, order], parity=parity, epsilon=epsilon[order])
    assert_allclose(one.certificate_.violation[order], other.certificate_.violation, atol=CLOSE)
    assert_allclose(one.predict_pmf(scores, proba), other.predict_pmf(scores, proba[:, order]), atol=CLOSE)


@QUICK
@given(seeds, st.sampled_from(["pmf", "tv"]))
def test_the_order_of_atoms_does_not_matter_where_the_notion_has_none(seed, parity):
    _, proba = draw_rows(seed)
    rng = np.random.default_rng(seed)
    classes, costs, order = rng.dirichlet(np.ones(4), len(proba)), rng.random((4, 4)), rng.permutation(4)
    one = fit(classes, proba, parity=parity, atoms="auto", cost=CostMatrix(costs))
    other = fit(classes, proba, parity=parity, atoms="auto", cost=CostMatrix(costs[:, order].copy()))
    assert_allclose(one.predict_pmf(classes, proba)[:, order], other.predict_pmf(classes, proba), atol=CLOSE)


@QUICK
@given(seeds, notions, st.integers(-20, 20), st.floats(-50.0, 50.0))
def test_shift_and_scale_of_the_scores_shift_and_scale_the_predictions(seed, parity, power, shift):
    scores, proba = draw_rows(seed)
    scale = 2.0**power
    in_units = parity in ("mean", "w1")
    one = fit(scores, proba, parity=parity)
    moved = scale * (scores + shift)
    other = fit(moved, proba, parity=parity, epsilon=0.03 * scale if in_units else 0.03)
    assert_allclose(scale * (one.atoms_ + shift), other.atoms_, rtol=1e-9, atol=1e-9 * scale)
    assert_allclose(one.predict_pmf(scores, proba), other.predict_pmf(moved, proba), atol=1e-4)
    assert scale**2 * one.certificate_.risk == pytest.approx(other.certificate_.risk, rel=1e-3)


@QUICK
@given(seeds, notions)
def test_a_weight_is_as_many_rows(seed, parity):
    scores, proba = draw_rows(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(scores))
    fixed = {"parity": parity, "bounds": (-2.0, 3.0)}
    one = fit(scores, proba, weights=times.astype(float), **fixed)
    other = fit(np.repeat(scores, times), np.repeat(proba, times, axis=0), **fixed)
    assert_allclose(one.predict_pmf(scores, proba), other.predict_pmf(scores, proba), atol=CLOSE)
    assert_allclose(one.certificate_.violation, other.certificate_.violation, atol=CLOSE)


@QUICK
@given(seeds, notions)
def test_a_larger_epsilon_costs_no_more_and_each_is_kept(seed, parity):
    scores, proba = draw_rows(seed)
    epsilons = np.array([0.0, 0.01, 0.05, 0.2])
    found = [fit(scores, proba, parity=parity, epsilon=epsilon).certificate_ for epsilon in epsilons]
    # Smoothed risks are what is minimised: among policies within a larger epsilon the best is no worse.
    smoothed = np.array([each.entropic_risk for each in found])
    assert np.all(np.diff(smoothed) <= CLOSE)
    violations = np.array([each.violation.max() for each in found])
    assert np.all(violations <= epsilons + CLOSE)
    assert np.all(np.diff(violations) >= -CLOSE)


@QUICK
@given(seeds, notions, st.floats(0.2, 0.8))
def test_twins_of_a_group_change_nothing(seed, parity, share):
    scores, proba = draw_rows(seed)
    twins = np.column_stack([proba[:, :2], share * proba[:, 2], (1.0 - share) * proba[:, 2]])
    one, other = fit(scores, proba, parity=parity), fit(scores, twins, parity=parity)
    assert_allclose(one.predict_pmf(scores, proba), other.predict_pmf(scores, twins), atol=CLOSE)
    assert_allclose(other.certificate_.violation[[0, 1, 2, 2]], other.certificate_.violation, atol=CLOSE)


@QUICK
@given(seeds, notions, st.floats(1.2, 3.0))
def test_of_two_groups_the_tighter_tolerance_may_be_on_the_larger_one(seed, parity, looser):
    """`V_2 = -(p_1 / p_2) V_1`: the smaller group binds, though its tolerance is the larger one."""
    scores, proba = draw_rows(seed, 60, 2)
    proba = np.column_stack([1.0 - proba[:, 1] / 5.0, proba[:, 1] / 5.0])
    larger, smaller = proba.mean(axis=0)
    ratio = larger / smaller
    epsilon = np.array([0.01, 0.01 * min(looser, 0.9 * ratio)])
    model = fit(scores, proba, parity=parity, epsilon=epsilon)
    assert np.all(model.certificate_.violation <= epsilon + CLOSE)
    assert_allclose(model.certificate_.violation[1], ratio * model.certificate_.violation[0], atol=CLOSE)
    alone = fit(scores, proba, parity=parity, epsilon=[epsilon[1] / ratio, 10.0 * ratio])
    assert model.certificate_.entropic_risk == pytest.approx(alone.certificate_.entropic_risk, abs=CLOSE)
    assert binding_groups(np.array([[1.0, -ratio]]), epsilon).tolist() == [1]


@QUICK
@given(seeds, notions)
def test_what_was_saved_predicts_the_same_bits(seed, parity):
    scores, proba = draw_rows(seed)
    model = fit(scores, proba, parity=parity)
    with TemporaryDirectory() as folder:
        save(model, f"{folder}/model")
        again = load(f"{folder}/model")
    assert np.array_equal(model.predict_pmf(scores, proba), again.predict_pmf(scores, proba))
    assert np.array_equal(model.predict(scores, proba), again.predict(scores, proba))
    assert str(model.certificate_) == str(again.certificate_)


@QUICK
@given(seeds, st.lists(st.integers(3, 2 * BLOCK_ROWS), min_size=1, max_size=4))
def test_a_stream_comes_to_the_same_in_any_pieces(seed, sizes):
    scores, proba = draw_rows(seed, sum(sizes))
    whole, pieces = ParityPostprocessor(atoms=5, beta=BETA), ParityPostprocessor(atoms=5, beta=BETA)
    bounds = {"bounds": (-2.0, 3.0)}
    whole.set_params(**bounds).partial_fit(scores, proba)
    pieces.set_params(**bounds)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        pieces.partial_fit(scores[end - size : end], proba[end - size : end])
    assert np.array_equal(whole.multipliers_, pieces.multipliers_)


@QUICK
@given(seeds, st.lists(st.integers(1, 39), max_size=3))
def test_predictions_are_the_same_bits_in_any_pieces(seed, cuts):
    scores, proba = draw_rows(seed)
    model = fit(scores, proba)
    ends = [0, *sorted(cuts), len(scores)]
    for predict in (model.predict_pmf, model.predict, model.predict_mean):
        parts = [predict(scores[a:b], proba[a:b]) for a, b in pairwise(ends) if a < b]
        assert np.array_equal(np.concatenate(parts), predict(scores, proba))
