"""The structure of the library: sizes of packages, modules and functions, and the modules that a fit enters.

`python -m benchmarks.bench_structure --layer estimators calibration` restricts all measures to some packages.
`tests/structure.py` has the definitions, which `tests/test_structure.py` uses too.
"""

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import evenhand as eh
from benchmarks._support import show_table
from tests import structure
from tests.structure import Module

N_ROWS = 3000
MAX_PARAMETERS = 6  # without self and cls
# Modules that only a fit needs; a name that ends with a dot stands for a package.
ONLY_FOR_FITS = (
    *(f"evenhand.estimators.{name}" for name in ("checks", "crossfit", "fit_models", "folds")),
    *(f"evenhand.estimators.{name}" for name in ("recalibration", "step_fit", "training_data")),
    "evenhand.data.sampling",
    "evenhand.generalization.",
)


def many_parameters(modules: Sequence[Module]) -> dict[str, int]:
    """Number of parameters of the functions that have too many; *args and **kwargs do not count."""
    found = {}
    for name, node in (each for module in modules for each in module.definitions):
        if isinstance(node, structure.FUNCTIONS):
            names = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            found[name] = len(names) - (names[:1] in (["self"], ["cls"]))
    return {name: number for name, number in found.items() if number > MAX_PARAMETERS}


def longest_chain(names: set[str]) -> int:
    """Modules in the longest chain of imports among `names`; no chain goes around a cycle."""
    lengths: dict[str, int] = {}

    def length(name: str) -> int:
        if name not in lengths:
            lengths[name] = 0  # while its imports are followed
            lengths[name] = 1 + max(map(length, sorted(structure.imports()[name] & names)), default=0)
        return lengths[name]

    return max(map(length, sorted(names)), default=0)


def entered_modules(run: Callable[[], object], modules: Sequence[Module]) -> list[str]:
    """Modules in which `run` calls Python functions in this thread, once all is imported and compiled."""
    files = set()

    def look(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    run()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [module.name for module in modules if str(module.path) in files]


def show(label: str, names: Iterable[str] | dict[str, int]) -> None:
    words = [f"{name} {names[name]}" if isinstance(names, dict) else name for name in names]
    text = ", ".join(word.removeprefix("evenhand.") for word in words)
    print(f"\n{label}: {len(words)}")
    if text:
        print(textwrap.fill(text, 116, initial_indent="  ", subsequent_indent="  "))


def show_imports(modules: Sequence[Module]) -> None:
    inside = {module.name for module in modules}
    n_imports = sum(len(structure.imports()[name]) for name in inside)
    print(f"\nimports: {n_imports}; modules in the longest chain of imports: {longest_chain(inside)}")
    show("modules with a single importer, and their lines of code", structure.single_importer(modules))


def show_entered(modules: Sequence[Module]) -> None:
    data = eh.datasets.make_population(N_ROWS, n_groups=2, random_state=0)
    model = eh.ParityRegressor(random_state=0)
    fit = entered_modules(
        lambda: model.fit(data.data, data.target, sensitive_features=data.sensitive_features), modules
    )
    predict = entered_modules(lambda: model.predict(data.data), modules)
    show(f"modules that a default fit of {N_ROWS:,} rows enters", fit)
    show("modules that predict enters", predict)
    show(
        "modules that predict enters and only fit needs",
        [name for name in predict if name.startswith(ONLY_FOR_FITS)],
    )


def main(arguments: Sequence[str] = ()) -> None:
    packages = sorted({module.package for module in structure.read_modules()})
    parser = argparse.ArgumentParser()
    parser.add_argument("--layer", nargs="+", metavar="package", default=packages)
    layer = parser.parse_args(arguments).layer
    if missing := set(layer).difference(packages):
        print(f"Not in the library: {', '.join(sorted(missing))}. Packages: {', '.join(packages)}.")
    modules = tuple(module for module in structure.read_modules() if module.package in layer)

    measured = structure.measure_packages(modules)
    show_table(["package", *structure.SLACK], [[name, *row.values()] for name, row in measured.items()])
    show_imports(modules)
    for rule, names in structure.broken_rules(modules).items():
        show(rule, names)
    show(f"functions with more than {MAX_PARAMETERS} parameters", many_parameters(modules))
    show("classes that hold rows", structure.row_classes(modules))
    show_entered(modules)


if __name__ == "__main__":
    main(sys.argv[1:])
