"""What the benchmarks share: times, peak memory, the paper's rows, and populations with known tau.

Times are compared within one run only: the runs are interleaved and each counts with its smallest time,
since other work may share the machine.
"""

import ctypes
import gc
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from evenhand import datasets
from evenhand._utils.validation import Rows
from evenhand.dual.costs import Squared
from evenhand.dual.grid import automatic_bounds, automatic_n_atoms, uniform_grid
from evenhand.dual.problem import DualProblem
from evenhand.dual.step import ParityStep
from evenhand.estimators.scorer import Scorer
from evenhand.estimators.step_fit import Evidence

LOADERS: dict[str, Callable[[], Bunch]] = {
    "law school": datasets.load_law_school,
    "communities": datasets.load_communities,
    "adult": datasets.load_adult,
}
MEGABYTE = 2.0**20
CHUNK = 2048  # rows of a NumPy chunk: of 256 to 65 536 the fastest at 201 atoms, with its neighbours


@dataclass(frozen=True, eq=False)
class PaperRows:
    """The unlabelled rows of one of the paper's splits, on the scale where the scores span [-1, 1]."""

    scores: np.ndarray  # eta, (n,)
    group_proba: np.ndarray  # tau, (n, 2)
    targets: np.ndarray  # y, (n,), for the risk that counts the noise; no fit sees them


@cache
def load(name: str) -> Bunch:
    return LOADERS[name]()


def paper_rows(name: str, seed: int) -> PaperRows:
    """Fit the base models on 40 % of the rows, and apply them to another 40 %."""
    bunch = load(name)
    labeled, unlabeled, _ = datasets.paper_split(bunch, random_state=seed)
    features, targets, groups = bunch.data, bunch.target, bunch.sensitive_features
    regressor = LinearRegression().fit(features[labeled], targets[labeled])
    classifier = make_pipeline(StandardScaler(), LogisticRegression())
    classifier.fit(features[labeled], groups[labeled])
    scores = regressor.predict(features[unlabeled])
    support = uniform_grid(*automatic_bounds(scores), 2)
    proba = classifier.predict_proba(features[unlabeled])
    return PaperRows(support.scale(scores), proba, support.scale(targets[unlabeled]))


