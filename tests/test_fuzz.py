"""The fuzz itself: it tells our words from others', and a short run of each target finds nothing."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from evenhand import ParityPostprocessor, tables
from evenhand.exceptions import PriceWarning
from evenhand.tables.files import read_table
from evenhand.tables.formats import TableError
from evenhand.tables.sources import open_source
from fuzz import counts as counting
from fuzz import functions, judge, table_readers
from fuzz.counts import Counts, Finding

TABLE = pa.table({"score": np.linspace(0, 1, 500), "p0": np.full(500, 0.25), "p1": np.full(500, 0.75)})


@pytest.fixture(autouse=True)
def corpus(tmp_path, monkeypatch):
    for module in (counting, table_readers):
        monkeypatch.setattr(module, "CORPUS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", [functions, table_readers])
def test_a_short_run_finds_nothing(target):
    found = target.run(None, 120, seed=1)
    assert not found.findings
    assert found.cases == found.answers + found.refusals == 120


def overflow():
    np.float64(1e300) * np.float64(1e300)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: {}["x"], "foreign exception"),
        (lambda: np.zeros(2) + np.zeros(3), "foreign exception"),  # a ValueError, but nobody's message
        (lambda: ParityPostprocessor().fit("x", "y"), None),
        (overflow, "warning"),
        (lambda: warnings.warn("ours", PriceWarning, stacklevel=1), None),
        (lambda: [1.0, {"a": np.array([np.nan])}], "not finite"),
        (lambda: [1.0, {"a": np.array([0.0])}], None),
    ],
)
def test_what_ends_otherwise_than_in_our_words_is_found_and_kept(call, kind, corpus):
    found = Counts("here")
    judge.judge(found, "a case", call)
    assert [each.kind for each in found.findings] == ([] if kind is None else [kind])
    assert len(list(corpus.rglob("*.json"))) == len(found.findings)


def test_a_case_that_does_not_end_is_found(monkeypatch):
    def forever():
        while True:
            pass

    monkeypatch.setattr(judge, "LONGEST", 0.05)
    found = Counts("here")
    judge.judge(found, "a case", forever)
    assert found.findings[0].kind == "hang"


def test_the_same_finding_is_kept_once(corpus):
    found = Counts("here")
    for case in ("one", "two"):
        found.found(Finding("warning", "there", case, b"bytes"))
    assert found.n_findings == 2
    assert len(found.findings) == 1
    assert {each.suffix for each in corpus.rglob("*.*")} == {".json", ".bin"}


# What the targets found


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_file_that_was_cut_is_an_error_about_the_file(tmp_path, kind, share):
    path = tmp_path / f"table.{kind}"
    if kind == "parquet":
        pq.write_table(TABLE, path)
    else:
        pyarrow.feather.write_feather(TABLE, path, compression="uncompressed")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(TableError, match="cannot be read as"):
        read_table(open_source(str(path)))


def test_pages_that_were_damaged_are_an_error_about_the_file(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE, path)
    damaged = bytearray(path.read_bytes())
    damaged[4:200] = bytes(196)
    path.write_bytes(damaged)
    with pytest.raises(TableError, match="cannot be read as"):
        read_table(open_source(str(path)))


def test_text_of_an_arrow_file_that_is_none_is_an_error_about_the_file(tmp_path):
    path = tmp_path / "table.arrow"
    pyarrow.feather.write_feather(pa.table({"name": ["findable"]}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"findable", b"\xee\xee\xee\xee\xee\xee\xee\xee"))
    with pytest.raises(TableError, match="cannot be read as arrow"):
        read_table(open_source(str(path)))


def test_weights_that_are_words_are_refused_by_the_name_of_their_column(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("score,p0,p1,weight\n0.1,0.5,0.5,true\n0.3,0.2,0.8,false\n")
    with pytest.raises(ValueError, match="Column 'weight' must hold numbers"):
        tables.fit_table(
            ParityPostprocessor(atoms=3),
            str(path),
            scores="score",
            group_proba=["p0", "p1"],
            sample_weight="weight",
        )
