"""The group of each row is read in one way: the same groups and the same words, whatever is asked."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from evenhand import metrics
from evenhand._utils.labels import read_columns, read_groups
from evenhand.baselines import ADW, WassersteinBarycentre
from evenhand.certificates import certify_held_out, certify_plugin
from evenhand.datasets import make_population
from evenhand.metrics import Membership
from evenhand.plots import DistributionDisplay, MovementDisplay
from evenhand.reporting import gather

FIT, NEW = (make_population(300, n_groups=4, random_state=seed) for seed in (0, 1))
N_ROWS = len(NEW.target)
COMBINATIONS = (("f", False), ("f", True), ("m", False), ("m", True))
STEP = eh.ParityPostprocessor(atoms=9, beta=50.0).fit(FIT.scores, FIT.group_proba)
PREDICTED = STEP.predict(NEW.scores, NEW.group_proba)
ROWS = (NEW.scores, NEW.group_proba)


def two_columns(population):
    """Sex and age group of each row, as lists."""
    codes = population.sensitive_features
    return np.array(["f", "m"])[codes // 2].tolist(), (codes % 2 == 1).tolist()


LIBRARIES = {
    "pandas": lambda sex, old: pd.DataFrame({"sex": sex, "old": old}),
    "polars": lambda sex, old: pl.DataFrame({"sex": sex, "old": old}),
    "NumPy": lambda sex, old: np.array([sex, old], dtype=object).T,
    "lists": lambda sex, old: [list(row) for row in zip(sex, old, strict=True)],
    "tuples": lambda sex, old: list(zip(sex, old, strict=True)),
}


def estimator():
    return eh.ParityRegressor(LinearRegression(), LogisticRegression(), atoms=9, beta=50.0, cv=2)


@pytest.fixture(scope="module")
def fitted():
    """An estimator of the four combinations, fitted."""
    return estimator().fit(FIT.data, FIT.target, sensitive_features=LIBRARIES["pandas"](*two_columns(FIT)))


# What each public function makes of the groups of the new rows: their labels.
TAKERS = {
    "fit": lambda given: estimator().fit(NEW.data, NEW.target, sensitive_features=given).groups_.tolist(),
    "baseline": lambda given: (
        WassersteinBarycentre(LinearRegression())
        .fit(NEW.data, NEW.target, sensitive_features=given)
        .groups_.tolist()
    ),
    "ADW": lambda given: (
        ADW(max_iter=5, min_iter=1).fit(NEW.data, NEW.target, sensitive_features=given).groups_.tolist()
    ),
    "frontier": lambda given: (
        eh.frontier(STEP, *ROWS, epsilons=[0.1], test=(*ROWS, NEW.target, given)).base.labels
    ),
    "report": lambda given: [
        group.name for group in gather(STEP, ROWS, sensitive_features=given, n_tolerances=0).groups
    ],
    "audit": lambda given: eh.audit(PREDICTED, given, n_boot=20).groups,
    "audit within": lambda given: [
        group for _, group in eh.audit(PREDICTED, given, given=np.zeros(N_ROWS), n_boot=20).groups
    ],
    "unfairness": lambda given: metrics.unfairness(PREDICTED, given),
    "ks_unfairness": lambda given: metrics.ks_unfairness(PREDICTED, given),
    "tv_unfairness": lambda given: metrics.tv_unfairness(PREDICTED, given),
    "w1_unfairness": lambda given: metrics.w1_unfairness(PREDICTED, given),
    "decision_gaps": lambda given: metrics.decision_gaps(PREDICTED > 0, given),
    "unfairness_interval": lambda given: metrics.unfairness_interval(PREDICTED, given, n_boot=20).labels,
    "risk_interval": lambda given: metrics.risk_interval(NEW.target, PREDICTED, given).labels,
    "certify_held_out": lambda given: certify_held_out(STEP, given, X=ROWS).groups,
    "distribution": lambda given: DistributionDisplay.from_predictions(NEW.scores, PREDICTED, given).groups,
    "distribution of a model": lambda given: DistributionDisplay.from_model(STEP, *ROWS, given).groups,
    "movement": lambda given: MovementDisplay.from_predictions(NEW.scores, PREDICTED, given).groups,
    "movement of a model": lambda given: MovementDisplay.from_model(STEP, *ROWS, given).groups,
}
REFUSERS = TAKERS | {
    "parity_score": lambda given: metrics.parity_score(None, PREDICTED, sensitive_features=given),
    "certify_plugin": lambda given: certify_plugin(STEP, given, scores=ROWS[0], group_proba=ROWS[1]),
}
# Without labels these take the groups by their probabilities.
OPTIONAL = ("frontier", "distribution of a model", "movement of a model")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.EvenhandWarning")
def test_two_columns_of_labels_are_the_same_groups_everywhere(name, library):
    found = TAKERS[name](LIBRARIES[library](*two_columns(NEW)))
    wanted = COMBINATIONS if name != "report" else ["f, False", "f, True", "m, False", "m, True"]
    assert list(found) == list(wanted)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_of_two_columns_is_reported_and_certified_by_them(fitted, library):
    given = LIBRARIES[library](*two_columns(NEW))
    facts = gather(fitted, NEW.data, NEW.target, sensitive_features=given, n_tolerances=0)
    assert [group.name for group in facts.groups] == ["f, False", "f, True", "m, False", "m, True"]
    certificate = certify_held_out(fitted, given, X=NEW.data)
    np.testing.assert_allclose(certificate.estimate, facts.after.ks, atol=1e-12)
    assert certify_plugin(fitted, given, NEW.target, X=NEW.data).groups == COMBINATIONS


WRONG = {
    "missing everywhere": (
        pd.DataFrame({"sex": two_columns(NEW)[0], "age": [None] * N_ROWS}),
        "sensitive_features is missing in (every row|300 rows, the first of them row 0: leave these)",
    ),
    "too few": (["f", "m"], "sensitive_features has 2 rows, but there are 300: it needs one label per row"),
    "too few of two columns": (
        [["f", 1]] * 7,
        "sensitive_features has 7 rows, but there are 300: it needs one label per row",
    ),
    "a cube": (
        np.zeros((300, 2, 2)),
        r"sensitive_features must have shape \(n_rows,\) or \(n_rows, n_columns\): got \(300, 2, 2\)",
    ),
    "none": (None, "sensitive_features is missing: pass the group of each row"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("name", REFUSERS)
def test_bad_labels_are_refused_in_the_same_words_everywhere(name, case):
    given, message = WRONG[case]
    if given is None and name in OPTIONAL:
        assert len(REFUSERS[name](None)) == 4
        return
    with pytest.raises(ValueError, match=f"^{message}"):
        REFUSERS[name](given)


MISSING = {
    "missing": [*two_columns(NEW)[0][:-1], None],
    "missing in a column": pd.DataFrame(
        {"sex": two_columns(NEW)[0], "old": [*two_columns(NEW)[1][:-1], np.nan]}
    ),
}
KEEPS_ALL = (  # these need the group of every row
    "baseline",
    "ADW",
    "certify_plugin",
)


@pytest.mark.parametrize("case", MISSING)
@pytest.mark.parametrize("name", REFUSERS)
def test_a_row_without_a_group_is_left_out_or_refused_and_never_a_group_of_its_own(name, case):
    given = MISSING[case]
    if name in KEEPS_ALL:
        with pytest.raises(ValueError, match="is missing in 1 rows, the first of them row 299: leave these"):
            REFUSERS[name](given)
        return
    full = LIBRARIES["pandas"](*two_columns(NEW)) if case != "missing" else two_columns(NEW)[0]
    found, wanted = REFUSERS[name](given), REFUSERS[name](full)
    if name != "parity_score":
        assert list(found) == list(wanted)


SOFT = ("audit", "unfairness", "unfairness_interval", "distribution", "movement")


@pytest.mark.parametrize("name", SOFT)
def test_numbers_that_sum_to_one_are_probabilities_of_the_columns(name):
    named = pd.DataFrame(NEW.group_proba, columns=list("abcd"))
    assert list(TAKERS[name](named)) == list("abcd")
    assert list(TAKERS[name](pl.from_pandas(named))) == list("abcd")
    assert list(TAKERS[name](NEW.group_proba)) == [0, 1, 2, 3]
    assert list(TAKERS[name](NEW.group_proba.tolist())) == [0, 1, 2, 3]
    assert list(TAKERS[name](NEW.group_proba.astype(np.float32))) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", SOFT)
def test_numbers_that_are_neither_labels_nor_probabilities_are_told_both_readings(name):
    wrong = NEW.group_proba.copy()
    wrong[3, 0] += 0.5
    message = r"^sensitive_features has 4 columns .*probabilities.*row 3 sums to 1\.5.*labels.*whole numbers"
    with pytest.raises(ValueError, match=message):
        TAKERS[name](wrong)


@pytest.mark.parametrize("name", SOFT)
def test_whole_numbers_in_several_columns_are_labels(name):
    codes = NEW.sensitive_features
    assert list(TAKERS[name](np.column_stack([codes // 2, codes]))) == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_distances_by_probabilities_are_those_of_certain_labels():
    certain = np.eye(4)[NEW.sensitive_features]
    by_label, by_proba = (
        metrics.ks_unfairness(PREDICTED, given) for given in (NEW.sensitive_features, certain)
    )
    assert by_proba == pytest.approx(by_label)


def test_labels_are_plain_values_in_order_and_those_of_several_types_go_by_type():
    assert read_groups(np.array([3, 1, 3]), 3).labels == (1, 3)
    assert all(type(label) is int for label in read_groups([np.int64(3), np.int64(1)], 2).labels)
    mixed = read_groups(["b", 2, "a", 1], 4)
    assert mixed.labels == (1, 2, "a", "b")
    assert mixed.codes.tolist() == [3, 1, 2, 0]
    moments = pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01"]))
    assert read_groups(moments, 2).labels == tuple(sorted(moments))


def test_columns_are_told_by_name_or_by_number():
    sex, old = two_columns(NEW)
    assert list(read_columns(LIBRARIES["polars"](sex, old), N_ROWS)) == ["sex", "old"]
    assert list(read_columns(LIBRARIES["lists"](sex, old), N_ROWS)) == [0, 1]
    assert list(read_columns(pd.Series(sex, name="sex"), N_ROWS)) == [0]


@pytest.mark.parametrize("weighted", [False, True])
def test_an_audit_within_strata_is_that_of_each_stratum(weighted):
    rng = np.random.default_rng(0)
    strata, groups = rng.choice(["u", "v"], N_ROWS), np.array(["a", "b"])[NEW.sensitive_features % 2]
    weights = rng.uniform(0.5, 2.0, N_ROWS) if weighted else None
    pmf = STEP.predict_pmf(*ROWS)
    known = {"y": NEW.target, "baseline": np.round(NEW.scores, 1), "sample_weight": weights}
    found = eh.audit(pmf, groups, atoms=STEP.atoms_, given=strata, n_boot=40, **known)
    assert found.groups == (("u", "a"), ("u", "b"), ("v", "a"), ("v", "b"))
    assert "for group a (u) is" in found.verdict
    for stratum, places in (("u", slice(0, 2)), ("v", slice(2, 4))):
        rows = strata == stratum
        some = {name: None if each is None else each[rows] for name, each in known.items()}
        alone = eh.audit(pmf[rows], groups[rows], atoms=STEP.atoms_, n_boot=40, **some)
        np.testing.assert_allclose(found.sizes[places], alone.sizes)
        for name, each in alone.measures.items():
            for part in ("estimate", "low", "high"):
                own, other = getattr(found.measures[name], part)[places], getattr(each, part)
                np.testing.assert_allclose(own, other, atol=1e-12)
        for name, floor in alone.floors.items():
            np.testing.assert_allclose(found.floors[name].mean[places], floor.mean, atol=1e-12)
        for name, each in alone.baseline.items():
            np.testing.assert_allclose(found.baseline[name][places], each, atol=1e-12)
    assert found.risk == pytest.approx(metrics.risk(NEW.target, pmf, STEP.atoms_, weights))
    total = np.ones(N_ROWS) if weights is None else weights
    shares = [total[(strata == z) & (groups == s)].sum() / total.sum() for z, s in found.groups]
    np.testing.assert_allclose(found.shares, shares)


def test_groups_in_which_no_row_counts_are_refused():
    with pytest.raises(ValueError, match="No row counts in group 'b'"):
        Membership.read(["a", "b"], 2, np.array([1.0, 0.0]))


def test_scores_and_probabilities_of_a_model_are_what_its_parity_step_sees(fitted):
    scores, group_proba = fitted.predict_scores(NEW.data)
    pmf = fitted.postprocessor_.predict_pmf(scores, group_proba)
    np.testing.assert_allclose(pmf, fitted.predict_pmf(NEW.data), rtol=1e-9)
    np.testing.assert_allclose(scores, fitted.estimator_.predict(NEW.data))
    assert np.array_equal(fitted.atoms_, fitted.atoms_)
    aware = eh.ParityRegressor(LinearRegression(), aware=True, atoms=9)
    aware.fit(FIT.data, FIT.target, sensitive_features=FIT.sensitive_features)
    known = aware.predict_scores(NEW.data, sensitive_features=NEW.sensitive_features)[1]
    assert np.array_equal(known, np.eye(4)[NEW.sensitive_features])
    with pytest.raises(ValueError, match="aware: pass the group"):
        aware.predict_scores(NEW.data)
