"""The command line, from a table to a model, scored rows and a page."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import evenhand as eh
from evenhand._utils.progress import listening, report_progress
from evenhand.cli import main, terminal
from evenhand.cli.commands import bench as bench_command
from evenhand.exceptions import ToleranceWarning
from evenhand.tables import files
from evenhand.tables.sources import open_source
from evenhand.tables.writing import write_frame
from tests.cli_support import files_of, make_table

FIT = ("--target", "outcome", "--sensitive", "group", "--id", "id")
COMMANDS = ("demo", "fit", "predict", "audit", "frontier", "report", "info", "bench", "warm-up")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the rows in every format and a model fitted on the CSV file."""
    home = tmp_path_factory.mktemp("cli")
    rows = make_table()
    write_frame(rows, str(home / "rows.csv"))
    write_frame(rows, str(home / "rows.parquet"))
    write_frame(rows, str(home / "rows.arrow"))
    (home / "rows.csv.gz").write_bytes(gzip.compress((home / "rows.csv").read_bytes()))
    (home / "folder").mkdir()
    write_frame(rows.slice(0, 150), str(home / "folder" / "first.csv"))
    write_frame(rows.slice(150), str(home / "folder" / "second.csv"))
    assert main(["fit", str(home / "rows.csv"), *FIT, "-o", str(home / "model.evenhand"), "-q"]) == 0
    return home


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def python_frame(rows):
    """The features as a Python user would pass them to the same model."""
    days = (pd.to_datetime(rows["since"].to_pandas()) - pd.Timestamp(0)) / pd.Timedelta(days=1)
    return pd.DataFrame(
        {
            "size": rows["size"].to_numpy(),
            "gap": rows["gap"].to_numpy(),
            "town": np.array(rows["town"].to_pylist(), dtype=object),
            "since": days.to_numpy(),
        }
    )


def test_fit_prints_a_table_of_held_out_rows_and_writes_a_model_that_needs_no_trust(run, folder, tmp_path):
    outcome = run("fit", folder / "rows.csv", *FIT, "-o", tmp_path / "m.evenhand")
    assert outcome.code == 0
    assert "KS before" in outcome.out
    assert "On 80 rows that were held out" in outcome.out
    assert files_of(tmp_path) == ["m.evenhand"]
    assert eh.load(tmp_path / "m.evenhand").feature_names_in_.tolist() == ["size", "gap", "town", "since"]


def test_the_json_of_fit_has_the_certificate_and_the_numbers_that_the_library_measures(run, folder, tmp_path):
    facts = run("fit", folder / "rows.csv", *FIT, "-o", tmp_path / "m.evenhand", "--json").facts
    model = eh.load(tmp_path / "m.evenhand")
    assert_allclose(facts["certificate"]["violation"], model.certificate_.violation)
    assert facts["features"] == {"size": "number", "gap": "number", "town": "text", "since": "moment"}
    after = [group["ks_after"] for group in facts["held_out"]["groups"]]
    assert facts["held_out"]["max_ks_after"] == max(after)
    assert sum(group["rows"] for group in facts["held_out"]["groups"]) == 80


def test_predictions_are_those_of_the_library_and_rows_keep_their_order_and_their_cells(run, folder):
    rows = make_table()
    outcome = run(
        "predict", folder / "model.evenhand", folder / "rows.csv", "--kind", "draw", "--kind", "mean"
    )
    got = read_csv(outcome.out)
    model, frame = eh.load(folder / "model.evenhand"), python_frame(rows)
    ids = rows["id"].to_pylist()  # the fit was told who a row is
    assert_array_equal([float(row["prediction"]) for row in got], model.predict(frame, ids=ids))
    assert_allclose([float(row["mean"]) for row in got], model.predict_mean(frame), rtol=1e-12)
    before = read_csv((folder / "rows.csv").read_text())
    assert [{name: row[name] for name in before[0]} for row in got] == before
    assert got[0]["id"] == rows["id"][0].as_py()  # text, zeros and all


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv.gz", "folder"])
def test_every_format_gives_the_same_predictions(run, folder, name):
    wanted = run("predict", folder / "model.evenhand", folder / "rows.csv", "--keep", "none").out
    assert run("predict", folder / "model.evenhand", folder / name, "--keep", "none").out == wanted


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_typed_formats_keep_types_and_rows(run, folder, tmp_path, kind):
    out = tmp_path / f"scored.{kind}"
    assert run("predict", folder / "model.evenhand", folder / f"rows.{kind}", "-o", out).code == 0
    read = pa.parquet.read_table if kind == "parquet" else pa.feather.read_table
    scored = read(out)
    assert scored.drop_columns(["prediction"]).equals(make_table())
    assert scored["prediction"].type == pa.float64()


