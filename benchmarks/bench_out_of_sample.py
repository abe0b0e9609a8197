"""How often epsilon is kept on new data: the distance on 200,000 fresh rows with known group probabilities.

There are three populations with eight features. In "right" the linear models are correct, in "wrong" they
are mildly misspecified, and "five" has five groups, one of them with 5% of the rows. Each fit is run for
several tolerances, on average (the default) and with confidence 0.9. A cell shows the mean of
`distance / epsilon` over the fits without a warning and the percentage of these fits that exceed epsilon; in
brackets the percentage of all fits that warn. The last column compares the risk, epsilon by epsilon, with a
frontier of fits on the rows alone (`confidence=None, calibration=None`) at the same distance on fresh rows,
where that frontier reaches it.

    python -m benchmarks.bench_out_of_sample --models linear boosted --sizes 300 1000 --fits 20

The full run takes some hours on two cores. `python -m benchmarks out_of_sample` is a short run, with times.
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

from benchmarks._support import Learned, learn
from evenhand import ParityClassifier, ParityRegressor
from evenhand.estimators.step_fit import FittedStep, fit_step
from evenhand.exceptions import ToleranceWarning
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership

EPSILONS = (0.02, 0.05, 0.1)
CONFIDENCES = ("average", 0.9)
FRONTIER = (0.001, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15)
N_FRESH = 200_000
N_ON_ROWS = 8  # fits that are compared with fits on the rows alone
ON_ROWS = "on rows"  # in place of a confidence: epsilon holds on the rows of the fit, without joint maps
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
    """Rows with their true means and group probabilities."""

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
    """The tolerance of one fit, and the distance and risk of its policy on fresh rows."""

    cell: tuple  # what was fitted: population, models, rows, notion
    epsilon: float
    confidence: Any  # or `ON_ROWS`
    distance: float
    warned: bool
    risk: float


def fit_once(kind: str, name: str, n_rows: int, notion: str, seed: int) -> list[Fit]:
    """All tolerances for new data with the same models, and for a few seeds those on the rows alone."""
    sample, fresh = draw(kind, n_rows, seed + 1), draw(kind, N_FRESH, 1_000_000)
    model, target, fresh_target = _model(notion, name, sample, fresh)
    cell = (kind, name, n_rows, notion)
    ways = [({"confidence": "average"}, [(confidence, EPSILONS) for confidence in CONFIDENCES])]
    if seed < N_ON_ROWS:
        ways.append(({"confidence": None, "calibration": None}, [(ON_ROWS, FRONTIER)]))
    found = []
    for settings, wanted in ways:
        model.set_params(**settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learned = learn(model, sample.features, target, sample.groups)
        scored, unit = _fresh_rows(model, learned, fresh, fresh_target)
        for confidence, epsilons in wanted:
            for epsilon in epsilons:
                level = None if confidence == ON_ROWS else confidence
                model.set_params(epsilon=epsilon * unit, confidence=level)
                step, warned = _solve(model, learned)
                measures = scored.measure(step.policy)
                distance = measures.largest(_metric(notion)) / unit
                found.append(Fit(cell, epsilon, confidence, distance, warned, measures.risk))
    return found


def _solve(model: Any, learned: Learned) -> tuple[FittedStep, bool]:
    """The parity step, and whether it warned that epsilon is out of reach."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step = fit_step(model._plan(learned.scorer.strata), learned.rows, learned.evidence)
    return step, any(issubclass(each.category, ToleranceWarning) for each in caught)


def _model(notion: str, name: str, sample: Sample, fresh: Sample) -> tuple[Any, np.ndarray, np.ndarray]:
    if notion in ("demographic_parity", "equalized_odds"):
        model = ParityClassifier(*models(name, True), criterion=notion, min_group_size=5)
        return model, (sample.target > 0.2).astype(int), (fresh.target > 0.2).astype(int)
    return ParityRegressor(*models(name), parity=notion, min_group_size=5), sample.target, fresh.target


def _metric(notion: str) -> str:
    return {"cdf": "ks", "demographic_parity": "sup", "equalized_odds": "sup"}.get(notion, notion)


