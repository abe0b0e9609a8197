"""What group probabilities can hide: the least and the most that a distance may be.

A proxy knows `tau_s(Z) = P(S = s | Z)`, say from surname and place Z, and not the group. In a cell, people of
one Z, two things are known: the share of the group, and the distribution of the prediction. How the two go
together is not: the share of a cell's people who are in group s *and* have a prediction in A lies

    between max(0, tau_s + P(A | z) - 1) and min(tau_s, P(A | z))

(Frechet's bounds), and anything between can be. What is known of the cells adds up: docs/how-to/groups.md has
the derivation, in which cells need not be those of Z itself.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text, read_groups
from evenhand._utils.markup import cell, html_block
from evenhand._utils.text import capital
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.metrics._inputs import count_rows
from evenhand.metrics.distances import METRICS, Metric, find_distance, group_distances
from evenhand.metrics.masses import Predictions, read_rows
from evenhand.metrics.membership import Membership
from evenhand.metrics.possible_laws import PossibleLaws
from evenhand.metrics.unfairness import check_metric

ROWS_OF_A_CELL = 20  # with as many for each distinct row of probabilities on average, each of these is a cell
ROWS_OF_A_BIN = 200  # of probabilities that hardly repeat
MOST_BINS = 20
MOST_CELLS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class UnfairnessBounds:
    """The least and the most that each group's distance may be, whatever the proxy hides."""

    metric: str
    labels: tuple[Hashable, ...]
    estimate: FloatArray  # where the probabilities are right given the prediction, too, (n_groups,) as below
    least: FloatArray
    most: FloatArray
    n_cells: IntArray
    sharp: AnyArray  # whether both can be reached, by what is known of the cells; otherwise they are wider

    def to_dict(self) -> dict[Hashable, tuple[float, float, float]]:
        """Estimate, least and most by group."""
        rows = zip(self.estimate.tolist(), self.least.tolist(), self.most.tolist(), strict=True)
        return dict(zip(self.labels, rows, strict=True))

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group, as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        columns = {
            "group": [label_text(label) for label in self.labels],
            "estimate": self.estimate,
            "least": self.least,
            "most": self.most,
            "cells": self.n_cells,
            "sharp": self.sharp,
        }
        return make_frame(columns, backend)

    def _repr_html_(self) -> str:
        """A table for notebooks, and what it takes for granted."""
        rows = [(label_text(label), *map(cell, figures)) for label, figures in self.to_dict().items()]
        note = (
            "The estimate is right where the prediction tells nothing of a person's group that the "
            "probabilities do not tell. The least and the most hold whatever they hide, where their mean in "
            "each cell of the proxy is the share of the group there."
        )
        heads = ("Group", "Estimate", "At least", "At most")
        return html_block(
            f"{capital(find_distance(self.metric).phrase)} to all, by a proxy", heads, rows, [note]
        )


def unfairness_bounds(
    pmf_or_values: ArrayLike,
    group_proba: Any,
    atoms: ArrayLike | None = None,
    *,
    metric: Metric = "ks",
    proxy: Any = None,
    sample_weight: ArrayLike | None = None,
) -> UnfairnessBounds:
    """The least and the most that each group's distance to all may be, where groups are known by a proxy.

    They hold whatever the dependence between the prediction and the errors of the proxy: all that is asked is
    that in each cell the mean probability is the share of the group. They are about the people of these rows
    and take them for all there are: what chance adds is not in them (`audit` has intervals). A pmf counts as
    the distribution of its row's prediction, however it is drawn.

    Parameters
    ----------
    pmf_or_values, atoms, sample_weight
        As in `unfairness`.
    group_proba : array or data frame of shape (n, n_groups)
        Probability of each group in each row.
    metric : {"ks", "tv", "w1", "w2", "sup", "mean"}, default="ks"
        Of "ks", "sup" and "mean" what is most is sharp, of "tv" and "w1" with few atoms; with many, that of
        "tv" says little. What is least is sharp for small tables, up to 4000 cells times atoms.
    proxy : array or data frame of shape (n,) or (n, n_columns), optional
        What the probabilities were made from, in few values, such as place and surname: a cell is a value of
        it. Without it a cell is a distinct row of probabilities, or, where these hardly repeat, a bin of the
        group's own: larger cells make wider bounds, and never too narrow ones. The predictions of a cell are
        known from its rows, so that it should have many.

    Returns
    -------
    UnfairnessBounds

    Examples
    --------
    Two places of the same size, with 80 % and 20 % of group a; in both, half of the people are above:

    >>> from evenhand.metrics import unfairness_bounds
    >>> import numpy as np
    >>> place, above = np.repeat(["north", "south"], 100), np.tile([0.0, 1.0], 100)
    >>> share = np.where(place == "north", 0.8, 0.2)
    >>> found = unfairness_bounds(above, np.column_stack([share, 1 - share]), proxy=place)
    >>> {group: np.round(numbers, 3).tolist() for group, numbers in found.to_dict().items()}
    {0: [0.0, 0.0, 0.2], 1: [0.0, 0.0, 0.2]}
    """
    name = find_distance(metric).name
    if name not in METRICS:
        raise ValueError(f"There are bounds for {', '.join(METRICS)}: got {metric!r}.")
    predictions, members, rows = read_rows(pmf_or_values, group_proba, atoms, sample_weight)
    check_metric(name, predictions)
    if members.shares is None:
        raise ValueError(
            "unfairness_bounds is for probabilities of groups, columns of floats that sum to one: where the "
            "groups are known there is nothing to bound, and evenhand.metrics.unfairness measures it."
        )
    cells = None
    if proxy is not None:
        cells = read_groups(proxy, count_rows(pmf_or_values), "proxy").take(rows).codes
    return bound_distances((name,), predictions, members, cells)[name]


