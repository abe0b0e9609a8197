"""A table on disk, and what is fitted on it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from evenhand import ParityPostprocessor
from evenhand.datasets import make_population

N_ROWS, N_GROUPS = 6000, 3
GROUPS = ["a", "b", "c"]
DATA = make_population(N_ROWS, N_GROUPS, random_state=0)
TABLE = pa.table(
    {
        "unused": pa.array(["x"] * N_ROWS),
        "score": DATA.scores,
        **{name: DATA.group_proba[:, i] for i, name in enumerate(GROUPS)},
        "who": np.arange(N_ROWS) + 10_000,
        "weight": np.random.default_rng(1).integers(0, 3, N_ROWS).astype(float),
    }
)
NAMES = {"scores": "score", "group_proba": GROUPS}


def write_table(path):
    pa.parquet.write_table(TABLE, path, row_group_size=1700)
    return path


def make_step(**settings):
    return ParityPostprocessor(**{"epsilon": 0.05, "random_state": 7, **settings})


def fit_in_memory(step, weights=None):
    return step.fit(TABLE["score"].to_numpy(), TABLE.select(GROUPS).to_pandas(), sample_weight=weights)
