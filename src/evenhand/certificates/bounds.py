"""Upper bounds on every group's distance from all, out of sums over held-out rows."""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtri, owens_t

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.certificates.deviations import share_interval, shortfall_width
from evenhand.certificates.melding import (
    ScaledBeta,
    confidence,
    largest_bound,
    rough_bounds,
    share_confidence,
)
from evenhand.certificates.samples import HeldOutSample

N_BETWEEN = 4  # points on each step of a curve of events, for total variation
N_CENTRES = 17  # where the mean of an unknown function may lie, for Wasserstein-1
SHARE_OF_HOEFFDING = 1.0 / 17.0  # of a level, spent on the share


def upper_bounds(sample: HeldOutSample, level: float, method: str = "melded") -> FloatArray:
    """A bound for every group by itself, each below the population's distance with chance `level` at most.

    For groups without rows it is the largest distance that there can be.

    >>> from evenhand.certificates.samples import read_sample
    >>> from evenhand.metrics import Membership
    >>> members = Membership(("a", "b", "c"), np.repeat([0, 1], 500))
    >>> upper_bounds(read_sample(np.tile([0.0, 1.0], 500), members, "ks"), 0.05).round(3)
    array([0.027, 0.027, 1.   ])
    """
    bounds = np.full(len(sample.counts), sample.unit)
    for group in np.flatnonzero(sample.counts > 0).tolist():
        bounds[group] = _upper_bound(sample, group, level, method)
    return bounds


def simultaneous_bounds(sample: HeldOutSample, level: float, method: str = "melded") -> FloatArray:
    """Bounds of which any is below its group's distance with chance `level` at most.

    The level is divided by strata, and inside a stratum by groups; but two groups have one gap between
    them, which counts once.
    """
    strata = sample.strata()
    bounds = np.full(len(sample.counts), sample.unit)
    for groups in strata:
        present = [group for group in groups.tolist() if sample.counts[group]]
        own = level / len(strata)
        if len(groups) == 2 == len(present):
            own = own if method == "hoeffding" else _level_of_two(sample, present[0], own)
        else:
            own /= len(groups)
        for group in present:
            bounds[group] = _upper_bound(sample, group, own, method)
    return bounds


def _upper_bound(sample: HeldOutSample, group: int, level: float, method: str) -> float:
    count, total = int(sample.counts[group]), int(sample.totals()[group])
    if method == "hoeffding":
        return _hoeffding_bound(sample, group, count, total, level)
    upper, lower = _confidence_pairs(sample, group, count, total)
    bound = largest_bound(upper, lower, share_confidence(count, total), level)
    return sample.unit * min(max(bound, 0.0), 1.0)


def _hoeffding_bound(sample: HeldOutSample, group: int, count: int, total: int, level: float) -> float:
    for_share = SHARE_OF_HOEFFDING * level
    low, _ = share_interval(count, total, 0.5 * for_share)  # half: two groups have two shares and one gap
    if count == total:
        return (1.0 - low) * sample.unit
    gap = float(sample.estimate()[group]) / (1.0 - count / total)
    width = sample.unit * shortfall_width(count, total - count, level - for_share)
    return (1.0 - low) * min(gap + width, sample.unit)


def _confidence_pairs(
    sample: HeldOutSample, group: int, count: int, total: int
) -> tuple[ScaledBeta, ScaledBeta]:
    """Upper and lower confidence distributions whose largest difference is the largest gap."""
    rest = total - count
    if sample.metric == "tv":
        one, two = _event_curve(sample, group)
    elif sample.metric == "w1":
        one, two = _lipschitz_functions(sample, group, count, rest)
    else:
        assert sample.powers is not None
        one = sample.powers[:, group]
        two = sample.powers[:, _stratum_of(sample, group)].sum(axis=1) - one
    pairs = [_pair(count, one, rest, two)]
    if sample.powers is not None:  # the other sign, which is another function of "tv" and "w1"
        pairs.append(_pair(rest, two, count, one))
    upper, lower = (
        ScaledBeta(*(np.concatenate(parts) for parts in zip(*side, strict=True)))
        for side in zip(*pairs, strict=True)
    )
    return upper, lower


def _pair(
    n_first: int, first: FloatArray, n_second: int, second: FloatArray
) -> tuple[ScaledBeta, ScaledBeta]:
    """Upper distribution of the first means, and lower of the second."""
    return confidence(n_first + 1.0, *(first + 1.0)), confidence(n_second + 1.0, *np.maximum(second, 0.0))


def _stratum_of(sample: HeldOutSample, group: int) -> IntArray:
    return next(groups for groups in sample.strata() if group in groups)


