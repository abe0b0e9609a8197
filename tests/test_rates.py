"""Selection and scoring rates and impact ratios, by hand and against fairlearn."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from scipy.optimize import brentq

from evenhand import ParityClassifier, ParityPostprocessor, audit, model_card, report
from evenhand.datasets import make_population
from evenhand.metrics import Membership, selection_rates, unfairness
from evenhand.metrics.rates import impact_ratios, rate_intervals

RNG = np.random.default_rng(0)
SEX = np.where(RNG.random(3000) < 0.4, "F", "M")
RACE = RNG.choice(["a", "b", "c", "rare"], 3000, p=[0.5, 0.3, 0.19, 0.01])
SCORES = RNG.normal(size=3000) + 0.4 * (SEX == "M") - 0.3 * (RACE == "b")
HIRED = (SCORES > 0.7).astype(int)
FRAME = pd.DataFrame({"sex": SEX, "race": RACE})


def table_of(found, attribute):
    frame = found.frame("pandas")
    return frame[frame.attribute == attribute].set_index("group")


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_and_ratios_are_those_of_fairlearn(weighted):
    weights = RNG.random(3000) + 0.5 if weighted else None
    found = selection_rates(HIRED, FRAME, sample_weight=weights, min_share=0.0)
    for attribute, features in {"sex": SEX, "race": RACE, "sex, race": FRAME}.items():
        params = None if weights is None else {"sample_weight": weights}
        other = MetricFrame(
            metrics=selection_rate,
            y_true=HIRED,
            y_pred=HIRED,
            sensitive_features=features,
            sample_params=params,
        )
        ours = table_of(found, attribute)
        theirs = other.by_group
        if attribute == "sex, race":
            theirs.index = [", ".join(pair) for pair in theirs.index]
        np.testing.assert_allclose(ours.rate, theirs.loc[ours.index], rtol=1e-12)
        np.testing.assert_allclose(ours.impact_ratio, theirs.loc[ours.index] / theirs.max(), rtol=1e-12)
        assert ours.impact_ratio.min() == pytest.approx(other.ratio(method="between_groups"))


def test_scoring_rates_are_shares_above_the_median_of_all():
    found = table_of(selection_rates(SCORES, FRAME), "sex")
    above = np.median(SCORES) < SCORES
    for group in "FM":
        assert found.rate[group] == pytest.approx(above[group == SEX].mean())
        assert found.selected[group] == pytest.approx(above[group == SEX].sum())
    assert found.impact_ratio["F"] == pytest.approx(above[SEX == "F"].mean() / above[SEX == "M"].mean())


def test_a_table_by_hand():
    # 30 of 100 and 40 of 100: the ratio is 3/4; Wilson's intervals by their defining equation
    hired = [1] * 30 + [0] * 70 + [1] * 40 + [0] * 60
    found = table_of(selection_rates(hired, ["F"] * 100 + ["M"] * 100), "")
    assert found.impact_ratio.tolist() == pytest.approx([0.75, 1.0])
    for group, rate in (("F", 0.3), ("M", 0.4)):
        low, high = found.rate_low[group], found.rate_high[group]
        for end in (low, high):  # the score test at either end is just at its limit
            assert (rate - end) ** 2 == pytest.approx(1.959963985**2 * end * (1 - end) / 100)
    # the lower end of the ratio: rates as far apart as their intervals recover together
    low, high = found.rate_low["F"], found.rate_high["M"]
    root = brentq(lambda r: (0.3 - 0.4 * r) ** 2 - (0.3 - low) ** 2 - r**2 * (high - 0.4) ** 2, 0.0, 0.75)
    assert found.impact_ratio_low["F"] == pytest.approx(root)


def test_thresholds_labels_and_chances_agree():
    proba = np.column_stack([1 - HIRED, HIRED]).astype(float)
    wanted = table_of(selection_rates(HIRED, SEX), "")
    words = np.array(["no", "yes"])[HIRED]
    for found in (
        selection_rates(SCORES, SEX, threshold=0.7),
        selection_rates(words, SEX, selected="yes"),
        selection_rates(words, SEX, selected=["yes", "maybe"]),
        selection_rates(proba, SEX, atoms=["no", "yes"], selected="yes"),
        selection_rates(proba, SEX, atoms=[0, 1]),
        selection_rates(HIRED, pl.Series(SEX)),
    ):
        pd.testing.assert_frame_equal(table_of(found, ""), wanted)


def test_chances_count_as_chances_with_narrower_intervals():
    chances = np.column_stack([np.full(3000, 0.6), np.full(3000, 0.4)])
    chances += 0.1 * np.where(SEX == "F", 1, -1)[:, None] * [1, -1]
    found = table_of(selection_rates(chances, SEX, atoms=[0, 1]), "")
    assert found.rate.tolist() == pytest.approx([0.3, 0.5])
    assert found.rate_high["F"] - found.rate_low["F"] < 1e-6


def test_small_categories_are_set_apart_and_unknowns_counted():
    race = RACE.astype(object)
    race[:50] = None
    found = selection_rates(HIRED, pd.DataFrame({"sex": SEX, "race": race}))
    table = table_of(found, "race")
    assert table.set_apart.to_dict() == {"a": False, "b": False, "c": False, "rare": True}
    assert np.isnan(table.impact_ratio["rare"])
    assert table.rate["rare"] == pytest.approx(HIRED[race == "rare"].mean())
    assert [each.n_unknown for each in found.tables] == [0, 50, 50]
    assert table.rows.sum() == 2950
    assert any("50 rows are not counted by race" in line for line in found.notes())
    assert any("Set apart by race" in line and "rare" in line for line in found.notes())
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["tables"][1]["unknown"] == 50
    assert told["tables"][1]["groups"][3]["impact_ratio"] is None


def test_where_all_groups_are_small_they_are_compared():
    many = np.arange(3000) % 100
    found = selection_rates(HIRED, many)
    assert not found.tables[0].apart.any()
    assert found.tables[0].ratio.estimate.max() == 1.0


def test_nobody_selected_has_rates_and_no_ratio():
    found = selection_rates(SCORES, SEX, threshold=1e9)
    assert np.isnan(found.tables[0].ratio.estimate).all()
    assert "nobody was selected" in str(found)
    everybody = selection_rates(SCORES, SEX, threshold=-1e9)
    assert everybody.tables[0].ratio.estimate.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("rates", "sizes"),
    [((0.4, 0.3), (100, 100)), ((0.4,) * 5, (100,) * 5), ((0.5, 0.45, 0.3, 0.2), (1000, 50, 200, 100))],
)
def test_intervals_of_ratios_cover(rates, sizes):
    truth, n_draws, level = np.array(rates) / max(rates), 1000, 0.95
    members = Membership(tuple(range(len(rates))), np.repeat(np.arange(len(rates)), sizes))
    missed = np.zeros(len(rates))
    for _ in range(n_draws):
        drawn = (RNG.random(sum(sizes)) < np.repeat(rates, sizes)).astype(float)
        own = rate_intervals(drawn, members, level)
        wide = rate_intervals(drawn, members, 1 - (1 - level) / max(1, len(rates) - 1))
        _, low, high = impact_ratios(own.estimate, own.low, own.high, wide.low, wide.high)
        missed += (truth < low) | (truth > high)
    assert missed.max() / n_draws < 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_draws)


def test_audits_have_rates_and_the_distance_between_pairs():
    found = audit(HIRED, FRAME, n_boot=20, level=0.9, baseline=1 - HIRED)
    assert [table.attribute for table in found.rates.tables] == ["sex", "race", "sex, race"]
    assert found.rates.overall == pytest.approx(HIRED.mean())
    assert found.rates.overall_before == pytest.approx(1 - HIRED.mean())
    pairs = unfairness(HIRED, FRAME, metric="ks", pairwise=True)
    assert found.pairs["ks"].distance == pytest.approx(max(pairs.values()))
    one = audit(HIRED, SEX, n_boot=20, level=0.9)
    fairlearns = demographic_parity_difference(HIRED, HIRED, sensitive_features=SEX)
    assert one.pairs["ks"].distance == pytest.approx(fairlearns)
    assert one.measures["ks"].estimate.max() < fairlearns <= 2 * one.measures["ks"].estimate.max()
    assert "Between two groups the largest KS" in one.verdict
    assert "Lowest impact ratio" in one.verdict
    assert json.loads(json.dumps(one.to_dict(), allow_nan=False))["pairs"]["ks"][1:] == ["F", "M"]


def test_rates_within_strata_compare_within_them():
    found = audit(HIRED, SEX, given=RACE, n_boot=20, level=0.9).rates.tables[0]
    for stratum in np.unique(RACE):
        inside = [place for place, (each, _) in enumerate(found.groups) if each == stratum]
        assert found.ratio.estimate[inside].max() == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictions": ["a", "b"]}, "selected="),
        ({"predictions": [0.0, 1.0], "threshold": 1.0, "selected": 1}, "exclude each other"),
        ({"predictions": [[0.5, 0.5]] * 2, "atoms": [0, 1], "selected": 7}, "none of the labels"),
        ({"predictions": [[0.5, 0.5]] * 2}, "needs the atoms"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        selection_rates(sensitive_features=["x", "y"], **arguments)


def test_missing_in_every_row_is_refused():
    with pytest.raises(ValueError, match="missing in every row"):
        selection_rates([0.0, 1.0], [None, None])


@pytest.fixture(scope="module")
def people():
    data = make_population(1500, n_groups=2, separation=2.0, random_state=0)
    sex = np.where(data.sensitive_features == 0, "F", "M")
    hired = np.where(data.target > 0.2, "yes", "no")
    model = ParityClassifier(epsilon=0.05, confidence=None, random_state=0)
    groups = pd.DataFrame({"sex": sex, "half": np.arange(1500) % 2})
    return model.fit(data.data, hired, sensitive_features=groups), data.data, hired, groups


def test_a_report_and_a_card_have_rates_before_and_after(people, tmp_path):
    model, X, hired, groups = people
    known, sex = {"sensitive_features": groups}, groups["sex"]
    card = json.loads(model_card(model, X, hired, path=tmp_path / "card.json", **known).read_text())
    found = selection_rates(
        model.predict_proba(X),
        sex,
        atoms=["no", "yes"],
        selected="yes",
        baseline=(model.predict_scores(X)[0] >= 0.5).astype(float),
    )
    tables = card["rates"]["numbers"]["tables"]
    assert [table["attribute"] for table in tables] == ["sex", "half", "sex, half"]
    for told, wanted in zip(tables[0]["groups"], found.tables[0].records(), strict=True):
        for name in ("rate", "rate_before", "impact_ratio", "impact_ratio_low", "impact_ratio_high"):
            assert told[name] == pytest.approx(wanted[name], abs=1e-9)
    text = model_card(model, X, hired, path=tmp_path / "card.md", selected="no", **known).read_text()
    assert "Share of decisions for no" in text
    assert "Between two groups it is at most" in text
    assert "| sex | Rows | Selected | Rate | Rate before | Impact ratio | At least | At most |" in text
    page = report(model, X, hired, path=tmp_path / "page.html", n_tolerances=0, **known).read_text()
    assert "Who is selected: rates and impact ratios" in page
    assert "Local Law 144" in page
    with pytest.raises(ValueError, match="none of the classes"):
        model_card(model, X, hired, path=tmp_path / "card.md", selected="maybe", **known)


def test_a_card_of_numbers_has_shares_above_the_median_or_a_threshold(tmp_path):
    data = make_population(600, n_groups=2, random_state=0)
    model = ParityPostprocessor(epsilon=0.05).fit(data.scores, data.group_proba)
    pmf = model.predict_pmf(data.scores, data.group_proba)
    known = {"sensitive_features": data.sensitive_features, "path": tmp_path / "card.json"}
    for threshold in (None, 0.25):
        card = model_card(model, (data.scores, data.group_proba), threshold=threshold, **known)
        told = json.loads(card.read_text())["rates"]["numbers"]
        wanted = selection_rates(pmf, data.sensitive_features, model.atoms_, threshold=threshold)
        rates = [line["rate"] for line in told["tables"][0]["groups"]]
        assert rates == pytest.approx(wanted.tables[0].rate.estimate.tolist())
        assert told["meaning"] == wanted.meaning


def test_the_command_line_has_each_attribute_their_combinations_and_the_unknown(run, tmp_path):
    sex = SEX.astype(object)
    sex[:7] = None
    table = pd.DataFrame(
        {"decision": np.array(["no", "yes"])[HIRED], "score": SCORES, "sex": sex, "race": RACE}
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    asked = ("audit", tmp_path / "people.csv", "-s", "sex", "-s", "race")
    told = run(*asked, "--prediction", "decision", "--selected", "yes", "--json").facts["rates"]
    wanted = selection_rates(HIRED, pd.DataFrame({"sex": sex, "race": RACE}))
    assert told["tables"] == json.loads(json.dumps(wanted.to_dict()))["tables"]
    assert [each["unknown"] for each in told["tables"]] == [7, 0, 7]
    shown = run(*asked, "--prediction", "score", "--threshold", "0.7").out
    assert "Lowest impact ratio by sex" in shown
    assert "7 rows are not counted by sex" in shown
    assert run(*asked, "--prediction", "decision", "--selected", "maybe").code == 2


def test_the_command_line_tells_rates_of_a_model(run, people, tmp_path):
    _, X, hired, groups = people
    names = [f"x{place}" for place in range(X.shape[1])]
    table = pd.DataFrame(X, columns=names).assign(hired=hired, sex=groups.sex)
    table.to_csv(tmp_path / "people.csv", index=False)
    fit = ("fit", tmp_path / "people.csv", "-y", "hired", "-s", "sex", "--confidence", "none")
    done = run(*fit, "-o", tmp_path / "m.evenhand", "--json").facts["held_out"]["rates"]
    assert done["meaning"] == "decisions for yes"
    assert done["overall_before"] is not None
    asked = ("audit", tmp_path / "people.csv", "--model", tmp_path / "m.evenhand", "-s", "sex", "-y", "hired")
    assert "Share of decisions for yes" in run(*asked).out
    assert "Share of decisions for no" in run(*asked, "--selected", "no").out
    assert run(*asked, "--threshold", "1").code == 2


def test_an_audit_counts_the_unknown_of_each_attribute_and_takes_soft_groups():
    race = RACE.astype(object)
    race[:50] = None
    found = audit(HIRED, pd.DataFrame({"sex": SEX, "race": race}), y=SCORES, n_boot=20, level=0.9)
    assert found.n_unknown == 50
    assert [table.n_unknown for table in found.rates.tables] == [0, 50, 50]
    assert found.constant_risk == pytest.approx(SCORES[50:].var())
    soft = np.where((SEX == "F")[:, None], [0.8, 0.2], [0.3, 0.7])
    rates = audit(HIRED, soft, n_boot=20, level=0.9).rates.tables[0]
    assert rates.rate.estimate == pytest.approx(HIRED @ soft / soft.sum(axis=0))
