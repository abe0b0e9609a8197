"""The measuring room: predictions of rows with known groups become distances and risks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.metrics._inputs import Blocks, block_slices
from evenhand.metrics.distances import Metric, distances_between, find_distance, group_distances
from evenhand.metrics.masses import GroupMasses
from evenhand.metrics.membership import Membership

MOST_ENTRIES = 1 << 25  # of a table of groups by distinct values: 256 MB


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """What predictions do to the groups of some rows; those of parts of the rows can be added."""

    spread: GroupMasses  # of each group over the atoms
    everybody: FloatArray  # mass of all rows at each atom, (n_atoms,)
    weights: FloatArray  # what the rows of each group count, and last all rows, (n_groups + 1,) as below
    losses: FloatArray  # their losses, summed
    values: FloatArray  # their predictions, summed
    exact: Mapping[str, FloatArray] = field(default_factory=dict)  # distances of values that are not atoms
    constant_risk: float = np.nan  # of the best constant, where it was asked for

    @property
    def labels(self) -> Labels:
        """The groups."""
        return self.spread.labels

    @property
    def risk(self) -> float:
        """Average loss of all rows."""
        return float(self.losses[-1] / self.weights[-1])

    @property
    def group_risk(self) -> FloatArray:
        """Average loss of each group, (n_groups,)."""
        return self.losses[:-1] / self.weights[:-1]

    @property
    def means(self) -> FloatArray:
        """Average prediction of each group, (n_groups,)."""
        return self.values[:-1] / self.weights[:-1]

    def distances(self, metric: Metric) -> FloatArray:
        """Distance of each group to all rows, or to all of its stratum, (n_groups,).

        Parameters
        ----------
        metric : str or parity notion
            As in `unfairness`.
        """
        exact = self.exact.get(find_distance(metric).name)
        return group_distances(self.spread, metric) if exact is None else exact

    def largest(self, metric: Metric) -> float:
        """The distance, by `metric`, of the group that is farthest away."""
        return float(self.distances(metric).max())

    def __add__(self, other: "Measures") -> "Measures":
        assert not {**self.exact, **other.exact}, "distances of scores cannot be added"
        return Measures(
            replace(self.spread, masses=self.spread.masses + other.spread.masses),
            self.everybody + other.everybody,
            self.weights + other.weights,
            self.losses + other.losses,
            self.values + other.values,
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows:
    """Scored rows with what is known of them.

    In all methods `policy` is the `SoftmaxPolicy` of a fitted step, such as `policy_`.
    """

    scores: FloatArray  # eta, (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: FloatArray  # tau, (n_rows, n_groups of the model)
    members: Membership  # the groups themselves, or tau where they are not known
    target: FloatArray | None = None  # y, (n_rows,), or zeros and ones (n_rows, n_classes)

    @classmethod
    def of(cls, rows: Rows) -> "ScoredRows":
        """Checked `rows`, whose groups are known by their probabilities alone."""
        members = Membership.of_proba(rows.groups, rows.group_proba, rows.weights, rows.strata)
        return cls(rows.scores, rows.group_proba, members)

    def take(self, rows: IntArray) -> "ScoredRows":
        """The rows at the places `rows`, an array of integers; groups keep their places."""
        return ScoredRows(
            self.scores[rows],
            self.group_proba[rows],
            self.members.take(rows),
            None if self.target is None else self.target[rows],
        )

    def measure(self, policy: SoftmaxPolicy) -> Measures:
        """Measures of a policy; the risk is against the target, or against the scores where there is none."""
        atoms, target = policy.grid.atoms, self._target(policy)
        masses = np.zeros((len(self.members.labels) + 1, len(atoms)))
        losses = np.empty(len(self.scores))
        with one_blas_thread():  # its products are small, and more threads would fight those of the policy
            for rows, pmf in policy_blocks(policy, self.scores, self.group_proba):
                masses += self.members.sums(pmf, rows)
                losses[rows] = policy.cost.expected(pmf, target[rows], atoms)
        return self._measures(masses, atoms, losses, masses @ atoms)

    def measure_scores(self, policy: SoftmaxPolicy, metrics: Iterable[Metric]) -> Measures:
        """Measures of the scores as they are, before any parity step, in the distances `metrics`.

        Where scores are not means, of the atom that they make cheapest. Otherwise they are rounded to the
        nearest atom only for distances that would call values without ties as unfair as can be.
        """
        atoms, target, exact = policy.grid.atoms, self._target(policy), {}
        cost, places = policy.cost, policy.cost.cheapest(self.scores, atoms)
        if cost.scores_are_means:
            values = self._near_scores(policy)
            losses = cost.paired(target, values)
            wanted = [metric for metric in metrics if not find_distance(metric).needs_ties]
            exact = value_distances(values, self.members, wanted)
        else:
            table = cost.table(target, atoms)
            losses, values = np.take_along_axis(table, places[:, None], axis=1)[:, 0], atoms[places]
        everybody = np.bincount(places, self.members.weights, len(atoms))
        masses = np.vstack([self.members.sums_at(places, len(atoms)), everybody])
        found = self._measures(masses, atoms, losses, self.members.totals(values))
        return replace(found, exact=exact, constant_risk=self.constant_risk(policy))

    def constant_risk(self, policy: SoftmaxPolicy) -> float:
        """Risk of the best prediction that is the same for everybody, against the target or the scores."""
        target, cost, atoms = self._target(policy), policy.cost, policy.grid.atoms
        weights = np.ones(len(target)) if self.members.weights is None else self.members.weights
        if cost.scores_are_means:
            mean = np.full(len(target), np.average(target, weights=weights))
            return float(np.average(cost.paired(target, mean), weights=weights))
        totals = np.zeros(len(atoms))
        for rows in block_slices(len(target), len(atoms)):
            totals += weights[rows] @ cost.table(target[rows], atoms)
        return float(totals.min() / weights.sum())

    def _target(self, policy: SoftmaxPolicy) -> FloatArray:
        return self._near_scores(policy) if self.target is None else self.target

    def _near_scores(self, policy: SoftmaxPolicy) -> FloatArray:
        """Scores, no farther from the atoms than can be squared."""
        if self.scores.ndim > 1 or np.abs(self.scores).max(initial=0.0) <= FARTHEST:
            return self.scores
        return np.clip(self.scores, policy.grid.centre - FARTHEST, policy.grid.centre + FARTHEST)

    def _measures(
        self, masses: FloatArray, atoms: FloatArray, losses: FloatArray, values: FloatArray
    ) -> Measures:
        members = self.members
        spread = GroupMasses(members.labels, masses[:-1], atoms, members.strata)
        return Measures(spread, masses[-1], members.totals(), members.totals(losses), values)


def policy_blocks(policy: SoftmaxPolicy, scores: FloatArray, group_proba: FloatArray) -> Blocks:
    """A policy's pmf, made and dropped block by block, so that memory does not grow with the rows."""
    for rows in block_slices(len(scores), len(policy.grid.atoms)):
        yield rows, policy.pmf(scores[rows], group_proba[rows])


def value_distances(
    values: FloatArray, members: Membership, metrics: Iterable[Metric]
) -> dict[str, FloatArray]:
    """Distances of each group's values to all of its stratum, a few groups at a time, (n_groups,) each.

    A table of all groups by a million distinct values would not fit in memory.
    """
    wanted = {find_distance(metric).name: metric for metric in metrics}
    found = {name: np.empty(len(members.labels)) for name in wanted}
    if not found:
        return found
    at_once = max(1, MOST_ENTRIES // len(values) - 1)
    for groups, rows, part in members.parts():
        points, places = np.unique(values[rows], return_inverse=True)
        everybody = np.bincount(places, part.row_totals(), len(points)).astype(np.float64, copy=False)
        everybody /= everybody.sum()
        for start in range(0, len(groups), at_once):
            some = slice(start, start + at_once)
            masses = part.sums_at(places, len(points), some)
            masses /= masses.sum(axis=1, keepdims=True)
            for name, distances in found.items():
                distances[groups[some]] = distances_between(wanted[name], masses, everybody, points)
    return found