def _fresh_rows(model: Any, learned: Learned, fresh: Sample, target: np.ndarray) -> tuple[ScoredRows, float]:
    """Fresh rows as the fitted models score them, weighted by the true probabilities of their groups.

    Distances in units of the outcome are measured in its standard deviations.
    """
    strata = learned.scorer.strata
    classes, rows = strata.classes, learned.scorer.score(fresh.features)
    shares = fresh.group_proba
    if strata.outcomes is not None:  # given the outcome, the group depends on the features alone
        shares = (np.eye(len(classes))[target][:, :, None] * shares[:, None, :]).reshape(len(target), -1)
    members = Membership.of_proba(strata.labels(), shares, None, strata.codes())
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
        print(f"\nconfidence = {confidence!r}: distance / epsilon without a warning (exceeded) [warned]")
        head = "".join(f"{f'epsilon {epsilon}':>26}" for epsilon in EPSILONS)
        print(f"{'population, models, rows, notion':<46}{head}   risk / risk on rows")
        for cell in dict.fromkeys(fit.cell for fit in found):
            of_cell = [fit for fit in found if fit.cell == cell and fit.confidence == confidence]
            columns = [_column([fit for fit in of_cell if fit.epsilon == epsilon]) for epsilon in EPSILONS]
            print(f"{', '.join(map(str, cell)):<46}{''.join(columns)}   {_risk_ratio(found, cell, of_cell)}")
        print(_together([fit for fit in found if fit.confidence == confidence]), flush=True)


def _together(found: list[Fit]) -> str:
    """Totals over all cells: where nearly all fits of a cell warn, the few others are a matter of noise."""
    kept = [fit for fit in found if not fit.warned]
    beyond = [fit for fit in kept if fit.distance > fit.epsilon]
    share = f" ({len(beyond) / len(kept):.1%})" if kept else ""
    return f"{len(found)} fits, {len(kept)} without a warning; {len(beyond)} of these exceed epsilon{share}"


def _risk_ratio(found: list[Fit], cell: tuple, of_cell: list[Fit]) -> str:
    """Mean risk divided by the risk of the frontier on rows at the same mean distance, for each epsilon.

    The standard error is the jackknife's over the fits, since both risks are of the same samples.
    """
    on_rows = _by_fit([fit for fit in found if (fit.cell, fit.confidence) == (cell, ON_ROWS)], FRONTIER)
    for_new = _by_fit(of_cell, EPSILONS)[:, : on_rows.shape[1]]
    if not on_rows.size:
        return ""
    whole, n_fits = _ratios(for_new, on_rows), on_rows.shape[1]
    without = np.array([_ratios(np.delete(for_new, k, 1), np.delete(on_rows, k, 1)) for k in range(n_fits)])
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


def _ratios(for_new: np.ndarray, on_rows: np.ndarray) -> np.ndarray:
    """Ratio of the risks for each epsilon; NaN where the frontier on rows does not reach the distance."""
    curve = on_rows.mean(axis=1)
    distances, risks = for_new.mean(axis=1).T
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
    """Time of a fit for new data, compared with a fit whose epsilon holds on its rows alone.

    The mean over several samples, since the search tries between one and eight tolerances. The two kinds of
    fit alternate; each sample is fitted twice and the smaller time counts.
    """
    for name, n_rows, n_samples in (("linear", 3000, 20), ("boosted", 3000, 5), ("linear", 1_000_000, 2)):
        seconds: dict[Any, list[float]] = {None: [], "average": []}
        for seed in range(n_samples):
            sample = draw("right", n_rows, seed)
            for confidence, taken in seconds.items():
                taken.append(min(_seconds(name, confidence, sample) for _ in range(2)))
        before, now = (float(np.mean(taken)) for taken in seconds.values())
        print(
            f"fit of {n_rows:,} rows, {name}: {before:.3f} s for its rows, {now:.3f} s for new data,"
            f" ratio {now / before:.2f}",
            flush=True,
        )


def _seconds(name: str, confidence: Any, sample: Sample) -> float:
    model = ParityRegressor(*models(name), confidence=confidence)
    start = perf_counter()
    with warnings.catch_warnings():  # an epsilon out of reach takes no less time
        warnings.simplefilter("ignore", ToleranceWarning)
        model.fit(sample.features, sample.target, sensitive_features=sample.groups)
    return perf_counter() - start


def main() -> None:
    """A short run, as part of `python -m benchmarks`."""
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
    """The fits of the last finished cell."""
    return [fit for fit in found if fit.cell == last[0].cell]


if __name__ == "__main__":
    run(None)
