"""What pages of the reference show: members written here, fields, formulas, and links to other pages."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from itertools import takewhile

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

BEFORE_NUMPYDOC = 100  # smaller than that of its own handler of docstrings
PAGE = re.compile(r"`?\bdocs/([\w/-]+)\.md`?")
SECTION = re.compile(r"-{3,}$")
FIELD = r"^    {name}: (?P<type>.*?)(?: = (?P<default>.*?))?(?:  # (?P<words>.*))?$"
TYPES = {"FloatArray": "array of floats", "IntArray": "array of integers", "AnyArray": "array"}
PLUMBING = ("faults",)  # what the model file asks of every class
BUILT_BY_USERS = ("evenhand.solvers", "evenhand.dual")  # whose fields are parameters


def skip_foreign(
    app: Sphinx, what: str, name: str, member: object, skip: bool, options: object
) -> bool | None:
    """Leave out what a class inherits from another library, whose own pages tell of it."""
    if name in PLUMBING:
        return True
    home = getattr(member, "fget", member)
    module = getattr(home, "__module__", None) or "evenhand"
    return None if module.startswith("evenhand") else True


def prepare(app: Sphinx, what: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Make a docstring of ours one that reads well as a page."""
    words = [PAGE.sub(r":doc:`/\1`", line) for line in lines]
    if what == "class" and inspect.isclass(member):
        words += list_fields(member, words)
    lines[:] = mark_formulas(words)


def mark_formulas(lines: list[str]) -> Iterator[str]:
    """Mark indented lines after a paragraph as literal text, in the description and under Notes."""
    section = ""
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and SECTION.match(lines[i + 1]):
            section = line
        before = next((each for each in reversed(lines[:i]) if each), "")
        starts = line.startswith("    ") and i and not lines[i - 1]
        follows = before[:1] not in ("", " ", "-", ".") and not before.endswith("::")
        if section in ("", "Notes") and starts and follows:
            yield from (".. code-block:: text", "")
        yield line


def list_fields(cls: type, lines: list[str]) -> list[str]:
    """The fields of a dataclass as a section, from the comments beside them, if the docstring has none."""
    told = any(line in ("Attributes", "Parameters") for line in lines)
    if told or not dataclasses.is_dataclass(cls):
        return []
    fields = [each.name for each in dataclasses.fields(cls) if not each.name.startswith("_")]
    found = [line for name in fields for line in tell_field(cls, name)]
    title = "Parameters" if cls.__module__.startswith(BUILT_BY_USERS) else "Attributes"
    return ["", title, "-" * len(title), *found, ""] if found else []


def tell_field(cls: type, name: str) -> list[str]:
    """A field's name, type and meaning, as numpydoc reads them."""
    home = next(each for each in cls.__mro__ if name in vars(each).get("__annotations__", {}))
    source = inspect.getsource(home).splitlines()
    for i, line in enumerate(source):
        if (field := re.match(FIELD.format(name=name), line)) is not None:
            more = takewhile(lambda each: each.strip().startswith("# "), source[i + 1 :])
            words = [field["words"] or "", *(each.strip().removeprefix("# ") for each in more)]
            default = f", default={field['default']}" if field["default"] else ""
            told = re.sub(r"([|*])", r"\\\1", " ".join(words).strip())  # formulas are no markup
            kind = re.sub(r"\w+", lambda word: TYPES.get(word[0], word[0]), field["type"])
            return [f"{name} : {kind}{default}", f"    {told}"]
    return [name, ""]


def trim_blocks(app: Sphinx, doctree: nodes.document) -> None:
    """Take off the empty line that a doctest ends with."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource = text
        block.children = [nodes.Text(text)]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Tell Sphinx of them."""
    app.connect("doctree-read", trim_blocks)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", prepare, priority=BEFORE_NUMPYDOC)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
