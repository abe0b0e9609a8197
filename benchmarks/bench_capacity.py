"""What a pass over rows costs: on one core and two, and on local clusters of Dask and Spark.

`python -m benchmarks capacity` measures what this environment has: the kernels always, Dask in that of `make
test-dask`, Spark in that of `make test-spark`. `python -m benchmarks.bench_capacity docs/results` keeps the
figures of docs/reference/capacity.md there, of which docs/make_capacity_figure.py makes the picture.

A pass is one evaluation of the dual over all rows: m = 201 atoms, beta = 10 000, on clusters K = 2 groups.
Their workers have one thread each; rows are made on them. Times are the smallest of a few, as other work may
share the machine, but nothing is interleaved between clusters of different sizes.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import _support as support
from evenhand import ParityPostprocessor
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand.datasets import make_population
from evenhand.dual.objective import evaluate
from evenhand.dual.problem import DualProblem
from evenhand.solvers import Auto, run
from evenhand.tables.batch import fit_table
from evenhand.tables.clusters import open_partitions
from evenhand.tables.model_inputs import make_reader

N_ATOMS, BETA, ROUNDS = 201, 10_000.0, 20
KERNEL_ROWS, GROUPS_TRIED = 100_000, (2, 4, 8, 16)
CLUSTER_ROWS, N_PARTITIONS, WORKERS = (8_000, 4_000_000), 4, (1, 2, 4)
FIT_ROWS = 10_000_000
SAMPLE_ROWS = 1_250_000  # of two groups, which the driver of a cluster gathers and solves first
NAMES = {"scores": "score", "group_proba": ["a", "b"]}
Found = dict[str, Any]


def make_problem(n_rows: int, n_groups: int) -> tuple[DualProblem, np.ndarray]:
    scores, proba = support.population_rows(n_rows, n_groups)
    problem = support.make_problem(scores, proba, "cdf", 0.05, BETA, N_ATOMS)
    return problem, 0.01 * np.random.default_rng(0).normal(size=problem.multipliers_shape)


def measure_kernel() -> Found:
    """Nanoseconds per row and atom of one evaluation, on one thread and on two, for each K."""
    before, found = get_num_threads(), {}
    for n_groups in GROUPS_TRIED:
        problem, point = make_problem(KERNEL_ROWS, n_groups)

        def on_threads(n_threads: int, problem: DualProblem = problem, point: np.ndarray = point) -> None:
            set_num_threads(n_threads)
            evaluate(problem, point)

        tries = {"1": lambda: on_threads(1), "2": lambda: on_threads(2)}
        times = support.smallest_times(tries, rounds=2 * ROUNDS)
        found[str(n_groups)] = {name: 1e9 * value / (KERNEL_ROWS * N_ATOMS) for name, value in times.items()}
    set_num_threads(before)
    return found


def measure_sample() -> Found:
    """Seconds of the sample that is solved on the driver, two groups, on this machine's threads."""
    problem, _ = make_problem(SAMPLE_ROWS, 2)
    begin = perf_counter()
    run(Auto(), problem)
    return {"rows": SAMPLE_ROWS, "seconds": perf_counter() - begin}


def make_part(number: int, n_rows: int) -> pd.DataFrame:
    """Rows of one partition, made where they are."""
    people = make_population(n_rows, 2, random_state=number)
    a, b = people.group_proba.T
    return pd.DataFrame({"score": people.scores, "a": a, "b": b})


@contextmanager
def on_dask(n_workers: int) -> Iterator[Callable[[int], Any]]:
    """A function that gives a frame of so many rows on a local cluster."""
    import dask.dataframe as dd
    import distributed

    os.environ["EVENHAND_NUM_THREADS"] = "1"  # of the workers, which inherit it
    settings = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(processes=True, **settings) as local, distributed.Client(local):
        yield lambda n_rows: dd.from_map(
            make_part, range(N_PARTITIONS), n_rows=n_rows // N_PARTITIONS, meta=make_part(0, 10)[:0]
        )


