"""Groups that are known of the rows of a parity step, to judge it by."""

from typing import Any

import numpy as np

from evenhand._utils.labels import match_groups, read_one_sensitive
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import Rows, as_floats, check_weights
from evenhand.estimators.judging import N_FOLDS


def known_groups_of(rows: Rows, sensitive_features: Any, sample_weight: Any) -> FloatArray:
    """Groups of the rows that are used, zeros and ones, (n_rows, n_groups).

    `rows` are those of a positive `sample_weight`; `sensitive_features` has all that the user gave.
    """
    used = np.ones(len(rows.scores), bool)
    if sample_weight is not None:
        used = check_weights(sample_weight, np.shape(sample_weight)[0]) > 0
    known = (_of_groups if rows.strata is None else _of_cells)(rows, sensitive_features, len(used))[used]
    for group, count in zip(rows.groups, known.sum(axis=0), strict=True):
        if count < N_FOLDS:
            raise ValueError(
                f"Group {group!r} has {int(count)} known rows, too few to judge by: pass more, or "
                "confidence=None to keep epsilon on the rows of the fit alone."
            )
    return known


def _of_groups(rows: Rows, sensitive_features: Any, n_rows: int) -> FloatArray:
    groups = read_one_sensitive(sensitive_features, n_rows).settled()
    if groups.proba is not None:
        raise ValueError(
            "sensitive_features must be labels here, None where one is not known: probabilities of "
            "groups are what group_proba is for."
        )
    return match_groups(groups, rows.groups, "sensitive_features").one_hot()


def _of_cells(rows: Rows, sensitive_features: Any, n_rows: int) -> FloatArray:
    known = as_floats(sensitive_features, "sensitive_features")
    if known.shape != (n_rows, len(rows.groups)) or not np.isin(known, (0.0, 1.0)).all():
        raise ValueError(
            "With strata, sensitive_features says for each column of group_proba whether the row is "
            f"in it, zeros and ones of shape {(n_rows, len(rows.groups))}: got shape {known.shape}."
        )
    return known
