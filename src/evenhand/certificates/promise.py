"""What new people of the true groups will see, as far as rows that had no part in it can tell."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.typing import FloatArray

CLOSE = 1e-9  # of a promise to what was asked, relative: rounding


@dataclass(frozen=True, slots=True, eq=False)
class Promise(Stored):
    """Distance of each group from everybody, for new people, beside what was asked for.

    `expected` and `bound` are estimates from cross-fitting (`evenhand.estimators.judging` says how); only
    where `proved` they rest on rows that were set aside, and hold whatever the models are.
    """

    groups: tuple[Hashable, ...]
    epsilon: FloatArray  # what was asked for, (n_groups,) as all below
    tolerance: FloatArray  # what the parity step was given for its rows, to keep that promise
    measured: FloatArray  # distance of the true groups on rows that had no part in the fit
    chance: FloatArray  # what as many rows show on average where groups are alike
    expected: FloatArray  # distance for new people, on average
    bound: FloatArray | None  # what it stays below with the confidence asked for
    confidence: float | None  # None: epsilon is to hold on average
    n_rows: int  # rows with a known group that it was measured on
    rows_needed: int | None = None  # about how many would do, where it is not kept; None: no number would
    proved: bool = False

    def faults(self) -> Iterator[str]:
        """One number for each group, and a confidence that is one."""
        figures = [self.epsilon, self.tolerance, self.measured, self.chance, self.expected]
        figures += [] if self.bound is None else [self.bound]
        if not all(is_floats(figure, len(self.groups)) for figure in figures):
            yield "its figures are not one number for each group"
        if self.confidence is not None and not (type(self.confidence) is float and 0 < self.confidence < 1):
            yield "its confidence is not a number between 0 and 1"

    @property
    def promised(self) -> FloatArray:
        """What is said of new people: the bound, or the average where no confidence was asked for."""
        return self.expected if self.bound is None else self.bound

    @property
    def kept(self) -> bool:
        """Whether what was asked for is what new people get."""
        return bool((self.promised <= self.epsilon * (1.0 + CLOSE)).all())

    @property
    def worst(self) -> int:
        """Place of the group that is farthest beyond its epsilon, or nearest to it."""
        return int(np.argmax(self.promised / np.where(self.epsilon > 0, self.epsilon, 1.0)))

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        return {
            "groups": [label_text(group) for group in self.groups],
            "epsilon": self.epsilon.tolist(),
            "tolerance": self.tolerance.tolist(),
            "measured": self.measured.tolist(),
            "chance": self.chance.tolist(),
            "expected": self.expected.tolist(),
            "bound": None if self.bound is None else self.bound.tolist(),
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "rows_needed": self.rows_needed,
            "proved": self.proved,
            "kept": self.kept,
        }

    def __str__(self) -> str:
        """One sentence on all groups."""
        worst = self.worst
        asked, expected = self.epsilon[worst], self.expected[worst]
        sentence = f"Asked for {asked:.4g}, new people are expected to see {expected:.3g}"
        if self.bound is not None:
            how = "at most" if not self.proved else "proved to be at most"
            sentence += f", {how} {self.bound[worst]:.3g} with confidence {self.confidence:.4g}"
        sentence += (
            f" (group {label_text(self.groups[worst])}; {self.n_rows} held-out rows show "
            f"{self.measured[worst]:.3g}, of which {self.chance[worst]:.3g} may be chance)."
        )
        return sentence + ("" if self.kept else f" {self.shortfall()}")

    def shortfall(self) -> str:
        """What is missing, and about what it would take."""
        worst = self.worst
        group, asked = label_text(self.groups[worst]), self.epsilon[worst]
        reach = (
            f"These rows and models can promise {self.promised[worst]:.3g}, not {asked:.4g} (group {group})."
        )
        if self.rows_needed is None:
            return f"{reach} More rows alone will not do: the models do not tell the groups well enough."
        return f"{reach} About {_rounded(self.rows_needed)} rows with a known group would do."


def _rounded(count: int) -> str:
    """A count to two digits: it is a guess.

    >>> _rounded(12_345)
    '12 000'
    """
    digits = len(str(count)) - 2
    return f"{round(count, -digits):,}".replace(",", " ") if digits > 0 else str(count)
