"""A frontier selects by a limit, and refuses what is no limit, tolerance or held-out row by name."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import frontier
from evenhand.metrics import unfairness
from tests.frontiers import EPSILONS, NEW, ROWS, TEST


@pytest.fixture(scope="module")
def path():
    return frontier(ParityPostprocessor(), *ROWS, epsilons=EPSILONS, test=TEST)


def test_select_by_risk_takes_the_closest_to_parity_that_is_affordable(path):
    table = path.frame("pandas")
    limit = float(np.median(table["risk_increase"]))
    chosen = path.select(max_risk_increase=limit)
    affordable = table[table["risk_increase"] <= limit]
    assert chosen.epsilon == affordable.loc[affordable["max_ks"].idxmin(), "epsilon"]


def test_select_by_distance_takes_the_cheapest_that_is_close_enough(path):
    table = path.frame("pandas")
    limit = float(np.median(table["max_ks"]))
    close = table[table["max_ks"] <= limit]
    assert path.select(max_ks=limit).epsilon == close.loc[close["risk"].idxmin(), "epsilon"]
    assert path.select(max_ks=1.0) is path.models[int(table["risk"].argmin())]


@pytest.mark.parametrize(("parity", "column"), [("mean", "max_mean"), ("w1", "max_w1"), ("pmf", None)])
def test_select_goes_by_the_distance_of_the_model_s_own_parity(parity, column):
    path = frontier(ParityPostprocessor(parity=parity), *ROWS, epsilons=EPSILONS, test=TEST)
    own, table = path.max_distance, path.frame("pandas")
    if column in table:
        assert own == pytest.approx(table[column].to_numpy())
    scores, proba, groups = TEST["scores"], TEST["group_proba"], TEST["sensitive_features"]
    for model, found in zip(path.models, own, strict=True):
        pmf = model.predict_pmf(scores, proba)
        by_group = unfairness(pmf, groups, model.atoms_, metric=parity)
        assert found == pytest.approx(max(by_group.values()))
    limit = float(np.median(own))
    close = np.flatnonzero(own <= limit)
    assert path.select(max_distance=limit) is path.models[close[path.risk[close].argmin()]]
    cheap = np.flatnonzero(path.risk_increase <= np.median(path.risk_increase))
    chosen = path.select(max_risk_increase=float(np.median(path.risk_increase)))
    assert chosen is path.models[cheap[own[cheap].argmin()]]


def test_select_says_what_came_closest(path):
    smallest = path.max_ks.min()
    with pytest.raises(ValueError, match=rf"max_ks <= 1e-09. The closest has {smallest:.4g}, at epsilon"):
        path.select(max_ks=1e-9)
    with pytest.raises(ValueError, match=r"max_risk_increase <= -0\.9"):
        path.select(max_risk_increase=-0.9)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "exactly one"),
        ({"max_ks": 0.1, "max_risk_increase": 0.1}, "exactly one"),
        ({"max_ks": np.nan}, "max_ks must be one finite number"),
        ({"max_ks": [0.1, 0.2]}, "one finite number"),
        ({"max_risk_increase": "5%"}, "max_risk_increase must hold numbers"),
    ],
)
def test_select_refuses_other_limits(path, limits, message):
    with pytest.raises(ValueError, match=message):
        path.select(**limits)


def test_select_by_risk_needs_outcomes():
    path = frontier(ParityPostprocessor(), *ROWS, epsilons=[0.05])
    with pytest.raises(ValueError, match="pass y in test="):
        path.select(max_risk_increase=0.1)
    assert path.select(max_ks=0.06) is path.models[0]


@pytest.mark.parametrize(
    ("epsilons", "message"),
    [
        ([], "at least one value"),
        (0.1, "at least one value"),
        ([-0.1, 0.1], "not negative"),
        ([np.inf], "finite"),
        (["a"], "must hold numbers"),
    ],
)
def test_bad_epsilons_are_refused_by_name(epsilons, message):
    with pytest.raises(ValueError, match=f"epsilons.*{message}"):
        frontier(ParityPostprocessor(), *ROWS, epsilons=epsilons)


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ({"scores": NEW.scores}, "needs 'group_proba'"),
        (TEST | {"Y": NEW.target}, "does not know 'Y'"),
        (NEW.scores, "must be a dict or a tuple"),
        ("rows", "must be a dict or a tuple"),
        (TEST | {"y": NEW.target[1:]}, "y of test needs one value per row"),
        (TEST | {"y": np.full(800, np.nan)}, "y of test has NaN"),
        (TEST | {"sensitive_features": ["a"]}, "sensitive_features has 1 rows"),
        (TEST | {"group_proba": NEW.group_proba[:, :2]}, "fitted with 3"),
        (TEST | {"sample_weight": np.zeros(800)}, "zero everywhere"),
        (TEST | {"sample_weight": (NEW.sensitive_features > 0) * 1.0}, "No row counts in group 'ann'"),
    ],
)
def test_bad_held_out_rows_are_refused_by_name(test, message):
    with pytest.raises(ValueError, match=message):
        frontier(ParityPostprocessor(), *ROWS, epsilons=[0.1], test=test)


def test_a_model_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="ParityPostprocessor or a ParityRegressor"):
        frontier(LinearRegression(), *ROWS)
