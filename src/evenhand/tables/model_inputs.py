"""From blocks of a table to what a model takes, with the columns that it needs and no others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.frames import frame_from_arrow
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows, as_floats, check_rows_of, check_strata, column_labels
from evenhand.dual.costs import make_cost
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.tables.numbers import Layout
from evenhand.tables.sources import Chunk, Source, open_source

Model = ParityPostprocessor | ParityEstimator

NAMELESS = "The columns of a post-processor must be named: pass scores='...' and group_proba=[...]."


@dataclass(frozen=True, slots=True, eq=False)
class TableReader:
    """Which columns of a table are what to a model."""

    model: Model
    features: list[str] | None  # of an estimator; None: all columns
    scores: str | list[str] | None  # of a post-processor; several are class probabilities
    group_proba: list[str] | None  # of a post-processor
    strata: list[Any] | None  # of a post-processor, one for each of group_proba
    sensitive_features: list[str] | None  # of an aware estimator

    def open(self, source: Any, *others: str | None) -> Source:
        """The table with the columns that the model needs, numbers in CSV files, and some others."""
        needed = self._needed()
        more = [*(self.sensitive_features or ()), *(name for name in others if name is not None)]
        return open_source(
            source, self.columns(*others), text=[name for name in more if name not in (needed or ())]
        )

    def columns(self, *others: str | None) -> list[str] | None:
        """Columns that the model needs, and some others; None is all."""
        needed = self._needed()
        if needed is None:
            return None
        more = [*(self.sensitive_features or ()), *(name for name in others if name is not None)]
        return list(dict.fromkeys([*needed, *more]))

    def layout(self) -> Layout:
        """What the numbers of a row will be, told without a row."""
        model = self.model
        if isinstance(model, ParityEstimator):
            return Layout(model.step_.groups, model.strata_.codes(), model.policy_.cost.n_classes)
        if self.scores is None or self.group_proba is None:
            raise ValueError(NAMELESS)
        groups: Labels = tuple(self.group_proba)
        strata = None
        if self.strata is not None:
            strata, groups = check_strata(self.strata, groups)
        return Layout(groups, strata, make_cost(model.cost).n_classes)

    def arguments(self, block: Chunk) -> tuple[Any, ...]:
        """Positional arguments of the model's methods for a block."""
        if isinstance(self.model, ParityEstimator):
            return (self._features_of(block),)
        if isinstance(block, tuple):
            return block
        if self.scores is None or self.group_proba is None:
            raise ValueError(NAMELESS)
        frame = as_frame(block)
        scores = frame[self.scores] if isinstance(self.scores, str) else frame.select(self.scores)
        return scores.to_numpy(), frame.select(self.group_proba).to_native()

    def keywords(self, block: Chunk) -> dict[str, Any]:
        """Keyword arguments of the model's methods for a block: the groups, for aware models."""
        if self.sensitive_features is None:
            return {}
        return {"sensitive_features": _as_rows_frame(as_frame(block).select(self.sensitive_features))}

    def inputs(self, block: Chunk) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the model's methods for a block."""
        return self.arguments(block), self.keywords(block)

    def rows(self, block: Chunk, groups: Labels | None, strata: IntArray | None) -> Rows:
        """Checked scores and group probabilities; without `groups`, the block says what they are."""
        model = self.model
        if isinstance(model, ParityEstimator):
            (X,) = self.arguments(block)
            scores, proba = model.predict_scores(X, **self.keywords(block))
            return Rows(scores, proba, model.step_.groups, None, model.strata_.codes())
        given, group_proba = self.arguments(block)
        if groups is None:
            groups = column_labels(group_proba)
            if self.strata is not None:
                strata, groups = check_strata(self.strata, groups)
        return check_rows_of(given, group_proba, groups, strata, make_cost(model.cost).n_classes)

    def _needed(self) -> list[str] | None:
        if isinstance(self.model, ParityEstimator):
            return None if self.features is None else list(self.features)
        if self.scores is None or self.group_proba is None:
            return None
        return [*([self.scores] if isinstance(self.scores, str) else self.scores), *self.group_proba]

    def _features_of(self, block: Chunk) -> Any:
        frame = nw.from_native(block, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            return block
        if self.features is not None:
            frame = frame.select(self.features)
        if not hasattr(self.model, "feature_names_in_"):
            return frame.to_numpy()
        return _as_rows_frame(frame)


def make_reader(
    model: Model,
    columns: Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    group_proba: Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    strata: Sequence[Any] | None = None,
) -> TableReader:
    """The reader for a model; a fitted estimator knows the names of its features."""
    if isinstance(group_proba, str) or isinstance(columns, str):
        raise ValueError("columns and group_proba take a list of names: got one text.")
    if isinstance(model, ParityEstimator):
        check_is_fitted(model, "step_")
        if scores is not None or group_proba is not None or strata is not None:
            raise ValueError(
                "scores, group_proba and strata are for a ParityPostprocessor: an estimator makes its own."
            )
        names = columns if columns is not None else getattr(model, "feature_names_in_", None)
        given = [sensitive_features] if isinstance(sensitive_features, str) else sensitive_features
        groups = None if given is None else list(given)
        return TableReader(model, None if names is None else list(names), None, None, None, groups)
    if not isinstance(model, ParityPostprocessor):
        raise TypeError(
            f"model must be a ParityPostprocessor or a fitted estimator of evenhand: got {model!r}."
        )
    if columns is not None or sensitive_features is not None:
        raise ValueError("A ParityPostprocessor reads scores= and group_proba=, not features or groups.")
    of_scores = scores if scores is None or isinstance(scores, str) else list(scores)
    shares = None if group_proba is None else list(group_proba)
    return TableReader(model, None, of_scores, shares, None if strata is None else list(strata), None)


def as_frame(block: Chunk) -> "nw.DataFrame[Any]":
    """The block as a frame, or an error that names what it is."""
    frame = nw.from_native(block, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"Named columns need a frame: got a chunk of type {type(block).__name__}.")
    return frame


def read_column(block: Chunk, name: str) -> Any:
    """One column of a block as an array."""
    return as_frame(block)[name].to_numpy()


def read_ids(block: Chunk, name: str, is_text: bool, first_row: int) -> Any:
    """Who the rows of a block are; where all cells are text, integers among them are numbers."""
    if not as_frame(block).implementation.is_pyarrow():
        return read_column(block, name)
    from evenhand.tables.columns import as_ids, require_ids  # not above: Arrow is an extra

    if is_text:
        return as_ids(block, name, first_row)
    require_ids(block, name, first_row)
    return read_column(block, name)


def read_weights(block: Chunk, name: str | None) -> FloatArray | None:
    """The weights of a block, nonnegative and not scaled."""
    if name is None:
        return None
    weights = as_floats(read_column(block, name), f"Column {name!r}")
    if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0:
        raise ValueError(f"Column {name!r} holds weights: they must be finite and not negative.")
    return weights


def _as_rows_frame(frame: "nw.DataFrame[Any]") -> Any:
    """The frame of a library that models take: Arrow tables become frames of pandas or polars."""
    native = frame.to_native()
    return frame_from_arrow(native) if frame.implementation.is_pyarrow() else native