@contextmanager
def on_spark(n_workers: int) -> Iterator[Callable[[int], Any]]:
    """The same on a local cluster of executors."""
    import pyspark
    from pyspark.sql import SparkSession

    root = Path(__file__).resolve().parents[1]
    os.environ["SPARK_HOME"], os.environ["PYSPARK_PYTHON"] = (
        str(Path(pyspark.__file__).parent),
        sys.executable,
    )
    session = (
        SparkSession.builder.master(f"local-cluster[{n_workers},1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.executorEnv.PYTHONPATH", f"{root}/src{os.pathsep}{root}")
        .config("spark.executorEnv.EVENHAND_NUM_THREADS", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")

    def frame(n_rows: int) -> Any:
        def make(batches: Any) -> Any:
            import pyarrow as pa
            from pyspark import TaskContext

            for _ in batches:
                pass
            part = make_part(TaskContext.get().partitionId(), n_rows // N_PARTITIONS)
            yield from pa.Table.from_pandas(part, preserve_index=False).to_batches()

        numbers = session.range(0, N_PARTITIONS, numPartitions=N_PARTITIONS)
        return numbers.mapInArrow(make, "score double, a double, b double")

    try:
        yield frame
    finally:
        session.stop()


def measure_cluster(cluster: Callable[[int], Any]) -> Found:
    """Seconds of a pass over few rows and over many, on each number of workers."""
    found: Found = {}
    _, point = make_problem(1000, 2)
    grid_step = ParityPostprocessor(atoms=N_ATOMS, beta=BETA, bounds=(-1.5, 1.5))
    for n_workers in WORKERS:
        with cluster(n_workers) as frame:
            found[str(n_workers)] = {
                str(n_rows): seconds_of_pass(frame(n_rows), grid_step, point) for n_rows in CLUSTER_ROWS
            }
    return found


def seconds_of_pass(frame: Any, model: ParityPostprocessor, point: np.ndarray) -> float:
    """The smallest time of a few evaluations, after two that warm the workers up."""
    reader = make_reader(model, **NAMES)
    with open_partitions(reader, frame, None) as table:
        sample = table.sample_rows(min(table.n_rows, 2000))
        step = model._plan(sample, model._solver())
        with table.rows(step, sample) as rows:
            problem, times = step.problem(rows), []
            for shift in range(2 + ROUNDS):
                begin = perf_counter()
                evaluate(problem, point * (1.0 + 0.01 * shift))  # another point: the last one is remembered
                times.append(perf_counter() - begin)
    return min(times[2:])


def show_fit(name: str, cluster: Callable[[int], Any]) -> None:
    """A whole fit on two workers, with making the rows, reading and scoring them."""
    with cluster(2) as frame:
        rows, step = frame(FIT_ROWS), ParityPostprocessor(epsilon=0.05, atoms=N_ATOMS)
        begin = perf_counter()
        fit_table(step, rows, **NAMES)
    told = f"{perf_counter() - begin:.1f} s, {step.n_passes_} passes with scoring and sample"
    print(f"{name}, a whole fit of {FIT_ROWS} rows on two workers: {told}")


def show_kernel(found: Found) -> None:
    rows = [
        [
            f"K = {groups}",
            f"{each['1']:.2f}",
            f"{each['2']:.2f}",
            f"{1.0 / each['1']:.2f}",
            f"{1.0 / each['2']:.2f}",
        ]
        for groups, each in found.items()
    ]
    head = ["ns per row x atom", "one core", "two cores", "10^9 row x atoms/s, one core", "two"]
    support.show_table(head, rows)


def show_cluster(name: str, found: Found) -> None:
    few, many = CLUSTER_ROWS
    rows = []
    for n_workers, each in found.items():
        slope = (each[str(many)] - each[str(few)]) / (many - few) / N_ATOMS
        rows.append([n_workers, f"{each[str(few)]:.3f}", f"{each[str(many)]:.2f}", f"{1e9 * slope:.2f}"])
    support.show_table(
        [f"{name}, workers", "overhead, s", f"pass of {many} rows, s", "ns per row x atom"], rows
    )


def main(folder: str | None = None) -> None:
    """Measure what is installed, print it, and keep it where asked."""
    clusters = [
        (name, cluster)
        for name, module, cluster in (("dask", "distributed", on_dask), ("spark", "pyspark", on_spark))
        if importlib.util.find_spec(module) is not None
    ]
    found: Found = {}
    for name, cluster in clusters:
        found[name] = measure_cluster(cluster)
        show_cluster(name, found[name])
        show_fit(name, cluster)
    if not clusters:
        print("Neither Dask nor Spark is here: make test-dask and make test-spark prepare environments.")
    found["kernel"] = measure_kernel()
    show_kernel(found["kernel"])
    found["sample"] = measure_sample()
    print(f"{SAMPLE_ROWS} rows of two groups, solved on the driver: {found['sample']['seconds']:.1f} s")
    if folder is not None:
        for name, values in found.items():
            path = Path(folder) / f"capacity-{name}.json"
            path.write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
