"""Predictions of one partition of a table, on the worker that has it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray
from evenhand.tables.model_inputs import TableReader, read_ids
from evenhand.tables.partition_tasks import blame, cut
from evenhand.tables.sources import Chunk

PMF_METHODS = ("predict_pmf", "predict_proba")  # which give as many numbers for a row as there are atoms


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """What is asked of a model for the rows of a cluster's frame."""

    reader: TableReader
    method: str
    name: str  # of the column of predictions
    kept: list[str]  # columns of the source to carry along
    ids: str | None
    options: dict[str, Any]
    block_rows: int

    def blocks(self, chunks: Iterable[Chunk], number: int) -> Iterator[tuple[Chunk, AnyArray]]:
        """Blocks of a partition with their predictions; an error names the partition."""
        for start, chunk in cut(chunks, self.block_rows):
            yield chunk, blame(partial(self._predict, first_row=start + 1), chunk, number, start)

    def values(self) -> AnyArray | None:
        """An array of the type that predictions have; None where they are lists of doubles."""
        if self.method in PMF_METHODS:
            return None
        model = self.reader.model
        return np.asarray(model.classes_) if hasattr(model, "classes_") else np.zeros(1)

    def _predict(self, chunk: Chunk, first_row: int) -> AnyArray:
        asked = dict(self.options)
        if self.ids is not None:
            asked["ids"] = read_ids(chunk, self.ids, is_text=False, first_row=first_row)
        call = getattr(self.reader.model, self.method)
        found: AnyArray = call(*self.reader.arguments(chunk), **self.reader.keywords(chunk), **asked)
        return found
