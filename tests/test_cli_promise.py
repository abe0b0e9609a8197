"""What new people are promised, on the command line: asked for, expected, and delivered."""

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
    path = tmp_path_factory.mktemp("promise") / "rows.csv"
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


def test_fit_tells_asked_expected_and_chance(fit):
    outcome, model = fit("--epsilon", "0.1")
    promise = model.certificate_.promise
    assert "asked for at most 0.1 for new people." in outcome.out
    assert promise.summary() in outcome.out
    assert promise.confidence is None
    assert outcome.err == ""


def test_a_confidence_reaches_the_model_the_words_and_the_json(fit):
    outcome, model = fit("--epsilon", "0.1", "--confidence", "90%")
    assert model.confidence == pytest.approx(0.9)
    assert "with confidence 0.9" in outcome.out
    facts = fit("--epsilon", "0.1", "--confidence", "0.9", "--json")[0].facts
    assert facts["certificate"]["promise"] == model.certificate_.promise.to_dict()
    assert facts["epsilon"] == [0.1, 0.1]


def test_no_confidence_keeps_epsilon_on_the_rows_of_the_fit(fit):
    outcome, model = fit("--epsilon", "0.1", "--confidence", "none")
    assert "at most 0.1 on these rows, reached 0.1. Nothing is promised to new people." in outcome.out
    assert model.certificate_.promise is None
    assert model.calibrator_ is None
    assert_allclose(model.certificate_.epsilon, 0.1)


def test_a_calibration_is_left_out_by_name(fit):
    outcome, model = fit("--epsilon", "0.2", "--calibration", "none")
    assert outcome.code == 0
    assert model.calibration is None
    assert model.certificate_.promise is not None


def test_a_promise_that_cannot_be_kept_is_a_note_and_not_said_twice(fit):
    outcome, model = fit("--epsilon", "0.001")
    assert outcome.code == 0
    assert not model.certificate_.promise.kept
    assert outcome.err.startswith("evenhand: note: 0.001 cannot be promised to new people")
    assert "cannot be promised" not in outcome.out
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
    assert strict["certificate"]["promise"] is None


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


def test_info_tells_asked_and_expected_beside_what_the_rows_have(run, fit, tmp_path):
    model = fit("--epsilon", "A=0.1,B=0.2", "--confidence", "0.9")[1]
    outcome = run("info", tmp_path / "m.evenhand")
    head = next(line for line in outcome.out.splitlines() if "asked" in line)
    assert head.split()[:3] == ["group", "share", "asked"]
    assert "expected for new people" in head
    assert "at most, confidence 0.9" in head
    assert "on the rows of the fit" in head
    assert str(model.certificate_.promise) in outcome.out
    facts = run("info", tmp_path / "m.evenhand", "--json").facts
    assert facts["epsilon"] == [0.1, 0.2]
    assert_allclose(facts["certificate"]["epsilon"], model.postprocessor_.tolerance_)
    fit("--confidence", "none")
    assert "Nothing is promised to new people." in run("info", tmp_path / "m.evenhand").out


def test_the_demo_asks_for_a_twentieth_and_delivers_it_to_new_people(run, tmp_path):
    facts = run("demo", "--out", tmp_path, "--json").facts
    assert facts["epsilon"] == [0.05] * 3
    found = facts["held_out"]
    assert found["rows"] == 20_000
    assert found["max_ks_before"] > 0.15
    assert found["max_ks_after"] < 0.05
    assert max(group["ks_by_chance"] for group in found["groups"]) < 0.015
    # the same numbers from the files: nobody's group had a part in the scores
    from evenhand.cli.commands.demo import make_people

    new = pd.read_csv(tmp_path / "new-people.csv")
    assert "group" not in new
    model = eh.load(tmp_path / "model.evenhand")
    pmf = model.predict_pmf(new[model.feature_names_in_.tolist()])
    truth = make_people(20_000, seed=1)["group"].to_numpy()
    assert max(ks_unfairness(pmf, truth).values()) == pytest.approx(found["max_ks_after"], abs=1e-9)
    assert np.max(facts["certificate"]["promise"]["expected"]) <= 0.05
