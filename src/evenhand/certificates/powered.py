"""Held-out bounds narrowed by unlabelled rows: prediction-powered inference.

Rows whose group is unknown still have a prediction and a probability of the group. At one threshold let c be
the chance of at most t in a row, F the group's mean of it, p its share and tau its probability. The distance
`U = F - E c` is estimated from the labelled rows with the errors

    psi = 1{S = s} (c - F) / p - (c - E c),

and much of psi is foreseen by `g = tau (c - F) / p - (c - E c)`, whose mean unlabelled rows tell. So with any
lambda

    U  =  estimate + E[psi - lambda g] over labelled rows + lambda E[g] over unlabelled ones:

the second term has the variance of what tau does not foresee, the third has many rows. lambda is the slope of
psi on g, kept in [0, 1] and shrunk for the number of unlabelled rows (Angelopoulos, Duchi and Zrnic, 2023).
Nothing is asked of tau: where it foresees nothing, lambda is zero and so is the gain.

Both means have confidence distributions with an extra row at the worst value
(`evenhand.certificates.melding`), and their sum is melded. **The level is that of many rows**: F, p and
lambda are estimated, and psi is linear in them only up to terms that fall as 1 / n.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand._utils.scalars import check_share
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand._utils.validation import Labels, check_epsilon, check_group_proba
from evenhand.certificates.bounds import level_of_pair
from evenhand.certificates.heldout import HeldOutCertificate
from evenhand.certificates.melding import (
    MOST_EXACT,
    ScaledBeta,
    confidence,
    melded_bounds,
    rough_bounds,
    share_confidence,
)
from evenhand.certificates.samples import check_bounded, named_groups, read_sample
from evenhand.dual.parity import Thresholds
from evenhand.metrics import Membership
from evenhand.metrics._inputs import as_atoms, as_prediction, checked_blocks
from evenhand.metrics.distances import Metric, find_distance

CORNERS = np.array([(own, c, tau) for own in (0.0, 1.0) for c in (0.0, 1.0) for tau in (0.0, 1.0)])
METHOD = "prediction-powered"
SPENT = 0.9  # of delta: the rest is for what the approximation leaves out
NOT_A_SHARE = share_confidence(0, 10**12)  # zero: nothing is multiplied


def certify_prediction_powered(
    pmf: Any,
    sensitive_features: Any,
    group_proba: Any,
    *,
    pmf_unlabeled: Any,
    group_proba_unlabeled: Any,
    epsilon: Any = None,
    delta: float = 0.05,
    metric: Metric = "ks",
    atoms: Any = None,
    groups: Sequence[Hashable] | None = None,
) -> HeldOutCertificate:
    """Bound distances from above with held-out rows and unlabelled ones, at a level that holds for many rows.

    Parameters
    ----------
    pmf : array of shape (n, n_atoms)
        Of the held-out rows, whose groups are known.
    sensitive_features : array of shape (n,)
    group_proba : array of shape (n, n_groups)
        Probabilities of the groups for these rows, columns in the order of `groups`, or else sorted.
    pmf_unlabeled, group_proba_unlabeled : arrays of shapes (N, n_atoms) and (N, n_groups)
        The same for rows from the same population, of which neither model nor classifier has seen any.
    epsilon, delta, groups :
        As in `certify_held_out`. Delta goes to the upper bounds, there are no lower ones.
    metric : {"ks", "sup"} or Thresholds, default="ks"
    atoms : array of shape (n_atoms,), default=None
        Value of each column of the pmf, which thresholds are compared with.

    Examples
    --------
    >>> from evenhand.certificates import certify_prediction_powered
    >>> from evenhand import ParityPostprocessor
    >>> from evenhand.certificates import certify_held_out
    >>> from evenhand.datasets import make_population
    >>> fit, held, more = (make_population(n, 2, random_state=n) for n in (4000, 1000, 20_000))
    >>> model = ParityPostprocessor(epsilon=0.02, atoms=21).fit(fit.scores, fit.group_proba)
    >>> pmf, pmf_more = (model.predict_pmf(rows.scores, rows.group_proba) for rows in (held, more))
    >>> certify_held_out(pmf, held.sensitive_features, side="upper").upper.round(3)
    array([0.102, 0.055])
    >>> certify_prediction_powered(
    ...     pmf,
    ...     held.sensitive_features,
    ...     held.group_proba,
    ...     pmf_unlabeled=pmf_more,
    ...     group_proba_unlabeled=more.group_proba,
    ... ).upper.round(3)
    array([0.087, 0.047])
    """
    delta = check_share(delta, "delta", 0.05)
    if not isinstance(metric, Thresholds) and not (isinstance(metric, str) and metric in ("ks", "sup")):
        raise ValueError(f"metric must be one of ks, sup, or evenhand.Thresholds([...]): got {metric!r}.")
    metric = check_bounded(metric)
    known, more = (_functions(table, metric, atoms) for table in (pmf, pmf_unlabeled))
    found = named_groups(sensitive_features, len(known), groups)
    labels = found.labels
    sample = read_sample(pmf, Membership(labels, found.codes), metric, atoms=atoms)
    proba = _check_proba(group_proba, len(known), labels)
    proba_more = _check_proba(group_proba_unlabeled, len(more), labels)
    rows = [
        _Rows(known, found.codes == place, proba[:, place], more, proba_more[:, place])
        for place in range(len(labels))
    ]
    present = [place for place, count in enumerate(sample.counts) if 0 < count < len(known)]
    level = SPENT * delta / len(labels)
    if len(labels) == 2 == len(present):
        level = level_of_pair(SPENT * delta, _correlation(rows[0], rows[1]))
    upper = np.ones(len(labels))
    for place in present:
        upper[place] = _largest(rows[place], level)
    tolerances = None if epsilon is None else np.array(check_epsilon(epsilon, labels))
    estimate, lower = sample.estimate(), np.zeros(len(labels))
    return HeldOutCertificate(
        labels,
        sample.counts,
        estimate,
        lower,
        upper,
        tolerances,
        float(delta),
        "pmf",
        find_distance(metric).name,
        METHOD,
    )


def _check_proba(group_proba: Any, n_rows: int, labels: Labels) -> FloatArray:
    proba, _ = check_group_proba(group_proba, n_rows)
    if len(labels) < 2 or proba.shape[1] != len(labels):
        raise ValueError(
            f"group_proba needs one column for each of two groups or more: got {proba.shape[1]} columns for "
            f"the groups {', '.join(map(repr, labels))}."
        )
    return proba


class _Rows(NamedTuple):
    """What labelled and unlabelled rows say of one group."""

    known: FloatArray  # c of labelled rows, (n, n_functions)
    inside: AnyArray  # whether they are in the group, (n,)
    proba: FloatArray  # tau of these, (n,)
    more: FloatArray  # c of unlabelled rows, (N, n_functions)
    proba_more: FloatArray  # (N,)


class _Errors(NamedTuple):
    """Terms whose means are added to the estimate, and the least and largest that they can be."""

    estimate: FloatArray  # (n_functions,)
    labelled: FloatArray  # psi - lambda g, (n, n_functions)
    unlabelled: FloatArray  # lambda g, (N, n_functions)
    labelled_range: FloatArray  # (2, n_functions)
    unlabelled_range: FloatArray


def _functions(pmf: Any, metric: Metric, atoms: Any) -> FloatArray:
    given = as_prediction(pmf, "pmf")
    if given.ndim != 2:
        raise ValueError(f"pmf must have shape (n, n_atoms): got {given.shape}.")
    blocks = [block / block.sum(axis=1, keepdims=True) for _, block in checked_blocks(given)]
    table = np.concatenate(blocks)
    if metric == "ks":
        table = np.cumsum(table, axis=1)[:, : max(1, table.shape[1] - 1)]
    elif isinstance(metric, Thresholds):
        if atoms is None:
            raise ValueError("Thresholds need atoms=, the value of each column of the pmf.")
        table = table @ metric.operator(as_atoms(atoms, table.shape[1])).T
    clipped: FloatArray = np.clip(table, 0.0, 1.0)
    return clipped


def _errors(rows: _Rows) -> _Errors:
    share = rows.inside.mean()
    own, mean = rows.known[rows.inside].mean(axis=0), rows.known.mean(axis=0)
    psi = rows.inside[:, None] * (rows.known - own) / share - (rows.known - mean)
    foreseen, more = (
        tau[:, None] * (c - own) / share - (c - mean)
        for tau, c in ((rows.proba, rows.known), (rows.proba_more, rows.more))
    )
    slope = _slopes(psi, foreseen) * len(rows.more) / (len(rows.known) + len(rows.more))
    inside, c, tau = (CORNERS[:, part, None] for part in range(3))
    at_corners = slope * (tau * (c - own) / share - (c - mean))
    ends = inside * (c - own) / share - (c - mean) - at_corners
    return _Errors(
        own - mean,
        psi - slope * foreseen,
        slope * more,
        np.stack([ends.min(axis=0), ends.max(axis=0)]),
        np.stack([at_corners.min(axis=0), at_corners.max(axis=0)]),
    )


def _slopes(psi: FloatArray, foreseen: FloatArray) -> FloatArray:
    """Slope of each column on the other, in [0, 1]; zero where the other does not vary."""
    centred = foreseen - foreseen.mean(axis=0)
    variance = (centred * centred).mean(axis=0)
    slopes: FloatArray = np.clip((centred * psi).mean(axis=0) / np.maximum(variance, 1e-12), 0.0, 1.0)
    return slopes


def _largest(rows: _Rows, level: float) -> float:
    """Largest bound over functions and signs."""
    errors = _errors(rows)
    bounds = [_signed(errors, sign, level) for sign in (1.0, -1.0)]
    return min(1.0, max(0.0, *bounds))


def _signed(errors: _Errors, sign: float, level: float) -> float:
    labelled, unlabelled = sign * errors.labelled, sign * errors.unlabelled
    low, high = np.sort(sign * errors.labelled_range, axis=0)
    low_more, high_more = np.sort(sign * errors.unlabelled_range, axis=0)
    unit = np.maximum(high - low + high_more - low_more, 1e-12)
    upper = _upper_confidence(labelled, low, high, unit)
    lower = _upper_confidence(unlabelled, low_more, high_more, unit)
    lower = ScaledBeta(-lower.high, -lower.low, lower.b, lower.a)  # to be subtracted
    start = sign * errors.estimate + low + low_more
    rough = start + unit * rough_bounds(upper, lower, NOT_A_SHARE, level)[0]
    kept = np.argsort(-rough, kind="stable")[:MOST_EXACT]
    exact = melded_bounds(upper.take(kept), lower.take(kept), NOT_A_SHARE, level)
    return float((start[kept] + unit[kept] * exact).max())


def _upper_confidence(values: FloatArray, low: FloatArray, high: FloatArray, unit: FloatArray) -> ScaledBeta:
    """Upper confidence distributions of the means of columns with values in [low, high], in units."""
    width = np.maximum(high - low, 1e-12)
    places = np.clip((values - low) / width, 0.0, 1.0)
    square = places * places
    sums = (places.sum(axis=0), square.sum(axis=0), (square * places).sum(axis=0))
    found = confidence(len(values) + 1.0, *(total + 1.0 for total in sums))
    return ScaledBeta(found.low * width / unit, found.high * width / unit, found.a, found.b)


def _correlation(first: _Rows, second: _Rows) -> float:
    """Correlation of the errors of two groups, whose gaps have opposite signs, at the first one's largest."""
    one, two = _errors(first), _errors(second)
    place = int(np.abs(one.estimate).argmax())
    errors = np.stack([one.labelled[:, place], -two.labelled[:, place]])
    spread = errors.std(axis=1)
    if not spread.all():
        return -1.0
    centred = (errors - errors.mean(axis=1, keepdims=True)) / spread[:, None]
    return float((centred[0] * centred[1]).mean())
