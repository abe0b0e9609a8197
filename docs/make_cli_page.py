"""Run the commands of docs/reference/cli.md in an empty folder, and write what they print into the page.

The table of the demo goes into the README, too. Run it as

python docs/make_cli_page.py
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent / "reference" / "cli.md"
README = PAGE.parents[2] / "README.md"
TABLE = re.compile(r"  group    rows .*?(?=```|Largest)", re.DOTALL)  # the demo's, the first on both pages
EXAMPLE = re.compile(r"```console\n\$ evenhand (?P<command>.*?)\n(?P<output>.*?)```", re.DOTALL)


def main() -> None:
    """Replace the output of every example."""
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(EXAMPLE.sub(lambda example: run(example["command"], folder), PAGE.read_text()))
    table = next(TABLE.finditer(PAGE.read_text())).group()
    README.write_text(TABLE.sub(lambda _: table, README.read_text(), count=1))


def run(command: str, folder: str) -> str:
    """The block of one example, without empty lines."""
    called = [sys.executable, "-m", "evenhand", *shlex.split(command)]
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(called, cwd=folder, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    lines = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    return "\n".join([f"```console\n$ evenhand {command}", *lines, "```"])


if __name__ == "__main__":
    main()
