import importlib.metadata
import re
import subprocess
import sys
import tomllib

import pytest

import evenhand
from evenhand._utils.version import __version__


def test_the_version_is_told_once():
    assert evenhand.__version__ == __version__ == importlib.metadata.version("evenhand")


def test_the_citation_has_the_version(project_root):
    assert f"\nversion: {__version__}\n" in (project_root / "CITATION.cff").read_text()


def test_the_last_release_of_the_changelog_is_the_one_to_cite(project_root):
    changelog, citation = ((project_root / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    release = re.search(r"^## \[(\d.*?)\] - (.+)$", changelog, re.MULTILINE)
    assert release is not None
    assert f"\nversion: {release[1]}\ndate-released: {release[2]}\n" in citation


def test_every_public_name_is_there():
    assert [name for name in evenhand.__all__ if not hasattr(evenhand, name)] == []
    assert {"ParityPostprocessor", "datasets", "metrics"} <= set(evenhand.__all__)


def test_import_brings_in_no_extra_that_scikit_learn_does_not():
    code = (
        "import sys, sklearn.utils; before = set(sys.modules); import evenhand;"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    extras = {"pandas", "polars", "pyarrow", "matplotlib", "torch", "onnx", "river", "typer", "pooch"}
    extras |= {"dask", "distributed", "pyspark", "mlflow"}
    assert extras & set(loaded.stdout.split()) == set()


def test_a_missing_mlflow_is_named_with_the_extra_that_brings_it(monkeypatch):
    import evenhand.mlflow

    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"needs 'mlflow', .* pip install 'evenhand\[mlflow\]'"):
        evenhand.mlflow.load_model("models:/credit/1")


def test_imports_go_down_the_layers(project_root):
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    command = [sys.executable, "-c", code]  # a process of its own: the linter changes sys.path
    outcome = subprocess.run(command, cwd=project_root, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout


def test_the_hashes_are_those_of_the_pinned_versions(project_root):
    pinned = {line.strip() for line in (project_root / "constraints.txt").read_text().splitlines()}
    pinned = {line for line in pinned if line and not line.startswith("#")}
    lines = (project_root / "constraints-hashes.txt").read_text().splitlines()
    hashed = {
        line.removesuffix("\\").partition(";")[0].strip() for line in lines if "==" in line.partition(";")[0]
    }
    assert hashed == pinned, "run make hashes"
    assert len([line for line in lines if "--hash=sha256:" in line]) >= len(pinned)


def test_lower_bounds_are_those_that_are_tested(project_root):
    project = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(
            each
            for name in ("cli", "data", "io", "plot", "report", "tables")
            for each in extras[name]
            if not each.startswith("evenhand[")
        ),
    ]
    bounds = dict(each.split(">=") for each in wanted)
    lines = (project_root / "constraints-lowest.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert {name: _version(text) for name, text in tested.items()} == {
        name: _version(text) for name, text in bounds.items()
    }


def _version(text):
    """The numbers of a version, of which zeros at the end say nothing."""
    return tuple(map(int, text.removesuffix(".0").removesuffix(".0").split(".")))


def test_every_benchmark_can_be_started_by_name(project_root):
    code = (
        "from importlib import import_module; from benchmarks.__main__ import PREFIX, available;"
        "assert all(callable(import_module(f'benchmarks.{PREFIX}{name}').main) for name in available())"
    )
    subprocess.run([sys.executable, "-c", code], cwd=project_root, check=True)
