"""Draw the picture of docs/reference/capacity.md from what bench_capacity.py measured, and print its table.

Run it as `python docs/make_capacity_figure.py [folder]`. The model is `seconds` below.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from make_figures import save

from evenhand.plots.style import COLOURS, DASHES, GREY, figure_headline, subplots, tidy

HERE = Path(__file__).resolve().parent
N_ATOMS, N_PASSES = 201, 4  # passes of sums of a fit
FEW, MANY = 8_000, 4_000_000  # rows of the two passes that were timed
WORKERS_DRAWN = (16, 256)


def load(name: str) -> Any:
    """Figures of "kernel", "sample", "dask" or "spark"; None where nobody measured them."""
    path = HERE / "results" / f"capacity-{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def slope(times: dict[str, float]) -> float:
    """Seconds a row of one pass, without its overhead."""
    return (times[str(MANY)] - times[str(FEW)]) / (MANY - FEW)


def seconds(n_rows: Any, n_workers: int, overhead: float, per_row: float) -> Any:
    """A fit: the sample on the driver, then passes of an overhead and a share of the rows for each worker."""
    sample: float = load("sample")["seconds"]
    return sample + N_PASSES * (overhead + n_rows * per_row / n_workers)


def print_checks(name: str, found: dict[str, dict[str, float]]) -> None:
    """A pass as one worker's predicts it for several on two cores, beside what was measured."""
    overhead, per_row = found["1"][str(FEW)], slope(found["1"])
    for n_workers, times in found.items():
        predicted = overhead + MANY * per_row / min(int(n_workers), 2)
        told = f"measured {times[str(MANY)]:.2f} s, predicted {predicted:.2f} s"
        print(f"{name}, {n_workers} workers: {told}")  # noqa: T201  for the page


def print_times(name: str, found: dict[str, dict[str, float]]) -> None:
    """Minutes of a fit on more and more workers, as one worker's pass predicts them."""
    overhead, per_row = found["1"][str(FEW)], slope(found["1"])
    for n_rows in (1e9, 1e10):
        times = [f"{n}: {seconds(n_rows, n, overhead, per_row) / 60:.1f}" for n in (4, 16, 64, 256, 1024)]
        print(f"{name}, {n_rows:.0e} rows, minutes by workers", *times)  # noqa: T201  for the page


def draw(folder: Path) -> None:
    """Seconds of a fit against rows, on one machine and on clusters."""
    rows = np.geomspace(1e7, 1e11, 200)
    axes = subplots(size=(7.2, 4.6))[0, 0]
    lines = [("one machine, two cores", load("kernel")["2"]["2"] * 1e-9 * N_ATOMS, 0.0, 1)]
    for name in ("dask", "spark"):
        if (found := load(name)) is not None:
            per_row, overhead = slope(found["1"]), found["1"][str(FEW)]
            lines += [(f"{name.capitalize()}, {n} workers", per_row, overhead, n) for n in WORKERS_DRAWN]
    for place, (label, per_row, overhead, n_workers) in enumerate(lines):
        times = seconds(rows, n_workers, overhead, per_row)
        axes.loglog(rows, times, color=COLOURS[place], linestyle=DASHES[place], label=label)
    for height, word in ((60, "a minute"), (3600, "an hour"), (86_400, "a day")):
        axes.axhline(height, color=GREY, linewidth=0.6)
        axes.text(1.1e7, 1.12 * height, word, color=GREY, fontsize=8)
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds of a fit")
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.12, 0.93))
    tidy(axes)
    figure_headline(axes.figure, "Where a cluster pays: seconds of a fit by the model, 201 atoms, two groups")
    save(axes.figure, folder / "capacity.png", grey=False)


def main() -> None:
    """Print the checks and the table, and draw."""
    for name in ("dask", "spark"):
        if (found := load(name)) is not None:
            print_checks(name, found)
            print_times(name, found)
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "figures")


if __name__ == "__main__":
    main()
