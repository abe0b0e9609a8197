"""The out-of-sample estimate in words: of itself, of models, of reports and of cards."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.certificates import OutOfSample
from evenhand.exceptions import ToleranceWarning
from evenhand.metrics import decision_gaps, ks_unfairness
from evenhand.reporting import gather
from evenhand.reporting.card import render_markdown
from evenhand.reporting.estimates import measure_noise
from evenhand.reporting.page import render_page
from evenhand.reporting.words import outlook_columns

NAMES = np.array(["north", "south"])
KEPT = OutOfSample(
    groups=("north", "south"),
    epsilon=np.array([0.05, 0.05]),
    tolerance=np.array([0.03, 0.03]),
    measured=np.array([0.052, 0.03]),
    noise=np.array([0.02, 0.01]),
    expected=np.array([0.048, 0.02]),
    bound=None,
    confidence=None,
    ratio=0.96,
    n_rows=12_345,
    systematic=np.array([0.04, 0.01]),
    distance="KS distance",
)
BROKEN = replace(KEPT, expected=np.array([0.09, 0.02]), ratio=1.8, rows_needed=54_321)
REMEDIES = ('calibration="joint"', "a better model of the group", "aware=True")


@pytest.fixture(scope="module")
def rows():
    """Rows to fit on, and others."""
    return [eh.datasets.make_population(3000, n_groups=2, separation=2.0, random_state=s) for s in (0, 1)]


def fitted(rows, **settings):
    model = eh.ParityRegressor(LinearRegression(), atoms=31, **settings)
    return model.fit(rows.data, rows.target, sensitive_features=NAMES[rows.sensitive_features])


@pytest.fixture(scope="module")
def model(rows):
    return fitted(rows[0], confidence=0.9)


def test_the_text_has_the_estimate_the_tolerance_and_the_sampling_noise():
    assert str(KEPT) == (
        "Estimated KS distance on new data: 0.048 (group north; tolerance 0.05). Cross-validated on 12,345 "
        "rows: 0.052; expected from sampling noise alone: 0.02."
    )


def test_the_text_has_the_bound_and_whether_it_is_proved():
    sure = replace(KEPT, bound=np.array([0.0499, 0.03]), confidence=0.9, ratio=0.998)
    assert "(group north; tolerance 0.05), at most 0.0499 with confidence 0.9." in str(sure)
    proved = replace(sure, proved=True)
    assert "proved to be at most 0.0499 with confidence 0.9. On 12,345 held-out rows: " in str(proved)


def test_a_shortfall_has_the_smallest_distance_its_group_the_rows_that_are_needed_and_what_may_help():
    assert BROKEN.shortfall() == (
        "epsilon=0.05 cannot be expected to hold on new data: the smallest KS distance within reach is about "
        "0.09 (group north). About 54,000 rows with known group would be enough, instead of 12,345."
    )
    # the models are not named where more rows are enough
    assert BROKEN.shortfall(REMEDIES) == BROKEN.shortfall()
    of_models = replace(BROKEN, systematic=np.array([0.08, 0.0]))
    assert of_models.shortfall(REMEDIES).endswith(
        'instead of 12,345. Or try: calibration="joint", a better model of the group or aware=True.'
    )
    hopeless = replace(of_models, rows_needed=None)
    assert (
        "More rows alone will not help: the models do not predict the group well enough."
        in hopeless.shortfall()
    )
    assert hopeless.shortfall(REMEDIES[:1]).endswith('What may help: calibration="joint".')
    # zero is out of reach of any models: these are named where they are much of what is left
    zero = replace(BROKEN, epsilon=np.zeros(2), rows_needed=None)
    assert zero.shortfall(REMEDIES).endswith(
        "Sampling noise shrinks with the square root of the number of rows."
    )
    assert "What may help" in replace(zero, systematic=np.array([0.08, 0.0])).shortfall(REMEDIES)


def test_a_shortfall_of_a_proof_has_its_confidence_and_the_rows_to_set_aside():
    proof = replace(BROKEN, bound=np.array([0.11, 0.03]), confidence=0.9, ratio=2.2, proved=True)
    assert proof.shortfall().startswith("epsilon=0.05 cannot be proved on new data with confidence 0.9: the")
    assert "about 0.11" in proof.shortfall()
    assert "rows in calibration_data would be enough" in proof.shortfall()


def test_groups_within_strata_are_called_by_both():
    within = replace(KEPT, groups=(("yes", "north"), ("yes", "south")), strata=True)
    assert "(group north (yes); tolerance 0.05)" in str(within)
    assert within.to_dict()["groups"] == ["north (yes)", "south (yes)"]


def test_printing_a_model_adds_its_estimate_and_repr_stays_scikit_learn_s(rows, model):
    assert str(model) == f"{model!r}\n{model.certificate_.out_of_sample}"
    assert "\n" not in repr(model)
    assert str(eh.ParityRegressor(epsilon=0.1)) == "ParityRegressor(epsilon=0.1)"
    on_rows = fitted(rows[0], confidence=None)
    assert "No estimate for new data: epsilon is for the rows of the parity step" in str(on_rows)
    assert f"{on_rows.certificate_.violation.max():.4g}" in str(on_rows)


def test_a_post_processor_prints_its_estimate_too(rows):
    data = rows[0]
    step = eh.ParityPostprocessor(epsilon=0.1, atoms=31)
    step.fit(data.scores, data.group_proba, sensitive_features=data.sensitive_features)
    assert str(step).endswith(str(step.certificate_.out_of_sample))
    assert "No estimate for new data" in str(step.partial_fit(data.scores, data.group_proba))


def test_names_of_groups_do_not_become_markup_in_a_notebook(rows):
    data = rows[0]
    names = np.array(["<b>north</b>", "<i>south</i>"])[data.sensitive_features]
    model = eh.ParityRegressor(LinearRegression(), atoms=31).fit(
        data.data, data.target, sensitive_features=names
    )
    for shown in (model, model.certificate_, model.certificate_.out_of_sample):
        assert "<b>north" not in shown._repr_html_()
    assert "&lt;" in model.certificate_.out_of_sample._repr_html_().rpartition("<p")[2]


@pytest.mark.parametrize(
    ("settings", "told", "not_told"),
    [
        ({"calibration": None}, ('calibration="joint"', "sensitive_estimator", "aware=True"), ()),
        ({}, ("sensitive_estimator", "aware=True"), ('calibration="joint"',)),
        ({"aware": True}, (), ("sensitive_estimator", "aware=True", 'calibration="joint"')),
    ],
)
def test_the_warning_names_only_what_the_model_has_not_done_yet(settings, told, not_told):
    remedies = eh.ParityRegressor(**settings)._remedies()
    text = replace(BROKEN, rows_needed=None).shortfall(remedies)
    assert all(each in text for each in told)
    assert not any(each in text for each in not_told)


def test_a_fit_whose_epsilon_is_out_of_reach_warns_where_the_user_called_it(rows):
    with pytest.warns(ToleranceWarning, match=r"epsilon=0\.001 cannot be expected to hold") as caught:
        fitted(rows[0], epsilon=0.001)
    (warning,) = (each for each in caught if each.category is ToleranceWarning)
    assert warning.filename == __file__


def test_the_report_has_the_tolerance_the_estimate_the_proof_and_the_noise_of_every_group(rows, model):
    new = rows[1]
    groups = NAMES[new.sensitive_features]
    facts = gather(model, new.data, new.target, sensitive_features=groups, n_tolerances=0)
    estimate = model.certificate_.out_of_sample
    assert [line.name for line in facts.outlook] == ["north", "south"]
    assert_allclose([line.asked for line in facts.outlook], 0.05)
    assert_allclose([line.expected for line in facts.outlook], estimate.expected)
    assert_allclose([line.bound for line in facts.outlook], estimate.bound)
    assert_allclose([line.proved for line in facts.outlook], facts.held_out.numbers["upper"])
    shown = ks_unfairness(model.predict_pmf(new.data), groups)
    assert_allclose([line.shown for line in facts.outlook], list(shown.values()))
    columns = outlook_columns(facts)
    assert columns["expected"] == "Expected on new data"
    assert columns["bound"] == "At most (90 %)"
    page, card = render_page(facts), render_markdown(facts)
    for text in (page, card):
        assert "Expected on new data" in text
        assert "Cross-validated on 3,000 rows" in text
        assert "Sampling noise" in text
    # the certificate of the fit is about the tolerance of its rows, the bounds about what was asked for
    assert_allclose(facts.held_out.numbers["epsilon"], 0.05)
    assert_allclose(facts.optimisation.numbers["epsilon"], estimate.tolerance)
    assert "asked for new people: 0.05" in page


def test_the_report_of_a_model_without_an_estimate_says_so(rows):
    model = fitted(rows[0], confidence=None)
    new = rows[1]
    known = {"sensitive_features": NAMES[new.sensitive_features], "n_tolerances": 0}
    facts = gather(model, new.data, new.target, **known)
    assert facts.out_of_sample.numbers is None
    assert "There is no estimate for new data" in facts.out_of_sample.sentences[0]
    assert {line.expected for line in facts.outlook} == {None}
    assert "expected" not in outlook_columns(facts)
    assert "asked on the rows of the fit: 0.05" in render_page(facts)


def test_an_epsilon_out_of_reach_is_reported_with_names_that_turn_no_words(rows):
    data = rows[0]
    names = np.array(["\u0645\u062c", "b"])[data.sensitive_features]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ToleranceWarning)
        model = eh.ParityRegressor(LinearRegression(), atoms=31, epsilon=0.001)
        model.fit(data.data, data.target, sensitive_features=names)
    facts = gather(model, data.data, data.target, sensitive_features=names, n_tolerances=0)
    told = " ".join(facts.out_of_sample.sentences)
    assert "cannot be expected to hold" in told
    assert not re.search("group \u0645", told)


def test_noise_is_what_random_groups_of_the_same_sizes_show(rows, model):
    new = rows[1]
    facts_rows = eh.evaluation.heldout.read_held_out(
        {"X": new.data, "y": new.target, "sensitive_features": NAMES[new.sensitive_features]}, model
    )
    notion = eh.dual.parity.find_parity("cdf")
    found = measure_noise(model.policy_, facts_rows, notion)
    pmf, rng = model.predict_pmf(new.data), np.random.default_rng(1)
    drawn = [list(ks_unfairness(pmf, rng.permutation(new.sensitive_features)).values()) for _ in range(200)]
    assert_allclose(found, np.mean(drawn, axis=0), rtol=0.15)


def test_a_classifier_s_report_has_the_estimate_of_its_gaps(rows):
    data, new = rows
    model = eh.ParityClassifier(epsilon=0.05)
    model.fit(data.data, data.target > 0, sensitive_features=NAMES[data.sensitive_features])
    groups = NAMES[new.sensitive_features]
    facts = gather(model, new.data, new.target > 0, sensitive_features=groups, n_tolerances=0)
    gaps = decision_gaps(model.predict_proba(new.data), groups)
    assert_allclose([line.shown for line in facts.outlook], list(gaps.values()))
    assert_allclose([line.expected for line in facts.outlook], model.certificate_.out_of_sample.expected)