def population_rows(n_rows: int, n_groups: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores in [-1, 1] and the true group probabilities of a synthetic population."""
    population = datasets.make_population(n_rows, n_groups, random_state=seed)
    return population.scores, population.group_proba


class Learned(NamedTuple):
    """What a fit has before the parity step."""

    scorer: Scorer
    rows: Rows
    evidence: Evidence


def learn(model: Any, X: Any, y: Any, sensitive_features: Any) -> Learned:
    """What `model.fit` has before the parity step: the fitted models, and the rows that they scored.

    `fit_step(model._plan(learned.scorer.strata), learned.rows, learned.evidence)` is the rest of it.
    """
    data = model._read(X, y, sensitive_features, None, None)
    return Learned(*model._learn(model._check(data, model._plan(data.strata), X, (None, None), None)))


def make_problem(
    scores: np.ndarray,
    group_proba: np.ndarray,
    parity: str,
    epsilon: float,
    beta: float,
    n_atoms: int | None = None,
) -> DualProblem:
    """The problem that `ParityPostprocessor.fit` builds from rows whose scores span [-1, 1]."""
    rows = Rows(np.clip(scores, -1.0, 1.0), group_proba, tuple(range(group_proba.shape[1])), None)
    step = ParityStep(
        grid=uniform_grid(-1.0, 1.0, n_atoms or automatic_n_atoms(len(scores))),
        parity=parity,
        cost=Squared(),
        group_prior=rows.group_mass(),
        strata=None,
        epsilon=np.full(group_proba.shape[1], float(epsilon)),
        beta=float(beta),
    )
    return step.problem(rows)


def chunks(n_rows: int) -> Iterable[slice]:
    return (slice(start, min(start + CHUNK, n_rows)) for start in range(0, n_rows, CHUNK))


def numpy_policy(features: np.ndarray, loadings: np.ndarray, offset: np.ndarray) -> tuple[Any, Any]:
    """Policy (rows, atoms) and log-sum-exp (rows,) of plain NumPy: one BLAS product, then in place."""
    logits = features @ loadings
    logits += offset
    top = logits.max(axis=1, keepdims=True)
    logits -= top
    np.exp(logits, out=logits)
    total = logits.sum(axis=1, keepdims=True)
    logits /= total
    return logits, (np.log(total) + top)[:, 0]


def numpy_evaluate(problem: DualProblem, multipliers: np.ndarray) -> tuple[float, np.ndarray]:
    """Value of the dual and gradient of its smooth part, in plain NumPy: `dual.objective.evaluate`."""
    beta, n_kept = problem.temperature, problem.n_kept
    tilt = problem.parity.operator.adjoint(multipliers) @ problem.mixing.T
    loadings = beta * np.concatenate([tilt, problem.cost.loadings], axis=1).T
    value = float(problem.slack @ problem.parity.norm.dual(multipliers))
    moment = np.zeros((problem.n_atoms, n_kept))
    for rows in chunks(problem.n_rows):
        features, weights = problem.rows.design[:, rows].T, problem.rows.weights[rows]
        policy, log_sums = numpy_policy(features, loadings, beta * problem.cost.offset)
        value += float(weights @ (log_sums / beta - problem.rows.constant[rows]))
        moment += policy.T @ (weights[:, None] * features[:, :n_kept])
    return value, problem.parity.operator.apply(moment @ problem.mixing)


def smallest_times(
    runs: Mapping[str, Callable[[], object]], rounds: int = 5, *, warm_up: bool = True
) -> dict[str, float]:
    """Seconds of each run: the smallest of interleaved rounds."""
    best = dict.fromkeys(runs, np.inf)
    for round_ in range(-1 if warm_up else 0, rounds):
        for name, run in runs.items():
            begin = perf_counter()
            run()
            if round_ >= 0:
                best[name] = min(best[name], perf_counter() - begin)
    return best


def verdict(passed: bool) -> str:
    return "PASS" if passed else "FAIL"


def show_table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print aligned columns, the first to the left."""
    cells = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for first, *rest in cells:
        numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  " + "  ".join([first.ljust(widths[0]), *numbers]).rstrip())


def peak_growth(prepare: Callable[..., Any], act: Callable[[Any], object], *arguments: Any) -> float:
    """Megabytes by which `act(prepare(*arguments))` grows a fresh process beyond what `prepare` left.

    What `act` returns counts. Both functions must be importable by name.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_growth, prepare, act, arguments).result()


def _growth(prepare: Callable[..., Any], act: Callable[[Any], object], arguments: tuple[Any, ...]) -> float:
    state = prepare(*arguments)
    _return_freed_memory()
    before = _restart_peak()
    kept = act(state)
    growth = peak() - before
    del kept
    return growth / MEGABYTE


def _return_freed_memory() -> None:
    """Give back what `prepare` freed: reused by `act`, it would hide in the size before."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _restart_peak() -> float:
    """Make the peak that the kernel keeps the present size, where it allows that; bytes."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # the peak of `prepare` stands: the growth is then a lower bound
        print("  (the peak of this system cannot be restarted: growth is beyond the peak of the input)")
    return peak()


def peak() -> float:
    """Most bytes of this process since the restart; `ru_maxrss` would start at the parent's on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024.0 * int(line.split()[1])
    import resource  # which Windows does not have

    unit = 1.0 if sys.platform == "darwin" else 1024.0
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def python_seconds(code: str, environment: Mapping[str, str] | None = None) -> float:
    """What `code`, run in a fresh interpreter, prints on its last line, as a number."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.split()[-1])


def extract(root: Path, commit: str, folder: Path) -> Path:
    """The package of an earlier commit, in a folder of its own."""
    asked = ["git", "-C", str(root), "archive", commit, "src", "pyproject.toml"]
    archive = subprocess.run(asked, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder
