"""ParityClassifier against fairlearn on Adult: accuracy at a matched parity gap, and time.

Binary: income. fairlearn's `ExponentiatedGradient` with `DemographicParity` (unaware, like ours) and
`ThresholdOptimizer` (aware: it sees the group of every test row, a reference and not a rival). Both methods
get the same base learner and the same labelled rows. Ours runs with each of a case's calibrations; the first
is what is judged. Five classes: age bands. fairlearn's reductions are binary, so there it is run once for
each class against the rest and the chances are divided by their sum.

The gap is the difference in the chance of income above the line between the groups, with its sign, on test
rows; of several classes it is the largest difference in the chance of one. Our accuracy is read off our own
frontier at the gap that fairlearn reached. Times are CPU seconds on one thread.

What is chosen here was chosen on other splits, of seeds from 100 on.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import evenhand as eh
from benchmarks._support import learn, show_table, verdict
from evenhand.estimators.step_fit import fit_step

EPSILONS = (0.0, 0.002, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08)
FOLDS = 2  # of our cross-fitting: rows enough for it, and the fewest fits
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "boosted trees": lambda: HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0),
}
ROUNDS = 3  # of every fit that is timed, ours and fairlearn's; the smallest time counts


@dataclass(frozen=True)
class Case:
    """Splits and bounds to compare on."""

    learner: str
    seeds: Sequence[int]
    bounds: Sequence[float]  # of fairlearn
    calibrations: Sequence[str | None]  # of ours


INCOME = (
    Case("logistic", range(10), (0.005, 0.02, 0.04), ("joint", None)),
    Case("boosted trees", range(3), (0.02,), (None, "joint")),
)
AGE = (Case("logistic", (0,), (0.02,), (None,)),)


class Split:
    """Half of the rows to fit on and half to measure on, the same for all methods."""

    def __init__(self, data: Any, outcome: np.ndarray, seed: int) -> None:
        X, groups = StandardScaler().fit_transform(data.data), data.sensitive_features
        rows = np.arange(len(outcome))
        fit, test = train_test_split(rows, test_size=0.5, random_state=seed, stratify=2 * outcome + groups)
        self.fit = X[fit], outcome[fit], groups[fit]
        self.test = X[test], outcome[test], groups[test]
        self.classes = np.unique(outcome)

    def gap(self, chances: np.ndarray) -> float:
        """Difference in the chance of the second of two classes; of more, the largest of one class."""
        if len(self.classes) == 2:
            first, second = (chances[self.test[2] == group, 1].mean() for group in (0, 1))
            return float(second - first)
        return max(eh.metrics.decision_gaps(chances, self.test[2], pairwise=True).values())

    def accuracy(self, chances: np.ndarray) -> float:
        """Expected share of right decisions."""
        return eh.metrics.accuracy(self.test[1], chances, self.classes)


def ours(learner: Any, split: Split, calibration: str | None) -> tuple[np.ndarray, float, float]:
    """Gap and accuracy along the frontier; seconds of a whole fit, and of its parity step."""
    X, y, groups = split.fit
    settings = {
        "epsilon": 0.01,
        "cv": FOLDS,
        "random_state": 0,
        "calibration": calibration,
        "confidence": None,
    }
    model = eh.ParityClassifier(learner, clone(learner), **settings)
    whole = least_seconds(lambda: model.fit(X, y, sensitive_features=groups))
    learned = learn(model, X, y, groups)
    step = least_seconds(lambda: fit_step(model._plan(learned.scorer.strata), learned.rows))
    path = eh.frontier(model, X, y, sensitive_features=groups, epsilons=EPSILONS)
    chances = [each.predict_proba(split.test[0]) for each in path.models]
    return np.array([[split.gap(c), split.accuracy(c)] for c in chances]), whole, step


def least_seconds(run: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = process_time()
        run()
        times.append(process_time() - begin)
    return min(times)


def reductions(learner: Any, split: Split, bound: float) -> tuple[np.ndarray, float]:
    """Chances of the classes on the test rows, and seconds of the fit."""
    X, y, groups = split.fit
    targets = [y] if len(split.classes) == 2 else [(y == label).astype(int) for label in split.classes]
    fitted = [
        ExponentiatedGradient(clone(learner), DemographicParity(difference_bound=bound)) for _ in targets
    ]

    def fit() -> None:
        for each, target in zip(fitted, targets, strict=True):
            each.fit(X, target, sensitive_features=groups)

    seconds = least_seconds(fit)
    if len(fitted) == 1:
        return fitted[0]._pmf_predict(split.test[0]), seconds
    chances = np.column_stack([each._pmf_predict(split.test[0])[:, 1] for each in fitted]) + 1e-12
    return chances / chances.sum(axis=1, keepdims=True), seconds


def aware_reference(learner: Any, split: Split) -> np.ndarray:
    """Chances of the classes by fairlearn's post-processing with the group of every row."""
    X, y, groups = split.fit
    model = ThresholdOptimizer(
        estimator=clone(learner), constraints="demographic_parity", predict_method="predict_proba"
    )
    model.fit(X, y, sensitive_features=groups)
    chances: np.ndarray = model._pmf_predict(split.test[0], sensitive_features=split.test[2])
    return chances


