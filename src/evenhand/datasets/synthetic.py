"""Synthetic populations whose regression function and group probabilities are known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, softmax
from sklearn.utils import Bunch, check_random_state

from evenhand._typing import FloatArray

PAPER_THRESHOLDS = np.array([-0.7, 0.0, 0.7])  # of the first feature, between the four groups


def make_paper_synthetic(n_samples: int = 2000, random_state: Any = None) -> Bunch:
    """The four-group population of the paper's appendix ("Additional experiments on a synthetic dataset").

    Three standard normal features; the group is the interval of the first one between the thresholds
    -0.7, 0 and 0.7; the target is

        y = 4 (x_1 + x_2 + x_3) + x_1 + noise,    noise ~ N(0, 1)

    The paper's text names X_2 twice, calls the last group 4, and gives it the condition X_1 >= -0.7; it
    means X_3, 3 and X_1 >= 0.7, as here.

    Parameters
    ----------
    n_samples : int
        Number of rows; the paper's is 2000.
    random_state : int, RandomState or None
        Seed of the sample.

    Returns
    -------
    Bunch
        `data` (n, 3), `target` (n,), `sensitive_features` (n,) with values 0 to 3, and the truth:
        `scores` = E[Y | X] (n,), `group_proba` = P(S | X) (n, 4), here zeros and ones, and `group_prior`
        = P(S) (4,).

    Examples
    --------
    >>> population = make_paper_synthetic(random_state=0)
    >>> population.data.shape, population.group_prior.round(3)
    ((2000, 3), array([0.242, 0.258, 0.258, 0.242]))
    """
    _check_count("n_samples", n_samples, minimum=1)
    rng = check_random_state(random_state)
    features = rng.standard_normal((n_samples, 3))
    first = features[:, 0]
    # The paper closes the first group at its threshold (x_1 <= -0.7); a tie has probability zero.
    groups = np.searchsorted(PAPER_THRESHOLDS, first, side="right")
    scores = 4.0 * features.sum(axis=1) + first
    return Bunch(
        data=features,
        target=scores + rng.standard_normal(n_samples),
        sensitive_features=groups,
        scores=scores,
        group_proba=np.eye(4)[groups],
        group_prior=np.diff(ndtr(PAPER_THRESHOLDS), prepend=0.0, append=1.0),
        feature_names=["x1", "x2", "x3"],
        DESCR="The four-group synthetic population of the paper's appendix; the group is a function of x1.",
    )


def make_population(
    n_samples: int = 2000,
    n_groups: int = 3,
    *,
    n_features: int = 4,
    separation: float = 1.0,
    noise: float = 0.5,
    group_prior: ArrayLike | None = None,
    random_state: Any = None,
) -> Bunch:
    """A population of overlapping groups with known E[Y | X] and P(S | X), and targets in [-1, 1].

    Group s has share p_s and normal features around a centre mu_s on the first axis, so that

        P(S = s | x) = softmax_s(log p_s + <mu_s, x> - |mu_s|^2 / 2)
        E[Y | x]     = tanh((x_1 + ... + x_d) / sqrt(d))

    The population depends on the arguments alone; `random_state` seeds the sample.

    Parameters
    ----------
    n_samples, n_groups, n_features : int
        Rows, groups (two or more), features.
    separation : float
        Distance between the centres of neighbouring groups; 0 makes the groups alike.
    noise : float
        Spread of the target around E[Y | x], from 0 (none) to 1 (as wide as [-1, 1] lets it be).
    group_prior : array of shape (n_groups,), optional
        Shares of the groups, scaled to sum to one; proportional to 1, 2, ..., n_groups if not given.
    random_state : int, RandomState or None
        Seed of the sample.

    Returns
    -------
    Bunch
        `data` (n, d), `target` (n,), `sensitive_features` (n,), and the truth: `scores` = E[Y | X] (n,),
        `group_proba` = P(S | X) (n, n_groups), `group_prior` = P(S) (n_groups,).

    Examples
    --------
    >>> population = make_population(1000, n_groups=3, random_state=0)
    >>> population.scores.shape, population.group_proba.shape
    ((1000,), (1000, 3))
    """
    _check_count("n_samples", n_samples, minimum=1)
    _check_count("n_groups", n_groups, minimum=2)
    _check_count("n_features", n_features, minimum=1)
    if not 0.0 <= noise <= 1.0:
        raise ValueError(f"noise must lie between 0 and 1, so that targets stay in [-1, 1]: got {noise!r}.")
    prior = _shares(group_prior, n_groups)
    centres = np.zeros((n_groups, n_features))
    centres[:, 0] = separation * (np.arange(n_groups) - (n_groups - 1) / 2)

    rng = check_random_state(random_state)
    groups = rng.choice(n_groups, size=n_samples, p=prior)
    features = centres[groups] + rng.standard_normal((n_samples, n_features))
    scores = np.tanh(features.sum(axis=1) / np.sqrt(n_features))
    # The noise shrinks with the distance to the bounds: its mean stays zero, and no target needs a clip.
    target = scores + noise * (1.0 - np.abs(scores)) * rng.uniform(-1.0, 1.0, n_samples)
    log_joint = np.log(prior) + features @ centres.T - 0.5 * (centres**2).sum(axis=1)
    return Bunch(
        data=features,
        target=target,
        sensitive_features=groups,
        scores=scores,
        group_proba=softmax(log_joint, axis=1),
        group_prior=prior,
        feature_names=[f"x{j + 1}" for j in range(n_features)],
        DESCR="A synthetic population of normal groups with known E[Y | X] and P(S | X).",
    )


def _check_count(name: str, value: int, *, minimum: int) -> None:
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}: got {value!r}.")


def _shares(group_prior: ArrayLike | None, n_groups: int) -> FloatArray:
    if group_prior is None:
        group_prior = np.arange(1, n_groups + 1)
    shares = np.asarray(group_prior, dtype=np.float64)
    if shares.shape != (n_groups,) or not np.isfinite(shares).all() or (shares <= 0).any():
        raise ValueError(
            f"group_prior needs one positive share for each of the {n_groups} groups: got {group_prior!r}."
        )
    normalised: FloatArray = shares / shares.sum()
    return normalised
