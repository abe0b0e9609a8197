"""A table as a stream: each row once, in bounded memory, with checkpoints."""

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, TypeVar

from evenhand._utils.progress import report_progress
from evenhand.estimators.streaming.monitor import Drift
from evenhand.exceptions import InterruptWarning
from evenhand.tables.checkpoints import (
    Checkpoints,
    advance,
    become,
    keep_reading,
    place_of,
    require_same_rows,
    tail_rows,
)
from evenhand.tables.model_inputs import Model, make_reader
from evenhand.tables.progress import Reporter, showing
from evenhand.tables.sources import blaming, check_size, count_rows, too_short

AnyModel = TypeVar("AnyModel", bound=Model)

BLOCK_ROWS = 16_384  # a whole number of the blocks that `partial_fit` works on


def stream_table(
    model: AnyModel,
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    group_proba: Sequence[str] | None = None,
    strata: Sequence[Any] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    half_life: float | None = None,
    on_drift: Callable[[Drift], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every_rows: int | None = None,
    every_seconds: float | None = None,
    resume: bool = False,
    trusted: Iterable[str] = (),
    block_rows: int = BLOCK_ROWS,
    progress: bool | Reporter | None = None,
) -> AnyModel:
    """Give the rows of a table to `partial_fit`, block by block, and save checkpoints on the way.

    Each row is used once and forgotten, so the table may be an endless iterator. A checkpoint is a model
    file, written whole, with the model's place in the table. Killed at any moment, the same call with
    `resume=True` goes on from the last checkpoint and ends in the same model, bit for bit, as a call that
    was never killed; the rows before the checkpoint must be the same and in the same order, more may have
    come after them. Of these the last block is compared; other columns or another `half_life` are refused.

    Ctrl-C stops after the last whole block, with an `InterruptWarning`: the model is usable, and saved.

    Parameters
    ----------
    model : ParityPostprocessor, or a fitted estimator
    source, columns, scores, group_proba, strata, sensitive_features, progress
        As in `fit_table`.
    half_life, on_drift
        As in `partial_fit`.
    checkpoint : path, default=None
        The file to save to; None saves nothing.
    every_rows, every_seconds : int and float, default=None
        When to save: after so many rows or seconds, whatever comes first; neither is every minute. In any
        case it is done at the end. Checkpoints fall between blocks.
    resume : bool, default=False
        Go on from the checkpoint where there is one. Without it a checkpoint that is there is an error. The
        model is the one that the stream began with, one that is not fitted, or one that the checkpoint was
        made of: a new fit is refused, since its models would give way to those of the checkpoint.
    trusted : list of str, default=()
        Types in the checkpoint to trust, as in `evenhand.load`: trees of scikit-learn need it.
    block_rows : int, default=16384
        Rows that an estimator scores at a time.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.datasets import make_population
    >>> from evenhand.tables import stream_table
    >>> data = make_population(40_000, n_groups=2, random_state=0)
    >>> chunks = [(data.scores[i : i + 900], data.group_proba[i : i + 900]) for i in range(0, 40_000, 900)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "stream.evenhand")
    ...     half = stream_table(ParityPostprocessor(), chunks[:20], checkpoint=path)
    ...     resumed = stream_table(ParityPostprocessor(), chunks, checkpoint=path, resume=True)
    >>> at_once = stream_table(ParityPostprocessor(), chunks)
    >>> bool((resumed.multipliers_ == at_once.multipliers_).all())
    True
    """
    saved = Checkpoints(checkpoint, every_rows, every_seconds)
    begun = copy(model)  # a table that cannot be opened leaves the model as it was
    row = saved.restore(begun, resume=resume, trusted=trusted)
    if checkpoint is not None:
        named = {"columns": columns, "scores": scores, "group_proba": group_proba, "strata": strata}
        keep_reading(begun, {**named, "sensitive_features": sensitive_features, "half_life": half_life})
    reader = make_reader(begun, columns, scores, group_proba, sensitive_features, strata)
    table = reader.open(source)
    become(model, begun)
    options: dict[str, Any] = {"half_life": half_life, "on_drift": on_drift}
    if strata is not None:
        options["strata"] = strata
    again = tail_rows(model) if row else 0
    with showing(progress):
        try:
            for block in table.blocks(check_size(block_rows), row - again, again):
                if again:
                    require_same_rows(model, count_rows(block), reader.inputs(block))
                    again = 0
                    continue
                after = row + count_rows(block)
                with blaming(row, after):
                    arguments, keywords = reader.inputs(block)
                    advance(model, after, *arguments, **keywords, **options)
                saved.note(after, after - row, (arguments, keywords))
                row = after
                saved.save_if_due(model, row)
                report_progress("stream", row, table.n_rows)
            if again:
                raise too_short(row - again, row)
        except KeyboardInterrupt:
            row = place_of(model)
            if row == 0:
                raise
            warnings.warn(
                f"Interrupted: the model stands as after row {row} of the table.",
                InterruptWarning,
                stacklevel=2,
            )
        saved.save(model, row)
    return model
