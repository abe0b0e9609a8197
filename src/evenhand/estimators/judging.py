"""What a parity step does to new people of the true groups: all that follows the models, cross-fitted.

The step, and the maps that mend the models, are fitted anew without each fold of the rows whose group is
known. Held-out rows of all folds together show the distance of the true groups, in which are

- what the models and the step get wrong, V;
- the chance of who is among these rows, which new people do not share: its size is drawn from the rows;
- and *not* what a fit bends to its own rows. A policy is at parity on the rows that it was fitted on, and so
  off it on others by as much as these differ; but where one fold differs one way, the rest differ the other
  way, so that over all folds it cancels. It is seen where the fits without each fold are compared on the
  same rows: their differences, scaled as in the jackknife, are of the size of what new people will see.

So a group's distance for new people is about `sqrt(V^2 + overfit^2)`, `V^2 = measured^2 - 0.6 noise^2`. Not
all of the noise is taken off: a part of it is fitted by the models, and so not in what was measured. V is
taken to be no less than the distance on the rows of the fits: where it was measured smaller, that was luck.
Of several strata, or more than two groups, each may be the farthest: something is added for that.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import norm as normal
from scipy.stats import t as student

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.certificates import Promise
from evenhand.dual.imbalance import stratum_sums
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators.judged_rows import JudgedRows
from evenhand.estimators.share_search import LEAST_SHARE, ShareSearch
from evenhand.metrics.masses import GroupMasses
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership
from evenhand.solvers import Solver, Status, run

AUTO, AVERAGE = "auto", "average"
N_FOLDS = 5  # of rows that come scored
PRECISION = 0.02  # of a fit that is only measured, as a share of epsilon
# Small multipliers of one tolerance pass for those of a larger one, which no group is near to: solve finer.
LEAST_USED, FINER, MOST_FINER = 0.95, 0.05, 4
N_DRAWS = 100  # of the noise: its size is then known to 3 %
NOISE_SHARE = 0.6  # of the squared noise that is taken off
LEAST_OVERFIT = 0.75  # share of the noise: a few fits may happen to agree
FARTHEST = 0.75  # of what the farthest of several is beyond each: it is farthest in part by chance
MOST_TRIES = 4
MOST_TIMES = 100.0  # as many rows are worth a word; with more, it is the models that are to be mended


def is_for_new_people(confidence: object, *, knows_groups: bool) -> bool:
    """Whether epsilon is a promise to new people; refuses a confidence that is none."""
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
class JudgedFold:
    """A fold, and all that the fit without it knows."""

    rows: Rows  # that the step without the fold learns from
    scored: ScoredRows  # all judged rows, as the maps without the fold see them; their groups are known
    held_out: IntArray  # places of the fold among them
    n_known: int | None = None  # judged rows whose group is known; None: all


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What one tolerance comes to on held-out rows, in the units of epsilon, (n_groups,) each."""

    share: FloatArray  # of epsilon
    measured: FloatArray
    own: FloatArray  # on the rows of the fits themselves, by group probabilities
    noise: FloatArray  # root mean square of what chance shows
    overfit: FloatArray  # the same, of what fits differ by
    spread: FloatArray  # standard error of the distance
    n_fits: int  # behind these figures
    n_apart: int  # groups, or pairs of them, of which each may be the farthest
    noise_share: float = NOISE_SHARE

    @property
    def systematic(self) -> FloatArray:
        """What is left without the noise, V."""
        return np.sqrt(np.maximum(self.measured**2 - self.noise_share * self.noise**2, 0.0))

    @property
    def expected(self) -> FloatArray:
        """Distance for new people, on average; never less than chance would hide on these rows."""
        overfit = np.maximum(self.overfit, LEAST_OVERFIT * self.noise)
        alone = np.maximum(np.hypot(np.maximum(self.systematic, self.own), overfit), self.noise)
        return alone + FARTHEST * _mean_of_largest(self.n_apart) * self.spread

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


