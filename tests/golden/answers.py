"""Multipliers and predictions of every kind of model, to be compared bit for bit across a change.

`python tests/golden/answers.py FILE.npz` writes them. Only public names are used, so that the same script
runs on the code before and after a change.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import evenhand as eh

Answers = dict[str, np.ndarray]
CASES: dict[str, Callable[[], Answers]] = {}
PARITIES = ("cdf", "pmf", "mean", "tv", "w1")
ON_ROWS: dict[str, Any] = {"confidence": None}  # epsilon holds on the rows of the fit


def case(name: str, **options: Any) -> Callable[[Callable[..., Answers]], Callable[..., Answers]]:
    """Register a function under a name; `options` are its arguments."""

    def register(function: Callable[..., Answers]) -> Callable[..., Answers]:
        CASES[name] = lambda: function(**options)
        return function

    return register


def answers_of_step(step: Any, scores: Any, proba: Any) -> Answers:
    few = slice(0, 40)
    return {
        "multipliers": step.multipliers_,
        "prior": step.group_prior_,
        "pmf": step.predict_pmf(scores[few], proba[few]),
        "draws": step.predict(scores[:300], proba[:300]),
        "violation": step.certificate_.violation,
        "risk": np.array(
            [step.certificate_.risk, step.certificate_.lower_bound, step.certificate_.risk_bound]
        ),
    }


def population(n_rows: int = 1500, n_groups: int = 3, seed: int = 0) -> Any:
    return eh.datasets.make_population(n_rows, n_groups=n_groups, random_state=seed)


def fit_step(n_rows: int = 1500, n_groups: int = 3, weighted: bool = False, **settings: Any) -> Answers:
    rows = population(n_rows, n_groups)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, n_rows) if weighted else None
    step = eh.ParityPostprocessor(random_state=0, **{"epsilon": 0.03, **settings})
    step.fit(rows.scores, rows.group_proba, sample_weight=weights)
    return answers_of_step(step, rows.scores, rows.group_proba)


for parity in PARITIES:
    case(f"step/{parity}", parity=parity)(fit_step)
    case(f"step/{parity}/two", parity=parity, n_groups=2, epsilon=0.0)(fit_step)
    case(f"step/{parity}/lbfgs", parity=parity, solver="lbfgs", n_rows=400, atoms=21)(fit_step)
    case(f"step/{parity}/sgd3+acsa2", parity=parity, solver="sgd3+acsa2", max_iter=6000, n_rows=400)(fit_step)
case("step/large", n_rows=60_000, atoms=41)(fit_step)
case("step/large/mean", n_rows=60_000, parity="mean", weighted=True)(fit_step)
case("step/weighted", weighted=True)(fit_step)
case("step/by group", epsilon=[0.0, 0.02, 0.1])(fit_step)
case("step/paper", beta="paper", solver="lp", n_rows=60, atoms=11)(fit_step)
case("step/bounds", bounds=(-0.5, 0.5), atoms=31)(fit_step)
for name in ("sgd", "acsa", "acsa2", "sgd3", "sgd3+acsa"):
    case(f"step/{name}", solver=name, max_iter=5000, n_rows=400, parity="pmf")(fit_step)
for cost in ("absolute", "pinball", "huber"):
    case(f"step/{cost}", cost=cost, n_rows=300, atoms=21)(fit_step)


@case("step/prior")
def fit_with_prior() -> Answers:
    rows = population(n_groups=2)
    prior = rows.group_proba.mean(axis=0) * [1.004, 1.0]
    step = eh.ParityPostprocessor(epsilon=0.05, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step.fit(rows.scores, rows.group_proba, group_prior=prior / prior.sum())
    return answers_of_step(step, rows.scores, rows.group_proba)


@case("step/strata")
def fit_with_strata() -> Answers:
    rows = population(n_groups=2)
    inside = (rows.data[:, :1] > 0) * 1.0
    columns = np.hstack([inside * rows.group_proba, (1 - inside) * rows.group_proba])
    step = eh.ParityPostprocessor(epsilon=0.02, random_state=0)
    step.fit(rows.scores, columns, strata=["high", "high", "low", "low"])
    return answers_of_step(step, rows.scores, columns)


@case("step/classes")
def fit_with_matrix() -> Answers:
    rows = eh.datasets.make_class_population(1200, random_state=0)
    scores, proba = class_inputs(rows)
    matrix = 1.0 - np.eye(scores.shape[1])
    step = eh.ParityPostprocessor(parity="pmf", epsilon=0.02, cost=matrix, random_state=0).fit(scores, proba)
    return answers_of_step(step, scores, proba)


def class_inputs(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    raw = rng.dirichlet([1.0, 2.0, 1.5], len(rows.data)) * np.exp(np.outer(rows.data[:, 0], [-1.0, 0.0, 1.0]))
    tilted = 1 / (1 + np.exp(-rows.data[:, 0]))
    return raw / raw.sum(axis=1, keepdims=True), np.column_stack([tilted, 1 - tilted])


def answers_of_model(model: Any, X: Any, groups: Any = None) -> Answers:
    known = {} if groups is None else {"sensitive_features": groups[:60]}
    step = model.postprocessor_
    return {
        "multipliers": step.multipliers_,
        "pmf": model.predict_pmf(X[:60], **known)[:40],
        "draws": model.predict(X[:60], **known).astype(float),
        "drawn by id": model.predict(X[:60], ids=np.arange(60), **known).astype(float),
        "violation": model.certificate_.violation,
    }


def fit_regressor(unlabelled: bool = False, forest: bool = False, **settings: Any) -> Answers:
    rows = population(900, 2)
    X, y, groups = rows.data, rows.target, rows.sensitive_features
    if settings.get("conditional_on") is not None:
        X = np.column_stack([X, (X[:, 1] > 0) * 1.0])
    if settings.get("attributes") == "separate":
        groups = np.column_stack([groups, (rows.data[:, 2] + rows.data[:, 0] > 0) * 1])
    estimator = RandomForestRegressor(10, max_depth=4, random_state=0) if forest else None
    model = eh.ParityRegressor(estimator, random_state=0, **{"epsilon": 0.05, **ON_ROWS, **settings})
    more = {"X_unlabeled": population(700, 2, 1).data} if unlabelled else {}
    model.fit(X, y, sensitive_features=groups, **more)
    return answers_of_model(model, X, groups if settings.get("aware") else None)


case("regressor")(fit_regressor)
case("regressor/unlabelled", unlabelled=True)(fit_regressor)
case("regressor/forest", forest=True, parity="w1")(fit_regressor)
case("regressor/aware", aware=True)(fit_regressor)
case("regressor/conditional", conditional_on=4)(fit_regressor)
case("regressor/separate", attributes="separate")(fit_regressor)


def fit_classifier(**settings: Any) -> Answers:
    rows = eh.datasets.make_class_population(1200, random_state=0)
    model = eh.ParityClassifier(random_state=0, **{"epsilon": 0.03, **ON_ROWS, **settings})
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    return answers_of_model(model, rows.data)


case("classifier")(fit_classifier)
case("classifier/odds", criterion="equalized_odds")(fit_classifier)
case("classifier/product", criterion="equalized_odds", joint="product")(fit_classifier)
case("classifier/opportunity", criterion="equal_opportunity", pos_label=1)(fit_classifier)


def follow(parity: str = "cdf", grow: bool = False, first_fit: bool = False, **settings: Any) -> Answers:
    options = {key: settings.pop(key) for key in ("half_life",) if key in settings}
    epsilon = 0.003 if parity == "pmf" else 0.03
    step = eh.ParityPostprocessor(parity=parity, epsilon=epsilon, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if first_fit:
            rows = population(1000, 3, 99)
            step.fit(rows.scores, rows.group_proba)
        for seed in range(9):
            rows = population(1000, 3, seed)
            factor = 1.0 + 0.1 * seed if grow else 1.0
            step.partial_fit(rows.scores * factor, rows.group_proba, **options)
    return answers_of_step(step, rows.scores, rows.group_proba)


for parity in PARITIES:
    case(f"stream/{parity}", parity=parity)(follow)
case("stream/growing", grow=True)(follow)
case("stream/forgetting", half_life=3000)(follow)
case("stream/after fit", first_fit=True)(follow)
case("stream/sgd3", solver="sgd3", parity="pmf")(follow)


@case("stream/regressor")
def follow_regressor() -> Answers:
    rows = population(900, 2)
    model = eh.ParityRegressor(epsilon=0.05, random_state=0, **ON_ROWS)
    model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    for seed in range(5):
        model.partial_fit(population(1000, 2, seed).data)
    return answers_of_model(model, rows.data)


def fit_table(memory: int | None = None, **settings: Any) -> Answers:
    batch = sys.modules[eh.tables.fit_table.__module__]
    usual = batch.MEMORY_NUMBERS
    rows = population(6000, 2)
    frame = pd.DataFrame({"score": rows.scores, "a": rows.group_proba[:, 0], "b": rows.group_proba[:, 1]})
    frame["w"] = np.random.default_rng(2).uniform(0.5, 2.0, len(frame))
    step = eh.ParityPostprocessor(epsilon=0.02, random_state=0, **settings)
    try:
        batch.MEMORY_NUMBERS = memory or usual
        eh.tables.fit_table(step, frame, scores="score", group_proba=["a", "b"], sample_weight="w")
    finally:
        batch.MEMORY_NUMBERS = usual
    return answers_of_step(step, rows.scores, rows.group_proba)


case("table")(fit_table)
case("table/mapped", memory=8000)(fit_table)
case("table/mapped/tv", memory=8000, parity="tv", atoms=31)(fit_table)
case("table/mapped/absolute", memory=40_000, cost="absolute", atoms=21)(fit_table)


@case("frontier")
def walk_frontier() -> Answers:
    rows, new = population(800, 2), population(800, 2, 1)
    test = {"scores": new.scores, "group_proba": new.group_proba, "y": new.target}
    test["sensitive_features"] = new.sensitive_features
    path = eh.frontier(
        eh.ParityPostprocessor(random_state=0),
        rows.scores,
        rows.group_proba,
        epsilons=[0.0, 0.02, 0.1],
        test=test,
    )
    out = {f"multipliers {place}": model.multipliers_ for place, model in enumerate(path.models)}
    return out | {"risk": path.risk, "ks": path.max_ks}


def compute() -> Iterator[tuple[str, np.ndarray]]:
    """Every answer by its name."""
    for name, run in CASES.items():
        for part, values in run().items():
            yield f"{name}: {part}", np.asarray(values)


if __name__ == "__main__":
    processor = llvmlite.binding.get_host_cpu_name()
    np.savez_compressed(sys.argv[1], processor=np.array(processor), **dict(compute()))
