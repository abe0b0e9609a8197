"""Estimators of every kind as graphs: classes, strata, attributes, known groups, and calibrations."""

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxruntime", reason="make test-onnx has an environment with ONNX Runtime")

from sklearn.linear_model import LogisticRegression, Ridge

import evenhand as eh
from evenhand.calibration import JointCalibrator
from evenhand.datasets import make_population
from tests.notions import ESTIMATORS, fitted, people

N_ROWS = 100_000
NEAR = 1e-9


def check(graphs, model, X, inputs, **known):
    classes = hasattr(model, "classes_")
    found = graphs.run(model, inputs, ["proba", "mode", "draw"] if classes else ["pmf", "mean", "draw"])
    pmf = found["proba" if classes else "pmf"]
    assert np.abs(pmf - model.predict_pmf(X, **known)).max() < NEAR
    np.testing.assert_array_equal(found["draw"], model.predict(X, **known))
    if classes:
        np.testing.assert_array_equal(found["mode"], model.predict_mode(X, **known))
    else:
        assert np.abs(found["mean"] - model.predict_mean(X, **known)).max() < NEAR


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_way_to_compare_groups(name, graphs):
    model = pickle.loads(fitted(name))
    frame = people(N_ROWS, seed=1)[0]
    check(graphs, model, frame, {"X": frame.to_numpy()})


@pytest.fixture(scope="module")
def data():
    return make_population(1500, n_groups=2, random_state=0), make_population(
        N_ROWS, n_groups=2, random_state=1
    )


def test_opportunity_with_a_floor_under_the_rate(data, graphs):
    known, new = data
    model = eh.ParityClassifier(criterion="equal_opportunity", min_rate="before", cv=2, random_state=0)
    model.fit(
        known.data, np.where(known.target > 0, "yes", "no"), sensitive_features=known.sensitive_features
    )
    check(graphs, model, new.data, {"X": new.data})


@pytest.mark.filterwarnings("ignore::evenhand.exceptions.IndependenceWarning")
@pytest.mark.parametrize("joint", ["classifier", "product"])
def test_aware_decisions_within_classes(joint, data, graphs):
    known, new = data
    model = eh.ParityClassifier(criterion="equalized_odds", aware=True, joint=joint, cv=2, random_state=0)
    model.fit(known.data, known.target > 0, sensitive_features=known.sensitive_features)
    groups = new.sensitive_features
    check(graphs, model, new.data, {"X": new.data, "sensitive_features": groups}, sensitive_features=groups)


def test_aware_models_take_labels_of_one_column_or_of_several(data, graphs):
    known, new = data
    rng = np.random.default_rng(0)
    labels = np.array(["f", "m"], object)

    def columns(rows):
        other = rng.integers(0, 2, len(rows.target))
        return pd.DataFrame({"sex": labels[rows.sensitive_features], "branch": other})

    model = eh.ParityRegressor(aware=True, cv=2, random_state=0)
    model.fit(known.data, known.target, sensitive_features=columns(known)["sex"])
    groups = columns(new)["sex"]
    given = {"X": new.data, "sensitive_features": groups.to_numpy(object)}
    check(graphs, model, new.data, given, sensitive_features=groups)
    for attributes in ("separate", "combined"):
        model.set_params(attributes=attributes).fit(
            known.data, known.target, sensitive_features=columns(known)
        )
        both = columns(new)
        given = {"X": new.data} | {f"sensitive_features.{name}": both[name].to_numpy() for name in both}
        given["sensitive_features.sex"] = both["sex"].to_numpy(object)
        check(graphs, model, new.data, given, sensitive_features=both)


def test_a_group_that_the_fit_has_not_seen_is_refused(data, graphs):
    known, new = data
    model = eh.ParityRegressor(aware=True, cv=2).fit(
        known.data, known.target, sensitive_features=known.sensitive_features
    )
    strangers = np.full(N_ROWS, 7)
    with pytest.raises(Exception, match="out of data bounds"):
        graphs.run(model, {"X": new.data, "sensitive_features": strangers}, "pmf")


def test_factors_of_text_and_numbers_together(graphs):
    rows = [make_population(n, n_groups=2, random_state=n) for n in (1500, N_ROWS)]
    frames = []
    for data in rows:
        rng = np.random.default_rng(len(data.target))
        frame = pd.DataFrame(data.data, columns=list("abcd"))
        frame["branch"] = rng.choice(np.array(["north", "south"], object), len(frame))
        frame["level"] = rng.integers(0, 2, len(frame)).astype(float)
        frames.append(frame)
    model = eh.ParityRegressor(
        conditional_on=["branch", "level"], epsilon=0.1, atoms=21, cv=2, random_state=0
    )
    model.fit(frames[0], rows[0].target, sensitive_features=rows[0].sensitive_features)
    inputs = {name: frames[1][name].to_numpy(float)[:, None] for name in "abcd"}
    inputs["level"] = frames[1]["level"].to_numpy()[:, None]
    inputs["branch"] = frames[1]["branch"].to_numpy(object)[:, None]
    check(graphs, model, frames[1], inputs)


def test_joint_maps_are_part_of_the_graph(graphs):
    known, new = (make_population(n, n_groups=3, random_state=n) for n in (2000, N_ROWS))
    shy = Ridge(alpha=1e4), LogisticRegression(C=1e-4)  # so that there is something to mend
    model = eh.ParityRegressor(*shy, calibration="joint", atoms=31, cv=2, random_state=0)
    model.fit(known.data, known.target, sensitive_features=known.sensitive_features)
    assert isinstance(model.calibrator_, JointCalibrator)
    assert isinstance(model.outcome_calibrator_, JointCalibrator)
    check(graphs, model, new.data, {"X": new.data})


def test_class_probabilities_are_mended_as_here(graphs):
    known, new = (make_population(n, n_groups=2, random_state=n) for n in (2000, N_ROWS))
    bands, shy = np.digitize(known.target, [-0.2, 0.2]), LogisticRegression(C=1e-4)
    model = eh.ParityClassifier(shy, calibration="joint", cv=2, random_state=0)
    model.fit(known.data, bands, sensitive_features=known.sensitive_features)
    assert model.outcome_calibrator_ is not None
    check(graphs, model, new.data, {"X": new.data})


def test_groups_that_were_merged_and_classes_that_are_numbers(data, graphs):
    known, new = data
    labels = np.array(["a", "b"], object)[known.sensitive_features]
    labels[:4], labels[4:8] = "c", "d"
    model = eh.ParityClassifier(aware=True, small_groups="merge", min_group_size=5, cv=2, random_state=0)
    model.fit(known.data, (known.target > 0) * 2.0, sensitive_features=labels)
    groups = np.array(["a", "b", "c", "e"], object)[np.random.default_rng(0).integers(0, 4, N_ROWS)]
    given = {"X": new.data, "sensitive_features": groups}
    check(graphs, model, new.data, given, sensitive_features=groups)
