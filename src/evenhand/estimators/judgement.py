"""What new people will see, from what the judged rows show, where a distance is one gap or a sum of gaps."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student

from evenhand._utils.typing import FloatArray
from evenhand.dual.operators import Identity, L1Norm
from evenhand.dual.step import ParityStep
from evenhand.estimators.chance import constraint_rows, distances, draw_jackknife, norms, root_mean_square

NOISE_SHARE = 0.6  # of the squared noise that is taken off, where it is of one gap
LEAST_OVERFIT = 0.75  # share of the noise: a few fits may happen to agree
HIDDEN = 1.28  # standard deviations of the noise that a distance has to show to be seen: nine times in ten
FARTHEST = 0.75  # of what the farthest of several is beyond each: it is farthest in part by chance


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What one tolerance comes to on held-out rows, in the units of epsilon, (n_groups,) each."""

    share: FloatArray  # of epsilon
    measured: FloatArray
    noise: FloatArray  # root mean square of what chance shows
    systematic: FloatArray  # what the models and the step get wrong: more rows do not mend it
    alone: FloatArray  # distance for new people, on average, were there no other group
    spread: FloatArray  # standard error of the distance
    n_fits: int  # behind these figures
    n_apart: int  # groups, or pairs of them, of which each may be the farthest

    @property
    def expected(self) -> FloatArray:
        """Distance for new people, on average."""
        return self.alone + FARTHEST * _mean_of_largest(self.n_apart) * self.spread

    def bound(self, confidence: float | None) -> FloatArray | None:
        """What the distance stays below with that confidence.

        One-sided for each group: all of them are within epsilon only if the farthest one is, so that no
        share of the confidence is spent on their number.
        """
        if confidence is None:
            return None
        # Student's quantile: what fits differ by is known from a few of them
        return self.expected + float(student.ppf(confidence, self.n_fits - 1)) * self.spread

    def promised(self, confidence: float | None) -> FloatArray:
        """The bound, or what is expected."""
        bound = self.bound(confidence)
        return self.expected if bound is None else bound


@dataclass(frozen=True, slots=True, eq=False)
class ByProbability:
    """Held-out rows that count in each group by its probability: chance is then of their features alone."""

    of_maps: FloatArray  # gaps by the probabilities of each fit, of the same predictions
    noise: FloatArray  # draws of the gaps by chance, of the same rows as those by known groups
    bent: FloatArray  # the same draws for what the fits bend to their own rows, on average over the fits


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What the fits without each fold show on the judged rows; gaps are (n_groups, n_atoms)."""

    gaps: FloatArray  # of held-out rows, by the groups that are known
    own: FloatArray  # rows of the constraint that the fits leave on their own rows, (n_groups, n_constraints)
    own_distances: FloatArray  # of these, on average over the fits, (n_groups,)
    of_fits: FloatArray  # gaps of all rows, of each fit
    noise: FloatArray  # draws of the gaps by chance
    known_by_proba: bool  # chance is then of features alone, and that the step has fitted away
    by_probability: ByProbability | None  # where the norm adds up gaps
    excesses: tuple[FloatArray, ...] = ()  # `squared_excess` of each tolerance that was tried, this one last


def adds_up(step: ParityStep) -> bool:
    """Whether the distance of the step is a sum over atoms, each of which has a chance of its own.

    Sums along a distribution function ("w1") share theirs, and are off as the largest of them is.
    """
    parity = step.make_parity()
    return isinstance(parity.norm, L1Norm) and isinstance(parity.operator, Identity)


def judge(step: ParityStep, shown: Shown, share: FloatArray, n_apart: int) -> Judgement:
    """What the share of epsilon, asked for on the rows of the step, comes to for new people."""
    measured = distances(step, shown.gaps)
    noise = root_mean_square(distances(step, shown.noise))
    if shown.by_probability is None:
        parts = _of_largest(step, shown, measured, noise)
    else:
        parts = _of_sum(step, shown, shown.by_probability, noise)
    n_fits = len(shown.of_fits)
    return Judgement(share, measured, noise, *parts, n_fits=n_fits, n_apart=n_apart)


def _of_largest(
    step: ParityStep, shown: Shown, measured: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What is systematic, what is expected, and its standard error, where the norm is one gap's size.

    No less is expected than chance would hide on these rows.
    """
    overfit = draw_jackknife(shown.of_fits)
    taken_off = 0.0 if shown.known_by_proba else NOISE_SHARE * noise**2
    systematic = np.sqrt(np.maximum(measured**2 - taken_off, 0.0))
    bent = np.maximum(root_mean_square(distances(step, overfit)), LEAST_OVERFIT * noise)
    alone = np.maximum(np.hypot(np.maximum(systematic, shown.own_distances), bent), noise)
    return systematic, alone, distances(step, shown.gaps + shown.noise + overfit).std(axis=0)


