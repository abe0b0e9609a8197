"""The gallery: every example opens with a title, uses public names on data of its own, and runs."""

import ast
import importlib
import re
import runpy
import time
import warnings
from pathlib import Path

import pytest

import evenhand
from evenhand.exceptions import EvenhandWarning

FOLDER = Path(__file__).resolve().parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*/plot_*.py"))
SECTIONS = sorted(path for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())
PUBLIC = {"evenhand", "evenhand.exceptions", *(f"evenhand.{name}" for name in evenhand.__all__)}
LONGEST = 60  # processor seconds, by the issue that asked for them

each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem.removeprefix("plot_"))


def is_title(lines, underline):
    return len(lines) > 1 and lines[0].strip() != "" and set(lines[1]) == {underline} == {lines[1][0]}


def public_names(module):
    """What may be taken from a module: what it lists, or what has no underscore where it lists nothing."""
    return getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]


def parts_of(node):
    """The names of `eh.plots.INK` as ["eh", "plots", "INK"]; None for what is not such a chain."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [*reversed([*names, node.id])] if isinstance(node, ast.Name) else None


def strangers(tree):
    """Names of evenhand in a script that are not public, as it writes them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "evenhand":
            known = public_names(importlib.import_module(node.module)) if node.module in PUBLIC else ()
            yield from (f"{node.module}.{each.name}" for each in node.names if each.name not in known)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if "evenhand." in each.name)
        elif isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
            yield node.attr
        elif (parts := parts_of(node)) is not None and parts[0] == "eh" and len(parts) > 1:
            place = evenhand
            for name in parts[1:]:
                if name not in public_names(place):
                    yield ".".join(parts)
                place = getattr(place, name, None)
                if not isinstance(place, type(evenhand)):  # a class or a function: its attributes are its own
                    break


def text_and_code(path):
    """What a reader of the page reads as text, and what as code."""
    script = path.read_text()
    docstring = ast.get_docstring(ast.parse(script))
    cells = re.findall(r"^# %%\n((?:#.*\n)*)", script, flags=re.MULTILINE)
    return "\n".join([docstring, *cells]), re.sub(
        r"^#.*\n", "", script.split('"""', 2)[2], flags=re.MULTILINE
    )


def test_the_gallery_has_a_dozen_examples_in_sections_with_titles():
    assert len(EXAMPLES) >= 12
    assert {path.parent for path in EXAMPLES} == set(SECTIONS)
    for folder, underline in [(FOLDER, "="), *((section, "-") for section in SECTIONS)]:
        assert is_title((folder / "GALLERY_HEADER.rst").read_text().split("\n"), underline), folder


@each_example
def test_an_example_opens_with_a_title_and_a_sentence_and_ends_in_pictures(path):
    lines = ast.get_docstring(ast.parse(path.read_text())).split("\n")
    assert is_title(lines, "=")
    assert len(lines[0]) == len(lines[1])
    assert len(" ".join(lines[3:])) > 100
    assert "plt.show()" in path.read_text()


@each_example
def test_an_example_uses_public_names_alone(path):
    assert list(strangers(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "from evenhand._kernels import chunks",
        "from evenhand.dual.costs import Squared",
        "from evenhand.plots import subplots",
        "import evenhand.generalization.out_of_sample",
        "eh.estimators.ParityRegressor()",
        "eh.metrics.members_of(1)",
        "model._frontier_rows(1)",
    ],
)
def test_a_private_name_would_be_found(line):
    assert list(strangers(ast.parse(line))) != []


@each_example
def test_an_example_makes_its_own_data(path):
    _, code = text_and_code(path)
    assert re.findall(r"\b(load_\w+|fetch_\w+|open\(|read_\w+\(|https?:)", code) == []


@each_example
def test_the_figures_of_the_text_are_settings_of_the_code(path):
    # What is measured differs in last digits between machines: the script prints it, and no text repeats it.
    text, code = text_and_code(path)
    assert set(re.findall(r"\d+\.\d+", text)) <= set(re.findall(r"\d+\.\d+", code))


@pytest.mark.slow
@each_example
def test_an_example_runs_without_a_warning_and_draws(path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("error", EvenhandWarning)  # a reader would see it in the middle of the page
        runpy.run_path(str(path), run_name="__main__")
    assert time.process_time() - begin < LONGEST
    assert plt.get_fignums() != []
    plt.close("all")
