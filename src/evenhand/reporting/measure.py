"""What predictions do to each group of the report's rows: all that its charts and tables show."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from evenhand._kernels.blas import one_blas_thread
from evenhand._typing import FloatArray, IntArray
from evenhand.heldout import HeldOutRows
from evenhand.metrics import GroupMasses, expected_losses, unfairness
from evenhand.metrics._inputs import block_slices
from evenhand.metrics.distances import group_distances
from evenhand.policy import SoftmaxPolicy

MOST_ENTRIES = 1 << 25  # of a table of groups by distinct scores: 256 MB
# The distance that each parity notion bounds.
METRIC_OF = {"cdf": "ks", "pmf": "sup", "mean": "mean", "tv": "tv", "w1": "w1"}


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One set of predictions on the report's rows."""

    masses: FloatArray  # of each group at each atom, (n_groups, n_atoms)
    gap: FloatArray  # in the distance that was asked for, (n_groups,) as all below
    ks: FloatArray
    mean: FloatArray
    group_risk: FloatArray
    risk: float  # of all rows


@dataclass(frozen=True, slots=True, eq=False)
class ReportRows:
    """Scored rows whose groups are known."""

    scores: FloatArray  # (n_rows,)
    group_proba: FloatArray  # (n_rows, n_model_groups)
    codes: IntArray  # place of each row's group in `labels`
    labels: tuple[Hashable, ...]
    weights: FloatArray  # (n_rows,), ones where none were given
    target: FloatArray | None

    @classmethod
    def of(cls, held_out: HeldOutRows) -> "ReportRows":
        """The same rows, with a weight for each."""
        members = held_out.members
        assert members.codes is not None  # a report needs labels, and `read_held_out` was given them
        weights = np.ones(len(held_out.scores)) if members.weights is None else members.weights
        return cls(
            held_out.scores, held_out.group_proba, members.codes, members.labels, weights, held_out.target
        )

    @property
    def n_groups(self) -> int:
        """Groups that have rows."""
        return len(self.labels)

    @property
    def counts(self) -> IntArray:
        """Rows of each group, (n_groups,)."""
        return np.bincount(self.codes, minlength=self.n_groups)

    @property
    def has_weights(self) -> bool:
        """Whether some rows count more than others."""
        return bool((self.weights != self.weights[0]).any())

    def some(self, rows: IntArray) -> "ReportRows":
        """A part of the rows; groups keep their places."""
        target = None if self.target is None else self.target[rows]
        return ReportRows(
            self.scores[rows],
            self.group_proba[rows],
            self.codes[rows],
            self.labels,
            self.weights[rows],
            target,
        )

    def totals(self, values: FloatArray) -> FloatArray:
        """Weighted sum of one value per row over each group, (n_groups,)."""
        sums = np.bincount(self.codes, weights=self.weights * values, minlength=self.n_groups)
        return sums.astype(np.float64, copy=False)

    def members(self, rows: slice) -> Any:
        """What some rows count in each group, as a sparse matrix (n_groups, n_some)."""
        codes = self.codes[rows]
        entries = (self.weights[rows], codes, np.arange(len(codes) + 1))
        return sparse.csr_array(entries, shape=(len(codes), self.n_groups)).T


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What a policy adds up to over some rows; sums over parts of the rows can be added."""

    masses: FloatArray  # (n_groups, n_atoms)
    losses: FloatArray  # (n_groups,)

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.masses + other.masses, self.losses + other.losses)


def sum_policy(rows: ReportRows, policy: SoftmaxPolicy) -> Sums:
    """Masses and losses of a policy; its pmf is made and dropped block by block."""
    atoms = policy.support.atoms
    target = rows.scores if rows.target is None else rows.target
    masses, losses = np.zeros((rows.n_groups, len(atoms))), np.empty(len(rows.scores))
    with one_blas_thread():  # its products are small, and more threads would fight those of the policy
        for some in block_slices(len(losses), len(atoms)):
            pmf = policy.pmf(rows.scores[some], rows.group_proba[some])
            losses[some] = _losses(policy, pmf, target[some])
            masses += rows.members(some) @ pmf
    return Sums(masses, rows.totals(losses))


def measure_policy(rows: ReportRows, sums: Sums, atoms: FloatArray, metric: str) -> Measured:
    """Measures of a policy from its sums over the rows."""
    groups = GroupMasses(rows.labels, sums.masses, atoms)
    return _measured(
        rows,
        sums.masses,
        sums.losses,
        gap=group_distances(groups, metric),
        ks=group_distances(groups, "ks"),
        mean=groups.distributions() @ atoms,
    )


def own_cost(policy: Any) -> Any:
    """What predictions cost, where that is not the squared error."""
    cost = getattr(policy, "cost", None)
    return None if cost is None or type(cost).__name__ == "Squared" else cost


def _losses(policy: SoftmaxPolicy, pmf: FloatArray, target: FloatArray) -> FloatArray:
    """Expected cost of each row."""
    atoms, cost = policy.support.atoms, own_cost(policy)
    if cost is None:
        return expected_losses(pmf, target, atoms)
    losses: FloatArray = (pmf * cost.table(target, atoms)).sum(axis=1)
    return losses


def measure_scores(rows: ReportRows, policy: SoftmaxPolicy, metric: str) -> Measured:
    """Measures of the scores as they are, before any parity step.

    Only for the charts, and for distances that see no more than whether two values are equal, they are
    rounded to the nearest atom. Where the cost is not the squared one, the cheapest atom is what the scores
    would predict.
    """
    atoms, cost = policy.support.atoms, own_cost(policy)
    if cost is not None:
        return _measure_cheapest(rows, cost, atoms, metric)
    borders = atoms[:-1] + np.diff(atoms) / 2
    masses = _masses_at(rows, np.searchsorted(borders, rows.scores), len(atoms))
    ks = _distances_of_values(rows, "ks")
    if metric in ("sup", "tv"):
        gap = group_distances(GroupMasses(rows.labels, masses, atoms), metric)
    else:
        gap = ks if metric == "ks" else _distances_of_values(rows, metric)
    target = rows.scores if rows.target is None else rows.target
    return _measured(
        rows,
        masses,
        rows.totals((rows.scores - target) ** 2),
        gap=gap,
        ks=ks,
        mean=rows.totals(rows.scores) / rows.totals(np.ones(len(rows.scores))),
    )


def _measure_cheapest(rows: ReportRows, cost: Any, atoms: FloatArray, metric: str) -> Measured:
    places = cost.table(rows.scores, atoms).argmin(axis=1)
    target = rows.scores if rows.target is None else rows.target
    losses = np.take_along_axis(cost.table(target, atoms), places[:, None], axis=1)[:, 0]
    sums = Sums(_masses_at(rows, places, len(atoms)), rows.totals(losses))
    return measure_policy(rows, sums, atoms, metric)


def _masses_at(rows: ReportRows, places: IntArray, n_atoms: int) -> FloatArray:
    """Masses of rows that each predict one atom, (n_groups, n_atoms)."""
    masses = np.zeros((rows.n_groups, n_atoms))
    np.add.at(masses, (rows.codes, places), rows.weights)
    return masses


def _measured(rows: ReportRows, masses: FloatArray, losses: FloatArray, **by_group: FloatArray) -> Measured:
    weight = rows.totals(np.ones(len(rows.scores)))
    return Measured(
        masses=masses, group_risk=losses / weight, risk=float(losses.sum() / weight.sum()), **by_group
    )


def _distances_of_values(rows: ReportRows, metric: str) -> FloatArray:
    """Distance of each group's scores to all scores, a few groups at a time and the others as one.

    A table of all groups by a million distinct scores would not fit in memory.
    """
    at_once = max(1, MOST_ENTRIES // len(rows.scores) - 1)
    found = np.zeros(rows.n_groups)
    for start in range(0, rows.n_groups, at_once):
        stop = min(start + at_once, rows.n_groups)
        inside = (rows.codes >= start) & (rows.codes < stop)
        some = np.where(inside, rows.codes, rows.n_groups)
        distances = unfairness(rows.scores, some, metric=metric, sample_weight=rows.weights)
        found[start:stop] = [distances[group] for group in range(start, stop)]
    return found
