"""What a randomised prediction costs, and how far the groups' distributions are apart.

A prediction is given as its distribution, an array `pmf` of shape (n, n_atoms) over sorted `atoms`, or as
plain values of shape (n,): draws, or the scores of a deterministic model.
"""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evenhand._typing import AnyArray, FloatArray, IntArray
from evenhand._validation import as_floats

BLOCK_ENTRIES = 1 << 20  # a pmf is read in blocks of about this many entries, so that no copy is large
PMF_TOLERANCE = 1e-4  # on the sum of a row: room for float32


def risk(
    y_true: ArrayLike,
    pmf_or_values: ArrayLike,
    atoms: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Expected squared error of a randomised prediction (paper, "Evaluation measures").

        1/n sum_i sum_l pi(l | x_i) (y_l - y_i)^2

    Parameters
    ----------
    y_true : array of shape (n,)
        Observed targets.
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one predicted value for each row.
    atoms : array of shape (n_atoms,), optional
        Value of each column; needed with a pmf, not read with values.
    sample_weight : array of shape (n,), optional
        Weight of each row.

    Examples
    --------
    >>> risk([0.0, 1.0], [[0.5, 0.5], [0.0, 1.0]], atoms=[0.0, 1.0])
    0.25
    >>> risk([0.0, 1.0], [1.0, 1.0])
    0.5
    """
    prediction = _as_prediction(pmf_or_values)
    target = _as_vector("y_true", y_true, len(prediction))
    weights = _as_weights(sample_weight, len(prediction))
    if prediction.ndim == 1:
        return float(np.average((prediction - target) ** 2, weights=weights))
    grid = _needed_atoms("risk", atoms, prediction.shape[1])
    losses = np.empty(len(prediction))
    for rows, block in _checked_blocks(prediction):
        losses[rows] = expected_losses(block, target[rows], grid)
    return float(np.average(losses, weights=weights))


def ks_unfairness(
    pmf_or_values: ArrayLike, sensitive_features: ArrayLike, atoms: ArrayLike | None = None
) -> dict[Hashable, float]:
    """Kolmogorov-Smirnov distance between each group and all rows (paper, "Evaluation measures").

        U_s = sup_t | F_s(t) - F(t) |

    where F_s is the distribution of the prediction over the rows of group s, and F the one over all rows.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, columns in the order of the atoms, or one value for each row.
    sensitive_features : array of shape (n,)
        Group of each row, labels of any one type.
    atoms : array of shape (n_atoms,), optional
        Value of each column: only checked to be increasing, since the distance depends on their order.

    Returns
    -------
    dict
        The distance of each group by its label, in sorted order; 0 is parity, and 1 the worst.

    Examples
    --------
    >>> ks_unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"])
    {'a': 0.5, 'b': 0.5}
    """
    groups = _group_masses(pmf_or_values, sensitive_features, atoms)
    return groups.by_label(ks_distances(groups))


def tv_unfairness(
    pmf_or_values: ArrayLike, sensitive_features: ArrayLike, atoms: ArrayLike | None = None
) -> dict[Hashable, float]:
    """Total variation distance between each group and all rows.

        U_s = 1/2 sum_l | P_s(y_l) - P(y_l) |

    where P_s(y_l) is the share of the prediction y_l over the rows of group s, and P(y_l) over all rows.
    It only knows equal from different: plain values without ties give 1 less the share of the group,
    whatever they are, so round such values first.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one value for each row.
    sensitive_features : array of shape (n,)
        Group of each row, labels of any one type.
    atoms : array of shape (n_atoms,), optional
        Value of each column: only checked, since the distance does not depend on them.

    Returns
    -------
    dict
        The distance of each group by its label, in sorted order; 0 is parity, and 1 the worst.

    Examples
    --------
    >>> tv_unfairness([1.0, 2.0, 2.0, 3.0], ["a", "a", "b", "b"])
    {'a': 0.25, 'b': 0.25}
    """
    groups = _group_masses(pmf_or_values, sensitive_features, atoms)
    return groups.by_label(tv_distances(groups))


def w1_unfairness(
    pmf_or_values: ArrayLike, sensitive_features: ArrayLike, atoms: ArrayLike | None = None
) -> dict[Hashable, float]:
    """Wasserstein-1 distance between each group and all rows, in the units of the prediction.

        U_s = integral | F_s(t) - F(t) | dt

    with F_s and F as in `ks_unfairness`: how far predictions have to move, on average, to make the group's
    distribution the one of all rows.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, or one value for each row.
    sensitive_features : array of shape (n,)
        Group of each row, labels of any one type.
    atoms : array of shape (n_atoms,), optional
        Value of each column; needed with a pmf, not read with values.

    Returns
    -------
    dict
        The distance of each group by its label, in sorted order; 0 is parity.

    Examples
    --------
    >>> w1_unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"])
    {'a': 1.0, 'b': 1.0}
    """
    groups = _group_masses(pmf_or_values, sensitive_features, atoms)
    if groups.points is None:
        _needed_atoms("w1_unfairness", atoms, groups.masses.shape[1])
    return groups.by_label(w1_distances(groups))


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """How much each row counts in each group: wholly in the group of its code, or by its shares in all."""

    labels: tuple[Hashable, ...]
    codes: IntArray | None = None  # (n_rows,), the place of each row's label
    shares: FloatArray | None = None  # (n_rows, n_groups), where the group itself is not known
    weights: FloatArray | None = None  # (n_rows,), on top of either

    def column(self, group: int, rows: slice = slice(None)) -> FloatArray:
        """What each of some rows counts in one group."""
        if self.shares is not None:
            counts = self.shares[rows, group]
        else:
            assert self.codes is not None
            counts = (self.codes[rows] == group).astype(np.float64)
        return counts if self.weights is None else counts * self.weights[rows]

    def of_rows(self, rows: slice) -> FloatArray:
        """What each of some rows counts in each group, (n_groups, n_some)."""
        return np.stack([self.column(group, rows) for group in range(len(self.labels))])


@dataclass(frozen=True, slots=True, eq=False)
class GroupMasses:
    """How the predictions of each group are spread: all that a distance between groups needs."""

    labels: tuple[Hashable, ...]
    masses: FloatArray  # of each group at each point, (n_groups, n_points); groups may differ in total
    points: FloatArray | None  # (n_points,), increasing; None for a pmf whose atoms were not told

    @classmethod
    def of_values(cls, values: FloatArray, members: Membership) -> "GroupMasses":
        """Masses of plain values at the distinct ones."""
        points, places = np.unique(values, return_inverse=True)
        masses = [
            np.bincount(places, weights=members.column(group), minlength=len(points))
            for group in range(len(members.labels))
        ]
        return cls(members.labels, np.stack(masses), points)

    def gaps(self) -> FloatArray:
        """Distribution of each group minus that of all rows, (n_groups, n_points)."""
        everybody = self.masses.sum(axis=0)
        gaps: FloatArray = self.masses / self.masses.sum(axis=1, keepdims=True) - everybody / everybody.sum()
        return gaps

    def by_label(self, distances: FloatArray) -> dict[Hashable, float]:
        """One number for each group, by its label."""
        return dict(zip(self.labels, distances.tolist(), strict=True))


def ks_distances(groups: GroupMasses) -> FloatArray:
    """Kolmogorov-Smirnov distance of each group to all rows, (n_groups,)."""
    largest: FloatArray = np.abs(groups.gaps().cumsum(axis=1)).max(axis=1)
    return largest


def tv_distances(groups: GroupMasses) -> FloatArray:
    """Total variation distance of each group to all rows, (n_groups,)."""
    total: FloatArray = np.abs(groups.gaps()).sum(axis=1)
    return 0.5 * total


def w1_distances(groups: GroupMasses) -> FloatArray:
    """Wasserstein-1 distance of each group to all rows, (n_groups,); the points must be known."""
    assert groups.points is not None
    moved: FloatArray = np.abs(groups.gaps().cumsum(axis=1)[:, :-1]) @ np.diff(groups.points)
    return moved


DISTANCES: dict[str, Callable[[GroupMasses], FloatArray]] = {
    "ks": ks_distances,
    "tv": tv_distances,
    "w1": w1_distances,
}


def expected_losses(pmf: FloatArray, target: FloatArray, atoms: FloatArray) -> FloatArray:
    """Expected squared error of each row, `sum_l pi(l | x_i) (y_l - y_i)^2`, shape (n_rows,)."""
    centre = atoms.mean()  # moments about the centre lose no digits when the grid lies far from zero
    powers = np.column_stack([atoms - centre, (atoms - centre) ** 2])
    mean, square = (pmf @ powers).T
    offset = target - centre
    losses: FloatArray = square - 2.0 * offset * mean + offset**2
    return losses


def membership_of(
    sensitive_features: ArrayLike, n_rows: int, weights: FloatArray | None = None
) -> Membership:
    """Rows in the groups that their labels name, labels in sorted order."""
    labels, codes = _as_groups(sensitive_features, n_rows)
    return Membership(tuple(labels.tolist()), codes=codes, weights=weights)


def _group_masses(
    pmf_or_values: ArrayLike, sensitive_features: ArrayLike, atoms: ArrayLike | None
) -> GroupMasses:
    """Masses of the groups that the labels name, from a pmf or from values."""
    prediction = _as_prediction(pmf_or_values)
    members = membership_of(sensitive_features, len(prediction))
    if prediction.ndim == 1:
        return GroupMasses.of_values(prediction, members)
    points = None if atoms is None else _as_atoms(atoms, prediction.shape[1])
    masses = np.zeros((len(members.labels), prediction.shape[1]))
    for rows, block in _checked_blocks(prediction):
        masses += members.of_rows(rows) @ block
    return GroupMasses(members.labels, masses, points)


def _checked_blocks(pmf: AnyArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of rows in float64, refused where they are not probabilities."""
    size = max(1, BLOCK_ENTRIES // pmf.shape[1])
    for start in range(0, len(pmf), size):
        rows = slice(start, min(start + size, len(pmf)))
        block = np.asarray(pmf[rows], dtype=np.float64)
        bad = ~(np.abs(block.sum(axis=1) - 1.0) <= PMF_TOLERANCE) | (block.min(axis=1) < -PMF_TOLERANCE)
        if bad.any():
            row = start + int(bad.argmax())
            raise ValueError(
                f"The rows of a pmf must be probabilities that sum to one: row {row} has the sum "
                f"{block[row - start].sum():.6g} and the minimum {block[row - start].min():.6g}."
            )
        yield rows, block


def _as_prediction(pmf_or_values: ArrayLike) -> AnyArray:
    prediction = np.asarray(pmf_or_values)
    if prediction.ndim not in (1, 2) or prediction.size == 0:
        raise ValueError(
            "pmf_or_values must be a pmf of shape (n, n_atoms) or values of shape (n,), and not empty: "
            f"got shape {prediction.shape}."
        )
    return prediction if prediction.ndim == 2 else _as_vector("pmf_or_values", prediction, len(prediction))


def _as_vector(name: str, values: ArrayLike, n_rows: int) -> FloatArray:
    vector = as_floats(values, name)
    if vector.shape != (n_rows,):
        raise ValueError(f"{name} needs one value per row: got shape {vector.shape} for {n_rows} rows.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} has NaN or infinite values; drop or fill these rows first.")
    return vector


def _as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    weights = _as_vector("sample_weight", sample_weight, n_rows)
    if (weights < 0).any() or weights.sum() == 0:
        raise ValueError("sample_weight must not be negative, and not zero in every row.")
    return weights


def _needed_atoms(asking: str, atoms: ArrayLike | None, n_atoms: int) -> FloatArray:
    if atoms is None:
        raise ValueError(f"{asking} needs the atoms of a pmf: pass atoms=, the value of each of its columns.")
    return _as_atoms(atoms, n_atoms)


def _as_atoms(atoms: ArrayLike, n_atoms: int) -> FloatArray:
    grid = as_floats(atoms, "atoms")
    if grid.shape != (n_atoms,):
        raise ValueError(f"atoms needs one value per column: got shape {grid.shape} for {n_atoms} columns.")
    if not (np.isfinite(grid).all() and (np.diff(grid) > 0).all()):
        raise ValueError("atoms must be finite and strictly increasing; sort them together with the columns.")
    return grid


def _as_groups(sensitive_features: ArrayLike, n_rows: int) -> tuple[AnyArray, IntArray]:
    """Labels in sorted order, and the position of each row's label among them."""
    groups = np.asarray(sensitive_features)
    if groups.shape != (n_rows,):
        raise ValueError(
            f"sensitive_features needs one label per row: got shape {groups.shape} for {n_rows} rows."
        )
    # A missing label is None, or differs from itself (NaN, NaT).
    if any(label is None or label != label for label in groups.tolist()):
        raise ValueError("sensitive_features has missing labels; drop these rows or give them a label.")
    try:
        labels, codes = np.unique(groups, return_inverse=True)
    except TypeError as error:
        raise ValueError("sensitive_features mixes types of labels; convert them to one type.") from error
    return labels, codes
