"""The Hessian of the dual at some multipliers: with many groups, those that a Newton step may change.

For two constraint rows a < b the covariance in `beta * E[t_s t_r Cov_pi(A_a, A_b)]` is a product f(a) g(b),
so that a block of the Hessian is a product of two tables over the rows: `(f t_s)^T (g t_r)`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike

from evenhand._kernels.chunks import map_each
from evenhand._kernels.windows import factors, spread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.curvature import imbalances, windows_of
from evenhand.dual.dense import Dense
from evenhand.dual.objective import policy_loadings
from evenhand.dual.operators import Cumulative
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import stored_rows

# Blocks of places that are filled together, and the fewest in one: larger blocks hold more zeros, and of more
# blocks each is multiplied with all behind it.
_N_BLOCKS, _LEAST_BLOCK = 14, 64


def hessian_at(
    problem: DualProblem, multipliers: FloatArray, places: IntArray, dtype: DTypeLike = np.float64
) -> Dense:
    """Hessian of the smooth part at some `places` of Phi raveled, which rise, multiplied out in `dtype`.

    The operator is of sums up to an atom, or of single ones. Probabilities under 1e-8 are left out.
    """
    rows, operator = stored_rows(problem.rows, "A Hessian"), problem.parity.operator
    cumulative = isinstance(operator, Cumulative)
    firsts, sizes, values = windows_of(rows, *policy_loadings(problem, multipliers))
    stops = np.cumsum(sizes)
    left, right = factors(problem.temperature * rows.weights, stops, values, cumulative)
    if isinstance(operator, Cumulative):
        inside = np.arange(len(values)) - np.repeat(stops - sizes - firsts, sizes)  # atoms of the windows
        scales = np.append(operator.scales, 0.0)[inside]
        left, right = scales * left, scales * right
    constraints, groups = np.divmod(places, problem.n_groups)
    block = max(len(places) // _N_BLOCKS, _LEAST_BLOCK)
    tables = _Tables(
        imbalance=imbalances(problem, rows).astype(dtype),
        firsts=firsts,
        ends=np.where(sizes > 1, firsts + sizes - cumulative, firsts),
        begins=stops - sizes,
        factors=(left.astype(dtype), right.astype(dtype)),
        groups=groups,
        starts=np.searchsorted(constraints, np.arange(operator.n_rows + 1)),
        edges=np.unique(np.append(constraints[::block], operator.n_rows)).tolist(),
    )
    entries = np.zeros((len(places), len(places)))
    tables.fill(entries, with_variances=not cumulative)
    return Dense(entries)


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """What blocks are made of: the windows of the rows, and the places."""

    imbalance: FloatArray  # t, (n_rows, n_groups)
    firsts: IntArray  # first constraint that varies in each row, and the end of those that do
    ends: IntArray
    begins: IntArray  # where the factors of each row begin
    factors: tuple[FloatArray, FloatArray]  # f and g
    groups: IntArray  # of each place
    starts: IntArray  # first place of each constraint
    edges: list[int]  # constraints at which blocks begin, and the end

    def fill(self, entries: FloatArray, *, with_variances: bool) -> None:
        """Write the upper triangle; threads write blocks of their own."""
        by_end = np.argsort(-self.ends, kind="stable")

        def run(low: int, high: int) -> None:
            some = by_end[((self.firsts < high) & (self.ends > np.maximum(self.firsts, low)))[by_end]]
            left = self._spread(self.factors[0], some, low, high)
            mine = self._places(low, high)
            for start, stop, n_rows in self._partners(low, some):
                right = self._spread(self.factors[1], some[:n_rows], start, stop)
                entries[mine, self._places(start, stop)] = left[:n_rows].T @ right
            if with_variances:  # of single atoms: f(a) g(a) lacks P(Y = a)
                for atom in range(low, high):
                    inside = self._places(atom, atom + 1)
                    here = slice(inside.start - mine.start, inside.stop - mine.start)
                    of_groups = self.imbalance[np.ix_(some, self.groups[inside])]
                    entries[inside, inside] += left[:, here].T @ of_groups

        work = len(entries) * len(self.imbalance)
        for _ in map_each(run, list(pairwise(self.edges)), work):
            pass

    def _partners(self, low: int, some: IntArray) -> Iterator[tuple[int, int, int]]:
        """Blocks from `low` on, and how many of the rows reach them: the first ones reach farthest."""
        reached = -self.ends[some]
        for start, stop in pairwise(self.edges[self.edges.index(low) :]):
            n_rows = int(np.searchsorted(reached, -start))
            if not n_rows:
                return
            yield start, stop, n_rows

    def _places(self, low: int, high: int) -> slice:
        return slice(int(self.starts[low]), int(self.starts[high]))

    def _spread(self, factor: FloatArray, some: IntArray, low: int, high: int) -> FloatArray:
        """`factor(a) t_s` for some rows and the places of the constraints `low : high`."""
        return spread(
            factor,
            self.imbalance,
            self.firsts,
            self.ends,
            self.begins,
            some,
            self.groups,
            self.starts,
            low,
            high,
        )
