"""Warnings that point at the user's own line, however deep in the package they arise."""

import sys
import warnings

_OWN = __name__.partition(".")[0]


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first caller that is not of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _OWN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
