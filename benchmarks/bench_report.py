"""`evenhand.report` on a million rows in 60 groups: its time against one prediction, its memory and size.

One prediction is what nobody can do without: `predict_pmf` of all the rows, in blocks that fit in memory. The
report measures the scores, the model and a few other tolerances, after solving for these on some of the rows.
"""

import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks._support import peak_growth, show_table, verdict
from evenhand.exceptions import ConvergenceWarning

N_ROWS, N_GROUPS, N_ATOMS, N_FIT = 1_000_000, 60, 41, 5_000
MOST_BYTES = 3_000_000
N_TOLERANCES = 2
BLOCK = 20_000


def rows_of(n_rows: int, seed: int) -> dict[str, Any]:
    """Scores, probabilities and labels of groups whose centres lie apart; three groups have one row."""
    rng = np.random.default_rng(seed)
    centres = np.linspace(-1.0, 1.0, N_GROUPS)
    codes = rng.integers(N_GROUPS - 3, size=n_rows)
    codes[:3] = np.arange(N_GROUPS - 3, N_GROUPS)
    scores = rng.normal(centres[codes])
    near = np.exp(-0.5 * (scores[:, None] - centres) ** 2)
    proba = near / near.sum(axis=1, keepdims=True)
    return {"scores": scores, "group_proba": proba, "codes": codes, "y": scores + rng.normal(size=n_rows)}


def prepared(n_rows: int) -> dict[str, Any]:
    fit = rows_of(N_FIT, 0)
    step = eh.ParityPostprocessor(atoms=N_ATOMS, solver="lbfgs", max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough: nothing here depends on it
        step.fit(fit["scores"], fit["group_proba"])
    return {"model": step, **rows_of(n_rows, 1)}


def predict(given: dict[str, Any]) -> None:
    for start in range(0, len(given["scores"]), BLOCK):
        some = slice(start, start + BLOCK)
        given["model"].predict_pmf(given["scores"][some], given["group_proba"][some])


def report(given: dict[str, Any]) -> int:
    """Size of the page."""
    with tempfile.TemporaryDirectory() as folder:
        page = eh.report(
            given["model"],
            (given["scores"], given["group_proba"]),
            given["y"],
            sensitive_features=given["codes"],
            path=Path(folder) / "report.html",
            n_tolerances=N_TOLERANCES,
        )
        return page.stat().st_size


def seconds(run: Any, given: dict[str, Any]) -> tuple[float, Any]:
    begin = perf_counter()
    found = run(given)
    return perf_counter() - begin, found


def main() -> None:
    small = prepared(2_000)
    predict(small)
    report(small)  # compiled and imported
    given = prepared(N_ROWS)
    one, _ = seconds(predict, given)
    all_, size = seconds(report, given)
    table = 8 * given["group_proba"].size / 2**20
    growth = peak_growth(prepared, report, N_ROWS)
    print(f"Report on {N_ROWS:,} rows, {N_GROUPS} groups, {N_ATOMS} atoms:")
    show_table(
        ("what", "ratio"),
        [
            ("time / predict_pmf of the rows", f"{all_ / one:.1f}"),
            ("memory / group probabilities of the rows", f"{growth / table:.1f}"),
            (f"size / 3 MB: {verdict(size < MOST_BYTES)}", f"{size / MOST_BYTES:.2f}"),
        ],
    )


if __name__ == "__main__":
    main()
