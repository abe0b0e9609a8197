"""Choose among several predictors on held-out rows so that what is proved of the choice stays proved."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from evenhand._utils.labels import label_text, read_groups
from evenhand._utils.markup import cell, html_block
from evenhand._utils.scalars import check_share
from evenhand._utils.typing import FloatArray
from evenhand._utils.validation import check_epsilon
from evenhand.certificates.bounds import upper_bounds
from evenhand.certificates.samples import (
    HeldOutSample,
    check_bounded,
    count_rows,
    known_groups,
    named_groups,
    read_sample,
)
from evenhand.metrics import Membership
from evenhand.metrics.distances import Metric, find_distance


@dataclass(frozen=True, slots=True, eq=False)
class SequenceCertificate:
    """Which of several predictors, in a fixed order, is proved to be within the tolerances.

    With probability 1 - delta over the held-out rows, every predictor up to the `chosen` one has every
    group's distance within its epsilon, in the population.
    """

    chosen: int | None  # place of the last that passed; None where the first failed
    groups: tuple[Hashable, ...]
    epsilon: FloatArray  # (n_groups,)
    upper: FloatArray  # bounds of those that were tested, (n_tested, n_groups)
    estimate: FloatArray  # distances on these rows, (n_tested, n_groups); nan for groups without rows
    absent: tuple[Hashable, ...]  # groups without rows: where there are any, nothing passes
    n_rows: int  # where groups overlap, each row counts in every one
    delta: float
    metric: str

    @property
    def n_tested(self) -> int:
        """How many predictors were tested: all that passed, and the first that did not."""
        return len(self.upper)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        return {
            "chosen": self.chosen,
            "groups": [label_text(group) for group in self.groups],
            "epsilon": self.epsilon.tolist(),
            "upper": self.upper.tolist(),
            "estimate": [[None if gap != gap else gap for gap in row] for row in self.estimate.tolist()],
            "absent": [label_text(group) for group in self.absent],
            "n_rows": self.n_rows,
            "delta": self.delta,
            "metric": self.metric,
        }

    def __str__(self) -> str:
        """What is proved, in a few sentences."""
        if self.absent:
            names = ", ".join(map(label_text, self.absent))
            return f"No predictor is proved to be within epsilon: there are no held-out rows of {names}."
        worst = [f"{max(row):.4f}" for row in self.upper.tolist()]
        tried = f"largest bound of each that was tested: {', '.join(worst)}"
        if self.chosen is None:
            return f"No predictor is proved to be within epsilon, since the first is not ({tried})."
        return (
            f"With probability {1 - self.delta:.4g} over the choice of {self.n_rows} held-out rows, predictor"
            f" {self.chosen} and those before it are within epsilon = {self.epsilon.max():.4g} for every "
            f"group ({tried})."
        )

    def _repr_html_(self) -> str:
        """The bounds of each predictor that was tested, for notebooks, and what is proved."""
        rows = [
            (f"{place}{' (chosen)' if place == self.chosen else ''}", *(cell(bound, 4) for bound in bounds))
            for place, bounds in enumerate(self.upper.tolist())
        ]
        asked = ("asked for (epsilon)", *(cell(epsilon, 4) for epsilon in self.epsilon.tolist()))
        heads = ("Predictor", *map(label_text, self.groups))
        caption = f"Upper bounds on the distance ({self.metric.upper()}) from everybody"
        return html_block(caption, heads, [*rows, asked], [str(self)])


def certify_sequence(
    candidates: Iterable[Any],
    sensitive_features: Any,
    *,
    epsilon: Any,
    X: Any = None,
    atoms: Any = None,
    delta: float = 0.05,
    metric: Metric = "ks",
    groups: Sequence[Hashable] | None = None,
    strata: Any = None,
    method: Literal["melded", "hoeffding"] = "melded",
) -> SequenceCertificate:
    """Take the last of several predictors that held-out rows prove to be within epsilon (fixed sequence).

    The predictors are tested in the order given, from the safest on, and the first that fails ends it. Each
    is tested at the whole of delta, for each group: it passes where all upper bounds are within epsilon.

    **Why no union is paid.** Let j be the first in the order that is truly beyond epsilon, in some group s. A
    predictor beyond epsilon is chosen only if j is passed, hence only if the bound of s is below its
    distance at j, which has a chance of at most delta. Neither the number of candidates enters nor that of
    groups, since all of the groups must pass (an intersection-union test).

    The order must not depend on these rows. A tolerance that the models were fitted with is a natural one:
    the smallest first.

    Parameters
    ----------
    candidates : iterable of models, pmfs of shape (n, n_atoms) or values of shape (n,)
        In a fixed order; a generator is asked for no more than are tested.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns), or a Membership
        Group of each row. A Membership may have groups within strata, and rows in several of them.
    epsilon : float, array of shape (n_groups,) or dict
        The tolerance to be proved.
    X, atoms, metric, groups, method :
        As in `certify_held_out`.
    delta : float
        The probability with which the chosen predictor may be beyond epsilon, in (0, 1).
    strata : array of shape (n,), optional
        Groups are compared with all rows of their stratum only; they are then called `(stratum, group)`.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.certificates import certify_sequence
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=4000)
    >>> candidates = [rng.normal(size=4000) + shift * group for shift in (0.0, 0.1, 0.2, 0.3)]
    >>> found = certify_sequence(candidates, group, epsilon=0.06)
    >>> found.chosen, found.n_tested, found.upper.max(axis=1).round(3)
    (2, 4, array([0.03 , 0.042, 0.059, 0.083]))
    """
    delta = check_share(delta, "delta", 0.05)
    remaining = iter(candidates)
    first = next(remaining, None)
    if first is None:
        raise ValueError("certify_sequence needs one candidate or more.")
    metric = check_bounded(metric, first)
    members = _members(first, sensitive_features, X, groups, strata)
    samples = (
        read_sample(each, members, metric, X=X, atoms=atoms, known=sensitive_features)
        for each in chain([first], remaining)
    )
    tolerances = np.array(check_epsilon(epsilon, members.labels, members.strata))
    return choose_in_sequence(samples, tolerances, delta, method)


def choose_in_sequence(
    samples: Iterable[HeldOutSample],
    epsilon: FloatArray,
    delta: float,
    method: str = "melded",
) -> SequenceCertificate:
    """The same for samples, held-out rows that `samples.read_sample` has reduced; they are read one by one.

    Parameters
    ----------
    samples : iterable of HeldOutSample
        One for each candidate, of the same rows.
    epsilon : array of shape (n_groups,)
    delta : float
    method : {"melded", "hoeffding"}

    Examples
    --------
    >>> members = Membership(("a", "b"), np.repeat([0, 1], 200))
    >>> samples = (read_sample(np.full((400, 2), 0.5), members, "ks") for _ in range(3))
    >>> choose_in_sequence(samples, np.array([0.1, 0.1]), 0.05).chosen
    2
    """
    tested: list[HeldOutSample] = []
    bounds: list[FloatArray] = []
    chosen = None
    for place, sample in enumerate(samples):
        tested.append(sample)
        bounds.append(upper_bounds(sample, delta, method))
        if not sample.counts.all() or not (bounds[-1] <= epsilon).all():
            break
        chosen = place
    first = tested[0]
    absent = tuple(label for label, count in zip(first.labels, first.counts, strict=True) if not count)
    return SequenceCertificate(
        chosen,
        first.labels,
        epsilon,
        np.array(bounds),
        np.array([sample.estimate() for sample in tested]),
        absent,
        int(first.counts.sum()),
        float(delta),
        find_distance(first.metric).name,
    )


def _members(candidate: Any, sensitive_features: Any, X: Any, groups: Any, strata: Any) -> Membership:
    """Groups of the rows, within strata where there are any."""
    if isinstance(sensitive_features, Membership):
        shares = sensitive_features.shares
        if sensitive_features.has_weights or (shares is not None and shares.dtype != bool):
            raise ValueError("There is no certificate for rows that count unequally or by probabilities.")
        return sensitive_features
    n_rows = count_rows(candidate, X)
    known = [] if strata is not None else known_groups(candidate)
    found = named_groups(sensitive_features, n_rows, groups, known)
    members = Membership(found.labels, found.codes)
    if strata is None:
        return members
    cells = read_groups(strata, n_rows, "strata")
    labels = tuple((stratum, group) for stratum in cells.labels for group in found.labels)
    codes = cells.codes * len(found.labels) + found.codes
    return Membership(labels, codes, strata=np.repeat(np.arange(len(cells.labels)), len(found.labels)))
