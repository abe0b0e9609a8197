"""Running means over the rows of a stream under one policy; the rows themselves are not stored."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from evenhand._kernels.softmax import LOG_2
from evenhand._utils.stored import Stored, is_moderate
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.imbalance import ImbalanceModel, strata_faults, stratum_sums
from evenhand.dual.objective import policy_loadings
from evenhand.dual.parity import Operator, matrix
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import stored_rows

_TINY = np.finfo(float).tiny  # replaces a share of zero in quotients that are not used


@dataclass(frozen=True, slots=True, eq=False)
class Moments(Stored):
    """Means over rows under one policy, in normalized units; none of them depends on the prior.

    A row has probability J_s of being in group s, and T_s of being in the stratum of group s. Without strata
    these are `tau_s` and one.
    """

    groups: FloatArray  # E[J_s pi_l], (n_groups, n_atoms)
    squares: FloatArray  # E[J_s^2 pi_l], (n_groups, n_atoms)
    crossed: FloatArray  # E[J_s T_s pi_l], (n_groups, n_atoms)
    policy: FloatArray  # E[pi_l], (n_atoms,)
    costs: FloatArray  # E[feature pi_l] for the features of the cost, (n_features, n_atoms)
    prior: FloatArray  # E[J_s], (n_groups,)
    smooth: float  # E[LSE_beta] of the logits, which leave out the constant
    peak: float  # E[max_l] of the logits, the limit of `smooth` at beta = infinity
    constant: float  # mean of the part of the cost that does not depend on the atom
    strata: IntArray | None  # stratum of each group, as in `ImbalanceModel`

    def faults(self) -> Iterator[str]:
        """Check that the moments have consistent shapes."""
        if not is_moderate(self.groups, None, None):
            yield "its moments of the groups are not a table of numbers"
        n_groups, n_atoms = self.groups.shape
        if not all(is_moderate(part, n_groups, n_atoms) for part in (self.squares, self.crossed)):
            yield "its moments of the groups do not have the same shape"
        elif not is_moderate(self.prior, n_groups):
            yield "its prior is not one share for each group"
        elif not is_moderate(self.policy, n_atoms):
            yield "its mean policy is not over the same atoms"
        elif not is_moderate(self.costs, None, n_atoms):
            yield "its moments of the costs are not over the same atoms"
        if not all(map(is_moderate, (self.smooth, self.peak, self.constant))):
            yield "its means are not numbers"
        yield from strata_faults(self.strata, self.prior)

    @property
    def stratum_prior(self) -> FloatArray:
        """E[T_s], (n_groups,)."""
        return stratum_sums(self.prior, self.strata)

    def stratum_policy(self) -> FloatArray:
        """Return `E[T_s pi_l] / E[T_s]`, the mean policy in each group's stratum, (n_groups, n_atoms)."""
        totals, shares = stratum_sums(self.groups.T, self.strata).T, self.stratum_prior[:, None]
        return np.where(shares > 0, totals / np.maximum(shares, _TINY), self.policy)

    def violation(self, operator: Operator) -> FloatArray:
        """Return `A E[pi t^T]` at the prior of the same rows, (n_constraints, n_groups).

        A is the `operator` of the parity notion. The violation of a group without rows is zero.
        """
        inside = self.stratum_policy()
        own = self.groups / np.maximum(self.prior, _TINY)[:, None]
        return operator.apply(np.where(self.prior[:, None] > 0, inside - own, 0.0).T)

    def squared_imbalance(self) -> FloatArray:
        """Return `E[t_s^2 pi_l]` at the prior of the same rows, (n_groups, n_atoms)."""
        prior, shares = self.prior[:, None], self.stratum_prior[:, None]
        wholes = stratum_sums(self.crossed.T, self.strata).T / shares**2  # T_s is the sum of J in the stratum
        products = 2.0 * self.crossed / (prior * shares)
        return np.maximum(wholes - products + self.squares / prior**2, 0.0)

    def blended(self, other: Self, share: float) -> Self:
        """Return the mean over both sets of rows; `other` has weight `share`."""
        return replace(
            self,
            groups=self.groups + share * (other.groups - self.groups),
            squares=self.squares + share * (other.squares - self.squares),
            crossed=self.crossed + share * (other.crossed - self.crossed),
            policy=self.policy + share * (other.policy - self.policy),
            costs=self.costs + share * (other.costs - self.costs),
            prior=self.prior + share * (other.prior - self.prior),
            smooth=self.smooth + share * (other.smooth - self.smooth),
            peak=self.peak + share * (other.peak - self.peak),
            constant=self.constant + share * (other.constant - self.constant),
        )

    def carried(self, before: Self, after: Self, rise: float) -> Self:
        """Return the means under another policy, from the change that it makes on a sample of the rows.

        `before` and `after` are the means over the same sample under the two policies. Most of their sampling
        noise cancels, because it only remains where the policies differ. So a few thousand rows are enough
        for millions. `rise` is how much more `<Phi, V>` changes over all rows than over the sample: `smooth`
        and `peak` have the violation as their slope, and the violation over all rows is known.
        """
        return replace(
            self,
            groups=self.groups + (after.groups - before.groups),
            squares=self.squares + (after.squares - before.squares),
            crossed=self.crossed + (after.crossed - before.crossed),
            policy=self.policy + (after.policy - before.policy),
            costs=self.costs + (after.costs - before.costs),
            smooth=self.smooth + (after.smooth - before.smooth) + rise,
            peak=self.peak + (after.peak - before.peak) + rise,
            constant=self.constant + (after.constant - before.constant),
        )

    def on_wider_grid(self, left: int, right: int, ratio: float, scale: tuple[float, float] | None) -> Self:
        """Return the moments on a grid with `left` and `right` more atoms at its ends, of probability zero.

        Costs on the new normalized scale are `ratio` times the old ones. With `scale = (a, b)` the feature of
        the cost is the score, which changes from x to `a x + b`, and the constant is its square. Without
        `scale` there is one feature per atom.
        """
        ends = (left, right)
        costs, constant = ratio * self.costs, ratio * self.constant
        if scale is None:
            costs = np.pad(costs, (ends, ends))
        else:
            slope, shift = scale
            constant += 2 * slope * shift * float(self.costs.sum()) + shift**2
            costs = np.pad(slope * self.costs + shift * self.policy, ((0, 0), ends))
        return replace(
            self,
            groups=np.pad(self.groups, ((0, 0), ends)),
            squares=np.pad(self.squares, ((0, 0), ends)),
            crossed=np.pad(self.crossed, ((0, 0), ends)),
            policy=np.pad(self.policy, ends),
            costs=costs,
            smooth=ratio * (self.smooth - self.constant) + constant,
            peak=ratio * (self.peak - self.constant) + constant,
            constant=constant,
        )

    def matched(self, violation: FloatArray, prior: FloatArray, operator: Operator) -> Self:
        """Return the nearest moments with this violation and prior, which come from a fit without its rows.

        Parameters
        ----------
        violation : array of shape (n_constraints, n_groups)
            Violation of the fit.
        prior : array of shape (n_groups,)
            Group prior of the fit.
        operator : Operator
            A, the operator of the parity notion.
        """
        rows = np.concatenate([matrix(operator), np.ones((1, len(self.policy)))])
        wanted = prior * (operator.apply(self.stratum_policy().T) - violation)
        missing = np.concatenate([wanted, prior[None]]) - rows @ self.groups.T
        return replace(self, groups=self.groups + (np.linalg.pinv(rows) @ missing).T, prior=prior)


