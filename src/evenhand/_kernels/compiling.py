"""How the loops are compiled: kept on disk where that can be, and a line that says what goes on meanwhile."""

import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import numba
from numba.core import caching, event

from evenhand._utils.warn import warn_user
from evenhand.exceptions import CacheWarning

MESSAGE = (
    "evenhand compiles its loops for this machine, once: some seconds. `evenhand warm-up` does it beforehand."
)
JIT_DISABLED = (
    "evenhand cannot run without numba's compiler, which is switched off (NUMBA_DISABLE_JIT=1). Unset "
    "the environment variable NUMBA_DISABLE_JIT, or remove disable_jit from .numba_config.yaml, and restart "
    "Python."
)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Numba's `njit` with a cache that may fail: a loop that cannot be kept on disk is compiled all the same.

    Containers with read-only files, users without a home, full disks and damaged files of the cache cost the
    seconds of a compilation in each process, and are told of once.
    """
    if numba.config.DISABLE_JIT:
        raise ImportError(JIT_DISABLED)
    kept = options.pop("cache", False)

    def compile_later(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        if kept:
            try:
                dispatcher._cache = LenientCache(function)
            except (RuntimeError, OSError) as error:  # no folder to keep it in
                tell_of_cache(error)
        return dispatcher

    return compile_later


class _Kept(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """Where compiled loops are kept: not in the home of a user who has none, which would be a folder `~`."""

    _locator_classes = [  # noqa: RUF012, as numba has it
        each
        for each in caching.CompileResultCacheImpl._locator_classes
        if "UserWide" not in each.__name__ or os.path.isabs(os.path.expanduser("~"))
    ]


class LenientCache(caching.FunctionCache):  # type: ignore[misc]
    """A cache of compiled loops whose failures are told of and stop nothing."""

    _impl_class = _Kept

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was compiled before, or None where there is nothing that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged file is unpickled, which fails in any way
            tell_of_cache(error)
            self._start_again()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, if that can be."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, or an index that another process damaged
            tell_of_cache(error)

    def _start_again(self) -> None:
        """Empty the index, so that the next process finds what this one compiles."""
        try:
            self.flush()
        except Exception:
            self.disable()


class _Telling:
    """Whether this process has been told of its cache: once is enough."""

    told = False


def tell_of_cache(error: Exception) -> None:
    """Warn, once in a process, that the cache of compiled loops does not work."""
    if not _Telling.told:
        _Telling.told = True
        warn_user(
            f"Compiled loops cannot be kept on disk or read from there ({type(error).__name__}: {error}). "
            "Everything works, but each process compiles anew, which takes some seconds: let the environment "
            "variable NUMBA_CACHE_DIR name a folder that can be written to, with some space left.",
            CacheWarning,
        )


class Announcer(event.Listener):  # type: ignore[misc]
    """Tells of the first compilation of a process: people at a terminal or in a notebook, and the log."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled; what comes from the cache is not."""
        module = getattr(event.data["dispatcher"].py_func, "__module__", "")
        if self.told or not module.startswith("evenhand."):
            return
        self.told = True
        logging.getLogger("evenhand").info(MESSAGE)
        if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
            sys.stderr.write(f"{MESSAGE}\n")

    def on_end(self, event: Any) -> None:
        """Nothing more to tell."""


announcer = Announcer()
event.register("numba:compile", announcer)
