"""Columns of any file become the same features: what a cell means does not depend on the format."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from evenhand.cli.errors import UsageError
from evenhand.cli.models import read_epsilon
from evenhand.cli.rows import make_features
from evenhand.tables.columns import as_groups, as_ids, find_kind
from evenhand.tables.files import read_table
from evenhand.tables.formats import TableError
from evenhand.tables.sources import open_source
from evenhand.tables.writing import write_frame

DAYS = [dt.date(2020, 1, 1), dt.date(1969, 12, 31), None]
TYPED = {
    "whole": (pa.array([1, None, -3]), "number"),
    "real": (pa.array([1.5, 1e-20, None]), "number"),
    "exact": (pa.array([1, 2, None], pa.decimal128(5, 2)), "number"),
    "flag": (pa.array([True, None, False]), "number"),
    "empty": (pa.array([None, None, None], pa.float64()), "number"),
    "day": (pa.array(DAYS), "moment"),
    "instant": (pa.array([dt.datetime(2020, 1, 1, 12), None, dt.datetime(2020, 1, 2)]), "moment"),
    "word": (pa.array(["a", None, "b, c"]), "text"),
    "category": (pa.array(["x", "y", "x"]).dictionary_encode(), "text"),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_column_is_of_the_same_kind_and_has_the_same_values_in_csv_and_parquet(tmp_path, name):
    column, kind = TYPED[name]
    table = pa.table({"row": ["1", "2", "3"], name: column})
    seen = []
    for suffix in ("csv", "parquet", "arrow"):
        write_frame(table, str(tmp_path / f"rows.{suffix}"))
        read = read_table(open_source(tmp_path / f"rows.{suffix}"))
        assert find_kind(read[name].combine_chunks() if suffix == "csv" else _plain(read[name])) == kind
        seen.append(make_features(read, {name: kind})[name].to_numpy())
    assert_array_equal(seen[0], seen[1])
    assert_array_equal(seen[0], seen[2])


def _plain(column):
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def test_days_count_from_1970_with_their_fractions():
    table = pa.table({"day": ["1970-01-02", "1970-01-01 12:00:00.000000000", "NA"]})
    assert_array_equal(make_features(table, {"day": "moment"})["day"], [1.0, 0.5, np.nan])


def test_header_cells_and_values_may_hold_newlines_quotes_and_delimiters(tmp_path):
    names = ["a\nb", 'c"d', "e,f", ""]
    write_frame(pa.table([["1\n2", "3"], ['"', "x"], [",", "y"], ["é", "z"]], names), str(tmp_path / "t.csv"))
    table = read_table(open_source(tmp_path / "t.csv"))
    assert table.column_names == ["a\nb", 'c"d', "e,f", "unnamed_4"]
    assert table.to_pylist()[0] == {"a\nb": "1\n2", 'c"d': '"', "e,f": ",", "unnamed_4": "é"}


def test_groups_of_several_columns_are_their_combinations_and_never_mixed_up():
    table = pa.table({"sex": ["m", "f", None], "age": [30, 40, 50]})
    assert as_groups(table, ["sex", "age"]).tolist() == ["m / 30", "f / 40", None]
    alike = pa.table({"one": ["a / b", "a"], "two": ["c", "b / c"]})
    with pytest.raises(TableError, match="same label"):
        as_groups(alike, ["one", "two"])


@pytest.mark.parametrize("cells", [["7", None], ["7", ""], ["7", "  "], ["7", "NA"], ["7", "nan"], [7, None]])
def test_a_row_without_an_id_is_refused_by_its_number(cells):
    ids = pa.chunked_array([pa.array(cells[:1]), pa.array(cells), pa.array(cells)])
    with pytest.raises(TableError, match=r"Column id has no id in row 103 \(rows without an id so far: 2;"):
        as_ids(pa.table({"id": ids}), "id", first_row=101)


def test_a_float_that_is_no_number_is_no_id():
    with pytest.raises(TableError, match="no id in row 2"):
        as_ids(pa.table({"id": [1.0, np.nan]}), "id")


def test_ids_with_leading_zeros_stay_text_and_plain_integers_are_numbers():
    assert as_ids(pa.table({"id": ["007", "7", "-7", "7.0", "1" * 20]}), "id") == [
        "007",
        7,
        -7,
        "7.0",
        "1" * 20,
    ]


def test_epsilon_by_group_takes_labels_with_commas_and_several_pieces():
    assert read_epsilon(["5%"]) == 0.05
    assert read_epsilon(["Smith, J=0.1,B=2%", "C=0"]) == {"Smith, J": 0.1, "B": 0.02, "C": 0.0}
    for bad in (["0.1,0.2"], ["A="], ["nan"], ["-1"], ["inf"]):
        with pytest.raises(UsageError):
            read_epsilon(bad)
