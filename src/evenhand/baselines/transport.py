"""Optimal transport of the groups' scores to their common barycentre, on the line."""

from dataclasses import dataclass

import numpy as np

from evenhand._utils.typing import FloatArray, IntArray

DIGITS = 12  # of levels: j / n of one group and k / m of another are the same step if they agree to these


@dataclass(frozen=True, slots=True, eq=False)
class Transport:
    """The quantile functions of the groups, and their mean: the Wasserstein-2 barycentre.

    A score v of group s has the levels between F_s(v-) and F_s(v), all alike: its image is the barycentre's
    quantile at a level drawn from them. The images of every group then have one distribution on the rows of
    the fit, ties or not.
    """

    scores: tuple[FloatArray, ...]  # of each group, sorted
    levels: FloatArray  # where some quantile function steps, increasing to 1, (n_levels,)
    quantiles: FloatArray  # of the barycentre up to each level, not decreasing, (n_levels,)

    @classmethod
    def between(cls, scores: FloatArray, codes: IntArray, n_groups: int) -> "Transport":
        """The transport of the rows' own groups."""
        groups = tuple(np.sort(scores[codes == group]) for group in range(n_groups))
        steps = np.concatenate([np.arange(1, len(group) + 1) / len(group) for group in groups])
        levels = np.unique(steps.round(DIGITS))
        middles = levels - np.diff(levels, prepend=0.0) / 2
        quantiles = np.zeros(len(levels))
        for group in groups:
            quantiles += len(group) / len(scores) * group[(middles * len(group)).astype(np.int64)]
        return cls(groups, levels, np.maximum.accumulate(quantiles))

    def level_range(self, scores: FloatArray, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """`F_s(v-)` and `F_s(v)` of each row, (n_rows,) each."""
        low, high = np.empty(len(scores)), np.empty(len(scores))
        for code, group in enumerate(self.scores):
            rows = codes == code
            low[rows] = np.searchsorted(group, scores[rows], side="left") / len(group)
            high[rows] = np.searchsorted(group, scores[rows], side="right") / len(group)
        return low.round(DIGITS), high.round(DIGITS)

    def below(self, cuts: FloatArray) -> FloatArray:
        """Share of the levels whose quantile is below each cut, in the cuts' shape."""
        with_none = np.concatenate([[0.0], self.levels])
        return with_none[np.searchsorted(self.quantiles, cuts, side="left")]

    def pmf(self, scores: FloatArray, codes: IntArray, atoms: FloatArray, moved: float) -> FloatArray:
        """Distribution over `atoms` of `(1 - moved) score + moved image`, (n_rows, n_atoms).

        Each value counts for the atom nearest to it.
        """
        cuts = (atoms[1:] + atoms[:-1]) / 2
        low, high = self.level_range(scores, codes)
        if moved == 0.0:
            reached = (scores[:, None] < cuts).astype(np.float64)
        else:
            stayed = 0.0 if moved == 1.0 else (1.0 - moved) * scores[:, None]  # a scalar: one row for all
            upto = self.below((cuts - stayed) / moved)
            width = (high - low)[:, None]
            # A score between those of the fit has one level, and so one image.
            inside = np.clip((upto - low[:, None]) / np.where(width > 0, width, 1.0), 0.0, 1.0)
            reached = np.where(width > 0, inside, upto >= np.maximum(low, self.levels[0])[:, None])
        ends = np.zeros((len(scores), 1)), np.ones((len(scores), 1))
        return np.diff(np.concatenate([ends[0], reached, ends[1]], axis=1), axis=1)
