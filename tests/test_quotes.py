"""A quote of a CSV file that joins rows is refused with its line, and other quotes are read as before."""

import csv
import gzip
import io
import sys

import numpy as np
import pytest

from evenhand.exceptions import LongCellWarning
from evenhand.tables import files, fit_table, iter_predictions, stream_table
from evenhand.tables.files import read_table
from evenhand.tables.formats import TableError
from evenhand.tables.quotes import END, find_long_cells
from evenhand.tables.sources import open_source
from evenhand.tables.writing import write_frame
from tests.cli_support import make_table
from tests.tables import NAMES, TABLE, fit_in_memory, make_step

N_ROWS = 1500


def lines_of(n_rows=N_ROWS, header="id,town,size"):
    """A header and rows of three columns."""
    return [header, *(f"{row},north,{row / 8}" for row in range(1, n_rows + 1))]


def read(path):
    return read_table(open_source(path))


def write(path, lines, end="\n", packed=False):
    text = (end.join(lines) + end).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.fixture(params=[None, 1000], ids=["one block", "many blocks"])
def blocks(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(files, "BLOCK_BYTES", request.param)


@pytest.mark.parametrize("cell", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize("line", [1, 2, 10, N_ROWS, N_ROWS + 1])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.usefixtures("blocks")
def test_a_quote_that_is_never_closed_is_refused_with_its_line(tmp_path, cell, line, end):
    lines = lines_of()
    cells = lines[line - 1].split(",")
    cells[cell] = f'"{cells[cell]}'
    lines[line - 1] = ",".join(cells)
    with pytest.raises(
        TableError, match=rf"ends inside quotes: the quote that opens in line {line} is never"
    ):
        read(write(tmp_path / "rows.csv", lines, end))


def test_a_quote_that_is_never_closed_is_found_in_a_file_of_many_blocks(tmp_path):
    lines = lines_of(200_000)
    for line in (100, 199_000):  # more and less than a block before the end
        broken = lines.copy()
        broken[line - 1] = '1,north,"2'
        with pytest.raises(TableError, match=f"the quote that opens in line {line} is never closed"):
            read(write(tmp_path / "rows.csv", broken))
    lines[123_456] += '"'  # at the end of a cell it is a sign like any other
    assert read(write(tmp_path / "rows.csv", lines)).num_rows == 200_000
    lines[99] = '1,north,"2'
    with pytest.raises(TableError, match=r"too long to be read.* not closed in line 100"):
        read(write(tmp_path / "rows.csv", lines))


@pytest.mark.parametrize("name", ["rows.tsv", "rows.csv.gz", "folder/2.csv"])
def test_every_kind_of_csv_file_is_checked(tmp_path, name):
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder" / "1.csv", lines_of())
    lines = lines_of()
    lines[1] = '1,north,"0.1'
    if name.endswith("tsv"):
        lines = [line.replace(",", "\t") for line in lines]
    path = write(tmp_path / name, lines, packed=name.endswith("gz"))
    with pytest.raises(TableError, match=r"ends inside quotes: the quote that opens in line 2 "):
        read(path.parent if "/" in name else path)


def test_a_byte_order_mark_changes_no_line(tmp_path):
    (tmp_path / "rows.csv").write_text('"id",town\n1,2\n3,"4\n5,6\n', encoding="utf-8-sig")
    with pytest.raises(TableError, match="opens in line 3 "):
        read(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n1,2\n\n3,"4\n5,6\n', "standard input ends inside quotes: the quote that opens in row 2 "),
        ('a,"b\n1,2\n', "the quote that opens in the header is never closed"),
    ],
)
def test_of_standard_input_the_row_is_named(monkeypatch, text, message):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(TableError, match=message):
        read("-")


@pytest.mark.parametrize("n_joined", [25, 670])
@pytest.mark.usefixtures("blocks")
def test_rows_that_two_quotes_join_are_refused_with_the_line_of_the_first(tmp_path, n_joined):
    lines = lines_of()
    lines[99] = '99,"north,0.5'
    lines[99 + n_joined] = f'{99 + n_joined},north",0.5'
    with pytest.raises(TableError, match=r"(has a quoted cell with|too long to be read).* in line 100\. "):
        read(write(tmp_path / "rows.csv", lines))


@pytest.mark.parametrize(
    "text",
    [
        'a,b\n1,"x\ny\n"',
        'a,b\n1,"x\n\n\n\n"\n',
        'a,b\n1,5" pipe\n2,a "word"\n',
        'a,b\n1,"6"" pipe"\n',
        'a,b\n1,""\n"",2',
        '"a\nb",c\n1,"2"\n\n\n',
        'a,b\r\n"1\r\n2",3\r\n',
        "a\n1\n",
    ],
)
def test_quotes_that_are_closed_or_part_of_a_cell_are_read_as_python_reads_them(tmp_path, text):
    (tmp_path / "rows.csv").write_bytes(text.encode())
    table = read(tmp_path / "rows.csv")
    expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    assert [table.column_names, *map(list, zip(*table.to_pydict().values(), strict=True))] == expected


def test_addresses_of_a_few_lines_are_read_and_a_text_of_many_lines_warns_once(tmp_path):
    lines = lines_of()
    for row in range(1, N_ROWS):
        lines[row] = f'{row},"12 High Street\nFlat 3, left\nYork\nUK",0.5'
    assert read(write(tmp_path / "rows.csv", lines)).num_rows == N_ROWS
    for row in (3, 4, 700):
        lines[row] = f'{row},"{57 * f"A line, or the start of one.{chr(10)}"}",0.5'
    with pytest.warns(LongCellWarning, match="a quoted cell of 57 line breaks in row 3") as caught:
        assert read(write(tmp_path / "rows.csv", lines)).num_rows == N_ROWS
    assert len(caught) == 1


def test_open_quotes_are_those_of_pythons_reader():
    rng = np.random.default_rng(0)
    n_open = 0
    for _ in range(3000):
        text = "".join(rng.choice(list('a",\n'), 25, p=[0.3, 0.3, 0.2, 0.2]))
        last = [["", ""], *csv.reader(io.StringIO(text + END, newline=""))]
        is_open = any(row and row[-1].endswith(END) for row in last)
        found = [closed for _, _, closed in find_long_cells(iter(io.StringIO(text)), ",")]
        assert (found[-1:] == [False]) == is_open, text
        n_open += is_open
    assert 300 < n_open < 2700


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A table, the same with a quote that is never closed, and a model."""
    from evenhand.cli import main

    folder = tmp_path_factory.mktemp("quotes")
    rows = make_table().drop_columns(["town"])
    write_frame(rows, str(folder / "rows.csv"))
    lines = (folder / "rows.csv").read_text().splitlines()
    head, _, tail = lines[9].rpartition(",")
    lines[9] = f'{head},"{tail}'
    write(folder / "broken.csv", lines)
    options = ["--target", "outcome", "--sensitive", "group", "--id", "id", "-q"]
    assert main(["fit", str(folder / "rows.csv"), *options, "-o", str(folder / "model.evenhand")]) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "fit broken.csv --target outcome --sensitive group -o out",
        "predict model.evenhand broken.csv -o out.csv",
        "audit broken.csv --model model.evenhand --sensitive group",
        "explain model.evenhand broken.csv",
        "frontier broken.csv --target outcome --sensitive group",
        "report model.evenhand broken.csv --target outcome --sensitive group -o out.html",
    ],
    ids=lambda command: command.split()[0],
)
def test_every_command_refuses_the_file_and_writes_nothing(run, home, monkeypatch, command):
    monkeypatch.chdir(home)
    done = run(*command.split())
    assert done.code == 3
    assert "broken.csv ends inside quotes: the quote that opens in line 10 is never closed" in done.err
    assert not list(home.glob("out*"))


@pytest.mark.parametrize(
    "use",
    [
        lambda path: fit_table(make_step(), path, **NAMES),
        lambda path: stream_table(make_step(), path, **NAMES),
        lambda path: list(iter_predictions(fit_in_memory(make_step()), path, **NAMES)),
    ],
    ids=["fit_table", "stream_table", "iter_predictions"],
)
@pytest.mark.usefixtures("blocks")
def test_every_reader_of_large_tables_refuses_the_file(tmp_path, use):
    path = tmp_path / "rows.csv"
    write_frame(TABLE, str(path))
    lines = path.read_text().splitlines()
    head, _, tail = lines[300].rpartition(",")
    lines[300] = f'{head},"{tail}'
    write(path, lines)
    with pytest.raises(TableError, match="the quote that opens in line 301 is never closed"):
        use(path)
