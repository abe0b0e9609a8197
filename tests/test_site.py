"""The site, without Sphinx: public names have their place, pages are reached, links lead somewhere."""

import ast
import builtins
import doctest
import importlib
import inspect
import re
import tomllib
from collections import deque
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest

import evenhand as eh
from tests.test_page_blocks import PAGES

DOCS = Path(__file__).resolve().parents[1] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the docs are not part of this copy")

PUBLIC = (
    *("baselines", "calibration", "certificates", "costs", "datasets", "exceptions", "history", "metrics"),
    *("mlflow", "modelfile", "parity", "plots", "river", "scoring", "solvers", "tables"),
)
BLOCK = re.compile(r"^( *)(```+|~~~+)(.*?)\n(.*?)^\1\2 *$", re.DOTALL | re.MULTILINE)
SECTION = re.DOTALL | re.MULTILINE
IN_ALL_METHODS = re.compile(r"In all methods .*?(?:\n\n|\Z)", re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
MADE = ("gallery/", "reference/generated/")  # by Sphinx
# Blocks of Python that no doctest runs, and what runs them instead.
RUN_ELSEWHERE = {
    **dict.fromkeys(PAGES, "tests/test_page_blocks.py"),
    "how-to/clusters.md": "tests/clusters/test_spark.py",
    "how-to/extending.md": "tests/test_extending.py",
    "how-to/explaining.md": "tests/serving/test_shap.py",
    "how-to/gpu.md": "tests/test_torch.py",
    "how-to/mlflow.md": "tests/serving/test_mlflow.py",
    "how-to/onnx.md": "tests/onnx_graphs/test_export.py",
    "tutorials/big-tables-and-clusters.md": "tests/clusters/test_dask.py",
    "how-to/search.md": "tests/test_scoring.py",
}


def pages():
    return sorted(
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if not path.relative_to(DOCS).as_posix().startswith(("_", *MADE))
    )


@cache
def read(page):
    return (DOCS / page).read_text()


def prose(page):
    """The page without its blocks and spans of code."""
    return re.sub(r"`[^`\n]*`", "", BLOCK.sub("", read(page)))


def headings(page):
    """Anchors of the page, as GitHub has them: lower case, without marks, with hyphens for blanks."""
    titles = re.findall(r"^#+ +(.*?) *$", BLOCK.sub("", read(page)), re.MULTILINE)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}


def links(page):
    """Targets within the docs, as (page or file, anchor)."""
    here = PurePosixPath(page).parent
    for target in LINK.findall(prose(page)):
        if re.match(r"\w+:", target) is None:
            path, _, anchor = target.partition("#")
            yield (normal(here / path) if path else page), anchor


def normal(path):
    return PurePosixPath(*_resolved(path.parts)).as_posix()


def _resolved(parts):
    kept = []
    for part in parts:
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        else:
            kept.append(part)
    return kept


def contents(page):
    """Pages in the page's tables of contents."""
    here = PurePosixPath(page).parent
    for _, _, kind, text in BLOCK.findall(read(page)):
        if kind.strip() == "{toctree}":
            entries = [line.strip() for line in text.splitlines()]
            for entry in (each for each in entries if each and not each.startswith(":")):
                name = re.sub(r".*<(.*)>", r"\1", entry)
                if "*" in name:
                    yield from (each for each in pages() if PurePosixPath(each).match(f"{here}/{name}.md"))
                else:
                    yield f"{normal(here / name)}.md"


def clicks():
    """How many clicks away each page is from the first."""
    found, waiting = {"index.md": 0}, deque(["index.md"])
    while waiting:
        page = waiting.popleft()
        for other in (*contents(page), *(target for target, _ in links(page))):
            if other.endswith(".md") and other not in found and (DOCS / other).is_file():
                found[other] = found[page] + 1
                waiting.append(other)
    return found


def public_names():
    """Full names of what may be imported from the public modules."""
    names = {f"evenhand.{name}" for name in eh.__all__ if not inspect.ismodule(getattr(eh, name))}
    for home in PUBLIC:
        module = getattr(eh, home) if home in eh.__all__ else importlib.import_module(f"evenhand.{home}")
        own = (
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__ and not name.startswith("_")
        )
        names |= {f"evenhand.{home}.{name}" for name in getattr(module, "__all__", own)}
    return names - {
        "evenhand.modelfile.load",
        "evenhand.modelfile.save",
        "evenhand.parity.Thresholds",
    }  # eh.load


