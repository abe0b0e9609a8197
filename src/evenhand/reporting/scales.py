"""The horizontal axis of the distributions: bins of a density, or a bar for each of a few values."""

from typing import Any

import numpy as np

from evenhand._typing import FloatArray, IntArray
from evenhand.reporting.facts import Scale
from evenhand.reporting.words import number

MOST_BARS = 12  # values with a bar each; more make a density
N_BINS = 40
TRIMMED = 0.001  # share of the predictions on each side that counts into the outermost bin
MILLION = 1_000_000


def make_scale(atoms: FloatArray, everybody: list[FloatArray], classes: Any = None) -> Scale:
    """The axis for stages in which everybody has these masses at the atoms; classes always have bars."""
    if classes is not None or len(atoms) <= MOST_BARS:
        names = [number(atom, 4) for atom in atoms.tolist()] if classes is None else map(str, classes)
        return Scale(True, tuple(names), atoms, cell_borders(atoms))
    shares = sum(masses / masses.sum() for masses in everybody)
    total = np.cumsum(shares) / np.sum(shares)
    borders = cell_borders(atoms)
    low, high = np.searchsorted(total, [TRIMMED, 1.0 - TRIMMED])
    last = min(int(high), len(atoms) - 1)
    edges = np.linspace(borders[low], borders[last + 1], min(N_BINS, last + 1 - int(low)) + 1)
    return Scale(False, (), (edges[:-1] + edges[1:]) / 2, edges)


def spread(masses: FloatArray, atoms: FloatArray, scale: Scale) -> IntArray:
    """Share of each row of masses in each bin, in millionths, (n_curves, n_bins).

    A point's mass is spread over the cell around it: bins that do not match the atoms would comb.
    """
    shares = masses / masses.sum(axis=1, keepdims=True)
    if not scale.bars:
        borders = cell_borders(atoms)
        reached = np.stack(
            [np.interp(scale.edges, borders, np.append(0.0, np.cumsum(curve))) for curve in shares]
        )
        reached[:, 0], reached[:, -1] = 0.0, 1.0
        shares = np.diff(reached, axis=1)
    millionths: IntArray = np.rint(MILLION * shares).astype(np.int64)
    return millionths


def cell_borders(points: FloatArray) -> FloatArray:
    """Borders half way between points; the outer cells are as wide as their inner halves."""
    middles = points[:-1] + np.diff(points) / 2
    return np.concatenate([[2 * points[0] - middles[0]], middles, [2 * points[-1] - middles[-1]]])
