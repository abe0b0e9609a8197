"""Upper bounds for a difference of two means, tight to what the rows vary, times an unknown share.

A group has n rows with values c_i in [0, 1] of a function of the prediction (an indicator "at most t", or
the chance that the row's own distribution gives to it), and the rest of the rows k values e_j. What is to be
bounded is `(1 - p) (mean c - mean e)`, p being the group's share of the population.

**One mean.** For indicators with x hits the Clopper-Pearson bound at level a is a quantile of
`Beta(x + 1, n - x)`. That is the mean of a Dirichlet distribution with one unit at each row and one more at
the worst value, 1; for values in between that mean gives the bound of Gaffke (2005). A lower bound has its
extra unit at 0. So every mean has a *confidence distribution*, whose quantiles are bounds at all levels. Here
the distribution of a Dirichlet mean is replaced by a beta variable on an interval [low, high] that has
its first three moments: that of the two-point distribution with the moments of the values (two
Gauss nodes). For indicators the nodes are 0 and 1, and nothing is replaced.

**Melding** (Fay, Proschan and Brittain, 2015). The bound for a function of several parameters, rising in some
and falling in others, is the quantile of the same function of independent variables from their upper and
lower confidence distributions: here `(1 - P) (C - E)` with P and E from lower ones, C from an upper one.

**What is known.** For P and for each mean alone the bound of indicators is exact (Clopper and Pearson). For
two groups with equal means the melded bound is Fisher's exact test. As rows increase it fails with a
probability that tends to the level, whatever the values. In between no proof is known, neither for the
difference of two shares nor for Gaffke's bound, and no counterexample either: the tests add up the exact
chance of failure over all outcomes of small samples, `make bench ONLY=certificates` simulates large ones.
`method="hoeffding"` of `certify_held_out` has bounds that are proved for any number of rows.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from evenhand._utils.typing import AnyArray, FloatArray

Tail = Callable[[FloatArray], FloatArray]  # chance to be beyond each of several bounds

LEAST_WEIGHT = 1e-9  # of a beta variable that is one of its ends
MOST_EXACT = 32  # candidates for the largest bound whose exact bound is worked out
NEAR = 0.25  # standard deviations below the largest approximate bound where no candidate is sought
MOST_STEPS = 60  # of the search for a quantile; five are enough as a rule
TOLERANCE = 1e-7
ONE_BELOW = 1.0 - 1e-16


def _normal_nodes(step: float, n_each: int) -> tuple[FloatArray, FloatArray]:
    """Ranks and weights of evenly spaced points of a normal variable: means of smooth functions over it."""
    points = step * np.arange(-n_each, n_each + 1)
    weights = np.exp(-0.5 * points**2)
    return ndtr(points), weights / weights.sum()


MEAN_RANKS, MEAN_WEIGHTS = _normal_nodes(0.7, 9)
SHARE_RANKS, SHARE_WEIGHTS = _normal_nodes(0.8, 8)


class ScaledBeta(NamedTuple):
    """Beta variables, each on an interval of its own."""

    low: FloatArray
    high: FloatArray
    a: FloatArray  # weight at the high end
    b: FloatArray  # weight at the low end

    def take(self, places: AnyArray) -> "ScaledBeta":
        """Some of the variables."""
        return ScaledBeta(*(part[places] for part in self))

    def mirrored(self) -> "ScaledBeta":
        """One minus each variable."""
        return ScaledBeta(1.0 - self.high, 1.0 - self.low, self.b, self.a)

    def where(self, mask: AnyArray, other: "ScaledBeta") -> "ScaledBeta":
        """The other's variables where the mask says so."""
        return ScaledBeta(*(np.where(mask, new, old) for new, old in zip(other, self, strict=True)))

    def cumulants(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean, variance and third central moment."""
        total, width = self.a + self.b, self.high - self.low
        mean = self.a / total
        variance = mean * (1.0 - mean) / (total + 1.0)
        third = 2.0 * variance * (1.0 - 2.0 * mean) / (total + 2.0)
        return self.low + width * mean, width**2 * variance, width**3 * third

    def tail(self, points: FloatArray) -> FloatArray:
        """Chance of more than each point, for points of shape (n_variables, ...)."""
        extra = (slice(None),) + (None,) * (points.ndim - 1)
        width = np.maximum(self.high - self.low, 1e-100)
        place = np.clip((points - self.low[extra]) / width[extra], 0.0, 1.0)
        chance: FloatArray = betainc(self.b[extra], self.a[extra], 1.0 - place)
        return chance

    def quantiles(self, ranks: FloatArray) -> FloatArray:
        """Quantile of each variable at each rank, (n_variables, n_ranks)."""
        inside = betaincinv(self.a[:, None], self.b[:, None], ranks)
        found: FloatArray = self.low[:, None] + (self.high - self.low)[:, None] * inside
        return found


def confidence(count: float, first: FloatArray, second: FloatArray, third: FloatArray) -> ScaledBeta:
    """Confidence distribution of a mean, from sums of the values and of their second and third powers.

    The sums contain the extra value, 1 for an upper and 0 for a lower distribution, and `count` counts it.

    >>> upper = confidence(11, *(np.array([4.0]),) * 3)  # 3 hits of 10: Clopper and Pearson
    >>> float(upper.quantiles(np.array([0.95]))[0, 0].round(4))
    0.6066
    """
    mean = first / count
    variance = np.maximum(second / count - mean**2, 0.0)
    skewed = third / count - 3.0 * mean * second / count + 2.0 * mean**3
    spread = np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        skew = np.where(variance > 1e-14, skewed / variance**1.5, 0.0)
    root = np.sqrt(skew**2 + 4.0)
    # Two points with this mean, variance and skewness: at (skew -+ root) / 2 deviations from the mean.
    low = mean + spread * 0.5 * (skew - root)
    high = mean + spread * 0.5 * (skew + root)
    at_high = 0.5 * (1.0 - skew / root)
    a = np.maximum(count * at_high, LEAST_WEIGHT)
    b = np.maximum(count * (1.0 - at_high), LEAST_WEIGHT)
    return ScaledBeta(np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0), a, b)


def share_confidence(count: int, n_rows: int) -> ScaledBeta:
    """Lower confidence distribution of a share, as one variable."""
    sums = np.array([float(count)])
    return confidence(n_rows + 1.0, sums, sums, sums)


def largest_bound(upper: ScaledBeta, lower: ScaledBeta, share: ScaledBeta, level: float) -> float:
    """Largest of the melded bounds for `(1 - p) (c - e)`, over pairs of one `upper` and one `lower` each.

    A normal approximation with its skewness tells which pairs can have it, and only their bounds are worked
    out.

    >>> hits = np.array([5.0, 9.0])
    >>> upper, lower = confidence(21, *(hits + 1,) * 3), confidence(21, *(hits,) * 3)
    >>> round(largest_bound(upper, lower, share_confidence(20, 40), 0.05), 3)
    0.153
    """
    rough, deviation = rough_bounds(upper, lower, share, level)
    order = np.argsort(-rough, kind="stable")[:MOST_EXACT]
    kept = order[rough[order] >= rough[order[0]] - NEAR * deviation[order[0]]]
    return float(melded_bounds(upper.take(kept), lower.take(kept), share, level).max())


def rough_bounds(
    upper: ScaledBeta, lower: ScaledBeta, share: ScaledBeta, level: float
) -> tuple[FloatArray, FloatArray]:
    """Quantiles by the Cornish-Fisher expansion with three cumulants, and standard deviations."""
    (c, c2, c3), (e, e2, e3) = upper.cumulants(), lower.cumulants()
    p, p2, _ = (part[0] for part in share.cumulants())
    gap, variance, third = c - e, c2 + e2, c3 - e3
    total = np.maximum((1.0 - p) ** 2 * variance + gap**2 * p2, 1e-30)
    deviation = np.sqrt(total)
    z = -float(ndtri(level))
    skew = (1.0 - p) ** 3 * third / total**1.5
    return (1.0 - p) * gap + deviation * (z + skew * (z * z - 1.0) / 6.0), deviation


def melded_bounds(upper: ScaledBeta, lower: ScaledBeta, share: ScaledBeta, level: float) -> FloatArray:
    """Quantile at 1 - level of `(1 - P) (C - E)` for each pair of C and E.

    >>> one = confidence(11, *(np.array([4.0]),) * 3)
    >>> none = ScaledBeta(*(np.array([value]) for value in (0.0, 0.0, 1.0, 1.0)))
    >>> melded_bounds(one, none, none, 0.05).round(4)  # nothing to subtract, nobody in the group
    array([0.6066])
    """
    rough, deviation = rough_bounds(upper, lower, share, level)
    (c, c2, _), (e, e2, _), (p, p2, _) = upper.cumulants(), lower.cumulants(), share.cumulants()
    by_share = (c - e) ** 2 * p2 > (1.0 - p) ** 2 * (c2 + e2)
    found = np.empty_like(rough)
    for chosen, make in ((by_share, _beyond_by_share), (~by_share, _beyond_by_gap)):
        if chosen.any():
            beyond = make(upper.take(chosen), lower.take(chosen), share)
            excess = partial(_excess_rank, beyond, float(ndtri(level)))
            found[chosen] = _falling_root(excess, rough[chosen], deviation[chosen])
    return found


def _beyond_by_gap(upper: ScaledBeta, lower: ScaledBeta, share: ScaledBeta) -> Tail:
    """Chance that `(1 - P) (C - E)` is beyond, as a mean over P and the narrower of C and E of the other's.

    `C - E = (1 - E) - (1 - C)`: the tail is that of the wider of the two, so that a smooth function is left.
    """
    swapped = lower.cumulants()[1] > upper.cumulants()[1]
    wide, narrow = upper.where(swapped, lower.mirrored()), lower.where(swapped, upper.mirrored())
    subtracted = narrow.quantiles(MEAN_RANKS)[:, :, None]
    others = np.maximum(1.0 - share.quantiles(SHARE_RANKS)[0], 1e-12)

    def beyond(bound: FloatArray) -> FloatArray:
        tail = wide.tail(bound[:, None, None] / others + subtracted)
        chance: FloatArray = np.einsum("tij,i,j->t", tail, MEAN_WEIGHTS, SHARE_WEIGHTS)
        return chance

    return beyond


def _beyond_by_share(upper: ScaledBeta, lower: ScaledBeta, share: ScaledBeta) -> Tail:
    """The same as a mean over C and E of the tail of 1 - P, where P varies more than the gap does."""
    gaps = upper.quantiles(MEAN_RANKS)[:, :, None] - lower.quantiles(MEAN_RANKS)[:, None, :]
    signs, sizes = np.sign(gaps), np.maximum(np.abs(gaps), 1e-12)
    rest = share.mirrored().take(np.zeros(len(gaps), np.int64))

    def beyond(bound: FloatArray) -> FloatArray:
        needed = bound[:, None, None] / sizes
        tail = np.where(signs >= 0, rest.tail(needed), 1.0 - rest.tail(-needed))
        chance: FloatArray = np.einsum("tij,i,j->t", tail, MEAN_WEIGHTS, MEAN_WEIGHTS)
        return chance

    return beyond


def _excess_rank(beyond: Tail, rank: float, bound: FloatArray) -> FloatArray:
    """Normal rank of the chance to be beyond, minus that of the level: nearly a line, falling."""
    excess: FloatArray = ndtri(np.clip(beyond(bound), 1e-300, ONE_BELOW)) - rank
    return excess


def _falling_root(
    function: Callable[[FloatArray], FloatArray], start: FloatArray, step: FloatArray
) -> FloatArray:
    """Where each of several falling functions on [-1, 1] is zero: secants, or halves where these fail."""
    least, most = np.full_like(start, -1.0), np.ones_like(start)
    here = np.clip(start, -0.999, 0.999)
    slope = -1.0 / np.maximum(step, 1e-6)
    last, value_last = here, np.full_like(here, np.inf)
    for _ in range(MOST_STEPS):
        value = function(here)
        least, most = np.where(value > 0, here, least), np.where(value > 0, most, here)
        if ((np.abs(value) < TOLERANCE) | (most - least < TOLERANCE)).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = (value - value_last) / (here - last)
        slope = np.where(np.isfinite(secant) & (secant < 0), secant, slope)
        ahead = here - value / slope
        kept = (ahead > least) & (ahead < most) & (np.abs(value) < 0.5 * np.abs(value_last))
        last, value_last = here, value
        here = np.where(kept, ahead, 0.5 * (least + most))
    return np.where(np.abs(value) < TOLERANCE, here, most)
