"""What a fit knows before the parity step: the groups and strata of rows, and how good its models are."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._utils.labels import (
    Groups,
    combine_codes,
    combine_groups,
    match_groups,
    read_groups,
    read_sensitive,
    soft_groups,
)
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows
from evenhand.calibration import CalibrationDiagnosis, diagnose_calibration
from evenhand.estimators.cells import ATTRIBUTES, Cells
from evenhand.estimators.groups import PAIR
from evenhand.estimators.judged_rows import MOST_JUDGED, JudgedRows
from evenhand.estimators.judging import JudgedFold
from evenhand.estimators.knowledge import GroupKnowledge
from evenhand.estimators.learning_rows import LearningRows, PartlyKnown, RawRows
from evenhand.estimators.nuisances import Labelled, class_codes
from evenhand.estimators.recalibration import ModelOutputs, Models
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What a fit knows before the parity step, and the rows for that step."""

    models: Models
    cells: Cells
    classes: AnyArray | None  # of a classification, in the type of the outcomes
    diagnosis: CalibrationDiagnosis | None
    rows: Rows
    folds: Sequence[JudgedFold] | None  # to judge the step by; None where epsilon is for the rows alone
    knowledge: GroupKnowledge


def judged_folds(
    labelled: RawRows,
    pile: RawRows | None,
    without: Sequence[Models],
    cells: Cells,
    judged: JudgedRows,
    known: FloatArray,
    told: AnyArray,
) -> list[JudgedFold]:
    """Folds of the judged rows, each with the rows that a step without it learns from.

    `labelled` and `known`, zeros and ones or shares, are of the judged rows. The step learns from the `pile`
    where there is one, and otherwise from the other folds. Rows of which not even a part is `told` are there
    for it alone.
    """
    if pile is not None and len(pile.outputs.scores) > MOST_JUDGED:
        rng = np.random.default_rng(0)
        pile = pile.take(rng.choice(len(pile.outputs.scores), MOST_JUDGED, replace=False))
    members = Membership.of_cells(cells.labels(), known, cells.strata(), labelled.weights)
    folds, last, n_known = [], None, int(told.sum())
    for models, held_out in zip(without, judged.folds, strict=True):
        if models is not last:  # without any map they are one and the same
            rows = labelled.scored(models, cells)
            scored = ScoredRows(rows.scores, rows.group_proba, members)
            of_pile = None if pile is None else pile.scored(models, cells)
            last = models
        folds.append(JudgedFold(of_pile or rows.without(held_out), scored, held_out, n_known))
    return folds


def judge_by(
    rows: LearningRows,
    labelled: RawRows,
    told: RawRows,
    pile: RawRows | None,
    without: Sequence[Models],
    cells: Cells,
    judged: JudgedRows,
    seed: int,
) -> list[JudgedFold]:
    """Folds of the rows of known groups to judge the step by; it learns from the `pile`, or from all of X."""
    known = known_columns(cells, rows.attributes, rows.told.y, told.factors)
    if pile is not None or labelled is told:
        there = np.ones(len(judged.places), bool)
        known = known[judged.places]
        return judged_folds(told.take(judged.places), pile, without, cells, judged, known, there)
    assert isinstance(rows, PartlyKnown)
    n_rows, folds = len(rows.data.y), [scored for _, scored in rows.folds]
    beside = judged.with_unknown(rows.places, folds, n_rows, seed)
    of_all = np.zeros((n_rows, known.shape[1]))
    of_all[rows.places] = known
    there = np.isin(beside.places, rows.places)
    some = labelled.take(beside.places)
    return judged_folds(some, None, without, cells, beside, of_all[beside.places], there)


def attribute_columns(
    sensitive_features: Any,
    n_rows: int,
    attributes: str,
    name: str = "sensitive_features",
    known: Labels | None = None,
) -> dict[Hashable, Groups]:
    """Groups of each attribute by its name: every column one, or all of them together.

    Some may be unknown, or known by probabilities alone, which are one attribute. With `known`, the columns
    of the fit, they are put in the order of these; where these were several, they are labels.
    """
    if attributes not in ATTRIBUTES:
        raise ValueError(f'attributes must be "combined" or "separate": got {attributes!r}.')
    columns = read_sensitive(sensitive_features, n_rows, name, soft=known is None or len(known) == 1)
    if known is not None:
        columns = _in_order_of(known, columns, name)
    if attributes == "separate" or len(columns) == 1:
        return columns
    return {tuple(columns): combine_groups(list(columns.values()))}


