"""How far a pass over a table is: the user's function, or a bar, listens to what is reported."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from evenhand._utils.optional import import_optional
from evenhand._utils.progress import listening

UNITS = {"read": " rows", "solve": " steps", "stream": " rows", "predict": " rows"}  # of each stage


@dataclass(frozen=True, slots=True)
class TableProgress:
    """Where a computation over a table is."""

    stage: str  # "read", "solve", "stream" or "predict"
    done: int  # rows, and iterations of the solver in "solve"
    total: int | None  # None where it is not known


Reporter: TypeAlias = Callable[[TableProgress], object]


@contextmanager
def showing(progress: bool | Reporter | None) -> Iterator[None]:
    """Show what the block of `with` reports to the user's function, or in a bar where that is True.

    Without either, whoever listened before still does.
    """
    with ExitStack() as stack:
        if progress:
            show = progress if callable(progress) else stack.enter_context(closing(_Bars())).show

            def hear(stage: str, done: float, total: float | None) -> None:
                if stage in UNITS:  # a file being read and a solver's stages are parts of these
                    show(TableProgress(stage, int(done), None if total is None else int(total)))

            stack.enter_context(listening(hear))
        yield


class _Bars:
    """One bar for each stage, the last one open."""

    def __init__(self) -> None:
        self._make = import_optional("tqdm", extra="tables", purpose="progress=True").tqdm
        self._stage: str | None = None
        self._bar: Any = None

    def show(self, now: TableProgress) -> None:
        if now.stage != self._stage:
            self.close()
            self._stage, unit = now.stage, UNITS[now.stage]
            self._bar = self._make(
                total=now.total, desc=now.stage, unit=unit, unit_scale=True, mininterval=0.5
            )
        self._bar.update(now.done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
