"""Fit the models and their recalibration maps, and score the rows of the parity step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from evenhand._utils.labels import Groups
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows, require_mass
from evenhand.calibration import CalibrationDiagnosis, JointRows, diagnose_calibration
from evenhand.data.sampling import MOST_MAP_ROWS, sample_places
from evenhand.estimators.crossfit import CrossFit, Task, cross_fit, cross_fit_groups
from evenhand.estimators.models import came_fitted
from evenhand.estimators.recalibration import Tested, fit_recalibration, recalibrate_by_fold
from evenhand.estimators.scorer import Outputs, Scorer
from evenhand.estimators.step_fit import Evidence
from evenhand.estimators.strata import Strata, combined_codes
from evenhand.estimators.training_data import Table, TrainingData
from evenhand.generalization.out_of_sample import HeldOutRows, Shift

MOST_COMPARED = 2_000  # rows on which models are compared: their noise is the same on both sides


@dataclass(frozen=True, slots=True, eq=False)
class ModelSettings:
    """How the models are fitted: the checked parameters of the estimator."""

    outcome: BaseEstimator
    group: BaseEstimator | None  # None: an aware model, which uses the groups themselves
    joint: bool  # fit joint recalibration maps
    for_new_data: bool  # epsilon is for new data, so held-out rows are needed
    conditional_on: Any
    aware: bool
    n_jobs: int | None
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class CrossFittedModels:
    """All models, with out-of-fold outputs for the rows that they were fitted on."""

    scorer: Scorer
    outcome: CrossFit
    groups: Sequence[CrossFit]

    def outputs(self, table: Table) -> Outputs:
        """Return outputs for any table; they are out-of-fold for rows that a model was fitted on."""
        group_proba = [group(table) for group in self.groups]
        return self.scorer.complete(
            table.X, self.outcome(table), group_proba, table.attributes, table.weights
        )


def fit_models(
    data: TrainingData, unlabeled: Table | None, target: AnyArray | None, settings: ModelSettings
) -> tuple[Scorer, Rows, Evidence]:
    """Fit and recalibrate the models; returns them, the rows of the parity step, and evidence about it.

    `target` is the target of the joint map of the scores, for the labeled rows; None: no such map is fitted.
    """
    step = data.step_rows(unlabeled, aware=settings.aware)
    on_grouped = not _has_every_group(step, data.strata)
    diagnosed = len(data.strata.names) == 1 and not settings.aware
    held_out = unlabeled is None or settings.for_new_data or settings.joint or (diagnosed and on_grouped)
    compare = _rows_to_compare(data, step, settings)
    models = _cross_fit(data, settings, held_out=held_out, compare=compare)
    grouped = models.outputs(data.grouped)
    labeled = grouped if data.labeled is data.grouped else models.outputs(data.labeled)
    kinds = combined_codes(data.grouped.attributes, data.grouped.y, data.strata.classes)
    scorer, without = models.scorer, [models.scorer] * len(data.grouped.folds())
    if settings.joint:
        scorer, without = _recalibrate(scorer, data, grouped, labeled, target, kinds, settings.seed)
    of_step = {id(data.grouped): grouped, id(data.labeled): labeled}.get(id(step)) or models.outputs(step)
    rows = scorer.rows(of_step)
    require_mass(rows.groups, rows.group_mass())
    diagnosis = None
    if diagnosed and not data.grouped.soft:
        measured = recalibrate_by_fold(grouped, without, data.grouped.folds())
        final = measured if step is data.grouped else scorer.recalibrate(of_step)
        known = (measured, data.targets()[0], data.grouped.weights)
        known = known if on_grouped else (final, step.attributes[0], rows.weights)
        diagnosis = _diagnose(*known, final, rows)
    held_out_rows = None
    if settings.for_new_data:
        held_out_rows = _held_out(data, scorer, step, rows, grouped)
        if compare is not None:
            held_out_rows = replace(held_out_rows, shift=_shift(models, scorer, compare))
    return scorer, rows, Evidence(held_out_rows, diagnosis=diagnosis)


def _cross_fit(
    data: TrainingData, settings: ModelSettings, *, held_out: bool, compare: Table | None
) -> CrossFittedModels:
    """The model of the outcome and those of the groups."""
    labeled, strata, n_jobs = data.labeled, data.strata, settings.n_jobs
    task = Task(settings.outcome, "estimator", strata.classes, positions=False)
    outcome = cross_fit(task, labeled, data.target, n_jobs, held_out=held_out, compare=compare)
    groups: list[CrossFit] = []
    if settings.group is not None:
        groups = cross_fit_groups(settings.group, data.grouped, data.targets(), n_jobs, compare)
    fitted = [group.model for group in groups]
    classes = None if strata.classes is None else np.unique(data.target)
    scorer = Scorer(outcome.model, fitted, strata, settings.conditional_on, settings.aware, classes)
    return CrossFittedModels(scorer, outcome, groups)


def _rows_to_compare(data: TrainingData, step: Table, settings: ModelSettings) -> Table | None:
    """Rows on which the deployed models are compared with those of the folds; None where these do not differ.

    They do not where the models came fitted, nor on rows of a step that the deployed models score themselves.
    """
    models = [model for model in (settings.outcome, settings.group) if model is not None]
    known = step is data.labeled or step is data.grouped
    if not (settings.for_new_data and known and data.same_table) or all(map(came_fitted, models)):
        return None
    n_rows = data.grouped.n_rows
    return data.grouped.take(np.arange(n_rows)[:: -(-n_rows // MOST_COMPARED)])


def _shift(models: CrossFittedModels, scorer: Scorer, compare: Table) -> list[Shift]:
    """What the deployed models do beyond those of the folds, on rows that all of them know, by tau."""
    out_of_fold = scorer.rows(models.outputs(compare))
    weights = np.full(compare.n_rows, 1.0) if compare.weights is None else compare.weights
    counts = weights[:, None] * out_of_fold.group_proba
    parts = [(scorer.score(compare.X, compare.attributes), counts, 1.0)]
    n_folds = len(models.outcome.compared)
    for number in range(n_folds):
        known = np.flatnonzero(compare.folds_of_rows != number)
        some = compare.take(known)
        outputs = scorer.complete(
            some.X,
            models.outcome.compared[number][known],
            [group.compared[number][known] for group in models.groups],
            some.attributes,
        )
        parts.append((scorer.rows(outputs), counts[known], -1.0 / n_folds))
    return parts


def _recalibrate(
    scorer: Scorer,
    data: TrainingData,
    grouped: Outputs,
    labeled: Outputs,
    target: AnyArray | None,
    kinds: IntArray,
    seed: int,
) -> tuple[Scorer, list[Scorer]]:
    """Return the scorer with joint maps, and one scorer per fold whose maps were fitted without that fold."""
    if target is not None and not data.same_table:  # rows with a group have no outcome
        places = sample_places(np.zeros_like(data.labeled.places), MOST_MAP_ROWS, seed)
        scorer, _ = fit_recalibration(scorer, labeled, target, (), Tested(places, data.labeled.folds_of_rows))
        target = None
    elif target is not None:
        target = target[data.grouped.places]
    tested = Tested(sample_places(kinds, MOST_MAP_ROWS, seed), data.grouped.folds_of_rows)
    targets = data.targets() if scorer.groups else ()
    return fit_recalibration(scorer, grouped, target, targets, tested)


def _has_every_group(table: Table, strata: Strata) -> bool:
    """Whether every row has a known group, every group has rows, and the models predict groups alone."""
    if not table.knows_all_groups or strata.joint:
        return False
    return len(np.unique(table.attributes[0].codes)) == len(strata.groups[0])


def _diagnose(
    measured: Outputs, groups: Groups, weights: FloatArray | None, final: Outputs, rows: Rows
) -> CalibrationDiagnosis:
    """Measure the calibration of the model of the group, for a policy with the group shares of `rows`."""
    group_proba = final.group_proba[0]
    shares = group_proba.mean(axis=0) if rows.weights is None else rows.weights @ group_proba
    scores = measured.scores
    if scores.ndim == 2:  # bins use the probability of the second of two classes, or the most likely class
        scores = scores[:, 1] if scores.shape[1] == 2 else scores.argmax(axis=1).astype(np.float64)
    return diagnose_calibration(
        measured.group_proba[0], groups.codes, groups.labels, shares, scores=scores, sample_weight=weights
    )


def _held_out(data: TrainingData, scorer: Scorer, step: Table, rows: Rows, grouped: Outputs) -> HeldOutRows:
    """The rows with known group as models that have not seen them score them; maybe the rows of the step."""
    scored = rows if step is data.grouped else scorer.rows(grouped)
    known = data.strata.known_columns(data.grouped.attributes, data.grouped.y, grouped.factors)
    smallest = max(1, int(known.sum(axis=0).min()))
    terms = JointRows.of(grouped.inputs(), grouped.weights, smallest).design
    if not any(model.calibrator for model in scorer.groups):  # a model absorbs its own linear terms
        terms = terms[: 1 + grouped.inputs().shape[1]]
    return HeldOutRows(scored, known, np.ascontiguousarray(terms.T))
