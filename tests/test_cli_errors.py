"""Whatever goes wrong on the command line is one line, an exit code, and no half-written file."""

import io
import os
import resource
import sys

import numpy as np
import pyarrow as pa
import pytest

from evenhand.cli import main
from evenhand.tables import writing
from evenhand.tables.writing import write_frame
from tests.cli_support import files_of, make_classes, make_table

FIT = ("--target", "outcome", "--sensitive", "group", "--id", "id")
CLASSES = ("--target", "hired", "--sensitive", "group", "--id", "id", "--task", "classification")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with good rows, a good model, and much that is bad."""
    folder = tmp_path_factory.mktemp("errors")
    rows = make_table(300)
    write_frame(rows, str(folder / "rows.csv"))
    assert main(["fit", str(folder / "rows.csv"), *FIT, "-o", str(folder / "model.evenhand"), "-q"]) == 0
    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_text("id,size,gap,town,since,group,outcome\n")
    (folder / "twice.csv").write_text("a,a,group,outcome\n1,2,A,3\n")
    (folder / "ragged.csv").write_text("a,group,outcome\n1,A,3\n1,2,3,4\n")
    (folder / "latin.csv").write_bytes("a,group,outcome\n1,Zürich,3\n".encode("latin-1"))
    (folder / "no.parquet").write_bytes(b"not parquet at all")
    (folder / "cut.evenhand").write_bytes((folder / "model.evenhand").read_bytes()[:500])
    (folder / "note.evenhand").write_text("hello")
    lonely = np.where(np.arange(300) == 7, "Z", rows["group"].to_pylist())
    write_frame(rows.set_column(5, "group", pa.array(lonely)), str(folder / "lonely.csv"))
    write_frame(rows.set_column(5, "group", pa.array(["A"] * 300)), str(folder / "one.csv"))
    words = [*rows["size"].to_pylist()[:200], *["large"] * 100]
    write_frame(rows.set_column(1, "size", pa.array(map(str, words))), str(folder / "words.csv"))
    write_frame(rows.set_column(1, "size", pa.array([np.inf] * 300)), str(folder / "infinite.csv"))
    write_frame(rows.drop_columns(["town"]), str(folder / "less.csv"))
    write_frame(rows.append_column("prediction", rows["size"]), str(folder / "taken.csv"))
    classes = make_classes(300)
    write_frame(classes, str(folder / "classes.csv"))
    made = ["fit", str(folder / "classes.csv"), *CLASSES, "-o", str(folder / "classes.evenhand"), "-q"]
    assert main(made) == 0
    other = pa.array(["maybe", *classes["hired"].to_pylist()[1:]])
    write_frame(classes.set_column(6, "hired", other), str(folder / "other.csv"))
    (folder / "costs.csv").write_text("true,no,perhaps\nno,0,1\nyes,1,0\n")
    return folder


def fit(data="rows.csv", *options):
    return ("fit", f"{{}}/{data}", *FIT, "-o", "{}/out/m.evenhand", *options)


def fit_classes(*options):
    return ("fit", "{}/classes.csv", *CLASSES, "-o", "{}/out/m.evenhand", *options)


def predict(data="rows.csv", *options, model="model.evenhand"):
    return ("predict", f"{{}}/{model}", f"{{}}/{data}", "-o", "{}/out/scored.csv", *options)


BAD = {
    "no command": (("fitt",), 2, "No such command"),
    "no option": (("fit", "{}/rows.csv"), 2, "Missing option"),
    "missing file": (fit("none.csv"), 5, "No such file"),
    "missing column": (fit("rows.csv", "--weight", "mass"), 3, "no column mass"),
    "missing target": (("fit", "{}/rows.csv", "-y", "pay", "-s", "group"), 3, "no column pay"),
    "group among the features": (fit("rows.csv", "--features", "group"), 2, "cannot be a feature"),
    "nothing to learn from": (
        fit("rows.csv", *[part for name in ("size", "gap", "town", "since") for part in ("--drop", name)]),
        2,
        "No column is left",
    ),
    "text for numbers": (
        ("fit", "{}/rows.csv", "-y", "town", "-s", "group", "--task", "regression"),
        3,
        "row 1 holds",
    ),
    "too many texts for classes": (
        ("fit", "{}/words.csv", "-y", "size", "-s", "group"),
        3,
        "row 201 holds 'large'. It has",
    ),
    "a group of one row": (fit("lonely.csv"), 3, "Z (1)"),
    "one group": (fit("one.csv"), 3, "parity needs two"),
    "empty file": (fit("empty.csv"), 3, "it is empty"),
    "no rows": (fit("header.csv"), 3, "has no rows"),
    "columns twice": (fit("twice.csv"), 3, "more than one column named a"),
    "ragged rows": (fit("ragged.csv"), 3, "Expected 3 columns"),
    "not UTF-8": (fit("latin.csv"), 3, "UTF-8"),
    "not Parquet": (fit("no.parquet"), 3, "cannot be read as parquet"),
    "unknown format": (fit("model.evenhand"), 2, "does not tell its format"),
    "infinite values": (fit("infinite.csv"), 3, "infinite value in row 1"),
    "bad epsilon": (fit("rows.csv", "--epsilon", "much"), 2, "--epsilon must be a number"),
    "negative epsilon": (fit("rows.csv", "--epsilon=-0.1"), 2, "not negative"),
    "epsilon of no group": (fit("rows.csv", "--epsilon", "A=0.1,Q=0.1"), 2, "names Q"),
    "epsilon lacks a group": (fit("rows.csv", "--epsilon", "A=0.1"), 2, "lacks group B"),
    "bad parity": (fit("rows.csv", "--parity", "equal"), 2, "--parity is one of"),
    "bad task": (fit("rows.csv", "--task", "ranking"), 2, "--task is one of"),
    "bad beta": (fit("rows.csv", "--beta", "hot"), 2, "--beta must be auto, paper or a positive number"),
    "beta of a share": (fit("rows.csv", "--beta", "5%"), 2, "--beta must be auto, paper or a positive"),
    "bad criterion": (fit("rows.csv", "--criterion", "luck"), 2, "--criterion is one of"),
    "bad attributes": (fit("rows.csv", "--attributes", "each"), 2, "--attributes is one of"),
    "a criterion for numbers": (
        fit("rows.csv", "--criterion", "equalized_odds"),
        2,
        "--criterion is not for --task regression",
    ),
    "a positive class for nothing": (fit("rows.csv", "--pos-label", "yes"), 2, "--pos-label is for"),
    "no such class": (
        fit_classes("--criterion", "equal_opportunity", "--pos-label", "maybe"),
        2,
        "--pos-label maybe is no class. The classes are: no, yes",
    ),
    "no such factor": (fit("rows.csv", "--conditional-on", "cty"), 3, "no column cty"),
    "a factor that is not learned from": (
        fit("rows.csv", "--conditional-on", "town", "--drop", "town"),
        3,
        "no column town",
    ),
    "a factor with too many values": (fit("rows.csv", "--conditional-on", "size"), 3, "min_group_size"),
    "a small group within a stratum": (
        fit_classes("--criterion", "equalized_odds", "--min-group-size", "90"),
        3,
        "in stratum",
    ),
    "costs of other classes": (
        fit_classes("--cost-matrix", "{}/costs.csv"),
        2,
        "--cost-matrix needs a row and a column for each class, no, yes",
    ),
    "no such cost": (fit("rows.csv", "--cost", "cubic"), 2, "--cost is one of"),
    "a quantile without its level": (fit("rows.csv", "--cost", "pinball"), 2, "a level between 0 and 1"),
    "a level of no quantile": (fit("rows.csv", "--cost", "pinball:1.5"), 2, "a level between 0 and 1"),
    "a delta that is no number": (fit("rows.csv", "--cost", "huber:wide"), 2, "a positive delta"),
    "a number for nothing": (fit("rows.csv", "--cost", "absolute:2"), 2, "--cost absolute takes no number"),
    "a cost of numbers for classes": (
        fit_classes("--cost", "absolute"),
        2,
        "--cost is not for --task classification",
    ),
    "epsilon of no stratum": (
        fit_classes("--criterion", "equalized_odds", "--epsilon", "yes=0.1,perhaps=0.1"),
        2,
        "names yes, which is no group. The groups are: no, yes, no / A",
    ),
    "a class that the model has not seen": (
        (
            "report",
            "{}/classes.evenhand",
            "{}/other.csv",
            "-y",
            "hired",
            "-s",
            "group",
            "-o",
            "{}/out/r.html",
        ),
        3,
        "The target holds maybe, which is none of the model's classes: no, yes",
    ),
    "kind for numbers": (predict("classes.csv", "--kind", "mean", model="classes.evenhand"), 2, "is one of"),
    "kind for classes": (predict("rows.csv", "--kind", "proba"), 2, "--kind is one of draw, mean"),
    "quantile of no level": (predict("rows.csv", "--kind", "quantile:2"), 2, "between 0 and 1"),
    "a floor under numbers": (
        fit("rows.csv", "--min-rate", "0.3"),
        2,
        "--min-rate is not for --task regression. A floor is under the share of decisions for a class",
    ),
    "two limits": (fit("rows.csv", "--epsilon", "0.1", "--max-risk-increase", "5%"), 2, "exclude each other"),
    "limit out of reach": (fit("rows.csv", "--max-risk-increase", "0", "--beta", "1"), 4, "Nothing was"),
    "no such folder": (("fit", "{}/rows.csv", *FIT, "-o", "{}/none/m.evenhand"), 5, "no such folder"),
    "folder as a file": (("fit", "{}/rows.csv", *FIT, "-o", "{}/out"), 5, "Is a directory"),
    "missing model": (predict(model="none.evenhand"), 5, "No such file"),
    "cut model": (predict(model="cut.evenhand"), 3, "cut short or damaged"),
    "no model": (predict(model="note.evenhand"), 3, "Not an evenhand model file"),
    "a feature is missing": (predict("less.csv"), 3, "no column town"),
    "a later row is of the wrong type": (predict("words.csv"), 3, "Column size must hold numbers: row 201"),
    "the name is taken": (predict("taken.csv"), 3, "a column prediction already"),
    "both want stdout": (("predict", "{}/model.evenhand", "{}/rows.csv", "--json"), 2, "standard output"),
    "no id to keep": (predict("rows.csv", "--keep", "id"), 2, "needs --id"),
    "nothing to audit": (("audit", "{}/rows.csv", "-s", "group"), 2, "either --prediction"),
    "wrong delimiter": (fit("rows.csv", "--delimiter", ";"), 3, "--delimiter"),
    "picture of no kind": (
        ("frontier", "{}/rows.csv", *FIT, "--epsilon", "0.1", "--plot", "{}/out/f.bmp"),
        2,
        "must end in .png",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_every_error_is_one_line_with_its_exit_code_and_leaves_no_file(run, home, case):
    arguments, code, words = BAD[case]
    (home / "out").mkdir(exist_ok=True)
    outcome = run(*(each.replace("{}", str(home)) for each in arguments))
    assert outcome.code == code, outcome.err
    assert words in outcome.err
    assert outcome.err.count("\n") == 1, outcome.err
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    assert files_of(home / "out") == []


def test_debug_shows_where_an_error_came_from(run, home):
    outcome = run("info", home / "note.evenhand", "--debug")
    assert outcome.code == 3
    assert "Traceback" in outcome.err


@pytest.fixture
def no_room():
    """Files may not grow beyond 2000 bytes: to a writer, a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITERS = {
    "fit": ("fit", "{}/rows.csv", *FIT, "--confidence", "none", "-o", "{}/full/file"),
    "report": ("report", "{}/model.evenhand", "{}/rows.csv", "-s", "group", "-o", "{}/full/file"),
    **{
        f"predict {kind}": (
            "predict",
            "{}/model.evenhand",
            "{}/rows.csv",
            "-o",
            "{}/full/file",
            "--output-format",
            kind,
        )
        for kind in ("csv", "parquet", "arrow")
    },
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_full_disk_leaves_the_file_that_was_there(run, home, no_room, command):
    (home / "full").mkdir(exist_ok=True)
    (home / "full" / "file").write_text("what was there")
    outcome = run(*(each.replace("{}", str(home)) for each in (*WRITERS[command], "--force")))
    assert outcome.code == 5
    assert outcome.err.count("\n") == 1, outcome.err
    assert "file: File too large" in outcome.err
    assert files_of(home / "full") == ["file"]
    assert (home / "full" / "file").read_text() == "what was there"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line_too(home, monkeypatch, capsys):
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(full))
        assert main(["predict", f"{home}/model.evenhand", f"{home}/rows.csv"]) == 5
    assert capsys.readouterr().err == "evenhand: No space left on device.\n"


