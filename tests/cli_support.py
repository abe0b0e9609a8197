"""What the tests of the command line share: a small table, and how a command ended."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from evenhand.datasets import make_population

LETTERS = np.array(["A", "B", "C"])


def make_table(n_rows=400, n_groups=2, seed=0):
    """Ids with leading zeros, numbers with gaps, a category, a date, a group and an outcome."""
    data = make_population(n_rows, n_groups=n_groups, random_state=seed)
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": [f"{number:05d}" for number in rng.permutation(n_rows)],
            "size": data.data[:, 0].round(4),
            "gap": pa.array(np.where(rng.random(n_rows) < 0.1, np.nan, data.data[:, 1]), from_pandas=True),
            "town": rng.choice(["north, side", 'the "old" town', "süd"], n_rows),
            "since": [f"20{year:02d}-0{month}-11" for year, month in rng.integers(1, 10, (n_rows, 2))],
            "group": LETTERS[data.sensitive_features],
            "outcome": data.target.round(4),
        }
    )


def make_classes(n_rows=400, n_groups=2, seed=0):
    """The same table, with a decision in place of the outcome."""
    table = make_table(n_rows, n_groups, seed)
    hired = np.where(table["outcome"].to_numpy() > 0.2, "yes", "no")
    return table.set_column(6, "hired", pa.array(hired))


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def facts(self):
        return json.loads(self.out)


def files_of(folder: Path):
    """Names of all files under a folder, hidden ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
