"""`python -m evenhand.experiments`: the paper's experiments from a shell."""

import argparse
import sys

from evenhand.experiments.reproduction import reproduce
from evenhand.experiments.studies import STUDIES


def _show(done: int, total: int, name: str) -> None:
    sys.stderr.write(f"\r\x1b[K{done}/{total} {name}")


def main() -> None:
    """Parse, run, say where the page is."""
    parser = argparse.ArgumentParser(prog="python -m evenhand.experiments", description=reproduce.__doc__)
    parser.add_argument("--out", default="reproduction")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=STUDIES, action="append")
    parser.add_argument("--jobs", type=int)
    asked = parser.parse_args()
    page = reproduce(asked.out, quick=asked.quick, only=asked.only, n_jobs=asked.jobs, progress=_show)
    sys.stderr.write(f"\n{page}\n")


if __name__ == "__main__":
    main()