def _in_order_of(known: Labels, columns: dict[Hashable, Groups], name: str) -> dict[Hashable, Groups]:
    """Columns by name; by position where there are no names, then or now, or one column is all there is."""
    if set(columns) == set(known):
        return {column: columns[column] for column in known}
    unnamed = set(range(len(known)))
    if len(known) == 1 or len(columns) != len(known) or unnamed in (set(columns), set(known)):
        return columns
    raise ValueError(
        f"{name} has the columns {', '.join(map(str, columns))}, but the fit had "
        f"{', '.join(map(str, known))}."
    )


def read_factor(X: Any, conditional_on: Any) -> Groups:
    """The value of the legitimate factor in each row: a column of X, or the values of several together."""
    keys = conditional_on if isinstance(conditional_on, list | tuple) else [conditional_on]
    try:
        columns = _safe_indexing(X, list(keys), axis=1)
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise ValueError(
            f"conditional_on must name columns of X, by name or by number: got {conditional_on!r} ({error})."
        ) from error
    columns = columns.toarray() if hasattr(columns, "toarray") else columns
    return read_groups(columns, _num_samples(X), "conditional_on")


def factor_codes(X: Any, conditional_on: Any, cells: Cells) -> IntArray | None:
    """Which value of the legitimate factor each row has, where the notion has one."""
    if cells.factors is None:
        return None
    return match_groups(read_factor(X, conditional_on), cells.factors, "conditional_on").codes


def factor_values(X: Any, conditional_on: Any) -> Labels | None:
    """All values of the legitimate factor, sorted."""
    return None if conditional_on is None else read_factor(X, conditional_on).labels


def combined_codes(attributes: Sequence[Groups], target: AnyArray, classes: Labels | None) -> IntArray:
    """One code for each combination of groups, and of outcomes where they are classes; unknown is a group."""
    codes = [groups.codes if groups.known.all() else groups.codes + 1 for groups in attributes]
    if classes is not None:
        codes.append(class_codes(target, classes))
    return combine_codes(codes) if codes else np.zeros(len(target), np.int64)


def model_targets(cells: Cells, attributes: Sequence[Groups], data: Labelled) -> list[Groups]:
    """What the model of each attribute learns to tell apart."""
    if not cells.joint:
        return list(attributes)
    outcomes = class_codes(data.y, data.classes or ())
    targets = []
    for place, groups in enumerate(attributes):
        labels = cells.model_labels(place)
        if groups.proba is None:
            targets.append(Groups(labels, outcomes * len(groups.labels) + groups.codes, PAIR))
        else:
            pairs = np.eye(len(data.classes or ()))[outcomes][:, :, None] * groups.proba[:, None, :]
            targets.append(soft_groups(labels, pairs.reshape(len(pairs), -1), PAIR))
    return targets


def encode_attributes(
    sensitive_features: Any, n_rows: int, cells: Cells, name: str, *, partial: bool = False
) -> list[Groups]:
    """Groups of rows among those of the fit, attribute by attribute; with `partial` some may be unknown."""
    attributes = "separate" if cells.separate else "combined"
    columns = attribute_columns(sensitive_features, n_rows, attributes, name, cells.sensitive_columns)
    if len(columns) != len(cells.names):
        raise ValueError(
            f"{name} has {len(columns)} columns, but the fit had {len(cells.names)}: "
            f"{', '.join(map(str, cells.names))}."
        )
    if not partial:
        require_known(next(iter(columns.values())), name)
    return [
        match_groups(groups.settled(), labels, name)
        for groups, labels in zip(columns.values(), cells.groups, strict=True)
    ]


def require_known(groups: Groups, name: str) -> None:
    """Refuse rows whose group is missing, where every row needs one."""
    if not groups.known.all():
        raise ValueError(
            f"{name} is missing in {int((~groups.known).sum())} rows, the first of them row "
            f"{int(groups.known.argmin())}: here every row needs its group, so leave these rows out."
        )


