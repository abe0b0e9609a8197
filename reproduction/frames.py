"""Tables of results: columns in memory, a CSV file on disk, and beside it a JSON file on how it was made."""

import csv
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray
from evenhand._utils.version import __version__

Columns = dict[str, list[Any]]
Row = dict[str, Any]

FRAME_DIGITS = 5
SOURCES = ("src", "reproduction")  # what the frames depend on, in the checkout
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def append_row(columns: Columns, row: Mapping[str, Any]) -> None:
    """Add one row, which has a value for each of the columns."""
    for name, value in row.items():
        columns.setdefault(name, []).append(value)


def to_columns(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Columns of rows; where a row has no value, it is NaN.

    >>> to_columns([{"a": 1}, {"a": 2, "b": 0.5}])
    {'a': [1, 2], 'b': [nan, 0.5]}
    """
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, float("nan")) for row in rows] for name in names}


def to_rows(columns: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Rows of columns.

    >>> to_rows({"a": [1, 2]})
    [{'a': 1}, {'a': 2}]
    """
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def where(columns: Mapping[str, Sequence[Any]], **wanted: Any) -> Columns:
    """The rows in which each named column has the wanted value.

    >>> where({"a": [1, 2, 1], "b": [3, 4, 5]}, a=1)["b"]
    [3, 5]
    >>> where({"a": [1, 2, 1]})["a"]
    [1, 2, 1]
    """
    n_rows = len(next(iter(columns.values()), ()))
    sought = [(columns[name], value) for name, value in wanted.items()]
    kept = [place for place in range(n_rows) if all(column[place] == value for column, value in sought)]
    return {name: [values[place] for place in kept] for name, values in columns.items()}


def unique(columns: Mapping[str, Sequence[Any]], name: str) -> list[Any]:
    """Values of a column, each once, in the order in which they come."""
    return list(dict.fromkeys(columns.get(name, ())))


def numbers(columns: Mapping[str, Sequence[Any]], name: str) -> AnyArray:
    """A column as floats."""
    return np.array(columns[name], dtype=np.float64)


def write_csv(columns: Mapping[str, Sequence[Any]], path: Path, digits: int = 6) -> None:
    """Write columns as a CSV file, numbers with six digits by default."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([f"{value:.{digits}g}" if isinstance(value, float) else value for value in row])


def read_csv(path: Path) -> Columns:
    """Read what `write_csv` wrote; text that reads as a number becomes one."""
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    return {name: [_parse(row[place]) for row in rows] for place, name in enumerate(head)}


def _parse(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def write_frame(columns: Columns, path: Path, about: Mapping[str, Any]) -> None:
    """Write the columns to the CSV file `path`, and `about` as JSON beside it."""
    write_csv(columns, path, FRAME_DIGITS)
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")


def read_about(path: Path) -> dict[str, Any]:
    """Read how the frame at `path` was made."""
    about: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return about


def describe_run(command: str, **more: Any) -> dict[str, Any]:
    """Versions, machine, commit, time and command of a run, to be kept beside its frames."""
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": read_commit(),
        "versions": {
            "evenhand": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": count_cores(),
        },
        **more,
    }


def count_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def read_commit() -> str | None:
    """The commit of this checkout, with `-dirty` if its sources were changed; None if it is no checkout."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], check=True, capture_output=True, text=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *SOURCES]).returncode != 0
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("-dirty" if changed else "")
