"""Checkpoints: a stream's model and its place in the table, in one model file that is always whole."""

import hashlib
import os
import sys
from collections.abc import Iterable
from copy import copy
from numbers import Real
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import scipy.sparse

from evenhand._utils.atomic import remove_leftovers
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.modelfile import ModelFileError, load, save
from evenhand.tables.digests import digest
from evenhand.tables.model_inputs import Model, as_frame
from evenhand.tables.sources import too_short

SECONDS = 60.0  # between checkpoints, where nothing is said

_PLACE = "table_position_"  # the attribute of the model that says how much of the table it has seen
_ORIGIN = "table_origin_"  # a digest of the model as it was before the table
_READING = "table_reading_"  # how the table was read: the columns, and half_life
_TAIL = "table_tail_"  # how many rows came last, and their digest
_ABOUT_TABLE = (_PLACE, _ORIGIN, _READING, _TAIL)

# parts of an estimator that go along with a stream: all else stays as it was fitted
_MOVING = ("step_", "stream_")

# parameters of estimators that say which parity is asked for
_NOTION = ("criterion", "pos_label", "cost_matrix", "aware", "attributes", "conditional_on")


class Checkpoints:
    """Where and when the model of a stream is saved; without a path, never.

    A checkpoint is a model file like any other: `evenhand.load` opens it, and it predicts.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        every_rows: int | None,
        every_seconds: float | None,
    ) -> None:
        for name, value in (("every_rows", every_rows), ("every_seconds", every_seconds)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive: got {value!r}.")
            if value is not None and path is None:
                raise ValueError(
                    f"{name} says when to save a checkpoint, but there is none: pass checkpoint=."
                )
        self.path = None if path is None else Path(path)
        self._every_rows = every_rows
        self._every_seconds = SECONDS if every_rows is None and every_seconds is None else every_seconds
        self._last_time = monotonic()
        self._last_row: int | None = None  # until the first one
        self._last_block: tuple[int, int, Any] = 0, 0, None

    def restore(self, model: Model, *, resume: bool, trusted: Iterable[str]) -> int:
        """Make `model` that of the checkpoint, where there is one to resume; the row to go on from."""
        if resume and self.path is None:
            raise ValueError("resume=True needs the file to resume from: pass checkpoint=.")
        if self.path is not None and resume:
            remove_leftovers(self.path)
        if self.path is None or not self.path.exists():
            for name in _ABOUT_TABLE:  # of another table
                model.__dict__.pop(name, None)
            if self.path is not None:
                setattr(model, _ORIGIN, digest(_learned(model)))
            return 0
        if not resume:
            raise FileExistsError(
                f"{self.path} holds a checkpoint already. Go on from it with resume=True, or remove it first."
            )
        saved = load(self.path, trusted=trusted)
        place = vars(saved).get(_PLACE)
        if type(place) is not int or place < 0 or not _is_streaming(saved):
            raise ModelFileError(f"{self.path} is a model, but no checkpoint: it has no place in a table.")
        _require_same_settings(model, saved)
        _require_same_fit(model, saved, self.path)
        model.__dict__.update(_fitted(saved))
        self._last_row = place
        return place

    def save_if_due(self, model: Model, row: int) -> None:
        """Save where enough rows or seconds have gone by."""
        n_rows = row - (self._last_row or 0)
        by_rows = self._every_rows is not None and n_rows >= self._every_rows
        by_time = self._every_seconds is not None and monotonic() - self._last_time >= self._every_seconds
        if by_rows or by_time:
            self.save(model, row)

    def save(self, model: Model, row: int) -> None:
        """Save now, unless that has been done."""
        if self.path is None or row == self._last_row:
            return
        model.__dict__.pop(_TAIL, None)
        after, n_rows, inputs = self._last_block
        if n_rows and after == row:  # not where an interrupt came between the two
            setattr(model, _TAIL, (n_rows, rows_digest(inputs)))
        save(model, self.path)
        self._last_row, self._last_time = row, monotonic()

    def note(self, row: int, n_rows: int, inputs: Any) -> None:
        """What the model has taken in last: `n_rows` rows, up to `row`."""
        self._last_block = row, n_rows, inputs


def advance(model: Model, row: int, *arguments: Any, **keywords: Any) -> None:
    """Give rows to `partial_fit` and note the place, both at once: an interrupt finds both or neither."""
    after = copy(model)
    after.partial_fit(*arguments, **keywords)
    setattr(after, _PLACE, row)
    become(model, after)


def become(model: Model, other: Model) -> None:
    """Take over what a copy has learned, and its place, if any."""
    for name in _ABOUT_TABLE:
        if name not in vars(other):
            model.__dict__.pop(name, None)
    model.__dict__.update(vars(other))


def place_of(model: Model) -> int:
    """How many rows of its table the model has seen."""
    return int(vars(model).get(_PLACE, 0))


def keep_reading(model: Model, reading: dict[str, Any]) -> None:
    """Note how the table is read; refuse to go on with a stream that was read in another way."""
    given = {name: _plain(value) for name, value in reading.items()}
    kept = vars(model).get(_READING)
    if place_of(model) and isinstance(kept, dict):
        for name, value in given.items():
            if kept.get(name) != value:
                raise ValueError(
                    f"The checkpoint was made with {name}={kept.get(name)!r}, and now {name}={value!r} is "
                    "given. Resume with the same, or start a checkpoint of its own."
                )
    setattr(model, _READING, given)


def tail_rows(model: Model) -> int:
    """How many rows before its place a resumed stream looks at again; 0 where it has none to compare."""
    n_rows, _ = _tail(model)
    return n_rows if 0 < n_rows <= place_of(model) else 0


def require_same_rows(model: Model, n_given: int, inputs: Any) -> None:
    """Refuse a table whose rows before the checkpoint are not those that the model has seen."""
    n_rows, digest_before = _tail(model)
    if n_given < n_rows:
        raise too_short(place_of(model) - n_rows + n_given, place_of(model))
    if rows_digest(inputs) != digest_before:
        first, last = place_of(model) - n_rows, place_of(model) - 1
        raise ValueError(
            f"Rows {first} to {last} of the table are not those that the checkpoint was made of: they have "
            "changed, moved or gone. Give the same table, to which rows may have been added, or start anew."
        )


def rows_digest(inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> str:
    """A text that is the same for the same rows as `partial_fit` takes them, in arrays or frames."""
    arguments, keywords = inputs
    parts = [
        *map(_part_digest, arguments),
        *(name + _part_digest(keywords[name]) for name in sorted(keywords)),
    ]
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def _part_digest(part: Any) -> str:
    if part is None:
        return "none"
    if scipy.sparse.issparse(part):
        part = part.tocsr().sorted_indices()
        return digest((part.shape, part.data, part.indices.astype(np.int64), part.indptr.astype(np.int64)))
    if isinstance(part, np.ndarray):
        return digest(np.ascontiguousarray(part))
    frame = as_frame(part)
    cells = {name: frame[name].to_list() for name in frame.columns}
    return hashlib.sha256(repr(cells).encode()).hexdigest()


def _tail(model: Model) -> tuple[int, str]:
    kept = vars(model).get(_TAIL)
    if type(kept) is tuple and len(kept) == 2 and type(kept[0]) is int and type(kept[1]) is str:
        return kept
    return 0, ""


def _plain(value: Any) -> Any:
    """A setting as a model file holds it and gives it back."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Real) else repr(value)


