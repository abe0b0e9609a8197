"""Lines of a page that its doctest does not run, to be run where what they need is there."""

import doctest
import re
from pathlib import Path

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_sections(page: Path, *titles: str) -> int:
    """Run these sections of a page one after the other, skipped lines too; how many lines that were."""
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", page.read_text(), re.DOTALL | re.MULTILINE))
    text = "".join(sections[title] for title in titles).replace("# doctest: +SKIP", "")
    lines = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    found = doctest.DocTestRunner(optionflags=FLAGS).run(lines)
    assert found.failed == 0
    return found.attempted


def silent_blocks(page: Path) -> list[str]:
    """Blocks of Python without prompts, which take names for granted and print nothing."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [block for block in blocks if ">>> " not in block]
