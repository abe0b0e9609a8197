"""Costs of classes under which some classes are decided for at least as often as is asked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from evenhand._utils.stored import is_finite
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.dual.cost_terms import CostModel
from evenhand.dual.costs import Cost, CostMatrix
from evenhand.dual.grid import Grid

BEFORE, EACH = "before", "each"  # floors that the scores set: for everybody, or for every group
MOST_SOLVED = 40  # parity steps of one search
NEAR = 1e-3  # above the floor: nearer is not worth another solve


@dataclass(frozen=True, slots=True, eq=False)
class RateFloor(CostMatrix):
    """A cost matrix, and how often some classes are to be decided for.

    The floor enters the problem as its multiplier, a bonus `lambda` on deciding for these classes:

        min risk - lambda * rate   subject to parity,

    with the least lambda that keeps the floor. What decisions cost is the matrix alone.
    """

    places: tuple[int, ...] = (1,)  # of the classes that select
    least: float | str = BEFORE  # the smallest share of decisions for these; or by the scores: BEFORE, EACH
    bonus: float = field(default=0.0, compare=False)  # lambda, in the units of the matrix; found by a fit

    def faults(self) -> Iterator[str]:
        """Those of a matrix, places in it, and a bonus."""
        yield from super(RateFloor, self).faults()
        n_atoms = self.matrix.shape[1]
        if not self.places or not all(type(each) is int and 0 <= each < n_atoms for each in self.places):
            yield "its places are not those of classes"
        if not is_finite(self.bonus) or not self.bonus >= 0:
            yield "its bonus is not a number that is not negative"
        if not (self.least in (BEFORE, EACH) or type(self.least) is float):
            yield "its floor is not a share"

    def model(self, grid: Grid) -> CostModel:
        """The atoms' part with the bonus: the only place where it counts."""
        plain = super(RateFloor, self).model(grid)
        offset = plain.offset.copy()
        offset[list(self.places)] += self.bonus / self.unit(grid)
        return replace(plain, offset=offset)

    def wanted(self, before: FloatArray) -> FloatArray:
        """Least rate of each group and last of everybody, from those of the scores; -inf: any will do."""
        wanted = np.full(len(before), -np.inf)
        if self.least == EACH:
            wanted[:] = before
        else:
            wanted[-1] = before[-1] if self.least == BEFORE else float(self.least)
        return wanted


def bonus_paid(cost: Cost, shares: FloatArray) -> float:
    """What the bonus of a floor, if the cost has one, takes off the risk of a policy with these shares."""
    return cost.bonus * float(shares[list(cost.places)].sum()) if isinstance(cost, RateFloor) else 0.0


def check_least(least: object) -> float | str:
    """A share, or the name of one that the scores set.

    >>> check_least("before"), check_least(0.25)
    ('before', 0.25)
    """
    if least in (BEFORE, EACH):
        return str(least)
    if not isinstance(least, int | float) or isinstance(least, bool) or not 0.0 <= least < 1.0:
        raise ValueError(
            f"min_rate must be a share from 0 to below 1, {BEFORE!r} (as many as without parity) or {EACH!r} "
            f"(no group less than without parity): got {least!r}."
        )
    return float(least)


def least_bonus(short: Callable[[float], float], unit: float) -> float:
    """The smallest bonus at which `short` (how far the worst rate is above its floor) is not negative.

    >>> least_bonus(lambda bonus: bonus - 0.3, unit=1.0) - 0.3 < 1e-3
    True
    """
    if short(0.0) >= 0.0:
        return 0.0
    low, high = 0.0, 0.125 * unit
    for _ in range(MOST_SOLVED):
        found = short(high)
        if found >= 0.0:
            break
        low, high = high, 2.0 * high
    for _ in range(MOST_SOLVED):
        if 0.0 <= found <= NEAR or high - low <= 1e-6 * high:
            break
        middle = 0.5 * (low + high)
        above = short(middle)
        low, high, found = (low, middle, above) if above >= 0.0 else (middle, high, found)
    return high


def group_rates(chances: FloatArray, group_proba: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Rate of each group, to which rows belong by probability, and last of everybody, (n_groups + 1,)."""
    counts = np.full(len(chances), 1.0 / len(chances)) if weights is None else weights
    inside: AnyArray = counts[:, None] * group_proba
    return np.append((chances @ inside) / inside.sum(axis=0), chances @ counts / counts.sum())
