"""The certificates of a report: numbers, and what they mean in words."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.calibration import CalibrationDiagnosis, diagnose_calibration
from evenhand.certificates import HeldOutCertificate, certify_held_out
from evenhand.certificates.samples import BOUNDED
from evenhand.dual.parity import Thresholds, find_parity
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.heldout import Model
from evenhand.metrics import Membership, ScoredRows
from evenhand.metrics.distances import Metric
from evenhand.plots import CalibrationDisplay
from evenhand.reporting.facts import Proof
from evenhand.reporting.words import (
    calibration_sentences,
    held_out_sentences,
    optimisation_sentences,
)

DELTA = 0.05  # the probability with which the held-out certificate may be wrong
MOST_DIAGNOSED = 20_000  # rows behind the calibration: its noise floors are simulated


def prove_held_out(postprocessor: ParityPostprocessor, rows: ScoredRows, epsilon: FloatArray | None) -> Proof:
    """Bounds on every group's distance in the population, in each stratum with its share of the chance."""
    members = rows.members
    if members.has_weights:
        return Proof(("There is no certificate for rows that count unequally.",), None)
    if members.by_proba:
        return Proof(("There is no certificate for groups that are known by probabilities alone.",), None)
    named = _Named.of(postprocessor, members)
    parts = [part for part in members.parts() if len(part[0]) + len(named.absent_beside(part[0])) > 1]
    if not parts:
        return Proof(("There is no certificate for rows of one group only.",), None)
    metric, judged = _certified(postprocessor)
    labels: list[Hashable] = []
    found = []
    for groups, inside, part in parts:
        absent = named.absent_beside(groups)
        labels += [members.labels[group] for group in groups] + [named.known[place] for place in absent]
        tolerances = None
        if judged and epsilon is not None:
            tolerances = np.concatenate([epsilon[groups], postprocessor.epsilon_[absent]])
        found.append(
            certify_held_out(
                postprocessor,
                part.codes,
                X=(rows.scores[inside], rows.group_proba[inside]),
                epsilon=tolerances,
                delta=DELTA / len(parts),
                metric=metric,
                groups=range(len(groups) + len(absent)),
            )
        )
    certificate = _joined(found)
    names = [label_text(label, within=members.strata is not None) for label in labels]
    numbers = certificate.to_dict() | {"groups": names}
    numbers["absent"] = [name for name, count in zip(names, numbers["counts"], strict=True) if not count]
    del numbers["verdicts"]  # they would name the groups by their places
    return Proof(held_out_sentences(certificate, names), numbers)


class _Named(NamedTuple):
    """The groups of the fit, where those of the rows are among them."""

    known: list[Hashable]
    strata: IntArray  # of each, (n_known,)
    there: tuple[Hashable, ...]  # groups of the rows

    @classmethod
    def of(cls, postprocessor: ParityPostprocessor, members: Membership) -> "_Named":
        """None, where rows have groups of other names: then they say nothing of absent ones."""
        known, strata = postprocessor.groups_.tolist(), postprocessor.policy_.strata
        if not set(members.labels) <= set(known) or (strata is None) != (members.strata is None):
            return cls([], np.zeros(0, np.int64), members.labels)
        return cls(known, np.zeros(len(known), np.int64) if strata is None else strata, members.labels)

    def absent_beside(self, groups: IntArray) -> IntArray:
        """Places of the fit's groups in the stratum of these groups that no row is in."""
        if not self.known:
            return np.zeros(0, np.int64)
        stratum = self.strata[self.known.index(self.there[groups[0]])]
        missing = np.array([label not in self.there for label in self.known])
        return np.flatnonzero(missing & (self.strata == stratum))


def _certified(postprocessor: ParityPostprocessor) -> tuple[Metric, bool]:
    """The distance to bound, and whether it is the one that was asked for."""
    notion = find_parity(postprocessor.parity_)
    if isinstance(notion, Thresholds):
        return notion, True
    asked = notion.metric
    if len(postprocessor.atoms_) == 2 and asked != "mean":
        return "ks", asked in ("ks", "sup", "tv")  # one number, by whatever name
    if asked in BOUNDED:
        return asked, True
    # Of classes without an order, total variation bounds the gap of each.
    return ("ks" if postprocessor.policy_.cost.scores_are_means else "tv"), False


