"""Compute the cells of an experiment in parallel, each of them once, so that a stopped run can go on.

A cell is one piece of an experiment that needs nothing from the others. Its rows are written to a file of
their own as soon as they are computed. The name of the file depends on all settings of the cell: a run that
was killed goes on where it was, and a run with other settings never reads these rows.
"""

import hashlib
import json
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from types import FrameType
from typing import Any

from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import threadpool_limits

from evenhand._kernels.chunks import get_num_threads, set_num_threads
from evenhand._utils.atomic import whole_file
from evenhand._utils.version import __version__
from reproduction.frames import Row, read_commit

Progress = Callable[[int, int, str], None]  # cells done, cells in all, name of the last one
Compute = Callable[["Cell"], list[Row]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of an experiment, with everything that its result depends on."""

    experiment: str
    dataset: str
    split: int  # seed of the split
    method: str
    settings: tuple[tuple[str, Any], ...] = ()

    def __getitem__(self, name: str) -> Any:
        """The value of a setting, by its name."""
        return dict(self.settings)[name]

    @property
    def key(self) -> str:
        """Name of the file that holds its rows.

        >>> Cell("timing", "adult", 0, "batch").key == Cell("timing", "adult", 0, "batch").key
        True
        """
        text = json.dumps([asdict(self), __version__], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.experiment}-{self.dataset}-{self.split}-{self.method}-{digest}"


def run_cells(
    cells: Sequence[Cell],
    compute: Compute,
    store: Path,
    *,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Return the rows of all cells, in the cells' order; those in `store` are read, not computed again.

    Parameters
    ----------
    cells : sequence of Cell
    compute : callable
        `compute(cell)` returns the cell's rows: dicts of numbers and text. It must be importable by name
        where cells run in other processes.
    store : Path
        Folder of the finished cells, one file each; one that is cut short counts as not computed.
    n_jobs : int or None, default=None
        Cells computed at the same time, in processes of one thread each. None: one.
    progress : callable, default=None
        Called with the cells done, their number, and the name of the last one: at the start, and after
        every cell.

    Returns
    -------
    list of dict
        The cells' own names (dataset, split, method) and what `compute` returned.
    """
    store.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in dict.fromkeys(cells) if _stored(store, cell) is None]
    done = len(set(cells)) - len(missing)
    report = progress or _silent
    report(done, done + len(missing), "")
    work = (delayed(_finish)(cell, compute, store) for cell in missing)
    finished = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)(work)
    for number, name in enumerate(finished, start=done + 1):
        report(number, done + len(missing), name)
    return [row for cell in dict.fromkeys(cells) for row in _read(store, cell)]


def made_at(cells: Sequence[Cell], store: Path) -> list[str]:
    """Commits at which finished cells were computed: more than one where a run went on after a change."""
    return sorted({_record(store, cell).get("commit") or "unknown" for cell in cells})


def _finish(cell: Cell, compute: Compute, store: Path) -> str:
    """Compute a cell and store its rows: all of them or, if the process ends before, none."""
    begin = perf_counter()
    with _one_thread(), _whole_or_interrupted(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clipped scores and spent budgets are part of what is studied
        rows = compute(cell)
    seconds = perf_counter() - begin
    record = {"cell": asdict(cell), "commit": read_commit(), "seconds": seconds, "rows": rows}
    with whole_file(_file(store, cell)) as file:
        file.write(json.dumps(record).encode())
    return cell.key


def _read(store: Path, cell: Cell) -> Iterator[Row]:
    names = {"dataset": cell.dataset, "split": cell.split, "method": cell.method}
    for row in _record(store, cell)["rows"]:
        yield names | row


def _record(store: Path, cell: Cell) -> dict[str, Any]:
    record = _stored(store, cell)
    if record is None:
        raise FileNotFoundError(
            f"{_file(store, cell)} holds no finished cell, though it was computed: another run may be at "
            "work in this folder. Run again."
        )
    return record


def _stored(store: Path, cell: Cell) -> dict[str, Any] | None:
    """The record of a finished cell; None if there is none, or if it was cut short (full disk, power cut)."""
    try:
        record = json.loads(_file(store, cell).read_text())
    except (FileNotFoundError, ValueError):  # a file cut short is no valid UTF-8 or JSON: a ValueError
        return None
    return record if isinstance(record, dict) and isinstance(record.get("rows"), list) else None


def _file(store: Path, cell: Cell) -> Path:
    return store / f"{cell.key}.json"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: cells run in several processes, and more threads would only compete for the cores."""
    before = get_num_threads()
    set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        set_num_threads(before)


@contextmanager
def _whole_or_interrupted() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if there was one: solvers take it as a reason to stop early."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # no interrupt comes to other threads, or to a process that ignores them
        return
    interrupted = threading.Event()

    def note(number: int, frame: FrameType | None) -> Any:
        interrupted.set()
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _silent(done: int, total: int, name: str) -> None:
    """Report no progress."""
