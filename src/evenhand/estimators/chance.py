"""Gaps between groups that chance alone makes: of who is among the rows, and of what fits took from them.

Gaps are differences of distributions, (..., n_groups, n_atoms). The operator of a notion makes them rows of
its constraint, (..., n_groups, n_constraints), of which its norm is the distance.
"""

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.imbalance import stratum_sums
from evenhand.dual.step import ParityStep
from evenhand.metrics.masses import GroupMasses
from evenhand.metrics.membership import Membership

N_DRAWS = 100  # of the noise: its size is then known to 3 %


def chance_shown(step: ParityStep, pmf: FloatArray, members: Membership) -> FloatArray:
    """Distance that chance alone shows on average on these rows, in the units of epsilon, (n_groups,)."""
    with one_blas_thread():
        noise = draw_noise(pmf, members)
    return root_mean_square(distances(step, noise))


def constraint_rows(step: ParityStep, gaps: FloatArray) -> FloatArray:
    """The operator of the notion applied to gaps (..., n_groups, n_atoms)."""
    columns = np.ascontiguousarray(gaps.reshape(-1, gaps.shape[-1]).T)
    return step.make_parity().operator.apply(columns).T.reshape(*gaps.shape[:-1], -1)


def norms(step: ParityStep, rows: FloatArray) -> FloatArray:
    """The norm of the notion, in the units of epsilon, of `constraint_rows`: (..., n_groups)."""
    columns = np.ascontiguousarray(rows.reshape(-1, rows.shape[-1]).T)
    return step.unit * step.make_parity().norm.value(columns).reshape(rows.shape[:-1])


def distances(step: ParityStep, gaps: FloatArray) -> FloatArray:
    """Norms of gaps (..., n_groups, n_atoms) as the notion has them, in the units of epsilon."""
    return norms(step, constraint_rows(step, gaps))


def find_gaps(pmf: FloatArray, members: Membership) -> FloatArray:
    """Distribution of each group minus that of all it is compared with, (n_groups, n_atoms)."""
    return GroupMasses(members.labels, members.sums(pmf)[:-1], None, members.strata).gaps()


def draw_noise(pmf: FloatArray, members: Membership) -> FloatArray:
    """Draws of the gaps that chance alone shows on as many rows, (n_draws, n_groups, n_atoms).

    Every row gets a random factor, the same in all of its groups.
    """
    factors = np.random.default_rng(0).standard_normal((N_DRAWS, len(pmf)))
    masses = members.sums(pmf)[:-1]
    totals = masses.sum(axis=1)
    drawn = np.empty((N_DRAWS, len(totals), pmf.shape[1]))
    for group, total in enumerate(totals):
        counts = members.column(group)
        rows = np.flatnonzero(counts)
        weighted = factors[:, rows] * counts[rows]
        drawn[:, group] = weighted @ pmf[rows] - weighted.sum(axis=1)[:, None] * (masses[group] / total)
    gaps: FloatArray = drawn / totals[:, None] - _together(drawn, totals, members.strata)
    return gaps


def _together(masses: FloatArray, totals: FloatArray, strata: IntArray | None) -> FloatArray:
    """Sums over each group's stratum, as shares of its total, (..., n_groups or 1, n_atoms)."""
    if strata is None:
        everybody: FloatArray = masses.sum(axis=-2, keepdims=True) / totals.sum()
        return everybody
    sums = np.moveaxis(stratum_sums(np.moveaxis(masses, -2, -1), strata), -1, -2)
    together: FloatArray = sums / stratum_sums(totals, strata)[:, None]
    return together


def draw_jackknife(of_fits: FloatArray) -> FloatArray:
    """Draws of how far a fit may be from the next one, from the fits without each fold, as gaps."""
    n_fits = len(of_fits)
    apart = of_fits - of_fits.mean(axis=0)
    factors = np.random.default_rng(1).standard_normal((N_DRAWS, n_fits))
    drawn: FloatArray = np.tensordot(np.sqrt((n_fits - 1) / n_fits) * factors, apart, axes=1)
    return drawn


def root_mean_square(draws: FloatArray) -> FloatArray:
    """Over the draws, (n_groups,)."""
    found: FloatArray = np.sqrt((draws**2).mean(axis=0))
    return found
