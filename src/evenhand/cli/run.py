"""Run a command: every way it can end is an exit code, and every error one line."""

import os
import signal
import sys
import traceback
import warnings
from types import FrameType
from typing import Any

import typer

from evenhand._utils.text import plain
from evenhand.cli.app import app
from evenhand.cli.errors import CommandError, ExitCode
from evenhand.cli.terminal import write_line
from evenhand.exceptions import InterruptWarning
from evenhand.modelfile import ModelFileError
from evenhand.tables.formats import TableOptionError

# click's own, which newer versions of typer carry along under another name
_ParseError: type[Any] = typer.BadParameter.__mro__[1]

# what ends a process from outside, and a closed terminal, where the system has that
_ENDING = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


def run(arguments: list[str]) -> int:
    """The exit code of the command; its error is a line on standard error."""
    debug = "--debug" in arguments
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as `nohup` has it for those that outlive their terminal
            signal.signal(number, _stop)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)  # those of evenhand and of scikit-learn are
        warnings.simplefilter("error", InterruptWarning)  # half a frontier is not what was asked for
        warnings.showwarning = _tell_warning(set())
        try:
            outcome = _invoke(arguments)
            sys.stdout.flush()
            return outcome
        except BrokenPipeError:
            _forget_stdout()
            return ExitCode.PIPE_CLOSED
        except BaseException as error:
            if isinstance(error, SystemExit):
                raise
            if debug:
                traceback.print_exc()
            code, line = explain(error)
            if line:
                write_line(line)
            return code
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _invoke(arguments: list[str]) -> int:
    """What a command returns, without typer's own ways to end a process."""
    command = typer.main.get_command(app)
    if "_EVENHAND_COMPLETE" in os.environ:  # the shell asks for completions
        command.main(arguments, "evenhand")
    with command.make_context("evenhand", arguments) as context:
        return int(command.invoke(context) or ExitCode.OK)


def explain(error: BaseException) -> tuple[int, str]:
    """Exit code and line of an error."""
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, KeyboardInterrupt | InterruptWarning | typer.Abort):
        return ExitCode.INTERRUPTED, "interrupted; what was not finished was not written."
    if isinstance(error, CommandError):
        return error.code, plain(error)
    if isinstance(error, _ParseError):
        context = getattr(error, "ctx", None)
        where = getattr(context, "command_path", "evenhand")
        words = plain(error.format_message())
        return ExitCode.USAGE, f"{words} See: {where} --help" if words else ""
    if isinstance(error, OSError):
        named = f"{plain(error.filename)}: " if error.filename is not None else ""
        return ExitCode.SYSTEM, f"{named}{plain(error.strerror or error)}."
    if isinstance(error, MemoryError):
        return ExitCode.SYSTEM, "there is not enough memory for this."
    if isinstance(error, ImportError):
        return ExitCode.USAGE, plain(error)
    if isinstance(error, TableOptionError):
        return ExitCode.USAGE, plain(error)
    if isinstance(error, ModelFileError | ValueError | TypeError):
        return ExitCode.DATA, plain(error)
    return ExitCode.BUG, f"{type(error).__name__}: {plain(error)} (an error of evenhand: --debug shows where)"


def _stop(number: int, frame: FrameType | None) -> None:
    """End as a Ctrl-C would, so that nothing half-written stays."""
    raise SystemExit(128 + number)


def _forget_stdout() -> None:
    """Let Python's own flush at exit find somewhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell_warning(told: set[str]) -> Any:
    def tell(message: Any, *_: Any, **__: Any) -> None:
        line = plain(message)
        if line not in told:
            told.add(line)
            write_line(f"note: {line}")

    return tell
