"""Whether a group prior of the user's own leaves parity within reach, and with a meaning.

The violations of any policy add up to the mean imbalance `E[t_s] = 1 - E[tau_s] / p_s`, so a prior that
is not the mean of the group probabilities puts a floor under them that no policy can remove.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.warn import warn_user
from evenhand.dual.imbalance import mean_imbalance
from evenhand.dual.step import ParityStep
from evenhand.exceptions import PriorWarning

SAME_PRIOR = 1e-6  # relative distance up to which a prior is the mean itself, rounded on its way here


def resolve_prior(prior: FloatArray | None, step: ParityStep, groups: Sequence[Hashable]) -> FloatArray:
    """The prior to use: the mean of the group probabilities, or the user's own if it is feasible.

    Parameters
    ----------
    prior : array of shape (n_groups,) or None
        The user's own.
    step : ParityStep
        With the mean of the group probabilities on the rows as its prior.
    groups : sequence of labels
    """
    mean_proba = step.group_prior
    if prior is None or np.all(np.abs(prior / mean_proba - 1.0) <= SAME_PRIOR):
        return mean_proba
    imbalance = mean_imbalance(mean_proba, prior, step.strata)
    parity, slack, scale = step.resolved, step.slack, step.unit
    smallest = parity.smallest_feasible(imbalance)
    if np.any(slack < smallest):
        worst = int(np.argmax(smallest - slack))
        raise ValueError(
            f"group_prior makes the problem infeasible for group {groups[worst]!r}: its prior is "
            f"{prior[worst]:.6g}, the mean of group_proba is {mean_proba[worst]:.6g}, and its epsilon "
            f"{scale * slack[worst]:.6g} is below the smallest feasible one, "
            f"{_rounded_up(scale * smallest[worst]):.6g}. Raise epsilon, recalibrate group_proba, or leave "
            "group_prior out to use the mean."
        )
    doubtful = parity.constant_violation(imbalance)
    if np.any(slack < doubtful):
        worst = int(np.argmax(doubtful - slack))
        warn_user(
            f"The prior of group {groups[worst]!r} is {prior[worst]:.6g}, but the mean of group_proba is "
            f"{mean_proba[worst]:.6g}: even a constant prediction is then up to "
            f"{scale * doubtful[worst]:.3g} away from parity, more than its epsilon "
            f"{scale * slack[worst]:.3g}. Recalibrate group_proba, or leave group_prior out to use the mean.",
            PriorWarning,
        )
    return prior


def _rounded_up(value: float) -> float:
    """Six digits, never below `value`, so that the number in the message works when it is used."""
    step = 10.0 ** (np.floor(np.log10(value)) - 5)
    return float(np.ceil(value / step) * step)
