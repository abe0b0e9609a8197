"""The parity step solved over a table bigger than memory, as precisely as `fit` solves it."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.progress import report_progress
from evenhand._utils.validation import Rows, require_mass
from evenhand.calibration import CalibrationDiagnosis
from evenhand.dual.costs import Squared
from evenhand.dual.grid import Grid, automatic_n_atoms
from evenhand.dual.step import choose_beta, choose_grid
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.step_fit import Evidence, FittedStep, SolvedStep, StepPlan, finish, fit_step
from evenhand.exceptions import ConvergenceWarning, InterruptWarning
from evenhand.solvers import Callback, Progress, run_and_warn
from evenhand.tables.clusters import open_partitions
from evenhand.tables.model_inputs import Model, TableReader, make_reader, read_weights
from evenhand.tables.numbers import ScoredTable
from evenhand.tables.partitions import ScoredPartitions
from evenhand.tables.progress import Reporter, showing
from evenhand.tables.sources import blaming, count_rows, is_cluster_frame
from evenhand.tables.spool import BLOCK_ROWS, Spool

AnyModel = TypeVar("AnyModel", bound=Model)

MEMORY_NUMBERS = 5_000_000  # K + 2 for each row of a squared cost: what is solved in memory, all or a start


def fit_table(
    model: AnyModel,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    group_proba: Sequence[str] | None = None,
    strata: Sequence[Any] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    sample_weight: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | Reporter | None = None,
) -> AnyModel:
    """Fit the parity step on a table that need not fit in memory, with the solver of `fit`.

    The table is read once. What the parity step knows of a row, its score, K group probabilities and a
    weight, goes to temporary files without a name, `16 (K + 2)` bytes for each row, and the solver passes
    over those. Up to `5 000 000 / (K + 2)` rows the answer is that of `fit` on the same scores and
    probabilities, bit for bit; of more, so many give the start, and the bounds where outliers are cut off.

    Ctrl-C while the table is read fits the rows that were read, with an `InterruptWarning`; a second one
    stops the solver where it is. A fit that fails leaves the model as it was before.

    Parameters
    ----------
    model : ParityPostprocessor, or a fitted estimator
        An estimator keeps its models of the outcome and of the group; its parity step is fitted anew.
    source : path, pyarrow dataset, frame, array, iterable of chunks, or frame of Spark or Dask
        A CSV, Parquet or Arrow file, or a folder of them, of which only the columns that are needed are
        read; "-" is standard input. Scores, probabilities and features of CSV files must be numbers. Chunks
        are frames, arrays of features, or tuples (scores, group_proba). The rows of a frame of Spark or Dask
        stay on its cluster (docs/how-to/clusters.md), and `n_passes_` tells how often they were passed over.
    columns : list of str, default=None
        Features of an estimator; None is those that it was fitted with.
    scores : str or list of str, default=None
        Column for a post-processor; with a cost matrix, the columns of the class probabilities.
    group_proba : list of str, default=None
        Columns for a post-processor, whose names are the groups' labels.
    strata : list, default=None
        The stratum of each of them, as in `ParityPostprocessor.fit`.
    sensitive_features : str or list of str, default=None
        Only for `aware` estimators, which need it.
    sample_weight : str, default=None
        Column of the rows' weights.
    folder : path, default=None
        Where the temporary files go; None is the system's choice (`TMPDIR`).
    progress : bool or callable, default=None
        True shows a bar (needs tqdm); a function is called with a `TableProgress`.

    Examples
    --------
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> from evenhand.tables import fit_table
    >>> parts = (make_population(1000, n_groups=2, random_state=seed) for seed in range(3))
    >>> chunks = ((part.scores, part.group_proba) for part in parts)
    >>> step = fit_table(ParityPostprocessor(epsilon=0.05), chunks)
    >>> step.certificate_.violation.round(3)
    array([0.05 , 0.025])
    """
    reader = make_reader(model, columns, scores, group_proba, sensitive_features, strata)
    with showing(progress), _scored(reader, source, sample_weight, folder) as table, one_blas_thread():
        require_mass(table.groups or (), table.group_mass())
        start = getattr(model, "step_", None)
        diagnosis = None
        if isinstance(model, ParityPostprocessor):
            plan = StepPlan.of(model, table.groups or (), table.strata, knows_groups=True)
        else:
            plan, diagnosis = model._plan(model.strata_), model.certificate_.calibration
        step = _fit_step(plan, table, start if model.warm_start else None, diagnosis)
    model.__dict__.pop("stream_", None)
    model.step_ = step
    return model


@contextmanager
def _scored(
    reader: TableReader, source: Any, sample_weight: str | None, folder: str | os.PathLike[str] | None
) -> Iterator[ScoredTable]:
    """The table with every row scored: on the workers of its cluster, or on this machine's disk."""
    if is_cluster_frame(source):
        with open_partitions(reader, source, sample_weight) as partitions:
            yield partitions
        return
    with Spool(folder) as spool:
        _read_into(spool, reader, source, sample_weight)
        yield spool


