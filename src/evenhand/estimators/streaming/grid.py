"""The grid of a stream: laid over the first rows, and extended where later ones go beyond it."""

import math
from dataclasses import dataclass, replace

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.grid import MARGIN, Grid, range_without_outliers
from evenhand.dual.parity import Parity

MOST = 2.0**52  # more than there is room for, and a number where a share of infinity is none
NEW_ATOM_WEIGHT = 1e-6  # in a least squares fit that the old atoms decide


@dataclass(frozen=True, slots=True)
class Extension:
    """Atoms to add at the two ends of a grid."""

    left: int
    right: int

    def __bool__(self) -> bool:
        return self.left + self.right > 0


def find_extension(grid: Grid, scores: FloatArray, most_atoms: int) -> Extension:
    """The atoms that cover `scores`, far outliers left out, and a margin; as many as there is room for.

    >>> from evenhand.dual.grid import uniform_grid
    >>> find_extension(uniform_grid(0.0, 10.0, 11), np.array([5.0, 12.1]), 101)
    Extension(left=0, right=3)
    """
    low, high = range_without_outliers(scores)
    step = float(grid.atoms[-1] - grid.atoms[0]) / (len(grid.atoms) - 1)
    beyond = [grid.bounds[0] - low, high - grid.bounds[1]]
    if not max(beyond) > 0 or not math.isfinite(step):
        return Extension(0, 0)
    margin = MARGIN * (high - low)
    wanted = [math.ceil(min((extra + margin) / step, MOST)) if extra > 0 else 0 for extra in beyond]
    room = max(most_atoms - len(grid.atoms), 0)
    if sum(wanted) > room:  # a range that keeps growing must not take the memory with it
        left = min(wanted[0], room * wanted[0] // sum(wanted))
        wanted = [left, room - left]
    return Extension(*wanted)


def extend(grid: Grid, extension: Extension) -> Grid:
    """The same atoms, bit for bit, and more at the ends with the same spacing."""
    atoms = grid.atoms
    step = (atoms[-1] - atoms[0]) / (len(atoms) - 1)
    left = atoms[0] - step * np.arange(extension.left, 0, -1)
    right = atoms[-1] + step * np.arange(1, extension.right + 1)
    low, high = grid.bounds
    bounds = float(left[0]) if extension.left else low, float(right[-1]) if extension.right else high
    return replace(grid, atoms=np.concatenate([left, atoms, right]), bounds=bounds)


def carry_multipliers(
    multipliers: FloatArray, before: Parity, after: Parity, extension: Extension, ratio: float
) -> FloatArray:
    """Multipliers on the extended grid with the policy of the old ones on the old atoms.

    Costs on the new normalised scale are `ratio` times those on the old one, and so is the tilt. Beyond the
    old ends it goes on flat where the notion lets it. A tilt that is the same for all atoms moves no policy,
    so it is matched up to such a constant.
    """
    ends = (extension.left, extension.right)
    tilt = np.pad(ratio * before.operator.adjoint(multipliers), (ends, (0, 0)), mode="edge")
    weights = np.pad(np.ones(len(tilt) - sum(ends)), ends, constant_values=NEW_ATOM_WEIGHT)
    adjoint = after.operator.adjoint(np.eye(after.operator.n_rows))
    left, right = (
        weights[:, None] * (values - weights**2 @ values / (weights**2).sum()) for values in (adjoint, tilt)
    )
    carried: FloatArray = np.linalg.lstsq(left, right, rcond=None)[0]
    return carried
