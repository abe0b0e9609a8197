"""Distances between two groups, beside those to everybody that an epsilon is about."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

import numpy as np

from evenhand._utils.labels import label_text
from evenhand.metrics.distances import Metric, distances_between, find_distance
from evenhand.metrics.masses import GroupMasses, Predictions
from evenhand.metrics.membership import Membership
from evenhand.metrics.resampling import MOST_POINTS


class Pair(NamedTuple):
    """Two groups, and how far they are apart."""

    distance: float
    first: Hashable
    second: Hashable

    def names(self, within: bool) -> list[str]:
        """The two groups as text."""
        return [label_text(group, within=within) for group in (self.first, self.second)]

    def sentence(self, metric: Metric, within: bool) -> str:
        """How far they are apart, and that this is not what an epsilon bounds."""
        return (
            f"Between two groups the largest {find_distance(metric).title} is {self.distance:.3g} "
            f"({' and '.join(self.names(within))}). Those above are to everybody, as epsilon is; between two "
            "groups it is up to twice that."
        )


def checked_masses(predictions: Predictions, members: Membership) -> GroupMasses:
    """Masses of predictions that were checked already; of very many values, of as many as are told apart."""
    if predictions.pmf is None:
        return predictions.merged(MOST_POINTS).masses(members)
    return GroupMasses.of_blocks(predictions.blocks(), members, predictions.points)


def farthest_pairs(groups: GroupMasses, metrics: Iterable[Metric]) -> dict[str, Pair]:
    """The two groups that are farthest apart, of one stratum where there are several, in each metric.

    fairlearn's differences are of this kind; the distance of each group to everybody is never larger.

    >>> farthest_pairs(GroupMasses.of_values(np.arange(3.0), Membership.read(list("abc"), 3)), ["w1"])
    {'w1': Pair(distance=2.0, first='a', second='c')}
    """
    own = groups.distributions()
    strata = np.zeros(len(own), np.int64) if groups.strata is None else groups.strata
    found: dict[str, Pair] = {}
    for place in range(len(own) - 1):  # one group against those after it: few of them fit in memory at once
        after = np.flatnonzero(strata[place + 1 :] == strata[place]) + place + 1
        if not len(after):
            continue
        for metric in metrics:
            apart = distances_between(metric, own[after], own[place], groups.points)
            far, name = int(apart.argmax()), find_distance(metric).name
            pair = Pair(float(apart[far]), groups.labels[place], groups.labels[after[far]])
            if name not in found or pair.distance > found[name].distance:
                found[name] = pair
    return found
