"""The horizontal axis of the distributions: bins of a density, or a bar for each of a few values."""

from typing import Any

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray
from evenhand.plots.spread import cell_borders
from evenhand.reporting.facts import Scale
from evenhand.reporting.words import number

MOST_BARS = 12  # values with a bar each; more make a density
N_BINS = 40
TRIMMED = 0.002  # share of a curve on each side that may count into the outermost bin
MILLION = 1_000_000


def make_scale(atoms: FloatArray, curves: FloatArray, classes: Any = None) -> Scale:
    """The axis for curves with these masses at the atoms, (n_curves, n_atoms); classes always have bars."""
    borders = cell_borders(atoms)
    if classes is not None or len(atoms) <= MOST_BARS:
        names = [number(atom, 4) for atom in atoms.tolist()] if classes is None else map(str, classes)
        return Scale(True, tuple(names), atoms, borders)
    reached = np.cumsum(curves, axis=1) / curves.sum(axis=1, keepdims=True)
    # Every curve keeps all but its tails: what is far off for everybody may be the middle of a group.
    low = int((reached > TRIMMED).argmax(axis=1).min())
    high = int((reached >= 1.0 - TRIMMED).argmax(axis=1).max())
    edges = np.linspace(borders[low], borders[high + 1], min(N_BINS, high + 1 - low) + 1)
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
