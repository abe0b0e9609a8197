"""What a parity step does to the rows of its fit: who is decided for, and what is left of the scores."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.tensor_rows import TensorRows
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.certificates import measure_policy
from evenhand.dual.floors import bonus_paid
from evenhand.dual.step import ParityStep
from evenhand.exceptions import LevellingWarning, PriceWarning
from evenhand.metrics import ScoredRows
from evenhand.metrics.price import gain_kept, is_hardly_better
from evenhand.metrics.rates import LEVELLED

MOST_ROWS = 20_000  # that are looked at: a share is then known to half a percent


@dataclass(frozen=True, slots=True, eq=False)
class Price(Stored):
    """Expected costs and shares of each value on the rows of a fit, by their scores, before and after."""

    risk: float  # of the policy, against the scores
    base_risk: float  # of the cheapest value of each row
    constant_risk: float  # of the best value that is the same for everybody
    shares_before: FloatArray  # of each value among all predictions, by the scores alone, (n_atoms,)
    shares_after: FloatArray  # by the policy

    def faults(self) -> Iterator[str]:
        """Numbers, and as many shares before as after."""
        if not is_floats(self.shares_before, None) or not is_floats(
            self.shares_after, len(self.shares_before)
        ):
            yield "its shares are not one number for each value"
        if not all(isinstance(each, float) for each in (self.risk, self.base_risk, self.constant_risk)):
            yield "its risks are not numbers"

    @property
    def kept(self) -> float:
        """Share of what the scores gain over the best constant that is left; NaN where they gain nothing."""
        return gain_kept(self.risk, self.base_risk, self.constant_risk)

    def rates(self, places: Sequence[int]) -> tuple[float, float]:
        """Share of some values among all predictions, before and after."""
        some = list(places)
        return float(self.shares_before[some].sum()), float(self.shares_after[some].sum())


def measure_price(step: ParityStep, multipliers: FloatArray, given: Rows | TensorRows) -> Price:
    """Price of a solved step on rows, or on evenly spaced ones where they are many."""
    n_rows, atoms, cost = len(given.scores), step.grid.atoms, step.cost
    if n_rows > MOST_ROWS:
        rows = given.take(np.linspace(0, n_rows - 1, MOST_ROWS).astype(np.int64))
    else:
        rows = given if isinstance(given, Rows) else given.in_memory()
    weights = np.full(len(rows.scores), 1.0 / len(rows.scores)) if rows.weights is None else rows.weights
    cheapest: IntArray = cost.cheapest(rows.scores, atoms)
    if rows.scores.ndim == 1:
        costs = cost.paired(rows.scores, atoms[cheapest])
    else:
        costs = np.take_along_axis(cost.table(rows.scores, atoms), cheapest[:, None], axis=1)[:, 0]
    # The moments that the solver has compiled already: a first fit needs no other loop.
    after = measure_policy(step.problem(rows), multipliers)
    return Price(
        risk=step.cost_unit * after.risk + bonus_paid(cost, after.shares),
        base_risk=float(weights @ costs),
        constant_risk=ScoredRows.of(rows).constant_risk(step.policy(multipliers)),
        shares_before=np.bincount(cheapest, weights, len(atoms)).astype(np.float64),
        shares_after=after.shares,
    )


def level_text(price: Price, labels: Sequence[Any], selected: Sequence[Any]) -> str:
    """The share that is decided for some classes, before and after."""
    before, after = price.rates([list(labels).index(label) for label in selected])
    names = ", ".join(map(str, selected))
    return f"Share of decisions for {names}: {before:.1%} before the parity step, {after:.1%} after."


def warn_of_levelling(price: Price, labels: Sequence[Any], selected: Sequence[Any], stacklevel: int) -> None:
    """Warn where far fewer are selected than before."""
    before, after = price.rates([list(labels).index(label) for label in selected])
    if after < LEVELLED * before:
        warnings.warn(
            f"{level_text(price, labels, selected)} Parity was reached in part by levelling down: ask "
            "whether that is meant. min_rate keeps the share up, at a price in errors; aware=True, where the "
            "group may be used, costs less.",
            LevellingWarning,
            stacklevel=stacklevel + 1,
        )


def warn_of_price(price: Price, atoms: FloatArray, *, classes: bool, stacklevel: int) -> None:
    """Warn where a constant would nearly do."""
    if not is_hardly_better(price.risk, price.base_risk, price.constant_risk):
        return
    told = ""
    if not classes:
        below = np.cumsum(price.shares_after)
        low, high = (float(atoms[int(np.searchsorted(below, share))]) for share in (0.25, 0.75))
        told = f" Half of the predictions now lie between {low:.4g} and {high:.4g}."
    warnings.warn(
        "The fair model is hardly better than one value for everybody: of what the scores gain on that, "
        f"{max(price.kept, 0.0):.0%} is left.{told} A larger epsilon, or aware=True where the group may be "
        "used, costs less: evenhand.frontier shows what each epsilon does.",
        PriceWarning,
        stacklevel=stacklevel + 1,
    )
