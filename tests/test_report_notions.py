"""Reports of classifiers and of models with strata: their numbers are those of the metrics."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import evenhand as eh
from evenhand.metrics import accuracy, decision_gaps, unfairness
from evenhand.reporting import gather
from evenhand.reporting.card import render_markdown
from evenhand.reporting.page import render_page

GROUPS = np.array(["A", "B", "C"])
GRADES = np.array(["high", "low", "middle"])


class Rows:
    """Rows with three groups, a second attribute, a factor, a number and a class of three."""

    def __init__(self, n_rows, seed):
        data = eh.datasets.make_population(n_rows, n_groups=3, separation=1.0, random_state=seed)
        rng = np.random.default_rng(seed)
        self.factor = rng.integers(2, size=n_rows)
        self.X = np.column_stack([data.data, self.factor])
        self.y = data.target
        self.grade = np.array(["low", "middle", "high"])[np.searchsorted([-0.3, 0.3], data.target)]
        self.group = GROUPS[data.sensitive_features]
        self.sex = np.where(rng.random(n_rows) < 0.3 + 0.4 * (data.data[:, 0] > 0), "f", "m")


@pytest.fixture(scope="module")
def rows():
    return Rows(900, 0), Rows(700, 1)


def by_name(facts, values):
    return dict(zip([group.name for group in facts.groups], values, strict=True))


def named(gaps):
    return {f"{group} ({stratum})": gap for (stratum, group), gap in gaps.items()}


def test_a_classifier_s_page_tells_decisions_gaps_and_accuracy(rows):
    fit, new = rows
    model = eh.ParityClassifier(epsilon=0.03, confidence=None).fit(
        fit.X, fit.grade, sensitive_features=fit.group
    )
    facts = gather(model, new.X, new.grade, sensitive_features=new.group, n_tolerances=3)
    chances = model.predict_proba(new.X)
    assert by_name(facts, facts.after.gap) == pytest.approx(decision_gaps(chances, new.group))
    right = accuracy(new.grade, chances, model.classes_)
    assert facts.after.risk == pytest.approx(1.0 - right)
    before = model.estimator_.predict(new.X)
    assert by_name(facts, facts.before.gap) == pytest.approx(decision_gaps(before, new.group))
    assert facts.before.risk == pytest.approx(np.mean(before != new.grade))
    assert facts.scale.bars
    assert facts.scale.names == tuple(GRADES)
    assert_allclose(facts.after.shares[-1] / 1e6, chances.mean(axis=0), atol=1e-6)
    page, card = render_page(facts), render_markdown(facts)
    for text in (page, card):
        assert f"The accuracy is {100 * right:.3g} %" in text
        assert "Mean prediction" not in text
    assert facts.held_out.numbers["metric"] == "sup"  # the gap of one class, which was asked for
    assert facts.held_out.numbers["epsilon"] == [0.03] * 3
    assert_allclose(facts.held_out.numbers["estimate"], facts.after.gap, atol=1e-9)


def test_two_classes_have_one_gap_by_whatever_name_and_it_is_judged(rows):
    fit, new = rows
    model = eh.ParityClassifier(epsilon=0.2).fit(fit.X, fit.y > 0, sensitive_features=fit.group)
    facts = gather(model, new.X, new.y > 0, sensitive_features=new.group, n_tolerances=0)
    assert_allclose(facts.held_out.numbers["estimate"], facts.after.gap, atol=1e-9)
    assert facts.held_out.numbers["epsilon"] == [0.2] * 3


@pytest.mark.parametrize("criterion", ["equalized_odds", "equal_opportunity"])
def test_parity_within_outcomes_is_told_by_outcome_and_its_risk_is_that_of_all_rows(rows, criterion):
    fit, new = rows
    model = eh.ParityClassifier(
        criterion=criterion, pos_label=["high"] if "opp" in criterion else None, confidence=None
    )
    model.fit(fit.X, fit.grade, sensitive_features=fit.group)
    facts = gather(model, new.X, new.grade, sensitive_features=new.group, n_tolerances=2)
    chances = model.predict_proba(new.X)
    gaps = decision_gaps(chances, new.group, given=new.grade)
    wanted = gaps if "odds" in criterion else {cell: gap for cell, gap in gaps.items() if cell[0] == "high"}
    assert by_name(facts, facts.after.gap) == pytest.approx(named(wanted))
    assert facts.after.risk == pytest.approx(1.0 - accuracy(new.grade, chances, model.classes_))
    sizes = {cell: np.sum((new.grade == cell[0]) & (new.group == cell[1])) for cell in wanted}
    assert {group.name: group.rows for group in facts.groups} == named(sizes)
    lower, upper = (np.array(facts.held_out.numbers[name]) for name in ("lower", "upper"))
    assert np.all(lower <= upper)
    assert facts.held_out.numbers["delta"] == pytest.approx(0.05)
    card = render_markdown(facts)
    assert ("Equal errors" in card) == ("opp" in criterion)
    assert "Groups are compared among rows of the" in card


def test_groups_within_a_factor_are_compared_with_everybody_who_shares_it(rows):
    fit, new = rows
    model = eh.ParityRegressor(atoms=31, conditional_on=4, confidence=None)
    model.fit(fit.X, fit.y, sensitive_features=fit.group)
    facts = gather(model, new.X, new.y, sensitive_features=new.group, n_tolerances=3)
    pmf, atoms = model.predict_pmf(new.X), model.atoms_
    wanted = unfairness(pmf, new.group, atoms, metric="ks", given=new.factor.astype(float))
    assert by_name(facts, facts.after.gap) == pytest.approx(named(wanted))
    scores = model.estimator_.predict(new.X)
    before = unfairness(scores, new.group, metric="ks", given=new.factor.astype(float))
    assert by_name(facts, facts.before.gap) == pytest.approx(named(before))
    strata = [group.stratum for group in facts.groups]
    assert strata == [0, 0, 0, 1, 1, 1]
    # A curve for each group, for everybody of each stratum, and for all rows.
    assert len(facts.after.shares) == 6 + 2 + 1
    assert len(facts.tolerances) == 4


def test_attributes_of_their_own_are_each_compared_with_everybody(rows):
    fit, new = rows
    model = eh.ParityRegressor(atoms=31, attributes="separate", parity="w1", epsilon=0.1)
    model.fit(fit.X, fit.y, sensitive_features=np.column_stack([fit.group, fit.sex]))
    both = np.column_stack([new.group, new.sex])
    facts = gather(model, new.X, new.y, sensitive_features=both, n_tolerances=2)
    pmf, atoms = model.predict_pmf(new.X), model.atoms_
    wanted = {}
    for column in (0, 1):
        gaps = unfairness(pmf, both[:, column], atoms, metric="w1")
        wanted |= {f"{group} ({column})": gap for group, gap in gaps.items()}
    assert by_name(facts, facts.after.gap) == pytest.approx(wanted)
    assert sum(group.share for group in facts.groups) == pytest.approx(2.0)  # every row counts in each
    assert "a model of its own" in facts.calibration.sentences[0]
    assert facts.calibration.numbers is None
    assert "Wasserstein-1" in render_page(facts)


def test_weights_count_in_strata_too(rows):
    fit, new = rows
    model = eh.ParityClassifier(criterion="equalized_odds", confidence=None).fit(
        fit.X, fit.y > 0, sensitive_features=fit.group
    )
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(new.y))
    facts = gather(
        model, new.X, new.y > 0, sensitive_features=new.group, sample_weight=weights, n_tolerances=0
    )
    gaps = decision_gaps(model.predict_proba(new.X), new.group, given=new.y > 0, sample_weight=weights)
    assert by_name(facts, facts.after.gap) == pytest.approx(named(gaps))
    assert facts.held_out.numbers is None


def test_parity_within_outcomes_cannot_be_reported_without_them(rows, tmp_path):
    fit, new = rows
    model = eh.ParityClassifier(criterion="equalized_odds", confidence=None).fit(
        fit.X, fit.y > 0, sensitive_features=fit.group
    )
    with pytest.raises(ValueError, match="with known outcome: pass y"):
        eh.report(model, new.X, sensitive_features=new.group, path=tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def stratified_rows(data):
    """Scores and columns of two strata of one factor, by true probabilities, and the cells of the rows."""
    inside = data.factor[:, None] == [0, 1]
    columns = np.hstack([data.group_proba * inside[:, [f]] for f in (0, 1)])
    cells = np.hstack([np.eye(2)[data.sensitive_features] * inside[:, [f]] for f in (0, 1)])
    return (data.class_proba @ np.arange(3.0), columns), cells


NAMES = ["a0", "b0", "a1", "b1"]


@pytest.fixture(scope="module")
def stratified():
    fit, new = (eh.datasets.make_class_population(1500, 2, 3, random_state=seed) for seed in (0, 1))
    (scores, columns), _ = stratified_rows(fit)
    step = eh.ParityPostprocessor(epsilon=0.03)
    step.fit(scores, pd.DataFrame(columns, columns=NAMES), strata=["north", "north", "south", "south"])
    return step, new, *stratified_rows(new)


def test_a_post_processor_with_strata_has_a_report_whose_gaps_are_those_of_the_metrics(stratified, tmp_path):
    step, new, given, cells = stratified
    facts = gather(step, given, new.target, sensitive_features=cells, n_tolerances=2)
    pmf = step.predict_pmf(*given)
    expected = unfairness(pmf, new.sensitive_features, given=new.factor, atoms=step.atoms_)
    names = {(0, 0): "a0 (north)", (0, 1): "b0 (north)", (1, 0): "a1 (south)", (1, 1): "b1 (south)"}
    gaps = {names[cell]: gap for cell, gap in expected.items()}
    assert by_name(facts, facts.after.gap) == pytest.approx(gaps)
    for text in (render_page(facts), render_markdown(facts)):
        assert "Groups are compared within each of 2 strata" in text
    eh.report(step, given, new.target, sensitive_features=cells, path=tmp_path / "page.html", n_tolerances=0)


def test_a_frontier_of_a_post_processor_with_strata_takes_the_cells_of_its_test_rows(stratified):
    step, new, given, cells = stratified
    proba = pd.DataFrame(given[1], columns=NAMES)
    # told by name: by place the groups of one stratum would be compared with those of the other
    frame = pd.DataFrame(cells, columns=NAMES)[["a0", "a1", "b0", "b1"]]
    rows = {"scores": given[0], "group_proba": proba, "y": new.target, "sensitive_features": frame}
    path = eh.frontier(step, given[0], proba, strata=["n", "n", "s", "s"], epsilons=[0.05], test=rows)
    pmf = path.models[0].predict_pmf(*given)
    expected = unfairness(pmf, new.sensitive_features, given=new.factor, atoms=path.models[0].atoms_)
    assert path.max_ks[0] == pytest.approx(max(expected.values()))


@pytest.mark.parametrize("wrong", ["labels", "one column less", "other names", "shares", "too few rows"])
def test_what_does_not_say_the_cells_of_rows_is_refused_with_what_would(stratified, wrong):
    step, new, given, cells = stratified
    bad = {
        "labels": new.sensitive_features,
        "one column less": cells[:, :3],
        "other names": pd.DataFrame(cells, columns=["a0", "b0", "a1", "B1"]),
        "shares": given[1],
        "too few rows": cells[1:],
    }[wrong]
    message = "has 1499 rows" if wrong == "too few rows" else r"zeros and ones.*\(a0, b0, a1, b1\)"
    with pytest.raises(ValueError, match=message):
        gather(step, given, new.target, sensitive_features=bad)


def test_a_row_in_two_groups_of_a_stratum_is_refused_by_its_number(stratified):
    step, new, given, cells = stratified
    twice = cells.copy()
    twice[7, :2] = 1
    with pytest.raises(ValueError, match=r"1 rows in several groups of stratum 'north'.* row 7"):
        gather(step, given, new.target, sensitive_features=twice)
