"""Costs of atoms, as few numbers per row as they need.

The cost of atom l for row i is `c_il = constant_i - <features_i, loadings_l> - offset_l`: the squared
cost needs one feature, a classification cost one for each class. The constant leaves the policy
alone and enters the risk only.
"""

from dataclasses import dataclass

from evenhand._typing import FloatArray


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

    >>> import numpy as np
    >>> atoms = np.array([0.0, 1.0])
    >>> cost_matrix(squared_cost(atoms), squared_cost_rows(np.array([0.5, 2.0])))
    array([[0.25, 0.25],
           [4.  , 1.  ]])
    """
    gain = rows.features.T @ model.loadings.T + model.offset
    return rows.constant[:, None] - gain
