"""What can be refused, or warned of, before any model is fitted."""

import warnings
from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import Groups
from evenhand._utils.missing import without_mask
from evenhand._utils.text import some_of
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.dual.cost_terms import FARTHEST
from evenhand.dual.grid import range_without_outliers
from evenhand.estimators.cells import Cells
from evenhand.estimators.draws import key_from, uniforms_from_table
from evenhand.estimators.learning import encode_attributes
from evenhand.estimators.nuisances import Labelled, require_table
from evenhand.exceptions import GroupInFeaturesWarning, SharedDrawsWarning

FEWEST_HASHED, MOST_HASHED = 500, 200_000  # rows that are looked at for others with the same features
FEW_DISTINCT = 0.75  # sets of features for each row: with fewer many share a draw
STAND_INS = 500  # rows that parameters are tried on
GLANCE = 200  # rows that tell whether a column could be the group; only then are all looked at
KINDS = {"regressor": (is_classifier, "classifier"), "classifier": (is_regressor, "regressor")}


def check_kind(model: Any, name: str, kind: str, way_out: str) -> None:
    """Refuse a class where an object is meant, and a classifier for a regressor or the other way round.

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
    except AttributeError:  # a model of another making, which does not tell what it is
        return
    if wrong:
        raise ValueError(f"{name} must be a {kind}: {type(model).__name__} is a {other}. {way_out}")


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse a number of jobs that joblib would refuse after the first model."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0: got {n_jobs!r}.")


def stand_in_rows(data: Labelled, groups: Sequence[Hashable], strata: Any) -> Rows:
    """Rows as the parity step might see them, to try its parameters on, with outcomes for scores."""
    some = data.y[:STAND_INS]
    if data.classes is None:
        scores: FloatArray = np.clip(some, *range_without_outliers(some))
    else:
        scores = np.full((len(some), len(data.classes)), 1.0 / len(data.classes))
    return Rows(scores, np.full((len(scores), len(groups)), 1.0 / len(groups)), tuple(groups), None, strata)


def require_within_reach(data: Labelled) -> None:
    """Refuse outcomes whose squares are no numbers: every model would fail on them in its own way."""
    if data.classes is None and np.abs(data.y).max(initial=0.0) > FARTHEST:
        far = int(np.abs(data.y).argmax())
        raise ValueError(
            f"y has values of {data.y[far]:g} (row {far}), and squares of such numbers are too large for a "
            "float. Leave these rows out, or divide y by a constant."
        )


def require_same_order(X: Any, labels: Any, name: str) -> None:
    """Refuse labels that carry the row names of X in another order: nobody can tell which order is meant."""
    rows: Any = getattr(X, "index", None)
    other: Any = getattr(labels, "index", None)
    if not (hasattr(rows, "equals") and hasattr(other, "equals")) or len(rows) != len(other):
        return
    if rows.equals(other) or not (rows.is_unique and other.is_unique and rows.isin(other).all()):
        return
    raise ValueError(
        f"{name} has the row names (index) of X in another order. Rows are matched by their place: pass "
        f"{name}.loc[X.index] if names tell which row is whose, or {name}.to_numpy() if the places do."
    )


def require_same_features(X: Any, other: Any, name: str, *, in_order: bool = False) -> None:
    """Refuse a second table whose columns are not those of X, or not in their order where that counts."""
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
    """The table and the groups of people whose outcome is not known, refused where they cannot serve.

    They cannot where the model is `aware`, nor where parity is asked for `within` outcomes.
    """
    if sensitive_features is not None:
        raise ValueError(
            "Pass sensitive_features, the groups of the rows of X, or sensitive_data, other people and their "
            "groups, but not both. Rows of X whose group is not known may have None in sensitive_features."
        )
    if aware:
        raise ValueError(
            "aware=True needs the group of every row of X: pass sensitive_features, not sensitive_data."
        )
    if within:
        raise ValueError(
            "Parity within outcomes takes people of whom both outcome and group are known: pass their groups "
            "as sensitive_features (None where one is not known), not sensitive_data."
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


def check_more_rows(X: Any, other: Any, kind: str, labels: Any, cells: Cells) -> None:
    """Refuse rows beside the labelled ones with other features or groups, by the names of `fit`."""
    if other is None:
        return
    require_table(other)
    require_same_features(X, other, f"X_{kind}")
    if labels is not None:
        name = f"sensitive_features_{kind}"
        require_same_order(other, labels, name)
        proves = kind == "calibration"
        groups = encode_attributes(labels, _num_samples(other), cells, name, partial=proves)
        if proves and any(each.proba is not None for each in groups):
            raise ValueError(f"{name} must be labels: nothing is proved with probabilities of groups.")


def warn_of_group_in_features(X: Any, attributes: Sequence[Groups], stacklevel: int) -> None:
    """Warn where a column of X tells the group of every row, by whatever names."""
    if not hasattr(X, "shape") or hasattr(X, "toarray"):  # a list, or a sparse table of many columns
        return
    names, start = getattr(X, "columns", range(X.shape[1])), _safe_indexing(X, slice(0, GLANCE))
    for place, name in enumerate(names):
        if any(
            _is_group(start, place, groups.codes[:GLANCE]) and _is_group(X, place, groups.codes)
            for groups in attributes
        ):
            warnings.warn(
                f"Column {name!r} of X is the group itself, so that predictions use it. Leave it out of X "
                "where its use is not allowed; where it is, aware=True uses it to the full, at the least "
                "price.",
                GroupInFeaturesWarning,
                stacklevel=stacklevel + 1,
            )
            return


def warn_of_shared_draws(X: Any, stacklevel: int) -> None:
    """Warn where many people have the same features, and without ids would share their luck."""
    n_rows = min(_num_samples(X), MOST_HASHED)
    if n_rows < FEWEST_HASHED:
        return
    try:
        hashed = uniforms_from_table(_safe_indexing(X, slice(0, n_rows)), key_from(None))
    except (TypeError, ValueError):  # cells that are neither numbers nor text: predict will say so
        return
    n_distinct = len(np.unique(hashed))
    if n_distinct <= FEW_DISTINCT * n_rows:
        warnings.warn(
            f"{n_rows} rows of X have {n_distinct} different sets of features: people with the same ones "
            "share one draw of predict, and its luck: draws then show larger distances than the model has. "
            "Pass predict(X, ids=...), who each row is (--id on the command line), and everybody has a draw "
            "of their own.",
            SharedDrawsWarning,
            stacklevel=stacklevel + 1,
        )


def _is_group(X: Any, place: int, codes: IntArray) -> bool:
    """Whether values of a column and groups go together one to one."""
    values = np.asarray(_safe_indexing(X, place, axis=1)).tolist()
    try:
        pairs = set(zip(values, codes.tolist(), strict=True))
    except TypeError:  # values that are no labels
        return False
    return len(pairs) == len({value for value, _ in pairs}) == len({code for _, code in pairs})
