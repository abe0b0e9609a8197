"""What held-out rows with known groups prove about the population."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text
from evenhand._utils.markup import cell, html_block
from evenhand._utils.scalars import check_share, check_word
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import check_epsilon
from evenhand._utils.warn import warn_user
from evenhand.certificates.bounds import simultaneous_bounds
from evenhand.certificates.deviations import (
    excess_width,
    mean_excess_width,
    share_interval,
    sup_excess_width,
    tv_excess_width,
    w1_excess_width,
)
from evenhand.certificates.samples import (
    BOUNDED,
    HeldOutSample,
    Kind,
    check_bounded,
    count_rows,
    draw_groups,
    known_groups,
    named_groups,
    read_sample,
    take_known,
)
from evenhand.dual.parity import Thresholds
from evenhand.exceptions import ProxyWarning
from evenhand.metrics import Membership
from evenhand.metrics.distances import Metric, find_distance
from evenhand.metrics.membership import PROXY

METHODS = ("melded", "hoeffding")
# Parts of delta. Most of it goes to the upper bounds, on which tolerances are judged.
PARTS = {"both": (0.9, 0.07, 0.03), "upper": (1.0, 0.0, 0.0), "lower": (0.0, 0.9, 0.1)}


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutCertificate:
    """Bounds on the distance between each group and all, in the population.

    With probability 1 - delta over the held-out rows, every group's distance lies between its `lower` and
    its `upper`, all groups at once. See `certify_held_out` for what that takes. A group without held-out
    rows has no estimate (nan), and bounds that say nothing.
    """

    groups: tuple[Hashable, ...]
    counts: IntArray  # held-out rows of each group, (n_groups,) as all below
    estimate: FloatArray  # distance on these rows, which noise pushes up
    lower: FloatArray
    upper: FloatArray
    epsilon: FloatArray | None  # tolerances to compare with
    delta: float
    kind: Kind  # "pmf": of the randomised predictor; "values": of the predictor that gave these values
    metric: str = "ks"  # the distance: "ks", "tv", "w1", "sup" or "mean"
    method: str = "melded"  # of the upper bounds
    by_proba: bool = False  # groups were drawn from their probabilities, which are taken to be right
    n_unknown: int = 0  # rows whose group is missing, which were left out

    @property
    def n_rows(self) -> int:
        """Number of held-out rows."""
        return int(self.counts.sum())

    @property
    def absent(self) -> tuple[Hashable, ...]:
        """Groups of which there are no held-out rows, and so no proof."""
        return tuple(group for group, count in zip(self.groups, self.counts, strict=True) if not count)

    @property
    def within(self) -> AnyArray:
        """Whether each group has rows and is proved to be within its epsilon, (n_groups,)."""
        proved: AnyArray = (self.upper <= self._tolerances()) & (self.counts > 0)
        return proved

    @property
    def holds(self) -> bool:
        """Whether every group is proved to be within its epsilon; not where a group has no rows."""
        return bool(self.within.all())

    @property
    def refuted(self) -> bool:
        """Whether some group is proved to be beyond its epsilon."""
        return bool((self.lower > self._tolerances()).any())

    def verdicts(self) -> list[str]:
        """One sentence for each group."""
        return [self._verdict(group) for group in range(len(self.groups))]

    def to_dict(self) -> dict[str, Any]:
        """Plain Python numbers, lists and strings, ready for JSON."""
        return {
            "groups": [label_text(group) for group in self.groups],
            "counts": self.counts.tolist(),
            "estimate": [None if value != value else value for value in self.estimate.tolist()],
            "lower": self.lower.tolist(),
            "upper": self.upper.tolist(),
            "epsilon": None if self.epsilon is None else self.epsilon.tolist(),
            "delta": self.delta,
            "kind": self.kind,
            "metric": self.metric,
            "method": self.method,
            "by_proba": self.by_proba,
            "n_unknown": self.n_unknown,
            "absent": [label_text(group) for group in self.absent],
            "verdicts": self.verdicts(),
        }

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group, as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
        """
        columns: dict[str, Any] = {
            "group": [label_text(group) for group in self.groups],
            "rows": self.counts,
            "estimate": self.estimate,
            "lower": self.lower,
            "upper": self.upper,
        }
        if self.epsilon is not None:
            columns["epsilon"] = self.epsilon
        return make_frame(columns, backend)

    def __str__(self) -> str:
        """What is certified, and one sentence for each group."""
        return "\n".join([self._title(), *("  " + verdict for verdict in self.verdicts())])

    def _repr_html_(self) -> str:
        """A table by group for notebooks, and one sentence for each."""
        figures = self.estimate, self.lower, self.upper
        rows = []
        for place, group in enumerate(self.groups):
            numbers = [cell(figure[place], 4) for figure in figures]
            asked = [] if self.epsilon is None else [cell(self.epsilon[place], 4)]
            rows.append((label_text(group), str(self.counts[place]), *numbers, *asked))
        heads = ["Group", "Rows", "These rows show", "At least", "At most"]
        heads += [] if self.epsilon is None else ["Asked for (epsilon)"]
        return html_block(self._title().removesuffix(":"), heads, rows, self.verdicts())

    def _title(self) -> str:
        whose = "the randomised predictor" if self.kind == "pmf" else "the predictor that gave these values"
        return (
            f"With probability {1 - self.delta:.4g} over the choice of {self.n_rows} held-out rows, all of "
            f"this is true of {whose} in the population{self._provided()}:"
        )

    def _provided(self) -> str:
        """Under which conditions: none, where the groups are known."""
        parts = []
        if self.n_unknown:
            parts.append(f", of people like those whose group is known ({self.n_unknown} rows have none)")
        if self.by_proba:
            parts.append(", provided that the probabilities of groups are right whatever the prediction is")
        return "".join(parts)

    def _tolerances(self) -> FloatArray:
        if self.epsilon is None:
            raise ValueError("No epsilon was given to compare with: pass epsilon= to certify_held_out.")
        return self.epsilon

    def _metric_name(self) -> str:
        return self.metric.upper() if self.metric in BOUNDED else "the share above a threshold"

    def _verdict(self, group: int) -> str:
        lower, upper, name = self.lower[group], self.upper[group], label_text(self.groups[group])
        if not self.counts[group]:
            return f"Group {name} has no held-out rows: nothing is proved about it."
        sentence = (
            f"Group {name} is at most {upper:.4f} in {self._metric_name()} from everybody, and "
            f"at least {lower:.4f} (these rows show {self.estimate[group]:.4f}, {self.counts[group]} of them "
            "in the group)"
        )
        if self.epsilon is None:
            return sentence + "."
        epsilon = self.epsilon[group]
        if upper <= epsilon:
            return f"{sentence}: within epsilon = {epsilon:.4g}."
        if lower > epsilon:
            return f"{sentence}: beyond epsilon = {epsilon:.4g}."
        return f"{sentence}: these rows cannot tell whether that is within epsilon = {epsilon:.4g}."