def _joined(parts: Sequence[HeldOutCertificate]) -> HeldOutCertificate:
    """One certificate of all strata: it errs no more often than all of them together."""
    first = parts[0]
    if len(parts) == 1:
        return first
    together: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("counts", "estimate", "lower", "upper")
    }
    epsilon = None if first.epsilon is None else np.concatenate([part.epsilon for part in parts])
    groups = tuple(range(len(together["counts"])))
    return replace(first, groups=groups, epsilon=epsilon, delta=sum(part.delta for part in parts), **together)


def prove_optimisation(model: Model, rows: ScoredRows) -> Proof:
    """What the solver proves about the rows of the fit."""
    certificate = model.certificate_
    numbers = certificate.to_dict()
    within = rows.members.strata is not None
    numbers["groups"] = [label_text(group, within=within) for group in certificate.groups]
    del numbers["calibration"]  # has a section of its own
    cost = model.policy_.cost
    error = f"The mean {cost.score_risk_name}"
    if cost.score_risk_name == cost.risk_name:
        error = f"{capital(cost.risk_name)}, by the scores,"
    return Proof(optimisation_sentences(certificate, error), numbers)


def prove_calibration(model: Model, postprocessor: ParityPostprocessor, rows: ScoredRows) -> Proof:
    """Group probabilities against the known groups, on the report's rows or else on those of the fit."""
    if getattr(model, "aware", False):
        return Proof(
            ("The model is told the group of each row, so it has no probabilities to calibrate.",), None
        )
    if isinstance(getattr(model, "sensitive_estimator_", None), list):
        return Proof(
            ("Each attribute has a model of its own; their probabilities were not checked on these rows.",),
            None,
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
    notion = getattr(model, "strata_", None)  # whose models may tell outcomes apart, too
    joint = notion is not None and notion.joint
    names = [label_text(group, within=joint) for group in diagnosis.groups]
    recalibrated = not isinstance(model, ParityPostprocessor) and model.recalibrates
    sentences = calibration_sentences(diagnosis, names, where, recalibrated=recalibrated)
    return Proof(sentences, _calibration_numbers(diagnosis, names))


def _diagnose(postprocessor: ParityPostprocessor, rows: ScoredRows) -> CalibrationDiagnosis | None:
    """Diagnosis on the report's rows; None where they lack a group of the fit, or call it something else."""
    known, members = postprocessor.groups_.tolist(), rows.members
    if members.strata is not None or members.by_proba:  # columns of strata need not sum to one
        return None
    if len(rows.scores) > MOST_DIAGNOSED:
        some = np.random.default_rng(0).choice(len(rows.scores), MOST_DIAGNOSED, replace=False)
        rows = rows.take(np.sort(some))
        members = rows.members
    if set(members.labels) != set(known) or not members.counts.all():
        return None
    places = np.array([known.index(label) for label in members.labels])
    return diagnose_calibration(
        rows.group_proba,
        places[members.codes],
        known,
        postprocessor.group_prior_,
        # Of class probabilities the first tells enough of the row: they only choose bins.
        scores=rows.scores if rows.scores.ndim == 1 else rows.scores[:, 0],
        sample_weight=members.weights if members.has_weights else None,
    )


def _calibration_numbers(diagnosis: CalibrationDiagnosis, names: list[str]) -> dict[str, Any]:
    """The figures by group, and the curves with the band that exact probabilities would stay in."""
    display = CalibrationDisplay.from_diagnosis(diagnosis)
    kept = ("mean_proba", "observed_share", "calibration_error", "parity_cost")
    numbers: dict[str, Any] = {"groups": names, "n_rows": diagnosis.n_rows}
    numbers |= {name: getattr(diagnosis, name) for name in (*kept, "parity_cost_floor", "parity_cost_limit")}
    curves = ("proba", "share", "low", "high", "count")
    return numbers | {"curves": {name: getattr(display, name) for name in curves}}
