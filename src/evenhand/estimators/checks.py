"""Checks of the inputs of `fit`, made before any model is fitted."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import Groups
from evenhand._utils.missing import without_mask
from evenhand._utils.text import some_of
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand._utils.warn import warn_user
from evenhand.data.draws import key_from, uniforms_from_table
from evenhand.data.groups import encode_attributes, require_same_order
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.grid import range_without_outliers
from evenhand.estimators.models import require_table
from evenhand.estimators.strata import Strata
from evenhand.exceptions import GroupInFeaturesWarning, SharedDrawsWarning

FEWEST_HASHED, MOST_HASHED = 500, 200_000  # number of rows that are checked for identical features
FEW_DISTINCT = 0.75  # distinct rows per row; below this ratio many rows share a draw
STAND_INS = 500  # rows on which the parameters are tried
GLANCE = 200  # rows on which a column is first compared with the group, before all rows are compared
KINDS = {"regressor": (is_classifier, "classifier"), "classifier": (is_regressor, "regressor")}


def check_kind(model: Any, name: str, kind: str, way_out: str) -> None:
    """Check that a model is an object, not a class, and a regressor or classifier as required.

    >>> from sklearn.linear_model import Ridge
    >>> check_kind(Ridge(), "sensitive_estimator", "classifier", "Pass a classifier.")
    Traceback (most recent call last):
    ValueError: sensitive_estimator must be a classifier: Ridge is a regressor. Pass a classifier.
    """
    if model is None:
        return
    if isinstance(model, type):
        raise ValueError(f"{name} must be an object, not a class: pass {model.__name__}().")
    if not hasattr(model, "fit"):
        raise ValueError(f"{name} must be a scikit-learn-compatible {kind}: got {model!r}.")
    is_other, other = KINDS[kind]
    try:
        wrong = is_other(model)
    except AttributeError:  # a model without scikit-learn's tags
        return
    if wrong:
        raise ValueError(f"{name} must be a {kind}: {type(model).__name__} is a {other}. {way_out}")


def check_n_jobs(n_jobs: Any) -> None:
    """Check `n_jobs` early; joblib would raise an error only after the first model is fitted."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0: got {n_jobs!r}.")


def stand_in_rows(target: AnyArray, strata: Strata) -> Rows:
    """Rows that resemble those of the parity step, with outcomes as scores, to try its parameters on."""
    some, groups = target[:STAND_INS], strata.labels()
    if strata.classes is None:
        scores: FloatArray = np.clip(some, *range_without_outliers(some))
    else:
        scores = np.full((len(some), len(strata.classes)), 1.0 / len(strata.classes))
    proba = np.full((len(scores), len(groups)), 1.0 / len(groups))
    return Rows(scores, proba, groups, None, strata.codes())


def require_within_reach(target: AnyArray, strata: Strata) -> None:
    """Check that the squares of the outcomes are finite; otherwise each model would fail differently."""
    if strata.classes is None and np.abs(target).max(initial=0.0) > FARTHEST:
        far = int(np.abs(target).argmax())
        raise ValueError(
            f"y has values of {target[far]:g} (row {far}), and squares of such numbers are too large for a "
            "float. Leave these rows out, or divide y by a constant."
        )


def require_same_features(X: Any, other: Any, name: str, *, in_order: bool = False) -> None:
    """Check that a second table has the columns of X, in the same order if `in_order`."""
    known, found = (getattr(table, "columns", None) for table in (X, other))
    if known is not None and found is not None:
        missing = [column for column in known if column not in set(found)]
        if missing:
            raise ValueError(f"{name} must have the columns of X, but lacks {some_of(missing)}.")
        if in_order and list(known) != list(found):
            raise ValueError(
                f"{name} must have the columns of X, in their order: it has {some_of(list(found), 20)}, "
                f"and X has {some_of(list(known), 20)}."
            )
    elif hasattr(other, "shape") and hasattr(X, "shape") and other.shape[1:] != X.shape[1:]:
        raise ValueError(
            f"{name} has {other.shape[1]} features, but X has {X.shape[1]}: it must have the columns of X."
        )


