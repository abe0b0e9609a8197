"""Exponentiated gradient on the game, with the saddle point over the predictors met so far."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from evenhand._typing import FloatArray
from evenhand.baselines.game import Game

RATE = 2.0  # first step of the prices' player, over the bound
SHRINK = 0.8  # of the step, and of the gap that is progress enough to keep it
FIRST_CHECK, NEXT_CHECK = 5, 1.6  # iterations at which the step is checked: the first, and the ratio of two
SCALES = (1.0, 2.0, 5.0, 10.0)  # of the prices: a learner that only approximates may answer louder ones better
NEGLIGIBLE = 1e-9  # weight of a predictor


@dataclass(frozen=True, slots=True, eq=False)
class Saddle:
    """A mixture of predictors, and how far each player could still improve."""

    weights: FloatArray  # of the game's predictors, (n_models,), sum to one
    gap: float  # of duality
    n_iter: int
    converged: bool  # gap <= nu


def find_saddle(game: Game, nu: float, max_iter: int) -> Saddle:
    """Play until the duality gap is at most `nu`, and keep the mixture with the smallest gap.

    Each round takes a step of exponentiated gradient, and also solves the game exactly over the predictors
    that are known; the better of the two mixtures counts.
    """
    shape = game.gaps.shape[1:]
    logits = np.zeros((2, *shape))  # of the prices for gaps above epsilon, and below -epsilon
    played, priced = np.zeros(0), np.zeros(shape)
    rate, checked, last_gap = RATE / game.bound, FIRST_CHECK, np.inf
    best = Saddle(np.ones(1), np.inf, 0, False)
    averages: list[float] = []
    for t in range(max_iter):
        prices = _prices(logits, game.bound)
        priced += prices
        response = game.best_response(prices)
        played = _padded(played, len(game.models))
        played[response] += 1.0
        mixtures = [(played / played.sum(), priced / (t + 1)), solve_known(game)]
        gaps = [duality_gap(game, *mixture, nu) for mixture in mixtures]
        averages.append(gaps[0])
        for (weights, _), gap in zip(mixtures, gaps, strict=True):
            if gap < best.gap:
                best = Saddle(weights, gap, t + 1, gap <= nu)
        if best.converged:
            break
        if t >= NEXT_CHECK * checked:
            if min(averages) > SHRINK * last_gap:
                rate *= SHRINK
            checked, last_gap = t, min(averages)
        excess = game.gaps[response] * np.array([1.0, -1.0])[:, None, None] - game.rows.slack[:, None]
        logits += rate * excess
    return best


def duality_gap(game: Game, weights: FloatArray, prices: FloatArray, nu: float) -> float:
    """How much either player could still gain by leaving the pair of mixture and prices."""
    loss, gaps = game.mixture(weights)
    value = game.lagrangian(loss, gaps, prices)
    gap = game.worst(loss, gaps) - value
    for scale in SCALES:
        if gap > nu:  # no need to know how much larger
            break
        response = game.best_response(scale * prices)
        reached = game.lagrangian(float(game.losses[response]), game.gaps[response], prices)
        gap = max(gap, value - reached)
    return gap


def solve_known(game: Game) -> tuple[FloatArray, FloatArray]:
    """The saddle point over the predictors that are known: weights (n_models,) and prices.

        min_{weights, excess}  weights . losses + bound * excess    with |gaps of the mixture| <= epsilon + excess
    """
    n_models, (n_groups, n_cuts) = len(game.models), game.gaps.shape[1:]
    table = game.gaps.reshape(n_models, -1).T
    limits = np.repeat(game.rows.slack, n_cuts)
    below = -np.ones((2 * len(limits), 1))
    found = linprog(
        np.append(game.losses, game.bound),
        A_ub=np.hstack([np.concatenate([table, -table]), below]),
        b_ub=np.concatenate([limits, limits]),
        A_eq=np.append(np.ones(n_models), 0.0)[None],
        b_eq=np.ones(1),
        method="highs-ds",
    )
    if found.status != 0:
        raise RuntimeError(f"HiGHS stopped without a saddle point of the known predictors: {found.message}")
    weights = np.where(found.x[:-1] > NEGLIGIBLE, found.x[:-1], 0.0)
    above, under = -found.ineqlin.marginals.reshape(2, n_groups, n_cuts)
    return weights / weights.sum(), above - under


def _prices(logits: FloatArray, bound: float) -> FloatArray:
    """Signed prices: a share of the bound for each logit, and for a spare one at zero."""
    top = max(0.0, float(logits.max()))
    shares = np.exp(logits - top)
    above, below = bound * shares / (shares.sum() + np.exp(-top))
    prices: FloatArray = above - below
    return prices


def _padded(counts: FloatArray, length: int) -> FloatArray:
    return np.concatenate([counts, np.zeros(length - len(counts))])
