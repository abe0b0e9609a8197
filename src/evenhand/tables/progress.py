"""How far a pass over a table is: a callback, or a bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand._utils.optional import import_optional


@dataclass(frozen=True, slots=True)
class TableProgress:
    """Where a computation over a table is."""

    stage: str  # "read", "solve", "stream" or "predict"
    done: int  # rows, and iterations of the solver in "solve"
    total: int | None  # None where it is not known


Reporter: TypeAlias = Callable[[TableProgress], object]


@contextmanager
def reporting(progress: bool | Reporter | None) -> Iterator[Reporter]:
    """What to call with each `TableProgress`: the user's function, a bar for True, or nothing."""
    if callable(progress):
        yield progress
    elif not progress:
        yield lambda now: None
    else:
        bars = _Bars(import_optional("tqdm", extra="tables", purpose="progress=True").tqdm)
        try:
            yield bars.show
        finally:
            bars.close()


class _Bars:
    """One bar for each stage, the last one open."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._stage: str | None = None
        self._bar: Any = None

    def show(self, now: TableProgress) -> None:
        if now.stage != self._stage:
            self.close()
            unit = " steps" if now.stage == "solve" else " rows"
            self._stage, self._bar = (
                now.stage,
                self._make(total=now.total, desc=now.stage, unit=unit, unit_scale=True, mininterval=0.5),
            )
        self._bar.update(now.done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
