"""What policies cost, and how alike they treat the groups, on rows that no fit has seen."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import FloatArray, IntArray
from evenhand._utils.validation import Labels, Rows, as_floats, check_weights
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.groups import encode_groups, label_columns, row_labels
from evenhand.estimators.learning import encode_attributes
from evenhand.estimators.nuisances import class_codes
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.metrics import BLOCK_ENTRIES, DISTANCES, GroupMasses, Membership
from evenhand.metrics.distances import find_distance, group_distances, own_distances

KNOWN = ("y", "sensitive_features", "sample_weight")  # what may be known of held-out rows


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """Risk of a prediction, and its distances between each group and all rows."""

    groups: tuple[Hashable, ...]
    risk: float
    distances: dict[str, FloatArray]  # by name, each (n_groups,)

    def largest(self, distance: str) -> float:
        """The distance of the group that is farthest away."""
        return float(self.distances[distance].max())


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Scored rows with what is known of them."""

    scores: FloatArray  # eta, (n_rows,), or class probabilities (n_rows, n_classes)
    group_proba: FloatArray  # tau, (n_rows, n_groups)
    members: Membership  # the groups themselves, or tau where they are not known
    target: FloatArray | None = None  # y, (n_rows,), or zeros and ones (n_rows, n_classes)
    strata: IntArray | None = None  # stratum of each group of `members`, (n_groups,)

    def measure(self, policy: SoftmaxPolicy) -> Measures:
        """Measures of a policy; the risk is against the target, or against the scores where there is none.

        Its pmf is made and dropped block by block, so that memory does not grow with the rows.
        """
        atoms = policy.support.atoms
        target = self.scores if self.target is None else self.target
        losses = np.empty(len(self.scores))
        masses = np.zeros((len(self.members.labels), len(atoms)))
        size = max(1, BLOCK_ENTRIES // len(atoms))
        with one_blas_thread():  # its products are small, and more threads would fight those of the policy
            for start in range(0, len(losses), size):
                rows = slice(start, start + size)
                pmf = policy.pmf(self.scores[rows], self.group_proba[rows])
                losses[rows] = policy.cost.expected(pmf, target[rows], atoms)
                masses += self.members.of_rows(rows) @ pmf
        groups = GroupMasses(self.members.labels, masses, atoms)
        distances = {name: self._distances(groups, name) for name in (*DISTANCES, *own_distances())}
        return Measures(groups.labels, self._average(losses), distances)

    def measure_scores(self, policy: SoftmaxPolicy) -> Measures:
        """Measures of the scores as they are, before any parity step, or of the atom that they make cheapest.

        The latter where scores are not means, and always for the total variation: it sees no
        more than whether two values are equal, and would call scores without ties as unfair as can be.
        """
        atoms, cost = policy.support.atoms, policy.cost
        target = self.scores if self.target is None else self.target
        cheapest = cost.cheapest(self.scores, atoms)
        exact = rounded = GroupMasses.of_values(atoms[cheapest], self.members)
        if cost.scores_are_means:
            exact, losses = GroupMasses.of_values(self.scores, self.members), cost.paired(target, self.scores)
        else:
            losses = np.take_along_axis(cost.table(target, atoms), cheapest[:, None], axis=1)[:, 0]
        distances = {
            name: self._distances(rounded if find_distance(name).needs_ties else exact, name)
            for name in (*DISTANCES, *own_distances())
        }
        return Measures(exact.labels, self._average(losses), distances)

    def _distances(self, groups: GroupMasses, name: str) -> FloatArray:
        """Distance of each group to all rows, or to all of its stratum."""
        if self.strata is None:
            return group_distances(groups, name)
        out = np.empty(len(groups.labels))
        for stratum in np.unique(self.strata):
            inside = np.flatnonzero(self.strata == stratum)
            labels = tuple(groups.labels[group] for group in inside)
            out[inside] = group_distances(GroupMasses(labels, groups.masses[inside], groups.points), name)
        return out

    def _average(self, losses: FloatArray) -> float:
        return float(np.average(losses, weights=self.members.weights))


def read_held_out(test: Any, model: Any, fitted_on: Rows) -> HeldOutRows:
    """The rows that `test` names, scored by `model`; those of the fit where it is None.

    Parameters
    ----------
    test : dict, tuple or None
        As in `evenhand.frontier`.
    model : ParityPostprocessor or ParityRegressor
        Fitted, at any epsilon.
    fitted_on : Rows
    """
    if test is None:
        members = Membership(fitted_on.groups, shares=fitted_on.group_proba, weights=fitted_on.weights)
        return HeldOutRows(fitted_on.scores, fitted_on.group_proba, members, strata=fitted_on.strata)
    given = _named(test, ("scores", "group_proba") if isinstance(model, ParityPostprocessor) else ("X",))
    scores, group_proba = _scored(model, given)
    target, groups, weights = (given.get(name) for name in KNOWN)
    if weights is not None:
        weights = check_weights(weights, len(scores))
    strata = fitted_on.strata
    if groups is None:
        members = Membership(fitted_on.groups, shares=group_proba, weights=weights)
    elif strata is None:
        members = _membership(model, groups, len(scores), weights)
    else:
        members, strata = _cell_membership(model, given, len(scores), fitted_on, weights)
    _require_mass(members)
    if target is not None:
        target = _check_target(model, target, len(scores))
    return HeldOutRows(scores, group_proba, members, target, strata)


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


def _scored(model: Any, given: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Scores and group probabilities of the rows."""
    if isinstance(model, ParityPostprocessor):
        rows = model._rows(given["scores"], given["group_proba"])
        return rows.scores, rows.group_proba
    groups = given.get("sensitive_features") if model.aware else None
    nuisances: tuple[FloatArray, FloatArray] = model._nuisances(given["X"], groups)
    return nuisances


def _membership(model: Any, groups: Any, n_rows: int, weights: FloatArray | None) -> Membership:
    """Groups of the rows, without those that no row is in.

    A post-processor has seen columns of probabilities only, so that any labels will do for it.
    """
    if isinstance(model, ParityPostprocessor):
        known = encode_groups(row_labels(groups, n_rows))
    else:
        (known,) = encode_attributes(groups, n_rows, model.notion_, "sensitive_features")
    present, codes = np.unique(known.codes, return_inverse=True)
    return Membership(tuple(known.labels[code] for code in present), codes=codes, weights=weights)


def _cell_membership(
    model: Any, given: Mapping[str, Any], n_rows: int, fitted_on: Rows, weights: FloatArray | None
) -> tuple[Membership, IntArray]:
    """Groups of the rows within strata, and the stratum of each, without those that no row is in."""
    assert fitted_on.strata is not None
    if isinstance(model, ParityPostprocessor):
        shares = _known_cells(given["sensitive_features"], n_rows, fitted_on.groups)
    else:
        shares = model._known_columns(given["X"], given.get("y"), given["sensitive_features"])
    present = np.flatnonzero(shares.sum(axis=0) > 0)
    labels = tuple(fitted_on.groups[cell] for cell in present)
    members = Membership(labels, shares=shares[:, present], weights=weights)
    return members, fitted_on.strata[present]


def _known_cells(cells: Any, n_rows: int, groups: Labels) -> FloatArray:
    """Which groups of which strata rows are in, as the user of a post-processor says: only they can know."""
    names = [label[1] for label in groups]  # type: ignore[index]
    columns = label_columns(cells, n_rows, "sensitive_features")
    told = set(columns) == set(names)
    if told:
        columns = {name: columns[name] for name in names}
    # names of the user's that are not those of the groups: to go by place would be a guess
    strange = not told and all(isinstance(name, str) for name in (*columns, *names))
    table = np.array(list(columns.values())).T
    if strange or table.shape[1] != len(names) or not np.isin(table, (0, 1)).all():
        raise ValueError(
            "sensitive_features of a ParityPostprocessor with strata says which of its groups each row is "
            f"in: zeros and ones, with a column for each of group_proba ({', '.join(map(str, names))})."
        )
    strata = [label[0] for label in groups]  # type: ignore[index]
    for stratum in dict.fromkeys(strata):
        twice = np.flatnonzero(table[:, [place == stratum for place in strata]].astype(float).sum(axis=1) > 1)
        if len(twice):
            raise ValueError(
                f"sensitive_features has {len(twice)} rows in several groups of stratum {stratum!r}, the "
                f"first of them row {twice[0]}: a row is in one group of a stratum, or in none."
            )
    return table.astype(np.float64)


def _require_mass(members: Membership) -> None:
    for group, label in enumerate(members.labels):
        if not members.column(group).sum() > 0:
            raise ValueError(f"test has no row that counts in group {label!r}: leave it out, or add rows.")


def _check_target(model: Any, y: Any, n_rows: int) -> FloatArray:
    """Outcomes as the cost of the model takes them."""
    n_classes = getattr(model, "postprocessor_", model).policy_.cost.n_classes
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