def test_a_reader_that_leaves_early_is_told_by_the_exit_code_alone(home, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
        assert main(["predict", f"{home}/model.evenhand", f"{home}/rows.csv"]) == 141
    assert capsys.readouterr().err == ""


def test_an_interrupt_leaves_nothing_behind(run, home, monkeypatch):
    (home / "out").mkdir(exist_ok=True)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing, "csv_text", interrupt)
    outcome = run("predict", home / "model.evenhand", home / "rows.csv", "-o", home / "out" / "scored.csv")
    assert outcome.code == 130
    assert outcome.err.count("\n") == 1
    assert files_of(home / "out") == []


def test_an_interrupted_solver_writes_no_model(run, home, monkeypatch):
    def interrupt(self, problem, state):
        raise KeyboardInterrupt

    monkeypatch.setattr("evenhand.solvers.batch.Batch.step", interrupt)
    (home / "out").mkdir(exist_ok=True)
    arguments = [each.replace("{}", str(home)) for each in fit()]
    assert run(*arguments).code == 130
    assert run(*arguments, "--max-risk-increase", "5%").code == 130
    assert files_of(home / "out") == []


def test_a_solver_that_does_not_converge_ends_with_four(run, home, monkeypatch, tmp_path):
    monkeypatch.setattr("evenhand.solvers.batch.newton_step", lambda stage, state: state)
    outcome = run("fit", home / "rows.csv", *FIT, "-o", tmp_path / "m.evenhand", "--epsilon", "0")
    assert outcome.code == 4
    assert "look at it before you use it" in outcome.err


