"""The pages are run as they stand, each in an empty folder of its own: what they write does not stay."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may write files where it is run."""
    monkeypatch.chdir(tmp_path)
