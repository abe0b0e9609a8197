"""Rows of predictions, counted in their groups."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import as_floats, check_group_proba, check_weights
from evenhand.metrics import Membership, membership_of
from evenhand.metrics._inputs import as_atoms, block_slices, checked_blocks

Blocks: TypeAlias = Iterator[tuple[slice, FloatArray]]


def members_of(sensitive_features: Any, n_rows: int, sample_weight: Any = None) -> Membership:
    """Rows in the groups that labels name, (n_rows,), or in all of them by probabilities, (n_rows, n_groups).

    >>> members_of([[0.2, 0.8], [1.0, 0.0]], 2).column(1)
    array([0.8, 0. ])
    """
    weights = None if sample_weight is None else check_weights(sample_weight, n_rows)
    if np.ndim(sensitive_features) == 2:
        shares, labels = check_group_proba(sensitive_features, n_rows)
        members = Membership(labels, shares=shares, weights=weights)
    else:
        members = membership_of(sensitive_features, n_rows, weights)
    for group, label in enumerate(members.labels):
        if not members.column(group).sum() > 0:
            raise ValueError(f"No row counts in group {label!r}: leave it out, or add rows.")
    return members


def values_of(values: Any, name: str, n_rows: int | None = None) -> FloatArray:
    """Finite floats of shape (n_rows,), at least one."""
    checked = as_floats(values, name)
    if checked.ndim != 1 or len(checked) == 0 or (n_rows is not None and len(checked) != n_rows):
        wanted = "" if n_rows is None else f" for {n_rows} rows"
        raise ValueError(f"{name} needs one value per row: got shape {checked.shape}{wanted}.")
    if not np.isfinite(checked).all():
        raise ValueError(f"{name} has NaN or infinite values; drop or fill these rows first.")
    return checked


def pmf_of(pmf: Any, name: str, n_rows: int, atoms: Any) -> tuple[Blocks, FloatArray]:
    """Checked blocks of a pmf, and the value of each of its columns."""
    table = np.asarray(pmf)
    if len(table) != n_rows:
        raise ValueError(f"{name} has {len(table)} rows, but there are {n_rows} old ones.")
    if atoms is None:
        raise ValueError(f"{name} is a pmf and needs its atoms: pass atoms=, the value of each column.")
    return checked_blocks(table), as_atoms(atoms, table.shape[1])


def model_blocks(model: Any, scores: Any, group_proba: Any) -> Blocks:
    """Blocks of the pmf of a fitted post-processor: the whole is never in memory."""
    rows = model._rows(scores, group_proba)
    for some in block_slices(len(rows.scores), len(model.atoms_)):
        yield some, model.policy_.pmf(rows.scores[some], rows.group_proba[some])
