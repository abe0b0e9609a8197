"""A stray cell does not turn a column of numbers into categories without a word."""

import csv

import pyarrow as pa
import pytest

import evenhand as eh
from evenhand.cli import main
from evenhand.tables.strays import find_strays, without_marks
from evenhand.tables.writing import write_frame
from tests.cli_support import make_table

FIT = ("--target", "outcome", "--sensitive", "group", "--id", "id")


def with_cell(table, name, row, text):
    cells = [str(cell) for cell in table[name].to_pylist()]
    cells[row] = text
    return table.set_column(table.column_names.index(name), name, pa.array(cells))


@pytest.fixture
def rows(tmp_path):
    """A table with one cell that is no number."""
    path = str(tmp_path / "rows.csv")
    write_frame(with_cell(make_table(), "size", 16, "see file"), path)
    return path


def test_a_stray_cell_is_refused_by_its_name_and_row(rows, tmp_path, capsys):
    assert main(["fit", rows, *FIT, "-o", str(tmp_path / "m.evenhand")]) == 3
    said = capsys.readouterr().err
    assert "Column size holds numbers, but for 1 cell(s) (row 17: 'see file')" in said
    assert [way for way in ("--na TEXT", "--categorical size", "--drop size") if way not in said] == []
    assert main(["frontier", rows, "--target", "outcome", "--sensitive", "group"]) == 3


def test_a_mark_of_a_missing_value_is_one_and_the_model_remembers_it(rows, tmp_path):
    model, scored = str(tmp_path / "m.evenhand"), tmp_path / "scored.csv"
    assert main(["fit", rows, *FIT, "-o", model, "--na", "see file", "-q"]) == 0
    assert eh.load(model).missing_marks_ == ["see file"]
    assert main(["predict", model, rows, "-o", str(scored), "-q"]) == 0
    assert "see file" in scored.read_text()  # the cells themselves stay as they were
    assert main(["audit", rows, "--model", model, "-s", "group", "-y", "outcome", "-q"]) == 0
    assert main(["report", model, rows, "-s", "group", "-o", str(tmp_path / "page.html"), "-q"]) == 0


def test_a_new_mark_is_given_to_predict(rows, tmp_path, capsys):
    model, new = str(tmp_path / "m.evenhand"), str(tmp_path / "new.csv")
    write_frame(with_cell(make_table(), "size", 3, "-"), new)
    assert main(["fit", rows, *FIT, "-o", model, "--na", "see file", "-q"]) == 0
    assert main(["predict", model, new]) == 3
    assert "row 4 holds '-'" in capsys.readouterr().err
    assert main(["predict", model, new, "--na", "-", "-o", str(tmp_path / "out.csv"), "-q"]) == 0


def test_codes_and_choices_of_the_user_are_let_through(rows, tmp_path, capsys):
    model = str(tmp_path / "m.evenhand")
    assert main(["fit", rows, *FIT, "-o", model, "--drop", "size", "-q"]) == 0
    table = make_table()
    grades = [str(1 + place % 5) for place in range(399)] + ["X"]
    write_frame(table.append_column("grade", pa.array(grades)), str(tmp_path / "grades.csv"))
    assert main(["fit", str(tmp_path / "grades.csv"), *FIT, "-o", model]) == 0
    assert (
        "Column grade holds numbers, but for 1 cell(s) (row 400: 'X'): it is taken" in capsys.readouterr().err
    )


def test_strays_among_predictions_are_refused(rows, capsys):
    assert main(["audit", rows, "-p", "size", "-s", "group"]) == 3
    assert "row 17: 'see file'" in capsys.readouterr().err


def test_what_is_text_has_no_strays():
    many = [*map(str, range(40)), *("a", "b", "c", "d")]
    assert find_strays(pa.table({"a": many}), "a") is None
    assert find_strays(pa.table({"a": ["x"] * 40}), "a") is None
    assert find_strays(pa.table({"a": [1.0, 2.0]}), "a") is None
    dates = [f"2024-01-{day:02d}" for day in range(1, 29)]
    assert find_strays(pa.table({"a": [*dates, "soon"]}), "a").kind == "dates"


def test_marks_are_of_text_alone():
    table = pa.table({"a": ["-", "x"], "b": [1, 2]})
    assert without_marks(table, ["-", "1"]).to_pydict() == {"a": [None, "x"], "b": [1, 2]}


def test_formulas_are_escaped_where_that_is_asked_for(tmp_path, capsys):
    table = make_table()
    cells = [
        "=cmd|'/C calc'!A0",
        "+1+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "-5",
        "+5e3",
        "plain",
        ' =HYPERLINK("x")',
    ]
    table = table.append_column("=note", pa.array((cells * 50)[: table.num_rows]))
    rows, model, out = str(tmp_path / "rows.csv"), str(tmp_path / "m.evenhand"), tmp_path / "out.csv"
    write_frame(table, rows)
    assert main(["fit", rows, *FIT, "-o", model, "--drop", "=note", "-q"]) == 0
    assert main(["predict", model, rows, "-o", str(out), "--escape-formulas", "-q"]) == 0
    with open(out, newline="") as file:
        found = list(csv.DictReader(file))
    expected = ["'" + cell if cell not in ("-5", "+5e3", "plain") else cell for cell in cells]
    assert [row["'=note"] for row in found][: len(cells)] == expected
    assert [float(row["prediction"]) for row in found]
    assert main(["predict", model, rows, "-o", str(out), "-q", "--force"]) == 0
    assert "'=cmd" not in out.read_text()
    assert main(["predict", model, rows, "-o", str(tmp_path / "out.parquet"), "--escape-formulas"]) == 2
    assert "is for CSV files" in capsys.readouterr().err