HOSTILE = ['<script>alert("1")</script>', 'it\'s "quoted"', "🦊,;", "[red]bold[/red]", "\x1b[31mred", "a\nb"]


def test_hostile_names_and_values_pass_through_every_command_unharmed(run, tmp_path):
    rows = make_table(400)
    names = ["id", HOSTILE[0], HOSTILE[1], HOSTILE[2], "since", HOSTILE[3], HOSTILE[4]]
    groups = np.where(np.array(rows["group"].to_pylist()) == "A", HOSTILE[0], HOSTILE[5])
    rows = rows.set_column(5, "group", pa.array(groups)).rename_columns(names)
    data, model = tmp_path / "rows.csv", tmp_path / "m.evenhand"
    write_frame(rows, str(data))
    parts = ("--target", HOSTILE[4], "--sensitive", HOSTILE[3])
    fitted = run("fit", data, *parts, "--id", "id", "-o", model, "--report", tmp_path / "r.html")
    assert fitted.code == 0, fitted.err
    assert "\x1b[31m" not in fitted.out + fitted.err
    assert HOSTILE[0] in fitted.out
    assert HOSTILE[0] not in (tmp_path / "r.html").read_text()
    scored = tmp_path / "scored.parquet"
    assert run("predict", model, data, "-o", scored).code == 0
    assert pa.parquet.read_schema(scored).names == [*names, "prediction"]
    assert run("audit", scored, "-p", "prediction", "-s", HOSTILE[3]).code == 0
    missing = run("audit", scored, "-p", "prediction", "-s", "none")
    assert missing.err.count("\n") == 1
    assert "\x1b" not in missing.err


def test_sixty_groups_and_groups_of_one_row_are_fitted_where_small_ones_are_merged(run, tmp_path):
    rows = make_table(1200)
    rng = np.random.default_rng(0)
    groups = np.array([f"g{number:02d}" for number in rng.integers(0, 58, 1200)], dtype=object)
    groups[:10] = [f"alone {number}" for number in range(10)]
    write_frame(rows.set_column(5, "group", pa.array(groups)), str(tmp_path / "rows.csv"))
    asked = ("fit", tmp_path / "rows.csv", *FIT, "-o", tmp_path / "m.evenhand", "--json")
    refused = run(*asked)
    assert refused.code == 3
    assert "alone 0 (1)" in refused.err
    # a promise takes as many more fits of fifty groups as there are folds
    facts = run(*asked, "--merge-small", "--confidence", "none").facts
    assert "other" in facts["certificate"]["groups"]
    assert len(facts["certificate"]["groups"]) > 40
