"""The page that PyPI shows: the README without links and pictures that only a checkout has."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ELSEWHERE = r"\((?!https?://)[^)]*\)"  # the target of a link or a picture that is no address


class Readme(MetadataHookInterface):
    """Fills in `readme`, which pyproject.toml leaves to it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text, as Markdown."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = re.sub(rf"^!\[[^]]*\]{ELSEWHERE}\n\n?", "", text, flags=re.MULTILINE)
        text = re.sub(rf"\[([^]]+)\]{ELSEWHERE}", r"\1", text)
        text += "\nThe pages that are named here are in the source distribution, in `docs/`.\n"
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
