"""Cold import against scikit-learn's, and the first fit with an empty and with a full compile cache.

Each time is taken in a fresh interpreter, which times itself: the start of Python counts for nobody.
"""

import os
import statistics
import tempfile

from benchmarks._support import python_seconds, show_table, verdict

ROUNDS, MOST_RATIO, MOST_SECONDS = 7, 2.0, 20.0
IMPORT = "from time import perf_counter as now; t = now(); import {}; print(now() - t)"
FIT = """
import numpy as np
from time import perf_counter as now
import evenhand as eh
scores = np.random.default_rng(0).normal(size=2000)
first = 1.0 / (1.0 + np.exp(-scores))
t = now()
model = eh.ParityPostprocessor().fit(scores, np.column_stack([first, 1.0 - first]))
{}
print(now() - t)
"""
PREDICT = "model.predict(scores, np.column_stack([first, 1.0 - first]))"
PACKAGES = "evenhand", "sklearn", "sklearn.linear_model", "numba", "numpy"


def import_times() -> dict[str, float]:
    """Median seconds of interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in PACKAGES}
    for _ in range(ROUNDS):
        for name in PACKAGES:
            times[name].append(python_seconds(IMPORT.format(name)))
    return {name: statistics.median(values) for name, values in times.items()}


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
    base = times["sklearn"]
    rows = [[name, f"{value / base:.2f}", f"{value:.3f}"] for name, value in times.items()]
    show_table([f"cold import, median of {ROUNDS}", "over sklearn's", "s"], rows)
    ratio = times["evenhand"] / base
    print(f"evenhand over sklearn: {ratio:.2f}, under {MOST_RATIO:g}: {verdict(ratio < MOST_RATIO)}")
    fits = first_fits()
    for state, seconds in fits.items():
        print(f"first fit of a process, cache {state}: {seconds:.2f} s")
    print(f"cold under {MOST_SECONDS:.0f} s: {verdict(fits['cold'] < MOST_SECONDS)}")


if __name__ == "__main__":
    main()
