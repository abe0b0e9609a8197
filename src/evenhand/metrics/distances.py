"""Distances between distributions over one set of points, on arrays of any number of them.

All but W2 are norms of the difference of two distributions; a norm of a difference is what makes the
bootstrap of `evenhand.metrics.intervals` short.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from evenhand._utils.text import capital
from evenhand._utils.typing import FloatArray
from evenhand.dual.parity import BUILT_IN, PARITIES, ParityNotion, find_parity, make_parity
from evenhand.metrics.masses import GroupMasses

Metric = str | ParityNotion  # a distance by its name, or the one of a notion that need not be registered
LARGEST_MATRIX = 1 << 24  # entries of an operator whose largest distance is worked out


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


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between distributions, in numbers and in words."""

    name: str
    short: str  # in the head of a table
    phrase: str  # in a sentence, after "largest"
    title: str  # at the start of one
    norm: Callable[[FloatArray, FloatArray | None], FloatArray] | None  # of a difference; None: it is no norm
    in_outcome_units: bool = False  # in the units of the prediction; the others are probabilities
    needs_ties: bool = False  # it sees only whether values are equal: nothing, where no two are
    meaning: str = ""  # a sentence
    parity: ParityNotion | None = None  # whose own distance it is

    @property
    def needs_points(self) -> bool:
        """It depends on the values themselves, not only on their order."""
        return self.in_outcome_units or self.parity is not None

    def largest(self, points: FloatArray | None) -> float:
        """The most that it can be between distributions over these points, or a bound on that."""
        if not self.needs_points:
            return 1.0
        assert points is not None
        if self.parity is None:
            return float(np.ptp(points))
        found = make_parity(self.parity, points)
        return found.diameter() if found.operator.n_rows * len(points) <= LARGEST_MATRIX else np.inf


_KS, _TV, _W1 = (
    "Here a gap is the largest difference in the share of predictions below a threshold.",
    "Here a gap is the total variation distance: no single prediction can differ by more.",
    "Here a gap is the Wasserstein-1 distance, in the units of the prediction.",
)
STANDARD = {
    distance.name: distance
    for distance in (
        Distance("ks", "KS", "KS distance", "KS", ks_norm, meaning=_KS),
        Distance("tv", "TV", "total variation distance", "TV", tv_norm, needs_ties=True, meaning=_TV),
        Distance("w1", "W1", "Wasserstein-1 distance", "W1", w1_norm, True, meaning=_W1),
        Distance(
            "sup",
            "gap",
            "gap in the chance of a class",
            "Largest gap of one value",
            sup_norm,
            needs_ties=True,
        ),
        Distance("mean", "gap", "gap in means", "Mean gap", mean_norm, True),
        Distance("w2", "W2", "Wasserstein-2 distance", "W2", None, True),
    )
}
METRICS = tuple(STANDARD)
DISTANCES = ("ks", "tv", "w1")  # those that a frontier reports and a held-out certificate bounds


def find_distance(metric: Metric) -> Distance:
    """The distance of that name, or the one that a notion bounds, which may go by its own name.

    >>> find_distance("cdf").name, find_distance("thresholds:600").name
    ('ks', 'thresholds')
    """
    if isinstance(metric, str) and metric in STANDARD:
        return STANDARD[metric]
    try:
        notion = find_parity(metric)
    except ValueError as error:
        known = ", ".join((*METRICS, "thresholds", *own_distances()))
        raise ValueError(f"metric must be one of {known}: got {metric!r}.") from error
    if notion.metric in STANDARD:
        return STANDARD[notion.metric]
    phrase = notion.distance_name
    return Distance(
        notion.metric,
        notion.short_name,
        phrase,
        capital(phrase),
        partial(_own_norm, notion),
        in_outcome_units=notion.in_outcome_units,
        needs_ties=notion.needs_ties,
        parity=notion,
    )


def own_distances(asked: Metric | None = None) -> dict[str, Metric]:
    """Distances that registered notions bring along, and the one that a model is asked for, by their names.

    Audits and frontiers measure them beside their own.
    """
    found: dict[str, Metric] = {
        name: name
        for name, notion in PARITIES.items()
        if name not in BUILT_IN and notion.metric not in STANDARD
    }
    if asked is not None and find_distance(asked).name not in STANDARD:
        found[find_distance(asked).name] = asked
    return found


def settle_metric(metric: Metric, points: FloatArray | None, masses: FloatArray) -> Metric:
    """The metric with what its notion learns from the predictions of everybody: quantiles become numbers."""
    notion = find_distance(metric).parity
    if notion is None or points is None:
        return metric
    resolved = notion.resolve(points, masses)
    return metric if resolved is notion else resolved


def _own_norm(notion: ParityNotion, gaps: FloatArray, points: FloatArray | None) -> FloatArray:
    """The norm of a notion's operator, over the points as they are: in their units where it has any."""
    assert points is not None
    parity = make_parity(notion, points)
    rows = parity.operator.apply(np.ascontiguousarray(gaps.reshape(-1, len(points)).T))
    return parity.norm.value(rows).reshape(gaps.shape[:-1])


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
    metric: Metric, first: FloatArray, second: FloatArray, points: FloatArray | None
) -> FloatArray:
    """Distance of each pair of distributions, (...,) from arrays (..., n_points) that broadcast."""
    norm = find_distance(metric).norm
    if norm is not None:
        return norm(first - second, points)
    assert points is not None
    first, second = np.broadcast_arrays(first, second)
    pairs = zip(first.reshape(-1, len(points)), second.reshape(-1, len(points)), strict=True)
    return np.array([w2_distance(p, q, points) for p, q in pairs]).reshape(first.shape[:-1])


def pairs_of(n_groups: int) -> tuple[list[int], list[int]]:
    """Every pair of groups once, the first before the second."""
    first, second = np.triu_indices(n_groups, 1)
    return first.tolist(), second.tolist()


def group_distances(groups: GroupMasses, metric: Metric, pairwise: bool = False) -> FloatArray:
    """Distance of each group to all rows, or all of its stratum; or between each pair of groups.

    Parameters
    ----------
    groups : GroupMasses
        With its points, where the metric depends on values and not on their order alone.
    metric : str or parity notion
        As in `unfairness`.
    pairwise : bool, default=False
        Compare every two groups instead.

    Returns
    -------
    array of shape (n_groups,) or (n_pairs,)
        Of the groups in their order; or of the pairs (0, 1), (0, 2), ..., (1, 2), ... of their places.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.metrics import GroupMasses, Membership, group_distances
    >>> members = Membership.read(["a", "a", "b", "b"], 4)
    >>> groups = GroupMasses.of_values(np.array([1.0, 2.0, 3.0, 4.0]), members)
    >>> group_distances(groups, "ks"), group_distances(groups, "ks", pairwise=True)
    (array([0.5, 0.5]), array([1.]))
    """
    metric = settle_metric(metric, groups.points, groups.masses.sum(axis=0))
    own = groups.distributions()
    if not pairwise:
        return distances_between(metric, own, groups.everybody(), groups.points)
    first, second = pairs_of(len(own))
    return distances_between(metric, own[first], own[second], groups.points)