def _of_sum(
    step: ParityStep, shown: Shown, by_probability: ByProbability, noise: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same where the norm adds up gaps, and chance adds to each of them."""
    follows = _slopes(shown.noise, by_probability.noise)
    of_features = root_mean_square(distances(step, follows * by_probability.noise))
    of_maps = root_mean_square(distances(step, draw_jackknife(by_probability.of_maps)))
    wrong = np.sqrt(np.maximum(np.mean(shown.excesses, axis=0), 0.0))
    hidden = hidden_by_chance(distances(step, shown.noise))
    bent = np.maximum(np.hypot(of_features, of_maps), LEAST_OVERFIT * hidden)
    beyond = np.hypot(wrong, bent)
    draws = constraint_rows(step, shown.noise) / np.maximum(noise, np.finfo(float).tiny)[:, None]

    def drawn(size: FloatArray) -> FloatArray:
        """Distances where chance of this size, (n_groups,), comes to the gaps on the rows of the fits."""
        return norms(step, shown.own + size[:, None] * draws)

    # The estimate is off by the chance of these rows, and new people by what is beyond them.
    spread = drawn(np.hypot(noise, beyond)).std(axis=0)
    return drawn(wrong).mean(axis=0), np.maximum(drawn(beyond).mean(axis=0), hidden), spread


def squared_excess(step: ParityStep, shown: Shown, by_probability: ByProbability) -> FloatArray:
    """What held-out rows show beyond the gaps of the fits' own rows, squared, less the chance in it.

    By chance it is negative, too. What the models get wrong is much the same at every tolerance, so that a
    mean over several tells it better than one.
    """
    follows = _slopes(shown.noise, by_probability.noise)
    not_own = norms(step, constraint_rows(step, shown.gaps) - shown.own)
    uncancelled = root_mean_square(distances(step, shown.noise - follows * by_probability.bent))
    excess: FloatArray = not_own**2 - uncancelled**2
    return excess


def _slopes(noise: FloatArray, by_proba: FloatArray) -> FloatArray:
    """How much the groups follow their probabilities, (n_groups, 1): 1 where these are calibrated.

    From draws of both for the same rows. Where probabilities are half way to the prior, the features' chance
    is twice of what they say.
    """
    both, own = (noise * by_proba).sum(axis=(0, 2)), (by_proba**2).sum(axis=(0, 2))
    slopes: FloatArray = both / np.maximum(own, np.finfo(float).tiny)
    return slopes[:, None]


def hidden_by_chance(draws: FloatArray) -> FloatArray:
    """The distance that chance hides on these rows, from draws of what it shows there, (n_draws, n_groups).

    With a distance V rows show about `sqrt(noise^2 + V^2)`, which is seen where chance alone hardly shows as
    much. The noise of one gap hides distances of its own size, that of a sum of many, which hardly varies,
    about half of that; more than the noise is never said to be hidden.

    >>> gaps = np.abs(np.random.default_rng(0).standard_normal((1000, 50)))
    >>> one, many = gaps[:, :1], gaps.mean(axis=1, keepdims=True)
    >>> (hidden_by_chance(one) / root_mean_square(one)).round(1)
    array([1.])
    >>> (hidden_by_chance(many) / root_mean_square(many)).round(1)
    array([0.5])
    """
    noise = root_mean_square(draws)
    hidden: FloatArray = np.minimum(np.sqrt((noise + HIDDEN * draws.std(axis=0)) ** 2 - noise**2), noise)
    return hidden


def _mean_of_largest(count: int) -> float:
    """Of as many standard normal numbers, by Blom's formula: the farthest of several is farther than each.

    >>> [round(_mean_of_largest(count), 2) for count in (1, 2, 5)]
    [0.0, 0.59, 1.18]
    """
    return float(normal.ppf((count - 0.375) / (count + 0.25)))
