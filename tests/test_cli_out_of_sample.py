"""The out-of-sample estimate on the command line: tolerance, estimate, and what new data show."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import evenhand as eh
from evenhand.metrics import ks_unfairness
from evenhand.tables.writing import write_frame
from tests.cli_support import make_table

FIT = ("--target", "outcome", "--sensitive", "group", "--id", "id")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("estimate") / "rows.csv"
    write_frame(make_table(1200), str(path))
    return path


@pytest.fixture
def fit(run, table, tmp_path):
    """Fit with more options; how that ended, and the model."""

    def call(*options):
        out = tmp_path / "m.evenhand"
        outcome = run("fit", table, *FIT, "-o", out, *options)
        return outcome, eh.load(out) if out.exists() else None

    return call


def test_fit_prints_the_tolerance_and_the_estimate(fit):
    outcome, model = fit("--epsilon", "0.1")
    estimate = model.certificate_.out_of_sample
    assert "at most 0.1 on new data." in outcome.out
    assert estimate.summary() in outcome.out
    assert estimate.confidence is None
    assert outcome.err == ""


def test_a_confidence_reaches_the_model_the_words_and_the_json(fit):
    outcome, model = fit("--epsilon", "0.1", "--confidence", "90%")
    assert model.confidence == pytest.approx(0.9)
    assert "with confidence 0.9" in outcome.out
    facts = fit("--epsilon", "0.1", "--confidence", "0.9", "--json")[0].facts
    assert facts["certificate"]["out_of_sample"] == model.certificate_.out_of_sample.to_dict()
    assert facts["epsilon"] == [0.1, 0.1]


def test_no_confidence_keeps_epsilon_on_the_rows_of_the_fit(fit):
    outcome, model = fit("--epsilon", "0.1", "--confidence", "none")
    assert "at most 0.1 on these rows, reached 0.1. There is no estimate for new data." in outcome.out
    assert model.certificate_.out_of_sample is None
    assert model.calibrator_ is None
    assert_allclose(model.certificate_.epsilon, 0.1)


def test_a_calibration_is_left_out_by_name(fit):
    outcome, model = fit("--epsilon", "0.2", "--calibration", "none")
    assert outcome.code == 0
    assert model.calibration is None
    assert model.certificate_.out_of_sample is not None


def test_an_epsilon_out_of_reach_is_a_note_and_not_said_twice(fit):
    outcome, model = fit("--epsilon", "0.001")
    assert outcome.code == 0
    assert not model.certificate_.out_of_sample.kept
    assert outcome.err.startswith("evenhand: note: epsilon=0.001 cannot be expected to hold on new data")
    assert "cannot be expected" not in outcome.out
    assert fit("--epsilon", "0.001", "--quiet")[0].out == ""


@pytest.mark.parametrize("text", ["1.5", "0", "often", "-0.2", "100%"])
def test_a_confidence_that_is_none_is_refused(run, table, text):
    outcome = run("fit", table, *FIT, f"--confidence={text}")
    assert outcome.code == 2
    assert "--confidence must be average, a number between 0 and 1" in outcome.err


def test_a_limit_on_the_distance_chooses_the_least_risk_by_rows_that_the_table_does_not_show(fit):
    loose, strict = (fit("--max-ks", limit, "--json")[0].facts for limit in ("0.3", "0.1"))
    assert strict["certificate"]["risk"] >= loose["certificate"]["risk"]
    assert loose["held_out"]["rows"] == 120
    assert strict["certificate"]["out_of_sample"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--max-ks", "0.1", "--epsilon", "0.1"), "--max-ks and --epsilon exclude each other"),
        (("--max-ks", "0.1", "--confidence", "0.9"), "--max-ks and --confidence exclude each other"),
        (("--max-ks", "0.1", "--max-risk-increase", "5%"), "--max-risk-increase and --max-ks exclude"),
        (("--max-ks", "0.1", "--holdout", "0"), "--max-ks needs rows to choose on"),
    ],
)
def test_limits_that_exclude_each_other_are_refused(run, table, options, words):
    outcome = run("fit", table, *FIT, *options)
    assert outcome.code == 2
    assert words in outcome.err


def test_a_distance_that_no_model_has_is_not_reached(run, table, tmp_path):
    outcome = run("fit", table, *FIT, "--max-ks", "0", "-o", tmp_path / "m.evenhand")
    assert outcome.code == 4
    assert "max_ks <= 0" in outcome.err
    assert not (tmp_path / "m.evenhand").exists()


def test_info_has_the_tolerance_and_the_estimate_next_to_the_rows_of_the_fit(run, fit, tmp_path):
    model = fit("--epsilon", "A=0.1,B=0.2", "--confidence", "0.9")[1]
    outcome = run("info", tmp_path / "m.evenhand")
    head = next(line for line in outcome.out.splitlines() if line.split()[:1] == ["group"])
    assert head.split()[:3] == ["group", "share", "tolerance"]
    assert "expected on new data" in head
    assert "at most, confidence 0.9" in head
    assert "on the rows of the fit" in head
    assert str(model.certificate_.out_of_sample) in outcome.out
    facts = run("info", tmp_path / "m.evenhand", "--json").facts
    assert facts["epsilon"] == [0.1, 0.2]
    assert_allclose(facts["certificate"]["epsilon"], model.tolerance_)
    fit("--confidence", "none")
    assert "No estimate for new data: epsilon is for the rows." in run("info", tmp_path / "m.evenhand").out


def test_the_demo_asks_for_a_twentieth_and_new_data_show_it(run, tmp_path):
    facts = run("demo", "--out", tmp_path, "--json").facts
    assert facts["epsilon"] == [0.05] * 3
    found = facts["held_out"]
    assert found["rows"] == 20_000
    assert found["max_ks_before"] > 0.15
    # epsilon is the mean over new data, and 3,334 rows of the smallest group show about 0.011 more or less
    assert found["max_ks_after"] < 0.05 + 0.011
    assert max(group["ks_by_chance"] for group in found["groups"]) < 0.015
    # the same numbers from the files: nobody's group had a part in the scores
    from evenhand.cli.commands.demo import make_people

    new = pd.read_csv(tmp_path / "new-people.csv")
    assert "group" not in new
    model = eh.load(tmp_path / "model.evenhand")
    pmf = model.predict_pmf(new[model.feature_names_in_.tolist()])
    truth = make_people(20_000, seed=1)["group"].to_numpy()
    assert max(ks_unfairness(pmf, truth).values()) == pytest.approx(found["max_ks_after"], abs=1e-9)
    assert np.max(facts["certificate"]["out_of_sample"]["expected"]) <= 0.05
