"""Which distance a report shows for a parity notion, and what kind of risk."""

import numpy as np

from evenhand.dual.policy import SoftmaxPolicy

# The distance that each parity notion bounds.
METRIC_OF = {"cdf": "ks", "pmf": "sup", "mean": "mean", "tv": "tv", "w1": "w1"}


def counts_errors(policy: SoftmaxPolicy) -> bool:
    """Whether the cost of a decision is one where it is wrong, and nothing where it is right."""
    matrix = getattr(policy.cost, "matrix", None)
    return matrix is not None and np.array_equal(matrix, 1.0 - np.eye(*matrix.shape))
