"""Raw columns as the graph takes them, and tables that come of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from evenhand._utils.text import some_of
from evenhand._utils.typing import AnyArray
from evenhand.data.draws import HashArray
from evenhand.estimators.models import frame_kinds
from evenhand.onnx_export.graph import Graph
from evenhand.onnx_export.hashing import hash_features, number_cells, text_cells

NUMBER, TEXT = "number", "text"


class NoConverterError(Exception):
    """A part of a model that has no form in ONNX; the text says which."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a graph: one tensor of numbers, or one for each column where some hold text."""

    graph: Graph
    matrix: str | None  # (n_rows, n_columns)
    cells: tuple[tuple[str, str], ...]  # kind and tensor, (n_rows, 1), of each column without a matrix
    names: tuple[Any, ...]  # of the columns; their numbers where they have none

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def place(self, key: Any) -> int:
        """Number of the column of this name or number."""
        if key in self.names:
            return self.names.index(key)
        if isinstance(key, int | np.integer) and -self.width <= key < self.width:
            return int(key) % self.width
        raise NoConverterError(f"column {key!r}, which is not among those of the fit")

    def take(self, places: Sequence[int]) -> "Table":
        """Some of the columns."""
        names = tuple(self.names[place] for place in places)
        if self.matrix is not None:
            same = list(places) == list(range(self.width))
            matrix = self.matrix if same else self.graph.columns(self.matrix, places)
            return replace(self, matrix=matrix, names=names)
        return replace(self, cells=tuple(self.cells[place] for place in places), names=names)

    def numbers(self) -> str:
        """All columns as numbers, (n_rows, n_columns)."""
        if self.matrix is not None:
            return self.matrix
        text = [name for name, (kind, _) in zip(self.names, self.cells, strict=True) if kind == TEXT]
        if text:
            raise NoConverterError(f"a model of numbers for the text in column {some_of(text)}")
        return self.graph.join([tensor for _, tensor in self.cells])

    def kind(self, place: int) -> str:
        """What a column holds."""
        return NUMBER if self.matrix is not None else self.cells[place][0]

    def column(self, place: int) -> str:
        """One column, (n_rows, 1)."""
        return self.graph.columns(self.matrix, [place]) if self.matrix is not None else self.cells[place][1]

    def hashes(self, key: HashArray) -> str:
        """Keyed hash of each row, (n_rows,), as `uniforms_from_table` has it."""
        if self.matrix is not None:
            return hash_features(self.graph, number_cells(self.graph, self.matrix), self.width, key)
        words = [
            self.graph.column(text_cells(self.graph, self.graph.flat(tensor), key))
            if kind == TEXT
            else number_cells(self.graph, tensor)
            for kind, tensor in self.cells
        ]
        return hash_features(self.graph, self.graph.join(words), self.width, key)


def matrix_table(graph: Graph, matrix: str, width: int) -> Table:
    """A table of numbers, as a transformer leaves it."""
    return Table(graph, matrix, (), tuple(range(width)))


def input_table(graph: Graph, names: Sequence[Any], kinds: Sequence[str]) -> Table:
    """Inputs for raw columns: one table where all are numbers, and one input for each column otherwise."""
    if TEXT not in kinds:
        matrix = graph.add_input("X", graph.dtype, "rows", len(names))
        return Table(graph, matrix, (), tuple(names))
    types = {NUMBER: graph.dtype, TEXT: np.str_}
    cells = [
        (kind, graph.add_input(str(name), types[kind], "rows", 1))
        for name, kind in zip(names, kinds, strict=True)
    ]
    return Table(graph, None, tuple(cells), tuple(names))


def column_kinds(model: Any, columns: Any) -> dict[Any, str]:
    """The kind of each column of a fitted estimator: as it is told, as its encoders say, or a number."""
    names = getattr(model, "feature_names_in_", None)
    names = list(range(model.n_features_in_)) if names is None else names.tolist()
    kinds = dict.fromkeys(names, NUMBER)
    models = [model.estimator_, model.sensitive_estimator_]
    for each in models:
        for part in each if isinstance(each, list) else [each]:
            kinds |= {names[place]: TEXT for place in text_places(part, np.array(names, object))}
    factors = model.strata_.factors or ()
    given = model.conditional_on if isinstance(model.conditional_on, list | tuple) else [model.conditional_on]
    for place, key in enumerate(given if factors else ()):
        values = [value[place] if isinstance(value, tuple) else value for value in factors]
        if all(isinstance(value, str) for value in values):
            kinds[key if key in kinds else names[key]] = TEXT
    return kinds | _told_kinds(columns, names)


def _told_kinds(columns: Any, names: list[Any]) -> dict[Any, str]:
    """Kinds as a user tells them, by a dict or by a frame with such columns."""
    if columns is None:
        return {}
    if isinstance(columns, Mapping):
        told = dict(columns)
    elif hasattr(columns, "columns"):
        told = frame_kinds(columns)
    else:
        raise TypeError(
            f'columns is a dict such as {{"town": "{TEXT}"}}, or a data frame: got {type(columns).__name__}.'
        )
    unknown = [name for name in told if name not in names]
    if unknown:
        raise ValueError(
            f"columns names {some_of(unknown)}, which the model does not know: it was fitted with "
            f"{some_of(names)}."
        )
    wrong = [kind for kind in told.values() if kind not in (NUMBER, TEXT)]
    if wrong:
        raise ValueError(f'The kind of a column is "{NUMBER}" or "{TEXT}": got {wrong[0]!r}.')
    return told


def text_places(model: Any, names: AnyArray) -> set[int]:
    """Numbers of the columns that a fitted model or transformer takes as text, from its categories."""
    if isinstance(model, FrozenEstimator):
        return text_places(model.estimator, names)
    if isinstance(model, Pipeline):
        return text_places(model.steps[0][1], names)
    if isinstance(model, ColumnTransformer):
        found: set[int] = set()
        for _, part, columns in model.transformers_:
            places = column_places(columns, names)
            found |= {places[each] for each in text_places(part, names[places])}
        return found
    for learned in ("categories_", "statistics_"):
        values = getattr(model, learned, None)
        if values is not None:
            return {place for place, each in enumerate(values) if _is_text(each)}
    return set()


def _is_text(values: Any) -> bool:
    """Whether categories, or what fills gaps, are text."""
    cells = np.atleast_1d(np.asarray(values, dtype=object)).tolist()
    return any(isinstance(cell, str) for cell in cells)


def column_places(columns: Any, names: AnyArray) -> list[int]:
    """Numbers of the columns that a ColumnTransformer hands to a part of it."""
    if isinstance(columns, slice):
        return list(range(*columns.indices(len(names))))
    if callable(columns):
        raise NoConverterError("columns that a function chooses")
    listed: Iterable[Any] = [columns] if isinstance(columns, str | int) else list(columns)
    listed = list(listed)
    if listed and isinstance(listed[0], bool | np.bool_):
        return np.flatnonzero(listed).tolist()
    known = names.tolist()
    return [known.index(each) if isinstance(each, str) else int(each) % len(known) for each in listed]