def certify_held_out(
    predictions: Any,
    sensitive_features: Any,
    *,
    X: Any = None,
    atoms: Any = None,
    epsilon: Any = None,
    delta: float = 0.05,
    metric: Metric = "ks",
    groups: Sequence[Hashable] | None = None,
    side: Literal["both", "upper", "lower"] = "both",
    method: Literal["melded", "hoeffding"] = "melded",
) -> HeldOutCertificate:
    """Bound the population's distance of every group from all, with probability 1 - delta.

    Everybody's distribution mixes group s, whose share is p_s, with the rest, so

        U_s = sup_t |F_s(t) - F(t)| = (1 - p_s) D_s,    D_s = sup_t |F_s(t) - F_rest(t)|.

    **From above.** At one t the rows of the group and of the rest give two means of numbers in [0, 1], and
    its share of the rows the third number in `(1 - p_s) (F_s(t) - F_rest(t))`. Each has a confidence
    distribution, and the quantile of the same expression in three independent variables is the bound at t
    (`evenhand.certificates.melding`): for values it uses exact binomials, for a pmf what its rows vary. The
    largest of these bounds over all t and both signs bounds U_s, since it is at least the one at the point
    where the population's gap is reached, so that no union over points is paid. Where the level of each is
    proved, and where only checked, that module says; `method="hoeffding"` is proved throughout, and wider.

    **From below** it takes a bound at all points at once (`evenhand.certificates.deviations`), and p_s has
    its Clopper-Pearson interval.

    Of delta 90 % goes to the upper bounds, 10 % to the lower ones, or all of it to one `side`. What each
    group gets is its part in a union over groups, except that two groups have one gap between them. Nothing
    asks F to be continuous. The other distances mix in the same way, and are largest gaps too, of the means
    of other functions, so the same holds for them.

    It takes that the held-out rows are independent draws from the population, and that nothing about the
    predictor (its key of draws included) was chosen on them. Then, for

    - a pmf: it is about the randomised predictor, whose draws have these distributions;
    - values: about whatever gives them. For the reproducible draws of `predict` the key is a constant
      of the model, the draw a function of the row (or of its id), and so the values of independent rows are
      independent: nothing is asked of the hash. The distance is that of the very predictor in use.

    Rows of unequal weight are not covered.

    Parameters
    ----------
    predictions : array of shape (n, n_atoms) or (n,), or a fitted model
        A pmf, values, or a model with `predict_pmf`, which is then called on `X`.
    sensitive_features : array or data frame of shape (n,) or (n, n_columns)
        Group of each row, labels of any type; of several columns, every combination that is there is a group.
        Rows whose group is missing are left out. Of probabilities of groups, columns of floats that sum to
        one, the group of each row is drawn once: what is proved then takes them to be right given the
        prediction, too (`evenhand.metrics.unfairness_bounds` has what is possible otherwise).
    X : table of n rows or (scores, group_proba), optional
        What the model predicts from; a tuple is passed on as two arguments.
    atoms : array of shape (n_atoms,), optional
        All that the predictor can give. With few of them the lower bounds are sharper. "w1" needs them for
        its range (a fitted model has its own), and "tv" for their number where values are given.
    epsilon : float, array of shape (n_groups,) or dict, optional
        Tolerances to compare with, groups in the order of `groups`, or else sorted.
    delta : float
        The probability with which the certificate may be wrong, in (0, 1).
    metric : {"ks", "tv", "w1", "sup", "mean"} or Thresholds, default="ks"
        Kolmogorov-Smirnov, total variation, Wasserstein-1 in the units of the atoms, the largest gap in the
        probability of one atom, or the gap in means, in their units; or the largest gap in the share above
        thresholds, which are named, or "thresholds" for those of a model that was asked for them.
    groups : sequence of labels, optional
        All groups that there are; those of a dict `epsilon` or of a fitted model otherwise, or else those in
        `sensitive_features`. A group without held-out rows is named, and nothing holds for it.
    side : {"both", "upper", "lower"}, default="both"
        Which bounds delta is spent on. The others say nothing.
    method : {"melded", "hoeffding"}, default="melded"
        How upper bounds are made.

    Examples
    --------
    >>> import numpy as np
    >>> from evenhand.certificates import certify_held_out
    >>> rng = np.random.default_rng(0)
    >>> print(certify_held_out(rng.normal(size=20_000), rng.integers(2, size=20_000), epsilon=0.05))
    With probability 0.95 over the choice of 20000 held-out rows, all of this is true of the predictor that
    gave these values in the population:
      Group 0 is at most 0.0105 in KS from everybody, and at least 0.0000 (these rows show 0.0061, 10026 of
    them in the group): within epsilon = 0.05.
      Group 1 is at most 0.0106 in KS from everybody, and at least 0.0000 (these rows show 0.0061, 9974 of
    them in the group): within epsilon = 0.05.
    """
    delta = check_share(delta, "delta", 0.05)
    metric = check_bounded(metric, predictions)
    check_word(method, "method", METHODS)
    check_word(side, "side", PARTS)
    n_rows = count_rows(predictions, X)
    if groups is None and isinstance(epsilon, dict):
        groups = list(epsilon)
    found = named_groups(sensitive_features, n_rows, groups, known_groups(predictions), partial=True)
    if by_proba := found.proba is not None:
        warn_user(PROXY, ProxyWarning)
        found = draw_groups(found)
    found, predictions, X, told = take_known(found, predictions, X, sensitive_features)
    if len(found.labels) < 2:
        raise ValueError(
            f"sensitive_features needs two groups or more: all rows are in group {found.labels[0]!r}."
        )
    members = Membership(found.labels, found.codes)
    sample = read_sample(predictions, members, metric, X=X, atoms=atoms, known=told)
    above, below, share = (delta * part for part in PARTS[side])
    upper = np.full(len(found.labels), sample.unit)
    if above:
        upper = simultaneous_bounds(sample, above, method)
    lower = lower_bounds(sample, below, share) if below else np.zeros(len(upper))
    tolerances = None if epsilon is None else np.array(check_epsilon(epsilon, found.labels))
    return HeldOutCertificate(
        found.labels,
        sample.counts,
        sample.estimate(),
        lower,
        upper,
        tolerances,
        float(delta),
        sample.kind,
        find_distance(metric).name,
        method,
        by_proba,
        n_rows - len(found.codes),
    )


