"""Cross-fitting: a model for new rows, and held-out outputs for the rows that it was fitted on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.parallel import Parallel, delayed

from evenhand._utils.labels import Groups, spread_rows
from evenhand._utils.progress import report_progress
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_group_proba
from evenhand.estimators.folds import require_groups
from evenhand.estimators.models import FittedModel, fit_model
from evenhand.estimators.training_data import Table

NAMES = {"estimator": "outcome", "sensitive_estimator": "group"}  # of the models, in reports of progress


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A model to fit to outcomes, to positions of labels, or to probabilities of labels."""

    template: BaseEstimator  # unfitted model
    name: str  # name of the parameter that holds the model
    labels: Labels | None  # classes or groups; None: a regressor
    positions: bool  # the target contains positions of the labels

    def fit(
        self, X: Any, target: AnyArray, weights: FloatArray | None, start: FittedModel | None = None
    ) -> FittedModel:
        """Fit a clone; a row with probabilities counts for every label, weighted by its probability."""
        if target.ndim == 2:
            rows, target, weights = spread_rows(target, weights)
            X = _safe_indexing(X, rows)
        begin = None if start is None else start.model
        model = fit_model(self.template, X, target, weights, self.name, begin)
        return FittedModel(model, self.labels, self.positions)


@dataclass(frozen=True, slots=True, eq=False)
class CrossFit:
    """A model fitted on all rows of a table, and out-of-fold outputs for these rows."""

    model: FittedModel
    table: Table
    held_out: FloatArray | None  # None: not asked for
    compared: Sequence[
        FloatArray
    ] = ()  # outputs of the model without each fold, for rows to compare models on

    def __call__(self, table: Table) -> FloatArray:
        """Return outputs for any table; they are out-of-fold for rows that the model was fitted on."""
        if self.held_out is None or table.source != self.table.source:
            return self.model(table.X)
        at = np.minimum(np.searchsorted(self.table.places, table.places), self.table.n_rows - 1)
        seen = self.table.places[at] == table.places
        found = self.held_out[at]
        if not seen.all():
            found[~seen] = self.model(_safe_indexing(table.X, np.flatnonzero(~seen)))
        return found


def cross_fit(
    task: Task,
    table: Table,
    target: AnyArray,
    n_jobs: int | None,
    *,
    held_out: bool = True,
    compare: Table | None = None,
) -> CrossFit:
    """Fit a model on all rows and, where outputs for these are asked for, without each fold.

    The models without a fold also score the rows of `compare`.
    """
    name = NAMES[task.name]
    folds = table.folds() if held_out else []
    _report(name, 0, folds)
    model = task.fit(table.X, target, table.weights)
    if not held_out:
        return CrossFit(model, table, None)
    _report(name, 1, folds)
    outputs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_fit_and_score)(
            task, *_rest(table, target, rows), model, _safe_indexing(table.X, rows), compare and compare.X
        )
        for rows in folds
    )
    found, compared = np.empty(0), list[FloatArray]()
    for number, (rows, (part, other)) in enumerate(zip(folds, outputs, strict=True)):
        found = np.empty((table.n_rows, *part.shape[1:])) if number == 0 else found
        found[rows] = part
        compared += [] if other is None else [other]
        _report(name, 2 + number, folds)
    return CrossFit(model, table, found, compared)


def cross_fit_groups(
    template: BaseEstimator,
    table: Table,
    targets: Sequence[Groups],
    n_jobs: int | None,
    compare: Table | None = None,
) -> list[CrossFit]:
    """Cross-fit a model of the group for each attribute."""
    for groups in targets:
        require_groups(groups, table.folds())
    fits = []
    for groups in targets:
        task = Task(template, "sensitive_estimator", groups.labels, positions=True)
        target = groups.codes if groups.proba is None else groups.proba
        fit = cross_fit(task, table, target, n_jobs, compare=compare)
        held_out, _ = check_group_proba(fit.held_out, table.n_rows)
        fits.append(replace(fit, held_out=held_out))
    return fits


def _rest(table: Table, target: AnyArray, rows: AnyArray) -> tuple[Any, AnyArray, FloatArray | None]:
    """Return the rows of the other folds."""
    rest = np.setdiff1d(np.arange(table.n_rows), rows, assume_unique=True)
    weights = None if table.weights is None else table.weights[rest]
    return _safe_indexing(table.X, rest), target[rest], weights


def _fit_and_score(
    task: Task,
    X: Any,
    target: AnyArray,
    weights: FloatArray | None,
    start: FittedModel,
    X_test: Any,
    other: Any,
) -> tuple[FloatArray, FloatArray | None]:
    model = task.fit(X, target, weights, start)
    return model(X_test), None if other is None else model(other)


def _report(name: str, done: int, folds: Sequence[Any]) -> None:
    """Report how many fits of a model are done: one on all rows, then one for each fold."""
    if folds:
        report_progress(f"model of the {name}", done, 1 + len(folds))
