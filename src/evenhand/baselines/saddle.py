"""Exponentiated gradient on the game, with the saddle point over the predictors met so far."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from evenhand._utils.typing import FloatArray
from evenhand.baselines.game import Game

RATE = 2.0  # step of the prices' player, over the bound
# Of the prices: a learner that only approximates the best response may answer louder ones better.
SCALES = (1.0, 2.0, 5.0, 10.0)
NEGLIGIBLE = 1e-9  # weight of a predictor


@dataclass(frozen=True, slots=True, eq=False)
class Saddle:
    """A mixture of predictors, and how far each player could still improve."""

    weights: FloatArray  # of the game's predictors, (n_models,), sum to one
    gap: float  # of duality
    n_iter: int


def find_saddle(game: Game, nu: float, min_iter: int, max_iter: int) -> Saddle:
    """Play until the duality gap is at most `nu`.

    Each round takes a step of exponentiated gradient, which finds predictors, and solves the game exactly
    over all that are known, whose mixture is never worse than the average of the steps. The gap is the one
    that the learner can show, so `min_iter` rounds are played even where it sees none, unless no tolerance
    binds: then the prices are zero, and the model without constraints is the answer.
    """
    logits = np.zeros((2, *game.gaps.shape[1:]))  # of the prices for gaps above epsilon, and below -epsilon
    signs = np.array([1.0, -1.0])[:, None, None]
    for n_iter in range(1, max_iter + 1):
        response = game.respond(_prices(logits, game.bound))
        logits += RATE / game.bound * (signs * game.gaps[response] - game.rows.slack[:, None])
        weights, prices = solve_known(game)
        gap = duality_gap(game, weights, prices)
        if gap <= nu and (n_iter >= min_iter or not prices.any()):
            break
    return Saddle(weights, gap, n_iter)


def duality_gap(game: Game, weights: FloatArray, prices: FloatArray) -> float:
    """How much either player could still gain by leaving the pair of mixture and prices."""
    loss, gaps = float(weights @ game.losses), np.tensordot(weights, game.gaps, 1)
    value = game.lagrangian(loss, gaps, prices)
    responses = [game.respond(scale * prices) for scale in SCALES]
    reached = [game.lagrangian(float(game.losses[k]), game.gaps[k], prices) for k in responses]
    return max(game.worst(loss, gaps) - value, value - min(reached))


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
