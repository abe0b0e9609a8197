"""The sentences of docs/comparison.md, from words.md; figures are put in by `page`."""

import re
from pathlib import Path

_PARTS = re.split(r"^<!-- (.*) -->\n", Path(__file__).with_name("words.md").read_text(), flags=re.MULTILINE)
_SECTIONS = {name: text.strip() for name, text in zip(_PARTS[1::2], _PARTS[2::2], strict=True)}

INTRODUCTION = _SECTIONS["introduction"]
READING = _SECTIONS["reading"]
FOLDS = _SECTIONS["folds"]
HOW_MEASURED = _SECTIONS["how_measured"]
LIMITS = _SECTIONS["limits"]
WHY = {name.removeprefix("why: "): text for name, text in _SECTIONS.items() if name.startswith("why: ")}