def test_standard_input_and_output_work_for_text_and_for_parquet(run, folder, monkeypatch):
    wanted = run("predict", folder / "model.evenhand", folder / "rows.csv").out
    for name, options in (
        ("rows.csv", ()),
        ("rows.parquet", ("--input-format", "parquet", "--keep", "none")),
    ):
        with open(folder / name, "rb") as file:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
            got = run("predict", folder / "model.evenhand", "-", *options)
        assert got.code == 0
        assert [row["prediction"] for row in read_csv(got.out)] == [
            row["prediction"] for row in read_csv(wanted)
        ]


def test_batches_of_any_size_give_the_same_answer(run, folder, monkeypatch):
    wanted = run("predict", folder / "model.evenhand", folder / "rows.csv").out
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)  # a few rows
    monkeypatch.setattr(files, "BATCH_ROWS", 7)
    assert len(list(files.read_batches(open_source(folder / "rows.csv")))) > 10
    assert run("predict", folder / "model.evenhand", folder / "rows.csv").out == wanted
    keep = ("--keep", "none")
    by_batch = run("predict", folder / "model.evenhand", folder / "rows.parquet", *keep).out
    assert by_batch == run("predict", folder / "model.evenhand", folder / "rows.csv", *keep).out


def test_a_draw_by_id_stays_with_the_person_in_any_order(run, folder, tmp_path):
    rows = make_table()
    shuffled = rows.take(np.random.default_rng(1).permutation(rows.num_rows))
    write_frame(shuffled, str(tmp_path / "shuffled.csv"))
    found = []
    for source in (folder / "rows.csv", tmp_path / "shuffled.csv"):
        options = ("--id", "id", "--keep", "id")
        out = run("predict", folder / "model.evenhand", source, *options).out
        found.append({row["id"]: row["prediction"] for row in read_csv(out)})
    assert found[0] == found[1]
    assert len(found[0]) == rows.num_rows


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_measurement_of_rows_without_ids_goes_by_features_and_says_so(run, folder, tmp_path, suffix):
    rows = make_table()
    ids = [None if place == 6 else each for place, each in enumerate(rows["id"].to_pylist())]
    write_frame(rows.set_column(0, "id", pa.array(ids)), str(tmp_path / f"rows.{suffix}"))
    done = run(
        "audit", tmp_path / f"rows.{suffix}", "--model", folder / "model.evenhand", "--sensitive", "group"
    )
    assert done.code == 0
    assert "note: Column id has no id in row 7 (rows without an id so far: 1; " in done.err
    assert "drawn by the features instead" in done.err


def test_whole_numbers_are_the_same_ids_in_csv_and_parquet(run, folder, tmp_path):
    rows = make_table().set_column(0, "id", pa.array(range(400)))
    write_frame(rows, str(tmp_path / "rows.csv"))
    write_frame(rows, str(tmp_path / "rows.parquet"))
    drawn = [
        run("predict", folder / "model.evenhand", tmp_path / name, "--id", "id", "--keep", "none").out
        for name in ("rows.csv", "rows.parquet")
    ]
    assert drawn[0] == drawn[1]
    model = eh.load(folder / "model.evenhand")
    wanted = model.predict(python_frame(rows), ids=np.arange(400))
    assert_array_equal([float(row["prediction"]) for row in read_csv(drawn[0])], wanted)


def test_audit_of_a_column_is_the_audit_of_the_library(run, folder, tmp_path):
    run("predict", folder / "model.evenhand", folder / "rows.csv", "-o", tmp_path / "scored.csv")
    rows = make_table()
    asked = ("--prediction", "prediction", "--sensitive", "group", "--target", "outcome", "--json")
    facts = run("audit", tmp_path / "scored.csv", *asked).facts
    numbers = ["prediction", "outcome"]  # read by Python: older pandas would round them otherwise
    scored = pd.read_csv(tmp_path / "scored.csv", dtype=dict.fromkeys(numbers, str))
    scored[numbers] = scored[numbers].map(float)
    direct = eh.audit(scored["prediction"], scored["group"], y=scored["outcome"])
    assert {name: facts[name] for name in direct.to_dict()} == json.loads(json.dumps(direct.to_dict()))
    assert facts["n_rows"] == rows.num_rows


def test_audit_ends_with_four_where_the_limit_is_passed(run, folder):
    asked = ("audit", folder / "rows.csv", "--model", folder / "model.evenhand", "--sensitive", "group")
    assert run(*asked, "--fail-above", "1").code == 0
    outcome = run(*asked, "--fail-above", "0.0001")
    assert outcome.code == 4
    assert "above 0.0001" in outcome.err


