"""The gap that new data show, estimated from the rows of one fit.

A policy pi(. | eta, tau) was solved on rows i that were scored out of fold. F_i is what the operator
of the notion makes of its distribution for row i, tau_i are the group probabilities, p_s = mean tau_is,
F_s = mean tau_is F_i / p_s and F = mean F_i (within the stratum of s, where there are strata). To first
order, new data show for group s

    G_s = c_s + D_s + B_s + N_s,    N_s = M_s + Z_s

    c   F_s - F: the gap left on the rows, by tau
    Z   (1/n) sum_i x_i [(F_i - F_s) tau_is / p_s - (F_i - F)]: sampling noise of the features. The step
        cancels it in-sample, so it reappears with the opposite sign out of sample. It is multiplied by the
        slope of the groups in tau, which is 1 where tau is calibrated.
    M   A_s' I_s^-1 (1/n) sum_i x'_i psi_i e_is: label noise that the maps with terms psi absorbed, with
        e_is = 1{S_i = s} - tau_is, I_s = mean tau_s (1 - tau_s) psi psi',
        A_s = mean tau_s (1 - tau_s) psi (F - F_s) / p_s
    B   error of the group model. Labels show b_s = (1/n) sum_i e_is (F_i - F_s) / p_s = B_s + E_s, with
        E = Z_L - M, where Z_L is b with multipliers x'_i. A priori, B_s has the shape of E_s, and its
        fraction u_s = |B_s|^2 / (|B_s|^2 + E|E_s|^2) is uniform on [0, 1], or that of another group (a
        Dirichlet process of mass one). Given b and u, B* = u b + sqrt(u) E.
    D   what the deployed models do beyond the fold models, measured without labels at the first policy
    r   regression to the mean: a constraint binds more readily where noise enlarged g, the gap before the
        step (policy F0). Given g, the mean of N_s is -r_s g_s, with
        r_s = E<N_s(F), N_s(F0)> / max(|g_s|^2, E|N_s(F0)|^2)

    expected = mean of     max_s |c + D + B* + N - (1 - E u) r g|_s / epsilon_s
    bound    = quantile of max_s |c + D + B* + N|_s / epsilon_s

over draws of u, E and N given the rows. A statement given the rows holds for whatever is chosen by these
rows, such as the tolerance and the warning. x and x' are one normal multiplier for each block of rows, so
that noise costs one pass over the rows; the rows of one cluster lie in one block.
docs/concepts/mathematics.md has the derivation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.calibration import joint_inputs
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep

AUTO, AVERAGE = "auto", "average"
LEAST_ROWS = 5  # with known group in each group
N_BLOCKS = 200  # of rows: noise of as many multipliers has its size within 5%
N_DRAWS = 200
FRACTIONS = (np.arange(40) + 0.5) / 40  # grid of u
MOST_MAP_ROWS = 5_000  # rows for A and I, which are means
CHUNK_ROWS = 16_384  # rows whose distributions are held at once
MOST_TIMES = 100.0  # times as many rows are not worth naming
# Rows as some models score them, what each counts in each group, and the factor of their gap
Shift: TypeAlias = tuple[Rows, FloatArray, float]
FLAT = 1e-20  # variance of probabilities that is rounding
TINY = float(np.finfo(float).tiny)


def is_for_new_data(confidence: object, *, knows_groups: bool) -> bool:
    """Whether epsilon is for new data; refuses values that `confidence` cannot have."""
    if confidence is None or isinstance(confidence, str):
        known = confidence in (None, AUTO, AVERAGE)
    else:
        known = isinstance(confidence, float | np.floating) and bool(0.0 < confidence < 1.0)
    if not known:
        raise ValueError(
            f'confidence must be "auto", "average", a number between 0 and 1, or None: got {confidence!r}.'
        )
    if confidence is None or confidence == AUTO:
        return confidence == AUTO and knows_groups
    if not knows_groups:
        raise ValueError(
            f"confidence={confidence!r} is about the true groups: pass sensitive_features to fit, or "
            "confidence=None to keep epsilon on the rows of the fit alone."
        )
    return True


def confidence_level(confidence: Any) -> float | None:
    """The probability with which epsilon is to hold; None: on average."""
    return None if confidence in (None, AUTO, AVERAGE) else float(confidence)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutRows:
    """Rows with known group, scored by models that have not seen them."""

    rows: Rows
    known: FloatArray  # zeros and ones, or probabilities, (n_rows, n_groups)
    terms: FloatArray | None = None  # psi: terms of the maps of the group probabilities, (n_rows, n_terms)
    clusters: IntArray | None = None  # rows of one cluster have one multiplier; None: each row is its own
    shift: Sequence[Shift] = ()  # D as a sum of gaps

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.known)


def held_out_rows(rows: Rows, known: FloatArray) -> HeldOutRows:
    """The rows whose group is known among rows that came scored; their probabilities may have linear maps."""
    inside = known.any(axis=1)
    if inside.all():
        return HeldOutRows(rows, known, first_terms(rows.scores, rows.group_proba))
    some = rows.take(np.flatnonzero(inside))
    return HeldOutRows(some, known[inside], first_terms(some.scores, some.group_proba))


def first_terms(scores: FloatArray, group_proba: FloatArray) -> FloatArray:
    """Ones, scores and log-ratios of the probabilities, standardized, (n_rows, n_terms)."""
    inputs = joint_inputs(scores, [group_proba])
    inputs = inputs / np.maximum(np.abs(inputs).max(axis=0), 1.0)  # of huge scores no square is finite
    spread = inputs.std(axis=0)
    standard = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.column_stack([np.ones(len(inputs)), standard])


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """What one policy comes to on new data, in the units of epsilon."""

    typical: FloatArray  # draws of the distance, with the regression to the mean, (n_draws, n_groups)
    draws: FloatArray  # draws of the distance without it, for bounds
    measured: FloatArray  # distance on held-out rows by the known groups, (n_groups,)
    noise: FloatArray  # distance that sampling noise alone shows there on average
    systematic: FloatArray  # part of the distance that more rows would not remove
    lasting: FloatArray  # rows of the constraint behind it, (n_groups, n_constraints)
    passing: FloatArray  # draws of what shrinks with the number of rows, (n_draws, n_groups, n_constraints)

    @property
    def expected(self) -> FloatArray:
        """Distance of each group on new data, on average, (n_groups,)."""
        mean: FloatArray = self.typical.mean(axis=0)
        return mean

    def bound(self, confidence: float | None) -> FloatArray | None:
        """What the distance of each group stays below with that confidence."""
        return None if confidence is None else np.quantile(self.draws, confidence, axis=0)

    def ratio(self, epsilon: FloatArray, confidence: float | None, groups: AnyArray) -> float:
        """The largest distance among some groups as a multiple of epsilon: its mean, or its quantile."""
        draws = self.typical if confidence is None else self.draws
        return _largest(draws[:, groups], epsilon[groups], confidence)


class OutOfSampleEstimator:
    """Evaluates policies of one step on the same rows and the same draws of the noise.

    Parameters
    ----------
    step : ParityStep
    rows : Rows
        Those that the step is solved on.
    held_out : HeldOutRows
        With the group probabilities of new rows; its rows may be those of the step.
    """

    def __init__(
        self,
        step: ParityStep,
        rows: Rows,
        held_out: HeldOutRows,
    ) -> None:
        self.step, self.held_out = step, held_out
        rng = np.random.default_rng(0)
        self._out = _Sample(held_out, rng)
        same = rows is held_out.rows
        self._own = self._out if same else _Sample(HeldOutRows(rows, rows.group_proba), rng)
        self._x = rng.standard_normal((N_DRAWS, self._own.n_blocks))
        self._x_labels = rng.standard_normal((N_DRAWS, self._out.n_blocks))
        self._rank = (rng.permutation(N_DRAWS) + 0.5) / N_DRAWS  # of u in each draw
        self._zeros = np.zeros((step.resolved.operator.n_rows, len(step.group_prior)))
        self._before: tuple[FloatArray, FloatArray] | None = None  # gap without the step, draws of its noise
        self._moved: FloatArray | None = None  # D, at the first policy

    def evaluate(self, policy: SoftmaxPolicy) -> Evaluation:
        """What new data show of a policy that was solved on the rows."""
        with one_blas_thread():
            if self._before is None:
                gap, _, noise, *_ = self._parts(self.step.policy(self._zeros))
                self._before, self._moved = (gap, noise), self._shift(policy)
            return self._evaluate(policy)

    def _evaluate(self, policy: SoftmaxPolicy) -> Evaluation:
        assert self._before is not None
        assert self._moved is not None
        moved = self._moved
        left, shown, noise, of_labels, measured, sampling = self._parts(policy)
        posterior = _posterior(shown, of_labels)
        places = (self._rank[:, None, None] > posterior.cumsum(axis=1)).sum(axis=-1)
        u = FRACTIONS[np.minimum(places, len(FRACTIONS) - 1)][..., None]
        mean_u = (posterior @ FRACTIONS)[:, None]
        gaps = left + moved + u * shown + np.sqrt(u) * of_labels + noise
        gap, of_gap = self._before
        back = (noise * of_gap).sum(axis=-1).mean(axis=0)
        back = back / np.maximum((gap**2).sum(axis=-1), (of_gap**2).sum(axis=-1).mean(axis=0) + TINY)
        regression = (1.0 - mean_u) * np.clip(back, 0.0, 1.0)[:, None] * gap
        lasting = moved + mean_u * shown
        return Evaluation(
            typical=self._norm(gaps - regression),
            draws=self._norm(gaps),
            measured=self._norm(measured),
            noise=self._norm(sampling).mean(axis=0),
            systematic=self._norm(lasting),
            lasting=lasting,
            passing=noise,
        )

    def rows_needed(self, found: Evaluation, confidence: float | None) -> int | None:
        """About how many rows with known group would be enough; None where no number would."""
        epsilon, n_rows = self.step.epsilon, self.held_out.n_rows

        def ratio(times: float) -> float:
            return _largest(self._norm(found.lasting + found.passing / np.sqrt(times)), epsilon, confidence)

        low, high = 1.0, MOST_TIMES
        if ratio(high) > 1.0:
            return None
        for _ in range(20):
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if ratio(middle) > 1.0 else (low, middle)
        return int(np.ceil(n_rows * high))

    def sampling_noise(self, policy: SoftmaxPolicy) -> FloatArray:
        """Distance that sampling noise alone shows on the held-out rows on average, (n_groups,)."""
        with one_blas_thread():
            noise: FloatArray = self._norm(self._parts(policy)[-1]).mean(axis=0)
            return noise

    def _parts(self, policy: SoftmaxPolicy) -> tuple[FloatArray, ...]:
        """c, b, draws of N = M + Z and of E, the gaps by known groups, and draws of their sampling noise."""
        out = self._out.sums(policy)
        own = out if self._own is self._out else self._own.sums(policy)
        of_features = self._draw(self._x, own.changes(own.by_group, self._own.totals))
        of_features = self._out.slopes[:, None] * of_features
        changes = out.changes(out.by_label, self._out.label_totals)
        absorbed = self._draw(self._x_labels, self._out.absorbed(out))
        of_labels = self._draw(self._x_labels, changes)
        shown = self._operate(changes.sum(axis=0))
        known = out.changes(out.by_group + out.by_label, self._out.totals + self._out.label_totals)
        return (
            self._operate(own.gaps),
            shown,
            of_features + absorbed,
            of_labels - absorbed,
            self._operate(out.gaps) + shown,
            self._draw(self._x_labels, known),
        )

    def _draw(self, multipliers: FloatArray, changes: FloatArray) -> FloatArray:
        """Draws of the noise of changes that blocks make, (n_draws, n_groups, n_constraints)."""
        return self._operate(np.tensordot(multipliers, changes, 1))

    def _shift(self, policy: SoftmaxPolicy) -> FloatArray:
        """D, (n_groups, n_constraints)."""
        total = self._zeros.T
        for rows, counts, factor in self.held_out.shift:
            pmf = policy.pmf(rows.scores, rows.group_proba)
            total = total + factor * self._operate(_gaps(counts, pmf, self._own.inside))
        return total

    def _operate(self, gaps: FloatArray) -> FloatArray:
        """The operator of the notion, over the last axis."""
        columns = np.ascontiguousarray(gaps.reshape(-1, gaps.shape[-1]).T)
        return self.step.resolved.operator.apply(columns).T.reshape(*gaps.shape[:-1], -1)

    def _norm(self, gaps: FloatArray) -> FloatArray:
        """The norm of the notion, in the units of epsilon, over the last axis."""
        columns = np.ascontiguousarray(gaps.reshape(-1, gaps.shape[-1]).T)
        return self.step.unit * self.step.resolved.norm.value(columns).reshape(gaps.shape[:-1])


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of the distributions of rows over each block, (n_blocks, n_groups, n_atoms)."""

    by_group: FloatArray
    by_label: FloatArray  # by residuals of the labels
    pmf: FloatArray  # of the rows for means over maps, (n_some_rows, n_atoms)
    mass: FloatArray  # of each group, (n_groups, 1)
    inside: FloatArray  # ones where two groups are of one stratum, (n_groups, n_groups)

    @property
    def group(self) -> FloatArray:
        """Distribution of each group, (n_groups, n_atoms)."""
        found: FloatArray = self.by_group.sum(axis=0) / self.mass
        return found

    @property
    def stratum(self) -> FloatArray:
        """Distribution of the stratum of each group, (n_groups, n_atoms)."""
        found: FloatArray = self.inside @ self.by_group.sum(axis=0) / (self.inside @ self.mass)
        return found

    @property
    def gaps(self) -> FloatArray:
        """Distribution of each group minus that of its stratum, (n_groups, n_atoms)."""
        return self.group - self.stratum

    def changes(self, sums: FloatArray, totals: FloatArray) -> FloatArray:
        """Change of the gaps where the rows of a block count more, by these sums and totals."""
        more, more_totals = np.einsum("qr,brm->bqm", self.inside, sums), (totals @ self.inside)[..., None]
        of_group: FloatArray = (sums - totals[..., None] * self.group) / self.mass
        of_stratum: FloatArray = (more - more_totals * self.stratum) / (self.inside @ self.mass)
        return of_group - of_stratum


