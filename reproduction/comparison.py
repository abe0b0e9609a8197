"""Risk against unfairness over many tolerances: the paper's method, ours, ADW, and the references."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LinearRegression

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.baselines import ADW, WassersteinBarycentre
from evenhand.estimators import ParityRegressor
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.frontier import frontier
from reproduction.frames import Row
from reproduction.parity_step import PAPER_SOLVER, PaperStep, paper_grid
from reproduction.rows import PaperRows, paper_classifier, paper_regressor, prepare
from reproduction.runner import Cell
from reproduction.variant import ablations

ADW_ATOMS = 41  # over [0, 1], as in the published comparison
VARIANT = "variant_"  # before the name of one of `ablations`


def compute_comparison(cell: Cell) -> list[Row]:
    """Rows of one method on one split, one for each tolerance."""
    rows = prepare(cell.dataset, cell["scheme"], cell.split)
    if cell.experiment == "published":
        rows = rows.without_others()
    return [{"scheme": cell["scheme"], **row} for row in METHODS[cell.method](rows, cell)]


def _base(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The regressor without any parity step."""
    yield {"epsilon": np.inf, **rows.measure(lambda which: rows.nuisances(which)[0])}


def _base_on_grid(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The regressor's distances as the published code measures them, between the cells of the grid.

    A score beyond the grid is in no cell; it counts in the total of all rows, and not in that of its group.
    """
    groups = rows.groups[rows.split.test]
    scores, atoms = rows.nuisances(rows.split.test)[0], paper_grid(rows).atoms
    everybody = np.cumsum(np.histogram(scores, atoms)[0]) / len(scores)
    distances = []
    for group in range(2):
        inside = np.histogram(scores[groups == group], atoms)[0]
        distances.append(float(np.abs(np.cumsum(inside) / inside.sum() - everybody).max()))
    minority, majority = np.argsort(np.bincount(rows.groups)).tolist()
    measured = rows.measure(lambda which: rows.nuisances(which)[0])
    measured |= {"ks_minority": distances[minority], "ks_majority": distances[majority]}
    yield {"epsilon": np.inf, **measured}


def _base_plain(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """Least squares without an intercept: the published ADW without its constraints and its grid."""
    features, target, _ = rows.labels(rows.split.labeled)
    model = LinearRegression(fit_intercept=False).fit(features, target)
    yield {"epsilon": np.inf, **rows.measure(lambda which: model.predict(rows.features[which]))}


def _paper(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The published method: pmf parity by SGD3 with AC-SA squared, T gradients of single rows."""
    for exponent in cell["exponents"]:
        step = PaperStep.of(rows, 2.0**-exponent, prior=cell["prior"])
        found = step.solve(PAPER_SOLVER, cell["budget"], cell.split)
        yield {"epsilon": 2.0**-exponent, **rows.measure_policy(step.policy(found.multipliers))}


def _variant(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The published method by the formulas of its code; its runs had no seed, so each point has several."""
    variant = dict(ablations())[cell.method.removeprefix(VARIANT)]
    for exponent in cell["exponents"]:
        step = variant.step(rows, 2.0**-exponent)
        for seed in range(cell["n_seeds"]):
            found = variant.solve(step, cell["budget"], (seed, cell.split, int(exponent)))
            measured = rows.measure_policy(step.policy(found.multipliers))
            yield {"epsilon": 2.0**-exponent, "seed": seed, **measured}


def _batch(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The deterministic solver on the paper's scores and group probabilities."""
    atoms = paper_grid(rows).atoms
    template = ParityPostprocessor(parity=cell["parity"], atoms=atoms, **dict(cell["options"]))
    path = frontier(template, *rows.nuisances(rows.split.unlabeled), epsilons=cell["epsilons"])
    for model in path.models:
        yield {"epsilon": model.epsilon, **rows.measure_policy(model.policy_)}


def _regressor(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """`ParityRegressor`, with its own models or the paper's.

    With labels "labelled" it learns from the labelled rows and fits the parity step on the unlabelled ones;
    with "both" it has the labels of both, as ADW-1 has, and scores each row by models of the other folds.
    As in the paper, epsilon holds on the rows of the parity step and no joint maps are fitted. The option
    "calibration" is a method of `CalibratedClassifierCV` for the paper's model of the group.
    """
    classifier = paper_classifier()
    options = dict(cell["options"])
    if (method := options.pop("calibration", None)) is not None:
        classifier = CalibratedClassifierCV(classifier, method=method, cv=5)
    models = {"estimator": paper_regressor(), "sensitive_estimator": classifier}
    template = ParityRegressor(
        **(models if cell["models"] == "paper" else {}),
        **{"bounds": rows.bounds, "random_state": 0, "confidence": None, **options},
    )
    labeled, unlabeled, _ = rows.split
    everything = cell["labels"] == "both"
    features, target, groups = rows.labels(np.concatenate([labeled, unlabeled]) if everything else labeled)
    path = frontier(
        template,
        features,
        target,
        sensitive_features=groups,
        X_unlabeled=None if everything else rows.features[unlabeled],
        epsilons=cell["epsilons"],
    )
    for model in path.models:
        atoms = model.atoms_
        measured = rows.measure(partial(_predict_unaware, model, rows), atoms)
        yield {"epsilon": model.epsilon, **measured}


def _adw(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The reduction: ADW-1 on labelled and unlabelled rows, with the labels of both; ADW-2 on the former."""
    for exponent in cell["exponents"]:
        model = fit_adw(rows, cell.method, 2.0**-exponent, **dict(cell["options"]))
        measured = rows.measure(partial(_predict_unaware, model, rows), model.atoms_)
        yield {"epsilon": 2.0**-exponent, **measured}


def _barycentre(rows: PaperRows, cell: Cell) -> Iterator[Row]:
    """The reference that knows the group at prediction time, moved in part or all the way to exact parity."""
    labeled, unlabeled, _ = rows.split
    features, target, groups = rows.labels(labeled)
    known = {"X_unlabeled": rows.features[unlabeled], "sensitive_features_unlabeled": rows.groups[unlabeled]}
    for moved in cell["moved"]:
        model = WassersteinBarycentre(paper_regressor(), moved=moved, bounds=rows.bounds)
        model.fit(features, target, sensitive_features=groups, **known)
        predict = partial(_predict_aware, model, rows)
        yield {"epsilon": 1.0 - moved, **rows.measure(predict, model.atoms_)}


def _predict_aware(model: WassersteinBarycentre, rows: PaperRows, which: IntArray) -> FloatArray:
    return model.predict_pmf(rows.features[which], sensitive_features=rows.groups[which])


def _predict_unaware(model: Any, rows: PaperRows, which: IntArray) -> FloatArray:
    pmf: FloatArray = model.predict_pmf(rows.features[which])
    return pmf


def fit_adw(rows: PaperRows, method: str, epsilon: float, **options: Any) -> ADW:
    """ADW-1 or ADW-2 with least squares, on the grid of the published comparison."""
    labeled, unlabeled, _ = rows.split
    used = np.concatenate([labeled, unlabeled]) if method == "adw_1" else labeled
    features, target, groups = rows.labels(used)
    model = ADW(epsilon=epsilon, atoms=ADW_ATOMS, bounds=(0.0, 1.0), **options)
    return model.fit(features, target, sensitive_features=groups)


METHODS: dict[str, Callable[[PaperRows, Cell], Iterator[Row]]] = {
    "base": _base,
    "base_on_grid": _base_on_grid,
    "base_plain": _base_plain,
    "paper": _paper,
    "paper_prior": _paper,
    "paper_2T": _paper,
    "pmf": _batch,
    "cdf": _batch,
    "cdf_sigmoid": _regressor,
    "cdf_isotonic": _regressor,
    "cdf_default": _regressor,
    "cdf_default_both": _regressor,
    "adw_1": _adw,
    "adw_2": _adw,
    "barycentre": _barycentre,
    **{f"{VARIANT}{name}": _variant for name, _ in ablations()},
}
