"""What a run of the comparison leaves: one JSON file, read without any of the libraries compared."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
FULL, QUICK = FOLDER / "full.json", FOLDER / "quick.json"
DIGITS = 6


@dataclass(eq=False)
class Results:
    """Versions and date, the methods, a record for each fit, and the memory of some."""

    about: dict[str, Any]
    methods: list[dict[str, Any]]
    records: list[dict[str, Any]]
    memory: list[dict[str, Any]]

    def write(self, path: Path) -> None:
        """One line for each record, so that differences can be read."""
        parts = [f'"about": {json.dumps(self.about, indent=1)}']
        for name in ("methods", "records", "memory"):
            lines = ",\n".join(json.dumps(_rounded(each)) for each in getattr(self, name))
            parts.append(f'"{name}": [\n{lines}\n]')
        path.parent.mkdir(exist_ok=True)
        path.write_text("{" + ",\n".join(parts) + "}\n")

    @classmethod
    def read(cls, path: Path) -> "Results":
        return cls(**json.loads(path.read_text()))

    def select(self, **asked: Any) -> list[dict[str, Any]]:
        """Records with these values."""
        return [each for each in self.records if all(each[name] == value for name, value in asked.items())]

    def values(self, name: str, records: Iterable[dict[str, Any]] | None = None) -> list[Any]:
        """The different values of one entry, in the order of the run."""
        return list(dict.fromkeys(each[name] for each in (self.records if records is None else records)))


def _rounded(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for name, value in record.items()
        if value is not None
    }
