"""Names and files of evenhand exist under the path by which docs, messages and scripts name them."""

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import evenhand

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "evenhand"
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the docs are not part of this copy")

FOLDERS = {"docs": (".md",), "src/evenhand": (".py",), "examples": (".py", ".rst"), "demos": (".py",)}
GENERATED = ("docs/_build/", "docs/gallery/", "docs/reference/generated/")  # by Sphinx

NAME = re.compile(r"(?<![\w./@-])(?:evenhand|eh)(?:\.[A-Za-z_]\w*)+")
IMPORT = re.compile(r"\bfrom (evenhand[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))")
PATH = re.compile(r"(?<![\w/.*-])\w+(?:/\w+)+\.py\b")
# What looks like a name of Python and is none.
NOT_PYTHON = {
    **dict.fromkeys(
        ("evenhand.model", "evenhand.parts_in_single_precision", "evenhand.out_of_sample"),
        "a key in the metadata of an ONNX graph",
    ),
    "evenhand.plugins": "a group of entry points",
}


def unreleased(changelog):
    """The changelog down to the second heading of a version."""
    return "## [".join(changelog.split("## [")[:2])


@cache
def texts():
    """Everything that a reader may copy a name from, by path."""
    found = {path: (ROOT / path).read_text() for path in ("README.md", "CONTRIBUTING.md")}
    found["CHANGELOG.md"] = unreleased((ROOT / "CHANGELOG.md").read_text())
    for folder, suffixes in FOLDERS.items():
        for file in sorted((ROOT / folder).rglob("*")):
            path = file.relative_to(ROOT).as_posix()
            if file.suffix in suffixes and not path.startswith(GENERATED):
                found[path] = file.read_text()
    return found


def full(name):
    """The name with `evenhand` for `eh`."""
    return re.sub(r"^eh\b", "evenhand", name)


def names_of(text):
    """Dotted names in a text, those of its import statements included."""
    yield from (full(name) for name in NAME.findall(text))
    for home, several, one in IMPORT.findall(re.sub(r"^ *(?:>>>|\.\.\.) ", "", text, flags=re.MULTILINE)):
        for each in re.sub(r"#.*", "", several or one).split(","):
            if each.strip():
                yield f"{home}.{each.split()[0]}"


def is_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is a module, not a package
        return False


def split(name):
    """The longest prefix of a name that is a module, and the attributes after it."""
    parts = name.split(".")
    length = 1
    while length < len(parts) and is_module(".".join(parts[: length + 1])):
        length += 1
    return ".".join(parts[:length]), parts[length:]


def defines(home, attribute):
    """Whether a module that cannot be imported here defines a name at its top level."""
    tree = ast.parse(Path(importlib.util.find_spec(home).origin).read_text())
    targets = (
        target
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )
    defined = {target.id for target in targets if isinstance(target, ast.Name)}
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return attribute in defined | {node.name for node in tree.body if isinstance(node, kinds)}


def fault(name):
    """What is wrong with a dotted name; None if it can be imported as it is written."""
    home, attributes = split(name)
    try:
        found = importlib.import_module(home)
    except ImportError as error:
        if (error.name or "").startswith("evenhand"):
            raise
        missing = attributes[:1] if attributes and not defines(home, attributes[0]) else []
        return f"{home} does not define {missing[0]}" if missing else None
    for attribute in attributes:
        if not hasattr(found, attribute):
            return f"{found!r} has no attribute {attribute!r}"
        found = getattr(found, attribute)
        if isinstance(found, ModuleType):
            return f"{found!r} cannot be imported by this name"
    return None


def test_every_dotted_name_can_be_imported_as_it_is_written():
    places = {}
    for path, text in texts().items():
        for name in names_of(text):
            places.setdefault(name, path)
    assert len(places) > 500
    assert set(places) >= set(NOT_PYTHON)
    faults = {name: (path, fault(name)) for name, path in places.items() if name not in NOT_PYTHON}
    assert {name: found for name, found in faults.items() if found[1] is not None} == {}


def test_every_module_file_that_is_named_exists():
    folders = (ROOT, ROOT / "src", SOURCE)
    wrong = {
        file: path
        for path, text in texts().items()
        for file in PATH.findall(text)
        if not any((folder / file).is_file() for folder in folders)
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "line",
    [
        "a class that extends evenhand.parity.Notion",
        "`eh.metrics.nothing`",
        "eh.ParityRegressor.nothing",
        "see evenhand.plots.plt",
        "evenhand.tables.on_dask.Nothing",
        "from evenhand.metrics import unfairness, nothing",
        ">>> from evenhand.metrics import (\n...     unfairness,\n...     nothing,\n... )",
    ],
)
def test_a_wrong_name_would_be_found(line):
    assert [fault(name) for name in names_of(line) if fault(name) is not None] != []


STATEMENTS = [
    "from evenhand.parity import ParityNotion",
    "from evenhand.costs import Cost, Squared",
    "from evenhand.scoring import parity_scorer",
    "from evenhand.tables import fit_table, iter_predictions, predict_table, stream_table",
    "import evenhand as eh, evenhand.dual; assert eh.parity is sys.modules['evenhand.parity']",
    "import evenhand.tables as tables, evenhand as eh; assert eh.tables is tables",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_public_modules_can_be_imported_before_anything_else(statement):
    subprocess.run([sys.executable, "-c", f"import sys; {statement}"], check=True)


@pytest.mark.parametrize("name", ["costs", "parity", "scoring", "tables"])
def test_a_public_module_lists_what_it_offers(name):
    module = importlib.import_module(f"evenhand.{name}")
    assert getattr(evenhand, name) is module
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
