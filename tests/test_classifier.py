"""ParityClassifier: every notion by models and by truth, labels of any kind, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import demographic_parity_difference, equalized_odds_difference
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import evenhand as eh
from evenhand import ParityClassifier, ParityRegressor
from evenhand.datasets import make_class_population
from evenhand.dual.imbalance import stratum_sums
from evenhand.exceptions import IndependenceWarning

DATA = make_class_population(1500, n_groups=2, n_classes=3, random_state=0)
X, Y, S = DATA.data, DATA.target, DATA.sensitive_features
FRAME = pd.DataFrame(X, columns=DATA.feature_names)
NAMES = np.array(["low", "middle", "top"])[Y]
BOTH = pd.DataFrame({"sex": np.where(S == 1, "m", "f"), "second": DATA.second_attribute})


def fit(X=X, y=Y, groups=S, **options):
    model = ParityClassifier(**{"cv": 2, "epsilon": 0.02, "random_state": 1, **options})
    return model.fit(X, y, sensitive_features=groups)


@pytest.fixture(scope="module")
def plain():
    return fit(y=NAMES)


def test_decisions_are_labels_of_the_user_and_follow_the_policy(plain):
    assert plain.classes_.tolist() == ["low", "middle", "top"]
    chances = plain.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    drawn = plain.predict(X)
    assert set(drawn) <= set(NAMES)
    shares = np.array([(drawn == label).mean() for label in plain.classes_])
    np.testing.assert_allclose(shares, chances.mean(axis=0), atol=4 * 0.5 / np.sqrt(len(X)))
    np.testing.assert_array_equal(plain.predict(X[70:90]), drawn[70:90])
    np.testing.assert_array_equal(plain.predict_mode(X), plain.classes_[chances.argmax(axis=1)])


def test_the_score_is_the_mean_accuracy_of_many_draws(plain):
    draws = [np.mean(plain.predict(X, random_state=seed) == NAMES) for seed in range(50)]
    assert plain.score(X, NAMES) == pytest.approx(np.mean(draws), abs=4 * np.std(draws) / np.sqrt(50) + 1e-9)


def test_classes_of_any_type_give_the_same_policy(plain):
    for classes in (np.array([0, 1, 2]), np.array([-1.0, 0.0, 7.0]), np.array(["a", "b", "c"], object)):
        model = fit(y=classes[Y])
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
        assert model.predict(X).dtype == classes.dtype
        np.testing.assert_array_equal(
            model.predict(X), classes[np.searchsorted(plain.classes_, plain.predict(X))]
        )


def test_two_classes_agree_with_the_regressor_on_the_same_scores():
    """The squared cost on atoms 0 and 1 is the error rate, up to a factor: one policy, by two roads."""
    scores, proba = DATA.class_proba[:, 1:].sum(axis=1), DATA.group_proba
    by_squares = eh.ParityPostprocessor(parity="pmf", atoms=[0.0, 1.0], beta=500.0).fit(scores, proba)
    by_errors = eh.ParityPostprocessor(parity="pmf", cost=1.0 - np.eye(2), beta=500.0)
    by_errors.fit(np.column_stack([1 - scores, scores]), proba)
    np.testing.assert_allclose(by_errors.tilt_, by_squares.tilt_, atol=1e-4)
    pmf = by_errors.predict_pmf(np.column_stack([1 - scores, scores]), proba)
    np.testing.assert_allclose(pmf, by_squares.predict_pmf(scores, proba), atol=1e-3)


def test_costs_of_errors_shift_decisions():
    dear = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [9.0, 9.0, 0.0]])  # the top must not be missed
    plain, careful = fit().predict_proba(X), fit(cost_matrix=dear).predict_proba(X)
    assert careful[:, 2].mean() > plain[:, 2].mean() + 0.1


CRITERIA = {
    "demographic parity": {},
    "equalised odds": {"criterion": "equalized_odds"},
    "equal opportunity": {"criterion": "equal_opportunity", "pos_label": 2},
    "given a factor": {"conditional_on": 3},
    "two attributes": {"attributes": "separate"},
    "odds of two attributes given a factor": {
        "criterion": "equal_opportunity",
        "pos_label": [2],
        "attributes": "separate",
        "conditional_on": 3,
    },
}


def true_gaps(model, name, data):
    """Gaps between groups within strata, by what rows truly are."""
    chances, S = model.predict_proba(data.data), data.sensitive_features
    gaps = eh.metrics.decision_gaps
    if name == "equalised odds":
        return gaps(chances, S, given=data.target)
    if name == "equal opportunity":
        return gaps(chances[data.target == 2], S[data.target == 2])
    if name == "given a factor":
        return gaps(chances, S, given=data.factor)
    if name == "two attributes":
        return {**gaps(chances, S), "second": max(gaps(chances, data.second_attribute).values())}
    if name == "demographic parity":
        return gaps(chances, S)
    top = data.target == 2
    within = {"given": data.factor[top]}
    return {
        **gaps(chances[top], S[top], **within),
        **gaps(chances[top], data.second_attribute[top], **within),
    }


@pytest.mark.parametrize("name", CRITERIA)
def test_every_notion_comes_close_to_its_tolerance_on_fresh_rows(name):
    """Learned models on 1500 rows: what is left is their noise, far below the gap without parity."""
    groups = BOTH if "attributes" in CRITERIA[name] else S
    model = fit(groups=groups, **CRITERIA[name])
    assert model.certificate_.violation.max() <= 0.02 + 1e-5
    free = clone(model).set_params(epsilon=0.99).fit(X, Y, sensitive_features=groups)
    fresh = make_class_population(60_000, n_groups=2, n_classes=3, random_state=1)
    before, after = (max(true_gaps(each, name, fresh).values()) for each in (free, model))
    assert after <= 0.02 + 0.05
    assert after < 0.5 * before


def oracle_columns(data, name):
    """Columns of the true probabilities, and their strata."""
    outcomes = np.repeat(np.arange(3), 2)
    return {
        "demographic parity": (data.group_proba, None),
        "two attributes": (np.hstack([data.group_proba, data.second_proba]), [0, 0, 1, 1]),
        "given a factor": (
            np.hstack([data.group_proba * (data.factor == f)[:, None] for f in (0, 1)]),
            [0, 0, 1, 1],
        ),
        "equalised odds": (data.joint_proba, outcomes.tolist()),
        "equal opportunity": (data.joint_proba[:, outcomes == 2], [2, 2]),
    }[name]


class Oracle:
    """A post-processor on the true probabilities, with the interface of a classifier."""

    def __init__(self, model, name):
        self.model, self.name = model, name

    def predict_proba(self, data):
        return self.model.predict_pmf(data.class_proba, oracle_columns(data, self.name)[0])


@pytest.mark.parametrize("name", list(CRITERIA)[:5])
def test_every_notion_keeps_its_tolerance_on_the_population_with_the_true_probabilities(name):
    pile, fresh = (make_class_population(n, 2, 3, random_state=n) for n in (30_000, 200_000))
    columns, strata = oracle_columns(pile, name)
    model = eh.ParityPostprocessor(parity="pmf", cost=1.0 - np.eye(3), epsilon=0.02)
    model.fit(pile.class_proba, columns, strata=strata)
    fresh.data = fresh  # what the oracle looks at
    assert max(true_gaps(Oracle(model, name), name, fresh).values()) <= 0.02 + 0.01


def test_the_product_of_models_misses_odds_that_the_joint_model_keeps():
    strong = make_class_population(6000, 2, 2, influence=4.0, random_state=0)
    fresh = make_class_population(60_000, 2, 2, influence=4.0, random_state=1)
    gaps = {}
    for joint in ("classifier", "product"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IndependenceWarning)
            model = fit(
                strong.data, strong.target, strong.sensitive_features, criterion="equalized_odds", joint=joint
            )
        chances = model.predict_proba(fresh.data)
        gaps[joint] = max(
            eh.metrics.decision_gaps(chances, fresh.sensitive_features, given=fresh.target).values()
        )
    assert gaps["classifier"] < 0.06 < gaps["product"]


def test_the_product_says_what_it_takes_for_granted():
    with pytest.warns(IndependenceWarning, match="independent given the features"):
        fit(criterion="equalized_odds", joint="product")
    ready = FrozenEstimator(LogisticRegression(max_iter=500).fit(X, S))
    with pytest.warns(IndependenceWarning):
        fit(criterion="equalized_odds", sensitive_estimator=ready)
    with pytest.raises(ValueError, match="predicts groups and not outcomes"):
        fit(criterion="equalized_odds", sensitive_estimator=ready, joint="classifier")


@pytest.mark.parametrize("criterion", ["demographic_parity", "equalized_odds"])
def test_an_aware_model_uses_the_group_it_is_given(criterion):
    model = fit(aware=True, criterion=criterion)
    chances = model.predict_proba(X, sensitive_features=S)
    given = Y if criterion == "equalized_odds" else None
    assert max(eh.metrics.decision_gaps(chances, S, given=given).values()) < 0.06
    with pytest.raises(ValueError, match="This model is aware"):
        model.predict_proba(X)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_factor_is_named_by_its_column_in_any_frame(frame):
    table = frame({name: FRAME[name].to_numpy() for name in FRAME})
    model = fit(table, conditional_on="factor")
    np.testing.assert_allclose(model.predict_proba(table), fit(conditional_on=3).predict_proba(X), atol=1e-9)
    assert model.groups_.tolist() == [(0.0, 0), (0.0, 1), (1.0, 0), (1.0, 1)]
    unseen = FRAME.assign(factor=2.0)
    with pytest.raises(ValueError, match="conditional_on has values that the fit has not seen"):
        model.predict(frame({name: unseen[name].to_numpy() for name in unseen}))


def test_a_regressor_keeps_parity_within_a_factor_and_for_two_attributes():
    y = DATA.class_proba @ np.arange(3.0)
    within = ParityRegressor(epsilon=0.03, conditional_on=3, cv=2).fit(X, y, sensitive_features=S)
    gaps = eh.metrics.unfairness(within.predict_pmf(X), S, given=DATA.factor)
    assert max(gaps.values()) < 0.12
    both = ParityRegressor(epsilon={"sex": 0.03, "second": 0.3}, attributes="separate", cv=2)
    both.fit(X, y, sensitive_features=BOTH)
    np.testing.assert_allclose(both.epsilon_, [0.03, 0.03, 0.3, 0.3])
    assert (both.tolerance_[2:] > 5 * both.tolerance_[:2]).all()  # each its own
    assert both.groups_.tolist() == [("sex", "f"), ("sex", "m"), ("second", 0), ("second", 1)]
    assert len(both.sensitive_estimator_) == 2


def test_rows_without_labels_serve_the_parity_step():
    pile = make_class_population(4000, 2, 3, random_state=5)
    model = ParityClassifier(cv=2, epsilon=0.01, criterion="equalized_odds")
    model.fit(X, Y, sensitive_features=S, X_unlabeled=pile.data)
    assert model.certificate_.violation.max() <= 0.01 + 1e-5
    assert model.certificate_.calibration.groups[0] == (0, 0)


def test_a_frontier_measures_costs_and_gaps_within_strata():
    test = {"X": X, "y": Y, "sensitive_features": S}
    model = ParityClassifier(cv=2, criterion="equalized_odds")
    path = eh.frontier(model, X, Y, sensitive_features=S, epsilons=[0.0, 0.1], test=test)
    chances = path.models[0].predict_proba(X)
    assert path.risk[0] == pytest.approx(1.0 - eh.metrics.accuracy(Y, chances, [0, 1, 2]))
    expected = eh.metrics.unfairness(chances, S, given=Y, metric="tv")
    frame = path.frame("pandas")
    assert frame["max_tv"][0] == pytest.approx(max(expected.values()))
    assert frame["tv_2_1"][0] == pytest.approx(expected[2, 1])
    with pytest.raises(ValueError, match="pass y"):
        eh.frontier(model, X, Y, sensitive_features=S, test={"X": X, "sensitive_features": S})


def test_an_audit_takes_the_policy(plain):
    found = eh.audit(plain.predict_proba(X), S, y=Y, atoms=[0, 1, 2], loss="zero_one")
    shares = found.shares @ found.measures["risk"].estimate
    assert 1.0 - shares == pytest.approx(plain.score(X, NAMES))


@pytest.mark.parametrize("seed", range(3))
def test_gaps_of_two_classes_are_those_of_fairlearn(seed):
    rng = np.random.default_rng(seed)
    truth, decided, group = rng.integers(0, 2, (3, 400))
    gaps = eh.metrics.decision_gaps
    assert max(gaps(decided, group, pairwise=True).values()) == pytest.approx(
        demographic_parity_difference(truth, decided, sensitive_features=group)
    )
    assert max(gaps(decided, group, given=truth, pairwise=True).values()) == pytest.approx(
        equalized_odds_difference(truth, decided, sensitive_features=group)
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "luck"}, "Unknown criterion 'luck'"),
        ({"criterion": "equal_opportunity"}, "needs pos_label"),
        ({"criterion": "equal_opportunity", "pos_label": 9}, "pos_label must be among 0, 1, 2"),
        ({"joint": "maybe"}, "joint must be one of"),
        ({"attributes": "all"}, 'attributes must be "combined" or "separate"'),
        ({"conditional_on": "age"}, "conditional_on must name columns of X"),
        ({"conditional_on": 0}, "fewer than min_group_size=10"),
        ({"cost_matrix": np.eye(2)}, "shape \\(3, n_atoms\\)"),
        ({"cost_matrix": np.ones((3, 2)) * [0, 1]}, "a column for each of the 3 classes"),
        ({"estimator": LinearSVC()}, "estimator must have predict_proba"),
        ({"y": np.zeros(len(Y))}, "two classes or more"),
        ({"y": None}, "requires y to be passed"),
    ],
)
def test_what_cannot_be_fitted_is_refused_and_leaves_no_trace(options, message):
    options = dict(options)
    y = options.pop("y", Y)
    model = ParityClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=S)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_decisions_without_classes_are_refused():
    with pytest.raises(ValueError, match="pass classes="):
        eh.metrics.accuracy(Y, np.full((len(Y), 3), 1 / 3))
    with pytest.raises(ValueError, match="one class per row"):
        eh.metrics.accuracy(Y[:5], Y)
    with pytest.raises(ValueError, match="one label per column"):
        eh.metrics.accuracy(Y, np.full((len(Y), 3), 1 / 3), classes=[0, 1])
    with pytest.raises(ValueError, match="sum to one"):
        eh.metrics.accuracy(Y, np.full((len(Y), 3), np.nan), classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"sensitive_features has 5 rows, .* one label per row"):
        eh.metrics.decision_gaps(Y, S[:5], given=Y)
    with pytest.raises(ValueError, match="not empty"):
        eh.metrics.decision_gaps([], [])


def test_displays_take_a_classifier_and_its_strata():
    model = fit(criterion="equalized_odds")
    shown = eh.plots.TiltDisplay.from_model(model)
    sure = np.eye(6)  # rows that are surely of one class and group
    gained = model.policy_
    imbalance = stratum_sums(sure, gained.strata) / stratum_sums(gained.group_prior, gained.strata)
    imbalance = imbalance - sure / gained.group_prior
    expected = imbalance @ gained.tilt.T
    np.testing.assert_allclose(shown.lift, expected - expected.mean(axis=1, keepdims=True), atol=1e-9)


def test_the_certificate_of_plugged_in_models_is_for_demographic_parity_of_scores(plain):
    with pytest.raises(ValueError, match="for demographic parity"):
        eh.certificates.certify_plugin(plain, S, X=X)


def test_held_out_certificates_hold_within_strata(plain):
    top = Y == 2
    found = eh.certificates.certify_held_out(plain.predict_proba(X)[top], S[top], atoms=[0, 1, 2])
    assert found.n_rows == top.sum()


@pytest.mark.parametrize("name", CRITERIA)
def test_a_model_file_gives_back_every_notion_bit_for_bit(name, tmp_path):
    pytest.importorskip("skops")
    groups = BOTH if "attributes" in CRITERIA[name] else S
    model = fit(groups=groups, calibration="joint", **CRITERIA[name])
    eh.save(model, tmp_path / "model")
    again = eh.load(tmp_path / "model")
    assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.groups_.tolist() == model.groups_.tolist()
    assert repr(again) == repr(model)


@pytest.mark.parametrize("cost", ["absolute", eh.costs.Pinball(0.3), eh.costs.Huber(0.2)])
def test_a_model_file_keeps_the_cost(cost, tmp_path):
    model = eh.ParityPostprocessor(cost=cost, atoms=11).fit(X[:200, 0], DATA.group_proba[:200])
    eh.save(model, tmp_path / "model")
    again = eh.load(tmp_path / "model")
    rows = X[:200, 0], DATA.group_proba[:200]
    assert again.predict_pmf(*rows).tobytes() == model.predict_pmf(*rows).tobytes()


def test_a_cost_that_is_a_function_is_not_saved(tmp_path):
    model = eh.ParityPostprocessor(cost=lambda eta, y: (eta[:, None] - y) ** 2)
    with pytest.raises(TypeError, match="which cannot be saved"):
        eh.save(model, tmp_path / "model")


@pytest.mark.parametrize("attributes", ["combined", "separate"])
def test_named_sensitive_features_may_come_in_any_order_and_others_are_refused(attributes):
    zeros_and_ones = pd.DataFrame({"first": S, "second": DATA.second_attribute})  # only names tell them apart
    model = fit(groups=zeros_and_ones, aware=True, attributes=attributes)
    expected = model.predict_proba(X, sensitive_features=zeros_and_ones)
    for same in (zeros_and_ones[["second", "first"]], zeros_and_ones.to_numpy()):
        np.testing.assert_array_equal(model.predict_proba(X, sensitive_features=same), expected)
    with pytest.raises(ValueError, match="has the columns third, second, but the fit had first, second"):
        model.predict_proba(X, sensitive_features=zeros_and_ones.rename(columns={"first": "third"}))


def test_a_tolerance_by_attribute_or_by_class_holds_in_strata_of_both():
    odds = {"groups": BOTH, "attributes": "separate", "criterion": "equalized_odds"}
    by_attribute = fit(**odds, epsilon={"sex": 0.02, "second": 0.05})
    by_class = fit(**odds, epsilon={0: 0.02, 1: 0.05, 2: 0.1})
    strata = [stratum for stratum, _ in by_class.groups_]
    np.testing.assert_array_equal(
        by_attribute.epsilon_, [{"sex": 0.02, "second": 0.05}[name] for name, _ in strata]
    )
    np.testing.assert_array_equal(
        by_class.epsilon_, [{0: 0.02, 1: 0.05, 2: 0.1}[label] for _, label in strata]
    )
    for model in (by_attribute, by_class):
        assert np.all(model.certificate_.violation <= model.epsilon_ + 1e-5)


def test_a_tolerance_that_could_mean_two_things_is_refused():
    odds = {"groups": BOTH.to_numpy(), "attributes": "separate", "criterion": "equalized_odds"}
    with pytest.raises(ValueError, match="could mean more than one part"):  # column 0 or class 0?
        fit(**odds, y=np.minimum(Y, 1), epsilon={0: 0.02, 1: 0.05})


def test_a_group_that_is_not_there_in_a_class_of_no_concern_is_named_with_a_way_out():
    there = (Y != 0) | (S != 1)
    rows = {"X": X[there], "y": Y[there], "groups": S[there]}
    with pytest.raises(ValueError, match=r"no row with \(class, group\) \(0, 1\)"):
        fit(**rows, criterion="equal_opportunity", pos_label=2)
    with pytest.warns(IndependenceWarning):
        fit(**rows, criterion="equal_opportunity", pos_label=2, joint="product")
