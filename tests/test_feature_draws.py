"""Draws from raw features: the same row, the same number, whatever holds it."""

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats

from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand.data.draws import key_from, uniforms_from_table
from evenhand.data.features import read_table
from tests.test_draws import siphash

KEY = key_from(5)
ZURICH = dt.timezone(dt.timedelta(hours=2))


def draws(X, key=KEY):
    return uniforms_from_table(X, key)


def numbers(n_rows=300, n_columns=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).round(1)


def same(*tables):
    first, *rest = (draws(table) for table in tables)
    for other in rest:
        assert np.array_equal(first, other)
    return first


def test_a_row_is_the_siphash_of_its_width_and_of_place_and_word_of_what_is_not_zero():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(20, 5)) * (rng.random((20, 5)) < 0.6)
    table[0] = 0.0
    key = KEY.astype("<u8").tobytes()
    for row, uniform in zip(table, draws(table), strict=True):
        words = [ord("c") | 5 << 8]
        for place in np.flatnonzero(row):
            words += [place, int(row[place : place + 1].view(np.uint64)[0])]
        message = np.array(words, "<u8").tobytes()
        assert uniform == ((siphash(message, key) >> 12) + 0.5) * 2.0**-52


def test_the_word_of_text_is_the_siphash_of_its_bytes():
    word = read_table([["Zürich"]]).words(0, 1, KEY)[0, 0]
    assert word == siphash(b"s" + "Zürich".encode(), KEY.astype("<u8").tobytes())


def test_numbers_count_by_value_in_every_container():
    table = numbers()
    same(
        table,
        np.asfortranarray(table),
        table[::-1][::-1],
        table.tolist(),
        table.astype(object),
        pd.DataFrame(table),
        pd.DataFrame(table, columns=list("dbca"), index=range(300, 0, -1)),
        pd.DataFrame(table).convert_dtypes(),
        pl.DataFrame(table),
        sparse.csr_array(table),
        sparse.csc_matrix(table),
        sparse.coo_array(table),
        sparse.lil_array(table),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.uint64, np.float16, np.float32, "Int32"])
def test_whole_numbers_do_not_depend_on_their_type(dtype):
    table = np.random.default_rng(0).integers(0, 100, (200, 3))
    same(table.astype(float), pd.DataFrame(table).astype(dtype))
    if dtype != "Int32":
        same(table.astype(float), table.astype(dtype), pl.DataFrame(table.astype(dtype)))


def test_single_precision_counts_by_its_value_in_double():
    table = numbers().astype(np.float32)
    same(table, table.astype(float), pl.DataFrame(table))
    assert not np.array_equal(draws(table), draws(numbers()))


def test_true_is_one_and_negative_zero_is_zero():
    flags = np.random.default_rng(0).random((50, 2)) < 0.5
    same(flags, flags.astype(int), np.where(flags, 1.0, -0.0), pd.DataFrame(flags), pl.DataFrame(flags))
    same(flags, flags.astype(object), pd.DataFrame(flags).astype("boolean"), sparse.csr_array(flags))


def test_missing_values_are_all_alike():
    same(
        np.array([[np.nan, 1.0]]),
        np.array([[-np.nan, 1.0]]),
        [[None, 1]],
        [[pd.NA, 1]],
        [[pd.NaT, 1]],
        [[np.datetime64("NaT"), 1]],
        [[Decimal("nan"), 1]],
        pd.DataFrame({"a": [None], "b": [1]}),
        pd.DataFrame({"a": pd.array([None], dtype="Int64"), "b": [1]}),
        pd.DataFrame({"a": pd.array([None], dtype="string"), "b": [1]}),
        pd.DataFrame({"a": pd.Categorical([None], categories=["x"]), "b": [1]}),
        pd.DataFrame({"a": pd.to_datetime([None]), "b": [1]}),
        *(
            pl.DataFrame({"a": pl.Series([None], dtype=kind), "b": [1]})
            for kind in (pl.Int8, pl.Float32, pl.Boolean, pl.String, pl.Categorical, pl.Date, pl.Datetime)
        ),
        pl.DataFrame({"a": [float("nan")], "b": [1]}),
    )
    assert draws([[None]]) != draws([[""]])
    assert draws([[None]]) != draws([[0]])


