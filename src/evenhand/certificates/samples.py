"""Held-out rows reduced to what bounds need: sums by group of functions of the prediction."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.labels import Groups, match_groups, read_groups, read_one_sensitive
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import as_floats
from evenhand.dual.imbalance import stratum_sums
from evenhand.dual.parity import Thresholds
from evenhand.metrics import GroupMasses, Membership, group_distances
from evenhand.metrics._inputs import Blocks, as_atoms, as_prediction, block_slices, checked, checked_blocks
from evenhand.metrics.distances import Metric, find_distance

Kind = Literal["pmf", "values"]
BOUNDED = ("ks", "tv", "w1", "sup", "mean")  # the distances that held-out rows bound
IN_OUTCOME_UNITS = ("w1", "mean")


def check_bounded(metric: Metric, predictions: Any = None) -> Metric:
    """The metric, if held-out rows can bound it; "thresholds" is what a model was asked for."""
    if isinstance(metric, str) and metric in BOUNDED:
        return metric
    asked = getattr(predictions, "parity_", None)
    if isinstance(metric, str) and metric == Thresholds.name and asked is not None:
        metric = asked
    if isinstance(metric, Thresholds):
        if metric.quantiles and metric.quantile_values is None:
            raise ValueError(
                f"Nothing about the predictor may be chosen on held-out rows, so quantiles of theirs bound "
                f"nothing: name the thresholds, or take a fitted model's, {Thresholds.__name__}(...) or "
                f"parity_. Got {metric!r}."
            )
        return metric
    raise ValueError(
        f"metric must be one of {', '.join(BOUNDED)}, or evenhand.Thresholds([...]): got {metric!r}."
    )


class PmfModel(Protocol):
    """A fitted model that tells the chance of each of its atoms for each row."""

    @property
    def atoms_(self) -> FloatArray:
        """What can be predicted, (n_atoms,)."""
        ...

    def predict_pmf(self, *inputs: Any, **known: Any) -> FloatArray:
        """Probability of each atom for each row, (n_rows, n_atoms)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutSample:
    """What held-out rows show of each group, for one distance.

    The functions have values in [0, 1]. For "ks" they are the chances of at most each point, for "sup" those
    of each point, for thresholds those of more than each, for "mean" there is one, the mean of the row on a
    scale from the least atom to the largest. "tv" and "w1" need only the masses.
    """

    metric: Metric
    kind: Kind
    masses: GroupMasses
    counts: IntArray  # rows of each group, (n_groups,)
    powers: FloatArray | None  # sums of the functions, of squares and cubes, (3, n_groups, n_functions)
    n_atoms: int | None  # where known beforehand
    unit: float = 1.0  # the largest distance there can be

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The groups, also those without rows."""
        return self.masses.labels

    def strata(self) -> list[IntArray]:
        """Groups that are compared with each other: those of each stratum."""
        strata = self.masses.strata
        if strata is None:
            return [np.arange(len(self.counts))]
        return [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]

    def totals(self) -> IntArray:
        """Rows of all groups of each group's stratum, (n_groups,)."""
        strata = self.masses.strata
        if strata is None:
            return np.full_like(self.counts, self.counts.sum())
        totals: IntArray = np.rint(stratum_sums(self.counts[None].astype(float), strata)[0]).astype(np.int64)
        return totals

    def estimate(self) -> FloatArray:
        """Distance of each group to all rows of its stratum; nan for groups without rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts > 0, group_distances(self.masses, self.metric), np.nan)


def named_groups(
    sensitive_features: Any,
    n_rows: int,
    groups: Sequence[Hashable] | None,
    known: Sequence[Hashable] = (),
    *,
    partial: bool = False,
) -> Groups:
    """The groups of the rows among all that there are: those that are named, or else known to a model.

    With `partial` some may be unknown, or known by probabilities alone.

    >>> named_groups(["a", "b"], 2, None, known=["a", "b", "c"]).labels
    ('a', 'b', 'c')
    """
    if partial:
        there = read_one_sensitive(sensitive_features, n_rows).settled()
    else:
        there = read_groups(sensitive_features, n_rows)
    if groups is not None:
        labels = tuple(dict.fromkeys(groups))
        unnamed = [label for label in there.labels if label not in labels]
        if unnamed:
            raise ValueError(
                f"sensitive_features has groups that groups= does not name: {', '.join(map(repr, unnamed))}."
            )
        return match_groups(there, labels, "sensitive_features")
    if not set(there.labels) & set(known):  # other names, or codes: they say nothing of absent groups
        return there
    more = [label for label in there.labels if label not in known]
    return match_groups(there, (*known, *more), "sensitive_features")


def draw_groups(groups: Groups, seed: int = 0) -> Groups:
    """A group for each row, drawn once from its probabilities.

    Where these are right, given the prediction, too, the drawn groups go with the prediction as the true ones
    do, so that what is proved of the ones is true of the others.

    >>> draw_groups(Groups(("a", "b"), np.array([1, 0]), proba=np.array([[0.0, 1.0], [1.0, 0.0]]))).codes
    array([1, 0])
    """
    assert groups.proba is not None
    drawn = np.random.default_rng(seed).random(len(groups.codes))[:, None]
    codes = (np.cumsum(groups.proba, axis=1)[:, :-1] <= drawn).sum(axis=1)
    return Groups(groups.labels, np.where(groups.known, codes, groups.codes), groups.kind)


def take_known(groups: Groups, predictions: Any, X: Any, told: Any) -> tuple[Groups, Any, Any, Any]:
    """Groups, predictions, X and what an aware model is told, for the rows whose group is known."""
    rows = np.flatnonzero(groups.known)
    if len(rows) == len(groups.codes):
        return groups, predictions, X, told
    if not hasattr(predictions, "predict_pmf"):
        predictions = as_prediction(predictions, "predictions")[rows]
    if X is not None:
        inputs = tuple(_safe_indexing(each, rows) for each in _inputs(X))
        X = inputs if isinstance(X, tuple) else inputs[0]
    told = _safe_indexing(told, rows) if getattr(predictions, "aware", False) else told
    return groups.at(rows), predictions, X, told


def known_groups(predictions: Any) -> list[Hashable]:
    """The groups that a fitted model names, where it is for one set of groups."""
    labels = getattr(predictions, "groups_", None)
    return [] if labels is None else np.asarray(labels, dtype=object).ravel().tolist()


def count_rows(predictions: Any, X: Any) -> int:
    """Number of held-out rows."""
    if not hasattr(predictions, "predict_pmf"):
        return len(as_prediction(predictions, "predictions"))
    if X is None:
        raise ValueError("A model needs X=, the rows to predict; a post-processor X=(scores, group_proba).")
    return int(_num_samples(_inputs(X)[0]))


def read_sample(
    predictions: Any,
    members: Membership,
    metric: Metric,
    *,
    X: Any = None,
    atoms: Any = None,
    known: Any = None,
) -> HeldOutSample:
    """What rows show: a pmf, values, or a model that is asked for its pmf of `X`, block by block.

    `known` are the groups that a model which is told them sees.

    >>> members = Membership(("a", "b"), np.array([0, 0, 1]))
    >>> sample = read_sample([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]], members, "ks")
    >>> sample.counts, sample.powers[:, 0, 0]
    (array([2, 1]), array([0.5  , 0.25 , 0.125]))
    """
    if hasattr(predictions, "predict_pmf"):
        blocks = checked(_predicted(predictions, _inputs(X), known))
        return _of_pmf(blocks, members, predictions.atoms_, metric)
    values = as_prediction(predictions, "predictions")
    if values.ndim == 2:
        return _of_pmf(checked_blocks(values), members, atoms, metric)
    return _of_values(values, members, atoms, metric)


def _of_values(values: FloatArray, members: Membership, atoms: Any, metric: Metric) -> HeldOutSample:
    masses = GroupMasses.of_values(values, members)
    counts = np.rint(masses.masses.sum(axis=1)).astype(np.int64)
    if atoms is None:
        if metric not in ("ks", "sup") and isinstance(metric, str):
            raise ValueError(
                f'metric="{metric}" needs atoms=, all that the predictor can give: no rows can bound the '
                f"{metric} distance of values on an unknown set."
            )
        return HeldOutSample(metric, "values", masses, counts, _value_powers(masses, metric), None)
    grid = np.unique(as_floats(atoms, "atoms"))
    if not np.isin(values, grid).all():
        raise ValueError("predictions has values that are not among the atoms; leave atoms out.")
    powers = _mean_of_values(masses, grid) if metric == "mean" else _value_powers(masses, metric)
    return HeldOutSample(metric, "values", masses, counts, powers, len(grid), _unit(grid, metric))


def _value_powers(masses: GroupMasses, metric: Metric) -> FloatArray | None:
    """Of indicators, whose powers are themselves; a point that no row has is among them."""
    if isinstance(metric, Thresholds):
        assert masses.points is not None
        above = masses.masses @ metric.operator(masses.points).T
        return np.broadcast_to(above, (3, *above.shape))
    if metric not in ("ks", "sup"):
        return None
    none = np.zeros((len(masses.masses), 1))
    hits = np.cumsum(masses.masses, axis=1) if metric == "ks" else masses.masses
    return np.broadcast_to(np.concatenate([none, hits], axis=1), (3, len(none), 1 + hits.shape[1]))


def _mean_of_values(masses: GroupMasses, grid: FloatArray) -> FloatArray:
    assert masses.points is not None
    places = (masses.points - grid[0]) / max(grid[-1] - grid[0], 1e-300)
    return np.stack([masses.masses @ places**power for power in (1, 2, 3)])[:, :, None]


def _of_pmf(blocks: Blocks, members: Membership, atoms: Any, metric: Metric) -> HeldOutSample:
    """Sums by group of pmfs whose rows are scaled to sum to one exactly; each block is dropped."""
    needs_points = metric in IN_OUTCOME_UNITS or isinstance(metric, Thresholds)
    if needs_points and atoms is None:
        raise ValueError(
            f'metric="{find_distance(metric).name}" needs atoms=, the value of each column of the pmf.'
        )
    points: FloatArray | None = None
    masses: Any = 0.0
    powers: Any = 0.0
    with one_blas_thread():
        for rows, block in blocks:
            if needs_points and points is None:
                points = as_atoms(atoms, block.shape[1])
            pmf = block / block.sum(axis=1, keepdims=True)
            masses = masses + members.sums(pmf, rows)[:-1]
            if metric not in ("tv", "w1"):
                powers = powers + _row_powers(pmf, members, rows, metric, points)
    counts = np.rint(masses.sum(axis=1)).astype(np.int64)
    spread = GroupMasses(members.labels, masses, points, members.strata)
    sums = None if isinstance(powers, float) else powers
    unit = 1.0 if points is None else _unit(points, metric)
    return HeldOutSample(metric, "pmf", spread, counts, sums, masses.shape[1], unit)


def _row_powers(
    pmf: FloatArray, members: Membership, rows: slice, metric: Metric, points: FloatArray | None
) -> FloatArray:
    """Sums of the functions of some rows, of their squares and cubes, (3, n_groups, n_functions)."""
    function = pmf
    if metric == "ks":
        function = np.cumsum(pmf, axis=1)[:, : max(1, pmf.shape[1] - 1)]
    elif isinstance(metric, Thresholds):
        assert points is not None
        function = pmf @ metric.operator(points).T
    elif metric == "mean":
        assert points is not None
        function = (pmf @ ((points - points[0]) / max(points[-1] - points[0], 1e-300)))[:, None]
    function = np.clip(function, 0.0, 1.0)
    sums = [members.sums(function, rows)[:-1]]
    square = function * function
    sums.append(members.sums(square, rows)[:-1])
    np.multiply(square, function, out=square)
    sums.append(members.sums(square, rows)[:-1])
    return np.stack(sums)


def _unit(grid: FloatArray, metric: Metric) -> float:
    return float(grid[-1] - grid[0]) if metric in IN_OUTCOME_UNITS else 1.0


def _inputs(X: Any) -> tuple[Any, ...]:
    return X if isinstance(X, tuple) else (X,)


def _predicted(model: PmfModel, inputs: tuple[Any, ...], known: AnyArray | None) -> Blocks:
    """The model's pmf, block by block, so that memory does not grow with the rows."""
    aware = getattr(model, "aware", False)
    for rows in block_slices(_num_samples(inputs[0]), len(model.atoms_)):
        places = np.arange(rows.start, rows.stop)
        told = {"sensitive_features": _safe_indexing(known, places)} if aware else {}
        yield rows, model.predict_pmf(*(_safe_indexing(each, places) for each in inputs), **told)
