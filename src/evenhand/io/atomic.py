"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from glob import escape
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A new name beside `path` to write to; it is synced and takes the place of `path` at the end.

    No reader sees half a file, not even after a power cut. An error inside leaves what was at `path`; a kill
    leaves also the file beside it, which `remove_leftovers` finds.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file in it.")
    beside = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.tmp")
    try:
        yield beside
        with open(beside, "rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync_folder(target.parent)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`: all of it, or nothing."""
    with whole_file(path) as beside, open(beside, "xb") as file:
        file.write(data)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of `path` that were killed have left; none may be at work."""
    target = Path(os.path.realpath(path))
    for beside in target.parent.glob(f"{escape(_prefix(target))}*.tmp"):
        beside.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
