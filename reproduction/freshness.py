"""Say which frames are older than the code that they depend on (`python -m reproduction --check`)."""

import ast
import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from reproduction.frames import read_about
from reproduction.page import frame_path
from reproduction.runner import Cell
from reproduction.studies import SCALES, STUDIES, Study

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"evenhand": ROOT / "src" / "evenhand", "reproduction": ROOT / "reproduction"}


@dataclass(frozen=True, slots=True)
class Freshness:
    """How a frame stands to the code of today."""

    study: str
    commits: tuple[str, ...]  # at which its cells were computed
    reasons: tuple[str, ...]  # why it is older than the code; empty if it is not

    def __str__(self) -> str:
        """One line.

        >>> print(Freshness("timing", ("12ab",), ()))
        timing: made at 12ab, up to date
        """
        made = f"made at {', '.join(self.commits)}" if self.commits else "not made"
        return f"{self.study}: {made}, {'; '.join(self.reasons) or 'up to date'}"


def check_frames(out: Path) -> list[Freshness]:
    """The state of every study's frame in `out`."""
    return [_check(study, frame_path(out, study.name)) for study in STUDIES.values()]


def digest_cells(cells: Iterable[Cell]) -> str:
    """A short name for what was computed: all settings of all cells."""
    settings = "\n".join(sorted(json.dumps(asdict(cell), sort_keys=True) for cell in cells))
    return hashlib.sha256(settings.encode()).hexdigest()[:12]


def _check(study: Study, path: Path) -> Freshness:
    if not path.exists():
        return Freshness(study.name, (), (f"{path.name} is missing",))
    about = read_about(path)
    commits = tuple(about.get("computed_at", [about["commit"]]))
    reasons = []
    if about.get("cells") != digest_cells(study.cells(SCALES[about["scale"]])):
        reasons.append("its settings have changed")
    sources = [str(source.relative_to(ROOT)) for source in sorted(depends_on(study.compute.__module__))]
    for commit in commits:
        reasons += changes_since(commit, sources)
    return Freshness(study.name, commits, tuple(dict.fromkeys(reasons)))


def changes_since(commit: str, sources: Sequence[str], root: Path = ROOT) -> Iterator[str]:
    """Why the sources in a checkout are not those of a commit, in words; nothing if they are."""
    if commit.endswith("-dirty"):
        yield "it was made with changes that were in no commit"
    command = ["git", "-C", str(root), "diff", "--name-only", commit.removesuffix("-dirty"), "--", *sources]
    try:
        found = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        yield f"git cannot be asked: {error}"
        return
    if found.returncode != 0:
        yield f"{commit} is no commit of this checkout"
    elif changed := found.stdout.split():
        shown = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
        yield f"older than {len(changed)} of the {len(sources)} files that it depends on: {shown}"


@cache
def depends_on(module: str) -> frozenset[Path]:
    """Files of this checkout that a module imports, directly or not, and its own.

    A name that a package only hands on is looked for where it comes from, so that the package's other
    modules do not count. A frame may be called older for a change that left its numbers alone, and is not
    called up to date after one that did not.
    """
    found: set[Path] = set()
    waiting = [_find(module, None)]
    while waiting:
        path = waiting.pop()
        if path is not None and path not in found:
            found.add(path)
            waiting += [_find(*each) for each in _imports(path)]
    return frozenset(found)


def _find(module: str, name: str | None) -> Path | None:
    """The file that defines a module, or a name in it; None for a module of elsewhere."""
    package, *inner = module.split(".")
    if package not in PACKAGES:
        return None
    place = PACKAGES[package].joinpath(*inner)
    if place.with_suffix(".py").exists():
        return place.with_suffix(".py")
    if name is None:
        return place / "__init__.py"
    if (place / f"{name}.py").exists() or (place / name).is_dir():
        return _find(f"{module}.{name}", None)
    handed_on = [source for source, each in _imports(place / "__init__.py") if each == name]
    return _find(handed_on[0], name) if handed_on else place / "__init__.py"


@cache
def _imports(path: Path) -> tuple[tuple[str, str | None], ...]:
    """Modules that a file imports, and the names out of them; no name for the whole module."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [(node.module, alias.name) for alias in node.names]
    return tuple(found)
