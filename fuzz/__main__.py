"""Run the targets of the fuzz, one after the other, and say what was found."""

import argparse
import importlib
import sys
from collections.abc import Callable
from typing import cast

from fuzz.counts import CORPUS, Counts

TARGETS = {
    "model_files": "fuzz.model_files",
    "table_readers": "fuzz.table_readers",
    "functions": "fuzz.functions",
}  # each has run(seconds, cases, seed) -> Counts

Run = Callable[[float | None, int | None, int], Counts]


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=float, default=None, help="of each target (20 by default)")
    parser.add_argument("--cases", type=int, default=None, help="of each target")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    unknown = set(given.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    seconds = 20.0 if given.seconds is None and given.cases is None else given.seconds
    found = 0
    for target in given.targets or TARGETS:
        run = cast(Run, importlib.import_module(TARGETS[target]).run)
        counts = run(seconds, given.cases, given.seed)
        print(counts.line(), flush=True)
        for finding in counts.findings:
            print(f"  {finding.kind}: {finding.where}\n    {' '.join(finding.case.split()):.150}", flush=True)
        found += counts.n_findings
    if found:
        print(f"What was found is in {CORPUS}.")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
