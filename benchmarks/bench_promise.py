"""What is asked for and what new people get: the distance on 200 000 fresh rows of known group probabilities.

Three populations of eight features: one where the linear models are right, one where they are mildly wrong,
one of five groups, of which one has 5 % of the rows. Each fit is asked for several tolerances, on average
(the default) and with confidence 0.9. A cell is `mean distance / epsilon`, of the fits without a warning, and
the share of these beyond epsilon; in brackets the share of the fits that warn. The risk is compared, epsilon
by epsilon, with the frontier of what the library did before (epsilon on the rows of the fit, no joint
calibration) at the same fresh distance, where that reaches it.

    python -m benchmarks.bench_promise --models linear boosted --sizes 300 1000 --fits 20

The full run takes some hours on two cores; `python -m benchmarks promise` is a short one, with times.
"""

import argparse
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from evenhand import ParityClassifier, ParityRegressor
from evenhand.exceptions import PromiseWarning
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership

EPSILONS = (0.02, 0.05, 0.1)
CONFIDENCES = ("average", 0.9)
FRONTIER = (0.001, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15)
N_FRESH = 200_000
N_TODAY = 8  # fits that are compared with what was before
NOISE = 0.6  # spread of the outcome around its mean
OUTCOME = np.array([0.45, -0.3, 0.25, 0.15, 0.0, 0.0, 0.1, 0.0])
GROUP = np.array([0.9, -0.6, 0.4, 0.0, 0.4, -0.25, 0.0, 0.15])
FIVE = np.array(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.5, 0.2, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0],
        [-0.3, 0.5, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0],
        [0.4, -0.4, 0.2, 0.0, 0.0, 0.0, 0.3, 0.0],
        [0.7, 0.0, 0.4, 0.0, -0.3, 0.0, 0.0, 0.2],
    ]
)
FIVE_OFFSETS = np.array([0.9, 0.3, 0.2, 0.1, -1.3])


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows, and the truth about them."""

    features: np.ndarray
    target: np.ndarray
    groups: np.ndarray
    mean: np.ndarray  # E[Y | X]
    group_proba: np.ndarray  # P(S | X)


def draw(kind: str, n_rows: int, seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, 8))
    mean = features @ OUTCOME
    if kind == "five":
        logits = features @ FIVE.T + FIVE_OFFSETS
    else:
        logit = features @ GROUP - 0.6
        if kind == "wrong":
            first, second, fifth = features[:, 0], features[:, 1], features[:, 4]
            mean = mean + 0.35 * first * second + 0.3 * np.sin(2.0 * fifth)
            logit = 1.1 * features @ GROUP + 0.4 * first**2 - 0.4 * second * fifth - 0.9
        logits = np.column_stack([np.zeros(n_rows), logit])
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    target = mean + NOISE * rng.normal(size=n_rows)
    groups = (proba.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1)
    return Sample(features, target, np.minimum(groups, proba.shape[1] - 1), mean, proba)


def models(name: str, classifies: bool = False) -> tuple[Any, Any]:
    if name == "linear":
        return None, None
    if name == "boosted":
        first = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
        return first(random_state=0), HistGradientBoostingClassifier(random_state=0)
    forest: dict[str, Any] = {"n_estimators": 50, "min_samples_leaf": 5, "random_state": 0}
    first = RandomForestClassifier if classifies else RandomForestRegressor
    return first(**forest), RandomForestClassifier(**forest)


@dataclass(frozen=True)
class Fit:
    """What one fit was asked for, and what fresh rows show."""

    cell: tuple  # what was fitted: population, models, rows, notion
    epsilon: float
    confidence: Any  # "today": epsilon on the rows of the fit, and no joint calibration
    distance: float
    warned: bool
    risk: float


def fit_once(kind: str, name: str, n_rows: int, notion: str, seed: int) -> list[Fit]:
    """All tolerances on the same models, for new people; of a few seeds also as it was before."""
    sample, fresh = draw(kind, n_rows, seed + 1), draw(kind, N_FRESH, 1_000_000)
    model, target, fresh_target = _model(notion, name, sample, fresh)
    cell = (kind, name, n_rows, notion)
    asked = [("average", EPSILONS), (0.9, EPSILONS)]
    ways = [({"confidence": "average"}, asked)]
    if seed < N_TODAY:
        ways.append(({"confidence": None, "calibration": None}, [("today", FRONTIER)]))
    found = []
    for settings, wanted in ways:
        model.set_params(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learned = model._learn(sample.features, target, sample.groups)
        scored, unit = _fresh_rows(model, learned, fresh, fresh_target)
        for confidence, epsilons in wanted:
            for epsilon in epsilons:
                level = None if confidence == "today" else confidence
                model.set_params(epsilon=epsilon * unit, confidence=level)
                step, warned = _solve(model, learned)
                measures = scored.measure(step.policy_)
                distance = measures.largest(_metric(notion)) / unit
                found.append(Fit(cell, epsilon, confidence, distance, warned, measures.risk))
    return found


def _solve(model, learned) -> tuple[Any, bool]:
    """The parity step, and whether it warned that its promise is not kept."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = model._postprocessor(learned.cells)._fit_rows(learned.rows, folds=learned.folds)
    return step, any(issubclass(each.category, PromiseWarning) for each in caught)


