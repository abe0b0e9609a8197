"""A line that says what goes on while the compiled loops are made, which happens once on a machine."""

import logging
import sys
from typing import Any

from numba.core import event

MESSAGE = (
    "evenhand compiles its loops for this machine, once: some seconds. `evenhand warm-up` does it beforehand."
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
