"""ParityClassifier against fairlearn on Adult: accuracy at a matched parity gap, and time.

Binary: income. fairlearn's `ExponentiatedGradient` with `DemographicParity` (unaware, like ours) and
`ThresholdOptimizer` (aware: it sees the group of every test row, a reference and not a rival). Both methods
get the same base learner and the same labelled rows. Five classes: age bands. fairlearn's reductions are
binary, so there it is run once for each class against the rest and the chances are divided by their sum.

The gap is the largest difference in the chance of one class between the groups, on test rows; our accuracy
is read off our own frontier at the gap that fairlearn reached. Times are CPU seconds on one thread.
"""

import warnings
from collections.abc import Callable
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
from benchmarks._support import show_table, verdict

EPSILONS = (0.0, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.08)
FOLDS = 2  # of our cross-fitting: rows enough for it, and the fewest fits
LEARNERS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: LogisticRegression(max_iter=300),
    "boosted trees": lambda: HistGradientBoostingClassifier(max_iter=50, max_leaf_nodes=15, random_state=0),
}
CASES = (("logistic", range(5), (0.005, 0.04)), ("boosted trees", range(3), (0.02,)))
ROUNDS = 3  # of our fits; the smallest time counts, as do fairlearn's own


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
        """Largest difference in the chance of one class between the groups."""
        return max(eh.metrics.decision_gaps(chances, self.test[2], pairwise=True).values())

    def accuracy(self, chances: np.ndarray) -> float:
        """Expected share of right decisions."""
        return eh.metrics.accuracy(self.test[1], chances, self.classes)


def ours(learner: Any, split: Split) -> tuple[np.ndarray, float, float]:
    """Gap and accuracy along the frontier; seconds of a whole fit, and of its parity step."""
    X, y, groups = split.fit
    model = eh.ParityClassifier(learner, clone(learner), epsilon=0.01, cv=FOLDS, random_state=0)
    whole = least_seconds(lambda: model.fit(X, y, sensitive_features=groups))
    learned = model._learn(X, y, groups)
    step = least_seconds(lambda: model._postprocessor(learned.notion)._fit_rows(learned.rows))
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
    begin = process_time()
    fitted = [
        ExponentiatedGradient(clone(learner), DemographicParity(difference_bound=bound)).fit(
            X, target, sensitive_features=groups
        )
        for target in targets
    ]
    seconds = process_time() - begin
    if len(fitted) == 1:
        return fitted[0]._pmf_predict(split.test[0]), seconds
    chances = np.column_stack([each._pmf_predict(split.test[0])[:, 1] for each in fitted]) + 1e-12
    return chances / chances.sum(axis=1, keepdims=True), seconds


def aware_reference(learner: Any, split: Split) -> tuple[float, float]:
    """Gap and accuracy of fairlearn's post-processing with the group of every row."""
    X, y, groups = split.fit
    model = ThresholdOptimizer(
        estimator=clone(learner), constraints="demographic_parity", predict_method="predict_proba"
    )
    model.fit(X, y, sensitive_features=groups)
    chances = model._pmf_predict(split.test[0], sensitive_features=split.test[2])
    return split.gap(chances), split.accuracy(chances)


def at_gap(curve: np.ndarray, gap: float) -> float:
    order = np.argsort(curve[:, 0])
    return float(np.interp(gap, curve[order, 0], curve[order, 1]))


def compare(name: str, data: Any, outcome: np.ndarray, cases: Any) -> None:
    print(f"{name}: accuracy at the same gap, same learner and labelled rows")
    for learner, seeds, bounds in cases:
        found = [split_results(learner, Split(data, outcome, seed), seed, bounds) for seed in seeds]
        rows = [row for lines, _ in found for row in lines]
        show_table(["", "gap", "fairlearn", "ours", "fit, times faster", "step, times faster"], rows)
        measured = np.array([measure for _, measures in found for measure in measures])
        difference, noise = measured[:, 0].mean(), measured[:, 0].std() / np.sqrt(max(1, len(seeds) - 1))
        whole, step = np.median(measured[:, 1]), np.median(measured[:, 2])
        print(
            f"  {learner}: ours is {difference:+.4f} in accuracy (standard error {noise:.4f}): "
            f"{verdict(difference >= 0)}\n  {whole:.1f} times faster in all: {verdict(whole >= 5)}, "
            f"{step:.0f} times in the parity step: {verdict(step >= 50)} (medians)\n",
            flush=True,
        )


def split_results(learner: str, split: Split, seed: int, bounds: Any) -> tuple[list[Any], list[Any]]:
    """Lines to show; and for each bound the difference in accuracy and how many times faster ours is."""
    model = LEARNERS[learner]()
    curve, whole, step = ours(model, split)
    base = clone(model).fit(*split.fit[:2]).predict_proba(split.test[0])
    decided = np.eye(len(split.classes))[base.argmax(axis=1)]
    plain = f"{split.accuracy(decided):.4f}"
    lines = [[f"{learner}, split {seed}: no parity", f"{split.gap(decided):.4f}", plain, plain, "", ""]]
    if len(split.classes) == 2:
        gap, accuracy = aware_reference(model, split)
        lines.append(["  aware reference", f"{gap:.4f}", f"{accuracy:.4f}", "", "", ""])
    measures = []
    for bound in bounds:
        chances, seconds = reductions(model, split, bound)
        gap, theirs = split.gap(chances), split.accuracy(chances)
        mine = at_gap(curve, gap)
        measures.append([mine - theirs, seconds / whole, seconds / step])
        times = [f"{seconds / whole:.1f}", f"{seconds / step:.0f}"]
        lines.append([f"  bound {bound:g}", f"{gap:.4f}", f"{theirs:.4f}", f"{mine:.4f}", *times])
    return lines, measures


def main() -> None:
    warnings.simplefilter("ignore")  # fairlearn's, of pandas and of scikit-learn's coming versions
    with threadpool_limits(1):
        income = eh.datasets.load_adult(target="income")
        compare("Adult, income", income, income.target, CASES)
        age = eh.datasets.load_adult()
        bands = np.digitize(age.target, np.quantile(age.target, [0.2, 0.4, 0.6, 0.8]))
        compare("Adult, five age bands", age, bands, (("logistic", (0,), (0.02,)),))


if __name__ == "__main__":
    main()
