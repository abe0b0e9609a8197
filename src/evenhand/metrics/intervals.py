"""How sure the distances are: distribution-free and bootstrap intervals."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, erfc, stdtrit

from evenhand._utils.frames import make_frame
from evenhand._utils.labels import label_text
from evenhand._utils.scalars import check_count, check_flag, check_share, check_word, make_generator
from evenhand._utils.typing import FloatArray
from evenhand.metrics._inputs import as_weights
from evenhand.metrics.distances import Metric, find_distance, group_distances, pairs_of, settle_metric
from evenhand.metrics.losses import Loss, row_losses
from evenhand.metrics.masses import GroupMasses, Predictions, read_rows
from evenhand.metrics.membership import Membership
from evenhand.metrics.resampling import MOST_POINTS, bootstrap_deviations, effective_sizes
from evenhand.metrics.unfairness import check_metric, contrast_labels

FEWEST_ROWS = 5  # on either side; a bootstrap of fewer knows nothing, and says so
MOST_DRAWS = 1_000_000  # of a bootstrap: its error is then a thousandth of the spread, and it takes minutes
SHARE_OF_ALPHA = 0.1  # what the group's share takes of the probability to fail


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """An estimate for each group (or pair of groups) with its confidence interval, each at `level`."""

    metric: str
    method: str
    level: float
    labels: tuple[Hashable, ...]
    estimate: FloatArray
    low: FloatArray
    high: FloatArray
    pairwise: bool = False  # labels are pairs of groups

    def to_dict(self) -> dict[Hashable, tuple[float, float, float]]:
        """Estimate, low and high by label."""
        rows = zip(self.estimate.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return dict(zip(self.labels, rows, strict=True))

    def frame(self, backend: str | None = None) -> Any:
        """One row for each group or pair, as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default=None
            The first of them that is installed by default.
        """
        groups: tuple[Any, ...] = tuple(zip(*self.labels, strict=True)) if self.pairwise else (self.labels,)
        columns: dict[str, Any] = {
            column: [label_text(label) if isinstance(label, tuple) else label for label in labels]
            for column, labels in zip(("group", "other"), groups, strict=False)
        }
        columns |= {"estimate": self.estimate, "low": self.low, "high": self.high}
        return make_frame(columns, backend)


def unfairness_interval(
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    metric: Metric = "ks",
    sample_weight: ArrayLike | None = None,
    pairwise: bool = False,
    method: str = "bootstrap",
    level: float = 0.95,
    n_boot: int = 200,
    random_state: int = 0,
) -> Intervals:
    """Distances between groups with confidence intervals for those of the population.

    Each interval holds at `level` on its own, for rows drawn independently from the population.

    Parameters
    ----------
    pmf_or_values, sensitive_features, atoms, metric, sample_weight, pairwise
        As in `unfairness`.
    method : {"bootstrap", "dkw"}, default="bootstrap"
        `"bootstrap"` works for every metric. It takes the quantile q of the distance between resampled
        and observed differences of distributions, and gives `estimate - q` to `estimate + q`: wider than
        quantiles of the resampled distances, which would never reach the zero of a model at parity. With
        fewer than five rows on a side the interval is everything that is possible. Values with more than
        4096 distinct ones are merged to as many for the draws.

        `"dkw"` is for the KS distance of rows of equal weight, and holds for any distribution and any
        number of rows (see `dkw_radius`).
    level : float, default=0.95
    n_boot : int, default=200
    random_state : int, default=0

    Examples
    --------
    >>> from evenhand.metrics import unfairness_interval
    >>> found = unfairness_interval([1.0, 2.0, 3.0, 4.0] * 50, list("abbb") * 50, method="dkw")
    >>> {group: [round(number, 2) for number in row] for group, row in found.to_dict().items()}
    {'a': [0.75, 0.44, 0.83], 'b': [0.25, 0.11, 0.34]}
    """
    check_metric(metric)
    check_draws(n_boot, level)
    check_word(method, "method", ("bootstrap", "dkw"))
    check_flag(pairwise, "pairwise")
    rng = make_generator(random_state)
    predictions, members, _ = read_rows(pmf_or_values, sensitive_features, atoms, sample_weight)
    check_metric(metric, predictions)
    groups = predictions.masses(members)
    if method == "dkw":
        if find_distance(metric).name != "ks":
            raise ValueError(f"method='dkw' is for metric='ks': got {metric!r}. Use method='bootstrap'.")
        return dkw_intervals(predictions, members, groups, level, pairwise)
    found = bootstrap_intervals(
        (metric,), predictions, members, groups, level=level, n_boot=n_boot, rng=rng, pairwise=pairwise
    )
    return found[find_distance(metric).name]


def bootstrap_intervals(
    metrics: tuple[Metric, ...],
    predictions: Predictions,
    members: Membership,
    groups: GroupMasses,
    *,
    level: float,
    n_boot: int,
    rng: np.random.Generator,
    pairwise: bool = False,
) -> dict[str, Intervals]:
    """Bootstrap intervals of several metrics from the same draws."""
    merged = predictions.merged(MOST_POINTS)
    centre = groups if merged is predictions else merged.masses(members)
    metrics = tuple(settle_metric(each, groups.points, groups.masses.sum(axis=0)) for each in metrics)
    deviations = bootstrap_deviations(
        metrics, merged, members, centre, n_boot=n_boot, rng=rng, pairwise=pairwise
    )
    size = _smaller_side(members, pairwise)
    found = {}
    for metric in metrics:
        estimate = group_distances(groups, metric, pairwise)
        distance = find_distance(metric)
        radius = np.quantile(deviations[distance.name], level, axis=0, method="higher")
        with np.errstate(invalid="ignore"):  # of a side without rows, which is told below
            radius = radius * np.sqrt(size / np.maximum(size - 1.0, 1e-9))  # a sample varies too little
        radius[size < FEWEST_ROWS] = np.inf
        radius[size == 0.0] = 0.0  # one group is everybody
        worst = distance.largest(groups.points)
        low, high = np.maximum(estimate - radius, 0.0), np.minimum(estimate + radius, worst)
        labels = contrast_labels(groups.labels, pairwise)
        found[distance.name] = Intervals(
            distance.name, "bootstrap", level, labels, estimate, low, high, pairwise
        )
    return found


def dkw_intervals(
    predictions: Predictions, members: Membership, groups: GroupMasses, level: float, pairwise: bool = False
) -> Intervals:
    """Distribution-free intervals of the KS distance.

    A group against all rows is the group against the others, times their share: F_s - F is
    (1 - p_s) (F_s - F_rest). Two samples that do not overlap are independent, and their radii shrink with
    1 - p_s; the share gets an exact binomial interval of its own.
    """
    if not members.counts_rows:
        raise ValueError("method='dkw' needs labels and rows of equal weight: use method='bootstrap'.")
    alpha, randomised = 1.0 - level, predictions.pmf is not None
    counts = np.bincount(np.asarray(members.codes), minlength=len(groups.labels)).astype(np.float64)
    estimate = group_distances(groups, "ks", pairwise)
    if pairwise:
        first, second = pairs_of(len(counts))
        radius = _two_sample_radius(counts[first], counts[second], alpha, randomised)
        low, high = np.maximum(estimate - radius, 0.0), np.minimum(estimate + radius, 1.0)
    else:
        total = counts.sum()
        outside = total - counts
        radius = _two_sample_radius(counts, outside, (1.0 - SHARE_OF_ALPHA) * alpha, randomised)
        fewest, most = _share_interval(outside, total, SHARE_OF_ALPHA * alpha)
        apart = np.divide(estimate * total, outside, out=np.zeros_like(estimate), where=outside > 0)
        low = np.minimum(fewest * np.maximum(apart - radius, 0.0), estimate)
        high = np.maximum(most * np.minimum(apart + radius, 1.0), estimate)
        high[outside == 0] = 0.0  # one group is everybody
    labels = contrast_labels(groups.labels, pairwise)
    return Intervals("ks", "dkw", level, labels, estimate, low, high, pairwise)


def dkw_radius(n_rows: Any, alpha: Any, randomised: bool = False) -> Any:
    """Radius of a band around a sample's distribution function that fails with probability `alpha`.

    For draws or values it is that of Dvoretzky, Kiefer and Wolfowitz with Massart's constant,

        a / sqrt(n),  a = sqrt(log(2 / alpha) / 2).

    For the mean of n independent random distribution functions (a pmf in each row) it is

        (a + sqrt(pi / 2) erfc(sqrt(2) a) / alpha) / sqrt(n).

    Proof: draw one value from each row. Given the rows, the mean function is the expectation of the drawn
    one, so by Jensen its deviation Y and the drawn one's Z satisfy E(Y - a)_+ <= E(Z - a)_+, which
    is at most the integral of 2 exp(-2 n t^2) from a on; Markov's inequality for (Y - a)_+ does the rest,
    and this a makes the radius smallest. It costs 12 % at alpha = 0.05. The radius also holds for draws.

    Parameters
    ----------
    n_rows : int or array of them
        Rows of the sample.
    alpha : float or array
        Probability to fail.
    randomised : bool, default=False
        Whether a row is a distribution instead of a value.

    Examples
    --------
    >>> from evenhand.metrics import dkw_radius
    >>> round(float(dkw_radius(100, 0.05)), 4), round(float(dkw_radius(100, 0.05, randomised=True)), 4)
    (0.1358, 0.1524)
    """
    a = np.sqrt(np.log(2.0 / alpha) / 2.0)
    if randomised:
        a = a + np.sqrt(np.pi / 2.0) * erfc(np.sqrt(2.0) * a) / alpha
    with np.errstate(divide="ignore"):
        return a / np.sqrt(n_rows)


def risk_interval(
    y_true: ArrayLike,
    pmf_or_values: ArrayLike,
    sensitive_features: Any,
    atoms: ArrayLike | None = None,
    *,
    loss: Loss = "squared",
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> Intervals:
    """Risk of each group with Student's interval for a mean.

    A group of one row has the interval from minus to plus infinity, cut at zero for losses that are
    never negative.

    Parameters
    ----------
    y_true : array of shape (n,)
        Observed targets.
    pmf_or_values, sensitive_features, atoms, sample_weight
        As in `unfairness`; rows whose group is missing are left out.
    loss : {"squared", "absolute", "zero_one"} or callable, default="squared"
        As in `risk`.
    level : float, default=0.95
        Of each interval on its own.

    Examples
    --------
    >>> from evenhand.metrics import risk_interval
    >>> risk_interval([0.0, 1.0, 0.0], [0.5, 0.5, 1.0], ["a", "a", "b"]).to_dict()
    {'a': (0.25, 0.25, 0.25), 'b': (1.0, 0.0, inf)}
    """
    check_level(level)
    losses = row_losses(y_true, pmf_or_values, atoms, loss)
    weights = as_weights(sample_weight, len(losses))
    rows, members = Membership.read_known(sensitive_features, len(losses), weights)
    return mean_intervals(
        "risk", losses[rows], members, level, floor=0.0 if isinstance(loss, str) else -np.inf
    )


def mean_intervals(
    name: str, values: FloatArray, members: Membership, level: float, floor: float = -np.inf
) -> Intervals:
    """Weighted mean of a number for each row over each group, with Student's interval."""
    estimate, radius = [], []
    for group in range(len(members.labels)):
        weights = members.column(group)
        weights = weights / weights.sum()
        mean = float(weights @ values)
        squares = float(weights @ weights)
        error = np.sqrt(float(weights**2 @ (values - mean) ** 2) / max(1.0 - squares, 1e-300))
        free = 1.0 / squares - 1.0  # degrees of freedom, from Kish's number of rows
        known = free > 1e-9
        estimate.append(mean)
        radius.append(float(stdtrit(free, 0.5 + 0.5 * level)) * error if known else np.inf)
    middle, width = np.array(estimate), np.array(radius)
    low = np.maximum(middle - width, floor)
    return Intervals(name, "student", level, members.labels, middle, low, middle + width)


