"""Exact parity with many rows: `epsilon=0`, 300,000 rows, boosted trees, and where the rest comes from.

The population resembles a census table (ten features, most of them whole numbers or codes, 240 occupations)
with known P(S | X) and a known mean of the outcome. Distances are of a million fresh rows, weighted in each
group by their true probability, so that only the fit is random. There are two columns: the largest distance
of a group to all rows, which epsilon bounds, and the largest distance between two groups. All lines of a
table are of one sample.

    python -m benchmarks.bench_exact --tasks class --groups 2 --seeds 0 1 2

`python -m benchmarks exact` takes about fifteen minutes on one core.
"""

import argparse
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from benchmarks._support import Learned, learn
from evenhand import ParityClassifier, ParityRegressor
from evenhand._utils.validation import Rows
from evenhand.calibration import JointRows, joint, joint_inputs
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.objective import policy_loadings
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.rows import MemoryRows
from evenhand.estimators import fit_models
from evenhand.estimators.step_fit import Evidence, FittedStep, fit_step
from evenhand.metrics.measure import policy_blocks
from evenhand.solvers import make_solver, run

N_ROWS, N_FRESH = 300_000, 1_000_000
KINDS = 240  # of occupations
NOISE = 0.6  # spread of a number around its mean


@dataclass(frozen=True, eq=False)
class People:
    """Rows with their true scores and group probabilities."""

    features: np.ndarray
    target: np.ndarray
    groups: np.ndarray
    scores: np.ndarray  # E[Y | X], or P(Y | X) of two classes
    group_proba: np.ndarray  # P(S | X)


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of each occupation, birthplace and relation on the pay and on the group."""

    pay: np.ndarray
    group: np.ndarray
    sector: np.ndarray
    birth_group: np.ndarray
    birth_pay: np.ndarray
    relation_group: np.ndarray
    relation_pay: np.ndarray
    sector_school: np.ndarray


def effects(n_groups: int) -> Effects:
    rng = np.random.default_rng(12345)
    pay = rng.normal(0.0, 0.45, KINDS)
    group = rng.normal(0.0, 0.9, (KINDS, n_groups)) - 0.8 * pay[:, None] * np.linspace(0.0, 1.0, n_groups)
    return Effects(
        pay,
        group,
        sector=rng.integers(0, 6, KINDS),
        birth_group=rng.normal(0.0, 0.35, (60, n_groups)),
        birth_pay=rng.normal(0.0, 0.12, 60),
        relation_group=rng.normal(0.0, 0.5, (18, n_groups)),
        relation_pay=rng.normal(0.0, 0.15, 18),
        sector_school=rng.normal(0.0, 0.05, (6, n_groups)),
    )


def draw(task: str, n_rows: int, n_groups: int, seed: int) -> People:
    """Rows whose outcome is a number (`"regression"`) or one of two classes (`"class"`)."""
    known, rng = effects(n_groups), np.random.default_rng(seed)
    age = np.clip(np.round(17 + 60 * rng.beta(1.6, 2.4, n_rows)), 17, 90)
    school = np.clip(np.round(rng.normal(18 - 0.03 * (age - 40), 3.2)), 1, 24)
    other = rng.normal(size=n_rows)
    lean = expit(0.25 * (school - 17) + 1.3 * rng.normal(size=n_rows))
    job = np.minimum((KINDS * lean).astype(int), KINDS - 1)
    usual = rng.random(n_rows) < 0.45
    hours = np.where(usual, 40.0, np.clip(np.round(rng.normal(38, 12, n_rows)), 1, 99))
    married = (rng.random(n_rows) < expit((age - 30) / 8)) * rng.integers(1, 3, n_rows)
    relation = rng.integers(0, 18, n_rows)
    birth = np.minimum(rng.exponential(8.0, n_rows).astype(int), 59)
    employer = rng.integers(0, 8, n_rows)
    distance = rng.gamma(2.0, 10.0, n_rows)

    hour, years = (hours - 38) / 12, school - 17
    trend = -0.5 * hour - 0.25 * hour * np.sin(age / 9) - 0.3 * (employer < 3) * (married > 0)
    trend -= 0.2 * np.tanh(distance / 20 - 1) * other
    logits = known.group[job] + known.birth_group[birth]
    logits += known.relation_group[relation] * (1 + 0.6 * (married == 1))[:, None]
    logits += known.sector_school[known.sector[job]] * years[:, None]
    logits += trend[:, None] * np.linspace(0.0, 1.0, n_groups)
    mean = known.pay[job] + known.birth_pay[birth] + known.relation_pay[relation] + 0.1 * years
    mean += 0.45 * np.tanh((age - 30) / 10) - 0.0006 * np.maximum(age - 55, 0) ** 2
    mean += 0.35 * hour - 0.06 * hour**2 + 0.03 * hour * years + 0.2 * (married == 1) * (age > 35)
    mean += 0.1 * np.sin(distance / 8) + 0.1 * other * (employer > 4)

    columns = [age, school, job, hours, married, relation, birth, employer, distance, other]
    proba = softmax(logits, axis=1)
    groups = np.minimum((proba.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1), n_groups - 1)
    scores, target = mean, mean + NOISE * rng.normal(size=n_rows)
    if task == "class":
        chance = expit(1.8 * (mean - 0.5))
        scores = np.column_stack([1 - chance, chance])
        target = (rng.random(n_rows) < chance).astype(int)
    return People(np.column_stack(columns).astype(float), target, groups, scores, proba)


def make_model(task: str, **settings: Any) -> Any:
    """Boosted trees, with the defaults for everything else."""
    boosted = HistGradientBoostingClassifier(random_state=0)
    if task == "class":
        return ParityClassifier(boosted, boosted, epsilon=0.0, **settings)
    return ParityRegressor(HistGradientBoostingRegressor(random_state=0), boosted, epsilon=0.0, **settings)


def distances(policy: SoftmaxPolicy, rows: Rows, group_proba: np.ndarray) -> tuple[float, float]:
    """Largest distance of a group to all rows, and between two groups, of rows weighted by `group_proba`."""
    masses = np.zeros((group_proba.shape[1], len(policy.grid.atoms)))
    for some, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        masses += group_proba[some].T @ pmf
    shares = (masses / masses.sum(axis=1, keepdims=True)).cumsum(axis=1)
    everybody = (masses.sum(axis=0) / masses.sum()).cumsum()
    apart = np.abs(shares[:, None] - shares[None]).max()
    return float(np.abs(shares - everybody).max()), float(apart)


def fit_quietly(model: Any, people: People) -> Learned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(model, people.features, people.target, people.groups)


def solve(model: Any, learned: Learned, rows: Rows, held_out: Any = None) -> FittedStep:
    """The parity step of a model on some rows; with held-out rows its tolerance is for new data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_step(model._plan(learned.scorer.strata), rows, Evidence(held_out))