def people():
    """Rows with a cell of every kind, as Python values, in columns."""
    return {
        "age": [31, 44, None, 18],
        "income": [1.5, None, -0.0, 2.25],
        "member": [True, False, True, None],
        "town": ["Bern", "Zürich", "", None],
        "grade": ["b", "a", "b", None],
        "since": [
            dt.datetime(2020, 1, 2, 3, 4, 5, 678901),
            dt.datetime(1960, 5, 6),
            None,
            dt.datetime(9999, 1, 1),
        ],
        "born": [dt.date(1990, 2, 3), dt.date(1, 1, 1), None, dt.date(2024, 2, 29)],
        "wait": [dt.timedelta(days=-1, microseconds=3), None, dt.timedelta(hours=2), dt.timedelta(0)],
    }


def as_rows(columns):
    return [list(row) for row in zip(*columns.values(), strict=True)]


def as_pandas(columns):
    """With the types that pandas users have."""
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    born = np.array(columns["born"], dtype="datetime64[s]")
    return frame.assign(
        age=frame["age"].astype("Int16"),
        income=frame["income"].astype(float),
        member=frame["member"].astype("boolean"),
        town=frame["town"].astype("string"),
        grade=pd.Categorical(columns["grade"], categories=["z", "b", "a"], ordered=True),
        since=pd.Series(np.array(columns["since"], dtype="datetime64[us]")),
        born=pd.Series(born),
        wait=pd.Series(np.array(columns["wait"], dtype="timedelta64[ns]")),
    )


def as_polars(columns):
    return pl.DataFrame(columns).with_columns(
        pl.col("grade").cast(pl.Enum(["a", "b", "c"])),
        pl.col("age").cast(pl.Int16),
        pl.col("income").cast(pl.Float32),
    )


def test_cells_of_every_kind_count_by_value_in_every_container():
    columns = people()
    cells = np.array(as_rows(columns), dtype=object)
    same(as_rows(columns), cells, pd.DataFrame(cells), as_pandas(columns), as_polars(columns))


def test_each_row_keeps_its_number_alone_and_in_any_order():
    # alone, no column holds a missing value, and pandas and polars choose other types
    columns = people()
    for make in (as_rows, pd.DataFrame, as_pandas, as_polars, pl.DataFrame):
        together = draws(make(columns))
        assert len(set(together)) == 4
        for i in range(4):
            assert draws(make({name: [values[i]] for name, values in columns.items()})) == together[i]
        backwards = draws(make({name: values[::-1] for name, values in columns.items()}))
        assert np.array_equal(backwards, together[::-1])


def test_a_column_that_turns_float_because_of_another_row_changes_nothing():
    whole = pd.DataFrame({"a": [1, 2], "b": [True, False]})
    holey = pd.DataFrame({"a": [1, 2, None], "b": [True, False, None]})
    assert holey["a"].dtype == float
    assert np.array_equal(draws(holey)[:2], draws(whole))


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns", "100us"])
def test_moments_do_not_depend_on_their_unit(unit):
    days = np.array([["1969-12-31"], ["2001-09-09"], ["NaT"]], dtype="datetime64[D]")
    same(days, days.astype(f"datetime64[{unit}]"), days.tolist())
    spans = np.array([[-3], [0], [40]], dtype="timedelta64[D]")
    same(spans, spans.astype(f"timedelta64[{unit}]"), spans.tolist())
    assert not np.isin(draws(days), draws(days.astype("datetime64[s]").astype(float))).any()


def test_a_moment_in_a_zone_is_its_instant():
    naive = dt.datetime(2024, 7, 1, 10, 30)
    there = naive.replace(tzinfo=dt.UTC).astimezone(ZURICH)
    same(
        [[naive]],
        [[there]],
        pd.DataFrame({"a": [there]}),
        pd.DataFrame({"a": [pd.Timestamp(there)]}, dtype=object),
        pl.DataFrame({"a": [there]}),
        pl.DataFrame({"a": [naive]}).with_columns(
            pl.col("a").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Zurich")
        ),
    )


def test_nanoseconds_and_dates_beyond_their_range_are_told_apart():
    close = np.array([[0], [1]], dtype="datetime64[ns]")
    assert len(set(draws(close))) == 2
    same(close, close.astype("datetime64[ps]"), [[pd.Timestamp(0)], [pd.Timestamp(1)]])
    far = np.array([["9999-12-31"], ["-4000-01-01"]], dtype="datetime64[D]")
    assert len(set(draws(far))) == 2


def test_categories_count_by_value_and_not_by_code():
    values = ["low", "high", None, "low"]
    codes = pd.DataFrame({"a": pd.Categorical(values, categories=["low", "high"])})
    others = pd.DataFrame({"a": pd.Categorical(values, categories=["none", "high", "low"])})
    same(
        [[value] for value in values],
        codes,
        others,
        pl.DataFrame({"a": pl.Series(values, dtype=pl.Categorical)}),
    )
    same([[3], [1.5]], pd.DataFrame({"a": pd.Categorical([3, 1.5])}))


