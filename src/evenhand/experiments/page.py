"""stub"""

from pathlib import Path


def write_page(out: Path) -> Path:
    return out / "reproduction.md"