def test_tolerances_by_group_reach_the_model(run, folder, tmp_path):
    out = tmp_path / "m.evenhand"
    assert run("fit", folder / "rows.csv", *FIT, "--epsilon", "A=0.02,B=6%", "-o", out).code == 0
    assert_allclose(eh.load(out).epsilon_, [0.02, 0.06])


def test_a_limit_on_the_risk_chooses_epsilon_by_rows_that_the_table_does_not_show(run, folder, tmp_path):
    out = tmp_path / "m.evenhand"
    outcome = run("fit", folder / "rows.csv", *FIT, "--max-risk-increase", "5%", "-o", out, "--json")
    assert outcome.code == 0
    assert outcome.facts["held_out"]["rows"] == 40
    strict = run(
        "fit", folder / "rows.csv", *FIT, "--epsilon", "0", "-o", tmp_path / "0.evenhand", "--json"
    ).facts
    assert outcome.facts["certificate"]["risk"] < strict["certificate"]["risk"]


def test_frontier_writes_the_table_of_the_library(run, folder, tmp_path):
    out, picture = tmp_path / "frontier.csv", tmp_path / "frontier.svg"
    asked = (*FIT, "--epsilon", "0.02,0.1", "-o", out, "--plot", picture, "--json")
    facts = run("frontier", folder / "rows.csv", *asked).facts
    assert [point["epsilon"] for point in facts["points"]] == [0.02, 0.1]
    assert facts["points"][0]["risk"] >= facts["points"][1]["risk"] > 0
    assert_allclose(pd.read_csv(out)["max_ks"], [point["max_ks"] for point in facts["points"]])
    assert b"<svg" in picture.read_bytes()


def test_report_and_card_are_written(run, folder, tmp_path):
    page, card = tmp_path / "r.html", tmp_path / "card.json"
    asked = ("--sensitive", "group", "--target", "outcome", "-o", page, "--card", card, "--json")
    outcome = run("report", folder / "model.evenhand", folder / "rows.csv", *asked)
    assert outcome.facts["report"] == str(page)
    assert "<html" in page.read_text()
    assert json.loads(card.read_text())


def test_fit_compares_with_a_model_that_looks_at_the_group_and_says_that_it_fits_one(run, tmp_path):
    rows, page = tmp_path / "rows.csv", tmp_path / "page.html"
    write_frame(make_table(1500), str(rows))
    asked = ("fit", rows, *FIT, "-o", tmp_path / "model.evenhand", "--epsilon", "0.1")
    outcome = run(*asked, "--compare-aware", "--report", page)
    assert outcome.code == 0
    assert "Two models, each fitted for its mode, are measured on these rows." in page.read_text()
    assert "a second model is fitted, which looks at the group" in outcome.err
    alone = run(*asked, "--compare-aware")
    assert (alone.code, alone.err.count("--report")) == (2, 1)


def test_report_takes_a_second_model_of_the_other_mode(run, folder, tmp_path):
    rows = make_table()
    labels = np.array(rows["group"].to_pylist())
    aware = eh.ParityRegressor(aware=True)
    with pytest.warns(ToleranceWarning):
        aware.fit(python_frame(rows), rows["outcome"].to_numpy(), sensitive_features=labels)
    eh.save(aware, tmp_path / "aware.evenhand")
    asked = ("--sensitive", "group", "--target", "outcome", "-o", tmp_path / "r.html")
    outcome = run(
        "report",
        folder / "model.evenhand",
        folder / "rows.csv",
        *asked,
        "--compare",
        tmp_path / "aware.evenhand",
    )
    assert outcome.code == 0
    assert "Two models, each fitted for its mode" in (tmp_path / "r.html").read_text()


def test_rows_without_a_group_teach_the_outcome_and_are_not_measured(run, tmp_path):
    rows = make_table(900)
    groups = np.array(rows["group"].to_pylist(), dtype=object)
    groups[::3] = None
    rows = rows.set_column(rows.column_names.index("group"), "group", pa.array(groups.tolist()))
    write_frame(rows, str(tmp_path / "rows.csv"))
    outcome = run("fit", tmp_path / "rows.csv", *FIT, "-o", tmp_path / "model.evenhand", "--json")
    assert "300 of 900 rows have no group: they teach the outcome" in outcome.err
    assert outcome.facts["rows"] == 300 + 480
    assert outcome.facts["held_out"]["rows"] == 120
    knowledge = eh.load(tmp_path / "model.evenhand").group_summary_
    assert (knowledge.n_rows, knowledge.n_known) == (780, 480)
    told = run("fit", tmp_path / "rows.csv", *FIT, "-o", tmp_path / "model.evenhand")
    assert "The group of 480 of 780 rows was known" in told.out + told.err


