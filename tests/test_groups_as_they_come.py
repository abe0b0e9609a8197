"""Groups as people have them: known for some rows, known by probabilities, or known of other people."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import evenhand as eh
from evenhand import metrics
from evenhand._utils.labels import read_sensitive
from evenhand.certificates import certify_held_out
from evenhand.datasets import make_population
from evenhand.exceptions import ProxyWarning
from evenhand.generalization.out_of_sample import OutOfSampleEstimator
from evenhand.metrics import unfairness_bounds
from evenhand.reporting import gather

DATA = make_population(1200, n_groups=2, separation=2.0, random_state=0)
OTHER = make_population(600, n_groups=2, separation=2.0, random_state=1)
NEW = make_population(20_000, n_groups=2, separation=2.0, random_state=2)
X, Y = DATA.data, DATA.target
MIDDLE = float(np.median(Y))
GROUPS = np.array(["a", "b"])[DATA.sensitive_features]
KNOWN = np.random.default_rng(0).random(len(Y)) < 0.5
SOME = np.where(KNOWN, GROUPS, None)
PROBA = pd.DataFrame(DATA.group_proba, columns=["a", "b"])
CLASSES = np.where(Y > MIDDLE, "yes", "no")


def simple(**settings):
    models = {"estimator": LinearRegression(), "sensitive_estimator": LogisticRegression()}
    return eh.ParityRegressor(**{**models, "atoms": 21, "epsilon": 0.1, **settings})


def fresh_distance(model):
    return max(metrics.ks_unfairness(model.predict_pmf(NEW.data), NEW.sensitive_features).values())


# known for some rows


def test_rows_without_a_group_teach_the_outcome_and_serve_the_parity_step():
    model = simple().fit(X, Y, sensitive_features=SOME)
    np.testing.assert_allclose(model.estimator_.coef_, LinearRegression().fit(X, Y).coef_)
    of_known = LogisticRegression().fit(X[KNOWN], GROUPS[KNOWN])
    np.testing.assert_allclose(model.sensitive_estimator_.coef_, of_known.coef_, rtol=1e-3)
    assert model.n_rows_ == len(Y)
    assert model.certificate_.out_of_sample.n_rows == KNOWN.sum()
    assert model.certificate_.calibration.n_rows == KNOWN.sum()
    assert model.groups_.tolist() == ["a", "b"]
    assert fresh_distance(model) < 0.1


def test_how_many_rows_had_a_group_is_reported_and_saved(tmp_path):
    model = simple().fit(X, Y, sensitive_features=SOME)
    counts = [SOME.tolist().count(group) for group in ("a", "b")]
    told = f"The group of {KNOWN.sum()} of 1,200 rows was known (a: {counts[0]}, b: {counts[1]})."
    assert told in str(model)
    assert model.group_summary_.counts.tolist() == counts
    eh.save(model, tmp_path / "model.evenhand")
    assert told in str(eh.load(tmp_path / "model.evenhand"))
    complete = simple().fit(X, Y, sensitive_features=GROUPS)
    assert complete.group_summary_.n_unknown == 0
    assert "was known" not in str(complete)


NOTHINGS = {
    "None": SOME,
    "NaN": pd.Series(SOME).where(KNOWN, np.nan),
    "NA": pd.Series(SOME, dtype="string"),
    "category": pd.Series(SOME, dtype="category"),
    "polars": pl.Series(SOME.tolist()),
    "list": SOME.tolist(),
    "numbers": np.where(KNOWN, DATA.sensitive_features, np.nan),
    "nullable numbers": pd.Series(np.where(KNOWN, DATA.sensitive_features, np.nan)).astype("Int64"),
    "times": pd.Series(pd.to_datetime(np.where(SOME == "a", "2020-01-01", "2021-01-01"))).where(KNOWN),
    "columns": pd.DataFrame({"group": GROUPS, "same": SOME}),
    "other columns": pl.DataFrame({"group": SOME.tolist(), "one": [1.0] * len(Y)}),
}


@pytest.mark.parametrize("name", NOTHINGS)
def test_what_is_missing_in_any_library_is_not_a_group(name):
    found = list(read_sensitive(NOTHINGS[name], len(Y)).values())
    for groups in found:
        np.testing.assert_array_equal(groups.known, KNOWN)
    model = simple(confidence=None).fit(X, Y, sensitive_features=NOTHINGS[name])
    wanted = simple(confidence=None).fit(X, Y, sensitive_features=SOME)
    assert len(model.groups_) == 2
    np.testing.assert_allclose(model.predict_pmf(NEW.data[:50]), wanted.predict_pmf(NEW.data[:50]))


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": None},
        {"calibration": "joint"},
        {"calibration": "joint", "confidence": 0.9},
        {"confidence": None},
        {"cv": 3},
        {"aware": True},
    ],
)
def test_missing_groups_go_with_the_other_settings(settings):
    model = simple(**settings).fit(X, Y, sensitive_features=SOME, sample_weight=np.linspace(0.0, 2.0, len(Y)))
    n_known = int(KNOWN[1:].sum())  # a row of weight zero is left out
    assert (model.group_summary_.n_rows, model.group_summary_.n_known) == (len(Y) - 1, n_known)
    assert model.n_rows_ == (n_known if model.aware else len(Y) - 1)
    told = {"sensitive_features": np.array(["a", "b"])[NEW.sensitive_features]} if model.aware else {}
    pmf = model.predict_pmf(NEW.data, **told)
    assert max(metrics.ks_unfairness(pmf, NEW.sensitive_features).values()) < 0.15


def test_missing_groups_go_with_strata_and_separate_attributes_and_classes():
    factor = np.arange(len(Y)) % 2
    table = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "factor": factor})
    within = simple(conditional_on="factor").fit(table, Y, sensitive_features=SOME)
    assert [stratum for stratum, _ in within.groups_] == [0, 0, 1, 1]
    columns = pd.DataFrame({"group": SOME, "half": np.where(factor == 0, "u", "v")})
    separate = simple(attributes="separate").fit(X, Y, sensitive_features=columns)
    assert separate.group_summary_.groups == ("a", "b", "u", "v")
    assert separate.group_summary_.n_known == KNOWN.sum()
    odds = eh.ParityClassifier(criterion="equalized_odds", epsilon=0.1)
    odds = odds.fit(X, CLASSES, sensitive_features=SOME)
    assert odds.certificate_.out_of_sample.n_rows == KNOWN.sum()


def test_missing_groups_go_with_unlabelled_rows():
    model = simple().fit(X, Y, sensitive_features=SOME, X_unlabeled=NEW.data[:3000])
    assert (model.n_rows_, model.certificate_.out_of_sample.n_rows) == (3000, KNOWN.sum())
    told = np.array(["a", "b"], dtype=object)[NEW.sensitive_features[:3000]]
    known = {"X_unlabeled": NEW.data[:3000], "sensitive_features_unlabeled": told}
    assert simple().fit(X, Y, sensitive_features=SOME, **known).certificate_.calibration.n_rows == 3000
    told[5] = None
    with pytest.raises(ValueError, match="unlabeled is missing in 1 rows, the first of them row 5"):
        simple().fit(X, Y, sensitive_features=SOME, **known)


def test_rows_without_a_group_are_in_the_step_and_not_in_the_estimate(monkeypatch):
    held_out, init = [], OutOfSampleEstimator.__init__

    def note(self, step, rows, given):
        held_out.append((rows, given))
        init(self, step, rows, given)

    monkeypatch.setattr(OutOfSampleEstimator, "__init__", note)
    simple().fit(X, Y, sensitive_features=SOME)
    ((rows, given),) = held_out
    assert (len(rows.scores), given.n_rows) == (len(Y), KNOWN.sum())
    np.testing.assert_array_equal(given.known, np.eye(2)[DATA.sensitive_features[KNOWN]])


def test_the_step_of_a_postprocessor_is_judged_by_the_rows_of_known_groups():
    model = eh.ParityPostprocessor(epsilon=0.1)
    model.fit(DATA.scores, PROBA, sensitive_features=SOME)
    assert model.n_rows_ == len(Y)
    assert model.certificate_.out_of_sample.n_rows == KNOWN.sum()
    with pytest.raises(ValueError, match="what group_proba is for"):
        model.fit(DATA.scores, PROBA, sensitive_features=PROBA)


def test_audits_and_certificates_measure_the_known_and_count_the_others():
    values = DATA.scores
    found, alone = eh.audit(values, SOME, y=Y), eh.audit(values[KNOWN], GROUPS[KNOWN], y=Y[KNOWN])
    assert found.n_unknown == (~KNOWN).sum()
    assert f"{KNOWN.sum()} rows in 2 groups, and {(~KNOWN).sum()} of unknown group left out" in str(found)
    assert found.to_dict()["measures"] == alone.to_dict()["measures"]
    within = eh.audit(values, SOME, given=np.arange(len(Y)) % 2)
    assert within.n_unknown == (~KNOWN).sum()
    assert metrics.unfairness(values, SOME) == metrics.unfairness(values[KNOWN], GROUPS[KNOWN])
    proved, proved_alone = certify_held_out(values, SOME), certify_held_out(values[KNOWN], GROUPS[KNOWN])
    np.testing.assert_array_equal(proved.upper, proved_alone.upper)
    assert proved.n_unknown == (~KNOWN).sum()
    assert "rows have none" in str(proved)
    model = simple(confidence=None).fit(X, Y, sensitive_features=SOME)
    by_model = certify_held_out(model, SOME, X=X)
    np.testing.assert_array_equal(by_model.upper, certify_held_out(model, GROUPS[KNOWN], X=X[KNOWN]).upper)
    facts = gather(model, X, Y, sensitive_features=SOME, n_tolerances=0)
    assert facts.data.n_rows == KNOWN.sum()
    assert model.group_summary_.sentence in facts.out_of_sample.sentences


def test_rows_set_aside_without_a_group_prove_nothing_and_do_no_harm():
    some = OTHER.sensitive_features.astype(float)
    some[::3] = np.nan
    labels = DATA.sensitive_features
    model = simple(confidence=0.9)
    model.fit(X, Y, sensitive_features=labels, calibration_data=(OTHER.data, some))
    assert model.certificate_.out_of_sample.n_rows == 400
    certain = np.eye(2)[OTHER.sensitive_features]
    model.fit(X, Y, sensitive_features=labels, calibration_data=(OTHER.data, certain))
    assert model.certificate_.out_of_sample.n_rows == 600


# known by probabilities


def test_probabilities_are_told_from_labels_in_one_way_by_fit_and_audit():
    whole = (GROUPS == "a").astype(int)
    for labels in (
        np.column_stack([whole, 1 - whole]),
        pd.DataFrame({"a": whole, "b": 1 - whole}),
        pd.DataFrame({"a": whole == 1, "b": whole == 0}),
    ):
        fitted = simple(confidence=None).fit(X, Y, sensitive_features=labels).groups_.tolist()
        assert fitted == list(eh.audit(DATA.scores, labels).groups) == list(metrics.unfairness(Y, labels))
        assert fitted == [(0, 1), (1, 0)]  # whole numbers are labels
    certain = pd.DataFrame({"a": whole * 1.0, "b": 1.0 - whole})
    with warnings.catch_warnings():
        warnings.simplefilter("error", ProxyWarning)  # they hide nothing
        model = simple().fit(X, Y, sensitive_features=certain)
        assert eh.audit(DATA.scores, certain).possible is None
    assert model.groups_.tolist() == list(eh.audit(DATA.scores, certain).groups) == ["a", "b"]
    by_label = simple().fit(X, Y, sensitive_features=GROUPS)
    np.testing.assert_array_equal(model.predict_pmf(NEW.data[:99]), by_label.predict_pmf(NEW.data[:99]))


SOFT = {
    "pandas": PROBA,
    "polars": pl.from_pandas(PROBA),
    "single": PROBA.astype(np.float32),
    "nullable": PROBA.astype("Float64"),
    "objects": PROBA.astype(object),
    "array": PROBA.to_numpy(),
    "list": PROBA.to_numpy().tolist(),
}


@pytest.mark.parametrize("name", SOFT)
def test_soft_groups_come_from_any_library(name):
    with pytest.warns(ProxyWarning, match="Groups are given as probabilities"):
        model = simple(confidence=None).fit(X, Y, sensitive_features=SOFT[name])
    assert model.groups_.tolist() == (["a", "b"] if name not in ("array", "list") else [0, 1])
    assert model.group_summary_.soft
    np.testing.assert_allclose(model.group_summary_.counts, DATA.group_proba.sum(axis=0), rtol=1e-6)
    with pytest.warns(ProxyWarning):
        eh.audit(DATA.scores, SOFT[name], n_boot=20)


@pytest.mark.parametrize("missing", ["NaN", "NA", "null", "None"])
def test_soft_groups_may_be_missing_too(missing):
    some = PROBA.where(pd.Series(KNOWN), np.nan)
    given = {
        "NaN": some,
        "NA": some.astype("Float64"),
        "null": pl.from_pandas(some),
        "None": some.astype(object).where(some.notna(), None).to_numpy().tolist(),
    }[missing]
    (groups,) = read_sensitive(given, len(Y)).values()
    np.testing.assert_array_equal(groups.known, KNOWN)
    np.testing.assert_allclose(groups.proba[KNOWN], DATA.group_proba[KNOWN], atol=1e-12)
    model = simple(confidence=None).fit(X, Y, sensitive_features=given)
    assert model.group_summary_.n_known == KNOWN.sum()
    assert eh.audit(DATA.scores, given, n_boot=20).n_unknown == (~KNOWN).sum()


def test_a_group_model_learns_soft_groups_by_weighted_rows():
    model = simple(calibration=None).fit(X, Y, sensitive_features=PROBA)
    twice, codes = np.repeat(X, 2, axis=0), np.tile([0, 1], len(X))
    wanted = LogisticRegression().fit(twice, codes, sample_weight=DATA.group_proba.ravel())
    np.testing.assert_allclose(model.sensitive_estimator_.coef_, wanted.coef_, rtol=1e-3, atol=1e-4)
    assert "by probabilities only" in str(model)
    facts = gather(model, X, Y, sensitive_features=PROBA, n_tolerances=0)
    assert [group.name for group in facts.groups] == ["a", "b"]


@pytest.mark.parametrize(
    "settings",
    [{"calibration": "joint"}, {"calibration": None}, {"cv": 3}, {"confidence": 0.9}],
)
def test_soft_groups_go_with_the_other_settings(settings):
    weights = np.linspace(0.5, 2.0, len(Y))
    model = simple(**settings).fit(X, Y, sensitive_features=PROBA, sample_weight=weights)
    assert fresh_distance(model) < 0.1


def test_soft_groups_go_with_classes_many_groups_and_a_policy_that_is_told_them():
    odds = eh.ParityClassifier(criterion="equalized_odds", epsilon=0.1).fit(
        X, CLASSES, sensitive_features=PROBA
    )
    assert len(odds.groups_) == 4
    separate = simple(attributes="separate").fit(X, Y, sensitive_features=PROBA)
    assert separate.groups_.tolist() == [(0, "a"), (0, "b")]
    aware = simple(aware=True).fit(X, Y, sensitive_features=PROBA)
    told = pd.DataFrame(NEW.group_proba[:, ::-1], columns=["b", "a"])
    _, given = aware.predict_scores(NEW.data, sensitive_features=told)
    np.testing.assert_allclose(given, NEW.group_proba)
    many = make_population(1500, n_groups=4, random_state=3)
    model = simple(small_groups="merge", min_group_size=10).fit(
        many.data, many.target, sensitive_features=many.group_proba
    )
    assert model.groups_.tolist() == [0, 1, 2, 3]
    rare = many.group_proba.copy()
    rare[:, :2] *= 0.1
    rare = pd.DataFrame(rare / rare.sum(axis=1, keepdims=True), columns=list("abcd"))
    with pytest.raises(ValueError, match="fewer than min_group_size=80 rows: 'a'"):
        simple(min_group_size=80).fit(many.data, many.target, sensitive_features=rare)
    merged = simple(min_group_size=80, small_groups="merge")
    sizes = rare.sum()
    small = [name for name in "abcd" if np.floor(sizes[name]) < 80]
    merged.fit(many.data, many.target, sensitive_features=rare)
    assert merged.groups_.tolist() == [*(name for name in "abcd" if name not in small), "other"]
    np.testing.assert_allclose(merged.group_summary_.counts[-1], sizes[small].sum())


def test_a_warning_of_a_proxy_is_at_the_line_of_the_user():
    for measure in (metrics.unfairness, metrics.ks_unfairness, eh.audit, certify_held_out, unfairness_bounds):
        with pytest.warns(ProxyWarning) as caught:
            measure(DATA.scores, PROBA)
        assert {each.filename for each in caught} == {__file__}
    with pytest.warns(ProxyWarning) as caught:
        simple(confidence=None).fit(X, Y, sensitive_features=PROBA)
    assert caught[0].filename == __file__


def test_an_audit_of_soft_groups_has_what_they_may_hide_and_the_truth_is_within():
    rng = np.random.default_rng(5)
    place = rng.integers(10, size=20_000)
    share = np.linspace(0.1, 0.9, 10)[place]
    group = rng.random(len(place)) < share
    values = rng.normal(size=len(place)) + 1.5 * (group - share)  # the proxy's error is all that counts
    proba = pd.DataFrame({"no": 1 - share, "yes": share})
    with pytest.warns(ProxyWarning):
        found = eh.audit(values, proba, n_boot=20)
    truth = metrics.unfairness(values, np.where(group, "yes", "no"))
    possible = found.possible["ks"]
    assert found.measures["ks"].estimate.max() < 0.02 < 0.15 < min(truth.values())  # it sees next to nothing
    assert all(possible.least <= list(truth.values()))
    assert all(possible.most >= list(truth.values()))
    assert "Whatever the probabilities of groups hide, it is between" in found.verdict
    assert "possible: 0 to " in found._repr_html_()
    table = found.frame("pandas").query("measure == 'ks'")
    assert table["most"].tolist() == possible.most.tolist()
    direct = unfairness_bounds(values, proba, proxy=place)
    np.testing.assert_allclose(direct.most, possible.most)


def test_a_certificate_of_soft_groups_is_that_of_groups_drawn_from_them():
    rng = np.random.default_rng(6)
    share = rng.random(5000)
    values = rng.normal(size=5000) + share
    with pytest.warns(ProxyWarning):
        found = certify_held_out(values, np.column_stack([1 - share, share]))
    truth = metrics.unfairness(values, np.column_stack([1 - share, share]))
    assert all(found.lower <= list(truth.values()))
    assert all(found.upper >= list(truth.values()))
    assert found.by_proba
    assert "provided that the probabilities of groups are right" in str(found)


def test_soft_groups_that_cannot_serve_are_refused_before_any_fit():
    class Never(LinearRegression):
        def fit(self, *args, **kwargs):
            raise AssertionError("nothing is to be fitted")

    with pytest.raises(ValueError, match="KNeighborsClassifier does not accept sample_weight"):
        simple(estimator=Never(), sensitive_estimator=KNeighborsClassifier()).fit(
            X, Y, sensitive_features=PROBA
        )
    with pytest.raises(ValueError, match=r"fractions.*sums to 2"):
        simple(estimator=Never()).fit(X, Y, sensitive_features=2 * PROBA)
    with pytest.raises(ValueError, match="must be labels: group probabilities cannot be used to prove"):
        simple(estimator=Never(), confidence=0.9).fit(
            X, Y, sensitive_features=GROUPS, calibration_data=(X, PROBA)
        )
    with pytest.raises(ValueError, match="nothing to bound"):
        unfairness_bounds(Y, GROUPS)


# known of other people


def test_groups_of_other_people_are_enough():
    model = simple().fit(X, Y, sensitive_data=(OTHER.data, OTHER.sensitive_features))
    np.testing.assert_allclose(model.estimator_.coef_, LinearRegression().fit(X, Y).coef_)
    of_other = LogisticRegression().fit(OTHER.data, OTHER.sensitive_features)
    np.testing.assert_allclose(model.sensitive_estimator_.coef_, of_other.coef_, rtol=1e-3)
    assert model.n_rows_ == len(Y)
    assert model.certificate_.out_of_sample.n_rows == len(OTHER.target)
    assert model.certificate_.calibration.n_rows == len(OTHER.target)
    assert model.group_summary_.other_table
    assert "The groups were learned from 600 rows of another table (0: " in str(model)
    assert fresh_distance(model) < 0.1


@pytest.mark.parametrize("confidence", ["auto", None])
def test_groups_of_other_people_go_with_unlabelled_rows_missing_soft_ones_and_classes(confidence):
    some = OTHER.sensitive_features.astype(float)
    some[:100] = np.nan
    model = simple(confidence=confidence).fit(
        X, Y, sensitive_data=(OTHER.data, some), X_unlabeled=NEW.data[:3000]
    )
    assert model.group_summary_.n_known == 500
    assert model.n_rows_ == 3000
    soft = simple(confidence=confidence).fit(X, Y, sensitive_data=(OTHER.data, OTHER.group_proba))
    assert soft.group_summary_.soft
    decided = eh.ParityClassifier(confidence=confidence).fit(
        X, CLASSES, sensitive_data=(OTHER.data, OTHER.sensitive_features)
    )
    assert decided.predict(X[:5]).shape == (5,)
    table, other = (
        pd.DataFrame({"x": rows[:, 0], "half": np.arange(len(rows)) % 2}) for rows in (X, OTHER.data)
    )
    within = simple(confidence=confidence, conditional_on="half")
    within.fit(table, Y, sensitive_data=(other, OTHER.sensitive_features))
    assert [stratum for stratum, _ in within.groups_] == [0, 0, 1, 1]


def test_a_frontier_and_a_grid_of_settings_take_groups_of_other_people():
    path = eh.frontier(
        simple(), X, Y, sensitive_data=(OTHER.data, OTHER.sensitive_features), epsilons=[0.05, 0.2]
    )
    assert len(path.frame()) >= 2


WRONG = {
    "both": ({"sensitive_features": GROUPS}, {}, "but not both"),
    "aware": ({}, {"aware": True}, "aware=True needs the group of every row of X"),
    "no pair": ({"sensitive_data": OTHER.data}, {}, r"must be a pair \(X_other, groups\)"),
    "columns": (
        {"sensitive_data": (OTHER.data[:, :1], OTHER.sensitive_features)},
        {},
        "have the columns of X",
    ),
    "groups": ({"sensitive_data": (OTHER.data, [0, 1])}, {}, "sensitive_data has 2 rows, but there are 600"),
    "nobody": ({"sensitive_data": (OTHER.data, [None] * 600)}, {}, "sensitive_data is missing in every row"),
    "one group": ({"sensitive_data": (OTHER.data, ["a"] * 600)}, {}, "needs two groups or more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_groups_of_other_people_that_cannot_serve_are_refused(case):
    arguments, settings, message = WRONG[case]
    arguments = {"sensitive_data": (OTHER.data, OTHER.sensitive_features), **arguments}
    with pytest.raises(ValueError, match=message):
        simple(**settings).fit(X, Y, **arguments)
    with pytest.raises(ValueError, match="both outcome and group are known"):
        eh.ParityClassifier(criterion="equalized_odds").fit(
            X, CLASSES, sensitive_data=(OTHER.data, OTHER.sensitive_features)
        )


# the promise

KNOWLEDGE = {
    "all": lambda rows, other: {"sensitive_features": rows.sensitive_features},
    "half": lambda rows, other: {
        "sensitive_features": np.where(np.arange(2000) % 2 == 0, None, rows.sensitive_features)
    },
    "a fifth": lambda rows, other: {
        "sensitive_features": np.where(np.arange(2000) % 5 != 0, None, rows.sensitive_features)
    },
    "probabilities": lambda rows, other: {"sensitive_features": rows.group_proba},
    "other people": lambda rows, other: {"sensitive_data": (other.data, other.sensitive_features)},
}


@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWLEDGE)
def test_the_promise_to_new_people_is_kept_on_average_whatever_is_known_of_the_groups(known):
    settings, distances = {"n_groups": 2, "separation": 2.0}, []
    new = make_population(100_000, random_state=999, **settings)
    for seed in range(25):
        rows = make_population(2000, random_state=100 + seed, **settings)
        other = make_population(1000, random_state=500 + seed, **settings)
        model = eh.ParityRegressor(LinearRegression(), LogisticRegression(), epsilon=0.06)
        model.fit(rows.data, rows.target, **KNOWLEDGE[known](rows, other))
        distances.append(max(metrics.ks_unfairness(model.predict_pmf(new.data), new.group_proba).values()))
    error = np.std(distances) / np.sqrt(len(distances))
    print(f"{known}: {np.mean(distances):.4f}, standard error {error:.4f}")  # noqa: T201  for docs/how-to/groups.md
    assert np.mean(distances) <= 0.06 + 2.0 * error
