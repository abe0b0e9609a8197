"""One table in every form that it may come in, read and written alike by the library and the command line."""

import gzip
import io
import os
import re
import sys
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import ParityRegressor, save
from evenhand._utils.progress import listening
from evenhand.tables import files, fit_table, iter_predictions, predict_table, stream_table
from evenhand.tables.files import read_batches, read_table
from evenhand.tables.formats import TableError, TableOptionError
from evenhand.tables.sources import open_source
from evenhand.tables.writing import table_writer, write_frame
from tests.tables import DATA, GROUPS, N_ROWS, NAMES, TABLE, fit_in_memory, make_step

PART = 2500  # rows of each file of a folder


def write_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=800)


def write_many(folder, suffix):
    (folder / "part").mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    (folder / "part" / ".hidden.json").touch()
    for number, start in enumerate(range(0, N_ROWS, PART)):
        write_frame(TABLE.slice(start, PART), str(folder / "part" / f"{number:03}{suffix}"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The table in files of every format, and in folders of them."""
    folder = tmp_path_factory.mktemp("forms")
    for name in ("rows.csv", "rows.tsv", "rows.csv.gz", "rows.pq", "rows.feather"):
        write_frame(TABLE, str(folder / name))
    write_frame(TABLE, str(folder / "nothing-tells"), "parquet")
    write_frame(TABLE, str(folder / "nothing.tells"), "arrow")
    write_stream(TABLE, folder / "stream.arrow")
    for suffix in (".csv", ".tsv", ".parquet", ".arrow"):
        write_many(folder / f"folder of {suffix}", suffix)
    return folder


TEXTS = ["rows.csv", "rows.tsv", "rows.csv.gz", "folder of .csv", "folder of .tsv"]
TYPED = [
    "rows.pq",
    "rows.feather",
    "nothing-tells",
    "nothing.tells",
    "stream.arrow",
    "folder of .parquet",
    "folder of .arrow",
]


@pytest.mark.parametrize("name", [*TEXTS, *TYPED])
def test_every_file_gives_the_model_and_the_draws_of_the_table_in_memory(home, name):
    expected = fit_in_memory(make_step(), weights=TABLE["weight"].to_numpy())
    fitted = fit_table(make_step(), home / name, sample_weight="weight", **NAMES)
    assert fitted.multipliers_.tobytes() == expected.multipliers_.tobytes()
    drawn = np.concatenate(list(iter_predictions(fitted, home / name, ids="who", block_rows=999, **NAMES)))
    ids = TABLE["who"].to_numpy()
    assert_array_equal(drawn, expected.predict(DATA.scores, DATA.group_proba, ids=ids))


@pytest.mark.parametrize("name", [*TEXTS, *TYPED])
@pytest.mark.parametrize("start", [0, 1, 2499, 2500, 5999])
def test_every_file_can_be_read_from_any_row_on_with_the_columns_that_are_wanted(home, name, start):
    blocks = list(open_source(home / name, ["who", "score"], text=[]).blocks(700, start))
    assert all(block.column_names == ["who", "score"] for block in blocks)
    assert {len(block) for block in blocks[:-1]} <= {700}
    assert_array_equal(np.concatenate([block["who"] for block in blocks]), TABLE["who"].to_numpy()[start:])


@pytest.mark.parametrize("name", ["rows.csv", "stream.arrow", "rows.pq"])
def test_a_table_that_has_become_shorter_is_refused(home, name):
    with pytest.raises(ValueError, match="only 6000 rows, but 6001"):
        list(open_source(home / name).blocks(700, 6001))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize("name", ["rows.csv", "rows.pq", "rows.feather", "stream.arrow"])
@pytest.mark.parametrize("seekable", [True, False])
def test_standard_input_and_pipes_with_a_name_are_read_once(home, tmp_path, monkeypatch, name, seekable):
    asked = {"rows.csv": "csv", "rows.pq": "parquet"}.get(name, "arrow")
    content = (home / name).read_bytes()
    raw = io.BytesIO(content)
    raw.seekable = lambda: seekable
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
    assert_array_equal(read_table(open_source("-", format=asked))["who"].cast("int64"), TABLE["who"])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert_array_equal(read_table(open_source(pipe, format=asked))["who"].cast("int64"), TABLE["who"])
    writer.join()


def test_cells_of_csv_stay_text_until_somebody_asks_for_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("id,size\n007,1e3\n8,NA\n")
    (table,) = read_batches(open_source(tmp_path / "t.csv"))
    assert table.to_pylist() == [{"id": "007", "size": "1e3"}, {"id": "8", "size": "NA"}]
    (table,) = open_source(tmp_path / "t.csv", text=["id"]).blocks(10)
    assert table["id"].to_pylist() == ["007", "8"]
    assert_array_equal(table["size"], [1000.0, np.nan])


def test_text_that_a_model_needs_as_numbers_is_refused_with_the_row_and_the_way_out(tmp_path):
    step = fit_in_memory(make_step())
    frame = TABLE.to_pandas().astype({"score": object})
    frame.loc[4000, "score"] = "high"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(TableError, match=r"row 4001 holds 'high'\. .* in a Parquet or Arrow file"):
        fit_table(step, tmp_path / "rows.csv", **NAMES)


def test_ids_of_a_csv_file_draw_as_on_the_command_line_and_kept_columns_stay_as_they_were(run, tmp_path):
    X = pd.DataFrame(DATA.data[:500], columns=[f"x{i}" for i in range(DATA.data.shape[1])])
    model = ParityRegressor(LinearRegression(), LogisticRegression(), random_state=3)
    model.fit(X, DATA.target[:500], sensitive_features=DATA.sensitive_features[:500])
    save(model, tmp_path / "m.evenhand")
    who = [f"{number:03}" if number % 2 else str(number) for number in range(500)]
    X.assign(who=who, note="007").to_csv(tmp_path / "rows.csv", index=False)
    predict_table(model, tmp_path / "rows.csv", tmp_path / "ours.csv", ids="who", keep=["note"])
    run("predict", tmp_path / "m.evenhand", tmp_path / "rows.csv", "--id", "who", "-o", tmp_path / "cli.csv")
    ours, cli = (pd.read_csv(tmp_path / f"{name}.csv", dtype=str) for name in ("ours", "cli"))
    assert ours.equals(cli[["who", "note", "prediction"]])
    assert ours["note"].eq("007").all()


NO_ID = r"Column who has no id in row 4 \(rows without an id so far: 2; .*\)\. .* fill in the ids, or leave"


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "arrow"])
def test_rows_without_an_id_are_refused_in_the_same_words_in_every_format(suffix, run, tmp_path):
    X = pd.DataFrame(DATA.data[:300], columns=[f"x{i}" for i in range(DATA.data.shape[1])])
    model = ParityRegressor(LinearRegression(), LogisticRegression(), random_state=3)
    model.fit(X, DATA.target[:300], sensitive_features=DATA.sensitive_features[:300])
    save(model, tmp_path / "m.evenhand")
    who = [None if number in (3, 5) else f"p{number}" for number in range(300)]
    rows = tmp_path / f"rows.{suffix}"
    write_frame(pa.Table.from_pandas(X).append_column("who", pa.array(who)), str(rows))
    with pytest.raises(TableError, match=NO_ID):
        predict_table(model, rows, tmp_path / "ours.csv", ids="who")
    with pytest.raises(TableError, match=NO_ID):
        list(iter_predictions(model, rows, ids="who", block_rows=8))
    for command in ("predict", "explain"):
        done = run(command, tmp_path / "m.evenhand", rows, "--id", "who", "-o", tmp_path / "cli.csv")
        assert done.code == 3
        assert re.search(NO_ID, done.err)
    assert not (tmp_path / "ours.csv").exists()
    assert not (tmp_path / "cli.csv").exists()


def test_a_row_without_an_id_in_a_later_block_is_named_by_its_place_in_the_table(tmp_path):
    frame = pd.DataFrame({**dict(zip("abc", DATA.group_proba.T, strict=True)), "score": DATA.scores})
    who = [str(number) if number != 900 else "" for number in range(len(frame))]
    frame.assign(who=who).to_csv(tmp_path / "rows.csv", index=False)
    names = {"scores": "score", "group_proba": ["a", "b", "c"], "ids": "who"}
    with pytest.raises(TableError, match="no id in row 901 "):
        list(iter_predictions(fit_in_memory(make_step()), tmp_path / "rows.csv", block_rows=128, **names))


def test_a_stream_over_a_csv_file_resumes_where_it_was(home, tmp_path):
    path, asked = tmp_path / "stream.evenhand", {"block_rows": 512, **NAMES}
    stream_table(make_step(), home / "folder of .csv" / "part" / "000.csv", checkpoint=path, **asked)
    resumed = stream_table(make_step(), home / "rows.csv", checkpoint=path, resume=True, **asked)
    at_once = stream_table(make_step(), home / "rows.pq", **asked)
    assert resumed.multipliers_.tobytes() == at_once.multipliers_.tobytes()


# what is no table


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a.csv": "x\n1\n", "b.parquet": ""}, "files of one format: got csv, parquet"),
        ({}, "files of one format: got none"),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x\n1\n"}, "no column y"),
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,y\n1,2,3\n"}, r"b\.csv cannot be read as csv: .*Expected 2"),
        ({"a.csv": "x,x\n1,2\n"}, r"a\.csv has more than one column named x"),
    ],
)
def test_a_folder_that_is_no_table_is_refused(tmp_path, content, message):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(TableError, match=message):
        read_table(open_source(tmp_path))


def test_typed_files_that_are_damaged_or_ambiguous_are_refused_in_plain_words(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pa.parquet.write_table(twice, tmp_path / "twice.parquet")
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "no.arrow").write_bytes(b"not arrow at all")
    for name, message in (
        ("twice.parquet", "duplicate field names"),
        ("empty.parquet", "cannot be read as parquet: it is empty"),
        ("no.arrow", r"no\.arrow cannot be read as arrow"),
    ):
        with pytest.raises(TableError, match=message):
            read_table(open_source(tmp_path / name))
    with pytest.raises(TableOptionError, match="does not tell its format"):
        open_source(__file__)
    with pytest.raises(TableOptionError, match="one ASCII character"):
        open_source(__file__, format="csv", delimiter="::")


# out


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".arrow", ".parquet", ""])
def test_predictions_are_written_in_the_format_that_the_name_tells(tmp_path, suffix):
    step, target = fit_in_memory(make_step()), tmp_path / f"out{suffix}"
    assert predict_table(step, TABLE, target, keep=["who"], block_rows=999, **NAMES) == N_ROWS
    written = read_table(open_source(target))
    assert_array_equal(written["who"].cast("int64"), TABLE["who"])
    assert_array_equal(written["prediction"].cast("float64"), step.predict(DATA.scores, DATA.group_proba))


def test_lists_are_refused_where_a_cell_is_text_and_nothing_is_left(tmp_path):
    step = fit_in_memory(make_step(atoms=11))
    with pytest.raises(TableError, match="prediction holds lists"):
        predict_table(step, TABLE, tmp_path / "out.csv", method="predict_pmf", **NAMES)
    assert list(tmp_path.iterdir()) == []


def test_text_goes_through_csv_as_it_was_with_quotes_only_where_they_are_needed(tmp_path):
    table = pa.table({"a": ["1.50", 'say "no"', "x,y"], "b;": ["a\nb", "", "é"], "c": [1.5, None, 2.0]})
    with table_writer(str(tmp_path / "t.csv")) as write:
        write(table.slice(0, 1))
        write(table.slice(1))
    assert (tmp_path / "t.csv").read_text() == 'a,b;,c\n1.50,"a\nb",1.5\n"say ""no""",,\n"x,y",é,2\n'
    write_frame(table, str(tmp_path / "t.tsv.gz"))
    assert gzip.decompress((tmp_path / "t.tsv.gz").read_bytes()).startswith(b"a\tb;\tc\n1.50\t")


# progress


@pytest.mark.parametrize("name", ["rows.csv", "folder of .csv", "rows.csv.gz"])
def test_a_file_of_text_tells_how_many_of_its_bytes_were_read(home, monkeypatch, name):
    monkeypatch.setattr(files, "BLOCK_BYTES", 20_000)
    heard = []
    with listening(lambda *told: heard.append(told)):
        list(read_batches(open_source(home / name)))
    paths = [home / name] if (home / name).is_file() else list((home / name / "part").glob("*.csv"))
    total = sum(path.stat().st_size for path in paths)
    assert len(heard) > 10
    assert heard == sorted(heard)
    assert heard[-1] == ("rows", total, total)


def test_a_typed_file_tells_how_many_rows_were_read_and_a_fit_is_heard_by_whoever_listens(home):
    heard = []
    with listening(lambda *told: heard.append(told)):
        list(read_batches(open_source(home / "rows.pq")))
        assert heard[-1] == ("rows", N_ROWS, N_ROWS)
        fit_table(make_step(), home / "rows.pq", **NAMES)
    assert ("read", N_ROWS, N_ROWS) in heard
    assert "solve" in {stage for stage, _, _ in heard}


def test_a_missing_column_is_named_for_every_format(home):
    for name in [*TEXTS, *TYPED]:
        with pytest.raises(ValueError, match="no column nothing"):
            list(open_source(home / name, ["nothing", *GROUPS]).blocks(10))


def test_more_columns_than_can_be_read_are_refused_in_words(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(",".join(map(str, range(20_001))) for _ in range(2)))
    with pytest.raises(TableError, match=r"wide\.csv has 20001 columns: of a CSV file at most 20000"):
        read_table(open_source(str(path)))
    path.write_text("\n".join(",".join(map(str, range(20_000))) for _ in range(2)))
    assert read_table(open_source(str(path))).column_names[:2] == ["0", "1"]
