"""One BLAS thread while a solver runs.

Its factorisations are small, and on a busy machine BLAS threads that wait for each other by spinning made
one of them take 0.3 s instead of 1 ms; they also take cores from the threads of `chunks.py`.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import scipy.linalg  # noqa: F401  (its BLAS must be loaded before it can be limited)
from threadpoolctl import ThreadpoolController


class _Turn:
    """Whose turn it is to limit; a forked child starts with nobody's."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock = threading.Lock()


_turn = _Turn()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turn.reset)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: a few milliseconds, once


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, and lift the limit afterwards.

    The limit is the whole process's: the first thread that comes sets it and lifts it, and those that
    come meanwhile just run. The worst that a crowd can see is a limit that is lifted early.
    """
    lock = _turn.lock
    if not lock.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        lock.release()
