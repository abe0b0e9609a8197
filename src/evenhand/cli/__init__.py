"""The command line: `evenhand --help`, or `python -m evenhand --help`."""

import importlib.util
import sys
from collections.abc import Sequence

NEEDED = ("typer", "rich", "pyarrow", "pandas", "skops", "jinja2")  # what `pip install evenhand[cli]` brings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; without the extra, say in one line how to get it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"evenhand: the command line needs {', '.join(missing)}. Run: pip install 'evenhand[cli]'\n"
        )
        return 2
    try:
        from evenhand.cli.run import run
    except ImportError as error:  # such as compiled loops without a compiler
        sys.stderr.write(f"evenhand: {error}\n")
        return 2

    return run(sys.argv[1:] if arguments is None else list(arguments))
