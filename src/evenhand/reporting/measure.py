"""What predictions do to each group of the report's rows: all that its charts and tables show."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.evaluation.heldout import HeldOutRows
from evenhand.metrics import GroupMasses, unfairness
from evenhand.metrics._inputs import block_slices
from evenhand.metrics.distances import Metric, find_distance, group_distances

MOST_ENTRIES = 1 << 25  # of a table of groups by distinct scores: 256 MB


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One set of predictions on the report's rows."""

    masses: FloatArray  # of each group at each atom, (n_groups, n_atoms)
    everybody: FloatArray  # of all rows, (n_atoms,)
    gap: FloatArray  # in the distance that was asked for, (n_groups,) as all below
    ks: FloatArray
    mean: FloatArray
    group_risk: FloatArray
    risk: float  # of all rows


@dataclass(frozen=True, slots=True, eq=False)
class ReportRows:
    """Scored rows whose groups are known.

    Groups are cells: where they are compared within strata, a row may be in several, or in none.
    """

    scores: FloatArray  # (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: FloatArray  # (n_rows, n_model_groups)
    codes: IntArray  # place of each row's group in `labels`; with strata, of its combination of groups
    labels: tuple[Hashable, ...]
    weights: FloatArray  # (n_rows,), ones where none were given
    target: FloatArray | None
    strata: IntArray | None = None  # stratum of each group, (n_groups,)
    combinations: FloatArray | None = None  # zeros and ones: which groups a code means, (n_codes, n_groups)

    @classmethod
    def of(cls, held_out: HeldOutRows) -> "ReportRows":
        """The same rows, with a weight for each."""
        members = held_out.members
        codes, combinations = members.codes, None
        if codes is None:
            assert members.shares is not None
            combinations, inverse = np.unique(members.shares, axis=0, return_inverse=True)
            codes = inverse.ravel()
        weights = np.ones(len(held_out.scores)) if members.weights is None else members.weights
        return cls(
            held_out.scores,
            held_out.group_proba,
            codes,
            members.labels,
            weights,
            held_out.target,
            None if combinations is None else held_out.strata,
            combinations,
        )

    @property
    def n_groups(self) -> int:
        """Groups that have rows."""
        return len(self.labels)

    @property
    def within(self) -> bool:
        """Whether groups are compared within strata."""
        return self.combinations is not None

    @property
    def counts(self) -> IntArray:
        """Rows of each group, (n_groups,)."""
        counts: IntArray = np.rint(self._by_group(None)).astype(np.int64)
        return counts

    @property
    def has_weights(self) -> bool:
        """Whether some rows count more than others."""
        return bool((self.weights != self.weights[0]).any())

    def some(self, rows: IntArray) -> "ReportRows":
        """A part of the rows; groups keep their places."""
        return replace(
            self,
            scores=self.scores[rows],
            group_proba=self.group_proba[rows],
            codes=self.codes[rows],
            weights=self.weights[rows],
            target=None if self.target is None else self.target[rows],
        )

    def totals(self, values: FloatArray) -> FloatArray:
        """Weighted sum of one value per row over each group, (n_groups,)."""
        return self._by_group(self.weights * values)

    def _by_group(self, values: FloatArray | None) -> FloatArray:
        n_codes = self.n_groups if self.combinations is None else len(self.combinations)
        sums = np.bincount(self.codes, weights=values, minlength=n_codes).astype(np.float64, copy=False)
        return sums if self.combinations is None else sums @ self.combinations

    def members(self, rows: slice) -> Any:
        """What some rows count in each group, and last in all, as a sparse matrix (n_groups + 1, n_some)."""
        codes, weights = self.codes[rows], self.weights[rows]
        if self.combinations is None:
            inside = sparse.csr_array(
                (weights, codes, np.arange(len(codes) + 1)), shape=(len(codes), self.n_groups)
            )
        else:
            inside = sparse.csr_array(self.combinations[codes] * weights[:, None])
        return sparse.hstack([inside, sparse.csr_array(weights[:, None])], format="csr").T

    def in_strata(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """For each stratum its groups, its rows, and the place of each row's group among these groups."""
        if self.combinations is None:
            yield np.arange(self.n_groups), np.arange(len(self.codes)), self.codes
            return
        assert self.strata is not None
        for stratum in np.unique(self.strata):
            groups = np.flatnonzero(self.strata == stratum)
            inside = self.combinations[:, groups]
            rows = np.flatnonzero(inside.max(axis=1)[self.codes] > 0)
            yield groups, rows, inside.argmax(axis=1)[self.codes[rows]]


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What a policy adds up to over some rows; sums over parts of the rows can be added."""

    masses: FloatArray  # of each group, and last of all rows, (n_groups + 1, n_atoms)
    losses: FloatArray  # (n_groups + 1,)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.masses + other.masses, self.losses + other.losses)


def sum_policy(rows: ReportRows, policy: SoftmaxPolicy) -> Sums:
    """Masses and losses of a policy; its pmf is made and dropped block by block."""
    atoms = policy.support.atoms
    target = rows.scores if rows.target is None else rows.target
    masses, losses = np.zeros((rows.n_groups + 1, len(atoms))), np.zeros(rows.n_groups + 1)
    with one_blas_thread():  # its products are small, and more threads would fight those of the policy
        for some in block_slices(len(rows.scores), len(atoms)):
            pmf = policy.pmf(rows.scores[some], rows.group_proba[some])
            members = rows.members(some)
            losses += members @ policy.cost.expected(pmf, target[some], atoms)
            masses += members @ pmf
    return Sums(masses, losses)


def measure_policy(rows: ReportRows, sums: Sums, atoms: FloatArray, metric: Metric) -> Measured:
    """Measures of a policy from its sums over the rows."""
    groups = GroupMasses(rows.labels, sums.masses[:-1], atoms)
    return _measured(
        rows,
        sums,
        gap=_distances(rows, groups, metric),
        ks=_distances(rows, groups, "ks"),
        mean=groups.distributions() @ atoms,
    )


def _distances(rows: ReportRows, groups: GroupMasses, metric: Metric) -> FloatArray:
    """Distance of each group to all rows, or to all of its stratum."""
    if rows.strata is None:
        return group_distances(groups, metric)
    out = np.empty(rows.n_groups)
    for stratum in np.unique(rows.strata):
        inside = np.flatnonzero(rows.strata == stratum)
        labels = tuple(groups.labels[group] for group in inside)
        out[inside] = group_distances(GroupMasses(labels, groups.masses[inside], groups.points), metric)
    return out


def measure_scores(rows: ReportRows, policy: SoftmaxPolicy, metric: Metric) -> Measured:
    """Measures of the scores as they are, before any parity step.

    Only for the charts, and for distances that see no more than whether two values are equal, they are
    rounded to the nearest atom. Where they are not means, the cheapest atom is what they would predict.
    """
    atoms, cost = policy.support.atoms, policy.cost
    target = rows.scores if rows.target is None else rows.target
    places = cost.cheapest(rows.scores, atoms)
    if not cost.scores_are_means:
        losses = np.take_along_axis(cost.table(target, atoms), places[:, None], axis=1)[:, 0]
        return measure_policy(rows, _sum_at(rows, places, len(atoms), losses), atoms, metric)
    sums = _sum_at(rows, places, len(atoms), cost.paired(target, rows.scores))
    ks, distance = _distances_of_values(rows, "ks"), find_distance(metric)
    if distance.needs_ties:
        gap = _distances(rows, GroupMasses(rows.labels, sums.masses[:-1], atoms), metric)
    else:
        gap = ks if distance.name == "ks" else _distances_of_values(rows, metric)
    mean = rows.totals(rows.scores) / rows.totals(np.ones(len(rows.scores)))
    return _measured(rows, sums, gap=gap, ks=ks, mean=mean)


def _sum_at(rows: ReportRows, places: IntArray, n_atoms: int, losses: FloatArray) -> Sums:
    """Sums of rows that each predict one atom."""
    members = rows.members(slice(None))
    chosen = sparse.csr_array(
        (np.ones(len(places)), places, np.arange(len(places) + 1)), shape=(len(places), n_atoms)
    )
    return Sums((members @ chosen).toarray(), members @ losses)


def _measured(rows: ReportRows, sums: Sums, **by_group: FloatArray) -> Measured:
    weight = rows.totals(np.ones(len(rows.scores)))
    return Measured(
        masses=sums.masses[:-1],
        everybody=sums.masses[-1],
        group_risk=sums.losses[:-1] / weight,
        risk=float(sums.losses[-1] / rows.weights.sum()),
        **by_group,
    )


def _distances_of_values(rows: ReportRows, metric: Metric) -> FloatArray:
    """Distance of each group's scores to all scores of its stratum, a few groups at a time.

    The others are one group meanwhile: a table of all groups by a million distinct scores would not fit in
    memory.
    """
    at_once = max(1, MOST_ENTRIES // len(rows.scores) - 1)
    found = np.zeros(rows.n_groups)
    for groups, inside, codes in rows.in_strata():
        scores, weights = rows.scores[inside], rows.weights[inside]
        for start in range(0, len(groups), at_once):
            stop = min(start + at_once, len(groups))
            some = np.where((codes >= start) & (codes < stop), codes, len(groups))
            distances = unfairness(scores, some, metric=metric, sample_weight=weights)
            found[groups[start:stop]] = [distances[group] for group in range(start, stop)]
    return found
