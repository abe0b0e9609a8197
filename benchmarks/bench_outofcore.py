"""A Parquet file of 5 GB, fitted and scored by one process that never holds 1 GB.

The file is made in a temporary folder, of columns of random doubles, which do not compress. The models are
fitted on a few labelled rows in memory; then the parity step is fitted on the whole file (`fit_table`, K = 3,
the batch solver over all rows) and every row is scored to another file (`predict_table`). Memory is the
peak of the resident set of the fresh process that does both, with the interpreter and the libraries in it.
Times are ratios to reading the same columns and predicting with the base model alone.
"""

import multiprocessing
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression, LogisticRegression

import evenhand as eh
from benchmarks import _support as support
from evenhand.tables import fit_table, iter_predictions, predict_table
from evenhand.tables.sources import open_source

GIGABYTE, MOST_MEGABYTES = 1e9, 1000.0
N_COLUMNS, N_FEATURES, GROUP_ROWS = (
    40,
    8,
    131_072,
)  # columns, of which the models use few; rows of a row group
EPSILON, TOL = 0.02, 1e-4
LABELLED_ROWS = 20_000
FEATURES = [f"x{i}" for i in range(N_FEATURES)]


def make_columns(n_rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N_COLUMNS, n_rows))


def label(columns: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes and groups: the outcome's features tell the group too."""
    rng = np.random.default_rng(seed)
    outcome = columns[0] + 0.5 * columns[1] - 0.5 * columns[2] + 0.3 * rng.standard_normal(columns.shape[1])
    utilities = np.stack([0.0 * columns[0], columns[0] - 0.5, columns[3] - columns[1] - 0.5])
    groups = np.argmax(utilities + rng.gumbel(size=utilities.shape), axis=0)
    return outcome, groups


def write_table(path: Path, n_bytes: float) -> int:
    """A Parquet file of at least `n_bytes`; the number of its rows."""
    schema = pa.schema([("id", pa.int64()), *((f"x{i}", pa.float64()) for i in range(N_COLUMNS))])
    n_rows = 0
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        while path.stat().st_size < n_bytes:
            columns = make_columns(GROUP_ROWS, seed=n_rows)
            ids = np.arange(n_rows, n_rows + GROUP_ROWS)
            writer.write_table(pa.table([ids, *columns], schema=schema), row_group_size=GROUP_ROWS)
            n_rows += GROUP_ROWS
    return n_rows


def make_model() -> eh.ParityRegressor:
    columns = make_columns(LABELLED_ROWS, seed=10**9)
    outcome, groups = label(columns, seed=1)
    X = pd.DataFrame(columns[:N_FEATURES].T, columns=FEATURES)
    model = eh.ParityRegressor(
        LinearRegression(), LogisticRegression(), epsilon=EPSILON, tol=TOL, random_state=0
    )
    return model.fit(X, outcome, sensitive_features=groups)


def process(path: Path, target: Path) -> dict[str, Any]:
    """Fit the parity step on a file, score it, and tell what that took."""
    model = make_model()
    before = support.peak() / support.MEGABYTE
    times = [perf_counter()]
    fit_table(model, path, folder=path.parent)
    times.append(perf_counter())
    after_fit = support.peak() / support.MEGABYTE
    predict_table(model, path, target, ids="id")
    times.append(perf_counter())
    for block in open_source(path, FEATURES).blocks(32_768):
        model.estimator_.predict(block.to_pandas())
    times.append(perf_counter())
    certificate = model.certificate_
    return {
        "model": model,
        "before": before,
        "fit peak": after_fit,
        "peak": support.peak() / support.MEGABYTE,
        "seconds": np.diff(times),
        "passes": model.result_.n_gradient_rows / pq.ParquetFile(path).metadata.num_rows,
        "excess": float(certificate.excess.max()),
    }


def check(model: eh.ParityRegressor, path: Path, target: Path, n_rows: int) -> tuple[bool, float]:
    """Whether the last row group's predictions are the model's own, and the KS of fresh rows' true groups."""
    written = pq.ParquetFile(target)
    last = (
        pq.ParquetFile(path).read_row_group(n_rows // GROUP_ROWS - 1, columns=["id", *FEATURES]).to_pandas()
    )
    drawn = written.read().slice(n_rows - len(last))["prediction"].to_numpy()
    same = np.array_equal(drawn, model.predict(last[FEATURES], ids=last["id"].to_numpy()))
    columns = make_columns(400_000, seed=10**9 + 1)
    _, groups = label(columns, seed=2)
    fresh = pd.DataFrame(columns[:N_FEATURES].T, columns=FEATURES)
    values = np.concatenate(list(iter_predictions(model, fresh)))
    unfairness = max(eh.metrics.ks_unfairness(values, groups).values())
    return same and written.metadata.num_rows == n_rows, unfairness


def main(gigabytes: float = 5.0) -> None:
    """Make the file, process it in a fresh process, print peak and ratios."""
    folder = Path(tempfile.mkdtemp(prefix="evenhand-bench-"))
    try:
        path, target = folder / "rows.parquet", folder / "scored.parquet"
        n_rows = write_table(path, gigabytes * GIGABYTE)
        size = path.stat().st_size
        print(f"{size / GIGABYTE:.2f} GB, {n_rows} rows of {N_COLUMNS} doubles, {N_FEATURES} used, K = 3")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            found = pool.submit(process, path, target).result()
        same, unfairness = check(found["model"], path, target, n_rows)
        fit, predict, base = found["seconds"]
        rows = [
            ["peak before, MB", f"{found['before']:.0f}"],
            ["peak after the fit, MB", f"{found['fit peak']:.0f}"],
            [f"peak after scoring, MB (at most {MOST_MEGABYTES:.0f})", f"{found['peak']:.0f}"],
            ["peak / size of the file", f"{found['peak'] * support.MEGABYTE / size:.3f}"],
            ["fit / base model's predict over the file", f"{fit / base:.2f}"],
            ["scoring / base model's predict over the file", f"{predict / base:.2f}"],
            ["passes of the solver over all rows", f"{found['passes']:.1f}"],
            [f"violation beyond epsilon on the file (tol {TOL:g})", f"{found['excess']:.1e}"],
            [f"KS of 400 000 fresh rows, true groups (epsilon {EPSILON:g})", f"{unfairness:.4f}"],
        ]
        support.show_table(["", ""], rows)
        passed = found["peak"] < MOST_MEGABYTES and same and found["excess"] <= TOL
        print(f"written draws are the model's own: {same}; {support.verdict(passed)}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
