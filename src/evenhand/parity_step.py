"""What the parity step is made of: input in, atoms, warnings, and a certificate in the user's units."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._typing import AnyArray
from evenhand._validation import Labels, Rows, check_rows, check_strata, column_labels
from evenhand.certificates import Certificate, certify
from evenhand.costs import Cost, CostMatrix, Squared
from evenhand.exceptions import ClippingWarning
from evenhand.problem import DualProblem
from evenhand.solvers import SolverResult
from evenhand.support import Support, make_class_support, make_support

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
        return make_class_support(atoms, cost.matrix.shape[1])
    return make_support(atoms, bounds, rows.scores, rows.weights)


def report_clipping(support: Support, rows: Rows, bounds: Any, stacklevel: int) -> int:
    """Number of scores outside the bounds, with a warning where there are any."""
    n_clipped = support.count_outside(rows.scores)
    if n_clipped:
        low, high = support.bounds
        outside = f"{n_clipped} of {len(rows.scores)} scores lie outside bounds=({low:g}, {high:g})"
        how = 'and were moved to the nearest bound. Widen the bounds, or pass bounds="auto".'
        if isinstance(bounds, str):
            how = (
                'that bounds="auto" found: outliers so far off that nearly all others would share one '
                "atom. They were moved to the nearest bound. Look at them, or pass bounds=(low, high)."
            )
        warnings.warn(f"{outside} {how}", ClippingWarning, stacklevel=stacklevel + 1)
    return n_clipped


def certify_in_units(
    problem: DualProblem, result: SolverResult, support: Support, cost: Cost, groups: Labels
) -> Certificate:
    """The certificate, with its risks in the units of the cost."""
    found = certify(problem, result, scale=support.half_width, groups=groups)
    if isinstance(cost, Squared):
        return found
    factor = cost.unit(support) / support.half_width**2
    return replace(found, **{name: factor * getattr(found, name) for name in RISKS})


def label_array(labels: Labels) -> AnyArray:
    """Labels as an array: of integers where all are, of objects otherwise."""
    if all(isinstance(label, int) for label in labels):
        return np.array(labels)
    return np.fromiter(labels, dtype=object, count=len(labels))
