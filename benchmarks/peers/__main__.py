"""The command `python -m benchmarks.peers`: run the comparison, write its page (`make peers`)."""

import argparse

from benchmarks.peers.page import PAGE, write_page
from benchmarks.peers.pictures import write_pictures
from benchmarks.peers.store import FULL, QUICK, Results
from benchmarks.peers.summary import print_summary


def main() -> None:
    """Run what is asked for, and print who is ahead."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer data, seeds; the page stays")
    parser.add_argument(
        "--page", action="store_true", help="run nothing: the page again, from what is stored"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="splits of each data set")
    parser.add_argument("--resume", action="store_true", help="do not run again what is stored")
    asked = parser.parse_args()
    if asked.page:
        results = Results.read(FULL)
    else:
        from benchmarks.peers.run import (
            QUICK_SEEDS,
            SEEDS,
            check_environment,
            run,
        )  # needs the libraries compared

        check_environment()
        n_seeds = asked.seeds or (QUICK_SEEDS if asked.quick else SEEDS)
        results = run(asked.quick, QUICK if asked.quick else FULL, n_seeds, asked.resume)
    print_summary(results)
    if not asked.quick:
        write_pictures(results)
        write_page(results)
        print(PAGE)


if __name__ == "__main__":
    main()