def _model(notion: str, name: str, sample: Sample, fresh: Sample) -> tuple[Any, np.ndarray, np.ndarray]:
    if notion in ("demographic_parity", "equalized_odds"):
        model = ParityClassifier(*models(name, True), criterion=notion, min_group_size=5)
        return model, (sample.target > 0.2).astype(int), (fresh.target > 0.2).astype(int)
    return ParityRegressor(*models(name), parity=notion, min_group_size=5), sample.target, fresh.target


def _metric(notion: str) -> str:
    return {"cdf": "ks", "demographic_parity": "sup", "equalized_odds": "sup"}.get(notion, notion)


def _fresh_rows(model, learned, fresh: Sample, target: np.ndarray) -> tuple[ScoredRows, float]:
    """Fresh rows as the fitted models score them, weighted by the true probabilities of their groups.

    Distances in units of the outcome are measured in its standard deviations.
    """
    cells, classes = learned.cells, learned.cells.classes
    raw = model._raw_rows(learned.models, fresh.features, cells, None)
    rows = raw.scored(learned.models, cells)
    shares = fresh.group_proba
    if cells.outcomes is not None:  # given the outcome, the group depends on the features alone
        shares = (np.eye(len(classes))[target][:, :, None] * shares[:, None, :]).reshape(len(target), -1)
    members = Membership.of_proba(cells.labels(), shares, None, cells.strata())
    truth = target.astype(float) if classes is None else np.eye(len(classes))[target]
    unit = float(fresh.target.std()) if model.parity in ("mean", "w1") else 1.0
    return ScoredRows(rows.scores, rows.group_proba, members, truth), unit


def _run(task: tuple) -> list[Fit]:
    return fit_once(*task)


def fits(tasks: list[tuple], n_workers: int) -> Iterator[list[Fit]]:
    if n_workers == 1:
        yield from map(_run, tasks)
        return
    with ProcessPoolExecutor(n_workers) as pool:
        yield from pool.map(_run, tasks)


def report(found: list[Fit]) -> None:
    """One line for each of what was fitted: a column for each epsilon and confidence."""
    for confidence in CONFIDENCES:
        print(f"\nconfidence = {confidence!r}: distance / epsilon without a warning (beyond it) [warned]")
        head = "".join(f"{f'epsilon {epsilon}':>26}" for epsilon in EPSILONS)
        print(f"{'population, models, rows, notion':<46}{head}   risk / today's")
        for cell in dict.fromkeys(fit.cell for fit in found):
            of_cell = [fit for fit in found if fit.cell == cell and fit.confidence == confidence]
            columns = [_column([fit for fit in of_cell if fit.epsilon == epsilon]) for epsilon in EPSILONS]
            print(f"{', '.join(map(str, cell)):<46}{''.join(columns)}   {_risk_ratio(found, cell, of_cell)}")
        print(_together([fit for fit in found if fit.confidence == confidence]), flush=True)


def _together(found: list[Fit]) -> str:
    """Of all fits: in a single cell in which nearly all warn, chance decides which do not."""
    kept = [fit for fit in found if not fit.warned]
    beyond = [fit for fit in kept if fit.distance > fit.epsilon]
    share = f" ({len(beyond) / len(kept):.1%})" if kept else ""
    return (
        f"of {len(kept)} fits without a warning, among {len(found)}, {len(beyond)} are beyond epsilon{share}"
    )


