"""Write the README's table of other libraries from docs/comparison.md, which `make peers` writes.

Run it as

python docs/make_readme_peers.py
"""

import re
from pathlib import Path

PAGE = Path(__file__).parent / "comparison.md"
README = PAGE.parents[1] / "README.md"
BLOCK = re.compile(r"(?<=<!-- peers: docs/make_readme_peers\.py -->\n).*?(?=<!-- /peers -->)", re.DOTALL)
TABLE = re.compile(r"^### (?P<task>.+), (?P<mode>unaware|aware)\n\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
COLUMNS = ("method", "points", "ours ahead", "level", "ours behind", "median difference")
NO_PEERS = {"no parity", "constant", "evenhand"}


def render(page: str) -> str:
    """One row for each peer, task and mode."""
    head = ["group at prediction", "of", *COLUMNS]
    lines = [head, ["---"] * len(head)]
    for table in TABLE.finditer(page):
        names, _, *rows = (_cells(line) for line in table["rows"].splitlines())
        for row in rows:
            found = dict(zip(names, row, strict=True))
            if found["method"] not in NO_PEERS:
                lines.append([table["mode"], table["task"].lower(), *(found[name] for name in COLUMNS)])
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def main() -> None:
    """Replace what stands between the marks."""
    table = render(PAGE.read_text(encoding="utf-8"))
    README.write_text(BLOCK.sub(lambda _: table, README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
