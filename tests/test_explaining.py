"""What moved each person, against a softmax of our own and the policy without a group's multipliers."""

import csv
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import evenhand as eh
from evenhand.dual.operators import matrix
from tests.cli_support import make_table
from tests.notions import CASES
from tests.problems import NOTIONS

NAMES = np.array(["A", "B", "C"])


@pytest.fixture(scope="module")
def people():
    return eh.datasets.make_population(400, n_groups=3, random_state=0)


@pytest.fixture(scope="module")
def regressor(people):
    model = eh.ParityRegressor(LinearRegression(), epsilon=0.03, confidence=None, random_state=0)
    return model.fit(people.data, people.target, sensitive_features=NAMES[people.sensitive_features])


@pytest.fixture(scope="module")
def classifier(people):
    hired = np.where(people.target > 0.1, "yes", "no")
    model = eh.ParityClassifier(epsilon=0.02, confidence=None, random_state=0)
    return model.fit(people.data, hired, sensitive_features=NAMES[people.sensitive_features])


def plain_logits(step, score, proba):
    """Costs and pushes of one row in logits, from the definitions and the multipliers alone."""
    grid, prior, strata = step.step_.step.grid, step.group_prior_, step.policy_.strata
    codes = np.zeros(len(prior), int) if strata is None else strata
    inside = codes[:, None] == codes
    totals = 1.0 if strata is None else (inside @ proba) / (inside @ prior)
    imbalance = totals - proba / prior
    tilt = matrix(step.step_.step.resolved.operator).T @ step.multipliers_
    cost = step.policy_.cost
    costs = cost.table(np.asarray(score)[None], grid.atoms)[0] / cost.unit(grid)
    return -step.beta_ * costs, step.beta_ * tilt.T * imbalance[:, None]


