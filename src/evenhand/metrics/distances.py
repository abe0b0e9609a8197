"""Distances between distributions over one set of points, on arrays of any number of them.

All but W2 are norms of the difference of two distributions; a norm of a difference is what makes the
bootstrap of `evenhand.metrics.intervals` short.
"""

from collections.abc import Callable

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.metrics.masses import GroupMasses


def ks_norm(gaps: FloatArray, points: FloatArray | None = None) -> FloatArray:
    """Largest absolute difference of the distribution functions, (...,)."""
    largest: FloatArray = np.abs(gaps.cumsum(axis=-1)).max(axis=-1)
    return largest


def tv_norm(gaps: FloatArray, points: FloatArray | None = None) -> FloatArray:
    """Largest difference in the probability of any event, (...,)."""
    total: FloatArray = np.abs(gaps).sum(axis=-1)
    return 0.5 * total


def sup_norm(gaps: FloatArray, points: FloatArray | None = None) -> FloatArray:
    """Largest difference in the probability of one point, (...,)."""
    largest: FloatArray = np.abs(gaps).max(axis=-1)
    return largest


def w1_norm(gaps: FloatArray, points: FloatArray | None) -> FloatArray:
    """Area between the distribution functions, (...,)."""
    assert points is not None
    moved: FloatArray = np.abs(gaps.cumsum(axis=-1)[..., :-1]) @ np.diff(points)
    return moved


def mean_norm(gaps: FloatArray, points: FloatArray | None) -> FloatArray:
    """Absolute difference of the means, (...,)."""
    assert points is not None
    difference: FloatArray = gaps @ (points - points.mean())  # centred: gaps sum to zero, up to rounding
    return np.abs(difference)


NORMS: dict[str, Callable[[FloatArray, FloatArray | None], FloatArray]] = {
    "ks": ks_norm,
    "tv": tv_norm,
    "w1": w1_norm,
    "sup": sup_norm,
    "mean": mean_norm,
}
METRICS = (*NORMS, "w2")
DISTANCES = ("ks", "tv", "w1")  # those that a frontier reports and a held-out certificate bounds
OUTCOME_UNITS = ("w1", "w2", "mean")  # in the units of the prediction; the others are probabilities


def w2_distance(first: FloatArray, second: FloatArray, points: FloatArray) -> float:
    """Wasserstein-2 distance of two distributions: L2 distance of their quantile functions."""
    one, two = np.cumsum(first), np.cumsum(second)
    levels = np.sort(np.concatenate([one, two]))
    np.clip(levels, 0.0, 1.0, out=levels)
    widths = np.diff(levels, prepend=0.0)
    middles = levels - 0.5 * widths  # inside the step, where rounding cannot pick its neighbour
    last = len(points) - 1
    gaps = (
        points[np.minimum(np.searchsorted(one, middles), last)]
        - points[np.minimum(np.searchsorted(two, middles), last)]
    )
    return float(np.sqrt(widths @ gaps**2))


def distances_between(
    metric: str, first: FloatArray, second: FloatArray, points: FloatArray | None
) -> FloatArray:
    """Distance of each pair of distributions, (...,) from arrays (..., n_points) that broadcast."""
    if metric in NORMS:
        return NORMS[metric](first - second, points)
    assert points is not None
    first, second = np.broadcast_arrays(first, second)
    pairs = zip(first.reshape(-1, len(points)), second.reshape(-1, len(points)), strict=True)
    return np.array([w2_distance(p, q, points) for p, q in pairs]).reshape(first.shape[:-1])


def pairs_of(n_groups: int) -> tuple[list[int], list[int]]:
    """Every pair of groups once, the first before the second."""
    first, second = np.triu_indices(n_groups, 1)
    return first.tolist(), second.tolist()


def group_distances(groups: GroupMasses, metric: str, pairwise: bool = False) -> FloatArray:
    """Distance of each group to all rows, or all of its stratum; or between each pair of groups."""
    own = groups.distributions()
    if not pairwise:
        return distances_between(metric, own, groups.everybody(), groups.points)
    first, second = pairs_of(len(own))
    return distances_between(metric, own[first], own[second], groups.points)
