"""A cost inside a problem: the atoms' part and the rows' part, in units of the normalised scale.

The cost of atom l for row i is `c_il = constant_i - <features_i, loadings_l> - offset_l`: the squared cost
needs one feature, a cost matrix one for each class but the first, any other cost one for each atom. The
constant leaves the policy alone and enters the risk only.
"""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.grid import Grid

NEAREST = 1e-150  # half of the range of the atoms: its square is more than zero in a float
FARTHEST = 1e150  # between scores and atoms: its square, and sums of that, are finite in a float


@dataclass(frozen=True, slots=True, eq=False)
class CostModel:
    """The part of a cost that belongs to the atoms."""

    loadings: FloatArray  # (n_atoms, n_features)
    offset: FloatArray  # (n_atoms,)


@dataclass(frozen=True, slots=True, eq=False)
class RowCosts:
    """The part of a cost that belongs to the rows."""

    features: FloatArray  # (n_features, n_rows)
    constant: FloatArray  # (n_rows,)


def squared_cost(atoms: FloatArray) -> CostModel:
    """`(eta_i - y_l)^2 = eta_i^2 - (2 y_l eta_i - y_l^2)`."""
    return CostModel(loadings=2.0 * atoms[:, None], offset=-(atoms**2))


def squared_cost_rows(scores: FloatArray) -> RowCosts:
    """Features and constants of the squared cost for `scores`, shape (n_rows,)."""
    return RowCosts(features=scores[None, :], constant=scores**2)


def cost_matrix(model: CostModel, rows: RowCosts) -> FloatArray:
    """Costs of all atoms for all rows, shape (n_rows, n_atoms): for small problems and tests.

    >>> atoms = np.array([0.0, 1.0])
    >>> cost_matrix(squared_cost(atoms), squared_cost_rows(np.array([0.5, 2.0])))
    array([[0.25, 0.25],
           [4.  , 1.  ]])
    """
    gain = rows.features.T @ model.loadings.T + model.offset
    return rows.constant[:, None] - gain


def clip_within_reach(grid: Grid, scores: FloatArray) -> FloatArray:
    """Scores within the bounds, refused where squares of what is between them and the atoms are no numbers.

    >>> from evenhand.dual.grid import uniform_grid
    >>> clip_within_reach(uniform_grid(0.0, 10.0, 3), np.array([5.0, 1e300]))
    array([ 5., 10.])
    """
    clipped, half_width = grid.clip(scores), grid.half_width
    if half_width < NEAREST:
        raise ValueError(
            f"scores or atoms span {2 * half_width:g}, and squares of such numbers are zero in a float. "
            "Multiply scores, atoms and bounds by a constant."
        )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        away = float(np.abs(clipped - grid.centre).max(initial=0.0))
        farthest = max(half_width, away, float(np.divide(away, half_width)))
    if farthest > FARTHEST:
        raise ValueError(
            f"scores lie up to {away:g} from the centre of atoms that span {2 * half_width:g}, and squares "
            "of such numbers are too large for a float. Divide scores, atoms and bounds by a constant, or "
            "pass bounds=(low, high) where the scores are outliers."
        )
    return clipped
