"""Estimators whose models are both mended given what both say."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

import evenhand as eh
from evenhand import ParityClassifier, ParityRegressor
from evenhand._utils.stored import find_fault
from evenhand.calibration import JointCalibrator
from tests.calibrated import both_wrong

EPSILON = 0.02


def only(column, model):
    """A model that sees one column."""
    return make_pipeline(make_column_transformer(("passthrough", [column])), model)


def people(n_rows, seed):
    u, v, _, _, y, group = both_wrong(n_rows, seed)
    return np.column_stack([u, v]), y.astype(int), group.astype(int)


FIT, FRESH = people(20_000, 10), people(200_000, 11)


def classifier(**options):
    settings = {"epsilon": EPSILON, "cv": 2, "random_state": 0, **options}
    return ParityClassifier(only(0, LogisticRegression()), only(1, LogisticRegression()), **settings)


def fit(model, data=FIT, **options):
    X, y, group = data
    return model.fit(X, y, sensitive_features=group, **options)


def alone(model, method):
    """The model with a model of the group that scikit-learn calibrates by itself; None: as it is."""
    if method is None:
        return model
    wrapped = CalibratedClassifierCV(model.sensitive_estimator, method=method, cv=3)
    return model.set_params(sensitive_estimator=wrapped)


def gap(model, data=FRESH):
    return max(eh.metrics.decision_gaps(model.predict_proba(data[0]), data[2]).values())


@pytest.fixture(scope="module")
def joint():
    return fit(classifier(calibration="joint"))


def test_parity_holds_on_fresh_rows_where_models_are_calibrated_one_by_one_only(joint):
    assert gap(joint) < EPSILON + 0.01
    diagnosis = joint.certificate_.calibration
    assert (diagnosis.parity_cost < 1.5 * diagnosis.parity_cost_limit).all()
    for method in (None, "sigmoid", "isotonic"):
        other = fit(alone(classifier(calibration=None), method))
        assert gap(other) > EPSILON + 0.05
        assert (other.certificate_.calibration.parity_cost > 4 * diagnosis.parity_cost_limit).all()
        assert other.outcome_calibrator_ is None


def test_both_maps_are_kept_and_predict_row_by_row(joint):
    assert type(joint.calibrator_) is type(joint.outcome_calibrator_) is JointCalibrator
    few = FRESH[0][:50]
    whole = joint.predict_proba(few)
    parts = np.concatenate([joint.predict_proba(few[start : start + 7]) for start in range(0, 50, 7)])
    np.testing.assert_allclose(parts, whole, atol=1e-9)  # scikit-learn's models sum by batch
    assert np.array_equal(joint.predict(few)[10:20], joint.predict(few[10:20]))


def test_the_scores_of_the_mended_outcome_are_nearer_to_the_truth(joint):
    scores, tau = joint.predict_scores(FRESH[0])
    u, v = FRESH[0].T
    assert np.abs(scores[:, 1] - expit(u + v)).mean() < 0.02
    assert np.abs(tau[:, 1] - expit(1.5 * v + u)).mean() < 0.02
    raw = joint.estimator_.predict_proba(FRESH[0])[:, 1]
    assert np.abs(raw - expit(u + v)).mean() > 0.1


def test_unlabelled_rows_are_scored_through_the_maps():
    pile, _, group = people(30_000, 12)
    model = fit(classifier(calibration="joint"), X_unlabeled=pile, sensitive_features_unlabeled=group)
    assert model.outcome_calibrator_ is not None
    assert model.certificate_.calibration.n_rows == 30_000
    assert gap(model) < EPSILON + 0.01


def test_a_regressor_s_predictions_are_alike_in_fresh_groups_only_with_the_maps():
    def numbers(n_rows, seed):
        X, _, group = people(n_rows, seed)
        return X, X.sum(axis=1) + np.random.default_rng(seed + 100).normal(size=n_rows), group

    data, fresh = numbers(15_000, 13), numbers(100_000, 14)
    found = {}
    for method in (None, "sigmoid", "joint"):
        model = ParityRegressor(
            only(0, LinearRegression()),
            only(1, LogisticRegression()),
            epsilon=EPSILON,
            calibration="joint" if method == "joint" else None,
            cv=2,
        )
        fit(model if method == "joint" else alone(model, method), data)
        found[method] = max(eh.metrics.ks_unfairness(model.predict_pmf(fresh[0]), fresh[2]).values())
    assert found["joint"] < EPSILON + 0.01
    assert min(found[None], found["sigmoid"]) > EPSILON + 0.05
    assert model.outcome_calibrator_.link == "shift"
    assert np.abs(model.predict_scores(fresh[0])[0] - fresh[0].sum(axis=1)).mean() < 0.1
    median = fit(model.set_params(cost="absolute", atoms=21), tuple(part[:2000] for part in data))
    assert median.outcome_calibrator_ is None  # which would foretell means
    assert median.calibrator_ is not None


def test_an_aware_model_is_mended_given_the_group_itself():
    model = fit(classifier(calibration="joint", aware=True))
    X, y, group = FRESH
    assert model.calibrator_ is None
    scores = model.predict_scores(X, sensitive_features=group)[0][:, 1]
    share, said = (np.abs(np.bincount(group, values - y) / np.bincount(group)).max() for values in (
        scores, model.estimator_.predict_proba(X)[:, 1]
    ))  # fmt: skip
    assert share < 0.01 < 0.05 < said


SETTINGS = {
    "odds": {"criterion": "equalized_odds"},
    "odds, aware": {"criterion": "equalized_odds", "aware": True},
    "opportunity": {"criterion": "equal_opportunity"},
    "separate": {"attributes": "separate"},
    "conditional": {"conditional_on": 2},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_notion_goes_with_the_maps_and_through_a_model_file(name, tmp_path):
    pytest.importorskip("skops")
    X, y, group = people(4_000, 15)
    X = np.column_stack([X, np.arange(len(X)) % 2])
    groups = np.column_stack([group, X[:, 1] > 1]) if name == "separate" else group
    model = classifier(calibration="joint", **SETTINGS[name]).fit(X, y, sensitive_features=groups)
    calibrators = model.calibrator_ if name == "separate" else [model.calibrator_]
    assert any(isinstance(each, JointCalibrator) for each in calibrators)
    assert np.all(model.certificate_.violation <= EPSILON + 1e-4)
    known = {"sensitive_features": groups} if model.aware else {}
    eh.save(model, tmp_path / "model")
    again = eh.load(tmp_path / "model")
    assert again.predict_proba(X, **known).tobytes() == model.predict_proba(X, **known).tobytes()


def test_a_model_whose_map_of_the_outcome_is_none_is_refused():
    model = fit(classifier(), people(500, 16))
    assert find_fault(model) is None
    scorer = model.scorer_
    for outcome in (None, "a map"):
        assert "it has no model of the outcome" in find_fault(replace(scorer, outcome=outcome))
    assert "its calibrator is not a JointCalibrator" in find_fault(
        replace(scorer.outcome, calibrator="a map")
    )
    del model.scorer_
    assert "it has no scorer_" in find_fault(model)


def test_a_stream_goes_on_through_the_maps(joint):
    model = pickle.loads(pickle.dumps(joint))
    pile = people(6_000, 17)[0]
    for start in range(0, len(pile), 1_500):
        model.partial_fit(pile[start : start + 1_500])
    assert gap(model) < EPSILON + 0.015
    assert model.outcome_calibrator_ is not None
    assert model.certificate_.calibration is not None


def test_a_frontier_has_the_maps_in_every_model():
    data = people(5_000, 18)
    path = eh.frontier(
        classifier(calibration="joint"), *data[:2], sensitive_features=data[2], epsilons=[0.01, 0.1]
    )
    for model, epsilon in zip(path.models, (0.01, 0.1), strict=True):
        assert model.outcome_calibrator_ is not None
        assert gap(model) < epsilon + 0.03  # 5000 rows


def test_a_table_in_blocks_is_predicted_as_a_whole():
    frame = pd.DataFrame(FRESH[0][:3_000], columns=["u", "v"])
    model = classifier(calibration="joint").fit(
        pd.DataFrame(FIT[0], columns=["u", "v"]), FIT[1], sensitive_features=FIT[2]
    )
    blocks = [frame[start : start + 500] for start in range(0, 3_000, 500)]
    found = np.concatenate(list(eh.tables.iter_predictions(model, blocks)))
    assert np.array_equal(found, model.predict(frame))


def test_weights_reach_the_maps():
    X, y, group = people(6_000, 19)
    odd = (np.arange(len(X)) % 3 == 0).astype(float)
    weighted = classifier(calibration="joint").fit(X, y, sensitive_features=group, sample_weight=odd)
    rows = odd > 0
    alone = classifier(calibration="joint").fit(X[rows], y[rows], sensitive_features=group[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), alone.predict_proba(X), atol=1e-6)


def test_a_report_advises_the_maps_where_they_would_help_and_names_them_where_they_are(joint, tmp_path):
    X, y, group = (part[:20_000] for part in FRESH)
    cards = {}
    plain, tried = (fit(classifier().set_params(calibration=name)) for name in (None, "auto"))
    for model in (joint, plain, tried):
        path = eh.model_card(model, X, y, sensitive_features=group, path=tmp_path / "card.json")
        cards[model.calibration] = path.read_text()
    advice = json.dumps('calibration="joint"')[1:-1]
    assert advice in cards[None]
    assert advice not in cards["joint"]
    assert advice not in cards["auto"]  # which has tried the maps, whether it kept them or not
    assert "'joint'" in cards["joint"]


def test_a_model_that_knows_its_rows_by_heart_raises_no_alarm_about_the_group():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8_000, 3))
    group = (rng.random(8_000) < expit(X[:, 0])).astype(int)  # a logistic model is exact
    y = (rng.random(8_000) < expit(X[:, 1] + 2 * group - 1)).astype(int)
    forest = RandomForestClassifier(20, random_state=0)
    model = ParityClassifier(forest, LogisticRegression(), cv=2)
    model.fit(X[:4_000], y[:4_000], sensitive_features=group[:4_000], X_unlabeled=X[4_000:])
    found = model.certificate_.calibration
    assert found.uses_scores
    assert (found.parity_cost < 1.2 * found.parity_cost_limit).all()


@pytest.mark.parametrize("cls", [ParityClassifier, ParityRegressor])
def test_an_unknown_calibration_is_refused_before_any_work(cls):
    with pytest.raises(ValueError, match="calibration must be 'auto', 'joint' or None: got 'magic'"):
        cls(calibration="magic", aware=True).fit(*FIT[:2], sensitive_features=FIT[2])
