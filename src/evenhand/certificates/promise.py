"""What new people of the true groups will see, as far as rows that had no part in it can tell."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.labels import label_text
from evenhand._utils.markup import cell, html_block
from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.text import spaced
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
    due_to_models: FloatArray | None = None  # what is left of the distance however many rows there are
    within: bool = False  # groups are `(stratum, group)`

    def faults(self) -> Iterator[str]:
        """One number for each group, and a confidence that is one."""
        figures = [self.epsilon, self.tolerance, self.measured, self.chance, self.expected]
        figures += [figure for figure in (self.bound, self.due_to_models) if figure is not None]
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
            "groups": [self._name(place) for place in range(len(self.groups))],
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
            "due_to_models": None if self.due_to_models is None else self.due_to_models.tolist(),
            "kept": self.kept,
        }

    def __str__(self) -> str:
        """Two sentences on the group nearest to its limit, and what is missing where it is not kept."""
        return self.told()

    def _repr_html_(self) -> str:
        """A table by group for notebooks, and the promise in words."""
        figures = [self.epsilon, self.expected, self.measured, self.chance]
        heads = ["Group", "Asked for (epsilon)", "Expected for new people", "Measured", "Chance alone"]
        if self.bound is not None:
            figures.append(self.bound)
            heads.append(f"At most ({100 * (self.confidence or 0.0):g} %)")
        rows = [
            (self._name(place), *(cell(figure[place]) for figure in figures))
            for place in range(len(self.groups))
        ]
        return html_block(f"Distance from everybody, by {self.n_rows} rows", heads, rows, [self.told()])

    def told(self, remedies: Sequence[str] = ()) -> str:
        """The promise in words; `remedies` are what the user of this model can mend, see `shortfall`."""
        return self.summary() if self.kept else f"{self.summary()} {self.shortfall(remedies)}"

    def summary(self) -> str:
        """Asked for, expected, the bound where there is one, and what was measured beside chance.

        Two digits of an estimate: it is not known to more.
        """
        worst = self.worst
        return (
            f"Asked for {self.epsilon[worst]:.4g}: new people are expected to see {self.expected[worst]:.2g} "
            f"(group {self._name(worst)}){self._limit_text(worst)}. "
            f"{spaced(self.n_rows)} {'rows set aside' if self.proved else 'rows, cross-fitted,'} show "
            f"{self.measured[worst]:.2g} between the true groups, where chance alone would show "
            f"{self.chance[worst]:.2g}."
        )

    def _name(self, place: int) -> str:
        return label_text(self.groups[place], within=self.within)

    def _limit_text(self, group: int) -> str:
        if self.bound is None:
            return ""
        how = "proved to be at most" if self.proved else "at most"
        return f", {how} {self.bound[group]:.3g} with confidence {self.confidence:.4g}"

    def shortfall(self, remedies: Sequence[str] = ()) -> str:
        """What cannot be promised and what can, for which group, and about what it would take.

        `remedies` are named where the models are much of the reason.
        """
        worst = self.worst
        what = "proved for" if self.proved else "promised to"
        sure = "" if self.confidence is None else f" with confidence {self.confidence:.4g}"
        text = (
            f"{self.epsilon[worst]:.4g} cannot be {what} new people{sure}: the smallest distance that can is "
            f"about {self.promised[worst]:.3g}, because of group {self._name(worst)}."
        )
        where = "in X_calibration" if self.proved else "with a known group"
        if self.epsilon[worst] == 0.0:
            text += (
                " The parity step was solved for 0, which comes nearest; what is chance falls with the root "
            )
            text += "of the rows."
        elif self.rows_needed is None:
            text += " More rows alone will not do: the models do not tell the groups well enough."
        else:
            text += (
                f" About {_rounded(self.rows_needed)} rows {where} would do, instead of "
                f"{spaced(self.n_rows)}."
            )
        if not remedies or not self.blames_models:
            return text
        others = f"{', '.join(remedies[:-1])} or {remedies[-1]}" if len(remedies) > 1 else remedies[0]
        return f"{text} {'What may help' if self.rows_needed is None else 'Or try'}: {others}."

    @property
    def blames_models(self) -> bool:
        """Whether what the models get wrong is at least half of what is promised, as squares add up."""
        worst = self.worst
        hopeless = self.rows_needed is None and self.epsilon[worst] > 0  # zero is so with any models
        if hopeless or self.due_to_models is None:
            return True
        return bool(2.0 * self.due_to_models[worst] ** 2 >= self.promised[worst] ** 2)


def _rounded(count: int) -> str:
    """A count to two digits: it is a guess.

    >>> _rounded(12_345)
    '12 000'
    """
    return spaced(round(count, -max(len(str(count)) - 2, 0)))
