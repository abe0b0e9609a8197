"""ParityRegressor on bad, odd and extreme input: refused by name, or taken for what it is."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

from evenhand import ParityRegressor
from evenhand.exceptions import ClippingWarning, OutlierWarning
from tests.regressors import fit_simple, people, simple


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def fitted():
    return fit_simple()


BAD = {
    "groups are missing": ({"sensitive_features": None}, "sensitive_features is missing"),
    "groups are too few": (
        {"sensitive_features": [0, 1]},
        "sensitive_features has 2 rows, but there are 1500",
    ),
    "one group only": ({"sensitive_features": np.zeros(1500)}, "needs two groups or more"),
    "all labels are missing": ({"sensitive_features": [None] * 1500}, "missing in every row"),
    "target too short": ({"y": np.zeros(3)}, "inconsistent numbers of samples"),
    "target missing": ({"y": None}, "requires y"),
    "target with NaN": ({"y": np.full(1500, np.nan)}, "NaN"),
    "three rows": (
        {"X": np.zeros((3, 2)), "y": np.zeros(3), "sensitive_features": [0, 1, 1]},
        "fewer than min_group_size=10 rows",
    ),
    "weights too short": ({"sample_weight": [1.0]}, "sample_weight has 1 rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong_and_leaves_nothing_half_fitted(data, case):
    change, message = BAD[case]
    arguments = {"X": data.data, "y": data.target, "sensitive_features": data.sensitive_features} | change
    model = simple()
    with pytest.raises(ValueError, match=message):
        model.fit(arguments.pop("X"), arguments.pop("y"), **arguments)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        model.predict(data.data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sensitive_estimator": LinearSVC()}, "must have predict_proba: LinearSVC has none"),
        ({"small_groups": "drop"}, "small_groups must be"),
        ({"calibration": "magic"}, "calibration must be 'auto', 'joint' or None"),
        ({"parity": "equal"}, "Unknown parity 'equal'"),
        ({"epsilon": {"z": 0.1}}, "unknown group"),
    ],
)
def test_bad_settings_say_what_is_wrong(data, options, message):
    model = simple().set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)


def test_missing_values_are_the_base_models_to_refuse(data):
    X = data.data.copy()
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        simple().fit(X, data.target, sensitive_features=data.sensitive_features)


def test_a_constant_target_is_predicted_as_it_is(data):
    model = simple().fit(data.data, np.full(1500, 3.0), sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(model.predict(data.data), 3.0, atol=1e-6)


def test_wild_targets_are_pointed_out_and_a_robust_model_keeps_them_out(data):
    target = data.target.copy()
    target[7] = 1e12

    class Robust(LinearRegression):
        def fit(self, X, y):
            return super().fit(X, np.clip(y, -1.0, 1.0))

    # the tolerance is not searched for: its last digit may differ between the two fits
    robust = ParityRegressor(Robust(), LogisticRegression(), calibration="joint", confidence=None)
    with pytest.warns(OutlierWarning, match=r"1 value.* far beyond the others, the first 1e\+12"):
        robust.fit(data.data, target, sensitive_features=data.sensitive_features)
    plain = clone(robust).fit(data.data, data.target, sensitive_features=data.sensitive_features)
    np.testing.assert_allclose(robust.predict_mean(data.data), plain.predict_mean(data.data), atol=0.02)


@pytest.mark.parametrize(("calibration", "shift"), [(None, 0.002), ("joint", 0.01)])  # a map sees its edge
def test_a_wild_score_is_clipped_and_counted_and_spoils_nothing_else(data, calibration, shift):
    class OneWild(LinearRegression):
        def predict(self, X):
            return np.where(X[:, 0] == data.data[7, 0], 1e12, super().predict(X))

    model = ParityRegressor(OneWild(), LogisticRegression(), calibration=calibration, confidence=None)
    fitted = clone(model).set_params(estimator=LinearRegression())
    fitted.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert (fitted.outcome_calibrator_ is None) == (calibration is None)
    with pytest.warns(ClippingWarning, match="1 of 1500 scores"):
        model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    assert model.n_clipped_ == 1
    others = np.arange(1500) != 7
    moved = np.abs(model.predict_mean(data.data[others]) - fitted.predict_mean(data.data[others]))
    assert moved.mean() < shift
    largest = moved.max() if calibration is None else np.quantile(moved, 0.99)
    assert largest < 0.1  # a few rows change from one atom to the next


def test_a_classifier_that_came_fitted_is_matched_by_label_and_never_by_position(data):
    classifier = LogisticRegression().fit(data.data, 1 - data.sensitive_features)  # 0 and 1, but of what?
    model = ParityRegressor(LinearRegression(), FrozenEstimator(classifier))
    with pytest.raises(ValueError, match="sensitive_estimator was fitted on the groups 0, 1"):
        model.fit(data.data, data.target, sensitive_features=np.where(data.sensitive_features == 1, "m", "f"))


@pytest.mark.parametrize("nothing", [pd.NA, None])
def test_labels_missing_in_the_pandas_way_are_counted(data, nothing):
    labels = pd.Series(data.sensitive_features == 1, dtype="boolean")
    labels[3] = nothing
    known = simple().fit(data.data, data.target, sensitive_features=labels).group_summary_
    assert (known.n_rows, known.n_known, known.n_unknown) == (1500, 1499, 1)
    assert known.groups == (False, True)
    assert known.counts.tolist() == [int((labels == label).sum()) for label in (False, True)]


def test_a_group_whose_rows_weigh_nothing_is_not_there(data):
    weights = np.where(data.sensitive_features == 1, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"needs two groups or more: all .* are in group 0"):
        simple().fit(
            data.data, data.target, sensitive_features=data.sensitive_features, sample_weight=weights
        )


def test_a_pile_that_lacks_a_group_is_diagnosed_on_the_labelled_rows(data):
    pile = data.data[data.sensitive_features == 0]
    model = simple().fit(
        data.data,
        data.target,
        sensitive_features=data.sensitive_features,
        X_unlabeled=pile,
        sensitive_features_unlabeled=np.zeros(len(pile), int),
    )
    assert model.certificate_.calibration.n_rows == 1500
    with pytest.raises(ValueError, match="gives group 1 no mass"):
        simple(aware=True).fit(
            data.data,
            data.target,
            sensitive_features=data.sensitive_features,
            X_unlabeled=pile,
            sensitive_features_unlabeled=np.zeros(len(pile), int),
        )
