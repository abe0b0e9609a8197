"""The price of a parity step: its effect on accuracy and on the distribution of the predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.stored import Stored, is_floats
from evenhand._utils.tensor_rows import TensorRows
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand._utils.warn import warn_user
from evenhand.certificates import measure_policy
from evenhand.dual.floors import bonus_paid
from evenhand.dual.step import ParityStep
from evenhand.exceptions import LevellingDownWarning, PriceWarning
from evenhand.metrics import ScoredRows
from evenhand.metrics.price import gain_kept, is_hardly_better
from evenhand.metrics.rates import LEVELLED

MOST_ROWS = 20_000  # rows that are used; the sampling error of a share is then about half a percent


@dataclass(frozen=True, slots=True, eq=False)
class Price(Stored):
    """Risk and distribution of the predictions on the rows of a fit, before and after the parity step."""

    risk: float  # mean cost of the policy against the scores
    base_risk: float  # mean cost of the best atom for each row
    constant_risk: float  # mean cost of the best constant prediction
    shares_before: FloatArray  # share of each atom among the predictions without parity, (n_atoms,)
    shares_after: FloatArray  # share of each atom among the predictions of the policy, (n_atoms,)

    def faults(self) -> Iterator[str]:
        """Check that the risks are numbers and that there are shares before and after for each atom."""
        if not is_floats(self.shares_before, None) or not is_floats(
            self.shares_after, len(self.shares_before)
        ):
            yield "its shares are not one number for each value"
        if not all(isinstance(each, float) for each in (self.risk, self.base_risk, self.constant_risk)):
            yield "its risks are not numbers"

    @property
    def kept(self) -> float:
        """Fraction of the advantage over a constant prediction that is kept; NaN without an advantage."""
        return gain_kept(self.risk, self.base_risk, self.constant_risk)

    def rates(self, places: Sequence[int]) -> tuple[float, float]:
        """Share of the atoms at `places` among all predictions, before and after the parity step."""
        some = list(places)
        return float(self.shares_before[some].sum()), float(self.shares_after[some].sum())


def measure_price(step: ParityStep, multipliers: FloatArray, given: Rows | TensorRows) -> Price:
    """Measure the price of a solved step on rows, or on evenly spaced rows of a large table."""
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
    # The solver has already compiled these moments, so a first fit compiles no other loop.
    after = measure_policy(step.problem(rows), multipliers)
    return Price(
        risk=step.cost_unit * after.risk + bonus_paid(cost, after.shares),
        base_risk=float(weights @ costs),
        constant_risk=ScoredRows.of(rows).constant_risk(step.policy(multipliers)),
        shares_before=np.bincount(cheapest, weights, len(atoms)).astype(np.float64),
        shares_after=after.shares,
    )


def level_text(price: Price, labels: Sequence[Any], selected: Sequence[Any]) -> str:
    """Return a sentence with the share of decisions for some classes, before and after."""
    before, after = price.rates([list(labels).index(label) for label in selected])
    names = ", ".join(map(str, selected))
    return f"Share of decisions for {names}: {before:.1%} before the parity step, {after:.1%} after."


def warn_of_levelling(price: Price, labels: Sequence[Any], selected: Sequence[Any]) -> None:
    """Warn if many fewer people are selected than before the parity step."""
    before, after = price.rates([list(labels).index(label) for label in selected])
    if after < LEVELLED * before:
        warn_user(
            f"{level_text(price, labels, selected)} Parity was reached in part by levelling down: check "
            "whether this is intended. min_rate sets a minimum selection rate, at the cost of more errors; "
            "aware=True costs less, if the group may be used.",
            LevellingDownWarning,
        )


def warn_of_price(price: Price, step: ParityStep) -> None:
    """Warn if a constant prediction would be nearly as good."""
    if not is_hardly_better(price.risk, price.base_risk, price.constant_risk):
        return
    spread = ""
    if step.cost.n_classes is None:
        below = np.cumsum(price.shares_after)
        low, high = (float(step.grid.atoms[int(np.searchsorted(below, share))]) for share in (0.25, 0.75))
        spread = f" Half of the predictions now lie between {low:.4g} and {high:.4g}."
    warn_user(
        "After the parity step the model keeps only "
        f"{max(price.kept, 0.0):.0%} of its advantage over a constant prediction.{spread} A larger epsilon "
        "costs less, and so does aware=True, if the group may be used. evenhand.frontier shows the cost of "
        "each epsilon.",
        PriceWarning,
    )
