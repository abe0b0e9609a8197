"""The estimated distance of each group on new data, next to the requested tolerance."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.markup import cell, html_block
from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.text import capital, listed
from evenhand._utils.typing import FloatArray

CLOSE = 1e-9  # relative excess over the tolerance that counts as rounding error


@dataclass(frozen=True, slots=True, eq=False)
class OutOfSample(Stored):
    """Distance between each group and all rows on new data, estimated during the fit.

    `expected` and `bound` are cross-validated estimates. If `proved` is True they were computed on separate
    held-out rows, and `bound` is guaranteed for any models. All distances are in the units of epsilon.
    """

    groups: tuple[Hashable, ...]
    epsilon: FloatArray  # requested tolerance, (n_groups,) like all arrays below
    tolerance: FloatArray  # tolerance for which the step was solved on its rows
    measured: FloatArray  # distance on held-out rows, including sampling noise
    noise: FloatArray  # mean distance on as many rows if groups do not differ
    expected: FloatArray  # expected distance on new data
    bound: FloatArray | None  # upper bound on the distance on new data, with probability `confidence`
    confidence: float | None  # None: epsilon applies to the expected distance
    ratio: float  # largest distance of all groups as a multiple of epsilon: expected, or the bound
    n_rows: int  # number of rows with known group behind the estimate
    rows_needed: int | None = None  # rows that would be enough; None: epsilon is kept, or rows do not help
    proved: bool = False
    systematic: FloatArray | None = None  # part of the distance that more rows would not remove
    strata: bool = False  # groups are `(stratum, group)`
    distance: str = "distance"  # name of the distance, such as "KS distance"

    def faults(self) -> Iterator[str]:
        """Check that there is one number for each group, and a confidence between 0 and 1."""
        figures = [self.epsilon, self.tolerance, self.measured, self.noise, self.expected]
        figures += [figure for figure in (self.bound, self.systematic) if figure is not None]
        if not all(is_floats(figure, len(self.groups)) for figure in figures):
            yield "its figures are not one number for each group"
        if type(self.ratio) is not float or not self.ratio >= 0:
            yield "its ratio is not a nonnegative number"
        if self.confidence is not None and not (type(self.confidence) is float and 0 < self.confidence < 1):
            yield "its confidence is not a number between 0 and 1"

    @property
    def limit(self) -> FloatArray:
        """The figure that is compared with epsilon: `bound` if there is one, otherwise `expected`."""
        return self.expected if self.bound is None else self.bound

    @property
    def kept(self) -> bool:
        """Whether the largest distance stays within epsilon, on average or with the confidence asked for."""
        return self.ratio <= 1.0 + CLOSE

    @property
    def worst(self) -> int:
        """Position of the group with the largest ratio of `limit` to epsilon."""
        return int(np.argmax(self.limit / np.where(self.epsilon > 0, self.epsilon, 1.0)))

    @property
    def largest(self) -> float:
        """The largest distance of all groups, in the units of the worst group: expected, or bounded."""
        worst = self.worst
        return (
            self.ratio * float(self.epsilon[worst]) if self.epsilon[worst] > 0 else float(self.limit[worst])
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python numbers, lists and strings, ready for JSON."""
        return {
            "groups": [self._name(place) for place in range(len(self.groups))],
            "epsilon": self.epsilon.tolist(),
            "tolerance": self.tolerance.tolist(),
            "measured": self.measured.tolist(),
            "noise": self.noise.tolist(),
            "expected": self.expected.tolist(),
            "bound": None if self.bound is None else self.bound.tolist(),
            "confidence": self.confidence,
            "n_rows": self.n_rows,
            "ratio": self.ratio,
            "rows_needed": self.rows_needed,
            "proved": self.proved,
            "systematic": None if self.systematic is None else self.systematic.tolist(),
            "kept": self.kept,
            "distance": self.distance,
        }

    def __str__(self) -> str:
        """Return the estimate for the worst group and, if its epsilon is exceeded, what would help."""
        return self.text()

    def _repr_html_(self) -> str:
        """Return a table by group and the text, for notebooks."""
        figures = [self.epsilon, self.expected, self.measured, self.noise]
        heads = ["Group", "Tolerance (epsilon)", "Expected on new data", "Held-out rows", "Sampling noise"]
        if self.bound is not None:
            figures.append(self.bound)
            heads.append(f"At most ({100 * (self.confidence or 0.0):g}%)")
        rows = [
            (self._name(place), *(cell(figure[place]) for figure in figures))
            for place in range(len(self.groups))
        ]
        title = f"{capital(self.distance)} to all rows on new data, estimated from {self.n_rows:,} rows"
        return html_block(title, heads, rows, [self.text()])

    def text(self, remedies: Sequence[str] = ()) -> str:
        """Return the estimate and, if epsilon is exceeded, what would help (`remedies`, see `shortfall`)."""
        return self.summary() if self.kept else f"{self.summary()} {self.shortfall(remedies)}"

    def summary(self) -> str:
        """Return estimate, tolerance and bound for the worst group, and its distance on held-out rows.

        Estimates have two digits because they are not more precise.
        """
        worst = self.worst
        seen = (
            f"On {self.n_rows:,} held-out rows" if self.proved else f"Cross-validated on {self.n_rows:,} rows"
        )
        expected = self.largest if self.bound is None else self.expected[worst]
        return (
            f"Estimated {self.distance} on new data: {expected:.2g} "
            f"(group {self._name(worst)}; tolerance {self.epsilon[worst]:.4g}){self._limit_text()}. "
            f"{seen}: {self.measured[worst]:.2g}; "
            f"expected from sampling noise alone: {self.noise[worst]:.2g}."
        )

    def _name(self, place: int) -> str:
        return label_text(self.groups[place], within=self.strata)

    def _limit_text(self) -> str:
        if self.bound is None:
            return ""
        how = "proved to be at most" if self.proved else "at most"
        return f", {how} {self.largest:.3g} with confidence {self.confidence:.4g}"

    def shortfall(self, remedies: Sequence[str] = ()) -> str:
        """Return which group exceeds its epsilon, the smallest distance within reach, and what would help.

        `remedies` are included if much of the distance comes from errors of the models.
        """
        worst = self.worst
        wanted = f"epsilon={self.epsilon[worst]:.4g}"
        sure = "" if self.confidence is None else f" with confidence {self.confidence:.4g}"
        verb = "proved" if self.proved else "expected to hold"
        text = (
            f"{wanted} cannot be {verb} on new data{sure}: the smallest {self.distance} within reach is "
            f"about {self.largest:.3g} (group {self._name(worst)})."
        )
        where = "in calibration_data" if self.proved else "with known group"
        if self.epsilon[worst] == 0.0:
            text += (
                " The step was solved with tolerance 0, the smallest possible. Sampling noise shrinks with"
            )
            text += " the square root of the number of rows."
        elif self.rows_needed is None:
            text += " More rows alone will not help: the models do not predict the group well enough."
        else:
            text += (
                f" About {_rounded(self.rows_needed)} rows {where} would be enough, instead of "
                f"{self.n_rows:,}."
            )
        if not remedies or not self.blames_models:
            return text
        return (
            f"{text} {'What may help' if self.rows_needed is None else 'Or try'}: {listed(remedies, 'or')}."
        )

    @property
    def blames_models(self) -> bool:
        """Whether errors of the models cause at least half of the squared distance."""
        worst = self.worst
        out_of_reach = self.rows_needed is None and self.epsilon[worst] > 0  # 0 is always out of reach
        if out_of_reach or self.systematic is None:
            return True
        return bool(np.sqrt(2.0) * self.systematic[worst] >= self.largest)


def _rounded(count: int) -> str:
    """Return a count rounded to two digits, because it is an estimate.

    >>> _rounded(12_345)
    '12,000'
    """
    return f"{round(count, -max(len(str(count)) - 2, 0)):,}"
