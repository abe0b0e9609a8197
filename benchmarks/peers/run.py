"""Run every method on every cell, and keep what was measured; this needs the environment of `make peers`."""

import importlib.metadata
import logging
import os
import platform
import sys
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from benchmarks._support import peak_growth
from benchmarks.peers.cells import GENERATED, LEARNERS, TABLES, TASKS, WHAT, Cell, make_cell
from benchmarks.peers.folds import study_folds
from benchmarks.peers.measure import measure
from benchmarks.peers.methods.all import KINDS, methods
from benchmarks.peers.methods.base import Method
from benchmarks.peers.store import Results
from evenhand import __version__

PACKAGES = (
    "fairlearn",
    "equipy",
    "oxonfair",
    "error-parity",
    "scikit-learn",
    "numpy",
    "scipy",
    "cvxpy",
)
SEEDS, QUICK_SEEDS = 5, 2
QUICK_DATA = ("adult", "two groups", "three groups")
MEMORY_DATA = "adult"


def run(quick: bool, path: Path, n_seeds: int, resume: bool = False) -> Results:
    """Fit and measure everything; the file is written after every seed.

    With `resume` what is stored is not run again.
    """
    warnings.simplefilter(
        "ignore"
    )  # of methods that did not converge, or promise little: the measures say it
    logging.disable(logging.WARNING)
    begin = perf_counter()
    results = Results(about(quick), [describe(kind) for kind in KINDS], [], [])
    if resume:
        stored = Results.read(path)
        results.records = stored.records
        results.about["cpu_seconds"] = stored.about.get("cpu_seconds", 0)
    warm_up()
    for seed in range(n_seeds):
        for task, data, learner in cells(quick):
            cell = make_cell(task, data, learner, seed, quick=quick)
            done = results.select(task=task, data=data, learner=learner, seed=seed)
            for method in methods(task):
                results.records.extend(measure_method(method, cell, done))
            print(f"{perf_counter() - begin:6.0f} s  {task}, {data}, {learner}, seed {seed}", flush=True)
        results.about["seeds"] = seed + 1
        results.write(path)
    if not quick:
        results.about["folds"] = study_folds(n_seeds)
        results.memory = list(measure_memory())  # last, when all loops of ours are compiled
    results.about["cpu_seconds"] += round(process_time())
    results.write(path)
    return results


def cells(quick: bool) -> Iterator[tuple[str, str, str]]:
    """Task, data set and learner of every cell."""
    for task in TASKS:
        for data in (*TABLES[task], *GENERATED[task]):
            for learner in LEARNERS:
                if not quick or (data in QUICK_DATA and learner == "linear"):
                    yield task, data, learner


def warm_up() -> None:
    """Compile what numba compiles, so that no fit pays for it."""
    for task in TASKS:
        cell = make_cell(task, "three groups", "linear", 99, quick=True)
        for method in methods(task):
            if method.name == "evenhand":
                method.fit(cell, 0.1)()


def measure_method(method: Method, cell: Cell, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One record for each value of the knob that is not done yet; a failure is a record, too."""
    mode = "aware" if method.aware else "unaware"
    known = {each["knob"] for each in done if (each["method"], each["mode"]) == (method.name, mode)}
    for knob in method.knobs_for(cell.learner):
        if knob in known:
            continue
        record: dict[str, Any] = {
            "task": cell.task,
            "mode": mode,
            "data": cell.data,
            "learner": cell.learner,
            "seed": cell.seed,
            "method": method.name,
            "knob": knob,
        }
        try:
            shared = method.shared_seconds(cell)
            begin = process_time()  # of one thread: other work on the machine does not count
            predict = method.fit(cell, knob)
            record["seconds"] = shared + process_time() - begin
            record |= measure(predict(), cell.y_test, cell.groups_test)
        except Exception as error:  # whatever a peer raises is told, and the others go on
            record["failure"] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
            print(f"          {method.name} ({mode}, {knob}) failed: {record['failure']}", flush=True)
        yield record


def about(quick: bool) -> dict[str, Any]:
    """Versions, date and machine."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "quick": quick,
        "seeds": 0,
        "cpu_seconds": 0,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, one used",
        "processor": processor(),
        "versions": {
            "evenhand": __version__,
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "data": {task: {data: text for (of, data), text in WHAT.items() if of == task} for task in TASKS},
    }


def processor() -> str:
    """Its name, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def describe(kind: type[Method]) -> dict[str, Any]:
    """What the page says of a method."""
    return {
        "name": kind.name,
        "package": kind.package,
        "tasks": list(kind.tasks),
        "modes": list(kind.modes),
        "setting": kind.setting,
        "knobs": list(kind.knobs),
        "how": kind.how,
    }


def measure_memory() -> Iterator[dict[str, Any]]:
    """Growth of a fresh process in the first fit of each method, its libraries and scores there already."""
    for task in TASKS:
        for number, method in enumerate(methods(task)):
            record = {"task": task, "mode": "aware" if method.aware else "unaware", "method": method.name}
            try:
                record["megabytes"] = peak_growth(prepare_fit, first_fit, task, number)
            except Exception as error:
                record["failure"] = f"{type(error).__name__}: {str(error)[:160]}"
            print(f"          memory: {record}", flush=True)
            yield record


def prepare_fit(task: str, number: int) -> tuple[Method, Cell]:
    """In the fresh process: the method, and a cell with its scores."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    cell = make_cell(task, MEMORY_DATA, "linear", 0)
    method = methods(task)[number]
    method.shared_seconds(cell)
    return method, cell


def first_fit(state: tuple[Method, Cell]) -> object:
    """In the fresh process: what is measured."""
    method, cell = state
    return method.fit(cell, method.knobs_for(cell.learner)[0])


def check_environment() -> None:
    """One thread for everybody, before NumPy is loaded by anybody."""
    missing = [name for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if os.environ.get(name) != "1"]
    if missing:
        sys.exit(
            f"Set {' and '.join(missing)} to 1, as `make peers` does: times of all methods are of one core."
        )
