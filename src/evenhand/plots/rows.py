"""Rows of predictions, counted in their groups."""

from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import check_group_proba, check_rows_of, check_weights
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.metrics import Membership
from evenhand.metrics._inputs import Blocks, as_atoms, checked_blocks
from evenhand.metrics.measure import policy_blocks


class PolicyModel(Protocol):
    """A fitted post-processor, as far as a picture shows it."""

    groups_: AnyArray
    atoms_: FloatArray
    policy_: SoftmaxPolicy


def members_of(
    sensitive_features: Any, n_rows: int, sample_weight: Any = None, group_proba: Any = None
) -> Membership:
    """Rows in the groups that they are said to be in, or else in all of them by `group_proba`."""
    weights = None if sample_weight is None else check_weights(sample_weight, n_rows)
    if sensitive_features is not None or group_proba is None:
        return Membership.read(sensitive_features, n_rows, weights)
    shares, labels = check_group_proba(group_proba, n_rows)
    return Membership.of_proba(labels, shares, weights).require_rows()


def pmf_of(pmf: Any, name: str, n_rows: int, atoms: Any) -> tuple[Blocks, FloatArray]:
    """Checked blocks of a pmf, and the value of each of its columns."""
    table = np.asarray(pmf)
    if len(table) != n_rows:
        raise ValueError(f"{name} has {len(table)} rows, but there are {n_rows} old ones.")
    if atoms is None:
        raise ValueError(f"{name} is a pmf and needs its atoms: pass atoms=, the value of each column.")
    return checked_blocks(table), as_atoms(atoms, table.shape[1])


def model_blocks(model: PolicyModel, scores: Any, group_proba: Any) -> Blocks:
    """Blocks of the pmf of a fitted post-processor: the whole is never in memory."""
    check_is_fitted(model, "policy_")
    policy, groups = model.policy_, tuple(model.groups_.tolist())
    rows = check_rows_of(scores, group_proba, groups, policy.strata, policy.cost.n_classes)
    return policy_blocks(policy, rows.scores, rows.group_proba)