def _read_into(spool: Spool, reader: TableReader, source: Any, sample_weight: str | None) -> None:
    """Score every row and put it on disk."""
    table = reader.open(source, sample_weight)
    n_read = 0
    try:
        for block in table.blocks(BLOCK_ROWS):
            after = n_read + count_rows(block)
            with blaming(n_read, after):
                spool.append(
                    reader.rows(block, spool.groups, spool.strata), read_weights(block, sample_weight)
                )
            n_read = after
            report_progress("read", n_read, table.n_rows)
    except KeyboardInterrupt:
        if spool.n_rows == 0:
            raise
        warnings.warn(
            f"Interrupted: the parity step is fitted on the first {n_read} rows of the table alone.",
            InterruptWarning,
            stacklevel=3,
        )
    if spool.n_rows == 0:
        raise ValueError("The table has no rows, or none of positive weight: give at least one.")


def _fit_step(
    plan: StepPlan, table: ScoredTable, start: FittedStep | None, diagnosis: CalibrationDiagnosis | None
) -> FittedStep:
    """Fit the step on the rows of a table."""

    def show(now: Progress) -> None:
        report_progress("solve", now.n_iter)

    if table.n_rows <= _memory_rows(plan, table):
        step = fit_step(plan, table.all_rows(), Evidence(diagnosis=diagnosis), start=start, callback=show)
    else:
        step = _fit_elsewhere(plan, table, diagnosis, show)
    return replace(step, n_passes=table.n_passes if isinstance(table, ScoredPartitions) else None)


def _memory_rows(plan: StepPlan, table: ScoredTable) -> int:
    return MEMORY_NUMBERS // (len(plan.groups) + 1 + _n_features(plan, table.n_rows))


def _n_features(plan: StepPlan, n_rows: int) -> int:
    """Numbers that the cost of a row needs: one for squares, one for each class or atom otherwise."""
    if isinstance(plan.cost, Squared):
        return 1
    if plan.cost.n_classes is not None:
        return plan.cost.n_classes
    if isinstance(plan.atoms, str):
        return automatic_n_atoms(n_rows)
    return int(plan.atoms) if np.ndim(plan.atoms) == 0 else len(plan.atoms)


def _fit_elsewhere(
    plan: StepPlan, table: ScoredTable, diagnosis: CalibrationDiagnosis | None, callback: Callback
) -> FittedStep:
    """Solve on a sample in memory, then from there on all the rows, wherever they are."""
    if plan.solver.needs_stored_rows:
        raise ValueError(
            f'solver="{plan.solver.name}" holds all its rows in memory: {table.n_rows} are too many. '
            'Pass solver="auto".'
        )
    sample = table.sample_rows(_memory_rows(plan, table))
    start = _fit_sample(plan, table, sample)
    step = replace(start.step, group_prior=table.group_mass())
    with table.rows(step, sample) as rows:
        problem = step.problem(rows)
        result = run_and_warn(plan.solver, problem, start.multipliers, callback)
        n_clipped = rows.count_clipped()
        plan.warn_of_clipping(step, n_clipped, table.n_rows)
        return finish(plan, SolvedStep(step, problem, result, n_clipped), sample, diagnosis=diagnosis)


def _fit_sample(plan: StepPlan, table: ScoredTable, rows: Rows) -> FittedStep:
    """The step fitted on a sample, with the atoms and the beta of all the rows."""
    n_rows, atoms = table.n_rows, plan.atoms
    if isinstance(atoms, str) and table.n_classes is None:
        atoms = automatic_n_atoms(n_rows)
    grid = _cover(plan, table, rows)
    plan = replace(
        plan,
        atoms=atoms,
        beta=choose_beta(plan.beta, plan.cost, n_rows, plan.solver.default_beta(n_rows)),
        bounds=grid.bounds if np.isfinite(grid.bounds).all() else plan.bounds,
    )
    inside = replace(rows, scores=grid.clip(rows.scores))  # what lies outside is counted over all rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start is all that it has to be
        return fit_step(plan, inside)


def _cover(plan: StepPlan, table: ScoredTable, rows: Rows) -> Grid:
    """The grid of the sample and of the lowest and the highest score of all."""
    if table.n_classes is None:
        scores = np.concatenate([rows.scores, [table.lowest, table.highest]])
        weights = None if rows.weights is None else np.append(rows.weights, [0.0, 0.0])
        rows = replace(rows, scores=scores, weights=weights)
    return choose_grid(plan.atoms, plan.bounds, rows.scores, rows.weights, plan.cost)
