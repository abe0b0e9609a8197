"""One BLAS thread while a fit runs.

The factorizations of a solver are small. On a busy machine, BLAS threads that wait for one another by
spinning made one of them take 0.3 s instead of 1 ms. They also compete with the threads of `chunks.py`.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from threadpoolctl import ThreadpoolController


class _Limits:
    """Reference count of active limits, reset after fork."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock = threading.Lock()
        self.active = 0
        self.before: list[int] = []  # threads of each library before the first limit


_limits = _Limits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limits.reset)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of the nested or concurrent callers has left.

    Most libraries have one limit for the whole process, which all callers share: concurrent fits then agree
    to the bit. Those built on OpenMP have one for each thread.
    """
    limits = _limits
    with limits.lock:
        own = [library.num_threads for library in _libraries()]
        if limits.active == 0:
            limits.before = own
        limits.active += 1
        for library in _libraries():
            _set(library, 1)
    try:
        yield
    finally:
        with limits.lock:
            limits.active -= 1
            for library, mine, shared in zip(_libraries(), own, limits.before, strict=True):
                if getattr(library, "threading_layer", None) == "openmp":
                    _set(library, mine)
                elif limits.active == 0:
                    _set(library, shared)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries that are loaded; to find them takes a few milliseconds, once."""
    found: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def _set(library: Any, n_threads: int) -> None:
    """Set the number of threads from any thread: newer versions of threadpoolctl let only one do it."""
    if hasattr(library, "clear_controlling_thread"):
        library.clear_controlling_thread(force=True)
    library.set_num_threads(n_threads)
