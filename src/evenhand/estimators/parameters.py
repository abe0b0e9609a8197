"""The parameters that the estimators and the post-processor share, each declared once.

These classes have no behavior: they are inherited only to declare parameters.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

from evenhand.data.draws import RandomState
from evenhand.dual.parity import ParityNotion


@dataclass(eq=False, repr=False, kw_only=True)
class StepParameters:
    """Parameters of the parity step."""

    parity: str | ParityNotion = "cdf"
    epsilon: Any = 0.05
    beta: Any = "auto"
    solver: Any = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    confidence: Any = "auto"
    warm_start: bool = False
    random_state: RandomState = None
    device: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class GridParameters:
    """Values and cost of numeric predictions."""

    atoms: Any = "auto"
    bounds: Any = "auto"
    cost: Any = "squared"


@dataclass(eq=False, repr=False)
class ModelParameters:
    """Parameters of the models, and of the groups that are compared."""

    estimator: Any = None
    sensitive_estimator: Any = None
    _: KW_ONLY
    cv: Any = None
    calibration: str | None = "auto"
    aware: bool = False
    attributes: str = "combined"
    conditional_on: Any = None
    min_group_size: int = 10
    small_groups: str = "error"
    n_jobs: int | None = None
