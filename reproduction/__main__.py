"""The command `python -m reproduction`: run the paper's experiments from a checkout (`make reproduce`)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from evenhand._utils.progress import report_progress
from evenhand.cli.terminal import Terminal
from reproduction.freshness import check_frames
from reproduction.reproduction import reproduce
from reproduction.studies import STUDIES


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage that argparse puts before them."""

    def error(self, message: str) -> NoReturn:
        """End with the exit code of a wrong command."""
        self.fail(message, 2)

    def fail(self, message: str, code: int) -> NoReturn:
        """End with one line on standard error and an exit code."""
        self.exit(code, f"{self.prog}: {message}\n")


def make_parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m reproduction",
        description="Make every figure and table of the paper again, from the data sets in the folder "
        "EVENHAND_DATA. A run can be stopped and called again: what is finished is not computed again.",
    )
    add = parser.add_argument
    add("--out", "-o", metavar="FOLDER", default="evenhand-paper", help="folder for frames, figures and page")
    add("--quick", action="store_true", help="fewer splits and tolerances: about a fifth of the time")
    add(
        "--only",
        nargs="+",
        action="extend",
        metavar="STUDY",
        choices=STUDIES,
        help=f"run only these studies, of {', '.join(STUDIES)}",
    )
    add(
        "--check",
        action="store_true",
        help="compute nothing: say which frames in the folder are older than the code that they depend on",
    )
    add("--jobs", "-j", type=_count, metavar="N", help="processes; by default one for each core")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the studies that were asked for, and print where the page is."""
    parser = make_parser()
    asked = parser.parse_args(arguments)
    if asked.check:
        sys.exit(check(Path(asked.out)))
    try:
        with Terminal().working("Reproducing"):
            page = reproduce(
                asked.out, quick=asked.quick, only=asked.only, n_jobs=asked.jobs, progress=_report_cells
            )
    except (OSError, ImportError) as error:  # a data set or a library is missing, or the disk is full
        parser.fail(str(error), 1)
    except KeyboardInterrupt:
        parser.fail("interrupted; the same command goes on where this one stopped.", 130)
    sys.stdout.write(f"{page}\n")


def check(out: Path) -> int:
    """Print how the frames in a folder stand to the code; the exit code is 1 if any is older."""
    states = check_frames(out)
    sys.stdout.write("".join(f"{state}\n" for state in states))
    return int(any(state.reasons for state in states))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive whole number: got {text!r}")
    return int(text)


def _report_cells(done: int, total: int, name: str) -> None:
    report_progress("cells", done, total)


if __name__ == "__main__":
    main()
