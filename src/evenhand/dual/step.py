"""The parity step: what is asked for, and the scale on which it is solved."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evenhand._utils.stored import MODERATE, Stored, is_finite, is_moderate
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand._utils.warn import warn_user
from evenhand.dual.cost_terms import clip_within_reach
from evenhand.dual.costs import Cost, CostMatrix, cost_faults
from evenhand.dual.grid import (
    Grid,
    automatic_beta,
    check_beta,
    make_class_grid,
    make_grid,
    paper_beta,
)
from evenhand.dual.imbalance import ImbalanceModel, prior_faults, strata_faults
from evenhand.dual.parity import BUILT_IN, Parity, ParityNotion, find_parity, make_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.dual.rows import DualRows, MemoryRows
from evenhand.exceptions import InactiveConstraintWarning

LOOSEST = 1e150  # of a tolerance on the normalised scale: it asks for nothing, and can be multiplied


@dataclass(frozen=True, slots=True, eq=False)
class ParityStep(Stored):
    """All of a parity step but its rows and its multipliers.

    `rows` and `problem` take what the user knows to the normalised scale, where the atoms span [-1, 1] and
    everything is solved; `policy`, `unit` and `cost_unit` lead back. No other place scales.

    >>> from evenhand.dual.costs import Squared
    >>> from evenhand.dual.grid import uniform_grid
    >>> step = ParityStep(
    ...     uniform_grid(0.0, 10.0, 3), "mean", Squared(), np.array([0.5, 0.5]), None, np.zeros(2), 100.0
    ... )
    >>> problem = step.problem(Rows(np.array([1.0, 9.0]), np.eye(2), ("a", "b"), None))
    >>> step.unit, problem.n_rows, problem.slack
    (5.0, 2, array([0., 0.]))
    """

    grid: Grid
    parity: str | ParityNotion
    cost: Cost
    group_prior: FloatArray  # p, (n_groups,)
    strata: IntArray | None  # stratum of each group, as in `ImbalanceModel`
    epsilon: FloatArray  # in the user's units, (n_groups,)
    beta: float  # on the normalised scale
    resolved: Parity = field(init=False)  # the notion on the atoms

    def __post_init__(self) -> None:
        """Resolve the notion once; a step is asked for it dozens of times in a fit."""
        object.__setattr__(self, "resolved", make_parity(self.parity, self.grid))

    def faults(self) -> Iterator[str]:
        """A grid, a notion, a cost, and a prior and tolerances of the same groups."""
        if not isinstance(self.grid, Grid):
            yield "it has no grid"
        yield from prior_faults(self.group_prior)
        if not is_finite(self.epsilon, len(self.group_prior)) or not np.all(self.epsilon >= 0):
            yield "its tolerances are not one number for each group"
        if not is_moderate(self.beta) or not self.beta >= 1.0 / MODERATE:
            yield "its beta is not a positive number"
        yield from strata_faults(self.strata, self.group_prior)
        yield from cost_faults(self.cost, len(self.grid.atoms))

    @property
    def unit(self) -> float:
        """One unit of a violation on the normalised scale, in the units of epsilon."""
        return self.grid.half_width if self.resolved.in_outcome_units else 1.0

    @property
    def slack(self) -> FloatArray:
        """Epsilon on the normalised scale, (n_groups,), and no more than `LOOSEST`."""
        with np.errstate(over="ignore"):
            return np.minimum(self.epsilon / self.unit, LOOSEST)

    @property
    def cost_unit(self) -> float:
        """One unit of a risk on the normalised scale, in the units of the cost."""
        return self.cost.unit(self.grid)

    def rows(self, scored: Rows) -> MemoryRows:
        """Scored rows as a problem takes them; rows without weights count alike."""
        n_rows = len(scored.scores)
        imbalance = ImbalanceModel.from_prior(self.group_prior, self.strata)
        costs = self.cost.rows(self.grid, scored.scores)
        return MemoryRows(
            design=np.concatenate([imbalance.kept_rows(scored.group_proba), costs.features]),
            constant=costs.constant,
            weights=np.full(n_rows, 1.0 / max(n_rows, 1)) if scored.weights is None else scored.weights,
            n_kept=len(imbalance.kept),
        )

    def problem(self, rows: Rows | DualRows) -> DualProblem:
        """The dual problem of rows: scored ones, or what was made of them by `rows` and lives elsewhere."""
        return DualProblem(
            rows=self.rows(rows) if isinstance(rows, Rows) else rows,
            mixing=ImbalanceModel.from_prior(self.group_prior, self.strata).mixing,
            cost=self.cost.model(self.grid),
            parity=self.resolved,
            slack=self.slack,
            temperature=self.beta,
        )

    def empty_problem(self) -> DualProblem:
        """The problem without any rows."""
        n_features = self.cost.model(self.grid).loadings.shape[1]
        n_kept = len(ImbalanceModel.from_prior(self.group_prior, self.strata).kept)
        none = np.empty(0)
        return self.problem(MemoryRows(np.empty((n_kept + n_features, 0)), none, none, n_kept))

    def policy(self, multipliers: FloatArray) -> SoftmaxPolicy:
        """What predicts with these multipliers, in the user's units."""
        tilt = self.resolved.operator.adjoint(multipliers)
        return SoftmaxPolicy(self.grid, self.group_prior, tilt, self.beta, self.strata, self.cost)


def warn_of_idle_parity(step: ParityStep) -> None:
    """Warn where the notion asks for nothing of predictions on the grid."""
    notion = find_parity(step.parity)
    if reason := notion.idle(step.grid.atoms):
        warn_user(
            f"{reason}: parity {notion.name!r} constrains nothing. Check the units of its numbers, or widen "
            "bounds.",
            InactiveConstraintWarning,
        )


def warn_of_loose_epsilon(parity: str | ParityNotion, epsilon: FloatArray) -> None:
    """Warn where no difference of probabilities could be larger than epsilon, (n_groups,)."""
    notion = find_parity(parity)
    if not notion.in_outcome_units and notion.name in BUILT_IN and (epsilon >= 1.0).all():
        least = float(epsilon.min())
        warn_user(
            f"epsilon={least:g} constrains nothing: parity {notion.name!r} compares probabilities, which "
            f"never differ by more than 1. For {least:g} percentage points, pass epsilon={least / 100:g}.",
            InactiveConstraintWarning,
        )


def choose_grid(atoms: Any, bounds: Any, scores: FloatArray, weights: FloatArray | None, cost: Cost) -> Grid:
    """The atoms that the parameters ask for; scores that no float could square are refused at once."""
    if isinstance(cost, CostMatrix):
        grid = make_class_grid(atoms, cost.matrix.shape[1])
        clip_within_reach(grid, grid.atoms)
        return grid
    grid = make_grid(atoms, bounds, scores, weights)
    clip_within_reach(grid, scores)
    return grid


def choose_beta(beta: Any, cost: Cost, n_rows: int, of_solver: float | None = None) -> float:
    """Beta as the parameter asks for it; "auto" is the solver's own, where it has one.

    A draw around the best of many values adds to the risk of every row, so it is to be narrow. Between
    classes only the rows near a tie are drawn at all, and what that adds falls with the square of beta: there
    the paper's is high enough, and quicker.
    """
    automatic = of_solver
    if automatic is None:
        automatic = automatic_beta(n_rows) if cost.n_classes is None else paper_beta(n_rows)
    return check_beta(beta, automatic, n_rows)
