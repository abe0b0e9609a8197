"""A path of 20 tolerances against 20 separate fits: of the parity step alone, and of the whole regressor.

All end at the same tolerances, with the same solver and precision. A path measures risk, KS, TV and W1 of
every point, so the separate fits are timed twice: alone, and with the same numbers from the public functions.
The regressor learns its nuisances with boosted trees, cross-fitted in five folds; the path does so once.
"""

from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import evenhand as eh
from benchmarks._support import show_table, smallest_times, verdict
from evenhand.evaluation.frontier import frontier

LEAST_RATIO = 5.0  # of whole fits: below it a path would not be worth its name


def fit_each(model, epsilons, *data, **options):
    return [clone(model).set_params(epsilon=epsilon).fit(*data, **options) for epsilon in epsilons]


def fit_and_measure_each(model, epsilons, data, test):
    """What a path gives, by hand."""
    for fitted in fit_each(model, epsilons, *data):
        pmf = fitted.predict_pmf(test["scores"], test["group_proba"])
        eh.metrics.risk(test["y"], pmf, fitted.atoms_)
        for unfairness in (eh.metrics.ks_unfairness, eh.metrics.tv_unfairness, eh.metrics.w1_unfairness):
            unfairness(pmf, test["sensitive_features"], fitted.atoms_)


def parity_step(parity, n_rows, n_groups, rounds):
    """A line of the table: the parity step alone."""
    fit, new = (eh.datasets.make_population(n_rows, n_groups, random_state=seed) for seed in (0, 1))
    data = fit.scores, fit.group_proba
    test = {
        "scores": new.scores,
        "group_proba": new.group_proba,
        "y": new.target,
        "sensitive_features": new.sensitive_features,
    }
    model = eh.ParityPostprocessor(parity=parity)
    path = frontier(model, *data, test=test)
    epsilons = [point.epsilon for point in path.points]
    runs = {
        "path": partial(frontier, model, *data, epsilons=epsilons, test=test),
        "fits": partial(fit_each, model, epsilons, *data),
        "all": partial(fit_and_measure_each, model, epsilons, data, test),
    }
    seconds = smallest_times(runs, rounds, warm_up=False)
    fits = fit_each(model, epsilons, *data)
    apart = [
        abs(warm.result_.objective - cold.result_.objective)
        for warm, cold in zip(path.models, fits, strict=True)
    ]
    iterations = [sum(each.result_.n_iter for each in models) for models in (path.models, fits)]
    return [
        f"{parity}, {n_groups} groups",
        n_rows,
        f"{seconds['fits'] / seconds['path']:.1f}",
        f"{seconds['all'] / seconds['path']:.1f}",
        f"{seconds['path']:.2f}",
        "{} / {}".format(*iterations),
        f"{max(apart):.0e}",
    ]


def regressor_ratio(n_rows: int) -> float:
    """Times of 20 whole fits over that of a path."""
    data = eh.datasets.make_population(n_rows, n_groups=2, n_features=10, random_state=0)
    model = eh.ParityRegressor(HistGradientBoostingRegressor(), HistGradientBoostingClassifier())
    arrays, options = (data.data, data.target), {"sensitive_features": data.sensitive_features}
    epsilons = np.append(0.0, np.geomspace(0.001, 0.2, 19))
    runs = {
        "path": partial(frontier, model, *arrays, epsilons=epsilons, **options),
        "fits": partial(fit_each, model, epsilons, *arrays, **options),
    }
    seconds = smallest_times(runs, rounds=2, warm_up=False)
    ratio = seconds["fits"] / seconds["path"]
    print(
        f"ParityRegressor with boosted trees, n = {n_rows}, 20 epsilons: "
        f"path {seconds['path']:.1f} s, 20 fits {seconds['fits']:.1f} s"
    )
    return ratio


def main() -> None:
    """Print times of separate fits over those of a path."""
    print("the parity step alone, 20 epsilons, measured on as many other rows; iterations: path / fits")
    head = [
        "",
        "rows",
        "fits / path",
        "fits and measures / path",
        "path s",
        "iterations",
        "objectives differ",
    ]
    sizes = [("cdf", 800, 2, 5), ("cdf", 5_000, 3, 1), ("pmf", 5_000, 3, 1), ("cdf", 100_000, 2, 1)]
    show_table(head, [parity_step(*size) for size in sizes])
    ratio = regressor_ratio(2_000)
    print(
        f"20 fits over a path: at least {LEAST_RATIO:.0f}, here {ratio:.1f}: {verdict(ratio >= LEAST_RATIO)}"
    )


if __name__ == "__main__":
    main()
