"""What can go wrong, as one line and an exit code that scripts can use."""

from collections.abc import Collection
from enum import IntEnum


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    BUG = 1  # an error that nobody foresaw
    USAGE = 2  # the command is not one: an unknown option, a bad value, a missing extra
    DATA = 3  # the rows or the model file are not what the command needs
    NOT_REACHED = 4  # a limit that was asked for was not met, or the solver did not converge
    SYSTEM = 5  # reading or writing failed: no such file, no permission, no space
    INTERRUPTED = 130  # Ctrl-C
    PIPE_CLOSED = 141  # whoever read standard output went away


class CommandError(Exception):
    """An error whose message is all that the user needs."""

    code = ExitCode.BUG


class UsageError(CommandError):
    """The command line itself is wrong."""

    code = ExitCode.USAGE


class DataError(CommandError):
    """The rows, or the model file, are not what the command needs."""

    code = ExitCode.DATA


class NotReachedError(CommandError):
    """What was asked for was not reached."""

    code = ExitCode.NOT_REACHED


def one_of(value: str, names: Collection[str], option: str) -> str:
    """The value, where it is one of the names."""
    if value not in names:
        raise UsageError(f"{option} is one of {', '.join(names)}: got {value!r}.")
    return value
