"""The paper's split of a data set."""

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch, check_random_state

from evenhand._utils.typing import IntArray

PAPER_SHARES = (0.4, 0.4, 0.2)


class PaperSplit(NamedTuple):
    """Row numbers of the three parts of a data set."""

    labeled: IntArray  # fits the regressor and the classifier of the group
    unlabeled: IntArray  # fits the parity step: neither target nor group is read
    test: IntArray


def paper_split(
    bunch: Bunch, random_state: Any = None, *, shares: tuple[float, float, float] = PAPER_SHARES
) -> PaperSplit:
    """Split into 40 % labelled, 40 % unlabelled and 20 % test rows, stratified on the group.

    Where the paper works on a random subsample (`bunch.paper_sample_size` rows: Law School and
    Adult), the parts cover that many rows, drawn anew with every `random_state`.

    Parameters
    ----------
    bunch : Bunch
        What a function of `evenhand.datasets` returned; any Bunch with `sensitive_features` will do.
    random_state : int, RandomState or None
        Seed of the split.
    shares : tuple of three floats, default=(0.4, 0.4, 0.2)
        Of labelled, unlabelled and test rows; they sum to one.

    Examples
    --------
    >>> from evenhand.datasets import paper_split
    >>> from evenhand.datasets import make_paper_synthetic
    >>> split = paper_split(make_paper_synthetic(random_state=0), random_state=0)
    >>> len(split.labeled), len(split.unlabeled), len(split.test)
    (800, 800, 400)
    """
    # Imported here: model_selection is slow to import, and `import evenhand` does not need it.
    from sklearn.model_selection import train_test_split

    rng = check_random_state(random_state)
    groups = np.asarray(bunch.sensitive_features)
    rows = np.arange(len(groups))
    size = bunch.get("paper_sample_size")
    if size is not None and size < len(rows):
        rows = rng.permutation(rows)[:size]
    first, second, last = shares
    if min(shares) <= 0.0 or not math.isclose(sum(shares), 1.0):
        raise ValueError(f"shares must be three positive numbers that sum to one: got {shares!r}.")
    rest, test = train_test_split(rows, test_size=last, stratify=groups[rows], random_state=rng)
    share = second / (first + second)
    labeled, unlabeled = train_test_split(rest, test_size=share, stratify=groups[rest], random_state=rng)
    return PaperSplit(labeled, unlabeled, test)
