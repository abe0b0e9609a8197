"""Run the benchmarks: `python -m benchmarks` for all, `python -m benchmarks kernel lp` for some.

A benchmark is a file `bench_<name>.py` here with a function `main()` that prints what it measured.
"""

import argparse
import importlib
import time
from pathlib import Path

PREFIX = "bench_"


def available() -> list[str]:
    return sorted(path.stem.removeprefix(PREFIX) for path in Path(__file__).parent.glob(f"{PREFIX}*.py"))


def run(name: str) -> None:
    print(f"== {name}", flush=True)
    start = time.perf_counter()
    importlib.import_module(f"benchmarks.{PREFIX}{name}").main()
    print(f"-- {name}: {time.perf_counter() - start:.1f} s\n", flush=True)


def main() -> None:
    names = available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run the benchmarks.")
    parser.add_argument("only", nargs="*", metavar="name", help=f"one of: {', '.join(names) or 'none yet'}")
    only = parser.parse_args().only
    unknown = [name for name in only if name not in names]
    if unknown:
        parser.error(
            f"unknown benchmark: {', '.join(unknown)}. Valid names: {', '.join(names) or 'none yet'}."
        )
    for name in only or names:
        run(name)


if __name__ == "__main__":
    main()
