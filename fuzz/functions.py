"""Hostile calls of the public functions: fits, predictions, metrics, audits and certificates."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from evenhand import (
    ParityClassifier,
    ParityPostprocessor,
    ParityRegressor,
    audit,
    certificates,
    frontier,
    metrics,
)
from evenhand.dual.thresholds import Thresholds
from fuzz.counts import Counts
from fuzz.judge import judge
from fuzz.values import scalar, spoil

Arguments = dict[str, Any]
NAMES = np.array(["a", "b", "c", "d"])

SETTINGS: dict[str, tuple[Any, ...]] = {
    "parity": ("cdf", "pmf", "mean", "tv", "w1", "thresholds", "thresholds:0.5", Thresholds(quantiles=[0.5])),
    "epsilon": (0.05, 0.0, 0.3, 1e-300, 5e-324, 1e300, True, [0.1, 0.2]),
    "atoms": ("auto", 2, 3, 9, 31, [0.0, 0.5, 1.0], [0.0, 5e-324], [-1e300, 1e300]),
    "bounds": ("auto", (0.0, 1.0), (0.4, 0.6), (-1e300, 1e300), (0.0, 5e-324), (1.0, 1.0 + 1e-15)),
    "beta": ("auto", "paper", 1.0, 1e-300, 5e-324, 1e12, 1e300, 1.7e308),
    "cost": ("squared", "absolute", "pinball", "huber"),
    "solver": ("auto", "batch", "lbfgs", "sgd", "acsa", "sgd3+acsa2", "lp"),
    "tol": (1e-6, 1e-2, 1e-300, 1e300),
    "max_iter": (None, 1, 2, 30),
    "calibration": ("auto", "joint", None),
    "confidence": ("auto", None, "average", 0.9, 1e-300, 1.0 - 1e-16),
    "random_state": (None, 0, -1, 2**70),
}
METRICS = ("ks", "tv", "w1", "sup", "mean", "cdf", "pmf", Thresholds(thresholds=[0.5]))


@dataclass(frozen=True, slots=True)
class Call:
    """A public function, with arguments that it takes."""

    name: str
    arguments: Callable[[np.random.Generator], Arguments]
    call: Callable[[Arguments], Any]
    weight: float = 1.0


def draw_rows(rng: np.random.Generator, n_groups: int | None = None) -> Arguments:
    """Small valid rows of all kinds."""
    n_rows = int(rng.choice([1, 2, 3, 5, 12, 30, 60], p=[0.03, 0.04, 0.05, 0.08, 0.2, 0.3, 0.3]))
    n_groups = int(rng.integers(2, 4)) if n_groups is None else n_groups
    n_atoms = int(rng.integers(2, 8))
    groups = rng.integers(0, n_groups, n_rows)
    return {
        "scores": rng.normal(0.5 + 0.2 * groups, 0.3),
        "group_proba": rng.dirichlet(np.ones(n_groups), n_rows),
        "groups": NAMES[groups] if rng.random() < 0.7 else groups,
        "pmf": rng.dirichlet(np.ones(n_atoms), n_rows),
        "atoms": np.sort(rng.normal(size=n_atoms)),
        "weights": rng.exponential(size=n_rows),
        "y": rng.normal(size=n_rows),
        "classes": rng.integers(0, 2, n_rows),
        "X": rng.normal(size=(n_rows, 2)),
    }


def draw_settings(rng: np.random.Generator, names: tuple[str, ...]) -> Arguments:
    """A few parameters, all of them known by name."""
    chosen = [name for name in names if rng.random() < 0.25]
    drawn: Arguments = {}
    for name in chosen:
        options = SETTINGS[name]
        drawn[name] = options[int(rng.integers(len(options)))] if rng.random() < 0.9 else scalar(rng)
    return drawn


def _step_arguments(rng: np.random.Generator) -> Arguments:
    rows = draw_rows(rng)
    return {
        "settings": {"atoms": 7, "max_iter": 60, "tol": 1e-4} | draw_settings(rng, STEP_SETTINGS),
        "scores": rows["scores"],
        "group_proba": rows["group_proba"],
        "sample_weight": rows["weights"] if rng.random() < 0.3 else None,
        "group_prior": rows["group_proba"].mean(axis=0) if rng.random() < 0.2 else None,
        "sensitive_features": rng.integers(0, rows["group_proba"].shape[1], len(rows["scores"]))
        if rng.random() < 0.2
        else None,
        "q": 0.3,
        "ids": np.arange(len(rows["scores"])) if rng.random() < 0.3 else None,
    }


def _fit_step(given: Arguments) -> Any:
    names = ("scores", "group_proba", "sample_weight", "group_prior", "sensitive_features")
    model = ParityPostprocessor(**given["settings"]).fit(**{name: given[name] for name in names})
    rows = given["scores"], given["group_proba"]
    certificate = model.certificate_
    str(certificate)
    certificate._repr_html_()
    answers = [
        certificate.violation,
        certificate.risk,
        certificate.lower_bound,
        certificate.to_dict()["risk"],
    ]
    return [
        *answers,
        model.predict_pmf(*rows),
        model.predict_mean(*rows),
        model.predict(*rows, ids=given["ids"]),
        model.predict_quantile(*rows, q=given["q"]),
        repr(model),
    ]


_FITTED: dict[str, ParityPostprocessor] = {}


def _fitted_step() -> ParityPostprocessor:
    """One fitted model for all hostile predictions."""
    if not _FITTED:
        rows = draw_rows(np.random.default_rng(5), 2)
        scores, proba = np.linspace(0, 1, 40), np.tile([[0.3, 0.7], [0.8, 0.2]], (20, 1))
        _FITTED["step"] = ParityPostprocessor(atoms=len(rows["atoms"])).fit(scores, proba)
    return _FITTED["step"]


def _predict_arguments(rng: np.random.Generator) -> Arguments:
    rows = draw_rows(rng, 2)
    method = str(rng.choice(["predict", "predict_pmf", "predict_mean", "predict_quantile"]))
    more = {
        "predict": {"ids": np.arange(len(rows["scores"]))},
        "predict_quantile": {"q": np.full(len(rows["y"]), 0.4)},
    }
    return {
        "method": method,
        "scores": rows["scores"],
        "group_proba": rows["group_proba"],
        **more.get(method, {}),
    }


def _predict(given: Arguments) -> Any:
    method = given.pop("method")
    return getattr(_fitted_step(), str(method), _fitted_step().predict)(**given)


def _stream(given: Arguments) -> Any:
    model = ParityPostprocessor(**given["settings"])
    for _ in range(2):
        model.partial_fit(given["scores"], given["group_proba"], half_life=given["half_life"])
    return model.predict_mean(given["scores"], given["group_proba"])


def _stream_arguments(rng: np.random.Generator) -> Arguments:
    rows = draw_rows(rng)
    settings = draw_settings(rng, ("parity", "epsilon", "atoms", "bounds", "beta", "cost"))
    return {
        "settings": {"atoms": 5} | settings,
        "scores": rows["scores"],
        "group_proba": rows["group_proba"],
        "half_life": 50.0 if rng.random() < 0.3 else None,
    }


def _metric_arguments(function: Callable[..., Any]) -> Callable[[np.random.Generator], Arguments]:
    """Arguments of a metric by the names of its parameters."""
    parameters = inspect.signature(function).parameters

    def draw(rng: np.random.Generator) -> Arguments:
        rows, by_pmf = draw_rows(rng), rng.random() < 0.5
        predictions = rows["pmf"] if by_pmf else rows["scores"]
        known: Arguments = {
            "y_true": rows["y"],
            "y": rows["y"] if rng.random() < 0.5 else None,
            "y_pred": rows["scores"],
            "pmf_or_values": predictions,
            "predictions": predictions,
            "pmf": rows["pmf"],
            "pmf_unlabeled": rows["pmf"],
            "group_proba_unlabeled": rows["group_proba"],
            "scores": rows["scores"],
            "baseline": rows["scores"] if rng.random() < 0.5 else None,
            "decisions": rows["classes"],
            "sensitive_features": _groups(rng, rows),
            "group_proba": rows["group_proba"],
            "atoms": rows["atoms"] if by_pmf or "pmf" in parameters else None,
            "sample_weight": rows["weights"] if rng.random() < 0.3 else None,
            "metric": METRICS[int(rng.integers(len(METRICS)))],
            "pairwise": bool(rng.random() < 0.3),
            "method": str(rng.choice(["bootstrap", "dkw", "melded", "hoeffding"])),
            "loss": str(rng.choice(["squared", "absolute"])),
            "level": 0.9,
            "n_boot": 5,
            "epsilon": 0.1 if rng.random() < 0.5 else None,
            "delta": 0.05,
            "side": str(rng.choice(["both", "upper", "lower"])),
            "threshold": 0.5 if rng.random() < 0.5 else None,
            "min_share": 0.02,
            "random_state": 0,
            "given": rows["classes"] if rng.random() < 0.3 else None,
        }
        return {name: known[name] for name in parameters if name in known}

    return draw


def _groups(rng: np.random.Generator, rows: Arguments) -> Any:
    """Labels in one column or two, or probabilities."""
    kind = rng.random()
    if kind < 0.7:
        return rows["groups"]
    return rows["group_proba"] if kind < 0.85 else np.column_stack([rows["groups"], rows["classes"]])


def _told(answer: Any) -> Any:
    """What can be asked of an answer: its texts, and the numbers that have to be finite."""
    str(answer)
    if hasattr(answer, "_repr_html_"):
        answer._repr_html_()
    if hasattr(answer, "to_dict"):
        told = answer.to_dict()
        return [told.get(name) for name in ("upper", "lower", "risk")]
    if isinstance(answer, metrics.Intervals):
        return [answer.estimate, answer.low, answer.high]
    if isinstance(answer, metrics.UnfairnessBounds):
        return [answer.estimate, answer.least, answer.most]
    return answer


def _metric(name: str, function: Callable[..., Any], weight: float = 1.0) -> Call:
    return Call(name, _metric_arguments(function), lambda given: _told(function(**given)), weight)


ESTIMATOR_SETTINGS = (
    "parity",
    "epsilon",
    "beta",
    "tol",
    "max_iter",
    "confidence",
    "random_state",
    "calibration",
)
STEP_SETTINGS = tuple(name for name in SETTINGS if name != "calibration")


def _estimator_arguments(rng: np.random.Generator) -> Arguments:
    rows = draw_rows(rng)
    settings = {"min_group_size": 2, "cv": 2} | draw_settings(rng, ESTIMATOR_SETTINGS)
    proves = rng.random() < 0.1
    if proves:
        settings["confidence"] = 0.9
    return {
        "settings": settings,
        "calibration_data": (rows["X"], rows["groups"]) if proves else None,
        "X_unlabeled": rows["X"][::-1] if rng.random() < 0.1 else None,
        "X": rows["X"],
        "y": rows["y"],
        "sensitive_features": rows["groups"],
        "sample_weight": rows["weights"] if rng.random() < 0.3 else None,
    }


def _fit_regressor(given: Arguments) -> Any:
    model = ParityRegressor(LinearRegression(), LogisticRegression(), atoms=5, **given.pop("settings"))
    model.fit(**given)
    return [model.predict(given["X"]), *_reported(model, given["X"])]


def _fit_classifier(given: Arguments) -> Any:
    model = ParityClassifier(LogisticRegression(), LogisticRegression(), **given.pop("settings"))
    model.fit(**given)
    return _reported(model, given["X"])


def _reported(model: Any, X: Any) -> list[Any]:
    """Predictions of a fitted model, and what it reports of itself."""
    step = model.postprocessor_
    price = model.price_
    texts = [str(model), repr(model), str(model.certificate_), str(step)]
    return [model.predict_pmf(X), step.multipliers_, price.risk, price.base_risk, *texts]


def _classifier_arguments(rng: np.random.Generator) -> Arguments:
    given = _estimator_arguments(rng)
    return given | {"y": rng.integers(0, 2, len(given["y"]))}


def _frontier_arguments(rng: np.random.Generator) -> Arguments:
    rows = draw_rows(rng)
    settings = draw_settings(rng, ("parity", "epsilon", "beta", "cost"))
    return {
        "settings": {"atoms": 5, "max_iter": 60} | settings,
        "scores": rows["scores"],
        "group_proba": rows["group_proba"],
        "epsilons": np.array([0.3, 0.1]),
        "sample_weight": rows["weights"] if rng.random() < 0.3 else None,
    }


def _frontier(given: Arguments) -> Any:
    found = frontier(ParityPostprocessor(**given.pop("settings")), **given)
    repr(found)
    found._repr_html_()
    return [found.risk, found.max_ks]


CALLS = (
    Call("ParityPostprocessor.fit", _step_arguments, _fit_step, 6.0),
    Call("ParityPostprocessor.predict", _predict_arguments, _predict, 4.0),
    Call("ParityPostprocessor.partial_fit", _stream_arguments, _stream, 1.0),
    Call("ParityRegressor.fit", _estimator_arguments, _fit_regressor, 0.5),
    Call("ParityClassifier.fit", _classifier_arguments, _fit_classifier, 0.5),
    Call("frontier", _frontier_arguments, _frontier, 0.5),
    _metric("audit", audit, 2.0),
    *(
        _metric(f"metrics.{name}", getattr(metrics, name))
        for name in (
            "accuracy", "constant_risk", "decision_gaps", "ks_unfairness", "parity_score", "risk",
            "risk_interval", "selection_rates", "tv_unfairness", "unfairness", "unfairness_bounds",
            "unfairness_interval", "w1_unfairness",
        )
    ),
    _metric("certificates.certify_held_out", certificates.certify_held_out, 2.0),
    _metric("certificates.certify_prediction_powered", certificates.certify_prediction_powered),
)  # fmt: skip


def draw_case(seed: int, number: int, only: str | None = None) -> tuple[Call, Arguments]:
    """The case of a seed and a number: the same in every run."""
    rng = np.random.default_rng([seed, number])
    calls = [call for call in CALLS if only is None or call.name == only]
    shares = np.array([call.weight for call in calls])
    call = calls[int(rng.choice(len(calls), p=shares / shares.sum()))]
    given = call.arguments(rng)
    spoilable = [name for name in given if name not in ("settings", "method")]
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 3]))):
        name = str(rng.choice(spoilable))
        given[name] = spoil(rng, given[name])
    if isinstance(given.get("n_boot"), int | np.integer) and 1000 < given["n_boot"] <= 1_000_000:
        given["n_boot"] = 1000  # a caller who asks for so many draws waits for them
    settings = given.get("settings", {})
    if isinstance(settings.get("max_iter"), int | np.integer) and settings["max_iter"] > 1000:
        settings["max_iter"] = 1000  # nor is a budget of years a case of its own
    return call, given


def told_case(call: Call, seed: int, number: int, given: Arguments) -> str:
    """A case in words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the words of other libraries for what was spoilt
        return f"{call.name} --seed {seed} number {number}: {given!r}"[:1500]


def run(seconds: float | None, cases: int | None, seed: int) -> Counts:
    """Call until the time or the number of cases is spent."""
    counts = Counts("functions", seed)
    while not counts.is_over(seconds, cases):
        number = counts.cases
        call, given = draw_case(seed, number)
        case = told_case(call, seed, number, given)
        judge(counts, case, lambda call=call, given=given: call.call(given))  # type: ignore[misc]
    return counts