@dataclass(slots=True, eq=False)
class Judge:
    """Measures tolerances of one step on the same folds, each fit started from the last one."""

    step: ParityStep  # with the epsilon that is asked for
    solver: Solver[Any]
    folds: Sequence[JudgedFold]
    own_prior: bool  # the step's prior was given, and is not that of its rows
    starts: dict[int, FloatArray] = field(default_factory=dict)  # of each fold; at first, of the one before
    noise: FloatArray | None = None  # draws of the gaps by chance, (n_draws, n_groups, n_atoms)

    def promise(self, confidence: float | None) -> Promise:
        """The largest tolerance that keeps epsilon for new people, or the least where none does."""
        found = self._find_tolerance(confidence)
        epsilon, members = self.step.epsilon, self.folds[0].scored.members
        n_rows = members.n_rows if self.folds[0].n_known is None else self.folds[0].n_known
        return Promise(
            groups=members.labels,
            epsilon=epsilon,
            tolerance=found.share * epsilon,
            measured=found.measured,
            chance=found.noise,
            expected=found.expected,
            bound=found.bound(confidence),
            confidence=confidence,
            n_rows=n_rows,
            rows_needed=_rows_needed(found, epsilon, confidence, n_rows),
            due_to_models=found.systematic,
            within=members.strata is not None,
        )

    def _find_tolerance(self, confidence: float | None) -> Judgement:
        """One share of epsilon for all groups that one can be had for, and the least for the others.

        With a share of its own for each group, chance decides which of them pays: at the same distance of
        the farthest group that costs some per cent of risk.
        """
        places = _constrained_together(self.step)
        beyond = np.zeros(len(places), bool)
        while True:
            found = self._search(confidence, beyond)
            fails = self._ratios(found, confidence) > 1.0
            more = np.isin(places, places[fails]) & ~beyond
            beyond |= more
            if not more.any() or beyond.all():
                return found

    def _search(self, confidence: float | None, beyond: AnyArray) -> Judgement:
        """The largest share that does for all groups but those `beyond` it, or the least."""
        if not self.step.epsilon.any():  # a share of nothing is nothing
            return self.measure(np.full(len(beyond), LEAST_SHARE))
        search, tried = ShareSearch(), dict[float, Judgement]()
        while not search.done and len(tried) < MOST_TRIES:
            found = self.measure(np.where(beyond, LEAST_SHARE, search.share))
            tried[search.share] = found
            search.note(float(self._ratios(found, confidence)[~beyond].max()))
        best = search.settled()
        return tried[best] if best in tried else self.measure(np.where(beyond, LEAST_SHARE, best))

    def _ratios(self, found: Judgement, confidence: float | None) -> FloatArray:
        """What is promised, in epsilons."""
        with np.errstate(over="ignore"):  # of an epsilon next to nothing, infinitely many
            return found.promised(confidence) / np.maximum(self.step.epsilon, np.finfo(float).tiny)

    def measure(self, share: FloatArray) -> Judgement:
        """What `share` times epsilon, asked for on the rows of the step, comes to on held-out ones."""
        members, last = self.folds[0].scored.members, None
        pmf = np.empty((members.n_rows, len(self.step.grid.atoms)))
        of_fits: list[FloatArray] = []
        own = np.zeros(len(share))
        with one_blas_thread():
            for number, fold in enumerate(self.folds):
                if last is None or fold.rows is not last.rows:  # else the same rows have the same policy
                    policy, distances = self._fit(number, share)
                    found = policy.pmf(fold.scored.scores, fold.scored.group_proba)
                    gaps = _gaps(members.sums(found)[:-1], members)
                of_fits.append(gaps)
                own += distances / len(self.folds)
                pmf[fold.held_out] = found[fold.held_out]
                last = fold
            masses = members.sums(pmf)[:-1]
            if self.noise is None:
                self.noise = _noise(pmf, masses, members)
        gaps, overfit = _gaps(masses, members), _jackknife(np.array(of_fits))
        total = _distances(self.step, gaps + self.noise + overfit)
        return Judgement(
            share=share,
            measured=_distances(self.step, gaps[None])[0],
            own=own,
            noise=_root_mean_square(_distances(self.step, self.noise)),
            overfit=_root_mean_square(_distances(self.step, overfit)),
            spread=total.std(axis=0),
            n_fits=len(self.folds),
            n_apart=int(_constrained_together(self.step).max()) + 1,
            # By probabilities chance is in the features alone, and that the step has fitted away.
            noise_share=0.0 if members.by_proba else NOISE_SHARE,
        )

    def _fit(self, number: int, share: FloatArray) -> tuple[SoftmaxPolicy, FloatArray]:
        """The policy of the fit without a fold, and the distances that it leaves on its rows."""
        fold = self.folds[number]
        prior = self.step.group_prior if self.own_prior else fold.rows.group_mass()
        step = replace(self.step, group_prior=prior, epsilon=share * self.step.epsilon)
        start: Any = self.starts.get(number, self.starts.get(number - 1))
        precision = PRECISION * self.step.slack.max()  # of what is asked: a part of it deserves no more
        problem, norm = step.problem(fold.rows), step.make_parity().norm
        for turn in range(MOST_FINER):
            solver = self.solver.loosened(FINER**turn * precision)
            if turn and solver is self.solver:  # one without a precision to choose
                break
            result = run(solver, problem, start=start)
            if result.status is Status.STOPPED:  # by an interrupt: nothing that it would serve is wanted
                raise KeyboardInterrupt
            start, distances = result.multipliers, step.unit * norm.value(result.violation)
            if not start.any() or (distances >= LEAST_USED * step.epsilon).any():
                break
        self.starts[number] = start
        return step.policy(start), distances


def _mean_of_largest(count: int) -> float:
    """Of as many standard normal numbers, by Blom's formula: the farthest of several is farther than each.

    >>> [round(_mean_of_largest(count), 2) for count in (1, 2, 5)]
    [0.0, 0.59, 1.18]
    """
    return float(normal.ppf((count - 0.375) / (count + 0.25)))


def _constrained_together(step: ParityStep) -> IntArray:
    """A number for each group, the same for two that have only each other: their gaps are as one."""
    strata = np.zeros(len(step.epsilon), np.int64) if step.strata is None else step.strata
    pairs = np.bincount(strata)[strata] == 2
    alone = len(strata) + np.arange(len(strata))
    places: IntArray = np.unique(np.where(pairs, strata, alone), return_inverse=True)[1]
    return places


