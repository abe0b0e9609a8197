"""Rows of predictions, counted in their groups: what a picture of a model is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Labels, check_group_proba, check_rows_of, check_weights
from evenhand.dual.notion import ParityNotion
from evenhand.dual.parity import find_parity
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.metrics import Membership
from evenhand.metrics._inputs import Blocks, as_atoms, as_vector, checked_blocks
from evenhand.metrics.masses import GroupMasses, Predictions
from evenhand.metrics.measure import policy_blocks
from evenhand.metrics.resampling import MOST_POINTS, noise_floor

MOST_DRAWN_FROM = 4000  # rows: chance is told from as many, whatever the number of all
N_DRAWS = 60  # of random groups: their mean gap is then known to about a twentieth


class PolicyModel(Protocol):
    """A fitted post-processor, as far as a picture shows it."""

    groups_: AnyArray
    atoms_: FloatArray
    epsilon_: FloatArray
    policy_: SoftmaxPolicy
    parity_: str | ParityNotion


@dataclass(frozen=True, slots=True, eq=False)
class ModelRows:
    """Rows before and after a model, and the groups that they are counted in."""

    members: Membership
    before: FloatArray | None  # (n_rows,), or class probabilities (n_rows, n_classes); None: not known
    after: Predictions | Blocks  # Blocks can be read once
    atoms: FloatArray  # (n_atoms,), of the blocks
    classes: Labels | None = None  # names of the atoms, where these are classes
    step: PolicyModel | None = None

    @classmethod
    def read(
        cls, model: Any, given: Sequence[Any], named: Mapping[str, Any], sample_weight: Any
    ) -> "ModelRows":
        """What a user passes to `from_model`: rows as the model takes them, and their groups if known."""
        model, given = unwrap_model(model, given)
        is_step = hasattr(model, "policy_") and not hasattr(model, "predict_scores")
        is_step = is_step or type(model).__name__ == "ParityPostprocessor"
        inputs = ("scores", "group_proba") if is_step else ("X",)
        told = _named_rows(model, (*inputs, "sensitive_features"), given, named)
        known = told.get("sensitive_features")
        if is_step:
            scores, group_proba = told["scores"], told["group_proba"]
            return cls._of_step(model, scores, group_proba, known, sample_weight, None)
        if hasattr(model, "predict_scores"):
            groups = known if getattr(model, "aware", False) else None
            scores, group_proba = model.predict_scores(told["X"], sensitive_features=groups)
            classes = getattr(model, "classes_", None)
            names = None if classes is None else tuple(classes.tolist())
            return cls._of_step(model, scores, group_proba, known, sample_weight, names)
        if known is None:
            raise TypeError(
                f"{type(model).__name__} knows no groups: pass those of the rows, "
                "from_model(model, X, sensitive_features)."
            )
        return cls._of_other(model, told["X"], known, sample_weight)

    @classmethod
    def _of_step(
        cls,
        step: PolicyModel,
        scores: Any,
        group_proba: Any,
        known: Any,
        sample_weight: Any,
        classes: Labels | None,
    ) -> "ModelRows":
        check_is_fitted(step, "policy_")
        policy, groups = step.policy_, tuple(step.groups_.tolist())
        if known is None and policy.strata is not None:
            raise ValueError(
                "This model compares groups within strata: pass sensitive_features, the groups to draw."
            )
        rows = check_rows_of(scores, group_proba, groups, policy.strata, policy.cost.n_classes)
        n_rows = len(rows.scores)
        shares = None if policy.strata is not None else rows.group_proba
        members = members_of(known, n_rows, sample_weight, shares)
        if known is None:
            members = replace(members, labels=groups)
        if policy.cost.n_classes is not None and classes is None:
            classes = tuple(range(len(step.atoms_)))
        blocks = policy_blocks(policy, rows.scores, rows.group_proba)
        return cls(members, rows.scores, blocks, step.atoms_, classes, step)

    @classmethod
    def _of_other(cls, model: Any, X: Any, known: Any, sample_weight: Any) -> "ModelRows":
        """Rows of any model that predicts: of what it starts from nothing is known, but for a baseline's."""
        if hasattr(model, "predict_pmf"):
            pmf = model.predict_pmf(X, sensitive_features=known)
            base = getattr(model, "estimator_", None)
            old = None if base is None else as_vector("the predictions", np.ravel(base.predict(X)))
            members = members_of(known, len(pmf), sample_weight)
            return cls(members, old, checked_blocks(pmf), model.atoms_)
        found = np.asarray(model.predict(X))
        members = members_of(known, len(found), sample_weight)
        labels = getattr(model, "classes_", None)
        if labels is None:
            values = as_vector("the predictions", found.ravel())
            return cls(members, None, Predictions.read(values, None), np.unique(values))
        atoms = np.arange(len(labels), dtype=np.float64)
        places = np.searchsorted(labels, found)
        after = Predictions(len(places), len(atoms), atoms, places=places)
        return cls(members, None, after, atoms, tuple(np.asarray(labels).tolist()))

    def cheapest(self) -> Predictions | None:
        """What would be predicted without the parity step; None where that is not known."""
        if self.before is None:
            return None
        if self.classes is None:
            return Predictions.read(self.before, None)
        assert self.step is not None
        places = self.step.policy_.cost.cheapest(self.before, self.atoms)
        return Predictions(len(places), len(self.atoms), self.atoms, places=places)

    def epsilon(self, metric: str) -> FloatArray | None:
        """What was asked for, (n_groups,); None where that is about another distance, or other groups."""
        if self.step is None or self.step.policy_.strata is not None:
            return None
        asked, two = find_parity(self.step.parity_).metric, len(self.atoms) == 2
        if asked != metric and not (two and asked in ("ks", "sup", "tv")):
            return None
        groups, values, labels = self.step.groups_.tolist(), self.step.epsilon_, self.members.labels
        by_group = dict(zip(groups, values.tolist(), strict=True))
        if set(labels) <= set(by_group):
            return np.array([by_group[label] for label in labels])
        # Columns without names are 0, 1, ...: as many groups are taken to be the same, by other names.
        nameless = groups == list(range(len(labels)))
        return values.copy() if nameless and np.ptp(values) == 0.0 else None

    def measured(self, metric: str) -> tuple[GroupMasses, FloatArray]:
        """Masses of the model's predictions, and what chance alone would show, (n_groups,)."""
        if isinstance(self.after, Predictions):
            return self.after.masses(self.members), chance_gaps(self.after, self.members, metric)
        part = _Part(_some_rows(self.members.n_rows))
        masses = GroupMasses.of_blocks(part.collect(self.after), self.members, self.atoms)
        return masses, chance_gaps(part.predictions(self.atoms), self.members, metric)


