"""One BLAS thread while a solver runs.

Its factorisations are small, and on a busy machine BLAS threads that wait for each other by spinning made
one of them take 0.3 s instead of 1 ms; they also take cores from the threads of `chunks.py`. The limit is
the whole process's, so callers in several threads share it: the first sets it, the last lifts it.
"""

import os
import threading
from functools import cache
from types import TracebackType

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: a few milliseconds, once


class _OneBlasThread:
    """A context that many threads may be in at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limit: object = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._lift()

    def _lift(self) -> None:
        limit, self._limit = self._limit, None
        limit.restore_original_limits()  # type: ignore[attr-defined]

    def after_fork(self) -> None:
        """In a child nobody is inside, whoever was when the parent forked."""
        self._lock = threading.Lock()
        self._n_inside = 0
        if self._limit is not None:
            self._lift()


one_blas_thread = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)