def fold_known_rows(rows: Rows, known: FloatArray, seed: int) -> list[JudgedFold]:
    """Folds of rows that came scored, and whose groups are `known`: zeros and ones, (n_rows, n_groups).

    Rows that are in none serve the step alone.
    """
    kinds = np.unique(known, axis=0, return_inverse=True)[1].ravel()
    shuffled = np.random.default_rng(seed).permutation(len(known))
    dealt = shuffled[np.argsort(kinds[shuffled], kind="stable")]
    folds = [np.sort(dealt[number::N_FOLDS]) for number in range(N_FOLDS)]
    judged = JudgedRows.choose(folds, kinds, seed)
    kept = rows.take(judged.places)
    members = Membership.of_cells(rows.groups, known[judged.places], rows.strata, kept.weights)
    scored = ScoredRows(kept.scores, kept.group_proba, members)
    n_known = None
    if rows.strata is None:  # within strata a row may be in none of them though its group is known
        n_known = int(known[judged.places].any(axis=1).sum())
    return [JudgedFold(kept.without(fold), scored, fold, n_known) for fold in judged.folds]


def _rows_needed(found: Judgement, epsilon: FloatArray, confidence: float | None, n_rows: int) -> int | None:
    """About how many rows would do where these do not; None where they do, or no number would.

    What is due to the rows falls with the root of their number; what the models get wrong stays.
    """
    promised = found.promised(confidence)
    stays = np.maximum(found.systematic - found.spread, 0.0)  # surely
    beyond = promised > epsilon
    if not beyond.any() or (stays[beyond] >= epsilon[beyond]).any():
        return None
    factor = (promised[beyond] - stays[beyond]) / (epsilon[beyond] - stays[beyond])
    times = float((factor**2).max())
    return int(np.ceil(n_rows * times)) if times <= MOST_TIMES else None


def chance_shown(step: ParityStep, pmf: FloatArray, members: Membership) -> FloatArray:
    """Distance that chance alone shows on average on these rows, in the units of epsilon, (n_groups,)."""
    with one_blas_thread():
        noise = _noise(pmf, members.sums(pmf)[:-1], members)
    return _root_mean_square(_distances(step, noise))


def _distances(step: ParityStep, gaps: FloatArray) -> FloatArray:
    """Norms of gaps (n, n_groups, n_atoms) as the notion has them, in the units of epsilon."""
    parity = step.make_parity()
    columns = np.ascontiguousarray(gaps.reshape(-1, gaps.shape[-1]).T)
    return step.unit * parity.norm.value(parity.operator.apply(columns)).reshape(gaps.shape[:-1])


def _gaps(masses: FloatArray, members: Membership) -> FloatArray:
    """Distribution of each group minus that of all it is compared with; of (n_groups, n_atoms) masses."""
    return GroupMasses(members.labels, masses, None, members.strata).gaps()


def _together(masses: FloatArray, totals: FloatArray, strata: IntArray | None) -> FloatArray:
    """Sums over each group's stratum, as shares of its total, (..., n_groups or 1, n_atoms)."""
    if strata is None:
        everybody: FloatArray = masses.sum(axis=-2, keepdims=True) / totals.sum()
        return everybody
    sums = np.moveaxis(stratum_sums(np.moveaxis(masses, -2, -1), strata), -1, -2)
    together: FloatArray = sums / stratum_sums(totals, strata)[:, None]
    return together


def _noise(pmf: FloatArray, masses: FloatArray, members: Membership) -> FloatArray:
    """Draws of the gaps that chance alone shows on as many rows, (n_draws, n_groups, n_atoms).

    Every row gets a random factor, the same in all of its groups.
    """
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((N_DRAWS, len(pmf)))
    totals = masses.sum(axis=1)
    drawn = np.empty((N_DRAWS, len(totals), pmf.shape[1]))
    for group, total in enumerate(totals):
        counts = members.column(group)
        rows = np.flatnonzero(counts)
        weighted = factors[:, rows] * counts[rows]
        drawn[:, group] = weighted @ pmf[rows] - weighted.sum(axis=1)[:, None] * (masses[group] / total)
    gaps: FloatArray = drawn / totals[:, None] - _together(drawn, totals, members.strata)
    return gaps


def _jackknife(of_fits: FloatArray) -> FloatArray:
    """Draws of how far a fit may be from the next one, from the fits without each fold, as gaps."""
    n_fits = len(of_fits)
    apart = of_fits - of_fits.mean(axis=0)
    factors = np.random.default_rng(1).standard_normal((N_DRAWS, n_fits))
    drawn: FloatArray = np.tensordot(np.sqrt((n_fits - 1) / n_fits) * factors, apart, axes=1)
    return drawn


def _root_mean_square(draws: FloatArray) -> FloatArray:
    """Over the draws, (n_groups,)."""
    found: FloatArray = np.sqrt((draws**2).mean(axis=0))
    return found
