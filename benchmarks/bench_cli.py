"""`evenhand predict` on files of 100 000 and of 1 000 000 rows: memory that does not grow, and time.

Memory is the growth of a fresh process that has scored a few rows already. Time is over that of pandas
reading and writing the same CSV file and doing nothing else.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from benchmarks._support import peak_growth, show_table, smallest_times, verdict
from evenhand.cli import main as command
from evenhand.cli.commands.demo import make_people
from evenhand.tables.writing import write_frame

SMALL, LARGE = 100_000, 1_000_000
MOST_GROWTH = 1.5  # of the memory, for ten times the rows
FORMATS = "csv", "parquet"


def warm(folder: str) -> str:
    """Imports, compiled loops and one batch, which any number of rows needs."""
    predict(folder, "warm", "csv")
    predict(folder, "warm", "parquet")
    return folder


def predict(folder: str, name: str, kind: str) -> None:
    source, output = f"{folder}/{name}.{kind}", f"{folder}/scored.{kind}"
    assert command(["predict", f"{folder}/model.evenhand", source, "-o", output, "--force", "--quiet"]) == 0


def small_csv(folder: str) -> None:
    predict(folder, "small", "csv")


def large_csv(folder: str) -> None:
    predict(folder, "large", "csv")


def small_parquet(folder: str) -> None:
    predict(folder, "small", "parquet")


def large_parquet(folder: str) -> None:
    predict(folder, "large", "parquet")


ACTS = {"csv": (small_csv, large_csv), "parquet": (small_parquet, large_parquet)}


def make_files(folder: str) -> None:
    large = make_people(LARGE, seed=1).drop_columns(["group", "outcome"])
    for name, n_rows in (("warm", 1000), ("small", SMALL), ("large", LARGE)):
        for kind in FORMATS:
            write_frame(large.slice(0, n_rows), f"{folder}/{name}.{kind}")
    write_frame(make_people(5000, seed=0), f"{folder}/people.csv")
    asked = ["--target", "outcome", "--sensitive", "group", "--id", "person", "--quiet"]
    assert command(["fit", f"{folder}/people.csv", *asked, "-o", f"{folder}/model.evenhand"]) == 0


def check_rows(folder: str) -> None:
    """The same draw for the same row in both formats, all rows in their order."""
    for kind in FORMATS:
        predict(folder, "large", kind)
    text = pd.read_csv(f"{folder}/scored.csv", usecols=["person", "prediction"])
    typed = pa.parquet.read_table(f"{folder}/scored.parquet", columns=["person", "prediction"]).to_pandas()
    same = np.array_equal(text.to_numpy(), typed.to_numpy())
    print(f"{len(text)} rows, equal draws from CSV and from Parquet: {verdict(same and len(text) == LARGE)}")


def copy(folder: str) -> None:
    pd.read_csv(f"{folder}/large.csv").to_csv(f"{folder}/copy.csv", index=False)


def main() -> None:
    """Print the memory of both sizes and the time over a mere copy."""
    with tempfile.TemporaryDirectory() as folder:
        make_files(folder)
        rows = []
        for kind, (small, large) in ACTS.items():
            grown = [peak_growth(warm, act, folder) for act in (small, large)]
            ratio = grown[1] / max(grown[0], 1.0)
            size = Path(f"{folder}/large.{kind}").stat().st_size / 2**20
            passed = verdict(ratio < MOST_GROWTH)
            rows.append([kind, f"{size:.0f}", *(f"{each:.0f}" for each in grown), f"{ratio:.2f}", passed])
        show_table(["predict", "file MB", "100 000 rows MB", "1 000 000 rows MB", "ratio", "< 1.5"], rows)
        check_rows(folder)
        times = smallest_times(
            {"predict": lambda: large_csv(folder), "copy": lambda: copy(folder)}, rounds=2, warm_up=False
        )
        print(
            f"predict, CSV to CSV, over pandas reading and writing it: {times['predict'] / times['copy']:.2f}"
        )


if __name__ == "__main__":
    main()
