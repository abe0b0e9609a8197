"""The README is short, begins with what to type, and has of the comparison what its page has."""

import runpy

import pytest


def test_the_readme_is_short_and_begins_with_two_commands(project_root):
    lines = (project_root / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert [line.split("  ")[0] for line in lines[:20] if line.startswith("make ")] == [
        "make demo",
        "make test",
    ]


def test_the_readme_s_table_of_other_libraries_is_that_of_the_comparison(project_root):
    page = project_root / "docs" / "comparison.md"
    if not page.exists():
        pytest.skip("the comparison is not part of this copy")
    made = runpy.run_path(str(project_root / "docs" / "make_readme_peers.py"))
    table = made["render"](page.read_text())
    assert len(table.splitlines()) > 10
    assert made["BLOCK"].findall((project_root / "README.md").read_text()) == [table], made["__doc__"]