def assert_exact(person, step, score, proba):
    costs, pushes = plain_logits(step, score, proba)
    size = max(1.0, np.abs(pushes).max())
    assert_allclose(person.pushes, pushes, rtol=0, atol=1e-11 * size)
    assert_allclose(person.pushes.sum(axis=0), person.tilt, rtol=0, atol=1e-11 * size)
    assert_allclose(person.before, softmax(costs), rtol=0, atol=1e-9)
    assert_allclose(person.pmf, softmax(costs + pushes.sum(axis=0)), rtol=0, atol=1e-9)
    for place, group in enumerate(person.groups):
        rest = np.delete(pushes, place, axis=0).sum(axis=0)
        assert_allclose(person.pmf_without(group), softmax(costs + rest), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_pushes_add_up_to_the_tilt_and_each_one_can_be_taken_away(name):
    case = CASES[name]
    scores, columns = case.rows(300)
    step = case.model().fit(scores, columns, strata=case.strata)
    told = eh.explain(step, scores[:20], columns[:20])
    for person, score, proba in zip(told, scores[:20], np.asarray(columns)[:20], strict=True):
        assert_exact(person, step, score, proba)


@pytest.mark.parametrize("parity", NOTIONS)
def test_a_table_of_people_has_the_numbers_of_the_predictions(parity, people):
    step = eh.ParityPostprocessor(parity=parity, epsilon=0.02).fit(people.scores, people.group_proba)
    rows = people.scores, people.group_proba
    told = eh.explain(step, *rows)
    frame = told.frame("pandas")
    assert_array_equal(frame["predicted"], step.predict_mean(*rows))
    assert_array_equal(frame["draw"], step.predict(*rows))
    assert_array_equal(frame["q95"], step.predict_quantile(*rows, q=0.95))
    assert_array_equal(frame["score"], people.scores)
    pmf = step.predict_pmf(*rows)
    assert_array_equal(told[-1].pmf, pmf[-1])
    for place in range(3):
        multipliers = step.multipliers_.copy()
        multipliers[:, place] = 0.0
        without = step.step_.step.policy(multipliers)
        assert_allclose(frame[f"without: {place}"], without.mean(*rows), rtol=0, atol=1e-9)


def test_gains_are_what_the_pushes_differ_by_and_their_sum_is_never_negative(people, regressor):
    told = eh.explain(regressor, people.data)
    unit = told.policy.cost.unit(told.policy.grid) / told.policy.temperature
    for person in list(told)[:30]:
        assert_allclose(person.gains, unit * person.pushes @ (person.pmf - person.before), atol=1e-12)
    assert told.gains.sum(axis=1).min() > -1e-12


def test_a_constraint_that_is_not_tight_does_not_push(people):
    loose = eh.ParityPostprocessor(epsilon=[0.01, 0.5, 0.5]).fit(people.scores, people.group_proba)
    told = eh.explain(loose, people.scores, people.group_proba)
    assert_array_equal(told.gains[:, 1:], 0.0)
    assert_array_equal(told.without[:, 1:], np.column_stack([told.value, told.value]))
    assert "Constraints of 1 and 2: no push." in told[0].sentences


def test_words_have_the_numbers(people, regressor):
    person = eh.explain(regressor, people.data)[5]
    scores, proba = regressor.predict_scores(people.data[5:6])
    assert f"score {scores[0]:.4g}; predicted {person.value:.4g} on average" in str(person)
    assert f"A {proba[0, 0]:.1%} (share of all: {person.policy.group_prior[0]:.1%})" in str(person)
    strongest = int(np.abs(person.value - person.without).argmax())
    assert person.sentences[2].startswith(f"The constraint of {NAMES[strongest]} pushes it")
    assert f"without it the mean would be {person.without[strongest]:.4g}." in person.sentences[2]


def test_words_of_classes_follow_the_chance_of_one(people, classifier):
    told = eh.explain(classifier, people.data)
    chances = classifier.predict_proba(people.data)
    assert_array_equal(told.spread, chances)
    assert_array_equal(told.value, chances[:, 1])
    frame = told.frame("pandas")
    assert set(frame["followed"]) == {"yes"}
    assert_array_equal(frame["draw"], classifier.predict(people.data))
    assert_allclose(frame["score: yes"], classifier.predict_scores(people.data)[0][:, 1])
    moved = told[int(np.abs(told.value - told.unpushed).argmax())]
    assert "yes by" in moved.sentences[2]
    assert "points: without it the chance of yes would be" in moved.sentences[2]


def test_ids_name_the_rows_and_choose_their_draws(people, regressor):
    ids = [f"person {row}" for row in range(len(people.data))]
    told = eh.explain(regressor, people.data, ids=ids)
    assert_array_equal(told.drawn, regressor.predict(people.data, ids=ids))
    assert str(told[3]).startswith("Row person 3: ")
    assert f"... and {len(ids) - 3} more: explanation[row], explanation.frame()" in str(told)


def test_aware_models_are_explained_with_the_groups(people):
    groups = NAMES[people.sensitive_features]
    model = eh.ParityRegressor(LinearRegression(), aware=True, epsilon=0.01, confidence=None)
    model.fit(people.data, people.target, sensitive_features=groups)
    told = eh.explain(model, people.data, sensitive_features=groups)
    assert_array_equal(told.value, model.predict_mean(people.data, sensitive_features=groups))
    assert_array_equal(told.group_proba, groups[:, None] == NAMES)
    with pytest.raises(ValueError, match="aware"):
        eh.explain(model, people.data)


def test_models_in_pipelines_are_explained(people, regressor):
    groups = NAMES[people.sensitive_features]
    pipeline = make_pipeline(StandardScaler(), eh.ParityRegressor(LinearRegression(), confidence=None))
    pipeline.fit(people.data, people.target, parityregressor__sensitive_features=groups)
    told = eh.explain(pipeline, people.data)
    assert_array_equal(told.value, pipeline[-1].predict_mean(pipeline[:-1].transform(people.data)))


def test_a_picture_shows_one_person(people, classifier, regressor):
    for model in (regressor, classifier):
        shown = eh.explain(model, people.data[:2]).plot(1)
        upper, lower = shown.ax_
        heights = [bar.get_height() for bar in upper.containers[1]]
        assert_allclose(heights, model.predict_pmf(people.data[1:2])[0])
        assert lower.get_ylabel().endswith("forgiven")
        frame = shown.frame("pandas")
        pushes = frame[[f"push: {name}" for name in NAMES]].sum(axis=1)
        assert_allclose(frame["sum"], pushes)
        with pytest.raises(ValueError, match="two Axes"):
            shown.plot([upper])


def test_what_cannot_be_explained_is_refused_by_name(people, regressor):
    with pytest.raises(TypeError, match="got LinearRegression"):
        eh.explain(LinearRegression(), people.data)
    with pytest.raises(TypeError, match="explain\\(model, scores, group_proba\\)"):
        eh.explain(regressor.postprocessor_, people.scores)
    with pytest.raises(TypeError, match="pass the table X alone"):
        eh.explain(regressor, people.data, people.group_proba)
    with pytest.raises(NotFittedError):
        eh.explain(eh.ParityRegressor(), people.data)
    with pytest.raises(NotFittedError):
        eh.explain(eh.ParityPostprocessor(), people.scores, people.group_proba)
    with pytest.raises(ValueError, match="no group 'Z'"):
        eh.explain(regressor, people.data)[0].pmf_without("Z")
    with pytest.raises(IndexError, match="There is no row 400: 400 were explained, and the first is row 0"):
        eh.explain(regressor, people.data)[400]


def test_names_of_groups_stay_on_their_line(people):
    step = eh.ParityPostprocessor(epsilon=0.02).fit(people.scores, people.group_proba)
    told = eh.explain(step, people.scores, people.group_proba)
    hostile = replace(told, groups=("a\nb\x1b[31m", "b", "c"))
    assert "\x1b" not in str(hostile)
    assert "a b\\x1b[31m" in str(hostile)
    told = replace(told, groups=("<script>", "b", "c"))._repr_html_()
    assert told.count("<table>") == 3
    assert "<script>" not in told
    assert "&lt;script&gt;" in told


def test_the_command_line_tells_the_same(run, tmp_path):
    from evenhand.tables.writing import write_frame

    write_frame(make_table(300, 3), str(tmp_path / "rows.csv"))
    model = tmp_path / "m.evenhand"
    fitted = run(
        "fit", tmp_path / "rows.csv", "-y", "outcome", "-s", "group", "--id", "id", "-o", model, "-q"
    )
    assert fitted.code == 0, fitted.err
    out = tmp_path / "told.csv"
    outcome = run("explain", model, tmp_path / "rows.csv", "--rows", 2, "-o", out)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("Row ") == 2
    assert "300 rows explained" in outcome.out
    scored = run("predict", model, tmp_path / "rows.csv", "--kind", "mean", "--kind", "draw")
    wanted = list(csv.DictReader(scored.out.splitlines()))
    with out.open() as file:
        found = list(csv.DictReader(file))
    assert [row["row"] for row in found] == [row["id"] for row in wanted]
    for name, told in (("mean", "predicted"), ("prediction", "draw")):
        assert [float(row[told]) for row in found] == [float(row[name]) for row in wanted]
    facts = run("explain", model, tmp_path / "rows.csv", "--rows", 1, "--json").facts
    assert facts["rows"] == 300
    assert facts["people"][0]["sentences"][0] in outcome.out
    assert run("explain", model, tmp_path / "rows.csv", "--rows", -1).code == 2


def test_the_command_line_explains_without_a_loss_and_knows_the_marks_of_the_fit(run, tmp_path):
    people = eh.datasets.make_population(600, n_groups=2, random_state=0)
    table = pd.DataFrame(people.data, columns=list("abcd")).astype(object)
    table.loc[::7, "a"] = "unknown"
    rows, model = tmp_path / "rows.csv", tmp_path / "model.evenhand"
    table.assign(y=people.target, g=people.sensitive_features).to_csv(rows, index=False)
    fit = ("fit", rows, "-y", "y", "-s", "g", "--na", "unknown", "--confidence", "none", "-o", model)
    assert run(*fit).code == 0
    before = rows.read_bytes()
    outcome = run("explain", model, rows, "-o", rows, "--force")
    assert outcome.code == 2
    assert "would be lost" in outcome.err
    other = tmp_path / "other.csv"
    other.write_text("mine")
    assert run("explain", model, rows, "-o", other).code == 2
    assert (rows.read_bytes(), other.read_text()) == (before, "mine")
    assert run("explain", model, rows, "-o", other, "--force").code == 0
    predicted = run("predict", model, rows, "--kind", "mean", "--keep", "none", "-o", tmp_path / "means.csv")
    assert predicted.code == 0, predicted.err
    found, expected = (pd.read_csv(path) for path in (other, tmp_path / "means.csv"))
    np.testing.assert_allclose(found["predicted"], expected["mean"], rtol=1e-12)
