"""Every notion of parity on a population with known truth: violation on fresh rows, with oracle nuisances.

Each notion is fitted on 100 000 rows with the true P(Y | X), P(S | X) or P(Y, S | X), and measured on
1 000 000 fresh rows by their true group, class and factor, which no model saw. It must stay below epsilon
plus 0.01. The next column has the same gap without parity; the last the mean squared distance to the scores,
the price: thresholds alone must cost less than the whole distribution.
"""

from functools import partial
from typing import Any

import numpy as np

import evenhand as eh
from benchmarks._support import show_table, verdict

N_FIT, N_FRESH, EPSILON, MARGIN = 100_000, 1_000_000, 0.02, 0.01
N_GROUPS, N_CLASSES = 3, 3
NOTIONS = ("demographic parity", "two attributes", "given a factor", "equalised odds", "equal opportunity")
METRICS = {"pmf": "sup", "cdf": "ks", "tv": "tv", "w1": "w1", "mean": "mean"}  # what each bounds
THRESHOLDS = "thresholds:30%,70%"


def columns_of(data: Any, notion: str) -> tuple[np.ndarray, list[Any] | None]:
    """What the post-processor takes: columns and their strata."""
    if notion == "demographic parity":
        return data.group_proba, None
    if notion == "two attributes":
        return np.hstack([data.group_proba, data.second_proba]), ["first"] * N_GROUPS + ["second"] * 2
    if notion == "given a factor":
        within = [data.group_proba * (data.factor == value)[:, None] for value in (0, 1)]
        return np.hstack(within), [0] * N_GROUPS + [1] * N_GROUPS
    outcomes = np.repeat(np.arange(N_CLASSES), N_GROUPS)
    if notion == "equalised odds":
        return data.joint_proba, outcomes.tolist()
    positive = outcomes == N_CLASSES - 1
    return data.joint_proba[:, positive], outcomes[positive].tolist()


def true_gap(data: Any, pmf: np.ndarray, atoms: np.ndarray, notion: str, metric: Any) -> float:
    """The largest gap between a group and its stratum, by what rows truly are."""
    attributes = [data.sensitive_features] + [data.second_attribute] * (notion == "two attributes")
    rows = data.target == N_CLASSES - 1 if notion == "equal opportunity" else slice(None)
    given = {"given a factor": data.factor, "equalised odds": data.target}.get(notion)
    measure = partial(eh.metrics.unfairness, pmf[rows], atoms=atoms, metric=metric, given=given)
    return max(value for groups in attributes for value in measure(groups[rows]).values())


def measured(fit: Any, fresh: Any, kind: str, parity: str, notion: str) -> list[float]:
    """The gap on fresh rows with parity, and without; and the cost of parity on the rows of the fit."""
    scores, options = [data.class_proba for data in (fit, fresh)], {"cost": 1.0 - np.eye(N_CLASSES)}
    if kind == "scores":
        scores, options = [data.data[:, :2].sum(axis=1) for data in (fit, fresh)], {"atoms": 31}
    (columns, strata), (fresh_columns, _) = columns_of(fit, notion), columns_of(fresh, notion)
    gaps = []
    for epsilon in (EPSILON, 0.99):
        step = eh.ParityPostprocessor(parity=parity, epsilon=epsilon, **options)
        step.fit(scores[0], columns, strata=strata)
        pmf = step.predict_pmf(scores[1], fresh_columns)
        metric = METRICS.get(parity, step.parity_)
        gaps.append(true_gap(fresh, pmf, step.atoms_, notion, metric))
        if epsilon == EPSILON:
            cost = step.certificate_.risk
    return [*gaps, cost]


def main() -> None:
    fit, fresh = (
        eh.datasets.make_class_population(size, N_GROUPS, N_CLASSES, random_state=seed)
        for size, seed in ((N_FIT, 0), (N_FRESH, 1))
    )
    cases = [("classes", "pmf", notion) for notion in NOTIONS]
    cases += [("scores", "cdf", notion) for notion in ("two attributes", "given a factor")]
    cases += [("scores", parity, "demographic parity") for parity in ("cdf", "tv", "w1", "mean", THRESHOLDS)]
    rows, passed, costs = [], True, {}
    for kind, parity, notion in cases:
        gap, plain, cost = measured(fit, fresh, kind, parity, notion)
        good = gap <= EPSILON + MARGIN
        passed &= good
        costs[parity] = cost
        name = f"{kind}, {notion}, {parity}"
        rows.append([name, f"{gap:.4f}", verdict(good), f"{plain:.4f}", f"{cost:.4f}"])
    print(f"Largest gap on {N_FRESH} fresh rows at epsilon = {EPSILON}, limit {EPSILON + MARGIN:g}")
    show_table(["", "gap", "", "without parity", "cost"], rows)
    print(f"Every notion keeps its tolerance on the population: {verdict(passed)}")
    cheaper = costs[THRESHOLDS] < costs["cdf"]
    print(f"Two thresholds cost {costs[THRESHOLDS] / costs['cdf']:.2f} of all of them: {verdict(cheaper)}")


if __name__ == "__main__":
    main()
