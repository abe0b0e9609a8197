"""The README is short, begins with what to type, and has of the comparison what its page has."""

import re

import pytest


def test_the_readme_is_short_and_begins_with_two_commands(project_root):
    lines = (project_root / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert [line.split("  ")[0] for line in lines[:20] if line.startswith("make ")] == [
        "make demo",
        "make test",
    ]


def test_the_readme_s_table_of_other_libraries_is_that_of_the_comparison(project_root):
    block = re.search(
        r"<!-- peers: .*? -->\n(.*?)<!-- /peers -->", (project_root / "README.md").read_text(), re.DOTALL
    )
    page = project_root / "docs" / "comparison.md"
    if not page.exists():
        pytest.skip("the comparison is not part of this copy")
    rows = [line for line in block[1].splitlines() if line.startswith("|")]
    assert len(rows) >= 5
    assert [row for row in rows if row not in page.read_text().splitlines()] == []
