"""Classes, strata and several attributes on the command line, against the library and its metrics."""

import csv
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import evenhand as eh
from evenhand.cli import main
from evenhand.cli.tasks import find_task
from evenhand.metrics import accuracy, decision_gaps, unfairness
from evenhand.tables.columns import as_classes, as_numbers
from evenhand.tables.writing import write_frame
from tests.cli_support import make_classes, make_table

FIT = ("--target", "hired", "--sensitive", "group", "--id", "id")
ROWS = 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows with a decision, a second attribute and a number, and models of several notions."""
    home = tmp_path_factory.mktemp("tasks")
    rows = make_classes(ROWS, 3)
    other = np.random.default_rng(1).choice(["f", "m"], ROWS)
    rows = rows.append_column("sex", pa.array(other)).append_column("outcome", make_table(ROWS, 3)["outcome"])
    write_frame(rows, str(home / "rows.csv"))
    classes = (*FIT, "--drop", "outcome", "--drop", "sex")
    numbers = ("--target", "outcome", "--id", "id", "--drop", "hired", "--beta", "paper")  # quick to solve
    made = {
        "plain": classes,
        "odds": (*classes, "--criterion", "equalized_odds", "--epsilon", "no=0.02,yes=0.1"),
        "opportunity": (*classes, "--criterion", "equal_opportunity", "--pos-label", "yes"),
        "town": (*numbers, "-s", "group", "--drop", "sex", "--conditional-on", "town"),
        "separate": (*numbers, "-s", "group", "-s", "sex", "--attributes", "separate", "--parity", "w1"),
    }
    for name, options in made.items():
        assert main(["fit", str(home / "rows.csv"), *options, "-o", str(home / f"{name}.model"), "-q"]) == 0
    return home


def columns_of(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def table_of(folder):
    return columns_of((folder / "rows.csv").read_text())


def gaps_of(outcome, metric):
    found = outcome.facts["measures"]
    return {row["group"]: row["estimate"] for row in found if row["measure"] == metric}


def chances(run, folder, name):
    got = columns_of(run("predict", folder / f"{name}.model", folder / "rows.csv", "--kind", "proba").out)
    return np.column_stack([got["proba_no"].astype(float), got["proba_yes"].astype(float)])


def test_a_target_of_words_is_classified_and_a_note_says_so(run, folder, tmp_path):
    outcome = run("fit", folder / "rows.csv", *FIT, "--drop", "outcome", "-o", tmp_path / "m.evenhand")
    assert outcome.code == 0
    assert "note: column hired is taken for classes, no, yes" in outcome.err
    assert "gap before" in outcome.out
    assert "share of wrong decisions" in outcome.out
    assert eh.load(tmp_path / "m.evenhand").classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "c"] * 4, "classification"),
        (["true", "false", None] * 4, "classification"),
        ([True, False] * 6, "classification"),
        ([0, 1, 1] * 4, "classification"),
        (["1", "0", ""] * 4, "classification"),
        ([0, 1, 2] * 4, "regression"),
        (["0.5", "1", "NA", "2"] * 3, "regression"),
        ([1.0] * 12, "regression"),
    ],
)
def test_what_the_target_holds_tells_the_task_and_a_note_tells_what_was_chosen(values, task):
    table = pa.table({"y": pa.array(values)})
    found, note = find_task("auto", table, "y")
    assert found.name == task
    assert bool(note) == (task == "classification")
    assert find_task("regression", table, "y")[0].read_target is as_numbers


def test_a_class_is_the_same_in_every_format():
    typed = {"flag": pa.array([True, False]), "code": pa.array([1.0, 2.0]), "word": pa.array(["a", "b"])}
    texts = {"flag": ["True", "FALSE"], "code": ["1", "2.0"], "word": [" a", "b"]}
    for name, column in typed.items():
        one = as_classes(pa.table({name: column}), name).tolist()
        assert one == as_classes(pa.table({name: texts[name]}), name).tolist()


def test_every_kind_of_prediction_of_classes_is_the_library_s(run, folder):
    model = eh.load(folder / "plain.model")
    kinds = [part for kind in ("draw", "proba", "mode", "score") for part in ("--kind", kind)]
    got = columns_of(run("predict", folder / "plain.model", folder / "rows.csv", "--id", "id", *kinds).out)
    pmf = np.column_stack([got["proba_no"].astype(float), got["proba_yes"].astype(float)])
    assert_allclose(pmf.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(got["mode"], model.classes_[pmf.argmax(axis=1)])
    assert set(got["prediction"]) == {"no", "yes"}
    sure = pmf.max(axis=1) > 1.0 - 1e-9
    assert sure.any()
    assert_array_equal(got["prediction"][sure], got["mode"][sure])
    scores = got["score_yes"].astype(float)
    assert_array_equal(np.sign(np.corrcoef(scores, got["hired"] == "yes")[0, 1]), 1.0)


def test_distributions_and_quantiles_of_numbers_are_those_of_the_same_policy(run, folder):
    kinds = ("--kind", "pmf", "--kind", "quantile:0.25", "--kind", "mean", "--keep", "none")
    got = columns_of(run("predict", folder / "town.model", folder / "rows.csv", *kinds).out)
    names = [name for name in got if name.startswith("pmf_")]
    atoms = np.array([float(name.removeprefix("pmf_")) for name in names])
    pmf = np.column_stack([got[name].astype(float) for name in names])
    assert_allclose(pmf @ atoms, got["mean"].astype(float), atol=1e-6)
    reached = (np.cumsum(pmf, axis=1) >= 0.25).argmax(axis=1)
    assert_allclose(atoms[reached], got["quantile:0.25"].astype(float), atol=1e-6)


def test_the_audit_of_a_classifier_measures_the_gaps_and_the_errors_of_its_policy(run, folder):
    rows, pmf = table_of(folder), chances(run, folder, "plain")
    outcome = run("audit", folder / "rows.csv", "-m", folder / "plain.model", *FIT[:4], "--json")
    assert outcome.facts["metric"] == "sup"
    wanted = decision_gaps(pmf, rows["group"])
    assert gaps_of(outcome, "sup") == pytest.approx(wanted, abs=1e-6)
    inside = rows["group"] == "A"
    wrong = 1.0 - accuracy(rows["hired"][inside], pmf[inside], np.array(["no", "yes"]))
    assert gaps_of(outcome, "risk")["A"] == pytest.approx(wrong, abs=1e-6)


def test_odds_are_compared_within_the_true_class_with_a_tolerance_for_each(run, folder):
    rows, pmf = table_of(folder), chances(run, folder, "odds")
    model = eh.load(folder / "odds.model")
    wanted = decision_gaps(pmf, rows["group"], given=rows["hired"])
    outcome = run("audit", folder / "rows.csv", "-m", folder / "odds.model", *FIT[:4], "--json")
    named = {f"{group} ({stratum})": gap for (stratum, group), gap in wanted.items()}
    assert gaps_of(outcome, "sup") == pytest.approx(named, abs=1e-6)
    asked = dict(zip(model.groups_.tolist(), model.epsilon_.tolist(), strict=True))
    assert {asked[cell] for cell in asked if cell[0] == "no"} == {0.02}
    assert {asked[cell] for cell in asked if cell[0] == "yes"} == {0.1}
    assert "among rows of the same true class, classes no, yes" in run("info", folder / "odds.model").out


def test_opportunity_is_measured_where_it_is_given_and_its_risk_on_all_rows(run, folder):
    rows, pmf = table_of(folder), chances(run, folder, "opportunity")
    given = rows["hired"] == "yes"
    outcome = run("audit", folder / "rows.csv", "-m", folder / "opportunity.model", *FIT[:4])
    wrong = 1.0 - accuracy(rows["hired"], pmf, np.array(["no", "yes"]))
    largest = max(decision_gaps(pmf[given], rows["group"][given]).values())
    assert f"{largest:.3f} after" in outcome.out
    assert f"{wrong:.4g} after" in outcome.out
    assert "(no)" not in outcome.out


@pytest.mark.parametrize("name", ["town", "separate"])
def test_strata_of_numbers_are_measured_one_by_one(run, folder, name):
    rows = table_of(folder)
    known = {"town": [("group", rows["town"])], "separate": [("group", None), ("sex", None)]}[name]
    metric = {"town": "ks", "separate": "w1"}[name]
    got = columns_of(run("predict", folder / f"{name}.model", folder / "rows.csv", "--kind", "pmf").out)
    names = [column for column in got if column.startswith("pmf_")]
    atoms = np.array([float(column.removeprefix("pmf_")) for column in names])
    pmf = np.column_stack([got[column].astype(float) for column in names])
    wanted = {}
    for column, given in known:
        found = unfairness(pmf, rows[column], atoms, metric=metric, given=given)
        cells = found.items() if given is not None else [((column, key), gap) for key, gap in found.items()]
        wanted |= {f"{group} ({stratum})": gap for (stratum, group), gap in cells}
    sensitive = [part for column, _ in known for part in ("-s", column)]
    outcome = run("audit", folder / "rows.csv", "-m", folder / f"{name}.model", *sensitive, "--json")
    assert outcome.facts["metric"] == metric
    assert gaps_of(outcome, metric) == pytest.approx(wanted, abs=1e-6)


def test_decisions_in_a_column_are_audited_as_classes(run, folder, tmp_path):
    scored = tmp_path / "scored.csv"
    run("predict", folder / "plain.model", folder / "rows.csv", "-o", scored, "--name", "said")
    got = columns_of(scored.read_text())
    outcome = run("audit", scored, "-p", "said", "-y", "hired", "-s", "group", "--json")
    assert gaps_of(outcome, "sup") == pytest.approx(decision_gaps(got["said"], got["group"]))
    inside = got["group"] == "B"
    assert gaps_of(outcome, "risk")["B"] == pytest.approx(np.mean((got["said"] != got["hired"])[inside]))
    limited = run("audit", scored, "-p", "said", "-s", "group", "--fail-above", "0.0001")
    assert limited.code == 4
    assert "gap in the chance of a class" in limited.err


def test_costs_reach_the_model_whatever_their_order_in_the_file(run, folder, tmp_path):
    (tmp_path / "costs.csv").write_text("truth,yes,no\nyes,0,5\nno,1,0\n")
    options = ("--drop", "outcome", "--drop", "sex", "--cost-matrix", tmp_path / "costs.csv")
    outcome = run("fit", folder / "rows.csv", *FIT, *options, "-o", tmp_path / "m.evenhand")
    assert "Risk (expected cost)" in outcome.out
    assert_array_equal(eh.load(tmp_path / "m.evenhand").cost_matrix, [[0.0, 1.0], [5.0, 0.0]])


COSTS = {  # option: the cost, the loss of an error r = y - prediction, and its name
    "squared": (eh.costs.Squared(), lambda r: r**2, "mean squared error"),
    "absolute": (eh.costs.Absolute(), np.abs, "mean absolute error"),
    "pinball:0.9": (eh.costs.Pinball(0.9), lambda r: np.where(r > 0, 0.9, -0.1) * r, "mean pinball loss"),
    "huber:0.1": (
        eh.costs.Huber(0.1),
        lambda r: np.where(abs(r) < 0.1, r**2, 0.1 * (2 * abs(r) - 0.1)),
        "mean Huber loss",
    ),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_cost_of_numbers_is_what_is_fitted_and_measured(run, folder, tmp_path, name):
    cost, loss, words = COSTS[name]
    path, asked = (
        tmp_path / "m.evenhand",
        ("-y", "outcome", "-s", "group", "--id", "id", "--drop", "hired", "--cost", name),
    )
    outcome = run("fit", folder / "rows.csv", *asked, "--holdout", "50%", "-o", path)
    assert f"Risk ({words})" in outcome.out, outcome.err
    model = eh.load(path)  # without any type to trust
    assert model.policy_.cost == cost
    audited = run("audit", folder / "rows.csv", "-m", path, *asked[:4], "--json")
    rows = table_of(folder)
    inside = rows["group"] == "A"
    errors = rows["outcome"].astype(float)[inside, None] - model.atoms_
    scored = run("predict", path, folder / "rows.csv", "--kind", "pmf", "--keep", "none")
    pmf = np.array([[float(cell) for cell in row] for row in list(csv.reader(io.StringIO(scored.out)))[1:]])
    expected = (pmf[inside] * loss(errors)).sum(axis=1).mean()
    assert gaps_of(audited, "risk")["A"] == pytest.approx(expected, rel=1e-6)
    traced = run("frontier", folder / "rows.csv", *asked, "--epsilon", "0.05,0.5", "--json")
    assert traced.code == 0, traced.err


def test_a_pinball_cost_predicts_its_quantile(run, folder, tmp_path):
    asked = (
        "-y",
        "outcome",
        "-s",
        "group",
        "--id",
        "id",
        "--drop",
        "hired",
        "--epsilon",
        "1",
        "--holdout",
        "0",
    )
    rows = table_of(folder)
    for level in (0.2, 0.8):
        run("fit", folder / "rows.csv", *asked, "--cost", f"pinball:{level}", "-o", tmp_path / "m")
        scored = run("predict", tmp_path / "m", folder / "rows.csv", "--kind", "score", "--keep", "none")
        score = columns_of(scored.out)["score"].astype(float)
        below = (rows["outcome"].astype(float) < score).mean()
        assert below == pytest.approx(level, abs=12 / len(score))  # as many rows lie on it as it has weights


def test_a_frontier_of_classes_tells_the_total_variation(run, folder):
    options = ("--drop", "outcome", "--drop", "sex", "--epsilon", "0.02,0.2")
    outcome = run("frontier", folder / "rows.csv", *FIT, *options)
    assert outcome.code == 0
    assert "largest TV" in outcome.out


def test_a_classifier_made_in_python_knows_its_classes_by_their_cells(run, folder, tmp_path):
    rows = table_of(folder)
    X = pd.DataFrame({"size": rows["size"].astype(float)})
    model = eh.ParityClassifier(confidence=None).fit(
        X, rows["hired"] == "yes", sensitive_features=rows["group"]
    )
    eh.save(model, tmp_path / "m.evenhand")
    coded = pa.table({"size": X["size"], "group": rows["group"], "hired": rows["hired"] == "yes"})
    for name in ("coded.csv", "coded.parquet"):
        write_frame(coded, str(tmp_path / name))
        outcome = run("audit", tmp_path / name, "-m", tmp_path / "m.evenhand", *FIT[:4], "--json")
        wanted = decision_gaps(model.predict_proba(X), rows["group"])
        assert gaps_of(outcome, "sup") == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("name", ["plain", "odds", "opportunity", "town", "separate"])
def test_every_notion_has_a_report_and_a_card(run, folder, tmp_path, name):
    target = "outcome" if name in ("town", "separate") else "hired"
    sensitive = ("-s", "group", "-s", "sex") if name == "separate" else ("-s", "group")
    page, card = tmp_path / "page.html", tmp_path / "card.md"
    asked = ("-y", target, *sensitive, "-o", page, "--card", card)
    outcome = run("report", folder / f"{name}.model", folder / "rows.csv", *asked)
    assert outcome.code == 0, outcome.err
    words = {
        "plain": "Share of wrong decisions went from",
        "odds": "Groups are compared among rows of the same true class",
        "opportunity": "Groups are compared among rows of the true class yes",
        "town": "among rows with the same value of town",
        "separate": "for each of group, sex on its own",
    }
    assert words[name] in card.read_text()
    assert words[name] in page.read_text()
