"""The search for the tolerance on the rows of the step that keeps epsilon on new data."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.generalization.out_of_sample import Evaluation

LEAST = 0.1  # fraction of epsilon: a smaller one costs risk, and hardly any distance
CLOSE = 0.95  # of epsilon: no need to search further
AIM = 0.98  # of epsilon, between the two
MOST_TRIES = 8
DIGITS = 3  # of a fraction: rounding elsewhere then rarely changes the tolerance

Evaluate = Callable[[FloatArray], Evaluation]  # of the step that is solved for these fractions of epsilon


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Fractions of epsilon to solve for, (n_groups,), and what the step then comes to."""

    fractions: FloatArray
    evaluation: Evaluation


def search_tolerance(evaluate: Evaluate, epsilon: FloatArray, confidence: float | None) -> Found:
    """The largest common fraction of epsilon that keeps it on new data, or the best where none does.

    Groups that cannot keep epsilon get the smallest fraction, so that they do not hold the others back.
    """
    beyond = np.zeros(len(epsilon), bool)
    while True:
        best, tried = _search(evaluate, epsilon, confidence, beyond)
        exceeds = [_limit(found.evaluation, confidence) > epsilon for found in tried]
        more = np.all(exceeds, axis=0) & ~beyond if exceeds else np.zeros_like(beyond)
        if not more.any() or (beyond | more).all():
            return best
        beyond |= more


def _limit(evaluation: Evaluation, confidence: float | None) -> FloatArray:
    """The expected distance of each group, or its bound."""
    bound = evaluation.bound(confidence)
    return evaluation.expected if bound is None else bound


def _search(
    evaluate: Evaluate, epsilon: FloatArray, confidence: float | None, beyond: AnyArray
) -> tuple[Found, list[Found]]:
    """The best for the groups that are not `beyond` reach, from the loose end down, and all that were tried.

    The expected distance is flat where the rows already keep the tolerance, and need not fall with it.
    """
    tried: dict[float, tuple[float, Found]] = {}

    def attempt(fraction: float) -> float:
        fractions = np.where(beyond, LEAST, fraction)
        found = evaluate(fractions)
        tried[fraction] = found.ratio(epsilon, confidence, ~beyond), Found(fractions, found)
        return tried[fraction][0]

    if not epsilon.any():  # a fraction of nothing is nothing
        attempt(LEAST)
        return tried[LEAST][1], []
    fraction = 1.0
    while len(tried) < MOST_TRIES and fraction not in tried:
        ratio = attempt(fraction)
        keeps = max((each for each in tried if tried[each][0] <= 1.0), default=None)
        exceeds = min((each for each in tried if tried[each][0] > 1.0), default=None)
        if keeps is None:
            if fraction <= LEAST:
                break
            last = len(tried) == MOST_TRIES - 1
            fraction = LEAST if last else max(LEAST, round(_step_down(tried, fraction, ratio), DIGITS))
        elif exceeds is None or tried[keeps][0] >= CLOSE:
            break
        else:
            fraction = round(_between(tried, keeps, exceeds), DIGITS)
    kept = [each for each in tried if tried[each][0] <= 1.0]
    best = max(kept) if kept else min(tried, key=lambda each: (tried[each][0], each))
    return tried[best][1], [found for _, found in tried.values()]


def _step_down(tried: dict[float, tuple[float, Found]], fraction: float, ratio: float) -> float:
    """Along the last two that exceed epsilon; at first the distance is assumed to grow with its tolerance."""
    slope = ratio / fraction
    if len(tried) > 1:
        before = list(tried)[-2]
        slope = min(max((tried[before][0] - ratio) / (before - fraction), 0.5), slope)
    return min(fraction - (ratio - AIM) / slope, 0.95 * fraction)


def _between(tried: dict[float, tuple[float, Found]], keeps: float, exceeds: float) -> float:
    """False position between the largest that keeps epsilon and the smallest that exceeds it."""
    low, high = tried[keeps][0] - AIM, tried[exceeds][0] - AIM
    return keeps + (exceeds - keeps) * float(np.clip(-low / (high - low), 0.1, 0.9))
