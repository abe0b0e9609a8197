"""The report's comparison of the same parity with the group at prediction time and without it."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import evenhand as eh
from evenhand.reporting import gather
from evenhand.reporting.page import render_page
from evenhand.reporting.tolerances import split_halves

NAMES = np.array(["women", "men"])


@pytest.fixture(scope="module")
def rows():
    return [eh.datasets.make_population(n, n_groups=2, random_state=n) for n in (2000, 3000)]


@pytest.fixture(scope="module")
def models(rows):
    """One that does not look at the group, and one that does."""
    fit = rows[0]
    return [
        eh.ParityRegressor(LinearRegression(), epsilon=0.05, atoms=41, aware=aware, random_state=0).fit(
            fit.data, fit.target, sensitive_features=NAMES[fit.sensitive_features]
        )
        for aware in (False, True)
    ]


def modes_of(model, new, **options):
    options = {"n_tolerances": 0, "sensitive_features": NAMES[new.sensitive_features], **options}
    return gather(model, new.data, new.target, **options)


def test_two_models_are_measured_as_the_metrics_measure_them(models, rows):
    new, (unaware, aware) = rows[1], models
    groups = NAMES[new.sensitive_features]
    facts = modes_of(unaware, new, compare=aware, threshold=0.5)
    before, without, with_group, constant = facts.modes.found
    assert [mode.ours for mode in facts.modes.found] == [False, True, False, False]
    pmfs = [unaware.predict_pmf(new.data), aware.predict_pmf(new.data, sensitive_features=groups)]
    for mode, model, pmf in zip((without, with_group), models, pmfs, strict=True):
        assert mode.risk == pytest.approx(eh.metrics.risk(new.target, pmf, model.atoms_))
        assert mode.largest_gap == pytest.approx(max(eh.metrics.ks_unfairness(pmf, groups).values()))
        rates = eh.metrics.selection_rates(pmf, groups, model.atoms_, threshold=0.5)
        assert mode.rate == pytest.approx(rates.overall)
        assert mode.rates == pytest.approx(rates.frame("pandas")["rate"].to_numpy())
    scores = unaware.predict_scores(new.data)[0]
    assert before.risk == pytest.approx(np.mean((scores - new.target) ** 2))
    assert before.rate == pytest.approx(np.mean(scores > 0.5))
    assert constant.risk == pytest.approx(np.var(new.target))
    assert facts.gain(constant) == 0.0
    assert facts.gain(with_group) == pytest.approx(1 - with_group.risk / np.var(new.target))


def test_without_a_second_model_the_step_is_solved_with_the_groups_of_the_other_half(models, rows):
    new, (unaware, aware) = rows[1], models
    facts = modes_of(unaware, new, compare=True)
    codes = np.unique(NAMES[new.sensitive_features], return_inverse=True)[1]
    scores, known, step = unaware.predict_scores(new.data)[0], np.eye(2)[codes], unaware.postprocessor_
    settings = {"epsilon": 0.05, "atoms": step.atoms_, "bounds": step.bounds_, "beta": step.beta_}
    pmf, halves = np.empty((len(codes), len(step.atoms_))), split_halves(codes)
    for half, others in (halves, halves[::-1]):
        again = eh.ParityPostprocessor(**settings)
        again.fit(scores[half], known[half], sensitive_features=codes[half])
        pmf[others] = again.predict_pmf(scores[others], known[others])
    found = facts.modes.found[2]
    assert found.risk == pytest.approx(eh.metrics.risk(new.target, pmf, step.atoms_))
    assert found.largest_gap == pytest.approx(max(eh.metrics.ks_unfairness(pmf, codes).values()))
    assert "No second model was fitted" in " ".join(facts.modes.sentences)
    # It foretells what a model of that mode does: the two are close beside what the other mode costs.
    _, without, fitted, _ = modes_of(unaware, new, compare=aware).modes.found
    assert abs(found.risk - fitted.risk) < 0.25 * (without.risk - fitted.risk)


def test_the_page_and_the_card_have_both_modes_and_say_when_the_law_forbids_which(models, rows, tmp_path):
    new = rows[1]
    facts = modes_of(models[0], new, compare=models[1])
    page = render_page(facts)
    assert 'id="modes-table"' in page
    assert "may be forbidden even if they would help" in page
    given = {"sensitive_features": NAMES[new.sensitive_features], "compare": models[1]}
    card = eh.model_card(models[0], new.data, new.target, path=tmp_path / "card.md", **given).read_text()
    assert "## With the group, or without" in card
    assert "| Without the group (this model) |" in card
    assert "ask a lawyer" in card
    told = eh.model_card(models[0], new.data, new.target, path=tmp_path / "card.json", **given)
    assert len(json.loads(told.read_text())["modes"]["found"]) == 4
    assert "With the group, or without" not in render_page(modes_of(models[0], new, compare=False))


def test_an_aware_model_is_compared_with_a_second_one_alone(models, rows):
    unaware, aware = models
    told = modes_of(aware, rows[1], compare=True)
    assert not told.modes.found
    assert "Fit a second model with aware=False" in told.modes.sentences[0]
    assert "ask a lawyer" not in render_page(told)
    assert modes_of(aware, rows[1], compare=unaware).modes.found[2].ours


def test_where_rows_are_too_few_the_reason_is_told(models, rows):
    few = eh.datasets.make_population(300, n_groups=2, random_state=5)
    told = modes_of(models[0], few, compare=True).modes
    assert not told.found
    assert "too few" in told.sentences[0]
    assert "aware=True" in told.sentences[0]


def test_models_that_cannot_be_compared_are_refused(models, rows):
    unaware, fit = models[0], rows[0]
    with pytest.raises(ValueError, match="model of the other mode: both predict without the group"):
        modes_of(unaware, rows[1], compare=unaware)
    with pytest.raises(TypeError, match="compare needs a fitted ParityRegressor"):
        modes_of(unaware, rows[1], compare="aware")
    judge = eh.ParityClassifier(aware=True).fit(
        fit.data, fit.target > 0, sensitive_features=NAMES[fit.sensitive_features]
    )
    with pytest.raises(ValueError, match="is not one of the classes"):
        modes_of(unaware, rows[1], compare=judge)


def test_decisions_have_their_rates_in_both_modes(rows):
    fit, new = rows
    judge = eh.ParityClassifier(epsilon=0.05).fit(
        fit.data, fit.target > 0.2, sensitive_features=NAMES[fit.sensitive_features]
    )
    groups = NAMES[new.sensitive_features]
    facts = gather(judge, new.data, new.target > 0.2, sensitive_features=groups, n_tolerances=0, compare=True)
    assert "Selected are" in facts.modes.sentences[0]
    rates = facts.modes.found[2].rates
    assert abs(rates[0] - rates[1]) < 0.15 < abs(np.diff(facts.modes.found[0].rates)[0])
