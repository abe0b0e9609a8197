"""Where a command writes to: checked before any work is done, so that nothing is lost."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from evenhand._utils.atomic import STANDARD_OUTPUT, is_written_directly
from evenhand._utils.text import plain
from evenhand.cli.errors import UsageError
from evenhand.cli.terminal import Terminal
from evenhand.modelfile import is_model_file
from evenhand.tables.formats import STANDARD
from evenhand.tables.writing import require_writable

HEAD_BYTES = 4096  # of a file, which tell whether a command wrote it
_WRITTEN_HERE = re.compile(
    rb'<meta name="generator" content="evenhand |^A \w+ of evenhand [0-9]', re.MULTILINE
)

Paths: TypeAlias = Mapping[str, str | Sequence[str] | None]  # of files by their options


def open_terminal(
    outputs: Paths, inputs: Sequence[str | None], *, force: bool, quiet: bool, as_json: bool
) -> Terminal:
    """The terminal of a command whose outputs can be written, and put nothing of the user's at risk.

    A file that is read is never written, and one that is there is replaced only where a command like this
    wrote it, or with `--force`. Where standard output takes a result, words go to standard error.
    """
    named = [
        (option, path)
        for option, paths in outputs.items()
        for path in ([paths] if isinstance(paths, str) else paths or ())
    ]
    to_stdout = [option for option, path in named if path == STANDARD]
    rivals = [*to_stdout, *(["--json"] if as_json else [])]
    if to_stdout and len(rivals) > 1:
        raise UsageError(
            f"{rivals[0]} and {rivals[1]} both want standard output: write to a file with {rivals[0]}."
        )
    require_writable(*(path for _, path in named))
    for option, path in named:
        _require_safe(option, path, [each for each in inputs if each is not None], force=force)
    return Terminal(quiet, as_json, data_on_stdout=bool(to_stdout))


def as_path(output: str) -> str:
    """The path of an output, for functions that take paths alone."""
    return STANDARD_OUTPUT if output == STANDARD else output


def require_replaceable(path: str, *, force: bool, option: str = "--output") -> None:
    """Refuse a file that is there and holds what no command of evenhand wrote."""
    if not force and os.path.exists(path) and not is_written_directly(path) and not _is_ours(path):
        raise UsageError(
            f"{option} {plain(path)} is there already, and not known to be evenhand's: --force replaces it."
        )


def _require_safe(option: str, path: str, inputs: Iterable[str], *, force: bool) -> None:
    if path == STANDARD or is_written_directly(path):
        return
    for source in inputs:
        if _is_part_of(path, source):
            raise UsageError(
                f"{option} {plain(path)} is what {plain(source)} is read from, and would be lost: write to "
                "another file."
            )
    require_replaceable(path, force=force, option=option)


def _is_part_of(path: str, source: str) -> bool:
    """Whether a file is the one that is read, or one of the folder that is."""
    if not os.path.exists(path) or not os.path.exists(source):
        return False
    if os.path.isdir(source):
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source))
    return os.path.samefile(path, source)


def _is_ours(path: str) -> bool:
    """Whether a file is empty, or a model, a report or a card of evenhand's; of tables nobody can tell."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if not head or _WRITTEN_HERE.search(head):
        return True
    return is_model_file(path) or (head.startswith(b"{") and _is_card(path))


def _is_card(path: str) -> bool:
    try:
        card = json.loads(Path(path).read_bytes())
        return "evenhand" in card["versions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
