"""Run one hostile case and say how it ended."""

import dis
import linecache
import signal
import sys
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
MODELS = ("/sklearn/",)  # a model of the user's may refuse its features, or warn of them, in its own words
VALIDATORS = "/sklearn/utils/validation.py"  # which we ask to check tables, in words that its users know
USERS = ("models.py", "regressor.py", "classifier.py", "base.py")  # where such models are called
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


@contextmanager
def foreign_warnings() -> Iterator[list[tuple[str, str]]]:
    """Where warnings that are not ours come from, and what they say.

    Those of a model of the user's, inside of its own `fit` or `predict`, are that model's words.
    """
    found: list[tuple[str, str]] = []

    def note(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        if issubclass(category, EvenhandWarning) or category.__module__.startswith("sklearn."):
            return
        stack = traceback.extract_stack(sys._getframe(1))
        if _is_of_a_model([frame.filename for frame in stack]):
            return
        line = linecache.getline(filename, lineno).strip()
        ours = " | ".join(f"{_short(each.filename)}" for each in stack if each.filename.startswith(OURS))
        found.append((f"{category.__name__} at {_short(filename)}: {line} | {ours}", str(message)))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = note
        yield found


def judge(counts: Counts, case: str, call: Callable[[], Any], data: bytes = b"") -> None:
    """Count how `call` ends: what it returns must be finite, and what it raises or warns of must be ours."""
    started = perf_counter()
    kind, where = "", ""
    with foreign_warnings() as caught:
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
    if not kind and caught:
        kind, where = "warning", caught[0][0]
        case = f"{caught[0][1]:.200} | {case}"
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
    if _is_of_a_model([frame.filename for frame in traceback.extract_tb(error.__traceback__)]):
        return True
    if file.endswith(VALIDATORS) and last.tb_frame.f_code.co_code[last.tb_lasti] in RAISES:
        return True
    return file.startswith(OURS) and last.tb_frame.f_code.co_code[last.tb_lasti] in RAISES


def _is_of_a_model(files: list[str]) -> bool:
    """Whether code of the last of some files was called by a model, in its own `fit` or `predict`."""
    ours = [place for place, file in enumerate(files) if file.startswith(OURS)]
    if not ours or Path(files[ours[-1]]).name not in USERS:
        return False
    return any(name in file for file in files[ours[-1] :] for name in MODELS)


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
    import resource  # which Windows does not have

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
