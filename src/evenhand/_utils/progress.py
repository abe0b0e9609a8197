"""Long work says how far it has come to whoever listens; without a listener it costs nothing."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Listener = Callable[[str, float, float | None], None]  # stage, done, total where it is known

_listener: ContextVar[Listener | None] = ContextVar("evenhand progress", default=None)


def report_progress(stage: str, done: float, total: float | None = None) -> None:
    """Tell the listener, where there is one, that `stage` has done so much of its total."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call `listener` for what is reported inside the `with` block.

    >>> heard = []
    >>> with listening(lambda *told: heard.append(told)):
    ...     report_progress("folds", 1, 5)
    >>> heard
    [('folds', 1, 5)]
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
