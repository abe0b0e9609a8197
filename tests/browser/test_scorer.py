"""The page that scores: a reader types, and sees what the library would predict."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression

import evenhand as eh

NAMES = np.array(["north", "south", '"><img src=x onerror=alert(2)>'])
VALUES = "cells => cells.map(cell => Number(cell.dataset.value))"
N_TYPED = 40
OPTIONS = {"n_tolerances": 0, "compare": False}


@pytest.fixture(scope="module")
def people():
    return eh.datasets.make_population(900, n_groups=3, separation=1.5, random_state=0)


@pytest.fixture(scope="module")
def regressor(people):
    model = eh.ParityRegressor(LinearRegression(), epsilon=0.03, confidence=None, random_state=0)
    return model.fit(people.data, people.target, sensitive_features=NAMES[people.sensitive_features])


@pytest.fixture(scope="module")
def classifier(people):
    hired = np.where(people.target > 0.4, "yes", np.where(people.target > -0.2, "perhaps", "no"))
    model = eh.ParityClassifier(epsilon=0.02, confidence=None, random_state=0)
    return model.fit(people.data, hired, sensitive_features=NAMES[people.sensitive_features])


def page_of(model, people, folder):
    groups = NAMES[people.sensitive_features]
    path = folder / "report.html"
    return eh.report(model, people.data, sensitive_features=groups, path=path, scorer=True, **OPTIONS)


def type_in(page, scores, shares):
    """Fill in all fields, with all digits, and read the two distributions of the table."""
    for name, values in (("score", np.atleast_1d(scores)), ("group", shares)):
        for place, value in enumerate(values.tolist()):
            page.locator(f"#scorer [data-{name}='{place}']").fill(repr(value))
    cells = page.locator("#scorer-table td").evaluate_all(VALUES)
    return np.array(cells).reshape(-1, 2).T


def test_typed_scores_are_predicted_as_the_library_does(regressor, people, visit, tmp_path):
    opened = visit(page_of(regressor, people, tmp_path))
    step = regressor.postprocessor_
    assert step.beta_ > 1000  # sharp
    rng = np.random.default_rng(0)
    span = np.ptp(step.atoms_)
    scores = np.append(rng.uniform(step.atoms_[0] - span, step.atoms_[-1] + span, N_TYPED), [0.0, -1e6, 1e12])
    shares = rng.dirichlet([0.5, 0.5, 0.5], len(scores))
    shares[:3] = np.eye(3)
    wanted = step.predict_pmf(scores, shares)
    means = step.predict_mean(scores, shares)
    for score, share, pmf, mean in zip(scores, shares, wanted, means, strict=True):
        before, after = type_in(opened.page, score, share)
        assert_allclose(after, pmf, rtol=0, atol=1e-9)
        assert_allclose(before, eh.explain(step, [score], share[None])[0].before, rtol=0, atol=1e-9)
        assert_allclose(after @ step.atoms_, mean, rtol=0, atol=1e-9 * span)
    assert opened.complaints == []
    assert opened.requests == [(tmp_path / "report.html").as_uri()]


def test_typed_class_probabilities_are_decided_as_the_library_does(classifier, people, visit, tmp_path):
    opened = visit(page_of(classifier, people, tmp_path))
    step, rng = classifier.postprocessor_, np.random.default_rng(0)
    scores, shares = rng.dirichlet([0.5] * 3, N_TYPED), rng.dirichlet([0.5] * 3, N_TYPED)
    for score, share, pmf in zip(scores, shares, step.predict_pmf(scores, shares), strict=True):
        assert_allclose(type_in(opened.page, score, share)[1], pmf, rtol=0, atol=1e-9)
    assert "Predicted \u2068no\u2069: " in opened.page.locator("#scorer-now").inner_text()
    assert opened.complaints == []


def test_words_follow_and_bad_input_is_told(regressor, people, visit, tmp_path):
    page = visit(page_of(regressor, people, tmp_path)).page
    status, first = page.locator("#scorer-now"), page.locator("#scorer [data-group='0']")
    assert "on average" in status.inner_text()
    type_in(page, 0.1, np.array([0.4, 0.4, 0.4]))
    assert "add up to 1.2: they were scaled to one" in status.inner_text()
    thirds = type_in(page, 0.1, np.full(3, 1 / 3))[1]
    assert_allclose(type_in(page, 0.1, np.full(3, 5.0))[1], thirds, atol=1e-12)
    first.fill("-1")
    assert first.get_attribute("aria-invalid") == "true"
    assert status.inner_text().startswith("Type a number in every field")
    assert page.locator("#scorer-chart svg").count() == 0
    first.fill("1")
    assert page.locator("#scorer-chart svg").count() == 1


def test_numbers_that_are_huge_are_refused_and_not_computed_with(people, visit, tmp_path):
    """Their sums and squares are infinite, and would be drawn as a distribution that is none."""
    step = eh.ParityPostprocessor(atoms=[-1.0, 0.0, 0.7, 2.0], beta=3.0).fit(
        people.scores, people.group_proba
    )
    rows, path = (people.scores, people.group_proba), tmp_path / "report.html"
    eh.report(step, rows, sensitive_features=people.sensitive_features, path=path, scorer=True, **OPTIONS)
    opened = visit(path)
    even = np.full(3, 1 / 3)
    for score, shares in ((1e308, even), (-1e308, even), (0.1, np.full(3, 1e308)), (0.1, [1e300, 1.0, 1.0])):
        assert type_in(opened.page, score, np.asarray(shares)).size == 0
        assert "none that is huge" in opened.page.locator("#scorer-now").inner_text()
        assert opened.page.locator("#scorer [aria-invalid='true']").count() >= 1
    for score in (1e100, -1e100, 1e-320):
        assert_allclose(
            type_in(opened.page, score, even)[1], step.predict_pmf([score], even[None])[0], atol=1e-9
        )
    assert opened.complaints == []


@pytest.mark.parametrize("width", [1100, 360])
def test_the_form_fits_the_screen(classifier, people, visit, tmp_path, width):
    page = visit(page_of(classifier, people, tmp_path), viewport={"width": width, "height": 740}).page
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    for box in page.locator("#scorer input").all():
        assert box.bounding_box()["height"] >= 30
        assert box.evaluate("field => field.labels.length") == 1


def test_pages_have_no_scorer_unless_it_is_asked_for(regressor, people, tmp_path):
    groups = NAMES[people.sensitive_features]
    path = tmp_path / "r.html"
    plain = eh.report(regressor, people.data, sensitive_features=groups, path=path, **OPTIONS)
    assert "scorer" not in plain.read_text()


def test_steps_that_are_not_small_are_refused_before_any_work(people, tmp_path):
    groups, path = NAMES[people.sensitive_features], tmp_path / "r.html"
    absolute = eh.ParityRegressor(LinearRegression(), cost="absolute", confidence=None)
    absolute.fit(people.data, people.target, sensitive_features=groups)
    odds = eh.ParityClassifier(criterion="equalized_odds", confidence=None)
    odds.fit(people.data, people.target > 0, sensitive_features=groups)
    for model, words in ((absolute, "mean absolute error"), (odds, "among all rows")):
        with pytest.raises(ValueError, match=words):
            eh.report(model, people.data, sensitive_features=groups, path=path, scorer=True)
    with pytest.raises(TypeError, match="got LinearRegression"):
        eh.report(LinearRegression(), people.data, sensitive_features=groups, path=path, scorer=True)
    assert not path.exists()
