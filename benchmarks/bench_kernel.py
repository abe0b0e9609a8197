"""The gradient kernel against the same loops in C, two threads against one, float64 against float32.

One thread, n = 200 000 rows, m = 201 atoms, two groups, unless a line says otherwise. The timings are
interleaved and each is the smallest of several rounds, since other work may share the machine.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks import _support as support
from evenhand._kernels import reference, softmax
from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand.dual.objective import evaluate, policy_loadings
from evenhand.dual.problem import DualProblem

N_ROWS, N_ATOMS, ROUNDS = 200_000, 201, 40
Runs = dict[str, Callable[[], object]]
SOURCE = Path(__file__).with_name("kernel_twin.c")
FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]


def make_problem() -> tuple[DualProblem, np.ndarray]:
    """Two groups whose scores differ, and multipliers of a plausible size."""
    rng = np.random.default_rng(0)
    lean = rng.normal(size=N_ROWS)
    first = 1.0 / (1.0 + np.exp(-1.5 * lean))
    scores = 0.4 * np.tanh(lean) + 0.2 * rng.normal(size=N_ROWS)
    proba = np.column_stack([first, 1.0 - first])
    problem = support.make_problem(scores, proba, "cdf", 0.05, 1000.0, N_ATOMS)
    return problem, 0.01 * rng.normal(size=problem.multipliers_shape)


def build_twin(folder: Path, dtype: type) -> Callable[..., tuple[float, np.ndarray]] | None:
    """`moments` of the C twin, or None where there is no gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / f"twin_{dtype.__name__}.so"
    single = ["-DSINGLE"] if dtype is np.float32 else []
    subprocess.run([compiler, *FLAGS, *single, str(SOURCE), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).moments
    array = np.ctypeslib.ndpointer(dtype, flags="C_CONTIGUOUS")
    function.argtypes = [*[array] * 4, *[ctypes.c_long] * 6, np.ctypeslib.ndpointer(np.float64)]
    function.restype = ctypes.c_double

    def moments(design, weights, loadings, offset, n_moments, start, stop):
        out = np.zeros((n_moments, len(offset)))
        n_features, n_rows = design.shape
        sizes = n_rows, n_features, len(offset), n_moments, start, stop
        return function(design, weights, loadings, offset, *sizes, out), out

    return moments


def smallest_times(runs: Runs, rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each run: the smallest of interleaved rounds, after one to warm up."""
    best = dict.fromkeys(runs, np.inf)
    for round_ in range(rounds + 1):
        for name, run in runs.items():
            begin = perf_counter()
            run()
            if round_ > 0:
                best[name] = min(best[name], perf_counter() - begin)
    return best


def kernel_runs(problem: DualProblem, multipliers: np.ndarray, folder: Path) -> Runs:
    """Ours and C's in both precisions on the same arrays, after checking that they agree."""
    arrays = problem.rows.design, problem.rows.weights, *policy_loadings(problem, multipliers)
    runs: Runs = {}
    for dtype in (np.float32, np.float64):
        cast = [np.ascontiguousarray(array, dtype) for array in arrays]
        arguments = *cast, problem.n_kept, 0, problem.n_rows
        runs[f"ours {dtype.__name__}"] = lambda arguments=arguments: softmax.moments(*arguments)
        twin = build_twin(folder, dtype)
        if twin is None:
            continue
        ours, theirs = softmax.moments(*arguments), twin(*arguments)
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-5)
        runs[f"C {dtype.__name__}"] = lambda twin=twin, arguments=arguments: twin(*arguments)
    return runs


def thread_runs(problem: DualProblem, multipliers: np.ndarray) -> Runs:
    """A whole evaluation of the dual, float64, on one and on two threads."""

    def run(n_threads: int) -> None:
        set_num_threads(n_threads)
        evaluate(problem, multipliers)

    return {"evaluate, 1 thread": lambda: run(1), "evaluate, 2 threads": lambda: run(2)}


def numpy_time(problem: DualProblem, multipliers: np.ndarray) -> float:
    """Seconds per (row x atom) of the NumPy twin."""
    arguments = (
        problem.rows.design,
        problem.rows.weights,
        *policy_loadings(problem, multipliers),
        problem.n_kept,
    )
    times = smallest_times({"NumPy": lambda: reference.moments(*arguments, 0, N_ROWS)}, rounds=2)
    return times["NumPy"] / (N_ROWS * N_ATOMS)


def print_ratios(times: dict[str, float]) -> None:
    print()
    for dtype in ("float32", "float64"):
        if f"C {dtype}" in times:
            ratio = times[f"ours {dtype}"] / times[f"C {dtype}"]
            print(f"ours / C, {dtype:<19} {ratio:6.2f}   (must be at most 2)")
    if not any(name.startswith("C ") for name in times):
        print("gcc is not here: no comparison with C")
    speedup = times["evaluate, 1 thread"] / times["evaluate, 2 threads"]
    print(f"two threads over one          {speedup:6.2f}   (must be at least 1.5)")
    print(f"float64 over float32, ours    {times['ours float64'] / times['ours float32']:6.2f}")
    print(f"NumPy over ours, float64      {times['NumPy float64'] / times['ours float64']:6.1f}")


def main() -> None:
    """Print nanoseconds per (row x atom) and the ratios that matter."""
    problem, multipliers = make_problem()
    before = get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        runs = kernel_runs(problem, multipliers, Path(folder)) | thread_runs(problem, multipliers)
        seconds = smallest_times(runs)
    set_num_threads(before)
    times = {name: value / (N_ROWS * N_ATOMS) for name, value in seconds.items()}
    times["NumPy float64"] = numpy_time(problem, multipliers)
    print(f"gradient kernel, n = {N_ROWS}, m = {N_ATOMS}, K = 2, one thread: ns per (row x atom)")
    for name, value in times.items():
        print(f"  {name:<22} {1e9 * value:8.3f}")
    print_ratios(times)


if __name__ == "__main__":
    main()