def _risk_ratio(found: list[Fit], cell: tuple, of_cell: list[Fit]) -> str:
    """Mean risk over that of today's mean frontier at the same mean distance, for each epsilon.

    With its standard error, the jackknife's over the fits: both are of the same samples.
    """
    today = _by_fit([fit for fit in found if (fit.cell, fit.confidence) == (cell, "today")], FRONTIER)
    now = _by_fit(of_cell, EPSILONS)[:, : today.shape[1]]
    if not today.size:
        return ""
    whole, n_fits = _ratios(now, today), today.shape[1]
    without = np.array([_ratios(np.delete(now, k, 1), np.delete(today, k, 1)) for k in range(n_fits)])
    errors = np.sqrt((n_fits - 1) * without.var(axis=0))
    return " ".join(
        "      -      " if np.isnan(ratio) else f"{ratio:.3f}+-{error:.3f} "
        for ratio, error in zip(whole, errors, strict=True)
    )


def _by_fit(fits: list[Fit], epsilons: tuple[float, ...]) -> np.ndarray:
    """Distance and risk of each fit at each epsilon, (n_epsilons, n_fits, 2)."""
    return np.array(
        [[(fit.distance, fit.risk) for fit in fits if fit.epsilon == epsilon] for epsilon in epsilons]
    )


def _ratios(now: np.ndarray, today: np.ndarray) -> np.ndarray:
    """For each epsilon; nan where today's frontier does not reach the distance."""
    curve = today.mean(axis=1)
    distances, risks = now.mean(axis=1).T
    there = np.interp(distances, *curve[np.argsort(curve[:, 0])].T, left=np.nan, right=np.nan)
    return risks / there


def _column(of_cell: list[Fit]) -> str:
    kept = [fit for fit in of_cell if not fit.warned]
    warned = f"[{1 - len(kept) / len(of_cell):4.0%}]"
    if not kept:
        every = np.mean([fit.distance / fit.epsilon for fit in of_cell])
        return f"{f'({every:.2f})':>12} {'':>6} {warned:>6}"
    ratio = np.mean([fit.distance / fit.epsilon for fit in kept])
    beyond = np.mean([fit.distance > fit.epsilon for fit in kept])
    return f"{ratio:>12.2f} {f'({beyond:.0%})':>6} {warned:>6}"


def times() -> None:
    """What the promise costs beside a fit whose epsilon is for its rows, in one run, alternating.

    Over several samples, since one is settled after a single tolerance and the next one after four; each is
    fitted twice, and the quicker time counts.
    """
    for name, n_rows, n_samples in (("linear", 3000, 20), ("boosted", 3000, 5), ("linear", 1_000_000, 2)):
        seconds: dict[Any, list[float]] = {None: [], "average": []}
        for seed in range(n_samples):
            sample = draw("right", n_rows, seed)
            for confidence, taken in seconds.items():
                taken.append(min(_seconds(name, confidence, sample) for _ in range(2)))
        before, now = (float(np.mean(taken)) for taken in seconds.values())
        print(
            f"a fit of {n_rows} rows, {name}: {before:.3f} s for its rows, {now:.3f} s for new people,"
            f" ratio {now / before:.2f}",
            flush=True,
        )


def _seconds(name: str, confidence: Any, sample: Sample) -> float:
    model = ParityRegressor(*models(name), confidence=confidence)
    start = perf_counter()
    with warnings.catch_warnings():  # that a promise cannot be kept takes no less time
        warnings.simplefilter("ignore", PromiseWarning)
        model.fit(sample.features, sample.target, sensitive_features=sample.groups)
    return perf_counter() - start


def main() -> None:
    """A short run, as one benchmark among others."""
    times()
    run(["--sizes", "1000", "3000", "--models", "linear", "--fits", "5"])


def run(given: list[str] | None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--populations", nargs="+", default=["right", "wrong", "five"])
    parser.add_argument("--models", nargs="+", default=["linear", "boosted", "forest"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 1000, 3000, 10_000, 30_000])
    parser.add_argument("--notions", nargs="+", default=["cdf"])
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args(given)
    tasks = [
        (kind, name, n_rows, notion, seed)
        for name, n_rows, kind, notion in product(asked.models, asked.sizes, asked.populations, asked.notions)
        for seed in range(asked.fits)
    ]
    found = []
    for number, part in enumerate(fits(tasks, asked.workers), 1):
        found += part
        if number % asked.fits == 0:
            report(part_of(found, part))
    report(found)


def part_of(found: list[Fit], last: list[Fit]) -> list[Fit]:
    """The fits of the cell that was done last."""
    return [fit for fit in found if fit.cell == last[0].cell]


if __name__ == "__main__":
    run(None)