def measure(
    problem: DualProblem, group_proba: FloatArray, multipliers: FloatArray, strata: IntArray | None = None
) -> Moments:
    """Compute the moments of the rows of `problem` under the policy of `multipliers`, in one pass."""
    loadings, offset = policy_loadings(problem, multipliers)
    rows = stored_rows(problem.rows, "A stream")
    shares, n_groups, n_kept = group_proba.T, group_proba.shape[1], problem.n_kept
    # the columns that are averaged come first; the logits do not depend on the shares themselves
    watched = [shares, shares**2]
    if strata is not None:  # without strata the shares sum to one, so these means follow from the others
        watched += [shares * stratum_sums(group_proba, strata).T, np.ones((1, problem.n_rows))]
    n_watched = sum(map(len, watched))
    design = np.concatenate([*watched, rows.design[n_kept:], rows.design[:n_kept]])
    unseen = np.zeros((problem.n_atoms, n_watched))
    wide = np.concatenate([unseen, loadings[:, n_kept:], loadings[:, :n_kept]], axis=1)
    wide_rows = replace(rows, design=design, n_kept=len(design) - n_kept)
    found = wide_rows.moments(wide, offset)
    sums = found.columns
    groups = sums[:n_groups]
    unit = LOG_2 / problem.temperature
    return Moments(
        groups=groups,
        squares=sums[n_groups : 2 * n_groups],
        crossed=groups if strata is None else sums[2 * n_groups : 3 * n_groups],
        policy=groups.sum(axis=0) if strata is None else sums[3 * n_groups],
        costs=sums[n_watched:],
        prior=rows.weights @ group_proba,
        smooth=found.smooth * unit,
        peak=found.peak * unit,
        constant=rows.mean_constant(),
        strata=strata,
    )


def moment_shift(here: Moments, stream: Moments, prior: FloatArray) -> FloatArray:
    """Return the correction of the imbalance moments from the rows of `here` to all rows of the stream."""
    kept, strata = ImbalanceModel.from_prior(prior, stream.strata).kept, stream.strata
    missing = (stream.groups - here.groups).T
    shift = stratum_sums(missing, strata) / stratum_sums(prior, strata) - missing / prior
    return np.ascontiguousarray(shift[:, kept].T)
