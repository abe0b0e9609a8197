import json
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pytest

import evenhand as eh
from evenhand.metrics import risk, unfairness, unfairness_interval

RNG = np.random.default_rng(0)
GROUPS = np.repeat(["A", "B"], [400, 200])
VALUES = RNG.normal(size=600) + 0.5 * (GROUPS == "B")
TARGET = VALUES + RNG.normal(size=600)
ATOMS = np.linspace(-1, 1, 7)
PMF = RNG.dirichlet(np.ones(7), size=600)


def test_the_frame_holds_what_the_metrics_say():
    found = eh.audit(PMF, GROUPS, y=TARGET, atoms=ATOMS, n_boot=50)
    table = found.frame("pandas").set_index(["measure", "group"])
    for name in ("ks", "tv", "w1", "sup", "mean"):
        expected = unfairness(PMF, GROUPS, ATOMS, metric=name)
        assert table.loc[name, "estimate"].to_dict() == pytest.approx(expected)
    assert table.loc[("risk", "B"), "estimate"] == pytest.approx(risk(TARGET[400:], PMF[400:], ATOMS))
    assert table.loc[("average", "B"), "estimate"] == pytest.approx((PMF[400:] @ ATOMS).mean())
    values = eh.audit(VALUES, GROUPS, n_boot=50)
    ks = unfairness_interval(VALUES, GROUPS, method="dkw")
    assert values.measures["ks"].high.tolist() == pytest.approx(ks.high.tolist())
    assert found.measures["ks"].method == "bootstrap"
    assert (table["low"] <= table["estimate"]).all()
    assert (table["estimate"] <= table["high"]).all()
    assert isinstance(found.frame("polars"), pl.DataFrame)


def test_the_verdict_tells_an_imbalance_from_chance():
    unequal = eh.audit(VALUES, GROUPS)
    assert "KS for group B is" in unequal.verdict.splitlines()[0]
    assert "beyond what chance explains" in unequal.verdict.splitlines()[0]
    equal = eh.audit(RNG.normal(size=600), GROUPS)
    assert "chance alone can show as much" in equal.verdict.splitlines()[0]
    assert str(equal).startswith("Audit of 600 rows in 2 groups")


def test_a_baseline_is_compared_by_the_same_measures():
    found = eh.audit(0.1 * VALUES, GROUPS, y=TARGET, baseline=VALUES)
    table = found.frame("pandas").set_index(["measure", "group"])
    assert table.loc["w1", "baseline"].to_dict() == pytest.approx(unfairness(VALUES, GROUPS, metric="w1"))
    assert table.loc[("risk", "A"), "baseline"] == pytest.approx(risk(TARGET[:400], VALUES[:400]))
    assert f"{risk(TARGET, VALUES):.3g} for the baseline" in found.verdict
    of_pmf = eh.audit(PMF, GROUPS, atoms=ATOMS, baseline=VALUES)
    assert of_pmf.frame("pandas").query("measure == 'tv'")["baseline"].isna().all()


def test_total_variation_is_left_out_where_values_hardly_tie():
    assert "tv" not in eh.audit(VALUES, GROUPS).measures
    assert "tv" in eh.audit(np.round(VALUES), GROUPS).measures


def test_certain_probabilities_give_what_labels_give():
    by_label = eh.audit(np.round(VALUES), GROUPS, y=TARGET)
    proba = pd.DataFrame({"A": (GROUPS == "A") * 1.0, "B": (GROUPS == "B") * 1.0})
    by_proba = eh.audit(np.round(VALUES), proba, y=TARGET)
    assert by_proba.groups == ("A", "B")
    for name, found in by_label.measures.items():
        np.testing.assert_allclose(by_proba.measures[name].estimate, found.estimate, atol=1e-12)
        if found.method == by_proba.measures[name].method:
            np.testing.assert_allclose(by_proba.measures[name].high, found.high, rtol=0.25)
    assert by_proba.measures["ks"].method == "bootstrap"


def test_an_audit_repeats_with_its_seed_and_goes_to_json():
    first, again = (eh.audit(PMF, GROUPS, atoms=ATOMS, random_state=3).to_dict() for _ in range(2))
    assert json.loads(json.dumps(first, allow_nan=False)) == again
    assert first["groups"] == ["A", "B"]


def test_the_html_is_escaped_and_needs_nothing_else():
    shown = eh.audit([1.0, 2.0] * 30, ["<b>x</b>", "y"] * 30)._repr_html_()
    assert "<b>" not in shown
    assert "&lt;b&gt;x" in shown
    assert "http" not in shown
    assert len(shown) < 3000


def test_an_audit_is_frozen():
    with pytest.raises(FrozenInstanceError):
        eh.audit(VALUES, GROUPS).level = 0.5


def test_a_single_row_group_gets_wide_intervals():
    groups = np.array(["one"] + ["rest"] * 599)
    found = eh.audit(np.round(VALUES), groups, y=TARGET)
    for name in ("ks", "tv", "sup"):
        assert found.measures[name].low[0] == 0.0
        assert found.measures[name].high[0] > 0.98
    assert found.measures["risk"].high[0] == np.inf
    json.dumps(found.to_dict(), allow_nan=False)


def test_weights_count_as_repeated_rows():
    times = RNG.integers(1, 4, size=600)
    weighted = eh.audit(np.round(VALUES), GROUPS, y=TARGET, sample_weight=times)
    repeated = eh.audit(*(np.repeat(each, times) for each in (np.round(VALUES), GROUPS)))
    for name in ("ks", "w1", "average"):
        expected = repeated.measures[name].estimate
        np.testing.assert_allclose(weighted.measures[name].estimate, expected, atol=1e-12)
    assert weighted.sizes.sum() < 600


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((PMF, GROUPS), {}, "needs the atoms"),
        ((2 * PMF, GROUPS), {"atoms": ATOMS}, "sum to one"),
        ((VALUES + np.nan, GROUPS), {}, "NaN"),
        ((VALUES, GROUPS[:-1]), {}, "one label per row"),
        ((VALUES, np.column_stack([np.ones(600), np.zeros(600)])), {}, "No row counts in group"),
        ((VALUES, GROUPS), {"y": TARGET[:3]}, "y_true needs one value per row"),
        ((VALUES, GROUPS), {"baseline": VALUES[:3]}, "baseline needs one prediction per row"),
        ((VALUES, GROUPS), {"sample_weight": (GROUPS == "A") * 1.0}, "No row counts in group 'B'"),
    ],
)
def test_an_audit_refuses_bad_input_by_name(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        eh.audit(*arguments, **options)
