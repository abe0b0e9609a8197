"""What is wrong with parameters and rows is said before any model is fitted."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

import evenhand as eh
from evenhand.exceptions import GroupInFeaturesWarning, InactiveConstraintWarning, NumbersAsGroupsWarning

DATA = eh.datasets.make_population(400, n_groups=2, random_state=0)
X, Y, GROUPS = DATA.data, DATA.target, np.array(["A", "B"])[DATA.sensitive_features]


OF_OTHERS = FrozenEstimator(LogisticRegression().fit(X, Y > 0))


class NeverRegressor(RegressorMixin, BaseEstimator):
    """A model that takes an hour to fit."""

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("a model was fitted before all was checked")


class NeverClassifier(ClassifierMixin, BaseEstimator):
    """The same for groups and classes."""

    def fit(self, X, y, sample_weight=None):
        raise AssertionError("a model was fitted before all was checked")

    def predict_proba(self, X):
        raise AssertionError("a model that was never fitted was asked")


def wrong_cost(scores, atoms):
    return np.zeros(3)


def slow(**settings):
    return eh.ParityRegressor(
        **{"estimator": NeverRegressor(), "sensitive_estimator": NeverClassifier(), **settings}
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"parity": "kss"}, "Unknown parity 'kss'"),
        ({"parity": "cdf:3"}, "takes no numbers"),
        ({"parity": 3}, "parity must be a name"),
        ({"epsilon": -0.1}, "epsilon must be finite and not negative"),
        ({"epsilon": "small"}, "epsilon"),
        ({"epsilon": {"A": 0.1}}, "epsilon"),
        ({"epsilon": {"A": 0.1, "C": 0.1}}, "epsilon"),
        ({"epsilon": [0.1, 0.1, 0.1]}, "epsilon"),
        ({"atoms": "many"}, "atoms must be"),
        ({"atoms": 1}, "atoms must be at least 2"),
        ({"atoms": [1.0, 0.0]}, "atoms"),
        ({"bounds": (1.0, 0.0)}, "bounds"),
        ({"bounds": "wide"}, "bounds"),
        ({"beta": 0.0}, "beta must be"),
        ({"beta": "hot"}, "beta must be"),
        ({"cost": "cubic"}, "Unknown cost 'cubic'"),
        ({"cost": wrong_cost}, "cost"),
        ({"solver": "simplex"}, "Unknown solver 'simplex'"),
        ({"tol": 0.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"cv": 1}, "cv must be at least 2"),
        ({"calibration": "platt"}, "calibration must be 'auto', 'joint' or None: got 'platt'"),
        ({"calibration": "temperature"}, r"CalibratedClassifierCV\(model, method='temperature'\)"),
        ({"calibration": "sigmoid"}, r"CalibratedClassifierCV\(model, method='sigmoid'\)"),
        ({"calibration": "isotonic"}, r"CalibratedClassifierCV\(model, method='isotonic'\)"),
        ({"confidence": 90}, "confidence must be"),
        ({"attributes": "each"}, "attributes must be"),
        ({"conditional_on": "town"}, "conditional_on must name columns"),
        ({"min_group_size": 0}, "min_group_size must be"),
        ({"min_group_size": 1000}, "fewer than min_group_size=1000"),
        ({"small_groups": "drop"}, "small_groups must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": "all"}, "n_jobs must be"),
        ({"random_state": "seed"}, "random_state"),
        ({"estimator": LogisticRegression()}, "LogisticRegression is a classifier. ParityClassifier"),
        ({"estimator": Ridge}, r"not a class: pass Ridge\(\)"),
        ({"estimator": "ridge"}, "scikit-learn-compatible regressor: got 'ridge'"),
        ({"sensitive_estimator": Ridge()}, "sensitive_estimator must be a classifier: Ridge is a regressor"),
        ({"sensitive_estimator": OF_OTHERS}, "was fitted on the groups False, True"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value,
)  # fmt: skip
def test_a_parameter_is_refused_before_any_model_is_fitted(settings, words):
    with pytest.raises(ValueError, match=words):
        slow(**settings).fit(X, Y, sensitive_features=GROUPS)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"estimator": LinearRegression()},
            "estimator must be a classifier: LinearRegression is a regressor",
        ),
        ({"cost_matrix": np.ones((3, 3))}, "cost matrix"),
        ({"criterion": "odds"}, "criterion"),
        ({"criterion": "equal_opportunity", "pos_label": "maybe"}, "maybe"),
        ({"parity": "thresholds"}, "Classes have no quantiles"),
        ({"parity": "ks", "epsilon": {"A": 0.1}}, "epsilon"),
    ],
)
def test_so_are_those_of_a_classifier(settings, words):
    model = eh.ParityClassifier(
        **{"estimator": NeverClassifier(), "sensitive_estimator": NeverClassifier(), **settings}
    )
    with pytest.raises(ValueError, match=words):
        model.fit(X, np.where(Y > 0, "yes", "no"), sensitive_features=GROUPS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"X_unlabeled": X[:, :2]}, "X_unlabeled has 2 features, but X has 4"),
        ({"X_unlabeled": X, "sensitive_features_unlabeled": np.full(400, "C")}, "has not seen: 'C'"),
        ({"calibration_data": (X, GROUPS)}, "calibration_data proves a tolerance with a stated confidence"),
        ({"calibration_data": X}, r"calibration_data must be a tuple \(X, groups\) or \(X, groups, y\)"),
        ({"calibration_data": (X, None)}, "calibration_data needs the groups of its rows"),
        ({"sensitive_features": None}, "sensitive_features is missing"),
        ({"sample_weight": -np.ones(400)}, "sample_weight"),
    ],
)
def test_so_are_rows(given, words):
    with pytest.raises(ValueError, match=words):
        slow().fit(X, Y, **{"sensitive_features": GROUPS, **given})
    with pytest.raises(ValueError, match="'C'"):
        slow(confidence=0.9).fit(X, Y, sensitive_features=GROUPS, calibration_data=(X, np.full(400, "C")))


def test_so_is_a_model_that_takes_no_weights():
    model = slow(sensitive_estimator=KNeighborsClassifier())
    with pytest.raises(ValueError, match="sensitive_estimator=KNeighborsClassifier does not accept it"):
        model.fit(X, Y, sensitive_features=GROUPS, sample_weight=np.ones(400))


def test_ks_is_another_name_of_cdf():
    models = [eh.ParityRegressor(parity=name).fit(X, Y, sensitive_features=GROUPS) for name in ("ks", "cdf")]
    assert np.array_equal(*(model.predict_pmf(X) for model in models))
    assert models[0].certificate_.parity == "cdf"


@pytest.mark.parametrize("epsilon", [1, 5.0, {"A": 2.0, "B": 1.0}])
def test_an_epsilon_of_one_or_more_constrains_nothing_and_warns(epsilon):
    with pytest.warns(InactiveConstraintWarning, match="constrains nothing.*probabilities") as caught:
        eh.ParityRegressor(epsilon=epsilon).fit(X, Y, sensitive_features=GROUPS)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # in units of the outcome one is a number like any other
        for settings in ({"epsilon": 1.0, "parity": "mean"}, {"epsilon": {"A": 1.0, "B": 0.5}}):
            eh.ParityRegressor(**settings, confidence=None).fit(X, Y, sensitive_features=GROUPS)


def test_groups_in_another_order_of_the_same_index_are_refused():
    frame, groups = pd.DataFrame(X), pd.Series(GROUPS)
    shuffled = groups.sample(frac=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"another order.*sensitive_features.loc\[X.index\].*to_numpy\(\)"):
        slow().fit(frame, Y, sensitive_features=shuffled)
    model = eh.ParityRegressor()
    fitted = [
        model.fit(frame, Y, sensitive_features=each).predict_pmf(frame)
        for each in (groups, shuffled.loc[frame.index], groups.set_axis(range(400, 800)), pl.Series(GROUPS))
    ]
    assert all(np.array_equal(fitted[0], each) for each in fitted)
    aware = eh.ParityRegressor(aware=True).fit(frame, Y, sensitive_features=groups)
    with pytest.raises(ValueError, match="another order"):
        aware.predict(frame, sensitive_features=shuffled)


@pytest.mark.parametrize("kind", ["frame", "codes", "array", "polars"])
def test_the_group_among_the_features_is_told(kind):
    tables = {
        "frame": pd.DataFrame(X, columns=DATA.feature_names).assign(sex=GROUPS == "A"),
        "codes": pd.DataFrame(X, columns=DATA.feature_names).assign(sex=np.where(GROUPS == "A", 7, 3)),
        "array": np.column_stack([X, GROUPS == "A"]),
        "polars": pl.DataFrame(X).with_columns(sex=pl.Series(GROUPS == "A")),
    }
    name = "4" if kind == "array" else "'sex'"
    with pytest.warns(
        GroupInFeaturesWarning, match=f"Column {name} of X is the group itself.*aware=True"
    ) as told:
        eh.ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.1, confidence=None).fit(
            tables[kind], Y, sensitive_features=GROUPS
        )
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eh.ParityRegressor(aware=True, confidence=None).fit(tables[kind], Y, sensitive_features=GROUPS)


def test_numbers_for_groups_get_a_short_message():
    with pytest.raises(ValueError, match=r"400 different values in 400 rows.*pandas.cut") as error:
        slow().fit(X, Y, sensitive_features=X[:, 0])
    assert len(str(error.value)) < 400
    fitted = eh.ParityRegressor(aware=True).fit(X, Y, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match=r"has not seen: .* and 392 more") as error:
        fitted.predict(X, sensitive_features=X[:, 0])
    assert len(str(error.value)) < 400


def ages(low):
    return low + np.arange(len(Y)) % 25


def test_an_age_for_a_group_is_told_before_every_year_has_a_parity_of_its_own():
    for given in (ages(20), ages(20).astype(float)):
        with pytest.warns(NumbersAsGroupsWarning, match=r"25 different numbers .* pandas.cut"):
            eh.ParityRegressor(confidence=None).fit(X, Y, sensitive_features=given)


@pytest.mark.parametrize("codes", [ages(0), ages(1), ages(20).astype(str), 10 * (ages(0) % 3)])
def test_codes_and_text_are_labels(codes):
    eh.ParityRegressor(confidence=None).fit(X, Y, sensitive_features=codes)


def test_merging_does_not_advise_itself():
    groups = GROUPS.astype(object)
    groups[:4] = "rare"
    with pytest.raises(ValueError, match=r"still too few: 'other' \(4 rows\)") as error:
        slow(small_groups="merge").fit(X, Y, sensitive_features=groups)
    assert "merge" not in str(error.value).replace("were merged", "")
