"""Validate the arguments of the metrics: arrays in, or an error that names the argument."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import as_floats, to_numpy
from evenhand._utils.weights import within_floats

Blocks: TypeAlias = Iterator[tuple[slice, FloatArray]]  # rows, and the pmf of each, (n_some, n_atoms)

BLOCK_ENTRIES = 1 << 20  # a pmf is read in blocks of about this many entries, so that no copy is large
LARGEST = 1e75  # of a target, a prediction or an atom: a squared loss is a number, and so is its variance
PMF_TOLERANCE = 1e-4  # on the sum of a row: room for float32


def block_slices(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Slices of rows with about `BLOCK_ENTRIES` entries each."""
    size = max(1, BLOCK_ENTRIES // n_columns)
    return (slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size))


def checked_blocks(pmf: AnyArray) -> Blocks:
    """Blocks of a pmf in float64, refused where their rows are not probabilities."""
    return checked((rows, pmf[rows]) for rows in block_slices(*pmf.shape))


def checked(blocks: Iterable[tuple[slice, AnyArray]]) -> Blocks:
    """The same blocks of a pmf in float64, refused where their rows are not probabilities."""
    for rows, given in blocks:
        block = np.asarray(given, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # of what are no probabilities
            sums = block.sum(axis=1)
        bad = ~(np.abs(sums - 1.0) <= PMF_TOLERANCE) | (block.min(axis=1) < -PMF_TOLERANCE)
        if bad.any():
            place = int(bad.argmax())
            raise ValueError(
                "The rows of a pmf must be probabilities that sum to one: "
                f"row {rows.start + place} has the sum "
                f"{sums[place]:.6g} and the minimum {block[place].min():.6g}."
            )
        yield rows, block


def as_prediction(pmf_or_values: ArrayLike, name: str = "pmf_or_values") -> AnyArray:
    """A pmf as it is, or values as finite floats."""
    prediction = as_array(pmf_or_values, name)
    if prediction.ndim not in (1, 2) or prediction.size == 0:
        raise ValueError(
            f"{name} must be a pmf of shape (n, n_atoms) or values of shape (n,), and not empty: got shape "
            f"{prediction.shape}."
        )
    return prediction if prediction.ndim == 2 else within_reach(name, as_vector(name, prediction))


def within_reach(name: str, values: FloatArray) -> FloatArray:
    """The same values, refused where their squares are no numbers."""
    if np.abs(values).max(initial=0.0) > LARGEST:
        raise ValueError(
            f"{name} has values of {np.abs(values).max():g}, and squares of such numbers are too large for a "
            "float: use other units."
        )
    return values


def as_array(values: ArrayLike, name: str) -> AnyArray:
    """Numbers as they were given, in whatever precision."""
    array = to_numpy(values, name)[0]
    return array if array.dtype.kind in "biuf" else as_floats(array, name)


def count_rows(pmf_or_values: ArrayLike) -> int:
    """Number of rows of predictions that were checked already."""
    return len(to_numpy(pmf_or_values, "pmf_or_values")[0])


def as_vector(name: str, values: ArrayLike, n_rows: int | None = None) -> FloatArray:
    """Finite floats, one per row; of any number of rows, but none, where that is not told."""
    vector = as_floats(values, name)
    if vector.ndim != 1 or len(vector) == 0 or n_rows not in (None, len(vector)):
        wanted = "" if n_rows is None else f" for {n_rows} rows"
        raise ValueError(f"{name} needs one value per row: got shape {vector.shape}{wanted}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} has NaN or infinite values; drop or fill these rows first.")
    return vector


def as_weights(sample_weight: ArrayLike | None, n_rows: int) -> FloatArray | None:
    """Weights that are not negative, and not all zero."""
    if sample_weight is None:
        return None
    weights = as_vector("sample_weight", sample_weight, n_rows)
    if (weights < 0).any() or weights.max() == 0:
        raise ValueError("sample_weight must not be negative, and not zero in every row.")
    return within_floats(weights)


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
    if not (np.isfinite(grid).all() and (grid[:-1] < grid[1:]).all()):
        raise ValueError("atoms must be finite and strictly increasing; sort them together with the columns.")
    return within_reach("atoms", grid)
