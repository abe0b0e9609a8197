"""All distributions that the predictions of a group may have, where its share is known by cells.

A cell z has weight q_z, the group the share tau_z of its people, and their predictions the distribution r_z.
The group's own distribution is `g = sum_z q_z a_z / p`, where `p = sum_z q_z tau_z` and a_z is any part of
r_z, `0 <= a_z <= r_z`, of total tau_z. Distances are between g and everybody's `r = sum_z q_z r_z`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from evenhand._utils.typing import FloatArray

MOST_VARIABLES = 4000  # cells times points up to which the least distance is a linear program's
TOLERANCE = 1e-7  # of these programs
ROUNDING = 1e-12
MOST_EVENTS = 12  # points up to which all sets of them are tried
MOST_SIGNS = 10  # points up to which all signs of the differences are


@dataclass(frozen=True, slots=True, eq=False)
class PossibleLaws:
    """Least and largest values at every point, which is what most distances need."""

    points: FloatArray | None
    everybody: FloatArray  # r, (n_points,)
    share: float  # p
    low_cdf: FloatArray  # least P_g(at most the point), (n_points,) as the next three
    high_cdf: FloatArray
    low_mass: FloatArray  # least P_g(the point)
    high_mass: FloatArray
    cells: tuple[FloatArray, FloatArray, FloatArray] | None  # q, tau and r_z, (n_cells, n_points); None: many

    @classmethod
    def of(
        cls, cells: Iterable[tuple[float, float, FloatArray]], points: FloatArray | None
    ) -> "PossibleLaws":
        """Weight, share and distribution of each cell, which are read once."""
        sums, kept, n_kept, total, group = None, [], 0, 0.0, 0.0
        for weight, share, law in cells:
            cdf = np.minimum(np.cumsum(law), 1.0)
            parts = weight * np.array([law, *frechet(share, cdf), *frechet(share, law)])
            sums = parts if sums is None else sums + parts
            total, group, n_kept = total + weight, group + weight * share, n_kept + len(law)
            if n_kept <= MOST_VARIABLES:
                kept.append((weight, share, law))
        assert sums is not None
        arrays = None
        if n_kept <= MOST_VARIABLES:
            weights, shares, laws = (np.array(column) for column in zip(*kept, strict=True))
            arrays = weights / total, shares, laws
        low_cdf, high_cdf, low_mass, high_mass = sums[1:] / group
        return cls(points, sums[0] / total, group / total, low_cdf, high_cdf, low_mass, high_mass, arrays)

    def bounds(self, metric: str) -> tuple[float, float, bool]:
        """Least and largest distance to everybody, and whether both can be reached."""
        least, most, sharp = getattr(self, f"_{metric}")()
        if self.cells is not None and metric in ("ks", "sup", "tv", "w1"):
            least = max(least, self._least_by_program(metric))
        elif metric != "mean":
            sharp = False
        if least <= ROUNDING * max(most, 1.0):
            least = 0.0
        return least, max(most, least), sharp

    def _ks(self) -> tuple[float, float, bool]:
        together = np.minimum(np.cumsum(self.everybody), 1.0)
        return *_largest(self.low_cdf - together, self.high_cdf - together), True

    def _sup(self) -> tuple[float, float, bool]:
        return *_largest(self.low_mass - self.everybody, self.high_mass - self.everybody), True

    def _tv(self) -> tuple[float, float, bool]:
        low, high = self.low_mass - self.everybody, self.high_mass - self.everybody
        least = max(_positive(low).sum(), _positive(-high).sum(), self._ks()[0])
        if self.cells is not None and len(self.everybody) <= MOST_EVENTS:
            return float(least), self._largest_event(), True
        most = min(_positive(high).sum(), _positive(-low).sum(), 1.0 - self.share)
        return float(least), float(most), False

    def _w1(self) -> tuple[float, float, bool]:
        assert self.points is not None
        together, widths = np.cumsum(self.everybody)[:-1], np.diff(self.points)
        low, high = self.low_cdf[:-1] - together, self.high_cdf[:-1] - together
        least = float(np.maximum(_positive(low), _positive(-high)) @ widths)
        if self.cells is not None and len(self.everybody) <= MOST_SIGNS:
            return least, self._largest_by_signs(widths), True
        return least, float(np.maximum(_positive(high), _positive(-low)) @ widths), False

    def _mean(self) -> tuple[float, float, bool]:
        assert self.points is not None
        # the predictions of all cells can be the least possible at once, and the largest possible
        masses = [np.diff(cdf, prepend=0.0) - self.everybody for cdf in (self.high_cdf, self.low_cdf)]
        low, high = (float(mass @ (self.points - self.points.mean())) for mass in masses)
        return max(low, -high, 0.0), max(high, -low), True

    def _w2(self) -> tuple[float, float, bool]:
        assert self.points is not None
        cdfs = [np.cumsum(self.everybody), self.high_cdf, self.low_cdf]
        levels = np.unique(np.clip(np.concatenate(cdfs), 0.0, 1.0))
        widths = np.diff(levels, prepend=0.0)
        middles, last = levels - 0.5 * widths, len(self.points) - 1
        own, low, high = (self.points[np.minimum(np.searchsorted(cdf, middles), last)] for cdf in cdfs)
        least = np.maximum(_positive(low - own), _positive(own - high))
        most = np.maximum(np.abs(low - own), np.abs(high - own))
        return float(np.sqrt(widths @ least**2)), float(np.sqrt(widths @ most**2)), False

    def _largest_event(self) -> float:
        """Total variation: the largest difference over all sets of points."""
        assert self.cells is not None
        weights, shares, laws = self.cells
        events = np.array(list(product([0.0, 1.0], repeat=laws.shape[1]))).T
        _, high = frechet(shares[:, None], laws @ events)
        return float((weights @ high / self.share - self.everybody @ events).max())

    def _largest_by_signs(self, widths: FloatArray) -> float:
        """W1: the largest mean difference of any function whose slopes are one or minus one."""
        assert self.cells is not None
        weights, shares, laws = self.cells
        largest = 0.0
        for signs in product([-1.0, 1.0], repeat=len(widths)):
            values = np.append(np.cumsum((np.array(signs) * widths)[::-1])[::-1], 0.0)
            order = np.argsort(-values)  # each cell gives the group its people of the largest values
            taken = np.diff(np.minimum(np.cumsum(laws[:, order], axis=1), shares[:, None]), prepend=0.0)
            mean = float(weights @ taken @ values[order]) / self.share
            largest = max(largest, mean - float(self.everybody @ values))
        return largest

    def _least_by_program(self, metric: str) -> float:
        """The least distance, by linear programming over the parts a_z, and heights above the gaps."""
        assert self.cells is not None
        weights, shares, laws = self.cells
        n_cells, n_points = laws.shape
        operator, costs = np.eye(n_points), np.full(n_points, 0.5)
        if metric in ("ks", "w1"):  # the last value of a distribution function is one in any case
            operator = np.tril(np.ones((n_points, n_points)))[:-1]
            costs = np.ones(n_points - 1) if self.points is None else np.diff(self.points)
        if not len(operator):
            return 0.0
        heights = np.eye(len(operator))
        if metric in ("ks", "sup"):  # one for all gaps
            costs, heights = np.ones(1), np.ones((len(operator), 1))
        parts, wanted = np.kron(weights[None] / self.share, operator), operator @ self.everybody
        totals = sparse.kron(sparse.eye_array(n_cells), np.ones((1, n_points)))
        found = linprog(
            np.concatenate([np.zeros(laws.size), costs]),
            A_ub=sparse.csr_array(np.block([[parts, -heights], [-parts, -heights]])),
            b_ub=np.concatenate([wanted, -wanted]),
            A_eq=sparse.hstack([totals, sparse.csr_array((n_cells, len(costs)))]),
            b_eq=shares,
            bounds=[*((0.0, most) for most in laws.ravel()), *((0.0, None) for _ in costs)],
        )
        # as far as the program is exact, so that what is possible is never ruled out
        return max(float(found.fun) * (1.0 - TOLERANCE) - TOLERANCE, 0.0) if found.status == 0 else 0.0


def frechet(share: FloatArray | float, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least and largest probability of two events together whose probabilities are known.

    >>> low, high = frechet(0.6, np.array([0.3, 0.7]))
    >>> low.round(2), high.round(2)
    (array([0. , 0.3]), array([0.3, 0.6]))
    """
    return np.maximum(share + chance - 1.0, 0.0), np.minimum(share, chance)


def _positive(values: FloatArray) -> FloatArray:
    return np.maximum(values, 0.0)


def _largest(low: FloatArray, high: FloatArray) -> tuple[float, float]:
    """Least and largest value of the largest size of numbers that are between `low` and `high`.

    The least is too low where no distribution has all of them so near to zero at once.
    """
    least = max(float(low.max()), float(-high.min()), 0.0)
    return least, max(float(high.max()), float(-low.min()))
