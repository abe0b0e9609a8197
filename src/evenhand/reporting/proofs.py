"""The certificates of a report: numbers, and what they mean in words."""

from typing import Any

import numpy as np

from evenhand._typing import FloatArray
from evenhand.calibration import CalibrationDiagnosis, diagnose_calibration
from evenhand.certificates import certify_held_out
from evenhand.plots import CalibrationDisplay
from evenhand.postprocessor import ParityPostprocessor
from evenhand.reporting.facts import Proof
from evenhand.reporting.measure import ReportRows
from evenhand.reporting.words import (
    calibration_sentences,
    held_out_sentences,
    label_text,
    optimisation_sentences,
)

DELTA = 0.05  # the probability with which the held-out certificate may be wrong
MOST_DIAGNOSED = 20_000  # rows behind the calibration: its noise floors are simulated


def prove_held_out(postprocessor: ParityPostprocessor, rows: ReportRows, epsilon: FloatArray | None) -> Proof:
    """Bounds on every group's Kolmogorov-Smirnov distance in the population."""
    if rows.has_weights:
        return Proof(("There is no certificate for rows that count unequally.",), None)
    if rows.n_groups < 2:
        return Proof(("There is no certificate for rows of one group only.",), None)
    certificate = certify_held_out(
        postprocessor,
        rows.codes,
        X=(rows.scores, rows.group_proba),
        epsilon=epsilon if postprocessor.parity == "cdf" else None,
        delta=DELTA,
    )
    names = [label_text(label) for label in rows.labels]
    numbers = certificate.to_dict() | {"groups": names}
    del numbers["verdicts"]  # they would name the groups by their places
    return Proof(held_out_sentences(certificate, names), numbers)


def prove_optimisation(model: Any) -> Proof:
    """What the solver proves about the rows of the fit."""
    certificate = model.certificate_
    numbers = certificate.to_dict()
    numbers["groups"] = [label_text(group) for group in certificate.groups]
    del numbers["calibration"]  # has a section of its own
    return Proof(optimisation_sentences(certificate), numbers)


def prove_calibration(model: Any, postprocessor: ParityPostprocessor, rows: ReportRows) -> Proof:
    """Group probabilities against the known groups, on the report's rows or else on those of the fit."""
    if getattr(model, "aware", False):
        return Proof(
            ("The model is told the group of each row, so it has no probabilities to calibrate.",), None
        )
    diagnosis, where = _diagnose(postprocessor, rows), "rows of this report"
    if diagnosis is None:
        diagnosis, where = model.certificate_.calibration, "rows of the fit, by models that had not seen them"
    if diagnosis is None:
        return Proof(
            (
                "The group probabilities could not be checked: that takes rows of every group that the model "
                "knows, labelled with the names that the model knows them by.",
            ),
            None,
        )
    return Proof(calibration_sentences(diagnosis, where), _calibration_numbers(diagnosis))


def _diagnose(postprocessor: ParityPostprocessor, rows: ReportRows) -> CalibrationDiagnosis | None:
    """Diagnosis on the report's rows; None where they lack a group of the fit, or call it something else."""
    known = postprocessor.groups_.tolist()
    if len(rows.scores) > MOST_DIAGNOSED:
        some = np.random.default_rng(0).choice(len(rows.scores), MOST_DIAGNOSED, replace=False)
        rows = rows.some(np.sort(some))
    if set(rows.labels) != set(known) or not rows.counts.all():
        return None
    places = np.array([known.index(label) for label in rows.labels])
    return diagnose_calibration(
        rows.group_proba,
        places[rows.codes],
        known,
        postprocessor.group_prior_,
        # Of class probabilities the first tells enough of the row: they only choose bins.
        scores=rows.scores if rows.scores.ndim == 1 else rows.scores[:, 0],
        sample_weight=rows.weights if rows.has_weights else None,
    )


def _calibration_numbers(diagnosis: CalibrationDiagnosis) -> dict[str, Any]:
    """The figures by group, and the curves with the band that exact probabilities would stay in."""
    display = CalibrationDisplay.from_diagnosis(diagnosis)
    names = [label_text(group) for group in diagnosis.groups]
    kept = ("mean_proba", "observed_share", "calibration_error", "calibration_error_floor", "parity_cost")
    numbers: dict[str, Any] = {"groups": names, "n_rows": diagnosis.n_rows}
    numbers |= {name: getattr(diagnosis, name) for name in (*kept, "parity_cost_floor", "parity_cost_limit")}
    curves = ("proba", "share", "low", "high", "count")
    return numbers | {"curves": {name: getattr(display, name) for name in curves}}
