"""Measure the structure of the library: lines, constants, functions, classes and imports.

`make budgets` runs this file, which writes `tests/budgets.json`; `tests/test_structure.py` compares that file
with the code, and `make bench ONLY=structure` prints all measures.
"""

import ast
import io
import json
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import evenhand

PACKAGE = Path(evenhand.__file__).parent
BUDGETS = Path(__file__).with_name("budgets.json")

MAX_FUNCTION_LINES = 40  # of code
MAX_MODULE_LINES = 600  # of the file
MIN_MODULE_LINES = 60  # of code, where only one module imports it
# A budget may exceed the code by 2%, or by this many if that is more.
SLACK = {"lines of code": 20, "lines of text": 20, "modules": 2, "constants": 2}
# Abstract classes that do not derive from ABC
MIXINS = {"Display", "GridParameters", "ModelParameters", "StepParameters", "Stored"}

NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
NO_CODE |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
UPPER_CASE = re.compile(r"_?[A-Z][A-Z0-9_]*")
ROWS = re.compile(r"Rows\b")
ROW_SHAPE = re.compile(r"#.*\([^()]*\bn_rows\b")  # as in "# (n_rows, n_groups)", next to a field


@dataclass(frozen=True, eq=False)
class Module:
    """A file, parsed."""

    path: Path
    name: str
    package: str  # its folder in src/evenhand, or "root"
    lines: list[str]
    tree: ast.Module
    code: set[int]  # numbers of the lines without docstrings, comments and blank lines
    definitions: list[tuple[str, Any]]  # classes and functions by their dotted names


def code_lines(source: str, tree: ast.Module) -> set[int]:
    docstrings, lines = set(), set()
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS)
        if documented and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstrings


def find_definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Any]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.ClassDef | FUNCTIONS):
            name = f"{prefix}.{child.name}"
            yield name, child
        yield from find_definitions(child, name)


@cache
def read_modules() -> tuple[Module, ...]:
    """All modules of the library."""
    modules = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source, parts = path.read_text(), path.relative_to(PACKAGE).with_suffix("").parts
        tree, name = ast.parse(source), ".".join(("evenhand", *parts)).removesuffix(".__init__")
        package = parts[0] if len(parts) > 1 else "root"
        found = list(find_definitions(tree, name))
        modules.append(
            Module(path, name, package, source.splitlines(), tree, code_lines(source, tree), found)
        )
    return tuple(modules)


@cache
def imports() -> dict[str, set[str]]:
    """Modules that each module imports: anywhere in it, and also for the type checker only."""
    import grimp  # comes with import-linter, which some environments do without

    graph = grimp.build_graph("evenhand", cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def is_numeric(value: ast.AST | None) -> bool:
    """Whether an expression is a numeric literal, arithmetic with one, or a collection or array of these."""
    match value:
        case ast.Constant(value=constant):
            return isinstance(constant, int | float | complex) and not isinstance(constant, bool)
        case ast.UnaryOp(operand=operand):
            return is_numeric(operand)
        case ast.BinOp(left=left, right=right):
            return is_numeric(left) or is_numeric(right)
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values) | ast.Dict(values=values):
            return bool(values) and all(map(is_numeric, values))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np")), args=[first, *_]):
            return is_numeric(first)
    return False


def count_constants(module: Module) -> int:
    """UPPER_CASE names and ClassVars with numeric values, in the module and in classes other than enums."""
    classes = [node for _, node in module.definitions if isinstance(node, ast.ClassDef)]
    classes = [node for node in classes if not any("Enum" in ast.unparse(base) for base in node.bases)]
    assigned: list[tuple[str, Any]] = []
    for statement in (each for node in (module.tree, *classes) for each in node.body):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                assigned += zip(map(ast.unparse, names), values, strict=True)
            case ast.Assign(targets=names, value=value):
                assigned += [(ast.unparse(name), value) for name in names]
            case ast.AnnAssign(target=name, annotation=annotation, value=value):
                shared = "ClassVar" in ast.unparse(annotation)
                assigned.append((ast.unparse(name).upper() if shared else ast.unparse(name), value))
    return sum(bool(UPPER_CASE.fullmatch(name)) and is_numeric(value) for name, value in assigned)


def measure_packages(modules: Iterable[Module]) -> dict[str, dict[str, int]]:
    """Lines of code, lines of text (not blank), modules and constants of each package and in total."""
    sums: dict[str, Counter[str]] = {}
    for module in modules:
        text = sum(bool(line.strip()) for line in module.lines)
        own = dict(zip(SLACK, (len(module.code), text, 1, count_constants(module)), strict=True))
        for name in (module.package, "total"):
            sums.setdefault(name, Counter()).update(own)
    return {name: dict(sums[name]) for name in sorted(sums, key=lambda name: (name == "total", name))}


def long_functions(modules: Iterable[Module]) -> dict[str, int]:
    """Lines of code of the functions that have too many."""
    return {
        name: size
        for module in modules
        for name, node in module.definitions
        if isinstance(node, FUNCTIONS)
        and (size := len(module.code.intersection(range(node.lineno, node.end_lineno + 1))))
        > MAX_FUNCTION_LINES
    }


