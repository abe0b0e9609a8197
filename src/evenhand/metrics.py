"""What a randomised prediction costs, and how far the groups' distributions are apart.

A prediction is given as its distribution, an array `pmf` of shape (n, n_atoms) over sorted `atoms`, or as
plain values of shape (n,): draws, or the scores of a deterministic model.
"""

from collections.abc import Hashable, Iterator

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
    if atoms is None:
        raise ValueError("risk needs the atoms of a pmf: pass atoms=, the value of each of its columns.")
    grid = _as_atoms(atoms, prediction.shape[1])
    centre = grid.mean()  # moments about the centre lose no digits when the grid lies far from zero
    powers = np.column_stack([grid - centre, (grid - centre) ** 2])
    losses = np.empty(len(prediction))
    for rows, block in _checked_blocks(prediction):
        mean, square = (block @ powers).T
        offset = target[rows] - centre
        losses[rows] = square - 2.0 * offset * mean + offset**2
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
    prediction = _as_prediction(pmf_or_values)
    labels, codes = _as_groups(sensitive_features, len(prediction))
    if prediction.ndim == 1:
        masses = _value_masses(prediction, codes, len(labels))
    else:
        if atoms is not None:
            _as_atoms(atoms, prediction.shape[1])
        masses = _pmf_masses(prediction, codes, len(labels))
    below = masses.cumsum(axis=1)
    sizes = np.bincount(codes)
    distances = np.abs(below / sizes[:, None] - below.sum(axis=0) / len(codes)).max(axis=1)
    return dict(zip(labels.tolist(), distances.tolist(), strict=True))


def _value_masses(values: AnyArray, codes: IntArray, n_groups: int) -> FloatArray:
    """Number of rows of each group at each distinct value, (n_groups, n_distinct)."""
    distinct, positions = np.unique(values, return_inverse=True)
    n_cells = n_groups * len(distinct)
    counts = np.bincount(codes * len(distinct) + positions, minlength=n_cells)
    return counts.reshape(n_groups, -1).astype(np.float64)


def _pmf_masses(pmf: AnyArray, codes: IntArray, n_groups: int) -> FloatArray:
    """Total probability of each atom over the rows of each group, (n_groups, n_atoms)."""
    masses = np.zeros((n_groups, pmf.shape[1]))
    for rows, block in _checked_blocks(pmf):
        members = codes[rows] == np.arange(n_groups)[:, None]
        masses += members.astype(np.float64) @ block
    return masses


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