def lower_bounds(sample: HeldOutSample, level: float, share_level: float) -> FloatArray:
    """Bounds of which any is above its group's distance with chance `level + share_level` at most."""
    strata, totals, estimate = sample.strata(), sample.totals(), sample.estimate()
    bounds = np.zeros(len(estimate))
    for groups in strata:
        present = groups[sample.counts[groups] > 0].tolist()
        n_gaps = len(strata) * (1 if len(groups) == 2 else len(groups))  # two groups have one gap
        for group in present:
            count, total = int(sample.counts[group]), int(totals[group])
            if count == total:
                continue
            overstated = sample.unit * _excess_width(sample, count, total - count, level / n_gaps)
            _, high = share_interval(count, total, share_level / (len(strata) * len(groups)))
            bounds[group] = (1.0 - high) * max(estimate[group] / (1.0 - count / total) - overstated, 0.0)
    return bounds


def _excess_width(sample: HeldOutSample, n_first: int, n_second: int, level: float) -> float:
    """How far the rows may overstate the gap, on a scale where it is one at most."""
    sizes = n_first, n_second, level
    if sample.metric == "mean":
        return mean_excess_width(*sizes)
    if sample.metric == "tv":
        assert sample.n_atoms is not None
        return tv_excess_width(*sizes, sample.n_atoms)
    if isinstance(sample.metric, Thresholds):
        assert sample.powers is not None
        # Each threshold at its part of the level, or all there are at once where they are many.
        one_by_one = mean_excess_width(n_first, n_second, level / sample.powers.shape[2])
        at_once = excess_width(*sizes, averaged=sample.kind == "pmf", n_atoms=sample.n_atoms)
        return min(one_by_one, at_once)
    width = {"ks": excess_width, "sup": sup_excess_width, "w1": w1_excess_width}[str(sample.metric)]
    return width(*sizes, averaged=sample.kind == "pmf", n_atoms=sample.n_atoms)
