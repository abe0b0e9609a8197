"""How far the groups' distributions are apart: one function, and one for each distance."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.labels import read_groups
from evenhand._utils.scalars import check_flag
from evenhand._utils.typing import FloatArray
from evenhand.metrics._inputs import as_vector, as_weights, count_rows
from evenhand.metrics.distances import (
    Metric,
    distances_between,
    find_distance,
    group_distances,
    pairs_of,
    settle_metric,
)
from evenhand.metrics.masses import GroupMasses, Predictions, read_rows
from evenhand.metrics.membership import Membership


def unfairness(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    metric: Metric = "ks",
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
    given: ArrayLike | None = None,
) -> dict[Hashable, float]:
    """Distance between the predictions of each group and of all rows, or of each pair of groups.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
        Probability of each atom in each row, columns in the order of the atoms, or one value for each row.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each row, labels of any type; of several columns, every combination that is there is a group.
        Rows whose group is missing are left out. Or, where the group is not known, the probability of each:
        columns of floats that sum to one (`unfairness_bounds` has what they may hide).
    atoms : array of shape (n_atoms,), optional
        Value of each column; with a pmf `"w1"`, `"w2"`, `"mean"` and the distances of notions need them.
    metric : {"ks", "tv", "w1", "w2", "sup", "mean", "thresholds"} or parity notion, default="ks"
        `"ks"`: largest difference of the distribution functions (paper, "Evaluation measures");
        `"tv"`: largest difference in the probability of any event; `"w1"`, `"w2"`: Wasserstein distances;
        `"sup"`: largest difference in the probability of one atom; `"mean"`: difference of the means.
        `evenhand.Thresholds([...])` is the largest difference in the share above one of these, and
        `"thresholds"` that in the share above everybody's median.
        A notion of your own (`evenhand.parity`), or its name once it is registered, stands for its distance.
    sample_weight : array of shape (n,), optional
        Weight of each row.
    pairwise : bool, default=False
        Compare every two groups instead of each with all rows.
    given : array of shape (n,), optional
        Stratum of each row, say a legitimate factor or the true outcome: groups are then compared within
        each stratum, and keys are `(stratum, group)`.

    Returns
    -------
    dict
        The distance by the group's label, in sorted order, or by the two labels; 0 is parity.

    Examples
    --------
    >>> from evenhand.metrics import unfairness
    >>> unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"], metric="mean")
    {'a': 1.0, 'b': 1.0}
    >>> unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"], metric="w2", pairwise=True)
    {('a', 'b'): 2.0}
    """
    check_metric(metric)
    pairwise = check_flag(pairwise, "pairwise")
    predictions, members, rows = read_rows(pmf_or_values, sensitive_features, atoms, sample_weight)
    check_metric(metric, predictions)
    if given is None:
        return _distances(predictions, members, metric, pairwise)
    strata = read_groups(given, count_rows(pmf_or_values), "given").take(rows)
    found: dict[Hashable, float] = {}
    for _, places, part in members.within(strata).parts():
        cells: dict[Any, float] = _distances(predictions.part(places), part, metric, pairwise)
        if pairwise:
            cells = {(stratum, (one, other)): each for ((stratum, one), (_, other)), each in cells.items()}
        found |= cells
    return found


def _distances(
    predictions: Predictions, members: Membership, metric: Metric, pairwise: bool
) -> dict[Hashable, float]:
    """Distances by the labels of the groups, or of the pairs of them."""
    distances = group_distances(predictions.masses(members), metric, pairwise)
    return dict(zip(contrast_labels(members.labels, pairwise), distances.tolist(), strict=True))


def ks_unfairness(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
) -> dict[Hashable, float]:
    """Kolmogorov-Smirnov distance between each group and all rows (paper, "Evaluation measures").

        U_s = sup_t | F_s(t) - F(t) |

    where F_s is the distribution of the prediction over the rows of group s, and F the one over all rows.
    `unfairness` has more on the parameters.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
    atoms : array of shape (n_atoms,), optional
        Value of each column of a pmf; only checked, since the distance depends on their order alone.
    sample_weight : array of shape (n,), optional
    pairwise : bool, default=False
        Compare every two groups instead of each with all rows.

    Examples
    --------
    >>> from evenhand.metrics import ks_unfairness
    >>> ks_unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"])
    {'a': 0.5, 'b': 0.5}
    """
    return unfairness(
        pmf_or_values, sensitive_features, atoms, metric="ks", sample_weight=sample_weight, pairwise=pairwise
    )


def tv_unfairness(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
) -> dict[Hashable, float]:
    """Total variation distance between each group and all rows.

        U_s = 1/2 sum_l | P_s(y_l) - P(y_l) |

    where P_s(y_l) is the share of the prediction y_l over the rows of group s, and P(y_l) over all rows.
    It only knows equal from different: plain values without ties give 1 less the share of the group,
    whatever they are, so round such values first. `unfairness` has more on the parameters.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
    atoms : array of shape (n_atoms,), optional
        Value of each column of a pmf; only checked, since the distance does not depend on them.
    sample_weight : array of shape (n,), optional
    pairwise : bool, default=False
        Compare every two groups instead of each with all rows.

    Examples
    --------
    >>> from evenhand.metrics import tv_unfairness
    >>> tv_unfairness([1.0, 2.0, 2.0, 3.0], ["a", "a", "b", "b"])
    {'a': 0.25, 'b': 0.25}
    """
    return unfairness(
        pmf_or_values, sensitive_features, atoms, metric="tv", sample_weight=sample_weight, pairwise=pairwise
    )


def w1_unfairness(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
) -> dict[Hashable, float]:
    """Wasserstein-1 distance between each group and all rows, in the units of the prediction.

        U_s = integral | F_s(t) - F(t) | dt

    with F_s and F as in `ks_unfairness`: how far predictions have to move, on average, to make the group's
    distribution the one of all rows. `unfairness` has more on the parameters.

    Parameters
    ----------
    pmf_or_values : array of shape (n, n_atoms) or (n,)
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
    atoms : array of shape (n_atoms,), optional
        Value of each column of a pmf, which needs them.
    sample_weight : array of shape (n,), optional
    pairwise : bool, default=False
        Compare every two groups instead of each with all rows.

    Examples
    --------
    >>> from evenhand.metrics import w1_unfairness
    >>> w1_unfairness([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"])
    {'a': 1.0, 'b': 1.0}
    """
    return unfairness(
        pmf_or_values, sensitive_features, atoms, metric="w1", sample_weight=sample_weight, pairwise=pairwise
    )


def parity_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    sensitive_features: Any,
    metric: Metric = "ks",
    sample_weight: ArrayLike | None = None,
) -> float:
    """Minus the largest distance between a group and all rows: 0 is parity, and greater is better.

    `make_scorer(parity_score).set_score_request(sensitive_features=True)` is a scikit-learn scorer, where
    metadata routing is enabled (`evenhand.scoring.parity_scorer` needs none). The target is not read.

    Parameters
    ----------
    y_true : array or None
    y_pred : array of shape (n,) or (n, n_atoms)
    sensitive_features, metric, sample_weight
        As in `unfairness`.

    Examples
    --------
    >>> from evenhand.metrics import parity_score
    >>> parity_score(None, [1.0, 2.0, 3.0, 4.0], sensitive_features=["a", "a", "b", "b"])
    -0.5
    """
    found = unfairness(y_pred, sensitive_features, metric=metric, sample_weight=sample_weight)
    return -max(found.values())


def distance_to(
    reference: ArrayLike, metric: Metric = "ks", sample_weight: ArrayLike | None = None
) -> Callable[..., float]:
    """A metric `(y_true, y_pred, sample_weight=None)`: the distance of y_pred to the values `reference`.

    This is how a distance to all rows goes into fairlearn's `MetricFrame`, which shows a metric one group
    at a time: `MetricFrame(metrics={"ks": distance_to(y_pred)}, ...)`. The target is not read.

    Parameters
    ----------
    reference : array of shape (n,)
        Values to compare with, such as the predictions of all rows.
    metric : as in `unfairness`, default="ks"
    sample_weight : array of shape (n,), optional
        Weights of `reference`.

    Examples
    --------
    >>> from evenhand.metrics import distance_to
    >>> ks = distance_to([1.0, 2.0, 3.0, 4.0])
    >>> ks(None, [1.0, 2.0])
    0.5
    """
    check_metric(metric)
    others = as_vector("reference", reference)
    weights = as_weights(sample_weight, len(others))

    def distance(y_true: ArrayLike, y_pred: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        values = as_vector("y_pred", y_pred)
        own = as_weights(sample_weight, len(values))
        codes = np.repeat([0, 1], [len(values), len(others)])
        both = np.concatenate([_or_ones(own, len(values)), _or_ones(weights, len(others))])
        members = Membership(("own", "reference"), codes=codes, weights=both)
        groups = GroupMasses.of_values(np.concatenate([values, others]), members)
        first, second = groups.distributions()
        settled = settle_metric(metric, groups.points, groups.masses[1])
        return float(distances_between(settled, first, second, groups.points))

    distance.__name__ = f"{find_distance(metric).name}_distance"
    return distance


def contrast_labels(labels: tuple[Hashable, ...], pairwise: bool) -> tuple[Hashable, ...]:
    """Labels of the groups, or of the pairs of them."""
    if not pairwise:
        return labels
    return tuple(
        (labels[first], labels[second]) for first, second in zip(*pairs_of(len(labels)), strict=True)
    )


def check_metric(metric: Metric, predictions: Predictions | None = None) -> None:
    """Refuse an unknown metric, or one that needs the atoms it was not given."""
    distance = find_distance(metric)
    if predictions is not None and predictions.points is None and distance.needs_points:
        raise ValueError(
            f"{distance.name}_unfairness needs the atoms of a pmf: pass atoms=, the value of each of its "
            "columns."
        )


def _or_ones(weights: FloatArray | None, n_rows: int) -> FloatArray:
    return np.ones(n_rows) if weights is None else weights
