"""The size of the house, before and after it was built anew: names, layers, lines, and the way of a fit.

"Before" is the commit `BEFORE`, read from git; "after" is this checkout.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from benchmarks._support import extract, show_table

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "5f6d96a"  # the last commit of the old house
NO_NAMES = ("__init__.py", "__pycache__", "py.typed")

# Run in a process of its own, on either package: modules and changes of room of one fit and one report.
JOURNEY = """
import json, sys, tempfile
from pathlib import Path
import evenhand as eh

data = eh.datasets.make_population(600, n_groups=2, random_state=0)
X, y, groups = data.data, data.target, data.sensitive_features
home = str(Path(eh.__file__).parent)

def fit():
    return eh.ParityRegressor(epsilon=0.05, random_state=0).fit(X, y, sensitive_features=groups)

model = fit()

def report():
    with tempfile.TemporaryDirectory() as folder:
        eh.report(model, X, y, sensitive_features=groups, path=Path(folder, "page.html"))

def journey(run):
    seen, last, changes = set(), None, 0
    def look(frame, event, argument):
        nonlocal last, changes
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(home):
            return
        module = name[len(home) + 1 :]
        seen.add(module)
        room = module.split("/")[0]
        changes += room != last
        last = room
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len(seen), changes

report()  # compiled and imported by now
print(json.dumps({"fit": journey(fit), "report": journey(report)}))
"""


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank ones, no comments, no docstrings."""
    text = path.read_text()
    words: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if ast.get_docstring(node) is not None and first is not None:
                words.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip()[:1] not in ("", "#") and number not in words)


def assemblies(path: Path) -> int:
    """Calls that make a `DualProblem`, outside of its own module."""
    if path.name == "problem.py":
        return 0
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return sum(1 for call in calls if ast.unparse(call.func) in ("DualProblem", "DualProblem.from_rows"))


def measure(root: Path) -> dict[str, object]:
    """The figures of one checkout."""
    package = root / "src" / "evenhand"
    modules = [path for path in package.rglob("*.py") if "__pycache__" not in path.parts]
    names = [path for path in package.iterdir() if path.name not in NO_NAMES]
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    way = json.loads(
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", JOURNEY],
            env=os.environ | {"PYTHONPATH": str(root / "src")},
            check=True,
            capture_output=True,
            text=True,
            cwd=tempfile.gettempdir(),
        ).stdout
    )
    return {
        "top-level names": len(names),
        "import layers": len(contracts[0]["layers"]),
        "modules": len(modules),
        "lines of code without docstrings": sum(map(code_lines, modules)),
        "modules that one fit passes through": way["fit"][0],
        "changes of room in one fit": way["fit"][1],
        "modules that one report passes through": way["report"][0],
        "changes of room in one report": way["report"][1],
        "places that assemble the problem": sum(map(assemblies, modules)),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        before = measure(extract(ROOT, BEFORE, Path(folder)))
    after = measure(ROOT)
    show_table(["", "before", "after"], [[name, str(before[name]), str(after[name])] for name in before])
    lines = "lines of code without docstrings"
    print(f"\nafter / before, lines of code: {int(str(after[lines])) / int(str(before[lines])):.3f}")


if __name__ == "__main__":
    main()
