"""What a target of the fuzz tried, and what it found."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

CORPUS = Path(__file__).resolve().parent / "corpus"
MOST_FINDINGS = 200  # of one run: more of them would be the same few


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that ended otherwise than with an answer or one of our own messages."""

    kind: str  # "foreign exception", "warning", "not finite", "slow", "memory" or "hang"
    where: str  # what makes two findings the same one: the type of the exception and the line it came from
    case: str  # how to get there again: the seed and the number of the case, and what was called
    data: bytes = b""  # the file, where the case is one

    def keep(self, folder: Path) -> Path:
        """Write it to the corpus, under a name that the same finding has again."""
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(f"{self.kind} {self.where}".encode()).hexdigest()[:16]
        told = {"kind": self.kind, "where": self.where, "case": self.case}
        (folder / f"{name}.json").write_text(json.dumps(told, indent=1) + "\n")
        if self.data:
            (folder / f"{name}.bin").write_bytes(self.data)
        return folder / f"{name}.json"


@dataclass(slots=True)
class Counts:
    """How many cases a target ran, and how they ended."""

    target: str
    seed: int = 0
    cases: int = 0
    answers: int = 0
    refusals: int = 0  # our own exceptions, with a message
    slowest: float = 0.0  # seconds of one case
    peak_mib: float = 0.0  # most memory of the process
    findings: list[Finding] = field(default_factory=list)
    n_findings: int = 0  # those above the most that are kept too
    started: float = field(default_factory=perf_counter)

    def answered(self) -> None:
        """A case ended with an answer."""
        self.cases += 1
        self.answers += 1

    def refused(self) -> None:
        """A case ended with one of our exceptions."""
        self.cases += 1
        self.refusals += 1

    def found(self, finding: Finding) -> None:
        """A case ended otherwise; it is kept in the corpus unless the like of it was."""
        self.cases += 1
        self.n_findings += 1
        known = {(each.kind, each.where) for each in self.findings}
        if (finding.kind, finding.where) not in known and len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
            finding.keep(CORPUS / self.target)

    def is_over(self, seconds: float | None, cases: int | None) -> bool:
        """Whether the time or the number of cases is spent; one of the two may be None."""
        if cases is not None and self.cases >= cases:
            return True
        return seconds is not None and self.seconds >= seconds

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self.started

    def line(self) -> str:
        """One line of a table."""
        return (
            f"{self.target:14} seed {self.seed}: {self.cases} cases in {self.seconds:.0f} s: {self.answers} "
            f"answers, {self.refusals} refusals, {self.n_findings} findings ({len(self.findings)} kinds); "
            f"slowest {self.slowest:.2f} s, peak {self.peak_mib:.0f} MiB"
        )
