"""Run one hostile case and say how it ended."""

import dis
import linecache
import resource
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any

import numpy as np

import evenhand
from evenhand.exceptions import EvenhandWarning
from fuzz.counts import Counts, Finding

OURS = str(Path(evenhand.__file__).parent)
RAISES = frozenset(dis.opmap[name] for name in ("RAISE_VARARGS", "RERAISE"))
MODELS = ("/sklearn/",)  # a model of the user's may refuse its features in its own words
ALLOWED = (ValueError, TypeError, ImportError)
LONGEST = 30.0  # seconds
LARGEST = 1024.0  # MiB of the process


class Hang(BaseException):
    """A case took too long; no handler of ours may catch it."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise in the main thread after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def judge(counts: Counts, case: str, call: Callable[[], Any], data: bytes = b"") -> None:
    """Count how `call` ends: what it returns has to be finite, and what it raises or warns of has to be ours."""
    started = perf_counter()
    kind, where = "", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _limit(LONGEST):
                answer = call()
            kind, where = ("", "") if is_finite(answer) else ("not finite", case.split(" ")[0])
            ended = counts.answered
        except Hang as hang:
            kind, where = "hang", _place(hang)
        except Exception as error:
            ended = counts.refused
            if not is_ours(error):
                kind, where = "foreign exception", f"{type(error).__name__} at {_place(error)}"
                case = f"{error!s:.200} | {case}"
    spent, peak = perf_counter() - started, peak_mib()
    counts.slowest = max(counts.slowest, spent)
    grown = peak > LARGEST >= counts.peak_mib
    counts.peak_mib = max(counts.peak_mib, peak)
    foreign = [each for each in caught if not issubclass(each.category, EvenhandWarning)]
    if not kind and foreign:
        first = foreign[0]
        text = linecache.getline(first.filename, first.lineno).strip()
        kind, where = "warning", f"{first.category.__name__} at {_short(first.filename)}: {text}"
        case = f"{first.message!s:.200} | {case}"
    if not kind and grown:
        kind, where = "memory", case
    if kind:
        counts.found(Finding(kind, where, case, data))
    else:
        ended()


def is_ours(error: BaseException) -> bool:
    """Whether an exception is one that a caller can expect: a `raise` of ours, with a message.

    What a library raises inside of ours by itself is not, though its type may be.
    """
    if not isinstance(error, ALLOWED) or not str(error):
        return False
    last = _last(error.__traceback__)
    if last is None:
        return False
    file = last.tb_frame.f_code.co_filename
    if any(name in file for name in MODELS):
        return True
    return file.startswith(OURS) and last.tb_frame.f_code.co_code[last.tb_lasti] in RAISES


def is_finite(answer: Any) -> bool:
    """Whether no number in an answer is NaN or infinite."""
    if isinstance(answer, np.ndarray):
        if answer.dtype.kind == "O":
            return all(is_finite(each) for each in answer.ravel().tolist())
        return bool(np.isfinite(answer).all()) if answer.dtype.kind in "fc" else True
    if isinstance(answer, float | np.floating):
        return bool(np.isfinite(answer))
    if isinstance(answer, Mapping):
        return all(is_finite(each) for each in answer.values())
    if isinstance(answer, list | tuple):
        return all(is_finite(each) for each in answer)
    return True


def peak_mib() -> float:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _place(error: BaseException) -> str:
    """The last line of ours on the way to an exception, and the last line of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(OURS)]
    places = [*ours[-1:], frames[-1]] if frames else []
    told = dict.fromkeys(f"{_short(frame.filename)} {frame.name}: {frame.line}" for frame in places)
    return " | ".join(told)


def _short(filename: str) -> str:
    return "/".join(Path(filename).parts[-2:])
