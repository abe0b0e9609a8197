"""Modules that bring parity notions, costs and solvers from outside, imported before names are checked."""

import importlib
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points

from evenhand._utils.text import plain
from evenhand.cli.errors import UsageError

VARIABLE, GROUP = "EVENHAND_PLUGINS", "evenhand.plugins"


def import_plugins(names: list[str] | None) -> list[str] | None:
    """Import the modules that `--plugin` names, as Python finds them or else from the current folder."""
    _import_all("--plugin", names or [])
    return names


def import_installed() -> None:
    """Import the modules that the environment variable names, and those of installed packages."""
    _import_all(f"{VARIABLE}:", re.split(r"[\s,]+", os.environ.get(VARIABLE, "").strip(" \t\n,")))
    for each in entry_points(group=GROUP):
        _import("Installed plugin", each.value, each.load)


def _import_all(source: str, names: list[str]) -> None:
    named = [name for name in names if name]
    if named and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that a file there never stands in for a package
    for name in named:
        _import(source, name, partial(importlib.import_module, name))


def _import(source: str, name: str, load: Callable[[], object]) -> None:
    try:
        load()
    except Exception as error:  # whatever a module of the user's does, the answer is one line
        raise UsageError(
            f"{source} {plain(name)} cannot be imported: {type(error).__name__}: {plain(error)}"
        ) from error