def known_groups(
    attributes: list[Groups] | None, cells: Cells, X_unlabeled: Any, groups_unlabeled: Any, aware: bool
) -> list[Groups] | None:
    """Groups of the rows of the parity step, where they are all known: `attributes` are of those of X."""
    if X_unlabeled is None:
        if groups_unlabeled is not None:
            raise ValueError("sensitive_features_unlabeled was given without X_unlabeled.")
        return attributes
    if groups_unlabeled is not None:
        n_rows = _num_samples(X_unlabeled)
        given = encode_attributes(groups_unlabeled, n_rows, cells, "sensitive_features_unlabeled")
        # probabilities are no measure of a model's own
        return given if aware or all(groups.proba is None for groups in given) else None
    if aware:
        raise ValueError(
            "aware=True needs the group of every row that it post-processes: pass "
            "sensitive_features_unlabeled with X_unlabeled."
        )
    return None


def known_columns(
    cells: Cells, groups: Sequence[Groups], target: AnyArray | None, factors: IntArray | None
) -> FloatArray:
    """Which groups of which strata rows are in, zeros and ones or shares, (n_rows, n_groups)."""
    outcomes = None
    if cells.outcomes is not None:
        if target is None:
            raise ValueError("Parity within outcomes is measured on rows whose outcome is known: pass y.")
        assert cells.classes is not None
        outcomes = np.eye(len(cells.classes))[class_codes(target, cells.classes)]
    return cells.known_columns([each.one_hot() for each in groups], outcomes, factors)


def require_cells(
    cells: Cells, attributes: Sequence[Groups], data: Labelled, factors: IntArray | None, smallest: int
) -> None:
    """Refuse groups that are too small within a stratum."""
    if cells.is_plain:
        return
    sizes = known_columns(cells, attributes, data.y, factors).sum(axis=0)
    worst = int(sizes.argmin())
    if sizes[worst] < smallest:
        stratum, group = cells.pairs()[worst]
        raise ValueError(
            f"Group {group!r} has {int(sizes[worst])} labelled rows in stratum {stratum!r}, fewer than "
            f"min_group_size={smallest}: parity there would be parity of noise. Join groups or strata, "
            "collect more rows, or lower min_group_size."
        )
    if cells.joint:
        _require_joint_cells(cells, attributes, data)


def _require_joint_cells(cells: Cells, attributes: Sequence[Groups], data: Labelled) -> None:
    """Refuse groups that are not there in an outcome, be it one in which nothing is asked for."""
    for targets in model_targets(cells, attributes, data):
        absent = np.flatnonzero(targets.sizes() == 0)
        if len(absent):
            raise ValueError(
                "To learn class and group together takes rows of every group in every class: there is none "
                f"of (class, group) {targets.labels[absent[0]]!r}. Join groups or classes, or multiply two "
                'models with joint="product".'
            )


def needs_labelled(cells: Cells, known: Sequence[Groups] | None, aware: bool = False) -> bool:
    """Whether a model of the group is measured on labelled rows: the others have not all of the groups."""
    if aware or len(cells.names) > 1:
        return False  # nothing is measured
    return known is None or cells.joint or len(np.unique(known[0].codes)) < len(cells.groups[0])


def diagnose(
    cells: Cells,
    labelled: ModelOutputs,
    codes: IntArray,
    weights: FloatArray | None,
    outputs: ModelOutputs,
    known: Sequence[Groups] | None,
    rows: Rows,
) -> CalibrationDiagnosis:
    """How far the model of the group is from calibrated, for a policy with the shares of the rows.

    The labelled rows, with the codes of their groups and their weights, serve where the groups of the others
    are not known. Their scores are by models that have not seen them: fitted ones tell outcomes apart, and
    with these groups, that a policy will not see.
    """
    labels = cells.model_labels(0)
    measured = labelled
    if known is not None and not needs_labelled(cells, known):
        measured, codes, weights = outputs, known[0].codes, rows.weights
    modelled = outputs.modelled[0]
    shares = modelled.mean(axis=0) if rows.weights is None else rows.weights @ modelled
    return diagnose_calibration(
        measured.modelled[0],
        codes,
        labels,
        shares,
        scores=_one_number(measured.scores),
        sample_weight=weights,
    )


def _one_number(scores: FloatArray) -> FloatArray:
    """Scores to sort rows by: of class probabilities that of the second of two, or the likeliest class."""
    if scores.ndim == 1:
        return scores
    return scores[:, 1] if scores.shape[1] == 2 else scores.argmax(axis=1).astype(np.float64)


def unwrap_single(parts: list[Any]) -> Any:
    """The one element of a list of one, None for an empty list, or the list itself."""
    return parts if len(parts) > 1 else next(iter(parts), None)
