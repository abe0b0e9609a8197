"""The imbalance of a row, `t_s = 1 - tau_s / p_s`, in as many columns as it has freedom.

Since `sum_s p_s t_s = 0` when the group probabilities sum to one, K groups have K - 1 degrees of
freedom: rows carry the imbalance of all groups but the largest, and a small matrix gives the rest.
"""

from dataclasses import dataclass

import numpy as np

from evenhand._typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class ImbalanceModel:
    """How group probabilities become imbalances: `t = mixing^T u`, u the kept columns."""

    group_prior: FloatArray  # p, shape (n_groups,)
    kept: IntArray  # indices of the kept groups, shape (n_groups - 1,)
    mixing: FloatArray  # (n_groups - 1, n_groups)

    @classmethod
    def from_prior(cls, group_prior: FloatArray) -> "ImbalanceModel":
        """Keep every group but the one with the largest share.

        >>> ImbalanceModel.from_prior(np.array([0.25, 0.75])).mixing.round(3)
        array([[ 1.   , -0.333]])
        """
        n_groups = len(group_prior)
        dropped = int(np.argmax(group_prior))
        kept = np.delete(np.arange(n_groups), dropped)
        mixing = np.zeros((n_groups - 1, n_groups))
        mixing[np.arange(n_groups - 1), kept] = 1.0
        mixing[:, dropped] = -group_prior[kept] / group_prior[dropped]
        return cls(group_prior, kept, mixing)

    def kept_rows(self, group_proba: FloatArray) -> FloatArray:
        """Imbalance of the kept groups, shape (n_groups - 1, n_rows)."""
        shares = group_proba[:, self.kept] / self.group_prior[self.kept]
        return np.ascontiguousarray((1.0 - shares).T)
