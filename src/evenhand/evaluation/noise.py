"""How sure the points of a frontier are: intervals, and what chance alone shows."""

from dataclasses import dataclass

import numpy as np

from evenhand.dual.policy import SoftmaxPolicy
from evenhand.metrics import Measures, Membership, ScoredRows
from evenhand.metrics.intervals import bootstrap_intervals, mean_intervals
from evenhand.metrics.masses import Predictions
from evenhand.metrics.resampling import noise_floor

MOST_ROWS = 5000  # that are resampled: the intervals of more are those of as many, scaled to their number
N_BOOT = 60
LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class PointNoise:
    """Intervals of one model's risk and of its largest KS distance, and that distance by chance alone."""

    risk: tuple[float, float]
    ks: tuple[float, float]
    chance: float


def point_noise(rows: ScoredRows, policy: SoftmaxPolicy, measures: Measures) -> PointNoise:
    """Intervals at 95 % around what `measures` says of `policy` on `rows`, for the population.

    The distance's are those of `evenhand.metrics.unfairness_interval` for each group, of which the farthest
    counts; the risk's is Student's.
    """
    n_rows, rng = len(rows.scores), np.random.default_rng(0)
    part = rows
    if n_rows > MOST_ROWS:
        part = rows.take(np.sort(rng.choice(n_rows, MOST_ROWS, replace=False)))
    shrink = np.sqrt(len(part.scores) / n_rows)
    pmf, atoms = policy.pmf(part.scores, part.group_proba), policy.grid.atoms
    predictions = Predictions.read(pmf, atoms)
    target = part.scores if part.target is None else part.target
    losses = policy.cost.expected(pmf, target, atoms)
    alone = Membership(("all",), np.zeros(len(losses), np.int64), weights=part.members.weights)
    mean = mean_intervals("risk", losses, alone, LEVEL)
    reach = shrink * float((mean.high - mean.estimate)[0])
    estimate, radius, chance = measures.distances("ks"), np.zeros(len(measures.labels)), 0.0
    for groups, inside, members in part.members.parts():
        some = predictions.part(inside)
        masses = some.masses(members)
        found = bootstrap_intervals(("ks",), some, members, masses, level=LEVEL, n_boot=N_BOOT, rng=rng)
        radius[groups] = shrink * (found["ks"].high - found["ks"].estimate)
        floor = noise_floor(("ks",), some, members, masses, n_draws=N_BOOT, rng=rng)["ks"]
        chance = max(chance, shrink * float(floor.mean(axis=0).max()))
    return PointNoise(
        risk=(measures.risk - reach, measures.risk + reach),
        ks=(max(0.0, float((estimate - radius).max())), min(1.0, float((estimate + radius).max()))),
        chance=chance,
    )
