"""`evenhand info`: what is in a model file."""

from typing import Any

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.typing import FloatArray
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode
from evenhand.cli.models import label_cell, load_model, model_kinds
from evenhand.cli.terminal import Terminal
from evenhand.reporting.words import within_text

EXAMPLE = "Example: `evenhand info model.evenhand`"


def info(
    model: opt.ModelFile,
    trust: opt.Trust = None,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Say what a model was asked for, what it reached, and which columns it needs."""
    terminal = Terminal(quiet, as_json)
    loaded = load_model(model, trust)
    found = describe(loaded)
    certificate = loaded.certificate_
    among = f" {found['within']}" if found["within"] else ""
    terminal.say(
        f"{found['class']} with parity {certificate.parity!r}{among}, {found['predicts']}, "
        f"beta {found['beta']:.4g}. The solver: {certificate.message}"
    )
    show_groups(loaded, found, terminal)
    terminal.say(
        f"By the scores, the parity step costs at most {max(certificate.optimality_gap, 0):.3g} more than "
        "the best possible."
    )
    if found["features"]:
        terminal.table(["feature", "kind"], list(found["features"].items()))
    terminal.result({"command": "info", "model": model, **found, "certificate": certificate.to_dict()})
    return ExitCode.OK


def show_groups(model: Any, found: dict[str, Any], terminal: Terminal) -> None:
    """Tolerance, out-of-sample estimate and distance on the rows of the fit, by group."""
    certificate, within = model.certificate_, not model.strata_.is_plain
    estimate = certificate.out_of_sample
    columns = {
        "group": [label_text(group, within=within) for group in certificate.groups],
        "share": [f"{share:.1%}" for share in found["shares"]],
        "tolerance": model.epsilon_,
    }
    if estimate is not None:
        columns["expected on new data"] = _two_digits(estimate.expected)
        if estimate.bound is not None:
            how = "proved" if estimate.proved else "at most"
            columns[f"{how}, confidence {estimate.confidence:g}"] = estimate.bound
        columns |= {"held-out rows": _two_digits(estimate.measured), "noise": _two_digits(estimate.noise)}
    columns["on the rows of the fit"] = certificate.violation
    terminal.table(list(columns), list(zip(*columns.values(), strict=True)))
    terminal.say("No estimate for new data: epsilon is for the rows." if estimate is None else str(estimate))


def _two_digits(values: FloatArray) -> list[str]:
    """Estimates, which are not known to more."""
    return [f"{value:.2g}" for value in values]


def describe(model: Any) -> dict[str, Any]:
    """Facts of a fitted model."""
    names = getattr(model, "feature_names_in_", np.array([])).tolist()
    classes = [label_cell(label) for label in getattr(model, "classes_", np.array([])).tolist()]
    low, high = float(model.atoms_[0]), float(model.atoms_[-1])
    values = (
        f"classes {', '.join(classes)}"
        if classes
        else f"{len(model.atoms_)} possible predictions (atoms) from {low:.4g} to {high:.4g}"
    )
    return {
        "class": type(model).__name__,
        "outcome_model": type(_last(model.estimator_)).__name__,
        "group_model": type(_last(model.sensitive_estimator_)).__name__,
        "atoms": len(model.atoms_),
        "low": low,
        "high": high,
        "classes": classes or None,
        "predicts": values,
        "within": within_text(model),
        "beta": float(model.beta_),
        "shares": model.group_prior_.tolist(),
        "epsilon": model.epsilon_.tolist(),
        "features": model_kinds(model) or dict.fromkeys(names, "as in the fit"),
    }


def _last(model: Any) -> Any:
    if isinstance(model, list):  # one for each attribute
        return _last(model[0])
    return model.steps[-1][1] if hasattr(model, "steps") else model
