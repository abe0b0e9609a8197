"""What the parity step is made of: input in, atoms, and a certificate in the user's units."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Labels, Rows, check_rows, check_strata, column_labels
from evenhand.certificates import Certificate, PolicyMeasures, certify
from evenhand.dual.costs import Cost, CostMatrix, Squared, clip_within_reach
from evenhand.dual.grid import (
    Support,
    automatic_beta,
    check_beta,
    make_class_support,
    make_support,
    paper_beta,
)
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.problem import DualProblem
from evenhand.exceptions import ConvergenceWarning
from evenhand.solvers import Auto, Callback, Solver, SolverResult, Status, run

FAR_FROM_PARITY = 0.01  # violation beyond epsilon at which a spent budget is worth a warning
NEAR_ENOUGH = 1e-5  # the same, at which a solver that rounding brought to a halt is worth none
RISKS = ("risk", "entropic_risk", "lower_bound", "smoothed_gap", "smoothing_cost", "risk_bound")


@dataclass(frozen=True, slots=True, eq=False)
class FrontierRows:
    """The parity step of a model, to be solved again for other tolerances on the same rows."""

    postprocessor: Any  # a ParityPostprocessor, unfitted, with the model's settings
    rows: Rows
    group_prior: Any
    assemble: Callable[[Any], Any]  # fitted post-processor -> fitted model of the user's kind


def read_rows(scores: Any, group_proba: Any, sample_weight: Any, strata: Any, cost: Cost) -> Rows:
    """Rows to fit on, as a user gives them."""
    codes, labels = None, None
    if strata is not None:
        codes, labels = check_strata(strata, column_labels(group_proba))
    return check_rows(
        scores, group_proba, sample_weight, groups=labels, strata=codes, n_classes=cost.n_classes
    )


def choose_support(atoms: Any, bounds: Any, rows: Rows, cost: Cost) -> Support:
    """The atoms that the parameters ask for."""
    if isinstance(cost, CostMatrix):
        support = make_class_support(atoms, cost.matrix.shape[1])
        clip_within_reach(support, support.atoms)
        return support
    support = make_support(atoms, bounds, rows.scores, rows.weights)
    clip_within_reach(support, rows.scores)  # before long work, whose answer would be infinite
    return support


def choose_beta(beta: Any, solver: Solver[Any] | Auto, cost: Cost, n_rows: int) -> float:
    """Beta as the parameters ask for it; "auto" is the solver's own rule, where it has one.

    A draw around the best of many values adds to the risk of every row, so it is to be narrow. Between
    classes only the rows near a tie are drawn at all, and what that adds falls with the square of beta: there
    the paper's is high enough, and quicker.
    """
    rule: Callable[[int], float] = automatic_beta if cost.n_classes is None else paper_beta
    return check_beta(beta, getattr(solver, "default_beta", rule)(n_rows), n_rows)


def solve(
    solver: Solver[Any] | Auto, problem: DualProblem, start: FloatArray | None, callback: Callback | None
) -> SolverResult:
    """What the solver comes to, with a warning where that is far from parity."""
    result = run(solver, problem, start=start, callback=callback)
    excess = float((problem.parity.norm.value(result.violation) - problem.slack).max())
    halted = result.status is Status.STALLED and excess <= NEAR_ENOUGH
    if not (result.status.success or halted) or excess > FAR_FROM_PARITY:
        message = f"Solver {result.solver!r} stopped after {result.n_iter} iterations. {result.message}"
        if result.status.success:
            message += f" The violation is {excess:.2g} above epsilon: raise max_iter."
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return result


def certify_in_units(
    problem: DualProblem,
    result: SolverResult,
    policy: SoftmaxPolicy,
    groups: Labels,
    measures: PolicyMeasures | None = None,
) -> Certificate:
    """The certificate of a policy, with its risks in the units of its cost."""
    support, cost = policy.support, policy.cost
    found = certify(problem, result, scale=support.half_width, groups=groups, measures=measures)
    if isinstance(cost, Squared):
        return found
    factor = cost.unit(support) / support.half_width**2
    return replace(found, **{name: factor * getattr(found, name) for name in RISKS})
