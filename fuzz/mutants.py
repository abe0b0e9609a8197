"""Mutation testing of the core: small changes of its code, each of which some test should notice.

`python -m fuzz.mutants --each 20` tries twenty of each module, chosen by a seed, in processes that share the
imports of the libraries; `--all` tries every one, which takes hours. Numba's loops are left out: they have
plain twins that other tests compare them with.
"""

import argparse
import ast
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 600.0  # seconds of the tests of one mutant: one that hangs is noticed

CORE = {
    "dual.objective": ("test_core", "test_objective"),
    "solvers.batch": ("test_core", "test_batch", "test_budgets", "test_properties"),
    "dual.policy": ("test_core", "test_policy"),
    "data.draws": ("test_core", "test_draws", "test_hostile_labels"),
    "certificates.heldout": ("test_heldout_certificates",),
    "modelfile.codec": ("test_core", "test_modelfile_codec", "test_modelfile_hostile"),
    "estimators.streaming.moments": ("test_stream_notions", "test_streams"),
}  # a module, and the tests that are meant to know it

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub,
    ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one small change."""

    module: str
    line: int
    change: str
    tree: ast.Module


def mutants_of(module: str) -> Iterator[Mutant]:
    """Every mutant of a module; its constants, which are tuning, its types and its messages stay."""
    path = ROOT / "src" / "evenhand" / Path(*module.split("."))
    tree = ast.parse(path.with_suffix(".py").read_text())
    places = [place for place, node in enumerate(_code_of(tree)) if _change(deepcopy(node)) is not None]
    for place in places:
        changed = deepcopy(tree)
        node = next(each for number, each in enumerate(_code_of(changed)) if number == place)
        told = _change(node)
        assert told is not None
        yield Mutant(module, getattr(node, "lineno", 0), told, ast.fix_missing_locations(changed))


def _code_of(tree: ast.Module) -> Iterator[Any]:
    """The nodes inside of functions, but for annotations, `raise` and `assert`."""
    for each in ast.walk(tree):
        if isinstance(each, ast.FunctionDef):
            for statement in each.body:
                if not isinstance(statement, ast.FunctionDef):
                    yield from _inside(statement)


def _inside(node: ast.AST) -> Iterator[Any]:
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.FunctionDef):
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _inside(child)


def _change(node: Any) -> str | None:
    """Change a node where it stands, and say how; None where there is nothing to change."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        before, node.ops[0] = type(node.ops[0]).__name__, SWAPS[type(node.ops[0])]()
        return f"{before} -> {type(node.ops[0]).__name__}"
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPS:
        before, node.op = type(node.op).__name__, SWAPS[type(node.op)]()
        return f"{before} -> {type(node.op).__name__}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        before, node.op = type(node.op).__name__, ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if before == "Not":
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        return f"without {before}"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return f"{type(node).__name__} not"
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        node.attr = NAMES[node.attr]
        return f"-> {node.attr}"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        before, node.value = node.value, _other(node.value)
        return f"{before!r} -> {node.value!r}"
    return None


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) or value == 0.0 else 2.0 * value


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutant in place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.tree = f"evenhand.{mutant.module}", mutant.tree
        self.path = str((ROOT / "src" / "evenhand" / Path(*mutant.module.split("."))).with_suffix(".py"))

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        exec(compile(self.tree, self.path, "exec"), module.__dict__)


def survives(mutant: Mutant | None, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass, in a process of their own that starts with the libraries loaded."""
    child = os.fork()
    if not child:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        if mutant is not None:
            sys.meta_path.insert(0, _Loader(mutant))
        import pytest

        chosen = [f"tests/{name}.py" for name in tests]
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *chosen])))
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main(arguments: list[str] | None = None) -> int:
    """Tell the survivors; exit status 1 where there are any."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"some of {', '.join(CORE)}; all by default")
    parser.add_argument("--each", type=int, default=10, help="mutants of each module")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    import numba  # noqa: F401  # each child starts with these
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.ensemble  # noqa: F401

    os.chdir(ROOT)
    found = 0
    for module in given.modules or CORE:
        every = list(mutants_of(module))
        rng = np.random.default_rng(given.seed)
        size = len(every) if given.all else min(given.each, len(every))
        chosen = [every[place] for place in np.sort(rng.choice(len(every), size, replace=False))]
        if not survives(None, CORE[module]):
            print(f"{module}: the tests fail without any mutant", flush=True)
            return 1
        left = [mutant for mutant in chosen if survives(mutant, CORE[module])]
        print(f"{module}: {len(chosen)} of {len(every)} mutants, {len(left)} survive", flush=True)
        for mutant in left:
            print(f"  line {mutant.line}: {mutant.change}", flush=True)
        found += len(left)
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