def check_sensitive_data(
    sensitive_data: Any, X: Any, sensitive_features: Any, *, aware: bool, within: bool
) -> tuple[Any, Any]:
    """Check `sensitive_data` and return its table and its groups.

    It cannot be used if the model is `aware`, or if groups are compared `within` outcomes.
    """
    if sensitive_features is not None:
        raise ValueError(
            "Pass sensitive_features, the groups of the rows of X, or sensitive_data, other people and their "
            "groups, but not both. Rows of X with unknown group may have None in sensitive_features."
        )
    if aware:
        raise ValueError(
            "aware=True needs the group of every row of X: pass sensitive_features, not sensitive_data."
        )
    if within:
        raise ValueError(
            "Parity within outcomes needs people for whom both outcome and group are known: pass their "
            "groups as sensitive_features (None if a group is unknown), not sensitive_data."
        )
    if not isinstance(sensitive_data, tuple | list) or len(sensitive_data) != 2:
        raise ValueError(
            "sensitive_data must be a pair (X_other, groups), features and groups of the same people: got "
            f"{type(sensitive_data).__name__}."
        )
    (other,) = indexable(without_mask(sensitive_data[0]))
    require_table(other)
    require_same_features(X, other, "The table of sensitive_data", in_order=True)
    return other, sensitive_data[1]


def check_calibration_data(given: Any) -> tuple[Any, Any, Any] | None:
    """Check `calibration_data` and return X, groups and outcomes (None if not given)."""
    if given is None:
        return None
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise ValueError(
            "calibration_data must be a tuple (X, groups) or (X, groups, y) of held-out rows: got "
            f"{type(given).__name__}."
        )
    X, groups, *y = given
    if groups is None:
        raise ValueError("calibration_data needs the groups of its rows: pass (X, groups) or (X, groups, y).")
    return X, groups, y[0] if y else None


def check_more_rows(X: Any, other: Any, name: str, labels: Any, strata: Strata) -> None:
    """Check that further rows have the features and groups of X; `name` is that of their argument."""
    if other is None:
        return
    require_table(other)
    require_same_features(X, other, name)
    if labels is None:
        return
    proves = name == "calibration_data"
    of_labels = name if proves else f"sensitive_features{name.removeprefix('X')}"
    require_same_order(other, labels, of_labels)
    groups = encode_attributes(labels, _num_samples(other), strata, of_labels, partial=proves)
    if proves and any(each.proba is not None for each in groups):
        raise ValueError(
            f"The groups in {name} must be labels: group probabilities cannot be used to prove a tolerance."
        )


def warn_of_group_in_features(X: Any, attributes: Sequence[Groups]) -> None:
    """Warn if a column of X determines the group of every row and vice versa, under any labels."""
    if not hasattr(X, "shape") or hasattr(X, "toarray"):  # a list, or a sparse matrix with many columns
        return
    names, start = getattr(X, "columns", range(X.shape[1])), _safe_indexing(X, slice(0, GLANCE))
    for place, name in enumerate(names):
        if any(
            _is_group(start, place, groups.codes[:GLANCE]) and _is_group(X, place, groups.codes)
            for groups in attributes
        ):
            warn_user(
                f"Column {name!r} of X is the group itself, so predictions use it. Leave it out of X if its "
                "use is not allowed; if it is allowed, aware=True uses it at the smallest loss of accuracy.",
                GroupInFeaturesWarning,
            )
            return


def warn_of_shared_draws(X: Any) -> None:
    """Warn if many rows have identical features and would share one random draw without ids."""
    n_rows = min(_num_samples(X), MOST_HASHED)
    if n_rows < FEWEST_HASHED:
        return
    try:
        hashed = uniforms_from_table(_safe_indexing(X, slice(0, n_rows)), key_from(None))
    except (TypeError, ValueError):  # cells that are neither numbers nor text: predict raises an error
        return
    n_distinct = len(np.unique(hashed))
    if n_distinct <= FEW_DISTINCT * n_rows:
        warn_user(
            f"{n_rows:,} rows of X have {n_distinct:,} different sets of features. Rows with identical "
            "features get the same random draw, so the measured gap can exceed the model's. Pass "
            "predict(X, ids=...) (--id on the command line) to draw per person.",
            SharedDrawsWarning,
        )


def _is_group(X: Any, place: int, codes: IntArray) -> bool:
    """Whether the values of a column and the groups correspond one to one."""
    values = np.asarray(_safe_indexing(X, place, axis=1)).tolist()
    try:
        pairs = set(zip(values, codes.tolist(), strict=True))
    except TypeError:  # values that are not hashable
        return False
    return len(pairs) == len({value for value, _ in pairs}) == len({code for _, code in pairs})
