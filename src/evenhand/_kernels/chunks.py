"""Fixed chunks of rows, run by a thread pool, reduced in order.

The chunks depend on the number of rows alone, so every result is the same, bit for bit, for any
number of threads. The kernels release the GIL and never submit work themselves: many callers may
share the pool. A forked child starts with a pool of its own.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from evenhand._kernels.softmax import LANES
from evenhand._utils.warn import warn_user
from evenhand.exceptions import EvenhandWarning

T = TypeVar("T")

MAX_CHUNKS = 64  # bounds the memory of partial results, whatever the number of rows
MIN_CHUNK = 8 * LANES
SERIAL_WORK = 400_000  # (row x atom) for which a thread is worth waking


def _default_threads() -> int:
    asked = os.environ.get("EVENHAND_NUM_THREADS", "").strip()
    if asked.isascii() and asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if asked not in ("", "0"):  # 0 is all cores, as elsewhere; nobody's import fails for a variable
        warn_user(
            f"EVENHAND_NUM_THREADS must be a positive integer, or 0 for all cores: got {asked!r}. It is left "
            "aside.",
            EvenhandWarning,
        )
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """The lazily started thread pool of this process."""

    def __init__(self) -> None:
        self.n_threads = _default_threads()
        self.reset()

    def reset(self) -> None:
        """Forget the threads, which a fork does not copy, and the lock, which one may have held."""
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    def resize(self, n_threads: int) -> None:
        with self._lock:
            self._executor = None  # the old threads finish what they have and end
            self.n_threads = n_threads

    def executor(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self.n_threads, thread_name_prefix="evenhand")
            return self._executor


_pool = _Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.reset)


def get_num_threads() -> int:
    """Number of threads that the compiled loops use."""
    return _pool.n_threads


def set_num_threads(n_threads: int) -> None:
    """Set the number of threads of the compiled loops; results do not depend on it.

    The start value is `EVENHAND_NUM_THREADS`, or the number of cores this process may use.

    >>> import evenhand
    >>> evenhand.set_num_threads(evenhand.get_num_threads())
    """
    if isinstance(n_threads, bool) or not isinstance(n_threads, int) or n_threads < 1:
        raise ValueError(f"n_threads must be a positive integer: got {n_threads!r}.")
    _pool.resize(n_threads)


def chunk_bounds(n_rows: int, least: int = MIN_CHUNK) -> list[tuple[int, int]]:
    """Bounds of chunks of the rows: at most `MAX_CHUNKS`, whole blocks of lanes, `least` rows in each."""
    size = max(least, -(-n_rows // MAX_CHUNKS))
    size = -(-size // LANES) * LANES
    return [(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def map_chunks(
    kernel: Callable[[int, int], T], n_rows: int, row_work: int, least: int = MIN_CHUNK
) -> Iterator[T]:
    """Results of `kernel(start, stop)` on every chunk, in the chunks' order.

    At most two results for each thread wait to be taken. Large results want chunks of more rows, `least`.
    """
    return map_each(kernel, chunk_bounds(n_rows, least), n_rows * row_work)


def map_each(kernel: Callable[..., T], tasks: Sequence[tuple[Any, ...]], work: int) -> Iterator[T]:
    """Results of `kernel(*task)` for every task, in their order: in turn where all are little work.

    Threads take several small tasks at once.
    """
    together = -(-SERIAL_WORK * len(tasks) // max(work, 1))
    if len(tasks) <= together or _pool.n_threads == 1:
        yield from (kernel(*task) for task in tasks)
        return

    def run(some: Sequence[tuple[Any, ...]]) -> list[T]:
        return [kernel(*task) for task in some]

    executor = _pool.executor()
    waiting: deque[Future[list[T]]] = deque()
    for first in range(0, len(tasks), together):
        waiting.append(executor.submit(run, tasks[first : first + together]))
        if len(waiting) > 2 * _pool.n_threads:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


def run_chunks(kernel: Callable[[int, int], None], n_rows: int, row_work: int) -> None:
    """Call `kernel(start, stop)`, which writes into arrays of its own, on every chunk."""
    for _ in map_chunks(kernel, n_rows, row_work):
        pass
