"""The Hessian of the dual, taken on stored rows: the metric of a Newton step, not a number to report.

Over Phi raveled constraint by constraint it is, for each pair of constraint rows a, b and of groups s, r,

    beta * E[t_s t_r Cov_pi(A_a, A_b)],

where A_a is the random variable that row a of the operator makes of the atom drawn. Sums up to an atom, and
single atoms, vary inside a row's window alone, so their Hessian is a narrow band.
"""

from collections.abc import Iterator

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
Windows = tuple[IntArray, IntArray, FloatArray]  # first atoms, sizes, probabilities


def hessian(problem: DualProblem, multipliers: FloatArray) -> Band:
    """Hessian of the smooth part over Phi raveled, (n_constraints * n_groups,) squared.

    Probabilities under 1e-8 are left out.
    """
    rows = stored_rows(problem.rows, "A Hessian")
    loadings, offset = policy_loadings(problem, multipliers)
    operator = problem.parity.operator
    if isinstance(operator, Cumulative):
        blocks = _within_windows(rows, loadings, offset, cumulative=True)
        blocks *= _products_ahead(operator.scales, blocks.shape[1])[:, :, None]
    elif isinstance(operator, Identity):
        blocks = _within_windows(rows, loadings, offset, cumulative=False)
    else:
        blocks = _of_all_pairs(rows, loadings, offset, matrix(operator))
    return Band.of_blocks(problem.temperature * _between_groups(blocks, problem.mixing))


def hessian_work(problem: DualProblem) -> int:
    """What a row costs in a Hessian at a sharp beta, in steps of the innermost loop."""
    n_pairs = problem.n_kept * (problem.n_kept + 1) // 2
    return problem.n_atoms + 16 * n_pairs  # windows of some six atoms: measured


def _within_windows(
    rows: MemoryRows, loadings: FloatArray, offset: FloatArray, *, cumulative: bool
) -> FloatArray:
    """`E[u_s u_t Cov(a, a + d)]` of atoms or of sums up to them, (n_constraints, n_offsets, n_pairs)."""
    n_atoms = len(offset)
    found: list[tuple[int, Windows]] = list(
        map_chunks(
            lambda start, stop: (start, windows(rows.design, loadings, offset, start, stop)),
            rows.n_rows,
            2 * n_atoms,
            _CHUNK,
        )
    )
    widest = max((int(sizes.max(initial=1)) for _, (_, sizes, _) in found), default=1)
    n_offsets = max(widest - cumulative, 1)
    n_pairs = rows.n_kept * (rows.n_kept + 1) // 2
    shape = (n_atoms - cumulative, n_offsets, n_pairs)
    parts = dict(found)

    def run(start: int, stop: int) -> FloatArray:
        blocks = np.zeros(shape)
        add_blocks_into(blocks, rows.design, rows.weights, *parts[start], start, rows.n_kept, cumulative)
        return blocks

    return _sum_of(map_chunks(run, rows.n_rows, n_offsets * n_pairs, _CHUNK), shape)


def _of_all_pairs(
    rows: MemoryRows, loadings: FloatArray, offset: FloatArray, operator: FloatArray
) -> FloatArray:
    """The same for any operator, each of whose rows may vary with each: offsets reach all of them."""
    n_constraints, n_atoms = operator.shape
    n_pairs = rows.n_kept * (rows.n_kept + 1) // 2
    above = np.triu_indices(n_constraints)
    products = operator[above[0]] * operator[above[1]]  # of two rows at each atom
    shape = (len(above[0]), n_pairs)

    def run(start: int, stop: int) -> FloatArray:
        policy = np.empty((stop - start, n_atoms))
        design = np.ascontiguousarray(rows.design[:, start:stop])
        pmf_into(policy, design, loadings, offset, 0, stop - start)
        means = policy @ operator.T
        covariances = policy @ products.T - means[:, above[0]] * means[:, above[1]]
        kept, weighted = design[: rows.n_kept], design[: rows.n_kept] * rows.weights[start:stop]
        # one imbalance with itself and those behind it: all pairs at once would take pairs x rows numbers
        return np.concatenate([(kept[s:] * weighted[s]) @ covariances for s in range(rows.n_kept)]).T

    total = _sum_of(map_chunks(run, rows.n_rows, n_atoms * n_constraints), shape)
    blocks = np.zeros((n_constraints, n_constraints, n_pairs))
    blocks[above[0], above[1] - above[0]] = total
    return blocks


def _sum_of(parts: Iterator[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    total = np.zeros(shape)
    for part in parts:
        total += part
    return total


def _products_ahead(scales: FloatArray, n_offsets: int) -> FloatArray:
    """`scales[a] * scales[a + d]`, zero beyond the last, (n_scales, n_offsets)."""
    padded = np.concatenate([scales, np.zeros(n_offsets)])
    ahead = np.lib.stride_tricks.sliding_window_view(padded, n_offsets)[: len(scales)]
    products: FloatArray = scales[:, None] * ahead
    return products


def _between_groups(blocks: FloatArray, mixing: FloatArray) -> FloatArray:
    """Numbers for pairs of kept imbalances -> symmetric blocks over groups, (..., n_groups, n_groups)."""
    n_kept = len(mixing)
    firsts, seconds = np.triu_indices(n_kept)
    square = np.empty((*blocks.shape[:-1], n_kept, n_kept))
    square[..., firsts, seconds] = blocks
    square[..., seconds, firsts] = blocks
    # As products of two large matrices: one for each of the many small blocks would take longer.
    half = (square.reshape(-1, n_kept) @ mixing).reshape(*square.shape[:-1], -1)
    whole = np.ascontiguousarray(half.swapaxes(-1, -2)).reshape(-1, n_kept) @ mixing
    mixed: FloatArray = whole.reshape(*blocks.shape[:-1], mixing.shape[1], mixing.shape[1])
    return mixed
