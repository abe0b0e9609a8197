"""Rows that no fit has seen, read and scored: what measures of a model are made from."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import read_columns, read_one_sensitive, read_sensitive
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, as_floats, check_rows_of, check_weights
from evenhand.data.groups import check_groups, encode_attributes
from evenhand.estimators.base import ParityEstimator
from evenhand.estimators.models import class_codes
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import Membership, ScoredRows

Model: TypeAlias = ParityPostprocessor | ParityEstimator

KNOWN = ("y", "sensitive_features", "sample_weight")  # what may be known of held-out rows


def step_of(model: Model) -> ParityPostprocessor:
    """The parity step of a fitted model as a post-processor, which takes scores and group probabilities."""
    return model if isinstance(model, ParityPostprocessor) else model.postprocessor_


def read_held_out(test: Any, model: Model) -> ScoredRows:
    """The rows that `test` names, scored by `model`.

    Parameters
    ----------
    test : dict or tuple
        As in `evenhand.frontier`.
    model : ParityPostprocessor, ParityRegressor or ParityClassifier
        Fitted, at any epsilon.
    """
    given = _named(test, ("scores", "group_proba") if isinstance(model, ParityPostprocessor) else ("X",))
    given = _of_known_groups(given)
    scores, group_proba = _scored(model, given)
    target, known, weights = (given.get(name) for name in KNOWN)
    if weights is not None:
        weights = check_weights(weights, len(scores))
    groups, strata = tuple(model.groups_.tolist()), model.policy_.strata
    if known is None:
        members = Membership.of_proba(groups, group_proba, weights, strata).require_rows()
    elif isinstance(model, ParityPostprocessor):
        members = _members_of_step(known, len(scores), groups, strata, weights)
    else:
        members = read_members(model, given["X"], target, known, weights)
    if target is not None:
        target = _check_target(model, target, len(scores))
    return ScoredRows(scores, group_proba, members, target)


def read_members(
    model: ParityEstimator, X: Any, y: Any, sensitive_features: Any, weights: FloatArray | None = None
) -> Membership:
    """The groups that a fitted model compares, without those that no row is in."""
    notion = model.strata_
    if notion.is_plain:
        (known,) = encode_attributes(sensitive_features, _num_samples(X), notion, "sensitive_features")
        _, members = Membership.of_groups(known.take(slice(None)), weights)
    else:
        cells = model._known_columns(X, y, sensitive_features)
        members = Membership.of_cells(notion.labels(), cells, notion.codes(), weights)
    return members.require_rows()


def _of_known_groups(given: dict[str, Any]) -> dict[str, Any]:
    """The rows whose group is not missing."""
    if given.get("sensitive_features") is None:
        return given
    n_rows = _num_samples(given["X"] if "X" in given else given["scores"])
    known = next(iter(read_sensitive(given["sensitive_features"], n_rows).values())).known
    if known.all():
        return given
    rows = np.flatnonzero(known)
    return {name: None if each is None else _safe_indexing(each, rows) for name, each in given.items()}


def _named(test: Any, inputs: tuple[str, ...]) -> dict[str, Any]:
    """`test` as a dict, whichever way it was given."""
    names = (*inputs, *KNOWN)
    if isinstance(test, Mapping):
        given = dict(test)
    elif isinstance(test, Sequence) and not isinstance(test, str) and len(test) <= len(names):
        given = dict(zip(names, test, strict=False))
    else:
        raise ValueError(f"test must be a dict or a tuple of {', '.join(names)}: got {type(test).__name__}.")
    unknown = [name for name in given if name not in names]
    missing = [name for name in inputs if given.get(name) is None]
    if unknown or missing:
        wrong = f"does not know {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
        raise ValueError(f"test {wrong}: its names are {', '.join(names)}, the last three optional.")
    return given


def _scored(model: Model, given: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Scores and group probabilities of the rows."""
    if isinstance(model, ParityPostprocessor):
        policy = model.policy_
        rows = check_rows_of(
            given["scores"], given["group_proba"], model.step_.groups, policy.strata, policy.cost.n_classes
        )
        return rows.scores, rows.group_proba
    groups = given.get("sensitive_features") if model.aware else None
    return model.predict_scores(given["X"], sensitive_features=groups)


def _members_of_step(
    known: Any, n_rows: int, groups: Labels, strata: IntArray | None, weights: FloatArray | None
) -> Membership:
    """Groups of the rows of a post-processor, which knows columns only: any labels will do without strata."""
    if strata is None:
        return Membership.of_groups(check_groups(read_one_sensitive(known, n_rows)), weights)[1]
    return Membership.of_cells(groups, _known_cells(known, n_rows, groups), strata, weights).require_rows()


def _known_cells(cells: Any, n_rows: int, groups: Labels) -> FloatArray:
    """Which groups of which strata rows are in, as the user of a post-processor says: only they can know."""
    names = [label[1] for label in groups]  # type: ignore[index]
    columns = read_columns(cells, n_rows)
    told = set(columns) == set(names)
    if told:
        columns = {name: columns[name] for name in names}
    # names of the user's that are not those of the groups: to go by place would be a guess
    strange = not told and all(isinstance(name, str) for name in (*columns, *names))
    told_apart = all(label in (0, 1) for column in columns.values() for label in column.labels)
    if strange or len(columns) != len(names) or not told_apart:
        raise ValueError(
            "sensitive_features of a ParityPostprocessor with strata says which of its groups each row is "
            f"in: zeros and ones, with a column for each of group_proba ({', '.join(map(str, names))})."
        )
    table = np.column_stack([np.array(each.labels, np.float64)[each.codes] for each in columns.values()])
    strata = [label[0] for label in groups]  # type: ignore[index]
    for stratum in dict.fromkeys(strata):
        twice = np.flatnonzero(table[:, [place == stratum for place in strata]].sum(axis=1) > 1)
        if len(twice):
            raise ValueError(
                f"sensitive_features has {len(twice)} rows in several groups of stratum {stratum!r}, the "
                f"first of them row {twice[0]}: a row is in one group of a stratum, or in none."
            )
    return table


def _check_target(model: Model, y: Any, n_rows: int) -> FloatArray:
    """Outcomes as the cost of the model takes them."""
    n_classes = model.policy_.cost.n_classes
    if n_classes is not None:
        labels = np.asarray(y).ravel()
        if len(labels) != n_rows:
            raise ValueError(f"y of test needs one class per row: got {len(labels)} for {n_rows} rows.")
        classes = tuple(getattr(model, "classes_", np.arange(n_classes)).tolist())
        return np.eye(n_classes)[class_codes(labels, classes)]
    target = as_floats(y, "y").squeeze()
    if target.shape != (n_rows,):
        raise ValueError(f"y of test needs one value per row: got shape {target.shape} for {n_rows} rows.")
    if not np.isfinite(target).all():
        raise ValueError("y of test has NaN or infinite values; leave these rows out.")
    return target