def check_level(level: float) -> None:
    """Refuse a level that is none."""
    check_share(level, "level", 0.95)


def check_draws(n_boot: int, level: float) -> None:
    """Refuse a level that is none, or too few draws for it."""
    check_level(level)
    if check_count(n_boot, "n_boot", most=MOST_DRAWS) * (1.0 - level) < 1.0 - 1e-9:
        raise ValueError(
            f"n_boot={n_boot!r} draws have no quantile at level {level:g}: use at least "
            f"{int(np.ceil(1.0 / (1.0 - level) - 1e-9))}."
        )


def _smaller_side(members: Membership, pairwise: bool) -> FloatArray:
    """Effective rows on the smaller side of each contrast."""
    own, rest = effective_sizes(members)
    if not pairwise:
        return np.minimum(own, rest)
    first, second = pairs_of(len(own))
    return np.minimum(own[first], own[second])


def _two_sample_radius(first: FloatArray, second: FloatArray, alpha: float, randomised: bool) -> FloatArray:
    """Sum of two radii, with the probability to fail split so that the sum is smallest."""
    parts = alpha * np.linspace(0.02, 0.98, 97)[:, None]
    radii = dkw_radius(first, parts, randomised) + dkw_radius(second, alpha - parts, randomised)
    smallest: FloatArray = np.asarray(radii).min(axis=0)
    return smallest


def _share_interval(counts: FloatArray, total: float, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Exact (Clopper-Pearson) interval of a binomial share."""
    inside = np.clip(counts, 1.0, None)
    low = np.where(counts > 0, betaincinv(inside, total - inside + 1.0, alpha / 2.0), 0.0)
    short = np.clip(total - counts, 1.0, None)
    high = np.where(counts < total, 1.0 - betaincinv(short, total - short + 1.0, alpha / 2.0), 1.0)
    return low, high
