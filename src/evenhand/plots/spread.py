"""How predictions are spread over groups: curves, densities and the gaps between them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.metrics import GroupMasses

MOST_POINTS = 800  # of a curve, at most: more do not show
TRIMMED = 0.001  # share of the rows on each side that may lie beyond the picture
SPIKE_BINS = 0.08  # share of the bins that may stick out of the others
SPIKE = 2.0  # a bin this many times as high as the highest outside those is cut


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """How one set of predictions is spread over the groups; the last row of a table is all rows."""

    name: str
    points: FloatArray  # where the curves are known, increasing, (n_points,)
    cdf: FloatArray  # share of predictions up to each point, (n_groups + 1, n_points)
    edges: FloatArray  # of the bins, (n_bins + 1,)
    density: FloatArray  # (n_groups + 1, n_bins)
    gap: FloatArray  # distance of each group to all rows, (n_groups,)
    gap_at: FloatArray  # where it is reached first, (n_groups,)
    chance: FloatArray = field(
        default_factory=lambda: np.empty(0)
    )  # gap of groups that are alike, on average
    has_classes: bool = False  # points are classes: what is compared is the share of each

    @classmethod
    def from_masses(
        cls,
        name: str,
        masses: FloatArray,
        points: FloatArray,
        edges: FloatArray,
        chance: FloatArray | None = None,
        has_classes: bool = False,
    ) -> "Spread":
        """The stage in which each group has some mass at each point, (n_groups, n_points)."""
        every = np.vstack([masses, masses.sum(axis=0)])
        shares = every / every.sum(axis=1, keepdims=True)
        cdf = np.cumsum(shares, axis=1)
        compared = shares if has_classes else cdf
        distance = np.abs(compared[:-1] - compared[-1])
        places = distance.argmax(axis=1)
        kept = _shown(points, cdf[-1], places)
        # A point's mass is spread over the cell around it: bins that do not match the atoms would comb.
        width = float(edges[-1] - edges[0]) / len(edges)  # less than a bin: no cell leaves the picture
        borders = np.ravel(cells(points, width), order="F")
        levels = np.repeat(np.column_stack([np.zeros(len(cdf)), cdf]), 2, axis=1)[:, 1:-1]
        reached = np.stack([np.interp(edges, borders, level) for level in levels])
        density = np.diff(reached, axis=1) / np.diff(edges)
        noise = np.full(len(masses), np.nan) if chance is None else chance
        gaps = distance.max(axis=1), points[places], noise
        return cls(name, points[kept], cdf[:, kept], edges, density, *gaps, has_classes)

    @property
    def worst(self) -> int:
        """Place of the group with the largest gap."""
        return int(self.gap.argmax())

    def curve(self, place: int) -> tuple[FloatArray, FloatArray]:
        """Corners of a group's curve: the share up to each point, or the share of each class."""
        if not self.has_classes:
            return np.repeat(self.points, 2), np.append(0.0, np.repeat(self.cdf[place], 2)[:-1])
        shares = np.diff(self.cdf[place], prepend=0.0)
        return np.repeat(cell_borders(self.points), 2)[1:-1], np.repeat(shares, 2)

    def ends_of_gap(self) -> FloatArray:
        """Heights of the farthest group and of all rows where they are farthest apart."""
        here = int(np.searchsorted(self.points, self.gap_at[self.worst]))
        table = np.diff(self.cdf, axis=1, prepend=0.0) if self.has_classes else self.cdf
        return table[[self.worst, -1], here]

    def columns(self, groups: list[str], of: str, epsilon: FloatArray) -> dict[str, AnyArray]:
        """Columns of a data frame of the gaps, of the curves or of the densities."""
        if of == "gaps":
            columns = {"group": np.array(groups), "gap": self.gap, "gap_at": self.gap_at}
            columns |= {"chance": self.chance, "epsilon": epsilon}
        else:
            table = self.cdf if of == "cdf" else self.density
            bins = {"low": self.edges[:-1], "high": self.edges[1:]}
            where = {"value": self.points} if of == "cdf" else bins
            columns = {"group": np.repeat([*groups, "all rows"], table.shape[1])}
            columns |= {name: np.tile(values, len(groups) + 1) for name, values in where.items()}
            columns[of] = table.ravel()
        return {"stage": np.repeat(self.name, len(columns["group"])), **columns}


