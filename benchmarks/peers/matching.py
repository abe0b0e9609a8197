"""Compare methods at the same distance between groups, with intervals over seeds.

Our curve at some distance is the lower convex hull of our sweep, of the model without parity and of the
constant: to flip a coin between two of these is a policy, too. A peer's point is compared with our curve at
that point's own distance. Distances are net of chance over all seeds, and the interval of the difference is
found by leaving out each seed in turn, matching included.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from benchmarks.peers.store import Results

LEVEL = 0.95
ROUNDING = 1e-9
OURS, PLAIN, CONSTANT = "evenhand", "no parity", "constant"


@dataclass(frozen=True, eq=False)
class Point:
    """One method at one value of its knob, for all seeds of a data set and learner."""

    method: str
    knob: float
    seeds: tuple[int, ...]
    risks: np.ndarray  # by seed
    squares: np.ndarray  # distance^2 - chance^2, by seed
    rates: np.ndarray | None
    seconds: float

    def risk(self, kept: np.ndarray) -> float:
        return float(self.risks[kept].mean())

    def distance(self, kept: np.ndarray) -> float:
        """Net of chance: root of the mean square beyond what shuffled groups show."""
        return float(np.sqrt(max(0.0, self.squares[kept].mean())))


@dataclass(frozen=True)
class Comparison:
    """Our risk minus a peer's at the peer's distance, as shares of the constant's risk."""

    difference: float
    half_width: float

    @property
    def verdict(self) -> str:
        """`ahead` (ours), `level` or `behind`, by the sign of the interval."""
        if self.difference + self.half_width < -ROUNDING:
            return "ahead"
        if self.difference - self.half_width > ROUNDING:
            return "behind"
        return "level"


@dataclass(frozen=True, eq=False)
class Panel:
    """All points of one task, mode, data set and learner."""

    task: str
    mode: str
    data: str
    learner: str
    points: tuple[Point, ...]

    def of(self, method: str) -> list[Point]:
        return [point for point in self.points if point.method == method]

    @property
    def everybody(self) -> np.ndarray:
        return np.ones(len(self.of(CONSTANT)[0].risks), dtype=bool)

    def unit(self, kept: np.ndarray | None = None) -> float:
        """The risk of the constant."""
        return self.of(CONSTANT)[0].risk(self.everybody if kept is None else kept)

    def curve(self, kept: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Distances and risks of the corners of our curve, from the constant to the model without parity."""
        kept = self.everybody if kept is None else kept
        ours = [point for name in (OURS, PLAIN, CONSTANT) for point in self.of(name)]
        return lower_hull([(point.distance(kept), point.risk(kept)) for point in ours])

    def compare(self, peer: Point) -> Comparison:
        """Our curve against a peer's point."""
        everybody = self.everybody
        whole = self._difference(peer, everybody)
        n_seeds = len(everybody)
        if n_seeds < 2:
            return Comparison(whole, np.inf)
        without = np.array([self._difference(peer, np.arange(n_seeds) != left) for left in range(n_seeds)])
        error = np.sqrt((n_seeds - 1) / n_seeds * ((without - without.mean()) ** 2).sum())
        return Comparison(whole, float(student.ppf((1 + LEVEL) / 2, n_seeds - 1) * error))

    def _difference(self, peer: Point, kept: np.ndarray) -> float:
        distances, risks = self.curve(kept)
        ours = float(np.interp(peer.distance(kept), distances, risks))
        return (ours - peer.risk(kept)) / self.unit(kept)


def lower_hull(points: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the lower convex hull that go down, by distance; beyond the last it stays.

    >>> lower_hull([(0.0, 3.0), (1.0, 2.5), (1.0, 1.0), (2.0, 0.9), (3.0, 2.0)])
    (array([0., 1., 2.]), array([3. , 1. , 0.9]))
    """
    corners: list[tuple[float, float]] = []
    for point in sorted(points):
        if corners and point[1] >= corners[-1][1]:
            continue  # it costs as much at a larger distance
        while corners and (corners[-1][0] == point[0] or _above(corners, point)):
            corners.pop()
        corners.append(point)
    distances, risks = zip(*corners, strict=True)
    return np.array(distances), np.array(risks)


def _above(corners: list[tuple[float, float]], new: tuple[float, float]) -> bool:
    """Whether the last corner lies on or above the line from the one before to a new point."""
    if len(corners) < 2:
        return False
    (x0, y0), (x1, y1), (x2, y2) = corners[-2], corners[-1], new
    return (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0)


def panels(results: Results) -> list[Panel]:
    """Every task, mode, data set and learner; a point needs all seeds."""
    found: dict[tuple[str, ...], dict[tuple[str, float], list[dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in results.records:
        if "failure" not in record:
            where = tuple(record[name] for name in ("task", "mode", "data", "learner"))
            found[where][record["method"], record["knob"]].append(record)
    n_seeds = results.about["seeds"]
    return [
        Panel(*where, tuple(_point(some) for some in points.values() if len(some) == n_seeds))
        for where, points in found.items()
    ]


def _point(records: list[dict[str, Any]]) -> Point:
    rates = np.array([each["rate"] for each in records]) if "rate" in records[0] else None
    return Point(
        records[0]["method"],
        records[0]["knob"],
        tuple(each["seed"] for each in records),
        np.array([each["risk"] for each in records]),
        np.array([each["distance"] ** 2 - each["chance"] ** 2 for each in records]),
        rates,
        float(np.median([each["seconds"] for each in records])),
    )
