"""What new people are promised, in words: of the promise itself, of models, of reports and of cards."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.certificates import Promise
from evenhand.exceptions import PromiseWarning
from evenhand.metrics import decision_gaps, ks_unfairness
from evenhand.reporting import gather
from evenhand.reporting.card import render_markdown
from evenhand.reporting.page import render_page
from evenhand.reporting.promises import measure_chance
from evenhand.reporting.words import outlook_columns

NAMES = np.array(["north", "south"])
KEPT = Promise(
    groups=("north", "south"),
    epsilon=np.array([0.05, 0.05]),
    tolerance=np.array([0.03, 0.03]),
    measured=np.array([0.052, 0.03]),
    chance=np.array([0.02, 0.01]),
    expected=np.array([0.048, 0.02]),
    bound=None,
    confidence=None,
    n_rows=12_345,
    due_to_models=np.array([0.04, 0.01]),
)
BROKEN = replace(KEPT, expected=np.array([0.09, 0.02]), rows_needed=54_321)
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


def test_the_promise_tells_what_was_asked_what_is_expected_and_what_chance_shows():
    assert str(KEPT) == (
        "Asked for 0.05: new people are expected to see 0.048 (group north). 12 345 rows, cross-fitted, show "
        "0.052 between the true groups, where chance alone would show 0.02."
    )


def test_the_promise_tells_its_bound_and_whether_that_is_proved():
    sure = replace(KEPT, bound=np.array([0.0499, 0.03]), confidence=0.9)
    assert "(group north), at most 0.0499 with confidence 0.9." in str(sure)
    proved = replace(sure, proved=True)
    assert "proved to be at most 0.0499 with confidence 0.9. 12 345 rows set aside show" in str(proved)


def test_a_shortfall_tells_what_can_be_promised_for_which_group_with_how_many_rows_and_what_to_mend():
    assert BROKEN.shortfall() == (
        "0.05 cannot be promised to new people: the smallest distance that can is about 0.09, because of "
        "group north. About 54 000 rows with a known group would do, instead of 12 345."
    )
    # what rows can mend is not blamed on the models
    assert BROKEN.shortfall(REMEDIES) == BROKEN.shortfall()
    of_models = replace(BROKEN, due_to_models=np.array([0.08, 0.0]))
    assert of_models.shortfall(REMEDIES).endswith(
        'instead of 12 345. Or try: calibration="joint", a better model of the group or aware=True.'
    )
    hopeless = replace(of_models, rows_needed=None)
    assert "More rows alone will not do" in hopeless.shortfall()
    assert hopeless.shortfall(REMEDIES[:1]).endswith('What may help: calibration="joint".')
    # zero is out of reach of any models: these are blamed where they are much of what is left
    zero = replace(BROKEN, epsilon=np.zeros(2), rows_needed=None)
    assert zero.shortfall(REMEDIES).endswith("what is chance falls with the root of the rows.")
    assert "What may help" in replace(zero, due_to_models=np.array([0.08, 0.0])).shortfall(REMEDIES)


def test_a_shortfall_of_a_proof_tells_its_confidence_and_the_rows_to_set_aside():
    proof = replace(BROKEN, bound=np.array([0.11, 0.03]), confidence=0.9, proved=True)
    assert proof.shortfall().startswith("0.05 cannot be proved for new people with confidence 0.9: the")
    assert "about 0.11" in proof.shortfall()
    assert "rows in X_calibration would do" in proof.shortfall()


def test_groups_within_strata_are_called_by_both():
    within = replace(KEPT, groups=(("yes", "north"), ("yes", "south")), within=True)
    assert "(group north (yes))" in str(within)
    assert within.to_dict()["groups"] == ["north (yes)", "south (yes)"]


def test_printing_a_model_adds_its_promise_and_repr_stays_scikit_learn_s(rows, model):
    assert str(model) == f"{model!r}\n{model.certificate_.promise}"
    assert "\n" not in repr(model)
    assert str(eh.ParityRegressor(epsilon=0.1)) == "ParityRegressor(epsilon=0.1)"
    on_rows = fitted(rows[0], confidence=None)
    assert "Nothing is promised to new people" in str(on_rows)
    assert f"{on_rows.certificate_.violation.max():.4g}" in str(on_rows)


def test_a_post_processor_prints_its_promise_too(rows):
    data = rows[0]
    step = eh.ParityPostprocessor(epsilon=0.1, atoms=31)
    step.fit(data.scores, data.group_proba, sensitive_features=data.sensitive_features)
    assert str(step).endswith(str(step.certificate_.promise))
    assert "Nothing is promised" in str(step.partial_fit(data.scores, data.group_proba))


def test_a_notebook_shows_the_promise_below_the_diagram(model):
    told = str(model.certificate_.promise)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == str(model)
    assert bundle["text/html"].endswith(f">{told}</p>")
    assert model._repr_html_().endswith(f">{told}</p>")
    with config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
    assert "promise" not in eh.ParityRegressor()._repr_html_()


def test_names_of_groups_do_not_become_markup_in_a_notebook(rows):
    data = rows[0]
    names = np.array(["<b>north</b>", "<i>south</i>"])[data.sensitive_features]
    model = eh.ParityRegressor(LinearRegression(), atoms=31).fit(
        data.data, data.target, sensitive_features=names
    )
    assert "<b>north" not in model._repr_html_()
    assert "&lt;" in model._repr_html_().rpartition("<p ")[2]


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


def test_a_fit_that_cannot_promise_warns_where_the_user_called_it(rows):
    with pytest.warns(PromiseWarning, match=r"0\.001 cannot be promised") as caught:
        fitted(rows[0], epsilon=0.001)
    (warning,) = (each for each in caught if each.category is PromiseWarning)
    assert warning.filename == __file__


def test_the_report_tells_asked_expected_proved_and_chance_of_every_group(rows, model):
    new = rows[1]
    groups = NAMES[new.sensitive_features]
    facts = gather(model, new.data, new.target, sensitive_features=groups, n_tolerances=0)
    promise = model.certificate_.promise
    assert [line.name for line in facts.outlook] == ["north", "south"]
    assert_allclose([line.asked for line in facts.outlook], 0.05)
    assert_allclose([line.expected for line in facts.outlook], promise.expected)
    assert_allclose([line.bound for line in facts.outlook], promise.bound)
    assert_allclose([line.proved for line in facts.outlook], facts.held_out.numbers["upper"])
    shown = ks_unfairness(model.predict_pmf(new.data), groups)
    assert_allclose([line.shown for line in facts.outlook], list(shown.values()))
    columns = outlook_columns(facts)
    assert columns["expected"] == "Expected for new people"
    assert columns["bound"] == "At most (90 %)"
    page, card = render_page(facts), render_markdown(facts)
    for text in (page, card):
        assert "Expected for new people" in text
        assert "By cross-fitting on 3,000 rows" in text
        assert "Chance would show" in text
    # the certificate of the fit is about the tolerance of its rows, the bounds about what was asked for
    assert_allclose(facts.held_out.numbers["epsilon"], 0.05)
    assert_allclose(facts.optimisation.numbers["epsilon"], promise.tolerance)
    assert "asked for new people: 0.05" in page


def test_the_report_of_a_model_that_promises_nothing_says_so(rows):
    model = fitted(rows[0], confidence=None)
    new = rows[1]
    known = {"sensitive_features": NAMES[new.sensitive_features], "n_tolerances": 0}
    facts = gather(model, new.data, new.target, **known)
    assert facts.promise.numbers is None
    assert "Nothing was promised to new people" in facts.promise.sentences[0]
    assert {line.expected for line in facts.outlook} == {None}
    assert "expected" not in outlook_columns(facts)
    assert "asked on the rows of the fit: 0.05" in render_page(facts)


def test_a_promise_that_is_not_kept_is_told_with_names_that_turn_no_words(rows):
    data = rows[0]
    names = np.array(["\u0645\u062c", "b"])[data.sensitive_features]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PromiseWarning)
        model = eh.ParityRegressor(LinearRegression(), atoms=31, epsilon=0.001)
        model.fit(data.data, data.target, sensitive_features=names)
    facts = gather(model, data.data, data.target, sensitive_features=names, n_tolerances=0)
    told = " ".join(facts.promise.sentences)
    assert "cannot be promised" in told
    assert not re.search("group \u0645", told)


def test_chance_is_what_random_groups_of_the_same_sizes_show(rows, model):
    new = rows[1]
    facts_rows = eh.evaluation.heldout.read_held_out(
        {"X": new.data, "y": new.target, "sensitive_features": NAMES[new.sensitive_features]}, model
    )
    notion = eh.dual.parity.find_parity("cdf")
    found = measure_chance(model.postprocessor_.policy_, facts_rows, notion)
    pmf, rng = model.predict_pmf(new.data), np.random.default_rng(1)
    drawn = [list(ks_unfairness(pmf, rng.permutation(new.sensitive_features)).values()) for _ in range(200)]
    assert_allclose(found, np.mean(drawn, axis=0), rtol=0.15)


def test_a_classifier_s_report_has_the_promise_of_its_gaps(rows):
    data, new = rows
    model = eh.ParityClassifier(epsilon=0.05)
    model.fit(data.data, data.target > 0, sensitive_features=NAMES[data.sensitive_features])
    groups = NAMES[new.sensitive_features]
    facts = gather(model, new.data, new.target > 0, sensitive_features=groups, n_tolerances=0)
    gaps = decision_gaps(model.predict_proba(new.data), groups)
    assert_allclose([line.shown for line in facts.outlook], list(gaps.values()))
    assert_allclose([line.expected for line in facts.outlook], model.certificate_.promise.expected)
