"""Costs of predictions: the loss that the parity step keeps as small as the parity constraint allows.

`ParityRegressor` and `ParityPostprocessor` take a cost by its name, such as `cost="absolute"`, or as an
object, such as `cost=Pinball(0.9)`. `COSTS` lists the names. To define a cost of your own, extend `Cost`;
`register_cost` gives it a name. docs/how-to/extending.md has a complete example.

>>> from evenhand.costs import make_cost
>>> make_cost("absolute")
Absolute()
"""

from evenhand.dual.costs import (
    COSTS,
    Absolute,
    Cost,
    CostMatrix,
    Custom,
    Huber,
    Pinball,
    Squared,
    check_cost_matrix,
    cost_faults,
    make_cost,
    register_cost,
    same_cost,
)

__all__ = [
    "COSTS",
    "Absolute",
    "Cost",
    "CostMatrix",
    "Custom",
    "Huber",
    "Pinball",
    "Squared",
    "check_cost_matrix",
    "cost_faults",
    "make_cost",
    "register_cost",
    "same_cost",
]
