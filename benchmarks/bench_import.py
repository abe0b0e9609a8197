"""Cold import against that of scikit-learn and pandas, and the first fit with an empty and a full cache.

Each time is taken in a fresh interpreter, which times itself: the start of Python counts for nobody. Times
are in seconds of a processor, since others may share it: compiling takes one, so on a free machine a clock
shows the same.
"""

import os
import statistics
import tempfile

from benchmarks._support import python_seconds, show_table, verdict

ROUNDS, MOST_SECONDS = 7, 5.0
IMPORT = "from time import process_time as now; t = now(); {}; print(now() - t)"
FIT = """
import numpy as np
from time import process_time as now
from evenhand import ParityPostprocessor
scores = np.random.default_rng(0).normal(size=2000)
first = 1.0 / (1.0 + np.exp(-scores))
t = now()
model = ParityPostprocessor().fit(scores, np.column_stack([first, 1.0 - first]))
{}
print(now() - t)
"""
PREDICT = "model.predict(scores, np.column_stack([first, 1.0 - first]))"
BASE = "import sklearn, pandas"
IMPORTS = "import evenhand", "from evenhand import ParityRegressor", BASE, "import numba", "import numpy"


def import_times() -> dict[str, float]:
    """Median seconds of a processor, of interleaved rounds."""
    times: dict[str, list[float]] = {line: [] for line in IMPORTS}
    for _ in range(ROUNDS):
        for line in IMPORTS:
            times[line].append(python_seconds(IMPORT.format(line)))
    return {line: statistics.median(values) for line, values in times.items()}


def first_fits() -> dict[str, float]:
    """Seconds of the first fit of a process, by the state of the cache before it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        cold = python_seconds(FIT.format(""), environment)
        predict = python_seconds(FIT.format(PREDICT), environment)
        warm = min(python_seconds(FIT.format(""), environment) for _ in range(3))
    return {"cold": cold, "fit warm, predict cold": predict, "warm": warm}


def main() -> None:
    """Print imports over scikit-learn's, then the first fits."""
    times = import_times()
    base = times[BASE]
    rows = [[line, f"{value / base:.2f}", f"{value:.3f}"] for line, value in times.items()]
    show_table([f"cold import, median of {ROUNDS}", "over scikit-learn's and pandas'", "s"], rows)
    ratio = times["import evenhand"] / base
    print(f"evenhand over scikit-learn and pandas: {ratio:.2f}, under 1: {verdict(ratio < 1.0)}")
    fits = first_fits()
    for state, seconds in fits.items():
        print(f"first fit of a process, cache {state}: {seconds:.2f} s")
    print(f"cold under {MOST_SECONDS:.0f} s: {verdict(fits['cold'] < MOST_SECONDS)}")


if __name__ == "__main__":
    main()