def test_text_bytes_and_uuids_are_values_of_their_own():
    person = uuid.uuid5(uuid.NAMESPACE_DNS, "person")
    same([[person]], [[str(person)]])
    same(np.array([["a", "bc"]]), [["a", "bc"]], np.array([["a", "bc"]], dtype=np.dtypes.StringDType()))
    same(np.array([[b"a"]]), [[b"a"]])
    cells = [["1"], [1], [b"1"], [dt.timedelta(seconds=1)], [dt.datetime(1970, 1, 1, 0, 0, 1)], ["a\0b"]]
    assert len(set(draws(cells))) == len(cells)


def test_sparse_matrices_may_hold_zeros_repeats_and_any_order_of_columns():
    dense = np.array([[0.0, 3.0, 0.0], [np.nan, 0.0, 1.0]])
    data, columns, offsets = [1.0, 0.0, 2.0, 1.0, np.nan], [1, 0, 1, 2, 0], [0, 3, 5]
    messy = sparse.csr_array((data, columns, offsets), shape=(2, 3))
    before = messy.indices.copy()
    same(dense, messy)
    assert np.array_equal(messy.indices, before)
    same(np.zeros((3, 4)), sparse.csr_array((3, 4)))


def test_place_and_width_count_and_the_key_does():
    table = numbers()
    assert draws([[1, 2]]) != draws([[2, 1]])
    assert draws([[1, 0]]) != draws([[0, 1]])
    assert draws([[1, 0]]) != draws([[1]])
    assert len({*draws([["a", "b"], ["b", "a"], ["ab", ""]])}) == 3
    assert not np.isin(draws(table), draws(table, key_from(6))).any()


def test_numbers_of_rows_look_uniform_and_do_not_go_together():
    table = np.random.default_rng(0).normal(size=(50_000, 3))
    uniforms = draws(table)
    assert stats.kstest(uniforms, "uniform").pvalue > 1e-3
    table[:, 1] = np.nextafter(table[:, 1], np.inf)
    assert abs(np.corrcoef(uniforms, draws(table))[0, 1]) < 0.03


def test_a_row_does_not_depend_on_its_batch_or_the_threads():
    table = numbers(20_000, 20)
    together = draws(table)
    order = np.random.default_rng(0).permutation(20_000)
    assert np.array_equal(draws(table[order]), together[order])
    assert np.array_equal(np.concatenate([draws(table[:7]), draws(table[7:])]), together)
    threads = get_num_threads()
    try:
        set_num_threads(1)
        assert np.array_equal(draws(table), together)
        assert np.array_equal(draws(pl.DataFrame(table)), together)
    finally:
        set_num_threads(threads)


def test_no_rows_give_no_numbers():
    for empty in (
        np.empty((0, 3)),
        pd.DataFrame({"a": []}),
        pl.DataFrame({"a": []}),
        sparse.csr_array((0, 2)),
    ):
        assert draws(empty).shape == (0,)


def test_integers_beyond_double_precision_are_read_as_doubles():
    same([[2**53 + 1]], [[2.0**53]], np.array([[2**53 + 1]]), np.array([[2**53 + 1]], dtype=np.uint64))


BAD_TABLES = {
    "one dimension": ([1.0, 2.0], "two dimensions"),
    "a series": (pd.Series([1.0]), "two dimensions"),
    "three dimensions": (np.zeros((2, 2, 2)), "two dimensions"),
    "ragged rows": ([[1], [1, 2]], "X"),
    "complex numbers": (np.array([[1j]]), "complex128.*ids="),
    "a complex cell": ([[1j, "a"]], "complex.*ids="),
    "lists in cells": (pd.DataFrame({"a": [[1, 2]]}), "ids="),
    "lists in polars": (pl.DataFrame({"a": [[1, 2]]}), "ids="),
    "objects": ([[object(), 1]], "type object.*ids="),
    "periods": (pd.DataFrame({"a": pd.period_range("2020", periods=2, freq="M")}), "Period.*ids="),
    "months": (np.array([[3]], dtype="timedelta64[M]"), "no length in seconds.*ids="),
    "huge integers": ([[10**400, 1]], "beyond the range of float64.*ids="),
    "records": (np.zeros((2, 1), dtype=[("a", float)]), "ids="),
    "sparse complex": (sparse.csr_array(np.array([[1j]])), "complex.*ids="),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_what_cannot_be_read_is_an_error_that_shows_the_way_out(case):
    table, message = BAD_TABLES[case]
    with pytest.raises(ValueError, match=message):
        draws(table)