def common_edges(tables: list[GroupMasses], n_bins: int, has_classes: bool) -> FloatArray:
    """Borders of the bins that several sets of predictions share."""
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1: got {n_bins}.")
    if has_classes:
        return cell_borders(points_of(tables[0]))
    ends = [(points_of(table), *_range(table)) for table in tables]
    span = max(points[last] for points, _, last in ends) - min(points[first] for points, first, _ in ends)
    reach = float(span) / n_bins or np.inf
    low = min(cells(points, reach)[0][first] for points, first, _ in ends)
    high = max(cells(points, reach)[1][last] for points, _, last in ends)
    return np.linspace(low, high, n_bins + 1)


def full_height(densities: list[FloatArray]) -> float:
    """The density that fills a ridge: the highest, but for a few bins that tower over all others.

    Without that, one bin that holds a third of the rows would press everything else flat.

    >>> full_height([np.array([[1.0, 2.0, 3.0, 2.0], [2.0, 2.0, 2.0, 2.0]])])
    3.0
    >>> bins = np.append(np.ones(39), 50.0)
    >>> full_height([bins[None]])
    2.0
    """
    curves: Any = np.sort(np.concatenate(densities), axis=1)[:, ::-1]
    highest = float(curves[:, 0].max())
    n_spikes = int(SPIKE_BINS * curves.shape[1])
    rest = float(curves[:, n_spikes].max())
    return highest if rest == 0.0 else min(highest, SPIKE * rest)


def points_of(table: GroupMasses) -> FloatArray:
    """Where the masses are."""
    assert table.points is not None
    return table.points


def cell_borders(points: FloatArray) -> FloatArray:
    """Borders half way between points; the outer cells are as wide as their inner halves."""
    if len(points) == 1:
        half = 0.5 * max(abs(float(points[0])), 1.0) * 0.1
        return np.array([points[0] - half, points[0] + half])
    middles = points[:-1] + np.diff(points) / 2
    first, last = 2 * points[0] - middles[0], 2 * points[-1] - middles[-1]
    return np.concatenate([[first], middles, [last]])


def cells(points: FloatArray, width: float) -> tuple[FloatArray, FloatArray]:
    """Ends of the cell around each point; one that stands far from the others is no wider than a bin.

    >>> cells(np.array([0.0, 5.0, 5.1, 5.2]), width=0.5)[1].round(2)
    array([0.25, 5.05, 5.15, 5.25])
    """
    borders = cell_borders(points)
    usual = float(np.median(np.diff(points))) if len(points) > 1 else 0.0
    reach = max(width / 2, 2.0 * usual)
    return np.maximum(borders[:-1], points - reach), np.minimum(borders[1:], points + reach)


def _range(table: GroupMasses) -> tuple[int, int]:
    """First and last point that the picture covers: all but the outermost rows, if these are far away."""
    total = np.cumsum(table.masses.sum(axis=0))
    first, last = np.searchsorted(total / total[-1], [TRIMMED, 1.0 - TRIMMED])
    return int(first), min(int(last), len(total) - 1)


def _shown(points: FloatArray, all_rows: FloatArray, needed: AnyArray) -> AnyArray:
    """Places of the points to draw: dense in value and in share, and all that are needed."""
    if len(points) <= MOST_POINTS:
        return np.arange(len(points))
    steps = np.linspace(0.0, 1.0, MOST_POINTS // 2)
    by_share = np.searchsorted(all_rows, steps)
    by_value = np.searchsorted(points, points[0] + steps * (points[-1] - points[0]))
    places = np.concatenate([by_share, by_value, needed, [0, len(points) - 1]])
    return np.unique(np.minimum(places, len(points) - 1))
