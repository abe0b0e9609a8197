"""With many rows `epsilon=0` comes to the chance of who is among them, and to no more."""

import numpy as np
import pytest

from benchmarks import bench_exact
from benchmarks.bench_exact import Leaning, draw_leaning
from evenhand import ParityClassifier
from evenhand.calibration import JointRows, joint, joint_inputs
from evenhand.datasets import make_population
from evenhand.estimators import fit_models
from evenhand.exceptions import ToleranceWarning
from evenhand.generalization.out_of_sample import OutOfSampleEstimator
from tests.regressors import simple

N_ROWS = 100_000


def fresh_distance():
    """Of the second of two groups and everybody, where the model of the group leans with the score."""
    people, fresh = draw_leaning(N_ROWS, seed=1), draw_leaning(400_000, seed=99)
    model = ParityClassifier(Leaning(0), Leaning(1, lean=0.05), epsilon=0.0)
    with pytest.warns(ToleranceWarning):
        model.fit(people.features, people.target, sensitive_features=people.groups)
    chances = model.predict_pmf(fresh.features)[:, 1]
    rates = [np.average(chances, weights=counts) for counts in fresh.group_proba.T]
    return np.abs(np.array(rates) - chances.mean()).max()


def test_what_a_model_gets_a_little_wrong_is_mended_where_there_are_rows_to_tell(monkeypatch):
    # three standard errors of a rate difference by labels, of which half of the rows are in each group
    limit = 3.0 * 0.5 / np.sqrt(N_ROWS)
    assert fresh_distance() < limit
    monkeypatch.setattr(joint, "ENOUGH_ROWS", np.inf)  # maps tested on 20 000 rows, as it was
    monkeypatch.setattr(fit_models, "MOST_MAP_ROWS", 20_000)
    assert fresh_distance() > limit


def calibrated(n_rows):
    """Two models to which a map has nothing to add, what they say, and folds."""
    people = draw_leaning(n_rows, seed=3)
    inputs = joint_inputs(people.features[:, 0], [people.group_proba])
    return inputs, people.groups, people.group_proba, np.array_split(np.arange(n_rows), 5)


def test_a_map_is_tested_unless_it_is_learned_from_thousands_of_rows_for_each_coefficient():
    inputs, groups, said, folds = calibrated(3000)
    rows = JointRows.of(inputs)
    enough = joint.ENOUGH_ROWS * len(rows.design)
    assert rows.cross_fit(groups, said, folds) is None
    assert rows.cross_fit(groups, said, folds, enough - 1) is None
    fit = rows.cross_fit(groups, said, folds, enough)
    assert len(fit.without) == 5
    np.testing.assert_allclose(fit.calibrator(inputs), rows.fit(groups, said)(inputs), atol=1e-9)


def test_a_fit_of_a_sample_is_a_start_for_all_rows_that_ends_where_another_does():
    inputs, groups, said, _ = calibrated(20_000)
    some, weights = np.arange(5000), np.linspace(0.5, 2.0, 20_000)
    sample = JointRows.of(inputs[some], weights[some])
    start = sample.cross_fit(groups[some], said[some], np.array_split(some, 5), n_rows=10**9)
    whole = sample.on(inputs, weights)
    found, cold = whole.fit(groups, said, start)(inputs), whole.fit(groups, said)(inputs)
    np.testing.assert_allclose(found, cold, atol=1e-5)
    # inputs beyond the sample's count as the farthest of it, so that far out the two maps differ
    inside = ((inputs >= sample.low) & (inputs <= sample.high)).all(axis=1)
    own_scale = JointRows.of(inputs, weights).fit(groups, said)(inputs)
    assert inside.mean() > 0.999
    np.testing.assert_allclose(found[inside], own_scale[inside], atol=0.01)


def test_zero_is_tried_once_and_the_warning_blames_nobody_for_chance(monkeypatch):
    data = make_population(2000, n_groups=2, random_state=0)
    tried, evaluate = [], OutOfSampleEstimator.evaluate
    monkeypatch.setattr(
        OutOfSampleEstimator, "evaluate", lambda self, policy: tried.append(policy) or evaluate(self, policy)
    )
    with pytest.warns(ToleranceWarning, match="solved with tolerance 0, the smallest possible") as caught:
        model = simple(epsilon=0.0).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert len(tried) == 1
    assert "the models do not predict the group well enough" not in str(caught[-1].message)
    assert model.tolerance_.tolist() == [0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["class", "regression"])
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ToleranceWarning")
def test_of_300_000_rows_and_boosted_trees_zero_is_at_most_three_thousandths(task):
    people = bench_exact.draw(task, 300_000, 2, seed=1)
    fresh = bench_exact.draw(task, 500_000, 2, seed=10_000)
    model = bench_exact.make_model(task)
    model.fit(people.features, people.target, sensitive_features=people.groups)
    masses = np.zeros((2, len(model.atoms_)))
    for rows in np.array_split(np.arange(500_000), 20):
        masses += fresh.group_proba[rows].T @ model.predict_pmf(fresh.features[rows])
    shares = (masses / masses.sum(axis=1, keepdims=True)).cumsum(axis=1)
    everybody = (masses.sum(axis=0) / masses.sum()).cumsum()
    assert np.abs(shares - everybody).max() <= 0.003
