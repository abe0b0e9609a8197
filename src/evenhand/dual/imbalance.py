"""The imbalance of a row, `t_s = 1 - tau_s / p_s`, in as many columns as it has freedom.

More generally columns are cells, each in a stratum z, and a row has a share J_c of each cell c:

    t_c = sum_{c' in z} J_c' / P(z) - J_c / P(c),    P(z) = sum_{c' in z} P(c').

`E[h(X) t_c(X)]` is then how much less likely an event of chance h is in cell c than in all of its stratum.
Groups are the cells of one stratum, in which shares sum to one. Since `sum_{c in z} P(c) t_c = 0`, a
stratum of K cells has K - 1 degrees of freedom: rows carry the imbalance of all cells but the largest of
each stratum, and a small matrix gives the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand._utils.stored import is_finite
from evenhand._utils.typing import FloatArray, IntArray

MOST_GROUPS = 4096  # of a model file: predictions mix as many columns as rows of this square


@dataclass(frozen=True, slots=True, eq=False)
class ImbalanceModel:
    """How group probabilities become imbalances: `t = mixing^T u`, u the kept columns."""

    group_prior: FloatArray  # p, shape (n_groups,)
    strata: IntArray | None  # stratum of each group from 0 on, (n_groups,); None: one, with shares of sum one
    kept: IntArray  # indices of the kept groups, shape (n_kept,)
    mixing: FloatArray  # (n_kept, n_groups)

    @classmethod
    def from_prior(cls, group_prior: FloatArray, strata: IntArray | None = None) -> "ImbalanceModel":
        """Keep every group but, in each stratum, the one with the largest share.

        >>> ImbalanceModel.from_prior(np.array([0.25, 0.75])).mixing.round(3)
        array([[ 1.   , -0.333]])
        >>> two = ImbalanceModel.from_prior(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 0, 1, 1]))
        >>> two.mixing
        array([[ 1.  , -0.5 ,  0.  ,  0.  ],
               [ 0.  ,  0.  ,  1.  , -0.75]])
        """
        n_groups = len(group_prior)
        places = np.zeros(n_groups, np.int64) if strata is None else strata
        members = [np.flatnonzero(places == stratum) for stratum in range(int(places.max()) + 1)]
        dropped = np.array([group[np.argmax(group_prior[group])] for group in members])
        kept = np.delete(np.arange(n_groups), dropped)
        largest = dropped[places[kept]]  # the dropped group in the stratum of each kept one
        mixing = np.zeros((len(kept), n_groups))
        rows = np.arange(len(kept))
        mixing[rows, kept] = 1.0
        mixing[rows, largest] = -group_prior[kept] / group_prior[largest]
        return cls(group_prior, strata, kept, mixing)

    def kept_rows(self, group_proba: FloatArray) -> FloatArray:
        """Imbalance of the kept groups, shape (n_kept, n_rows)."""
        shares = group_proba[:, self.kept] / self.group_prior[self.kept]
        if self.strata is None:
            return np.ascontiguousarray((1.0 - shares).T)
        totals = stratum_sums(group_proba, self.strata) / stratum_sums(self.group_prior, self.strata)
        return np.ascontiguousarray((totals[:, self.kept] - shares).T)


def prior_faults(prior: Any) -> Iterator[str]:
    """Why shares of groups that were read from a file are none, or are those of more groups than can be."""
    if not is_finite(prior, None) or not np.all(prior > 0):
        yield "its prior is not positive"
    elif len(prior) > MOST_GROUPS:
        yield f"it has more than {MOST_GROUPS} groups"


def strata_faults(strata: object, prior: FloatArray) -> Iterator[str]:
    """Why strata that were read from a file are not None, nor count from zero with one for each group."""
    if strata is None:
        return
    if not isinstance(strata, np.ndarray) or strata.dtype != np.int64 or strata.shape != prior.shape:
        yield "its strata are not one integer for each group"
    elif not len(strata) or strata.min() < 0 or len(np.unique(strata)) != strata.max() + 1:
        yield "its strata do not count from zero"


def stratum_sums(shares: FloatArray, strata: IntArray | None) -> FloatArray:
    """For each group, the sum over the groups of its stratum, added one by one: (..., n_groups).

    >>> stratum_sums(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 0, 1])).round(3)
    array([0.4, 0.6, 0.4, 0.6])
    """
    n_groups = shares.shape[-1]
    places = np.zeros(n_groups, np.int64) if strata is None else strata
    totals = np.zeros((*shares.shape[:-1], int(places.max()) + 1))
    for group in range(n_groups):  # not by a product, whose rounding depends on the batch
        totals[..., places[group]] += shares[..., group]
    return totals[..., places]


def mean_imbalance(mean_proba: FloatArray, prior: FloatArray, strata: IntArray | None) -> FloatArray:
    """`E[t]` of rows whose mean shares are `mean_proba`, (n_groups,): zero where that is the prior."""
    if strata is None:
        return 1.0 - mean_proba / prior
    return stratum_sums(mean_proba, strata) / stratum_sums(prior, strata) - mean_proba / prior