def solve_for_labels(fitted: FittedStep, rows: Rows, groups: np.ndarray) -> SoftmaxPolicy:
    """The step with the true groups in its constraint; only the policy uses their probabilities."""
    step, known = fitted.step, np.eye(len(rows.groups))[groups]
    problem, kept = step.problem(rows), ImbalanceModel.from_prior(step.group_prior).kept
    stored = problem.rows
    missing = (1.0 - known[:, kept] / known.mean(axis=0)[kept]).T - stored.design[: len(kept)]
    extended = MemoryRows(
        np.concatenate([missing, stored.design]), stored.constant, stored.weights, len(kept)
    )
    multipliers, solver = fitted.multipliers, make_solver("auto", tol=1e-6, max_iter=None, random_state=None)
    for _ in range(6):  # the missing moments change with the policy
        loadings, offset = policy_loadings(problem, multipliers)
        blind = np.ascontiguousarray(np.hstack([np.zeros((len(offset), len(kept))), loadings]))
        shift = extended.moments(blind, offset).columns
        multipliers = run(solver, replace(problem, moment_shift=shift), start=multipliers).multipliers
    return step.policy(multipliers)


def recalibrate_by_truth(rows: Rows, group_proba: np.ndarray) -> Rows:
    """Group probabilities after a joint map fitted to the true ones: its error is not sampling noise."""
    inputs, n_groups = joint_inputs(rows.scores, [rows.group_proba]), group_proba.shape[1]
    codes, weights = np.repeat(np.arange(n_groups), len(inputs)), group_proba.T.ravel()
    given = np.tile(rows.group_proba, (n_groups, 1))
    found = JointRows.of(np.tile(inputs, (n_groups, 1)), weights, len(inputs) // n_groups).fit(codes, given)
    return replace(rows, group_proba=found(inputs))


def without_maps(task: str, people: People, fresh: People) -> Iterator[tuple[str, tuple[float, float]]]:
    """The models without recalibration, each replaced by the truth, and the step solved on other rows."""
    model = make_model(task, calibration=None, confidence=None)
    learned = fit_quietly(model, people)
    of_fit, new = learned.rows, learned.scorer.score(fresh.features)

    def solved(rows: Rows) -> SoftmaxPolicy:
        return solve(model, learned, rows).policy

    def on_fresh(policy: SoftmaxPolicy, **true: Any) -> tuple[float, float]:
        return distances(policy, replace(new, **true), fresh.group_proba)

    true_scores, true_groups = {"scores": fresh.scores}, {"group_proba": fresh.group_proba}
    known = replace(of_fit, group_proba=people.group_proba)
    truth = solved(replace(known, scores=people.scores))
    yield "both models are the truth", on_fresh(truth, **true_scores, **true_groups)
    yield "the group model is the truth", on_fresh(solved(known), **true_groups)
    scored = solved(replace(of_fit, scores=people.scores))
    yield "the outcome model is the truth", on_fresh(scored, **true_scores)
    fitted = solve(model, learned, of_fit)
    yield "fitted models, no map (calibration=None)", on_fresh(fitted.policy)
    by_folds = distances(fitted.policy, of_fit, people.group_proba)
    yield "  on the rows of the fit, by the models of the folds", by_folds
    in_sample = learned.scorer.score(people.features)
    yield "  solved on rows that the models were fitted on", on_fresh(solved(in_sample))
    some = slice(0, len(people.target))
    apart = replace(new, scores=new.scores[some], group_proba=new.group_proba[some])
    yield "  solved on as many separate rows", on_fresh(solved(apart))
    recalibrated = recalibrate_by_truth(apart, fresh.group_proba[some])
    by_truth = distances(solved(recalibrated), recalibrated, fresh.group_proba[some])
    yield "  the same, after a map fitted to the truth", by_truth
    policy = solve_for_labels(fitted, of_fit, people.groups)
    yield "  the true groups in the constraint", on_fresh(policy)


def default(task: str, people: People, fresh: People) -> Iterator[tuple[str, tuple[float, float]]]:
    """The default fit, with joint maps, and its out-of-sample estimate."""
    model = make_model(task)
    learned = fit_quietly(model, people)
    new = learned.scorer.score(fresh.features)
    fitted = solve(model, learned, learned.rows, learned.evidence.held_out)
    yield "the default (joint maps)", distances(fitted.policy, new, fresh.group_proba)
    policy = solve_for_labels(fitted, learned.rows, people.groups)
    yield "  the true groups in the constraint", distances(policy, new, fresh.group_proba)
    estimate = fitted.certificate.out_of_sample
    yield "  the out-of-sample estimate (to all rows)", (float(estimate.expected.max()), np.nan)


class Leaning(ClassifierMixin, BaseEstimator):
    """Takes a column of X for the logit of its class, off by a fraction `lean` of the first column."""

    def __init__(self, column: int, lean: float = 0.0) -> None:
        self.column = column
        self.lean = lean

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Leaning":
        """Learn nothing but the classes."""
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Probabilities of two classes."""
        proba = expit(X[:, self.column] + self.lean * X[:, 0])
        return np.column_stack([1.0 - proba, proba])


def overlook(n_rows: int, leans: Iterable[float] = (0.0, 0.03, 0.05), n_seeds: int = 4) -> None:
    """A slightly wrong model of the group, with maps tested on 20,000 rows and on as many as fits use today.

    Prints the largest distance of a group to all rows: its mean over some samples, and the largest of these.
    """
    fresh = draw_leaning(400_000, 99)
    for lean in leans:
        found = {}
        for name, limits in {"now": {}, "before": {"enough": np.inf, "tested": 20_000}}.items():
            gaps = [_leaning_gap(n_rows, seed, lean, fresh, **limits) for seed in range(1, 1 + n_seeds)]
            found[name] = f"{np.mean(gaps):.4f} (largest {max(gaps):.4f})"
        text = f"maps tested on 20,000 rows {found['before']}, today {found['now']}"
        print(f"  {n_rows:,} rows, a model off by {lean} of the score: {text}", flush=True)


def draw_leaning(n_rows: int, seed: int) -> People:
    """Logits of a class and of a group that depend on each other."""
    rng = np.random.default_rng(seed)
    own, shared = rng.normal(size=(2, n_rows))
    features = np.column_stack([0.8 * own + 0.5 * shared, 0.7 * shared])
    proba = expit(features)
    target, groups = (rng.random(proba.shape) < proba).astype(int).T
    both = np.stack([1.0 - proba, proba], axis=2)
    return People(features, target, groups, both[:, 0], both[:, 1])


def _leaning_gap(
    n_rows: int,
    seed: int,
    lean: float,
    fresh: People,
    enough: float = joint.ENOUGH_ROWS,
    tested: int = fit_models.MOST_MAP_ROWS,
) -> float:
    people = draw_leaning(n_rows, seed)
    model = ParityClassifier(Leaning(0), Leaning(1, lean), epsilon=0.0)
    with patch.object(joint, "ENOUGH_ROWS", enough), patch.object(fit_models, "MOST_MAP_ROWS", tested):
        learned = fit_quietly(model, people)
    fitted = solve(model, learned, learned.rows, learned.evidence.held_out)
    return distances(fitted.policy, learned.scorer.score(fresh.features), fresh.group_proba)[0]


def main() -> None:
    """Both tasks with two groups and three samples each, and a bias too small to detect on few rows."""
    for n_rows in (100_000, 300_000):
        overlook(n_rows)
    compare(["class", "regression"], N_ROWS, [2], [0, 1, 2])


def compare(tasks: list[str], n_rows: int, groups: list[int], seeds: list[int]) -> None:
    """Both distances at `epsilon=0`: every way to solve the step on the first sample, the default on all."""
    for task, n_groups, seed in product(tasks, groups, seeds):
        print(f"{task}, {n_groups} groups, {n_rows:,} rows, sample {seed}: to all rows, between two groups")
        people, fresh = draw(task, n_rows, n_groups, seed + 1), draw(task, N_FRESH, n_groups, 10_000)
        ways = without_maps(task, people, fresh) if seed == seeds[0] else ()
        for name, (to_all, apart) in chain(ways, default(task, people, fresh)):
            between = "" if np.isnan(apart) else f"{apart:.4f}"
            print(f"  {name:<54} {to_all:.4f}  {between}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", nargs="+", default=["class", "regression"])
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--groups", nargs="+", type=int, default=[2])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    asked = parser.parse_args()
    compare(asked.tasks, asked.rows, asked.groups, asked.seeds)