def test_an_age_for_a_group_gets_a_note(run, tmp_path):
    rows = make_table(600)
    rows = rows.set_column(rows.column_names.index("group"), "group", pa.array(np.arange(600) % 25 + 18))
    write_frame(rows, str(tmp_path / "rows.csv"))
    outcome = run("fit", tmp_path / "rows.csv", *FIT, "-o", tmp_path / "m.evenhand", "--confidence", "none")
    assert "column group has 25 different numbers" in outcome.err
    assert "pandas.cut" in outcome.err


def test_info_tells_what_a_model_needs(run, folder):
    outcome = run("info", folder / "model.evenhand")
    assert "moment" in outcome.out
    assert run("info", folder / "model.evenhand", "--json").facts["class"] == "ParityRegressor"


def test_a_model_made_in_python_serves_too(run, folder, tmp_path):
    rows = make_table()
    X = rows.select(["size"]).to_pandas()
    group = (rows["group"].to_pandas() == "A").astype(int)
    model = eh.ParityRegressor(confidence=None).fit(X, rows["outcome"].to_numpy(), sensitive_features=group)
    eh.save(model, tmp_path / "m.evenhand")
    got = read_csv(run("predict", tmp_path / "m.evenhand", folder / "rows.csv").out)
    assert_array_equal([float(row["prediction"]) for row in got], model.predict(X))
    write_frame(rows.append_column("code", pa.array(group)), str(tmp_path / "coded.csv"))
    outcome = run("audit", tmp_path / "coded.csv", "-m", tmp_path / "m.evenhand", "-s", "code", "--json")
    assert outcome.facts["groups"] == ["0", "1"]


def test_bench_compares_the_same_work(run):
    facts = run("bench", "--rows", "2000", "--rounds", "1", "--json").facts
    assert all(seconds > 0 for seconds in facts["seconds"].values())
    runs = bench_command._runs(2000)
    assert_array_equal(runs["NumPy: draws"](), runs["compiled: draws"]())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(run, command):
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"evenhand {command}" in " ".join(outcome.out.split("Example")[1].split())


def test_the_version_is_told(run):
    assert run("--version").out == f"evenhand {eh.__version__}\n"


def test_without_the_extra_one_line_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "typer" else object())
    outcome = run("demo")
    assert outcome.code == 2
    assert outcome.err == "evenhand: the command line needs typer. Run: pip install 'evenhand[cli]'\n"


def test_a_fit_tells_its_stages_and_their_ends(folder):
    heard = {}
    rows = make_table()
    with listening(lambda stage, done, total: heard.setdefault(stage, []).append((done, total))):
        eh.ParityRegressor(epsilon=0.2).fit(
            rows.select(["size"]).to_pandas(),
            rows["outcome"].to_numpy(),
            sensitive_features=rows["group"].to_pandas(),
        )
    assert heard["model of the outcome"] == heard["model of the group"] == [(fit, 6) for fit in range(7)]
    assert heard["parity step"][-1] == (1, 1)


def test_bars_tell_the_time_left_on_a_terminal_and_are_silent_elsewhere(monkeypatch, capsys):
    screen = io.StringIO()
    maker = terminal.Console

    def console(stderr=False, **options):
        return maker(file=screen, force_terminal=True, width=100)

    monkeypatch.setattr(terminal, "Console", console)
    with terminal.Terminal().working("Fitting"):
        report_progress("folds", 3, 10)
    assert "Fitting: folds" in screen.getvalue()
    assert "left:" in screen.getvalue()
    screen.truncate(0)
    with terminal.Terminal(quiet=True).working("Fitting"):
        report_progress("folds", 3, 10)
    assert "Fitting" not in screen.getvalue()
    monkeypatch.setattr(terminal, "Console", maker)
    with terminal.Terminal().working("Fitting"):
        report_progress("folds", 3, 10)
    assert capsys.readouterr().err == ""


def test_the_demo_writes_model_rows_and_report_and_ends_with_the_path_of_the_report(run, tmp_path):
    outcome = run("demo", "--out", tmp_path / "demo")
    assert outcome.code == 0
    made = files_of(tmp_path / "demo")
    assert made == ["model.evenhand", "new-people.csv", "people.csv", "report.html", "scored.csv"]
    assert outcome.out.rstrip().endswith(str(tmp_path / "demo" / "report.html"))
    new, scored = (pd.read_csv(tmp_path / "demo" / f"{name}.csv") for name in ("new-people", "scored"))
    assert scored.drop(columns="prediction").equals(new)
    assert "group" not in new
