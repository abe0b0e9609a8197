"""What parity costs is told: constants, R^2, levelling down, and floors under the share selected."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.metrics import r2_score

import evenhand as eh
from evenhand.datasets import make_population
from evenhand.dual.floors import RateFloor, check_least, group_rates
from evenhand.exceptions import LevellingDownWarning, PriceWarning
from evenhand.metrics import constant_risk


@pytest.fixture(scope="module")
def people():
    return make_population(1200, n_groups=2, separation=2.0, random_state=0)


@pytest.fixture(scope="module")
def probabilities():
    """Scores of two classes where parity is cheapest by selecting fewer."""
    rng = np.random.default_rng(0)
    group = np.clip(rng.beta(0.6, 0.6, 500), 0.02, 0.98)
    chance = np.clip(0.15 + 0.42 * group + 0.1 * rng.normal(size=500), 0.01, 0.99)
    return np.column_stack([1 - chance, chance]), np.column_stack([1 - group, group])


def best_with_floor(scores, proba, epsilon, floor):
    """Smallest share of errors at parity with a rate of at least `floor`, by a linear program."""
    chance, n_rows = scores[:, 1], len(scores)
    everybody = np.full(n_rows, 1.0 / n_rows)
    groups = (proba / proba.sum(axis=0)).T
    gaps = np.vstack([groups - everybody, everybody - groups, -everybody])
    limits = np.append(np.full(2 * len(groups), epsilon), -floor)
    found = linprog((1.0 - 2.0 * chance) / n_rows, A_ub=gaps, b_ub=limits, bounds=(0, 1))
    return found.fun + chance.mean()


@pytest.mark.parametrize("floor", [0.0, 0.2, 0.35, 0.6])
def test_a_floor_costs_no_more_than_the_best_policy_that_keeps_it(probabilities, floor):
    scores, proba = probabilities
    cost = RateFloor(1.0 - np.eye(2), (1,), floor)
    step = eh.ParityPostprocessor(parity="pmf", epsilon=0.02, cost=cost, beta=1e4).fit(scores, proba)
    rates = group_rates(step.predict_pmf(scores, proba)[:, 1], proba, None)
    exact = best_with_floor(scores, proba, 0.02, floor)
    assert rates[-1] >= floor - 1e-9
    assert step.certificate_.violation.max() <= 0.02 + 1e-5
    assert step.certificate_.risk == pytest.approx(exact, abs=2e-3)
    assert step.certificate_.lower_bound <= exact + 1e-9
    assert step.certificate_.risk == pytest.approx(step.price_.risk, abs=1e-9)


def test_floors_by_the_scores_keep_everybody_or_every_group_where_it_was(probabilities):
    scores, proba = probabilities
    before = group_rates((scores[:, 1] > 0.5).astype(float), proba, None)
    plain = eh.ParityPostprocessor(parity="pmf", epsilon=0.02, cost=1.0 - np.eye(2)).fit(scores, proba)
    assert group_rates(plain.predict_pmf(scores, proba)[:, 1], proba, None)[-1] < 0.8 * before[-1]
    for least, places in (("before", [-1]), ("each", [0, 1, 2])):
        cost = RateFloor(1.0 - np.eye(2), (1,), least)
        step = eh.ParityPostprocessor(parity="pmf", epsilon=0.02, cost=cost).fit(scores, proba)
        after = group_rates(step.predict_pmf(scores, proba)[:, 1], proba, None)
        assert (after[places] >= before[places] - 1e-9).all()
        assert step.certificate_.violation.max() <= 0.02 + 1e-5
        assert step.certificate_.lower_bound <= step.certificate_.risk


def levelled_rows():
    """People of two groups of whom one is rarely selected, and parity is cheapest without anybody."""
    rng = np.random.default_rng(1)
    group = rng.random(3000) < 0.3
    hint = group + 0.45 * rng.normal(size=3000)
    other = rng.normal(size=3000)
    hired = rng.random(3000) < np.clip(0.1 + 0.5 * group + 0.08 * other, 0.0, 1.0)
    return np.column_stack([hint, other]), np.where(hired, "yes", "no"), np.where(group, "M", "F")


def test_fit_names_the_share_before_and_after_warns_and_keeps_a_floor(tmp_path):
    X, hired, sex = levelled_rows()
    model = eh.ParityClassifier(epsilon=0.02, confidence=None, random_state=0)
    with pytest.warns(LevellingDownWarning, match=r"decisions for yes: .* before the parity step, .* after"):
        model.fit(X, hired, sensitive_features=sex)
    before, after = model.price_.rates([1])
    assert f"Share of decisions for yes: {before:.1%} before the parity step, {after:.1%} after." in str(
        model
    )
    kept = eh.ParityClassifier(epsilon=0.02, confidence=None, min_rate="before", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LevellingDownWarning)
        kept.fit(X, hired, sensitive_features=sex)
    assert kept.predict_proba(X)[:, 1].mean() == pytest.approx(before, abs=0.02)
    assert kept.score(X, hired) < model.score(X, hired)
    eh.save(kept, tmp_path / "model.evenhand")
    again = eh.load(tmp_path / "model.evenhand")
    np.testing.assert_array_equal(again.predict_proba(X), kept.predict_proba(X))
    assert str(again) == str(kept)
    card = eh.model_card(model, X, hired, sensitive_features=sex, path=tmp_path / "card.md").read_text()
    assert "levelling down" in card
    kept.partial_fit(X[:500])


def test_a_floor_is_kept_where_epsilon_is_for_new_people():
    X, hired, sex = levelled_rows()
    model = eh.ParityClassifier(epsilon=0.05, min_rate=0.3, random_state=0)
    model.fit(X, hired, sensitive_features=sex)
    assert model.price_.rates([1])[1] >= 0.3 - 1e-3
    assert model.certificate_.out_of_sample is not None


@pytest.mark.parametrize("least", [-0.1, 1.0, "all", True, None])
def test_floors_that_are_none_are_refused(least):
    with pytest.raises(ValueError, match="min_rate must be a share"):
        check_least(least)


def test_floors_of_several_classes_need_a_label(people):
    classes = np.digitize(people.target, [-0.2, 0.3])
    model = eh.ParityClassifier(min_rate="before")
    with pytest.raises(ValueError, match="min_rate needs pos_label"):
        model.fit(people.data, classes, sensitive_features=people.sensitive_features)


def test_a_stream_without_a_fit_has_no_floor(probabilities):
    step = eh.ParityPostprocessor(parity="pmf", cost=RateFloor(1.0 - np.eye(2)))
    with pytest.raises(ValueError, match="needs stored rows"):
        step.partial_fit(*probabilities)


def test_the_best_constant_and_r2_are_those_of_scikit_learn(people):
    assert constant_risk(people.target) == pytest.approx(people.target.var())
    weights = np.random.default_rng(0).random(len(people.target))
    mean = np.average(people.target, weights=weights)
    wanted = np.average((people.target - mean) ** 2, weights=weights)
    assert constant_risk(people.target, weights) == pytest.approx(wanted)
    median = np.abs(people.target - np.median(people.target)).mean()
    assert constant_risk(people.target, loss="absolute") == pytest.approx(median, rel=1e-4)
    found = eh.audit(people.scores, people.sensitive_features, y=people.target, n_boot=20, level=0.9)
    assert found.r2 == pytest.approx(r2_score(people.target, people.scores))
    assert found.to_dict()["constant_risk"] == pytest.approx(people.target.var())
    assert "The best constant has risk" in found.verdict


def test_frontiers_reports_and_cards_have_the_constant_and_r2(people, tmp_path):
    step = eh.ParityPostprocessor(epsilon=0.05).fit(people.scores, people.group_proba)
    rows = (people.scores, people.group_proba, people.target, people.sensitive_features)
    path = eh.frontier(step, *rows[:2], epsilons=[0.01, 0.3], test=rows)
    frame = path.frame("pandas")
    assert frame.constant_risk.tolist() == pytest.approx([people.target.var()] * 2)
    np.testing.assert_allclose(frame.r2, 1.0 - frame.risk / people.target.var())
    known = {"sensitive_features": people.sensitive_features}
    card = eh.model_card(step, rows[:2], people.target, path=tmp_path / "card.json", **known)
    assert json.loads(card.read_text())["constant_risk"] == pytest.approx(people.target.var())
    text = eh.model_card(step, rows[:2], people.target, path=tmp_path / "card.md", **known).read_text()
    assert "One number for everybody has" in text
    page = eh.report(step, rows[:2], people.target, path=tmp_path / "page.html", n_tolerances=0, **known)
    assert "best constant" in page.read_text()


@pytest.mark.parametrize("cost", ["squared", "absolute"])
@pytest.mark.parametrize("bounds", ["auto", (-1.0, 1.0)])  # the second leaves scores outside
@pytest.mark.filterwarnings("ignore::evenhand.exceptions.ClippingWarning")
def test_the_price_of_a_fit_is_that_of_its_distributions(people, cost, bounds):
    weights = np.random.default_rng(1).exponential(size=len(people.scores))
    model = eh.ParityPostprocessor(epsilon=0.05, cost=cost, bounds=bounds)
    model.fit(people.scores, people.group_proba, sample_weight=weights)
    pmf, weights = model.predict_pmf(people.scores, people.group_proba), weights / weights.sum()
    distances = np.abs(people.scores[:, None] - model.atoms_)
    losses = distances**2 if cost == "squared" else distances
    assert model.price_.risk == pytest.approx(weights @ (pmf * losses).sum(axis=1), rel=1e-9)
    assert model.price_.base_risk == pytest.approx(weights @ losses.min(axis=1), rel=1e-9)
    assert model.price_.shares_after == pytest.approx(weights @ pmf, abs=1e-12)


def test_a_model_that_is_hardly_better_than_a_constant_is_warned_of(people):
    certain = np.eye(2)[people.sensitive_features]
    scores = np.where(people.sensitive_features == 1, 1.0, 0.0) + 0.05 * people.target
    with pytest.warns(
        PriceWarning,
        match=r"keeps only 0% of its advantage over a constant prediction\. Half of the predictions",
    ):
        eh.ParityPostprocessor(parity="cdf", epsilon=0.0, atoms=21).fit(
            scores[:, None].ravel(), _blur(certain)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error", PriceWarning)
        eh.ParityPostprocessor(epsilon=0.3).fit(people.scores, people.group_proba)


def _blur(certain):
    """Group probabilities from which the group can all but be told."""
    return 0.98 * certain + 0.01


def test_audits_and_the_command_line_say_that_a_constant_would_do(run, people, tmp_path):
    constant = np.full(len(people.target), people.target.mean())
    constant[0] += 1e-3
    found = eh.audit(
        constant, people.sensitive_features, y=people.target, baseline=people.scores, n_boot=20, level=0.9
    )
    assert "hardly better than one number for everybody" in found.verdict
    table = pd.DataFrame(people.data, columns=list("abcd")).assign(
        y=people.target, g=people.sensitive_features
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    asked = (tmp_path / "people.csv", "-y", "y", "-s", "g")
    facts = run("fit", *asked, "--confidence", "none", "-o", tmp_path / "m.evenhand", "--json").facts
    assert 0.0 < facts["held_out"]["r2"] < 1.0
    shown = run("frontier", *asked, "--epsilon", "0.05").out
    assert "best constant" in shown
    assert "R2" in shown


def test_the_command_line_keeps_a_floor(run, tmp_path):
    X, hired, sex = levelled_rows()
    pd.DataFrame(X, columns=["a", "b"]).assign(y=hired, s=sex).to_csv(tmp_path / "p.csv", index=False)
    asked = (
        "fit",
        tmp_path / "p.csv",
        "-y",
        "y",
        "-s",
        "s",
        "--confidence",
        "none",
        "--epsilon",
        "0.02",
        "--json",
    )
    asked = (*asked, "-o", tmp_path / "m.evenhand")
    plain = run(*asked)
    assert "levelling down" in plain.err
    kept = run(*asked, "--min-rate", "before")
    assert "levelling down" not in kept.err
    before, after = (done.facts["held_out"]["rates"]["overall"] for done in (plain, kept))
    assert after > before + 0.05
    assert run(*asked, "--min-rate", "each", "--pos-label", "yes").code == 0
    assert run(*asked, "--min-rate", "most").code == 2
