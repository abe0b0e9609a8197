"""What a policy does to a stream, as running means: all that is kept of rows that have gone by."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from evenhand._kernels.chunks import map_chunks
from evenhand._kernels.softmax import LOG_2, moments
from evenhand._typing import FloatArray
from evenhand.imbalance import ImbalanceModel
from evenhand.objective import policy_loadings
from evenhand.parity import Operator, matrix
from evenhand.problem import DualProblem


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Means over rows under one policy, in normalised units; none of them depends on the prior."""

    groups: FloatArray  # E[tau_s pi_l], (n_groups, n_atoms)
    squares: FloatArray  # E[tau_s^2 pi_l], (n_groups, n_atoms)
    costs: FloatArray  # E[feature pi_l] of the features of the cost, (n_features, n_atoms)
    prior: FloatArray  # E[tau_s], (n_groups,)
    smooth: float  # E[LSE_beta] without the constant
    peak: float  # E[max_l], the same at beta = infinity
    constant: float  # mean cost that no atom changes

    @property
    def policy(self) -> FloatArray:
        """E[pi_l], (n_atoms,): the groups' shares add up to it, since tau sums to one."""
        mean: FloatArray = self.groups.sum(axis=0)
        return mean

    def violation(self, operator: Operator) -> FloatArray:
        """`A E[pi t^T]` at the prior of the same rows, (n_constraints, n_groups)."""
        return operator.apply(self.policy[:, None] - self.groups.T / self.prior)

    def squared_imbalance(self) -> FloatArray:
        """E[t_s^2 pi_l] at the prior of the same rows, (n_groups, n_atoms)."""
        shares = self.groups / self.prior[:, None]
        return np.maximum(self.policy - 2.0 * shares + self.squares / self.prior[:, None] ** 2, 0.0)

    def blended(self, other: Self, share: float) -> Self:
        """The mean over both sets of rows, of which `other` is `share`."""
        return replace(
            self,
            groups=self.groups + share * (other.groups - self.groups),
            squares=self.squares + share * (other.squares - self.squares),
            costs=self.costs + share * (other.costs - self.costs),
            prior=self.prior + share * (other.prior - self.prior),
            smooth=self.smooth + share * (other.smooth - self.smooth),
            peak=self.peak + share * (other.peak - self.peak),
            constant=self.constant + share * (other.constant - self.constant),
        )

    def carried(self, before: Self, after: Self) -> Self:
        """The means under another policy: what its change did to some of the rows, added to all.

        `before` and `after` are the means of the same rows under the two policies. Their noise cancels
        but for the part that the policies disagree on, so a few thousand rows speak for millions.
        """
        return replace(
            self,
            groups=self.groups + (after.groups - before.groups),
            squares=self.squares + (after.squares - before.squares),
            costs=self.costs + (after.costs - before.costs),
            smooth=self.smooth + (after.smooth - before.smooth),
            peak=self.peak + (after.peak - before.peak),
            constant=self.constant + (after.constant - before.constant),
        )

    def on_wider_grid(self, left: int, right: int, shrinkage: float, offset: float) -> Self:
        """The same on a grid with more atoms at its ends, which no row has used.

        A score x of the old normalised scale is `shrinkage * x + offset` on the new one, on which squared
        costs are smaller by `shrinkage^2`.
        """
        wide = ((0, 0), (left, right))
        mean_score = float(self.costs.sum())
        constant = shrinkage**2 * self.constant + 2 * shrinkage * offset * mean_score + offset**2
        return replace(
            self,
            groups=np.pad(self.groups, wide),
            squares=np.pad(self.squares, wide),
            costs=np.pad(shrinkage * self.costs + offset * self.policy, wide),
            smooth=shrinkage**2 * (self.smooth - self.constant) + constant,
            peak=shrinkage**2 * (self.peak - self.constant) + constant,
            constant=constant,
        )

    def matched(self, violation: FloatArray, prior: FloatArray, operator: Operator) -> Self:
        """The nearest moments with this violation and prior: those of a fit whose rows are gone."""
        rows = np.concatenate([matrix(operator), np.ones((1, len(self.policy)))])
        wanted = prior * (operator.apply(self.policy)[:, None] - violation)
        missing = np.concatenate([wanted, prior[None]]) - rows @ self.groups.T
        return replace(self, groups=self.groups + (np.linalg.pinv(rows) @ missing).T, prior=prior)


def measure(problem: DualProblem, group_proba: FloatArray, multipliers: FloatArray) -> Moments:
    """The moments of the rows of `problem` under the policy of `multipliers`, in one pass."""
    loadings, offset = policy_loadings(problem, multipliers)
    n_groups, n_kept = group_proba.shape[1], problem.n_kept
    n_moments = 2 * n_groups + problem.design.shape[0] - n_kept
    # what the kernel takes moments of comes first; no logit looks at the probabilities themselves
    design = np.concatenate(
        [group_proba.T, group_proba.T**2, problem.design[n_kept:], problem.design[:n_kept]]
    )
    unseen = np.zeros((problem.n_atoms, 2 * n_groups))
    wide = np.concatenate([unseen, loadings[:, n_kept:], loadings[:, :n_kept]], axis=1)

    def run(start: int, stop: int) -> tuple[float, FloatArray, float]:
        part: tuple[float, FloatArray, float] = moments(
            design, problem.weights, wide, offset, n_moments, start, stop
        )
        return part

    sums, smooth, peak = np.zeros((n_moments, problem.n_atoms)), 0.0, 0.0
    for part_smooth, part, part_peak in map_chunks(run, problem.n_rows, problem.n_atoms):
        sums += part
        smooth += part_smooth
        peak += part_peak
    unit = LOG_2 / problem.temperature
    return Moments(
        groups=sums[:n_groups],
        squares=sums[n_groups : 2 * n_groups],
        costs=sums[2 * n_groups :],
        prior=problem.weights @ group_proba,
        smooth=smooth * unit,
        peak=peak * unit,
        constant=problem.mean_constant(),
    )


def moment_shift(here: Moments, stream: Moments, prior: FloatArray) -> FloatArray:
    """What the stream adds to the moments of the kept imbalances on the rows of `here`."""
    kept = ImbalanceModel.from_prior(prior).kept
    missing = stream.groups - here.groups
    shift: FloatArray = missing.sum(axis=0) - missing[kept] / prior[kept, None]
    return shift