def listed_names():
    """Names that a page of the reference lists, for Sphinx to tell of or in a table."""
    found = []
    for page in pages():
        if page.startswith("reference/api"):
            text = read(page)
            for _, _, kind, block in BLOCK.findall(text):
                if kind.strip() == "{eval-rst}":
                    found += re.findall(r"^   (evenhand\.[\w.]+)$", block, re.MULTILINE)
            for row in re.findall(r"^\| (`evenhand.*?`) \|", text, re.MULTILINE):
                found += re.findall(r"`(evenhand\.[\w.]+)`", row)
    return found


def find(name):
    """The object of a full name; modules on the way are imported."""
    found = eh
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def test_every_public_name_is_in_the_reference_and_nothing_else_is():
    listed = listed_names()
    assert len(listed) == len(set(listed))
    assert public_names() - set(listed) == set()
    for name in listed:
        assert find(name) is not None, name


def test_every_listed_class_and_function_has_a_sentence_of_its_own():
    for name in listed_names():
        found = find(name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert (found.__doc__ or "").strip(), name


def parameters(function):
    """Names of what a function or a class takes."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def sections(doc):
    """Names in the Parameters section of a docstring, in its order; none without one."""
    found = re.search(r"^Parameters\n-+\n(.*?)(?=^[^\n]+\n-{3,}\n|\Z)", inspect.cleandoc(doc or ""), SECTION)
    heads = re.findall(r"^\S.*", found[1], re.MULTILINE) if found else []
    return [name.strip(" *") for head in heads for name in re.split(r" :(?: |$)", head)[0].split(",")]


def named_in_prose(doc):
    """Words that open a span of code in a docstring, such as `state` and `state.multipliers`."""
    return set(re.findall(r"`(\w+)[^`]*`", doc or ""))


def is_setter(function):
    """It takes one number and returns nothing: its sentence says what that is."""
    hints = inspect.get_annotations(function, eval_str=True)
    return len(hints) == 2 and hints.pop("return") is None and set(hints.values()) <= {int, float, bool}


def own_methods(cls):
    """Public methods that evenhand brings to a class, and where each is defined, the nearest first.

    A class that has all the methods of a public protocol, such as an operator, tells them as the protocol
    does.
    """
    protocols = [each for each in map(find, listed_names()) if getattr(each, "_is_protocol", False)]
    followed = [
        each for each in protocols if {name for name in vars(each) if name[0] != "_"} <= set(dir(cls))
    ]
    for name in (each for each in dir(cls) if not each.startswith("_")):
        homes = [home for home in (*cls.__mro__, *followed) if name in vars(home)]
        kept = [getattr(home, name) for home in homes if home.__module__.startswith("evenhand")]
        if kept and all(inspect.isroutine(each) for each in kept):
            yield name, kept


def is_for_others_to_write(cls, method):
    return getattr(method, "__isabstractmethod__", False) or getattr(cls, "_is_protocol", False)


def test_every_listed_function_tells_of_its_parameters_and_of_no_others():
    for name in listed_names():
        function = find(name)
        if inspect.isfunction(function) and not is_setter(function):
            assert sorted(sections(function.__doc__)) == sorted(parameters(function)), name


def test_every_method_of_a_listed_class_tells_of_its_parameters_and_of_no_others():
    """In a section, which those need that others are to write: abstract ones, and the methods of a protocol.

    Others may leave it to the section of a method that they override, to backquotes in their own prose, or to
    the class, where it says what a name is "In all methods".
    """
    for name in listed_names():
        cls = find(name)
        for method, (own, *overridden) in own_methods(cls) if inspect.isclass(cls) else ():
            told, wanted = sections(own.__doc__), parameters(own)
            if told or is_for_others_to_write(cls, own):
                assert sorted(told) == sorted(wanted), f"{name}.{method}"
            else:
                docs = [own.__doc__, *(each.__doc__ for each in overridden)]
                of_all = [
                    words for each in cls.__mro__ for words in IN_ALL_METHODS.findall(each.__doc__ or "")
                ]
                prose = map(named_in_prose, (*docs, *of_all))
                assert set(wanted) <= set().union(*map(sections, docs), *prose), f"{name}.{method}"


def test_every_section_of_a_listed_class_names_what_it_takes():
    for name in listed_names():
        cls = find(name)
        if inspect.isclass(cls) and sections(cls.__doc__):
            own, wanted = sections(cls.__doc__), set(parameters(cls))
            told = {each for base in cls.__mro__ for each in sections(base.__doc__)}
            assert set(own) <= wanted <= told, name
            assert len(own) == len(set(own)), name


def free_names(code):
    """Names that code reads and nowhere makes."""
    made, read = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Import() | ast.ImportFrom():
                made |= {(each.asname or each.name).partition(".")[0] for each in node.names}
            case ast.FunctionDef() | ast.ClassDef():
                made.add(node.name)
            case ast.arg():
                made.add(node.arg)
            case ast.Name():
                (read if isinstance(node.ctx, ast.Load) else made).add(node.id)
    return read - made


def test_examples_of_the_reference_can_be_copied_with_all_that_they_need():
    for name in listed_names():
        found = find(name)
        if inspect.isclass(found) or inspect.isfunction(found):
            examples = doctest.DocTestParser().get_examples(inspect.getdoc(found) or "")
            assert free_names("".join(each.source for each in examples)) == set(), name


def test_every_page_is_reached_from_the_first_one():
    assert set(pages()) - set(clicks()) == set()


def test_every_page_is_in_a_table_of_contents():
    listed = [other for page in pages() for other in contents(page)]
    assert set(pages()) - set(listed) == {"index.md"}
    assert {each for each in listed if not each.startswith(MADE)} <= set(pages())


def test_a_model_of_ones_own_table_is_four_clicks_away_at_most():
    assert clicks()["tutorials/your-own-table.md"] <= 4


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_files_and_headings_that_are_there(page):
    for target, anchor in links(page):
        if target.startswith(MADE):
            assert not target.startswith("gallery/") or (DOCS.parent / "examples").is_dir(), target
            continue
        assert (DOCS / target).is_file(), f"{page} links to {target}"
        if anchor and target.endswith(".md"):
            assert anchor in headings(target), f"{page} links to {target}#{anchor}"


@pytest.mark.parametrize("page", [*pages(), "../README.md", "../CONTRIBUTING.md"])
def test_addresses_outside_are_written_as_such(page):
    for address in re.findall(r"https?:[^\s)>`\"|]+", read(page)):
        parts = urlsplit(address)
        assert "." in parts.netloc or parts.hostname in ("localhost", "127.0.0.1"), address


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_of_the_other_pages_lead_to_files_and_headings_that_are_there(page):
    for target, anchor in links(f"../{page}"):
        assert (DOCS / target).exists(), f"{page} links to {target}"
        if anchor and target.endswith(".md"):
            assert anchor in headings(target), f"{page} links to {target}#{anchor}"


def test_pages_that_the_code_names_are_there():
    root = DOCS.parent
    for folder in ("src", "reproduction", "benchmarks", "demos", "tests"):
        for path in (root / folder).rglob("*.py"):
            for name in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text()):
                assert (root / name).is_file(), f"{path} names {name}"


@pytest.mark.parametrize("page", pages())
def test_every_block_of_python_is_run(page):
    blocks = [
        text for _, _, kind, text in BLOCK.findall(read(page)) if kind.strip() in ("python", "py", "pycon")
    ]
    silent = [text for text in blocks if ">>> " not in text]
    if silent:
        assert page in RUN_ELSEWHERE, f"{page}: nothing runs\n{silent[0]}"
        runner = (DOCS.parent / RUN_ELSEWHERE[page]).read_text()
        assert PurePosixPath(page).name in runner


def test_doctests_of_all_pages_are_collected():
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    paths = [path for path in settings["testpaths"] if path.startswith("docs")]
    assert "--doctest-glob=docs/*.md" in settings["addopts"]
    for page in pages():
        told = f"docs/{page}"
        assert ">>> " not in read(page) or any(told.startswith(path) for path in paths), told


FETCHED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*(?:src|href)=["']?(?:https?:)?//|@import|url\(["']?(?:https?:)?//"""
)


def test_nothing_is_fetched_when_the_site_is_read():
    for path in (*DOCS.rglob("*.md"), *DOCS.rglob("*.html"), *DOCS.rglob("*.css"), DOCS / "conf.py"):
        if "_build" not in path.parts:
            assert FETCHED.search(path.read_text()) is None, path


def test_the_slider_is_its_template_with_numbers():
    before, after = (DOCS / "tilt_slider_template.html").read_text().split("/* DATA */ null")
    page = (DOCS / "_static" / "tilt-slider.html").read_text()
    assert page.startswith(before)
    assert page.endswith(after)