def bound_distances(
    metrics: tuple[str, ...], predictions: Predictions, members: Membership, cells: IntArray | None = None
) -> dict[str, UnfairnessBounds]:
    """Bounds of several metrics; `cells` has the cell of each row, where the user says so."""
    assert members.shares is not None
    masses = predictions.masses(members)  # first: it refuses a pmf that is none
    shares = members.shares[members.codes]
    weights = np.ones(members.n_rows) if members.weights is None else members.weights
    common = _distinct_cells(shares) if cells is None else cells
    found: dict[str, list[tuple[float, float, bool]]] = {metric: [] for metric in metrics}
    n_cells = []
    for group in range(len(members.labels)):
        codes = _bins(shares[:, group]) if common is None else common
        laws = PossibleLaws.of(_read_cells(predictions, codes, shares[:, group], weights), predictions.points)
        n_cells.append(int(codes.max()) + 1)
        for metric in metrics:
            found[metric].append(laws.bounds(metric))
    bounds = {}
    for metric, rows in found.items():
        least, most, sharp = (np.array(column) for column in zip(*rows, strict=True))
        estimate = group_distances(masses, metric)
        # rounding alone may put the estimate, which is possible, outside
        least, most = np.minimum(least, estimate), np.maximum(most, estimate)
        bounds[metric] = UnfairnessBounds(
            metric, members.labels, estimate, least, most, np.array(n_cells), sharp
        )
    return bounds


def _read_cells(
    predictions: Predictions, codes: IntArray, share: FloatArray, weights: FloatArray
) -> Iterator[tuple[float, float, FloatArray]]:
    """Of each cell its weight, the group's share in it, and the distribution of its predictions."""
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(int(codes.max()) + 2))
    for first, last in pairwise(starts.tolist()):
        rows = order[first:last]
        own = weights[rows]
        total = float(own.sum())
        if not total > 0:
            continue
        if predictions.pmf is not None:
            law: FloatArray = own @ np.asarray(predictions.pmf[rows], dtype=np.float64)
        else:
            assert predictions.places is not None
            law = np.bincount(predictions.places[rows], own, predictions.n_points).astype(np.float64)
        yield total, float(own @ share[rows]) / total, law / law.sum()


def _distinct_cells(shares: FloatArray) -> IntArray | None:
    """A cell for each distinct row of probabilities, where they repeat; None where they hardly do."""
    some = shares[:: max(1, len(shares) // (ROWS_OF_A_CELL * MOST_CELLS))]  # a glance, before all are sorted
    if len(np.unique(some, axis=0)) > MOST_CELLS:
        return None
    distinct, codes = np.unique(shares, axis=0, return_inverse=True)
    if len(distinct) > MOST_CELLS or len(distinct) * ROWS_OF_A_CELL > len(shares):
        return None
    return codes.ravel()


def _bins(share: FloatArray) -> IntArray:
    """Cells of about as many rows each, by the probability of one group."""
    n_bins = int(np.clip(len(share) // ROWS_OF_A_BIN, 1, MOST_BINS))
    edges = np.unique(np.quantile(share, np.arange(1, n_bins) / n_bins))
    return np.unique(np.searchsorted(edges, share, side="right"), return_inverse=True)[1]
