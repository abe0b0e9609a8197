"""Damaged and odd tables: CSV, Parquet and Arrow files, read as by the library and the command line."""

import io
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from evenhand import ParityPostprocessor, tables
from evenhand.tables import columns as readers
from evenhand.tables.files import read_table
from evenhand.tables.sources import open_source
from fuzz.counts import CORPUS, Counts
from fuzz.judge import judge

CELLS = (
    "", "0", "1", "-1", "0.5", "1e308", "1e999", "nan", "NaN", "inf", "-inf", "NA", "null", "None", "a", "b",
    "é", "\x00", '"', '""', "'", ",", ";", "\t", "\n", "\r\n", "2020-01-01", "2020-01-01T00:00:00Z", "12:30",
    "true",
    "=cmd()", "0x10", "1_000", "1,5", " 1 ", "1" * 400, "x" * 5000, "\ufeff", "\u202e", "漢字",
)  # fmt: skip
HEADS = ("score", "p0", "p1", "group", "id", "weight", "", "score", "0", "1", "a b", "é", "x" * 300)
PIECES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b"\n",
    b"\r",
    b",",
    b"PAR1",
    b"ARROW1",
    b"\x1f\x8b",
)


def _plain_table(rng: np.random.Generator) -> pa.Table:
    n_rows = int(rng.integers(1, 12))
    share = rng.random(n_rows)
    return pa.table(
        {
            "score": rng.normal(size=n_rows),
            "p0": share,
            "p1": 1.0 - share,
            "group": pa.array(rng.choice(["a", "b", None], n_rows).tolist(), pa.string()),
            "id": np.arange(n_rows),
            "weight": rng.exponential(size=n_rows).astype(np.float32),
        }
    )


def _csv(rng: np.random.Generator) -> bytes:
    """Text of a table, with cells and heads of any kind among the plain ones."""
    table = _plain_table(rng)
    heads = list(table.column_names)
    rows = [[str(cell) for cell in row.values()] for row in table.to_pylist()]
    for _ in range(int(rng.integers(0, 4))):
        row = rows[int(rng.integers(len(rows)))]
        row[int(rng.integers(len(row)))] = str(rng.choice(CELLS))
    if rng.random() < 0.2:
        heads[int(rng.integers(len(heads)))] = str(rng.choice(HEADS))
    if rng.random() < 0.1:
        rows[int(rng.integers(len(rows)))].append("more")
    between = str(rng.choice([",", ";", "\t", "|"], p=[0.85, 0.05, 0.05, 0.05]))
    lines = [between.join(row) for row in [heads, *rows]]
    return (
        str(rng.choice(["\n", "\r\n"]))
        .join(lines)
        .encode(str(rng.choice(["utf-8", "utf-16", "latin-1"], p=[0.9, 0.05, 0.05])), "replace")
    )


def _odd_table(rng: np.random.Generator) -> pa.Table:
    """A table with columns of types that numbers, groups or ids may or may not be read from."""
    table = _plain_table(rng)
    n_rows = table.num_rows
    odd: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([None] * n_rows),
        lambda: pa.array([[1.0]] * n_rows),
        lambda: pa.array([{"a": 1}] * n_rows),
        lambda: pa.array([b"bytes"] * n_rows),
        lambda: pa.array(["x"] * n_rows).dictionary_encode(),
        lambda: pa.array([True] * n_rows),
        lambda: pa.array([np.inf] * n_rows),
        lambda: pa.array([2**63 - 1] * n_rows),
        lambda: pa.array([10**30] * n_rows, pa.decimal128(38)),
        lambda: pa.array([0] * n_rows, pa.timestamp("ns")),
        lambda: pa.array([0] * n_rows, pa.duration("s")),
        lambda: pa.array([0] * n_rows, pa.date32()),
        lambda: pa.array([1.5] * n_rows, pa.float16()),
        lambda: pa.array(["1"] * n_rows, pa.large_string()),
        lambda: pa.chunked_array([pa.array(["1"] * n_rows)]),
    )
    for _ in range(int(rng.integers(0, 3))):
        place = int(rng.integers(table.num_columns))
        table = table.set_column(place, table.column_names[place], odd[int(rng.integers(len(odd)))]())
    return table


def _bytes(rng: np.random.Generator, kind: str) -> bytes:
    """A file of one kind."""
    if kind == "csv":
        return _csv(rng)
    out = io.BytesIO()
    table = _odd_table(rng)
    if kind == "parquet":
        pq.write_table(table, out)
    else:
        pyarrow.feather.write_feather(table, out, compression="uncompressed")
    return out.getvalue()


def damage(rng: np.random.Generator, data: bytes) -> bytes:
    """The same file with bytes changed, cut, put in, or put together with another."""
    spoilt = bytearray(data)
    for _ in range(int(rng.choice([0, 1, 1, 2, 4]))):
        place = int(rng.integers(len(spoilt) + 1))
        way = rng.random()
        if way < 0.4 and place < len(spoilt):
            spoilt[place] ^= 1 << int(rng.integers(8))
        elif way < 0.55:
            del spoilt[place:]
        elif way < 0.7:
            del spoilt[place : place + int(rng.integers(1, 40))]
        elif way < 0.9:
            spoilt[place:place] = PIECES[int(rng.integers(len(PIECES)))]
        else:
            spoilt += data
    return bytes(spoilt)


def _read_columns(path: str) -> None:
    """Every column in every way."""
    table = read_table(open_source(path))
    for name in table.column_names:
        for read in (
            readers.as_numbers,
            readers.as_moments,
            readers.as_texts,
            readers.as_classes,
            readers.as_ids,
        ):
            try:
                read(table, name)
            except ValueError as error:  # one way does not do for every column, but it says so
                if not type(error).__name__.startswith("Table"):
                    raise
        readers.find_kind(readers.find_column(table, name))
    readers.as_groups(table, table.column_names[:2])


def _use(path: str, model: ParityPostprocessor) -> Any:
    """Predict from the file, or fit on it."""
    named: dict[str, Any] = {"scores": "score", "group_proba": ["p0", "p1"]}
    list(tables.iter_predictions(model, path, **named, ids="id"))
    fitted = tables.fit_table(ParityPostprocessor(atoms=5, tol=1e-3), path, **named, sample_weight="weight")
    return fitted.certificate_.violation


def run(seconds: float | None, cases: int | None, seed: int) -> Counts:
    """Read until the time or the number of cases is spent."""
    counts = Counts("table_readers", seed)
    model = ParityPostprocessor(atoms=5).fit(
        np.linspace(0, 1, 40), np.tile([[0.3, 0.7], [0.8, 0.2]], (20, 1))
    )
    under_way = CORPUS / "table_readers" / "under-way.bin"  # left behind by a process that dies of its case
    under_way.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        while not counts.is_over(seconds, cases):
            rng = np.random.default_rng([seed, counts.cases])
            kind = str(rng.choice(["csv", "parquet", "arrow"], p=[0.6, 0.2, 0.2]))
            data = damage(rng, _bytes(rng, kind))
            path = str(Path(folder) / f"table.{kind}")
            Path(path).write_bytes(data)
            under_way.write_bytes(data)
            case = f"{kind} --seed {seed} number {counts.cases}"
            use = rng.random() < 0.4
            judge(counts, case, lambda p=path, use=use: _use(p, model) if use else _read_columns(p), data)  # type: ignore[misc]
    under_way.unlink()
    return counts
