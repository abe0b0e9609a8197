"""Whole models from raw columns: linear models, trees, boosters and pipelines answer as they do here."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("onnxruntime", reason="make test-onnx has an environment with ONNX Runtime")

from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier

import evenhand as eh
from evenhand.datasets import make_population
from tests.onnx_graphs.graphs import column_inputs

N_FIT, N_ROWS = 800, 100_000
NEAR = 1e-9  # of a probability: far below what is asked for, 1e-6
ANSWERS = ["pmf", "mean", "median", "draw"]


def with_gaps(table, seed):
    """Features of which some are missing."""
    return np.where(np.random.default_rng(seed).random(table.shape) < 0.05, np.nan, table)


def check(graphs, model, X, inputs):
    found = graphs.run(model, inputs, ANSWERS)
    assert np.abs(found["pmf"] - model.predict_pmf(X)).max() < NEAR
    assert np.abs(found["mean"] - model.predict_mean(X)).max() < NEAR
    np.testing.assert_array_equal(found["median"], model.predict_quantile(X))
    np.testing.assert_array_equal(found["draw"], model.predict(X))


def lightgbm_pair():
    library = pytest.importorskip("lightgbm")
    return library.LGBMRegressor(n_estimators=20, verbose=-1), library.LGBMClassifier(
        n_estimators=10, verbose=-1
    )


def xgboost_pair():
    library = pytest.importorskip("xgboost")
    return library.XGBRegressor(n_estimators=20, max_depth=3), library.XGBClassifier(
        n_estimators=10, max_depth=2
    )


PAIRS = {
    "linear": lambda: (LinearRegression(), LogisticRegression()),
    "forest": lambda: (
        RandomForestRegressor(20, min_samples_leaf=5, random_state=0),
        RandomForestClassifier(20, min_samples_leaf=20, random_state=0),
    ),
    "extra trees": lambda: (
        ExtraTreesRegressor(20, min_samples_leaf=5, random_state=0),
        DecisionTreeClassifier(max_depth=4, random_state=0),
    ),
    "boosting": lambda: (
        GradientBoostingRegressor(n_estimators=20, random_state=0),
        GradientBoostingClassifier(n_estimators=10, random_state=0),
    ),
    "histogram boosting": lambda: (
        HistGradientBoostingRegressor(max_iter=10),
        HistGradientBoostingClassifier(max_iter=5),
    ),
    "lightgbm": lightgbm_pair,
    "xgboost": xgboost_pair,
}
TAKE_GAPS = ("forest", "extra trees", "histogram boosting", "lightgbm", "xgboost")
TAKE_ANY_NUMBER = ("histogram boosting", "lightgbm")


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("n_groups", [2, 3])
def test_models_of_scores_and_groups_answer_as_they_do_here(name, n_groups, graphs):
    data, new = (make_population(n, n_groups=n_groups, random_state=n) for n in (N_FIT, N_ROWS))
    X, rows = data.data, new.data
    if name in TAKE_GAPS:
        X, rows = with_gaps(X, 0), with_gaps(rows, 1)
    outcome, groups = PAIRS[name]()
    model = eh.ParityRegressor(outcome, groups, random_state=0, cv=2)
    model.fit(X, data.target, sensitive_features=data.sensitive_features)
    if name in TAKE_ANY_NUMBER:
        rows[:3] = [[1e300] * 4, [-1e300] * 4, [0.0] * 4]
    on_thresholds = np.unique(X[~np.isnan(X).any(axis=1)], axis=0)  # where trees turn
    rows = np.concatenate([rows, on_thresholds, np.nextafter(on_thresholds, np.inf)])
    check(graphs, model, rows, {"X": rows})


def forest_thresholds(model):
    return [(tree.tree_.feature, tree.tree_.threshold) for tree in model.estimators_]


def histogram_thresholds(model):
    trees = (tree.nodes for turn in model._predictors for tree in turn)
    return [(nodes["feature_idx"], nodes["num_threshold"]) for nodes in trees]


def lightgbm_thresholds(model):
    nodes = model.booster_.trees_to_dataframe().dropna(subset="threshold")
    return [(nodes["split_feature"].str.removeprefix("Column_").astype(int), nodes["threshold"])]


def xgboost_thresholds(model):
    nodes = model.get_booster().trees_to_dataframe().dropna(subset="Split")
    return [(nodes["Feature"].str.removeprefix("f").astype(int), nodes["Split"])]


TURNS = {
    "forest": forest_thresholds,
    "histogram boosting": histogram_thresholds,
    "lightgbm": lightgbm_thresholds,
    "xgboost": xgboost_thresholds,
}


@pytest.mark.parametrize("name", TURNS)
def test_rows_on_the_thresholds_of_trees_turn_as_they_do_here(name, graphs):
    data = make_population(N_FIT, n_groups=2, random_state=0)
    model = eh.ParityRegressor(PAIRS[name]()[0], random_state=0, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    found = TURNS[name](model.estimator_)
    features, thresholds = (np.concatenate(parts) for parts in zip(*found, strict=True))
    inner = features >= 0
    features, thresholds = features[inner].astype(int), thresholds[inner].astype(float)
    single = thresholds.astype(np.float32)
    steps = [np.nextafter(thresholds, end) for end in (-np.inf, np.inf)]
    steps += [np.nextafter(single, np.float32(end)).astype(float) for end in (-np.inf, np.inf)]
    values = np.concatenate([thresholds, single, *steps])
    rows = np.random.default_rng(0).normal(size=(len(values), 4))
    rows[np.arange(len(rows)), np.tile(features, 6)] = values
    check(graphs, model, rows, {"X": rows})


def people(n_rows, seed):
    """A table with text, rare categories, gaps in text and in numbers, and an outcome that depends on it."""
    data, rng = make_population(n_rows, n_groups=2, random_state=seed), np.random.default_rng(seed)
    frame = pd.DataFrame(with_gaps(data.data, seed), columns=["age", "hours", "tests", "distance"])
    towns = ["Aix", "Bonn", "Çeşme", "東京", f"only in {seed}", None]
    frame.insert(1, "town", rng.choice(np.array(towns, object), n_rows, p=[0.3, 0.3, 0.2, 0.1, 0.003, 0.097]))
    frame["job"] = rng.choice(np.array(["clerk", "cook"], object), n_rows)
    target = data.target + 0.3 * (frame["town"] == "Bonn").to_numpy()
    return frame, target, data.sensitive_features


def own_pipeline(model):
    """Other steps than those of the default: constants for gaps, other scalers, and a column left out."""
    text = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore")
    )
    numbers = make_pipeline(SimpleImputer(strategy="mean", add_indicator=True), RobustScaler())
    parts = [
        ("numbers", numbers, ["age", "tests"]),
        ("text", text, ["town"]),
        ("scaled", MinMaxScaler(), ["hours"]),
    ]
    return make_pipeline(ColumnTransformer(parts), SimpleImputer(), model)


@pytest.mark.parametrize("pipeline", [None, own_pipeline])
def test_tables_with_text_and_gaps_are_taken_as_they_come(pipeline, graphs):
    (frame, target, groups), (rows, _, _) = people(N_FIT, 0), people(N_ROWS, 1)
    outcome = None if pipeline is None else pipeline(Ridge())
    model = eh.ParityRegressor(outcome, random_state=0, cv=2)
    model.fit(frame, target, sensitive_features=groups)
    columns = {"job": "text"}  # which no encoder looks at in the second case
    found = graphs.run(model, column_inputs(rows), ANSWERS, columns=columns)
    assert np.abs(found["pmf"] - model.predict_pmf(rows)).max() < NEAR
    np.testing.assert_array_equal(found["draw"], model.predict(rows))
    ids = np.arange(N_ROWS)
    by_id = graphs.run(model, {**column_inputs(rows), "ids": ids}, "draw", columns=frame, draw_by="integers")
    np.testing.assert_array_equal(by_id["draw"], model.predict(rows, ids=ids))


def test_trees_behind_an_encoder_of_text(graphs):
    (frame, target, groups), (rows, _, _) = people(N_FIT, 0), people(N_ROWS, 1)
    outcome = eh.table_pipeline(HistGradientBoostingRegressor(max_iter=10), frame)
    outcome.steps[0][1].sparse_threshold = 0.0
    model = eh.ParityRegressor(outcome, random_state=0, cv=2)
    model.fit(frame, target, sensitive_features=groups)
    check(graphs, model, rows, column_inputs(rows))


def test_models_that_came_fitted(graphs):
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (N_FIT, N_ROWS))
    labels = np.array(["b", "a"], object)[data.sensitive_features]
    outcome = FrozenEstimator(make_pipeline(StandardScaler(), Ridge()).fit(data.data, data.target))
    groups = FrozenEstimator(LogisticRegression().fit(data.data, labels))
    model = eh.ParityRegressor(outcome, groups, random_state=0)
    model.fit(data.data, data.target, sensitive_features=labels)
    check(graphs, model, new.data, {"X": new.data})


@pytest.mark.filterwarnings("ignore")  # of skl2onnx
def test_what_only_skl2onnx_knows_is_taken_from_it(graphs):
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (N_FIT, 2000))
    model = eh.ParityRegressor(KNeighborsRegressor(9), random_state=0, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    check(graphs, model, new.data, {"X": new.data})
    # its polynomials run in single precision alone, which moves scores by 1e-7 and probabilities by more
    outcome = make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge())
    model = eh.ParityRegressor(outcome, random_state=0, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    found = graphs.run(model, {"X": new.data}, "pmf")["pmf"]
    assert np.abs(found - model.predict_pmf(new.data)).max() < 1e-2


def test_a_whole_model_in_single_precision(graphs):
    data, new = (make_population(n, n_groups=2, random_state=n) for n in (N_FIT, N_ROWS))
    model = eh.ParityRegressor(HistGradientBoostingRegressor(max_iter=10), random_state=0, cv=2)
    model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    rows = new.data.astype(np.float32)
    found = graphs.run(model, {"X": rows}, ["mean"], precision="float32")["mean"]
    wanted = model.predict_mean(rows.astype(np.float64))
    assert np.mean(np.abs(found - wanted) < 1e-3) > 0.999
