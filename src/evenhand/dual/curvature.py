"""The Hessian of the dual, taken on stored rows: the metric of a Newton step, not a number to report.

Over Phi raveled constraint by constraint it is, for each pair of constraint rows a, b and of groups s, r,

    beta * E[t_s t_r Cov_pi(A_a, A_b)],

where A_a is the random variable that row a of the operator makes of the atom drawn. Sums up to an atom, and
single atoms, vary inside a row's window alone, so their Hessian is a narrow band.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evenhand._kernels.chunks import map_chunks
from evenhand._kernels.softmax import pmf_into
from evenhand._kernels.windows import add_blocks_into, windows
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.band import Band
from evenhand.dual.objective import policy_loadings
from evenhand.dual.operators import Cumulative, Identity, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import MemoryRows, stored_rows

_CHUNK = 2048  # rows at least: each chunk has blocks of its own to fill and to add up


def hessian(problem: DualProblem, multipliers: FloatArray) -> Band:
    """Hessian of the smooth part over Phi raveled, (n_constraints * n_groups,) squared.

    Probabilities under 1e-8 are left out.
    """
    rows = stored_rows(problem.rows, "A Hessian")
    loadings, offset = policy_loadings(problem, multipliers)
    operator = problem.parity.operator
    groups = _Imbalances(rows, imbalances(problem, rows))
    if isinstance(operator, Cumulative):
        blocks = groups.within_windows(loadings, offset, cumulative=True)
        blocks *= problem.temperature * _products_ahead(operator.scales, blocks.shape[1])[:, :, None]
    elif isinstance(operator, Identity):
        blocks = problem.temperature * groups.within_windows(loadings, offset, cumulative=False)
    else:
        blocks = problem.temperature * groups.of_all_pairs(loadings, offset, matrix(operator))
    return Band.of_blocks(blocks, problem.n_groups)


def hessian_work(problem: DualProblem) -> int:
    """What a row costs in a Hessian at a sharp beta, in steps of the innermost loop."""
    n_pairs = problem.n_groups * (problem.n_groups + 1) // 2
    return problem.n_atoms + 16 * n_pairs  # windows of some six atoms: measured


def imbalances(problem: DualProblem, rows: MemoryRows) -> FloatArray:
    """Imbalances t of the groups that are solved for, (n_rows, n_groups)."""
    return np.ascontiguousarray((problem.mixing.T @ rows.design[: rows.n_kept]).T)


def windows_of(
    rows: MemoryRows, loadings: FloatArray, offset: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """First atoms and sizes of all rows' windows, and the probabilities in them."""
    found = map_chunks(
        lambda start, stop: windows(rows.design, loadings, offset, start, stop),
        rows.n_rows,
        2 * len(offset),
        _CHUNK,
    )
    firsts, sizes, values = map(np.concatenate, zip(*found, strict=True))
    return firsts, sizes, values


@dataclass(frozen=True, slots=True, eq=False)
class _Imbalances:
    """Rows, and the imbalances of the groups that are solved for in each."""

    rows: MemoryRows
    values: FloatArray  # t, (n_rows, n_groups)

    @property
    def n_pairs(self) -> int:
        n_groups = int(self.values.shape[1])
        return n_groups * (n_groups + 1) // 2

    def within_windows(self, loadings: FloatArray, offset: FloatArray, *, cumulative: bool) -> FloatArray:
        """`E[t_s t_r Cov(a, a + d)]` of atoms or of sums up to them, (n_constraints, n_offsets, n_pairs)."""
        rows, n_atoms = self.rows, len(offset)
        firsts, sizes, values = windows_of(rows, loadings, offset)
        stops = np.cumsum(sizes)
        order = np.argsort(firsts.astype(np.uint16) if n_atoms < 1 << 16 else firsts, kind="stable")
        shape = (n_atoms - cumulative, max(int(sizes.max()) - cumulative, 1), self.n_pairs)

        def run(start: int, stop: int) -> FloatArray:
            blocks, some = np.zeros(shape), order[start:stop]
            add_blocks_into(blocks, self.values, rows.weights, firsts, stops, values, some, cumulative)
            return blocks

        return _sum_of(map_chunks(run, rows.n_rows, shape[1] * self.n_pairs, _CHUNK))

    def of_all_pairs(self, loadings: FloatArray, offset: FloatArray, operator: FloatArray) -> FloatArray:
        """The same for any operator, each of whose rows may vary with each: offsets reach all of them."""
        n_constraints, n_atoms = operator.shape
        above = np.triu_indices(n_constraints)
        products = operator[above[0]] * operator[above[1]]  # of two rows at each atom

        def run(start: int, stop: int) -> FloatArray:
            policy = np.empty((stop - start, n_atoms))
            design = np.ascontiguousarray(self.rows.design[:, start:stop])
            pmf_into(policy, design, loadings, offset, 0, stop - start)
            means = policy @ operator.T
            covariances = policy @ products.T - means[:, above[0]] * means[:, above[1]]
            groups = self.values[start:stop].T
            weighted = groups * self.rows.weights[start:stop]
            # one group with itself and those behind it: all pairs at once would take pairs x rows numbers
            return np.concatenate([(groups[s:] * weighted[s]) @ covariances for s in range(len(groups))]).T

        blocks = np.zeros((n_constraints, n_constraints, self.n_pairs))
        blocks[above[0], above[1] - above[0]] = _sum_of(
            map_chunks(run, self.rows.n_rows, n_atoms * n_constraints)
        )
        return blocks


def _sum_of(parts: Iterator[FloatArray]) -> FloatArray:
    total = next(parts)
    for part in parts:
        total += part
    return total


def _products_ahead(scales: FloatArray, n_offsets: int) -> FloatArray:
    """`scales[a] * scales[a + d]`, zero beyond the last, (n_scales, n_offsets)."""
    padded = np.concatenate([scales, np.zeros(n_offsets)])
    ahead = np.lib.stride_tricks.sliding_window_view(padded, n_offsets)[: len(scales)]
    products: FloatArray = scales[:, None] * ahead
    return products
