"""What a person sees: tables and sentences, bars for what takes long; or one JSON object for machines."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from evenhand._utils.progress import listening
from evenhand._utils.text import plain

MOST_ROWS = 30  # of a table on the terminal


@dataclass(frozen=True, slots=True)
class Terminal:
    """Standard output for results, standard error for bars and notes."""

    quiet: bool = False
    as_json: bool = False
    data_on_stdout: bool = False  # the rows themselves go there, so that words must not

    def say(self, text: str) -> None:
        """A sentence for a person."""
        if not self.quiet and not self.as_json:
            console = self._console()
            console.print(Text(text), soft_wrap=not console.is_terminal)  # a file has no edge to wrap at

    def note(self, text: str) -> None:
        """Something to know beside the result, on standard error."""
        if not self.quiet:
            write_line(f"note: {plain(text)}")

    def table(self, head: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
        """Aligned columns, the first to the left, the others to the right."""
        if self.quiet or self.as_json:
            return
        table = Table(box=box.SIMPLE_HEAD, title=Text(title) if title else None, title_justify="left")
        for place, name in enumerate(head):
            table.add_column(Text(plain(name)), justify="right" if place else "left", overflow="fold")
        for row in rows[:MOST_ROWS]:
            table.add_row(*(Text(cell(value)) for value in row))
        console = self._console()
        if not console.is_terminal:
            console.width = max(console.width, 160)  # a file has no edge to fold at
        console.print(table)
        if len(rows) > MOST_ROWS:
            self.say(f"and {len(rows) - MOST_ROWS} more rows: --json has them all.")

    def result(self, facts: dict[str, Any]) -> None:
        """The facts as one JSON object, where machines listen."""
        if self.as_json:
            sys.stdout.write(json.dumps(clean(facts), allow_nan=False, ensure_ascii=False) + "\n")

    @contextmanager
    def working(self, title: str) -> Iterator[None]:
        """A bar with the time left, for whatever reports its progress inside; none where nobody looks."""
        console = Console(stderr=True)
        if self.quiet or not console.is_terminal:
            yield
            return
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        ) as bars:
            task = bars.add_task(title, total=None)
            bar = bars.tasks[0]

            def hear(stage: str, done: float, total: float | None) -> None:
                described = f"{title}: {stage}"
                if bar.description != described:
                    if bar.total is not None and bar.completed < bar.total:
                        return  # a part of what the bar shows already
                    bars.reset(task, description=described)
                bars.update(task, completed=done, total=total)

            with listening(hear):
                yield

    def _console(self) -> Console:
        return Console(stderr=self.data_on_stdout, highlight=False)


def write_line(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"evenhand: {text}\n")


def cell(value: object) -> str:
    """A number to four figures, anything else as one line of text."""
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.4g}"
    return plain(value)


def share(value: float) -> str:
    """A share as a signed percentage."""
    return f"{100 * value:+.1f} %"


def clean(value: Any) -> Any:
    """Plain Python values that JSON can hold; null for what is not finite."""
    if isinstance(value, dict):
        return {str(key): clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [clean(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)
