"""Synthetic populations whose regression function and group probabilities are known."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr, softmax
from sklearn.utils import Bunch, check_random_state

from evenhand._utils.typing import FloatArray

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
    >>> from evenhand.datasets import make_paper_synthetic
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
    >>> from evenhand.datasets import make_population
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


def make_class_population(
    n_samples: int = 2000,
    n_groups: int = 2,
    n_classes: int = 2,
    *,
    separation: float = 1.0,
    influence: float = 1.0,
    random_state: Any = None,
) -> Bunch:
    """A population with classes, a second attribute and a legitimate factor, and known P(S, Y | X).

    Group s has share p_s, normal features around a centre on the first axis, and a factor F in {0, 1} that is
    more often 1 in later groups. With s and k counted from the middle ones, and
    `z = (x_1 + x_2 + F + influence * s) / 2`,

        P(Y = k | x, F, s) = softmax_k(2 k z),    P(S_2 = 1 | x) = 1 / (1 + exp(-2 x_2)),

    so that group and class are not independent given the features unless `influence` is 0.

    Parameters
    ----------
    n_samples, n_groups, n_classes : int
        Rows, groups (two or more), classes (two or more).
    separation : float
        Distance between the centres of neighbouring groups.
    influence : float
        What the group itself does to the class.
    random_state : int, RandomState or None
        Seed of the sample; the population depends on the other arguments alone.

    Returns
    -------
    Bunch
        `data` (n, 4), whose last column is `factor`; `target`, `sensitive_features`, `second_attribute`,
        `factor` (n,); and the truth: `class_proba` = P(Y | X) (n, n_classes), `group_proba` = P(S | X)
        (n, n_groups), `second_proba` = P(S_2 | X) (n, 2), `joint_proba` = P(Y, S | X)
        (n, n_classes * n_groups), class by class.

    Examples
    --------
    >>> from evenhand.datasets import make_class_population
    >>> population = make_class_population(1000, n_groups=3, random_state=0)
    >>> population.joint_proba.shape, population.class_proba.shape
    ((1000, 6), (1000, 2))
    """
    _check_count("n_samples", n_samples, minimum=1)
    _check_count("n_groups", n_groups, minimum=2)
    _check_count("n_classes", n_classes, minimum=2)
    prior = _shares(None, n_groups)
    place = np.arange(n_groups) - (n_groups - 1) / 2
    often = 0.5 + 0.3 * place / place[-1]  # P(F = 1 | s)
    centres = np.zeros((n_groups, 3))
    centres[:, 0] = separation * place

    rng = check_random_state(random_state)
    groups = rng.choice(n_groups, size=n_samples, p=prior)
    features = centres[groups] + rng.standard_normal((n_samples, 3))
    factor = (rng.uniform(size=n_samples) < often[groups]).astype(np.int64)
    log_joint = np.log(prior) + features @ centres.T - 0.5 * (centres**2).sum(axis=1)
    log_joint += np.log(np.where(factor[:, None] == 1, often, 1.0 - often))
    group_proba = softmax(log_joint, axis=1)
    lean = (features[:, 0] + features[:, 1] + factor)[:, None] / 2 + influence * place / 2
    ranks = np.arange(n_classes) - (n_classes - 1) / 2
    given_group = softmax(2.0 * ranks * lean[:, :, None], axis=2)
    joint = np.swapaxes(group_proba[:, :, None] * given_group, 1, 2)
    second = expit(2.0 * features[:, 1])
    own = np.cumsum(given_group[np.arange(n_samples), groups], axis=1)
    return Bunch(
        data=np.column_stack([features, factor]),
        target=(rng.uniform(size=n_samples)[:, None] > own[:, :-1]).sum(axis=1),
        sensitive_features=groups,
        second_attribute=(rng.uniform(size=n_samples) < second).astype(np.int64),
        factor=factor,
        class_proba=joint.sum(axis=2),
        group_proba=group_proba,
        second_proba=np.column_stack([1.0 - second, second]),
        joint_proba=joint.reshape(n_samples, -1),
        feature_names=["x1", "x2", "x3", "factor"],
        DESCR="A synthetic population of normal groups with classes and known P(Y, S | X).",
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