def at_gap(curve: np.ndarray, gap: float) -> float:
    """Accuracy where the frontier has that gap; beyond its ends, that of the end."""
    order = np.argsort(curve[:, 0])
    return float(np.interp(gap, curve[order, 0], curve[order, 1]))


def compare(name: str, data: Any, outcome: np.ndarray, cases: Sequence[Case]) -> None:
    print(f"{name}: accuracy at the same gap, same learner and labelled rows")
    for case in cases:
        found = [split_results(case, Split(data, outcome, seed), seed) for seed in case.seeds]
        columns = [f"ours, {calibration}" for calibration in case.calibrations]
        rows = [row for lines, _ in found for row in lines]
        show_table(["", "gap", "fairlearn", *columns, "fit, times faster", "step, times faster"], rows)
        measured = np.array([measures for _, measures in found])  # split, bound, calibration, figure
        for place, calibration in enumerate(case.calibrations):
            summarise(f"{case.learner}, calibration={calibration!r}", measured[:, :, place], place == 0)


def summarise(name: str, measured: np.ndarray, judged: bool) -> None:
    """Means over splits and bounds, of (n_splits, n_bounds, 3), and whether they are what was asked for."""
    said = verdict if judged else lambda holds: "not judged"
    difference = measured[:, :, 0].mean()
    by_split = measured[:, :, 0].mean(axis=1)  # each is one draw
    noise = f"{by_split.std(ddof=1) / np.sqrt(len(by_split)):.5f}" if len(by_split) > 1 else "unknown"
    by_bound = ", ".join(f"{each:+.4f}" for each in measured[:, :, 0].mean(axis=0))
    whole, step = np.median(measured[:, :, 1]), np.median(measured[:, :, 2])
    print(
        f"  {name}: ours is {difference:+.5f} in accuracy (standard error {noise}; by bound {by_bound}): "
        f"{said(difference >= 0)}\n  {whole:.1f} times faster in all: {said(whole >= 5)}, "
        f"{step:.0f} times in the parity step: {said(step >= 50)} (medians)\n",
        flush=True,
    )


def split_results(case: Case, split: Split, seed: int) -> tuple[list[Any], list[Any]]:
    """Lines to show; by bound and calibration the difference in accuracy and how much faster ours is."""
    model = LEARNERS[case.learner]()
    mine = [ours(model, split, calibration) for calibration in case.calibrations]
    base = clone(model).fit(*split.fit[:2]).predict_proba(split.test[0])
    decided = np.eye(len(split.classes))[base.argmax(axis=1)]
    empty = [""] * (len(mine) + 2)
    lines = [[f"{case.learner}, split {seed}: no parity", *shown(split, decided), *empty]]
    if len(split.classes) == 2:
        lines.append(["  aware reference", *shown(split, aware_reference(model, split)), *empty])
    measures = []
    for bound in case.bounds:
        chances, seconds = reductions(model, split, bound)
        gap, theirs = split.gap(chances), split.accuracy(chances)
        reached = [at_gap(curve, gap) for curve, _, _ in mine]
        measures.append(
            [
                [a - theirs, seconds / fit, seconds / step]
                for a, (_, fit, step) in zip(reached, mine, strict=True)
            ]
        )
        accuracies = [f"{accuracy:.4f}" for accuracy in reached]
        times = [
            " ".join(f"{each[place]:.{digits}f}" for each in measures[-1])
            for place, digits in ((1, 1), (2, 0))
        ]
        lines.append([f"  bound {bound:g}", *shown(split, chances), *accuracies, *times])
    return lines, measures


def shown(split: Split, chances: np.ndarray) -> list[str]:
    return [f"{split.gap(chances):+.4f}", f"{split.accuracy(chances):.4f}"]


def main() -> None:
    warnings.simplefilter("ignore")  # fairlearn's, of pandas and of scikit-learn's coming versions
    with threadpool_limits(1):
        income = eh.datasets.load_adult(target="income")
        compare("Adult, income", income, income.target, INCOME)
        age = eh.datasets.load_adult()
        bands = np.digitize(age.target, np.quantile(age.target, [0.2, 0.4, 0.6, 0.8]))
        compare("Adult, five age bands", age, bands, AGE)


if __name__ == "__main__":
    main()