class _Sample:
    """Rows in the order of their blocks, and what they count in each group."""

    def __init__(self, held_out: HeldOutRows, rng: np.random.Generator) -> None:
        rows, n_rows = held_out.rows, held_out.n_rows
        clusters = np.arange(n_rows) if held_out.clusters is None else held_out.clusters
        n_clusters = int(clusters.max()) + 1
        self.n_blocks = min(N_BLOCKS, n_clusters)
        block = (rng.permutation(n_clusters) * self.n_blocks // n_clusters)[clusters]
        order = np.argsort(block, kind="stable")
        weights = np.full(n_rows, 1.0 / n_rows) if rows.weights is None else rows.weights
        strata = np.zeros(rows.group_proba.shape[1], np.int64) if rows.strata is None else rows.strata
        self.scores, self.group_proba = rows.scores[order], rows.group_proba[order]
        self.counts = weights[order, None] * self.group_proba
        self.residuals = weights[order, None] * (held_out.known[order] - self.group_proba)
        self.ends = np.cumsum(np.bincount(block, minlength=self.n_blocks))
        self.starts = np.append(0, self.ends[:-1])
        self.totals, self.label_totals = (
            np.add.reduceat(each, self.starts) for each in (self.counts, self.residuals)
        )
        self.inside = np.equal.outer(strata, strata).astype(float)
        self.slopes = _calibration_slopes(self.group_proba, self.residuals)
        self.maps = _Maps.of(self, None if held_out.terms is None else held_out.terms[order])

    def sums(self, policy: SoftmaxPolicy) -> _Sums:
        """Sums of the distributions of the rows, some blocks at a time."""
        by_group, by_label, pmf = list[FloatArray](), list[FloatArray](), np.empty(0)
        size = max(1, CHUNK_ROWS * self.n_blocks // len(self.scores))
        for begin in range(0, self.n_blocks, size):
            starts, ends = self.starts[begin : begin + size], self.ends[begin : begin + size]
            first = starts[0]
            pmf = policy.pmf(self.scores[first : ends[-1]], self.group_proba[first : ends[-1]])
            for start, end in zip(starts, ends, strict=True):
                part = pmf[start - first : end - first]
                by_group.append(self.counts[start:end].T @ part)
                by_label.append(self.residuals[start:end].T @ part)
        if len(pmf) < len(self.scores):
            pmf = policy.pmf(self.scores[self.maps.rows], self.group_proba[self.maps.rows])
        else:
            pmf = pmf[self.maps.rows]
        mass = self.counts.sum(axis=0)[:, None]
        return _Sums(np.stack(by_group), np.stack(by_label), pmf, mass, self.inside)

    def absorbed(self, sums: _Sums) -> FloatArray:
        """Change of the gaps by what the maps make of the labels of each block."""
        found, maps, several = np.zeros_like(sums.by_group), self.maps, not self.inside.all()
        whole = self.inside @ sums.mass
        for s, (slopes, moves) in enumerate(zip(maps.slopes, maps.moves, strict=True)):
            moved, total = slopes.T @ sums.pmf, slopes.sum(axis=0)[:, None]
            found[:, s] += moves @ ((moved - total * sums.group[s]) / sums.mass[s])
            if several:  # the columns of a stratum need not sum to one
                change = moves @ ((moved - total * sums.stratum[s]) / whole[s])
                found -= change[:, None] * self.inside[s][:, None]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Maps:
    """What the maps of the group probabilities make of the labels, group by group."""

    rows: slice  # some of the rows, for means over them
    slopes: list[FloatArray]  # change of a row's count by that of a coefficient, (n_some_rows, n_terms)
    moves: list[FloatArray]  # change of the coefficients by the labels of a block, (n_blocks, n_terms)

    @classmethod
    def of(cls, sample: "_Sample", terms: FloatArray | None) -> "_Maps":
        """Newton steps of logistic regressions, one group against the others, with a ridge of one row."""
        if terms is None:
            return cls(slice(0), [], [])
        n_rows = len(terms)
        some = slice(None, None, max(1, n_rows // MOST_MAP_ROWS))
        scale = n_rows / len(terms[some])
        slopes, moves = [], []
        for s in range(sample.counts.shape[1]):
            slope = (
                scale * terms[some] * (sample.counts[some, s] * (1.0 - sample.group_proba[some, s]))[:, None]
            )
            information = n_rows * slope.T @ terms[some] + np.eye(terms.shape[1])
            score = n_rows * np.add.reduceat(terms * sample.residuals[:, [s]], sample.starts)
            slopes.append(slope)
            moves.append(np.linalg.solve(information, score.T).T)
        return cls(some, slopes, moves)


def _calibration_slopes(group_proba: FloatArray, residuals: FloatArray) -> FloatArray:
    """How much the groups follow their probabilities, (n_groups,): 1 where these are calibrated.

    Where probabilities are half way to the prior, the noise of features is twice what they say. The slope is
    moved away from 1 only as far as twice the noise of the labels does not explain it.
    """
    deviations = group_proba - group_proba.mean(axis=0)
    spread = (deviations**2).mean(axis=0)
    spread = np.where(spread > FLAT, spread, np.inf)  # constant probabilities have no slope
    excess = (residuals * deviations).sum(axis=0) / spread
    noise = ((residuals * deviations) ** 2).sum(axis=0) / spread**2
    slopes: FloatArray = 1.0 + excess * np.maximum(0.0, 1.0 - 4.0 * noise / np.maximum(excess**2, TINY))
    return slopes


def _posterior(shown: FloatArray, of_labels: FloatArray) -> FloatArray:
    """Posterior of u = |B|^2 / (|B|^2 + E|E|^2) on its grid, (n_groups, n_fractions), given b and draws of E.

    It is uniform a priori, except for what the b of other groups suggest about theirs.
    """
    noise = (of_labels**2).sum(axis=-1)
    known = noise.mean(axis=0) > 0.0  # elsewhere groups are given, and nothing is unknown
    size, deviation = (np.where(known, each, 1.0) for each in (noise.mean(axis=0), noise.std(axis=0)))
    # |b|^2 (1 - u) / E|E|^2 is about a chi-squared variable of nu degrees of freedom, over nu
    excess, freedom = (shown**2).sum(axis=-1) / size, 2.0 * (size / deviation) ** 2
    fit = freedom[:, None] / 2.0 * (np.log(1.0 - FRACTIONS) - excess[:, None] * (1.0 - FRACTIONS))
    fit = np.exp(fit - fit.max(axis=1, keepdims=True))
    correlation = np.atleast_2d(np.cov(noise.T, bias=True)) / np.outer(deviation, deviation)
    other = 1.0 - np.minimum(correlation**2, 1.0)  # proportional gaps inform only once
    other *= np.outer(known, known)
    np.fill_diagonal(other, 0.0)
    posterior: FloatArray = fit / fit.sum(axis=1, keepdims=True)
    for _ in range(30):  # a fixed point: the Dirichlet process approximately
        posterior = fit * (1.0 / len(FRACTIONS) + other @ posterior) / (1.0 + other.sum(axis=1))[:, None]
        posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


def _largest(distances: FloatArray, epsilon: FloatArray, confidence: float | None) -> float:
    """Mean or quantile over draws of the largest distance as a multiple of epsilon."""
    with np.errstate(over="ignore"):  # of an epsilon next to nothing, infinitely many
        largest = (distances / np.maximum(epsilon, TINY)).max(axis=1)
        return float(largest.mean() if confidence is None else np.quantile(largest, confidence))


def _gaps(counts: FloatArray, pmf: FloatArray, inside: FloatArray) -> FloatArray:
    """Distribution of each group minus that of its stratum, (n_groups, n_atoms)."""
    sums, mass = counts.T @ pmf, counts.sum(axis=0)[:, None]
    whole = np.maximum(inside @ mass, TINY)  # a sample may lack a stratum
    gaps: FloatArray = sums / np.maximum(mass, TINY) - inside @ sums / whole
    return gaps
