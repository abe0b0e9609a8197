"""Every notion of parity on a population with known truth: violation on fresh rows, with oracle nuisances.

Each notion is fitted on 100 000 rows with the true P(Y | X), P(S | X) or P(Y, S | X), and measured on
1 000 000 fresh rows by their true group, class and factor, which no model saw. It must stay below epsilon
plus 0.01. The last column has the same gap without parity.
"""

from time import perf_counter
from typing import Any

import numpy as np
from _support import show_table, verdict

import evenhand as eh

N_FIT, N_FRESH, EPSILON, MARGIN = 100_000, 1_000_000, 0.02, 0.01
N_GROUPS, N_CLASSES = 3, 3


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


def true_gap(data: Any, pmf: np.ndarray, notion: str, metric: str) -> float:
    """The largest gap between a group and its stratum, by what rows truly are."""
    groups = data.sensitive_features
    gaps = {
        "demographic parity": lambda: eh.metrics.unfairness(pmf, groups, metric=metric),
        "two attributes": lambda: (
            eh.metrics.unfairness(pmf, groups, metric=metric)
            | {"second": max(eh.metrics.unfairness(pmf, data.second_attribute, metric=metric).values())}
        ),
        "given a factor": lambda: eh.metrics.unfairness(pmf, groups, metric=metric, given=data.factor),
        "equalised odds": lambda: eh.metrics.unfairness(pmf, groups, metric=metric, given=data.target),
        "equal opportunity": lambda: eh.metrics.unfairness(
            pmf[data.target == N_CLASSES - 1], groups[data.target == N_CLASSES - 1], metric=metric
        ),
    }
    return max(gaps[notion]().values())


def main() -> None:
    fit, fresh = (
        eh.datasets.make_class_population(size, N_GROUPS, N_CLASSES, random_state=seed)
        for size, seed in ((N_FIT, 0), (N_FRESH, 1))
    )
    cases = [
        ("classes", notion)
        for notion in (
            "demographic parity",
            "two attributes",
            "given a factor",
            "equalised odds",
            "equal opportunity",
        )
    ] + [("scores", "two attributes"), ("scores", "given a factor")]
    rows, passed = [], True
    for kind, notion in cases:
        scores = [
            data.class_proba if kind == "classes" else data.data[:, :2].sum(axis=1) for data in (fit, fresh)
        ]
        options = {"parity": "cdf", "atoms": 31}
        if kind == "classes":
            scores = [data.class_proba for data in (fit, fresh)]
            options = {"parity": "pmf", "cost": 1.0 - np.eye(N_CLASSES)}
        metric = "sup" if kind == "classes" else "ks"
        (columns, strata), (fresh_columns, _) = columns_of(fit, notion), columns_of(fresh, notion)
        gaps, seconds = [], 0.0
        for epsilon in (EPSILON, 10.0):
            begin = perf_counter()
            model = eh.ParityPostprocessor(epsilon=epsilon, **options).fit(scores[0], columns, strata=strata)
            seconds = seconds or perf_counter() - begin
            gaps.append(true_gap(fresh, model.predict_pmf(scores[1], fresh_columns), notion, metric))
        good = gaps[0] <= EPSILON + MARGIN
        passed &= good
        rows.append(
            [f"{kind}, {notion}", f"{gaps[0]:.4f}", verdict(good), f"{gaps[1]:.4f}", f"{seconds:.1f}"]
        )
    print(f"Largest gap on {N_FRESH} fresh rows at epsilon = {EPSILON}, limit {EPSILON + MARGIN:g}")
    show_table(["", "gap", "", "without parity", "seconds to fit"], rows)
    print(f"Every notion keeps its tolerance on the population: {verdict(passed)}")


if __name__ == "__main__":
    main()
