"""Inputs of the metrics become arrays here; what is wrong is said with the argument's name."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import as_floats

BLOCK_ENTRIES = 1 << 20  # a pmf is read in blocks of about this many entries, so that no copy is large
PMF_TOLERANCE = 1e-4  # on the sum of a row: room for float32


def block_slices(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows with about `BLOCK_ENTRIES` entries each."""
    size = max(1, BLOCK_ENTRIES // n_columns)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def checked_blocks(pmf: AnyArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of rows in float64, refused where they are not probabilities."""
    for rows in block_slices(*pmf.shape):
        block = np.asarray(pmf[rows], dtype=np.float64)
        bad = ~(np.abs(block.sum(axis=1) - 1.0) <= PMF_TOLERANCE) | (block.min(axis=1) < -PMF_TOLERANCE)
        if bad.any():
            place = int(bad.argmax())
            raise ValueError(
                "The rows of a pmf must be probabilities that sum to one: "
                f"row {rows.start + place} has the sum "
                f"{block[place].sum():.6g} and the minimum {block[place].min():.6g}."
            )
        yield rows, block


def as_prediction(pmf_or_values: ArrayLike) -> AnyArray:
    """A pmf as it is, or values as finite floats."""
    prediction = np.asarray(pmf_or_values)
    if prediction.ndim not in (1, 2) or prediction.size == 0:
        raise ValueError(
            "pmf_or_values must be a pmf of shape (n, n_atoms) or values of shape (n,), and not empty: "
            f"got shape {prediction.shape}."
        )
    return prediction if prediction.ndim == 2 else as_vector("pmf_or_values", prediction, len(prediction))


def as_vector(name: str, values: ArrayLike, n_rows: int) -> FloatArray:
    """Finite floats, one per row."""
    vector = as_floats(values, name)
    if vector.shape != (n_rows,):
        raise ValueError(f"{name} needs one value per row: got shape {vector.shape} for {n_rows} rows.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} has NaN or infinite values; drop or fill these rows first.")
    return vector


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Weights that are not negative, and not all zero."""
    if sample_weight is None:
        return None
    weights = as_vector("sample_weight", sample_weight, n_rows)
    if (weights < 0).any() or weights.sum() == 0:
        raise ValueError("sample_weight must not be negative, and not zero in every row.")
    return weights


def needed_atoms(asking: str, atoms: ArrayLike | None, n_atoms: int) -> FloatArray:
    """Atoms of a pmf, which `asking` cannot do without."""
    if atoms is None:
        raise ValueError(f"{asking} needs the atoms of a pmf: pass atoms=, the value of each of its columns.")
    return as_atoms(atoms, n_atoms)


def as_atoms(atoms: ArrayLike, n_atoms: int) -> FloatArray:
    """Finite, increasing atoms, one per column."""
    grid = as_floats(atoms, "atoms")
    if grid.shape != (n_atoms,):
        raise ValueError(f"atoms needs one value per column: got shape {grid.shape} for {n_atoms} columns.")
    if not (np.isfinite(grid).all() and (np.diff(grid) > 0).all()):
        raise ValueError("atoms must be finite and strictly increasing; sort them together with the columns.")
    return grid


def as_groups(
    sensitive_features: ArrayLike, n_rows: int, name: str = "sensitive_features"
) -> tuple[AnyArray, IntArray]:
    """Labels in sorted order, and the position of each row's label among them."""
    groups = np.asarray(sensitive_features)
    if groups.shape != (n_rows,):
        raise ValueError(f"{name} needs one label per row: got shape {groups.shape} for {n_rows} rows.")
    # A missing label is None, or differs from itself (NaN, NaT).
    if any(label is None or label != label for label in groups.tolist()):
        raise ValueError(f"{name} has missing labels; drop these rows or give them a label.")
    try:
        labels, codes = np.unique(groups, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"{name} mixes types of labels; convert them to one type.") from error
    return labels, codes
