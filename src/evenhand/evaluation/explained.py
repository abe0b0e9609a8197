"""One person before and after the parity step, in numbers, in words and as a picture."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text
from evenhand._utils.markup import cell, html_block
from evenhand._utils.text import listed, plain, some_words
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.pushes import row_pushes, without_group, without_parity
from evenhand.plots.pushes import PushDisplay

NO_PUSH = 1e-6  # logits: what a push differs by between predictions, where it is said to be none
HARDLY = 5e-4  # of the range of predictions: a smaller move is not told in numbers


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Person:
    """What moved one person, exact for the parity step: a row of an `Explanation`.

    `pushes` add up to `tilt`, and `pmf` is `softmax(log(before) + tilt)`.
    """

    name: Any
    policy: SoftmaxPolicy
    groups: Labels
    classes: Labels | None
    score: FloatArray  # (1,), or class probabilities (1, n_classes)
    group_proba: FloatArray  # (1, n_groups)
    imbalance: FloatArray  # (n_groups,)
    drawn: Any
    spread: FloatArray  # quantiles, or the chance of each class
    followed: int | None  # place of the class whose chance is followed
    unpushed: float  # mean or chance without any group's constraint
    value: float  # as predicted
    without: FloatArray  # without one group's constraint, (n_groups,)
    gains: FloatArray  # (n_groups,), in the units of the cost

    @property
    def atoms(self) -> FloatArray:
        """The values that can be predicted, (n_atoms,)."""
        return self.policy.grid.atoms

    @property
    def before(self) -> FloatArray:
        """Probability of each atom without any group's constraint, (n_atoms,)."""
        return self._pmf_of(without_parity(self.policy))

    @property
    def pmf(self) -> FloatArray:
        """Probability of each atom as predicted, (n_atoms,)."""
        return self._pmf_of(self.policy)

    @property
    def pushes(self) -> FloatArray:
        """What each group's constraint adds to the logit of each atom, (n_groups, n_atoms)."""
        pushes: FloatArray = row_pushes(self.policy, self.group_proba)[0]
        return pushes

    @property
    def tilt(self) -> FloatArray:
        """What parity adds to the logit of each atom, (n_atoms,)."""
        tilt: FloatArray = self.policy.temperature * (self.policy.tilt @ self.imbalance)
        return tilt

    def pmf_without(self, group: Any) -> FloatArray:
        """Probability of each atom without the constraint of one group, (n_atoms,)."""
        if group not in self.groups:
            known = some_words(map(repr, self.groups))
            raise ValueError(f"There is no group {group!r}. The groups are {known}.")
        return self._pmf_of(without_group(self.policy, self.groups.index(group)))

    def _pmf_of(self, policy: SoftmaxPolicy) -> FloatArray:
        pmf: FloatArray = policy.pmf(self.score, self.group_proba)[0]
        return pmf

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group: probability, share, imbalance, gain, and the prediction without it."""
        columns = {
            "group": self._names(),
            "probability": self.group_proba[0],
            "share": self.policy.group_prior,
            "imbalance": self.imbalance,
            "gain": self.gains,
            "predicted": np.full(len(self.groups), self.value),
            "without": self.without,
            "pushed": self.value - self.without,
        }
        return make_frame(columns, backend)

    def display(self) -> PushDisplay:
        """The distributions and the pushes, atom by atom: `.frame()` has the numbers, `.plot()` draws."""
        unit = self.policy.cost.unit(self.policy.grid) / self.policy.temperature
        return PushDisplay(
            groups=tuple(self._names()),
            atoms=self.atoms,
            before=self.before,
            after=self.pmf,
            pushes=self.pushes * unit,
            sentence=self._moved(),
            score=float(self.score[0]) if self.classes is None else None,
            classes=self.classes,
            cost_name=self.policy.cost.risk_name.removeprefix("mean "),
        )

    def plot(self, ax: Any = None) -> PushDisplay:
        """Draw the distribution before and after, and the pushes below it.

        Parameters
        ----------
        ax : array of two matplotlib Axes, default=None
        """
        return self.display().plot(ax)

    @property
    def sentences(self) -> list[str]:
        """The move, the group probabilities, and each constraint that pushes, the strongest first."""
        return [self._moved(), self._probabilities(), *self._pushed()]

    def __str__(self) -> str:
        return "\n".join([f"Row {plain(self.name)}: {self.sentences[0]}", *self.sentences[1:]])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shares, named = self.group_proba[0], zip(self._names(), range(len(self.groups)), strict=True)
        numbers = [
            self.policy.group_prior,
            self.imbalance,
            self.gains,
            self.without,
            self.value - self.without,
        ]
        rows = [[name, cell(shares[s]), *(cell(column[s]) for column in numbers)] for name, s in named]
        heads = [
            "Group",
            "Probability",
            "Share of all",
            "Imbalance",
            "Gain",
            "Predicted without it",
            "Pushed by",
        ]
        return html_block(f"Row {plain(self.name)}", heads, rows, self.sentences)

    def _names(self) -> list[str]:
        return [plain(label_text(group, within=self.policy.strata is not None)) for group in self.groups]

    def _moved(self) -> str:
        if self.classes is None:
            low, high = (_number(self.spread[place]) for place in (0, -1))
            span = low if low == high else f"{low} to {high}"
            return (
                f"score {_number(float(self.score[0]))}; predicted {_number(self.value)} on average, "
                f"{span} nine times in ten; predict draws {_number(float(self.drawn))}."
            )
        named = list(map(plain, self.classes))
        own = named if len(named) == self.score.shape[1] else list(map(str, range(self.score.shape[1])))
        scores = some_words(f"{name} {share:.3g}" for name, share in zip(own, self.score[0], strict=True))
        chances = some_words(f"{name} {share:.1%}" for name, share in zip(named, self.spread, strict=True))
        return (
            f"class probabilities {scores}; without parity {named[int(self.before.argmax())]}; chance of each"
            f" decision {chances}; predict draws {plain(self.drawn)}."
        )

    def _probabilities(self) -> str:
        order = np.argsort(-self.group_proba[0], kind="stable")
        names, shares = self._names(), self.policy.group_prior
        told = [f"{names[s]} {self.group_proba[0, s]:.1%} (share of all: {shares[s]:.1%})" for s in order]
        return f"Probability of each group: {some_words(told, 6)}."

    def _pushed(self) -> list[str]:
        names = self._names()
        strength = np.ptp(self.pushes, axis=1)
        moves = self.value - self.without
        order = np.lexsort([-strength, -np.abs(moves)])
        told = [self._push(names[s], moves[s], self.without[s]) for s in order if strength[s] > NO_PUSH]
        idle = [names[s] for s in range(len(names)) if strength[s] <= NO_PUSH]
        if not told:
            return ["No group's constraint pushes this row."]
        if idle:
            whose = some_words(idle) if len(idle) > 6 else listed(idle)
            told.append(f"{'Constraints' if len(idle) > 1 else 'The constraint'} of {whose}: no push.")
        return told

    def _push(self, name: str, move: float, without: float) -> str:
        """One constraint: where it pushes, and by how much."""
        if self.classes is None:
            what, said, size = "the mean", _number(without), _number(abs(move))
            where, hardly = "up" if move > 0 else "down", HARDLY * float(np.ptp(self.atoms))
        else:
            assert self.followed is not None
            label = plain(self.classes[self.followed])
            what, said, size = f"the chance of {label}", f"{without:.1%}", f"{100 * abs(move):.1f} points"
            where, hardly = f"{'towards' if move > 0 else 'away from'} {label}", HARDLY
        if abs(move) < hardly:
            return f"The constraint of {name} hardly moves it."
        return f"The constraint of {name} pushes it {where} by {size}: without it {what} would be {said}."


def _number(value: float) -> str:
    """Four figures, and a plain zero.

    >>> _number(12.34567), _number(-0.0)
    ('12.35', '0')
    """
    return f"{value + 0.0:.4g}"