def _is_streaming(model: Any) -> bool:
    """Whether `partial_fit` came last: a fit ends a stream."""
    return "stream_" in vars(model)


def _fitted(model: Model) -> dict[str, Any]:
    params = model.get_params(deep=False)
    return {name: value for name, value in vars(model).items() if name not in params}


def _require_same_settings(model: Model, saved: Any) -> None:
    """Refuse a checkpoint of another model: what it has learned is not about this one's settings."""
    if type(saved) is not type(model):
        raise ValueError(
            f"The checkpoint holds a {type(saved).__name__}, but the model is a {type(model).__name__}."
        )
    given, kept = model.get_params(deep=False), saved.get_params(deep=False)
    for name in (*ParityPostprocessor().get_params(), *_NOTION):
        if name in given and _written_out(given[name]) != _written_out(kept[name]):
            raise ValueError(
                f"The checkpoint was made with {name}={kept[name]!r}, but the model has {name}="
                f"{given[name]!r}. Resume with the same settings, or start a checkpoint of its own."
            )


def _require_same_fit(model: Model, saved: Any, path: Path) -> None:
    """Refuse a checkpoint of another fit: to resume would put its models in the place of those given.

    The model may be what the stream began with, what the checkpoint holds, or what was on its way between
    them when it stopped. One that is not fitted has nothing to lose, and a model that was saved by hand does
    not say what its stream began with.
    """
    given, kept = _learned(model), _learned(saved)
    origin = vars(saved).get(_ORIGIN)
    if not given or digest(given) in (origin, digest(kept)):
        return
    same_models = digest(_models(given)) == digest(_models(kept))
    on_its_way = _is_streaming(model) and vars(model).get(_ORIGIN) == origin
    if not (same_models and (origin is None or on_its_way)):
        what = "the parity step" if same_models else "the models of the outcome and of the group"
        raise ValueError(
            f"{path} is a checkpoint of another fit: {what} of the given model would be lost. Start a "
            "checkpoint of its own for the new fit, or remove this one. To go on with what the checkpoint "
            "holds, pass the model that the stream began with, or one that is not fitted."
        )


def _learned(model: Model) -> dict[str, Any]:
    """All that a fit or a stream has left, but for what is said of the table."""
    return {name: part for name, part in _fitted(model).items() if name not in _ABOUT_TABLE}


def _models(learned: dict[str, Any]) -> dict[str, Any]:
    """What stays as it was fitted while the stream goes on; nothing where there is a parity step alone."""
    if "scorer_" not in learned:
        return {}
    return {name: part for name, part in learned.items() if name not in _MOVING}


def _written_out(value: Any) -> str:
    """A setting as text, arrays with every number and every digit."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(value)
