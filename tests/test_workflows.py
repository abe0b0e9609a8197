"""The workflows and the project agree on Pythons, extras and targets; zizmor and actionlint read the rest."""

import re
import tomllib

import pytest

PIN = re.compile(r"uses: (\S+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+$")


@pytest.fixture(scope="module")
def workflows(project_root):
    return {
        path.name: path.read_text() for path in sorted((project_root / ".github/workflows").glob("*.yml"))
    }


@pytest.fixture(scope="module")
def project(project_root):
    return tomllib.loads((project_root / "pyproject.toml").read_text())["project"]


def listed(text, key):
    """The values of a list in one line, such as `python: ["3.11", "3.12"]`."""
    return re.findall(r"[\w.-]+", re.search(rf"^ *{key}: \[(.*)\]$", text, re.MULTILINE)[1])


def test_every_python_that_is_promised_is_tested_on_three_systems(workflows, project):
    tested = listed(workflows["tests.yml"], "python")
    promised = [each.removeprefix("Programming Language :: Python :: ") for each in project["classifiers"]]
    promised = [each for each in promised if re.fullmatch(r"3\.\d+", each)]
    assert promised == tested[: len(promised)]
    assert project["requires-python"] == f">={tested[0]}"
    assert listed(workflows["tests.yml"], "system") == ["ubuntu-latest", "macos-latest", "windows-latest"]


def test_windows_installs_and_runs_what_make_test_does(workflows, project_root):
    make = (project_root / "Makefile").read_text()
    for step in ('-c constraints.txt -e ".[dev,browser]"', '-m pytest -m "not slow" -n 2 -q'):
        assert step in workflows["tests.yml"]
        assert step in make.replace("--disable-pip-version-check ", "")


def test_every_extra_with_an_environment_of_its_own_is_tested(workflows, project, project_root):
    pinned = {path.stem.removeprefix("constraints-") for path in project_root.glob("constraints-*.txt")}
    alone = pinned & set(project["optional-dependencies"]) | {"torch"}
    targets = {
        *listed(workflows["tests.yml"], "target"),
        *re.findall(r"make ([\w-]+)$", workflows["tests.yml"], re.M),
    }
    assert {each for each in alone if not {each, f"test-{each}"} & targets} == set()
    assert {"torch", "onnx", "dask", "spark", "mlflow"} <= alone


def test_workflows_make_targets_that_there_are(workflows, project_root):
    text = "\n".join(workflows.values())
    asked = set(re.findall(r"run: make ([\w-]+)", text)) | set(re.findall(r"- target: ([\w-]+)", text))
    asked |= set(listed(workflows["tests.yml"], "target"))
    phony = re.findall(r"^\.PHONY:(.*)$", (project_root / "Makefile").read_text(), re.MULTILINE)
    assert {"test", "test-lowest", "test-newest", "test-onnx", "dist", "test-dist", "docs"} <= asked
    assert asked - set(" ".join(phony).split()) == set()


def test_actions_are_pinned_by_commit_and_each_to_one(workflows):
    lines = [line.strip(" -") for text in workflows.values() for line in text.splitlines() if "uses:" in line]
    pins = [PIN.fullmatch(line) for line in lines]
    assert [line for line, pin in zip(lines, pins, strict=True) if pin is None] == []
    assert len({pin.groups() for pin in pins}) == len({pin[1] for pin in pins})


def test_every_job_has_an_end_and_only_publishing_may_ask_for_an_identity(workflows):
    for text in workflows.values():
        assert text.count("runs-on:") == text.count("timeout-minutes:")
        assert "\npermissions: {}\n" in text
        assert "\nconcurrency:\n" in text
    writing = [line for text in workflows.values() for line in text.splitlines() if ": write" in line]
    assert [line.split("#")[0].strip() for line in writing] == ["id-token: write"]
    publish = workflows["release.yml"].partition("\n  publish:\n")[2]
    assert "id-token: write" in publish
    assert "run:" not in publish  # nothing of ours runs where an upload could be signed
