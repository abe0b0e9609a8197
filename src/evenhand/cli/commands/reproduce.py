"""`evenhand reproduce`: the paper's figures and tables."""

from typing import Annotated

import typer

from evenhand._progress import report_progress
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, UsageError
from evenhand.cli.terminal import Terminal

EXAMPLE = "Example: `evenhand reproduce --out paper --quick`"


def reproduce(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for figures and tables.")
    ] = "evenhand-paper",
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions: minutes instead of hours.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this figure or table; several will do.")
    ] = None,
    jobs: opt.Jobs = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Make every figure and table of the paper again, from the data sets in the folder EVENHAND_DATA."""
    from evenhand import experiments  # brings in what no other command needs

    work = getattr(experiments, "reproduce", None)
    if work is None:
        raise UsageError("This version of evenhand has no experiments to reproduce.")
    terminal = Terminal(quiet, as_json)
    with terminal.working("Reproducing"):
        made = work(out, quick=quick, only=only, n_jobs=jobs, progress=report_progress)
    terminal.say(f"Figures and tables: {out}")
    terminal.result({"command": "reproduce", "out": out, "made": made})
    return ExitCode.OK
