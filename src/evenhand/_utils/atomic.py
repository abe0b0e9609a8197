"""Files that appear whole or not at all."""

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import BinaryIO

_NO_ROOM = (errno.ENOSPC, errno.EFBIG)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, beside `path`, that takes its place at the end of the `with` block.

    It is synced to the disk first, so that no reader and no power cut leaves half a file; any exception, an
    interrupt too, leaves what was at `path` before; a kill leaves also the file beside it, which
    `remove_leftovers` finds. A symbolic link stays one, and its target is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/numbers.txt") as file:
    ...         _ = file.write(b"1 2 3")
    ...     Path(folder, "numbers.txt").read_text()
    '1 2 3'
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file in it.")
    beside = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError) and (error.filename == os.fspath(beside) or error.errno in _NO_ROOM):
            error.filename, error.filename2 = os.fspath(target), None  # the name that the user gave
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of `path` that were killed have left; none may be at work."""
    target = Path(os.path.realpath(path))
    for beside in target.parent.glob(f"{escape(_prefix(target))}*.tmp"):
        beside.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."
