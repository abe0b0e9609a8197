"""The parity step solved over a table bigger than memory, as precisely as `fit` solves it."""

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from evenhand._utils.progress import report_progress
from evenhand._utils.validation import Rows, check_epsilon, require_mass
from evenhand.dual.costs import Squared, make_cost
from evenhand.dual.grid import Grid, automatic_n_atoms
from evenhand.dual.step import choose_beta, choose_grid
from evenhand.estimators.draws import key_from
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.estimators.selection import is_cv
from evenhand.exceptions import ConvergenceWarning, InterruptWarning
from evenhand.solvers import Callback, Progress, Solver, run_and_warn
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
    with showing(progress), _scored(reader, source, sample_weight, folder) as table:
        if isinstance(model, ParityPostprocessor):
            _fit_step(model, table)
        else:
            model._install_step(_fit_step(model._postprocessor(model.cells_), table))
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


def _fit_step(step: ParityPostprocessor, table: ScoredTable) -> ParityPostprocessor:
    """Fit a post-processor on the rows of a table."""

    def show(now: Progress) -> None:
        report_progress("solve", now.n_iter)

    require_mass(table.groups or (), table.group_mass())
    if table.n_rows <= _memory_rows(step, table):
        step._fit_rows(table.all_rows(), callback=show)
    else:
        _fit_elsewhere(step, table, show)
    if isinstance(table, ScoredPartitions):
        step.n_passes_ = table.n_passes
    return step


def _memory_rows(step: ParityPostprocessor, table: ScoredTable) -> int:
    return MEMORY_NUMBERS // (len(table.groups or ()) + 1 + _n_features(step, table.n_rows))


def _n_features(step: ParityPostprocessor, n_rows: int) -> int:
    """Numbers that the cost of a row needs: one for squares, one for each class or atom otherwise."""
    cost = make_cost(step.cost)
    if isinstance(cost, Squared):
        return 1
    if cost.n_classes is not None:
        return cost.n_classes
    if isinstance(step.atoms, str):
        return automatic_n_atoms(n_rows)
    return int(step.atoms) if np.ndim(step.atoms) == 0 else len(step.atoms)


def _fit_elsewhere(step: ParityPostprocessor, table: ScoredTable, callback: Callback) -> ParityPostprocessor:
    """Solve on a sample in memory, then from there on all the rows, wherever they are."""
    solver = step._solver()
    if solver.needs_stored_rows:
        raise ValueError(
            f'solver="{solver.name}" holds all its rows in memory: {table.n_rows} are too many. '
            'Pass solver="auto".'
        )
    groups = table.groups or ()
    epsilon, key = check_epsilon(step.epsilon, groups, table.strata), key_from(step.random_state)
    sample = table.sample_rows(_memory_rows(step, table))
    start = _fit_sample(step, solver, table, sample)
    asked = replace(start.step_, group_prior=table.group_mass(), epsilon=epsilon)
    selected = {name: value for name, value in vars(start).items() if name == "selection_"}
    with table.rows(asked, sample) as rows:
        problem = asked.problem(rows)
        result = run_and_warn(solver, problem, start.multipliers_, callback)
        n_clipped = rows.count_clipped()
        step._report_clipping(asked.grid, n_clipped, table.n_rows)
        others = {"n_clipped_": n_clipped, "draw_key_": key, **selected}
        return step._install_fit(asked, problem, result, groups, **others)


def _fit_sample(
    step: ParityPostprocessor, solver: Solver[Any], table: ScoredTable, rows: Rows
) -> ParityPostprocessor:
    """The step fitted on a sample, with the atoms and the beta of all the rows."""
    settings: dict[str, Any] = {}
    if not is_cv(step.beta):
        n_rows = table.n_rows
        settings["beta"] = choose_beta(step.beta, make_cost(step.cost), n_rows, solver.default_beta(n_rows))
    if isinstance(step.atoms, str) and not is_cv(step.atoms) and table.n_classes is None:
        settings["atoms"] = automatic_n_atoms(table.n_rows)
    grid = _cover(step, table, rows)
    if np.isfinite(grid.bounds).all():
        settings["bounds"] = grid.bounds
    inside = replace(rows, scores=grid.clip(rows.scores))  # what lies outside is counted over all rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a start is all that it has to be
        fitted: ParityPostprocessor = clone(step).set_params(**settings)._fit_rows(inside)
    return fitted


def _cover(step: ParityPostprocessor, table: ScoredTable, rows: Rows) -> Grid:
    """The grid of the sample and of the lowest and the highest score of all."""
    if table.n_classes is None:
        scores = np.concatenate([rows.scores, [table.lowest, table.highest]])
        weights = None if rows.weights is None else np.append(rows.weights, [0.0, 0.0])
        rows = replace(rows, scores=scores, weights=weights)
    atoms = "auto" if is_cv(step.atoms) else step.atoms
    return choose_grid(atoms, step.bounds, rows.scores, rows.weights, make_cost(step.cost))