def _event_curve(sample: HeldOutSample, group: int) -> tuple[FloatArray, FloatArray]:
    """Sums of indicators of events that no other event beats, for total variation.

    The bound rises with what the group gives to an event and falls with what the rest does. So only events
    count that give the group the most for what they give to the rest: atoms in order of the ratio of the two.
    Points between two such events dominate all that is left.
    A pmf in each row varies less than draws from it, whose bound is taken.
    """
    masses = sample.masses.masses
    own = masses[group]
    rest = masses[_stratum_of(sample, group)].sum(axis=0) - own
    order = np.argsort(-own / np.maximum(own + rest, 1e-300), kind="stable")
    parts = np.linspace(0.0, 1.0, N_BETWEEN + 1)[1:]
    curves = []
    for each in (own, rest):
        steps = each[order]
        before = np.cumsum(steps) - steps
        curve = np.concatenate([[0.0], (before[:, None] + steps[:, None] * parts).ravel()])
        curves.append(np.broadcast_to(curve, (3, len(curve))))
    return curves[0], curves[1]


def _lipschitz_functions(
    sample: HeldOutSample, group: int, count: int, rest: int
) -> tuple[FloatArray, FloatArray]:
    """Sums of a function of slope at most one of which only the gap is known, for Wasserstein-1.

    On a scale where the atoms span [0, 1], the gap of its means is at most the distance that is seen, and
    its variance in either sample at most that of the prediction itself. Its mean may lie anywhere, and its
    values be skewed as far as [0, 1] lets them: the largest bound over both is taken.
    """
    masses, points = sample.masses.masses, sample.masses.points
    assert points is not None
    own = masses[group]
    others = masses[_stratum_of(sample, group)].sum(axis=0) - own
    places = (points - points[0]) / max(points[-1] - points[0], 1e-300)
    share = 1.0 - count / (count + rest)
    gap = float(sample.estimate()[group]) / max(share * sample.unit, 1e-300) if rest else 1.0
    centres = np.linspace(min(gap, 1.0), 1.0, N_CENTRES)
    high = [count * _two_points(centres, _variance(own, places), side) for side in (0.0, 1.0)]
    low = [rest * _two_points(centres - gap, _variance(others, places), side) for side in (1.0, 0.0)]
    return np.concatenate(high, axis=1), np.concatenate(low, axis=1)


def _variance(masses: FloatArray, places: FloatArray) -> float:
    total = max(float(masses.sum()), 1e-300)
    mean = float(masses @ places) / total
    return max(float(masses @ places**2) / total - mean**2, 0.0)


def _two_points(mean: FloatArray, variance: float, end: float) -> FloatArray:
    """First three moments of two points, one at an end of [0, 1], with these means and this variance at most.

    >>> _two_points(np.array([0.5]), 0.25, 1.0).ravel()
    array([0.5, 0.5, 0.5])
    """
    mean = np.clip(mean, 0.0, 1.0)
    spread = np.minimum(variance, mean * (1.0 - mean))
    reach = np.where(np.abs(end - mean) > 1e-12, end - mean, 1.0)
    other = mean - spread / reach  # the two points and the mean: (end - mean) (mean - other) = variance
    apart = np.abs(end - other) > 1e-12
    weight = np.where(apart, (mean - other) / np.where(apart, end - other, 1.0), 1.0)
    return np.stack([weight * end**power + (1.0 - weight) * other**power for power in (1, 2, 3)])


def _level_of_two(sample: HeldOutSample, group: int, level: float) -> float:
    """Level of each of two groups, so that either bound fails with chance `level` at most.

    Both distances are the one gap D times a share, `(1 - p) D` and `p D`. In a normal approximation the
    two errors have the correlation of D's error with itself, less what p's adds to one and takes from the
    other: one where the gap is small, and then the level counts once.
    """
    count, total = int(sample.counts[group]), int(sample.totals()[group])
    upper, lower = _confidence_pairs(sample, group, count, total)
    rough, _ = rough_bounds(upper, lower, share_confidence(count, total), level)
    best = np.array([int(np.argmax(rough))])
    (c, c2, _), (e, e2, _) = upper.take(best).cumulants(), lower.take(best).cumulants()
    share = count / total
    variance = max(float(c2[0] + e2[0]), 1e-30)
    ratio = abs(float(c[0] - e[0])) * math.sqrt(share * (1.0 - share) / total / variance)
    first, second = ratio / (1.0 - share), ratio / share
    correlation = (1.0 - first * second) / math.sqrt((1.0 + first**2) * (1.0 + second**2))
    return level_of_pair(level, correlation)


def level_of_pair(level: float, correlation: float) -> float:
    """Level of each of two bounds whose errors are normal with this correlation: any fails with `level`.

    >>> [round(level_of_pair(0.05, each), 4) for each in (1.0, 0.5, -1.0)]
    [0.05, 0.0277, 0.025]
    """
    angle = math.sqrt(max(1.0 - correlation, 0.0) / max(1.0 + correlation, 1e-12))

    def excess(each: float) -> float:
        return each + 2.0 * float(owens_t(ndtri(each), angle)) - level

    if excess(level) < 1e-12:
        return level
    if excess(level / 2.0) >= 0.0:  # errors that are opposite, up to rounding
        return level / 2.0
    return float(brentq(excess, level / 2.0, level, xtol=1e-12))