class _Part:
    """A few rows of a pmf, kept while it is read block by block: the whole is never in memory."""

    def __init__(self, rows: IntArray) -> None:
        self.rows = rows
        self.kept: list[FloatArray] = []

    def collect(self, blocks: Blocks) -> Blocks:
        """The same blocks."""
        for rows, block in blocks:
            first, last = np.searchsorted(self.rows, [rows.start, rows.stop])
            self.kept.append(block[self.rows[first:last] - rows.start])
            yield rows, block

    def predictions(self, atoms: FloatArray) -> Predictions:
        return Predictions(len(self.rows), len(atoms), atoms, pmf=np.concatenate(self.kept))


def _some_rows(n_rows: int) -> IntArray:
    if n_rows <= MOST_DRAWN_FROM:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, MOST_DRAWN_FROM, replace=False))


def chance_gaps(predictions: Predictions, members: Membership, metric: str = "ks") -> FloatArray:
    """Mean distance that groups of these sizes show where they are alike, (n_groups,).

    `predictions` are of all rows, or of some that stand for them.
    """
    merged = predictions.merged(MOST_POINTS)
    alone = Membership(("all",), np.zeros(merged.n_rows, np.int64))
    rng = np.random.default_rng(0)
    floor = noise_floor((metric,), merged, members, merged.masses(alone), n_draws=N_DRAWS, rng=rng)
    mean: FloatArray = floor[metric].mean(axis=0)
    return mean


def unwrap_model(model: Any, given: Sequence[Any] = ()) -> tuple[Any, tuple[Any, ...]]:
    """The model inside a search or a pipeline, and X as it sees it."""
    rows = tuple(given)
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "steps"):
            if rows and len(model.steps) > 1:
                rows = (model[:-1].transform(rows[0]), *rows[1:])
            model = model[-1]
        else:
            return model, rows


def _named_rows(
    model: Any, names: tuple[str, ...], given: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments by name, whichever way they were passed."""
    told = dict(zip(names, given, strict=False))
    unknown = [name for name in named if name not in names or name in told]
    told |= named
    missing = [name for name in names[:-1] if told.get(name) is None]
    if unknown or missing or len(given) > len(names):
        wrong = f"{unknown[0]!r} is not among them or is there twice" if unknown else "too many were passed"
        wrong = f"{missing[0]!r} is missing" if missing else wrong
        raise TypeError(f"from_model of a {type(model).__name__} takes {', '.join(names)}: {wrong}.")
    return told


def members_of(
    sensitive_features: Any, n_rows: int, sample_weight: Any = None, group_proba: Any = None
) -> Membership:
    """Rows in the groups that they are said to be in, or else in all of them by `group_proba`.

    Rows whose group is missing are in none, and so in no curve.
    """
    weights = None if sample_weight is None else check_weights(sample_weight, n_rows)
    if sensitive_features is not None or group_proba is None:
        rows, members = Membership.read_known(sensitive_features, n_rows, weights)
        if members.n_rows == n_rows:
            return members
        cells = np.zeros((n_rows, len(members.labels)))
        kinds = np.eye(len(members.labels)) if members.shares is None else members.shares
        cells[rows] = kinds[members.codes]
        return Membership.of_cells(members.labels, cells, None, weights)
    shares, labels = check_group_proba(group_proba, n_rows)
    return Membership.of_proba(labels, shares, weights).require_rows()


def count_unknown(members: Membership) -> int:
    """Rows that are in no group, since theirs is missing."""
    if members.shares is None:
        return 0
    nowhere: AnyArray = members.shares.sum(axis=1) == 0
    return int(nowhere[members.codes].sum())


def pmf_of(pmf: Any, name: str, n_rows: int, atoms: Any) -> tuple[Blocks, FloatArray]:
    """Checked blocks of a pmf, and the value of each of its columns."""
    table = np.asarray(pmf)
    if len(table) != n_rows:
        raise ValueError(f"{name} has {len(table)} rows, but there are {n_rows} old ones.")
    if atoms is None:
        raise ValueError(f"{name} is a pmf and needs its atoms: pass atoms=, the value of each column.")
    return checked_blocks(table), as_atoms(atoms, table.shape[1])
