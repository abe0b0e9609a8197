"""The policy: a distribution over the atoms for each row, and what can be read off it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from evenhand._kernels.chunks import run_chunks
from evenhand._kernels.softmax import means_into, pmf_into, quantiles_into
from evenhand._utils.stored import MODERATE, Stored, is_finite, is_moderate
from evenhand._utils.typing import FloatArray, IntArray
from evenhand.dual.costs import Cost, Squared, cost_faults
from evenhand.dual.grid import Grid
from evenhand.dual.imbalance import ImbalanceModel, prior_faults, strata_faults
from evenhand.dual.objective import logit_loadings

LARGEST_LOGIT = 1e30  # in a model file: sums of such are finite, in single precision too
BLOCK_ENTRIES = 1 << 20  # of a pmf held at once


def _refusal(what: str) -> FloatingPointError:
    """The error for predictions that must not be returned."""
    return FloatingPointError(
        f"No predictions are returned, because {what}. Load the model again, or refit it. If the error "
        "remains, delete numba's cache of compiled code (NUMBA_CACHE_DIR, or __pycache__) and report it."
    )


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxPolicy(Stored):
    """`pi(l | x) = softmax_l(beta * (<theta_l, t(x)> - c_l(x)))` (paper, eq. 7, where c is the squared cost).

    Scores come in the user's units, and so do the answers; tilt and temperature belong to the normalised
    scale of the grid. The answer for a row depends on that row alone, bit for bit: not on its batch,
    its place in it, or the number of threads. Memory beyond the answer does not grow with the rows.

    >>> from evenhand.dual.grid import uniform_grid
    >>> policy = SoftmaxPolicy(uniform_grid(0.0, 1.0, 3), np.array([0.5, 0.5]), np.zeros((3, 2)), 4.0)
    >>> policy.pmf(np.array([0.5]), np.array([[0.2, 0.8]])).round(3)
    array([[0.018, 0.965, 0.018]])
    """

    grid: Grid
    group_prior: FloatArray  # p, (n_groups,)
    tilt: FloatArray  # theta = A^T Phi, (n_atoms, n_groups)
    temperature: float  # beta
    strata: IntArray | None = None  # stratum of each group, (n_groups,), as in `ImbalanceModel`
    cost: Cost = field(default_factory=Squared)

    def faults(self) -> Iterator[str]:
        """Shapes that agree, which compiled loops rely on, a positive prior, and a cost of the atoms."""
        if not isinstance(self.grid, Grid):
            yield "it has no grid"
        if (fault := next(prior_faults(self.group_prior), None)) is not None:
            yield fault
        elif not is_finite(self.tilt, None, None):
            yield "its tilt is not a table of finite numbers"
        elif self.tilt.shape != (len(self.grid.atoms), len(self.group_prior)):
            yield "the shapes of its atoms, prior and tilt do not agree"
        elif not is_moderate(self.temperature) or not self.temperature >= 1.0 / MODERATE:
            yield "its temperature is not a positive number"
        elif self.tilt.size and not self._largest_logit() < LARGEST_LOGIT:
            yield "its tilt, prior and temperature come to logits beyond any fit"
        yield from strata_faults(self.strata, self.group_prior)
        yield from cost_faults(self.cost, len(self.tilt))

    def _largest_logit(self) -> float:
        """What the tilt may add to a logit at most, over all rows."""
        return float(self.temperature * (np.abs(self.tilt) @ (1.0 + 1.0 / self.group_prior)).max())

    def pmf(self, scores: FloatArray, group_proba: FloatArray) -> FloatArray:
        """Probability of each atom, shape (n_rows, n_atoms)."""
        out = np.empty((len(scores), len(self.tilt)))
        loadings, offset = self.logits()

        def fill(start: int, stop: int, design: FloatArray) -> int:
            return pmf_into(out[start:stop], design, loadings, offset, 0, stop - start)

        self._fill(fill, scores, group_proba)
        return out

    def mean(self, scores: FloatArray, group_proba: FloatArray) -> FloatArray:
        """Mean of each row's distribution, shape (n_rows,)."""
        out = np.empty(len(scores))
        loadings, offset = self.logits()

        def fill(start: int, stop: int, design: FloatArray) -> int:
            return means_into(
                out[start:stop], design, loadings, offset, self.grid.normalised(), 0, stop - start
            )

        self._fill(fill, scores, group_proba)
        out *= self.grid.half_width
        out += self.grid.centre
        return out

    def likeliest(self, scores: FloatArray, group_proba: FloatArray) -> FloatArray:
        """The atom of the highest probability of each row, the first of equals, shape (n_rows,)."""
        places = np.empty(len(scores), np.int64)
        size = max(1, BLOCK_ENTRIES // len(self.tilt))
        for start in range(0, len(scores), size):
            rows = slice(start, start + size)
            places[rows] = self.pmf(scores[rows], group_proba[rows]).argmax(axis=1)
        return self.grid.atoms[places]

    def quantile(self, scores: FloatArray, group_proba: FloatArray, level: FloatArray) -> FloatArray:
        """Smallest atom whose cumulated probability reaches `level`, one number or one per row."""
        levels = np.ascontiguousarray(np.broadcast_to(level, len(scores)), dtype=np.float64)
        return self.grid.atoms[self._quantile_index(scores, group_proba, levels)]

    def draw(self, scores: FloatArray, group_proba: FloatArray, uniforms: FloatArray) -> FloatArray:
        """An atom for each row, drawn by inversion of its cumulated distribution at `uniforms`."""
        return self.grid.atoms[self._quantile_index(scores, group_proba, uniforms)]

    def _quantile_index(self, scores: FloatArray, group_proba: FloatArray, levels: FloatArray) -> IntArray:
        out = np.empty(len(scores), np.int64)
        loadings, offset = self.logits()

        def fill(start: int, stop: int, design: FloatArray) -> int:
            return quantiles_into(
                out[start:stop], levels[start:stop], design, loadings, offset, 0, stop - start
            )

        self._fill(fill, scores, group_proba)
        return out

    def logits(self) -> tuple[FloatArray, FloatArray]:
        """Loadings (n_atoms, n_design) and offset (n_atoms,) of the logits, in log 2."""
        mixing = ImbalanceModel.from_prior(self.group_prior, self.strata).mixing
        return logit_loadings(self.tilt, mixing, self.cost.model(self.grid), self.temperature)

    def _fill(
        self,
        fill: Callable[[int, int, FloatArray], int],
        scores: FloatArray,
        group_proba: FloatArray,
    ) -> None:
        """Call `fill(start, stop, design)` on every chunk, with the design of its rows alone.

        All predictions pass through here, and are refused if `fill` counts a row with invalid probabilities.
        """
        if not np.isfinite(self.grid.atoms).all():
            raise _refusal("atoms of the model are not finite")
        imbalance = ImbalanceModel.from_prior(self.group_prior, self.strata)

        def run(start: int, stop: int) -> None:
            kept = imbalance.kept_rows(group_proba[start:stop])
            costs = self.cost.rows(self.grid, scores[start:stop])
            if n_invalid := fill(start, stop, np.concatenate([kept, costs.features])):
                raise _refusal(f"probabilities of {n_invalid} or more rows are not finite or do not sum to 1")

        run_chunks(run, len(scores), len(self.tilt))