def single_importer(modules: Iterable[Module]) -> dict[str, int]:
    """Lines of code of the modules that exactly one other module imports."""
    n_importers = Counter(name for names in imports().values() for name in names)
    return {module.name: len(module.code) for module in modules if n_importers[module.name] == 1}


def row_classes(modules: Iterable[Module]) -> list[str]:
    """Classes that hold rows.

    Its name, the name of a base or the type of a field ends in Rows, or the comment next to a field gives a
    shape with n_rows. Callables do not count.
    """

    def holds_rows(node: ast.ClassDef, lines: list[str]) -> bool:
        names = [node.name, *map(ast.unparse, node.bases)]
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and "Callable" not in ast.unparse(field.annotation):
                names.append(ast.unparse(field.annotation))
                if ROW_SHAPE.search(lines[(field.end_lineno or 0) - 1]):
                    return True
        return any(ROWS.search(name) for name in names)

    return [
        name
        for module in modules
        for name, node in module.definitions
        if isinstance(node, ast.ClassDef) and holds_rows(node, module.lines)
    ]


def subclasses_of_concrete_classes(modules: Iterable[Module]) -> list[str]:
    """Classes that inherit from a concrete class of evenhand, except exceptions and warnings.

    Bases are looked up by the last part of their names, whichever module they come from.
    """
    classes: dict[str, list[ast.ClassDef]] = {}
    for _, node in (each for module in read_modules() for each in module.definitions):
        if isinstance(node, ast.ClassDef):
            classes.setdefault(node.name, []).append(node)

    def base_names(node: ast.ClassDef) -> list[str]:
        return [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]

    def parents(node: ast.ClassDef) -> list[ast.ClassDef]:
        return [each for name in base_names(node) if name != node.name for each in classes.get(name, [])]

    def open_methods(node: ast.ClassDef) -> set[str]:
        methods = {each.name: each.decorator_list for each in node.body if isinstance(each, FUNCTIONS)}
        abstract = {name for name, marks in methods.items() if "abstractmethod" in map(ast.unparse, marks)}
        return set().union(*map(open_methods, parents(node))) - methods.keys() | abstract

    def is_abstract(node: ast.ClassDef) -> bool:
        return node.name in MIXINS or bool({"ABC", "Protocol"} & {*base_names(node)} or open_methods(node))

    return [
        name
        for name, node in (each for module in modules for each in module.definitions)
        if isinstance(node, ast.ClassDef) and not name.endswith(("Error", "Exception", "Warning"))
        if not all(map(is_abstract, parents(node)))
    ]


def broken_rules(modules: tuple[Module, ...]) -> dict[str, list[str] | dict[str, int]]:
    """What breaks a rule, for each rule; with its size where the rule is about that."""
    return {
        f"functions over {MAX_FUNCTION_LINES} lines of code": long_functions(modules),
        f"modules over {MAX_MODULE_LINES} lines": [
            m.name for m in modules if len(m.lines) > MAX_MODULE_LINES
        ],
        f"modules under {MIN_MODULE_LINES} lines of code with a single importer": {
            name: size for name, size in single_importer(modules).items() if size < MIN_MODULE_LINES
        },
        "classes that inherit from a concrete class": subclasses_of_concrete_classes(modules),
    }


def compare(budgets: dict[str, Any], measured: dict[str, Any]) -> list[str]:
    """Where the budget file and the code disagree, and what to do."""
    found = []
    for package in sorted(measured["packages"].keys() | budgets["packages"].keys()):
        for measure, slack in SLACK.items():
            actual = measured["packages"].get(package, {}).get(measure, 0)
            budget = budgets["packages"].get(package, {}).get(measure, 0)
            state = f"{package}: {actual} {measure}, the budget is {budget}."
            if actual > budget:
                advice = "Shorten the code, or raise the budget and give the reason in the commit message."
                found.append(f"{state} {advice}")
            elif budget - actual > max(slack, 0.02 * actual):
                found.append(f"{state} Lower the budget to {actual}: run `make budgets`.")
    for rule, names in measured["exceptions"].items():
        old, new = set(budgets["exceptions"].get(rule, [])), set(names)
        advice = "Exceptions may only shrink; if it was moved, rename it in tests/budgets.json."
        found += [f"{name} is one of the {rule}. {advice}" for name in sorted(new - old)]
        advice = "Take it off the exceptions: run `make budgets`."
        found += [f"{name} is no longer one of the {rule}. {advice}" for name in sorted(old - new)]
    return found


def measure() -> dict[str, Any]:
    """The content of the budget file, as the code would have it."""
    return {"packages": measure_packages(read_modules()), "exceptions": broken_rules(read_modules())}


def write_budgets() -> None:
    """Set the budgets to what the code has, and remove exceptions that are no longer needed; add none."""
    old, new = json.loads(BUDGETS.read_text()), measure()
    differences = compare(old, new)
    for rule, names in new["exceptions"].items():
        new["exceptions"][rule] = sorted(set(names).intersection(old["exceptions"].get(rule, [])))
    BUDGETS.write_text(json.dumps(new, indent=2) + "\n")
    print("\n".join([f"Wrote {BUDGETS}, which had {len(differences)} differences.", *differences]))  # noqa: T201


if __name__ == "__main__":
    write_budgets()
