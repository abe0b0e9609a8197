"""`evenhand reproduce`: the paper's figures and tables."""

from typing import Annotated

import typer

from evenhand._progress import report_progress
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, one_of
from evenhand.cli.terminal import Terminal

EXAMPLE = "Example: `evenhand reproduce --out paper --quick`"


def reproduce(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for frames, figures and the page.")
    ] = "evenhand-paper",
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer splits and tolerances: about a fifth of the time.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STUDY",
            help="Of comparison, matched, convergence, solvers, synthetic, oracle and timing only these.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; by default one for each core.")
    ] = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Make every figure and table of the paper again, from the data sets in the folder EVENHAND_DATA.

    A run can be stopped and called again: what is finished is kept, and not computed twice.
    """
    from evenhand import experiments  # brings in what no other command needs
    from evenhand.experiments.studies import STUDIES

    for name in only or ():
        one_of(name, STUDIES, "--only")
    terminal = Terminal(quiet, as_json)
    with terminal.working("Reproducing"):
        page = experiments.reproduce(out, quick=quick, only=only, n_jobs=jobs, progress=_tell)
    terminal.say(str(page))
    terminal.result({"command": "reproduce", "out": out, "page": str(page), "studies": only or list(STUDIES)})
    return ExitCode.OK


def _tell(done: int, total: int, name: str) -> None:
    report_progress("cells", done, total)
