"""Predictions with all that an audit measures of them, one stratum at a time."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.metrics.distances import METRICS, find_distance, group_distances, own_distances
from evenhand.metrics.intervals import Intervals, bootstrap_intervals, dkw_intervals, mean_intervals
from evenhand.metrics.losses import Loss, row_losses
from evenhand.metrics.masses import Predictions
from evenhand.metrics.membership import Membership
from evenhand.metrics.proxies import bound_distances
from evenhand.metrics.resampling import MOST_POINTS, effective_sizes, noise_floor

Columns: TypeAlias = dict[tuple[str, str], FloatArray]  # by the measure, and what of it, (n_groups,) each

FEWEST_PER_ATOM = 5  # rows: with fewer, TV and sup count coincidences and not imbalance
INTERVAL = ("estimate", "low", "high")


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """Predictions with what an audit needs to know of each row's."""

    given: Predictions
    means: FloatArray  # expected prediction, (n_rows,)
    losses: FloatArray | None  # expected loss, (n_rows,); None without outcomes
    least_loss: float
    distances: tuple[str, ...]  # those that can be told

    @classmethod
    def read(
        cls,
        name: str,
        predictions: ArrayLike,
        y: ArrayLike | None,
        atoms: ArrayLike | None,
        loss: Loss,
        n_rows: int | None = None,
    ) -> "Audited":
        """Checked predictions, called `name` in messages."""
        given = Predictions.read(predictions, atoms, name)
        if given.points is None:
            raise ValueError("audit needs the atoms of a pmf: pass atoms=, the value of each of its columns.")
        if n_rows not in (None, given.n_rows):
            raise ValueError(f"{name} needs one prediction per row: got {given.n_rows} for {n_rows} rows.")
        tied = given.pmf is not None or given.n_points * FEWEST_PER_ATOM <= given.n_rows
        norms = [find_distance(metric) for metric in (*METRICS, *own_distances())]
        return cls(
            given,
            given.means(),
            None if y is None else row_losses(y, predictions, atoms, loss),
            0.0 if isinstance(loss, str) else -np.inf,
            tuple(each.name for each in norms if each.norm is not None and (tied or not each.needs_ties)),
        )

    def part(self, rows: AnyArray | slice) -> "Audited":
        """Those of some of the rows."""
        if isinstance(rows, slice):
            return self
        losses = None if self.losses is None else self.losses[rows]
        return replace(self, given=self.given.part(rows), means=self.means[rows], losses=losses)

    def risk(self, members: Membership) -> float:
        """Average loss of all rows; NaN without outcomes."""
        return np.nan if self.losses is None else float(np.average(self.losses, weights=members.weights))

    def estimates(self, members: Membership) -> dict[str, FloatArray]:
        """Measures of each group, without intervals."""
        masses, weights = self.given.masses(members), members.totals()
        found = {name: group_distances(masses, name) for name in self.distances}
        found["average"] = (members.totals(self.means) / weights)[:-1]
        if self.losses is not None:
            found["risk"] = (members.totals(self.losses) / weights)[:-1]
        return found


def audit_part(
    own: Audited, members: Membership, level: float, n_boot: int, rng: np.random.Generator
) -> tuple[dict[str, Intervals], Columns]:
    """The intervals of the groups of one stratum, and all numbers by the measure and what of it."""
    masses, found = own.given.masses(members), {}
    if own.losses is not None:
        found["risk"] = mean_intervals("risk", own.losses, members, level, own.least_loss)
    found["average"] = mean_intervals("average", own.means, members, level)
    found |= bootstrap_intervals(
        own.distances, own.given, members, masses, level=level, n_boot=n_boot, rng=rng
    )
    if members.counts_rows and own.given.pmf is None:
        found["ks"] = dkw_intervals(own.given, members, masses, level)
    columns = {(name, part): getattr(each, part) for name, each in found.items() for part in INTERVAL}
    merged = own.given.merged(MOST_POINTS)
    centre = masses if merged is own.given else merged.masses(members)
    drawn = noise_floor(own.distances, merged, members, centre, n_draws=n_boot, rng=rng)
    columns |= {(name, "floor"): draws.mean(axis=0) for name, draws in drawn.items()}
    columns |= {(name, "floor_high"): np.quantile(draws, level, axis=0) for name, draws in drawn.items()}
    columns["rows", "size"] = effective_sizes(members)[0]
    return found, columns


def possible_columns(own: Audited, members: Membership, cells: IntArray | None) -> Columns:
    """What the distances may be, where groups are known by probabilities."""
    if not members.by_proba:
        return {}
    standard = tuple(name for name in own.distances if name in METRICS)
    found = bound_distances(standard, own.given, members, cells)
    least = {(name, "least"): each.least for name, each in found.items()}
    return least | {(name, "most"): each.most for name, each in found.items()}
