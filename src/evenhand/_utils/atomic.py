"""Files that appear whole or not at all."""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

STANDARD_OUTPUT = "/dev/stdout"  # a name for it wherever a path is taken, on systems without such a file too

_NO_ROOM = (errno.ENOSPC, errno.EFBIG)
_READABLE_BYTES = 100  # of a file's name in that of the temporary file beside it
_DESCRIPTOR = re.compile(r"/dev/fd/(\d+)|/proc/self/fd/(\d+)|/dev/std(out|err)")


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, beside `path`, that takes its place at the end of the `with` block.

    It is synced to the disk first, so that no reader and no power cut leaves half a file; any exception, an
    interrupt too, leaves what was at `path` before; a kill leaves also the file beside it, which
    `remove_leftovers` finds. A symbolic link stays one, and its target is replaced.

    What is no regular file stays what it is and is written to as the bytes come: a device such as
    `/dev/null`, a named pipe, and `/dev/stdout` whatever that leads to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(f"{folder}/numbers.txt") as file:
    ...         _ = file.write(b"1 2 3")
    ...     Path(folder, "numbers.txt").read_text()
    '1 2 3'
    """
    with _opened_directly(path) if is_written_directly(path) else _replacing(path) as file:
        yield file


def is_written_directly(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is there already and is no regular file, or names an open file of this process.

    >>> is_written_directly("/dev/stdout"), is_written_directly("no-such-file.csv")
    (True, False)
    """
    if _descriptor(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what writers of `path` that were killed have left; none may be at work."""
    target = Path(os.path.realpath(path))
    if is_written_directly(path) or not target.parent.is_dir():
        return
    ours = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{16}\.tmp")
    for beside in target.parent.iterdir():
        if ours.fullmatch(beside.name):
            beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` once it is complete."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder: give the name of a file in it.")
    beside = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}.tmp")
    try:
        # Nobody but its owner may read what will take the place of a file that others may not read.
        handle = os.open(beside, _CREATE, 0o600 if target.exists() else 0o666)
        with open(handle, "wb") as file:
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


_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def _opened_directly(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A device, a pipe or an open file of this process, written to where it stands: nothing is cut off."""
    number = _descriptor(path)
    if number == 1:
        sys.stdout.flush()  # what was said before comes before
    try:
        handle = os.open(path, os.O_WRONLY) if number is None else os.dup(number)
        with open(handle, "wb") as file:
            yield file
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of the open file of this process that a path names, if it names one."""
    found = _DESCRIPTOR.fullmatch(os.fspath(path))
    if found is None:
        return None
    if found[3] is not None:
        return 1 if found[3] == "out" else 2
    return int(found[1] or found[2])


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where the system lets a folder be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _prefix(target: Path) -> str:
    """How the names of temporary files for `target` begin: a digest stands for the end of a long name."""
    name = os.fsencode(target.name)
    if len(name) > _READABLE_BYTES:
        name = name[:_READABLE_BYTES] + b"-" + hashlib.sha256(name).hexdigest()[:16].encode()
    return f".{os.fsdecode(name)}."
