"""What each group's constraint does to a row: the tilt of its logits, taken apart group by group.

The logit of atom l is `beta * (sum_s theta_ls t_s(x) - c_l(x))`, so the part that parity adds is a sum of one
term for each group, its push. Without the multipliers of a group its push is gone, and all else is as it was.
"""

from dataclasses import replace

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand.dual.imbalance import ImbalanceModel
from evenhand.dual.policy import SoftmaxPolicy


def row_imbalance(policy: SoftmaxPolicy, group_proba: FloatArray) -> FloatArray:
    """t(x) for every group, as the policy has it, (n_rows, n_groups)."""
    imbalance = ImbalanceModel.from_prior(policy.group_prior, policy.strata)
    found: FloatArray = imbalance.kept_rows(group_proba).T @ imbalance.mixing
    return found


def row_pushes(policy: SoftmaxPolicy, group_proba: FloatArray) -> FloatArray:
    """What each group's constraint adds to the logit of each atom, (n_rows, n_groups, n_atoms).

    In natural logarithms, so that a push of `log 2` more at one atom than at another doubles the odds of the
    first. Numbers that are the same for all atoms change no prediction; they are left in.

    >>> from evenhand.dual.grid import uniform_grid
    >>> tilt = np.array([[0.1, 0.0], [0.0, 0.0]])
    >>> policy = SoftmaxPolicy(uniform_grid(0.0, 1.0, 2), np.array([0.5, 0.5]), tilt, temperature=10.0)
    >>> row_pushes(policy, np.array([[0.2, 0.8]])).round(3)
    array([[[ 0.6,  0. ],
            [-0. , -0. ]]])
    """
    weights = policy.temperature * row_imbalance(policy, group_proba)
    pushes: FloatArray = weights[:, :, None] * policy.tilt.T
    return pushes


def without_group(policy: SoftmaxPolicy, place: int) -> SoftmaxPolicy:
    """The policy with the multipliers of one group at zero."""
    tilt = policy.tilt.copy()
    tilt[:, place] = 0.0
    return replace(policy, tilt=tilt)


def without_parity(policy: SoftmaxPolicy) -> SoftmaxPolicy:
    """The policy with all multipliers at zero: it predicts what costs the row least, smoothed."""
    return replace(policy, tilt=np.zeros_like(policy.tilt))
