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

That is for a distance that is one gap, the largest. Total variation adds up the gaps of all atoms, and with
them the chance of each: rows show mostly chance, and differences of fits that are measured by the labels are
mostly noise. What new people see has parts there that are known one by one:

- the gaps that the fits leave on their own rows, as a vector;
- the chance of the rows' features. A step fits all of it away, so that new people see as much the other way:
  it is drawn from the rows by their group probabilities;
- the chance of the labels as far as the maps took it over: what one and the same policy shows by the
  probabilities of each fit, scaled as in the jackknife;
- what is wrong with the models: what held-out rows show beyond the gaps of the fits' own rows, less the
  chance that is in it. That is the noise without what the fits bent to the features of their own rows, the
  same rows over all folds: drawn together, these cancel as far as the fits agree. It is a mean over the
  tolerances that were tried, at all of which the models are the same.

The last three add up as squares, to the size of a noise that is drawn and added to the first, atom by atom.
The second and third together, and all of it, are taken to be no less than chance could hide on these rows.
`evenhand.estimators.judgement` has both ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evenhand._kernels.blas import one_blas_thread
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand._utils.validation import Rows
from evenhand.certificates import Promise
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.dual.step import ParityStep
from evenhand.estimators.chance import draw_noise, find_gaps, norms
from evenhand.estimators.judged_rows import JudgedRows
from evenhand.estimators.judgement import ByProbability, Judgement, Shown, adds_up, judge, squared_excess
from evenhand.estimators.share_search import LEAST_SHARE, ShareSearch
from evenhand.metrics.measure import ScoredRows
from evenhand.metrics.membership import Membership
from evenhand.solvers import Solver, Status, run

AUTO, AVERAGE = "auto", "average"
N_FOLDS = 5  # of rows that come scored
PRECISION = 0.02  # of a fit that is only measured, as a share of epsilon
# Small multipliers of one tolerance pass for those of a larger one, which no group is near to: solve finer.
LEAST_USED, FINER, MOST_FINER = 0.95, 0.05, 4
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


@dataclass(slots=True, eq=False)
class Judge:
    """Measures tolerances of one step on the same folds, each fit started from the last one."""

    step: ParityStep  # with the epsilon that is asked for
    solver: Solver[Any]
    folds: Sequence[JudgedFold]
    own_prior: bool  # the step's prior was given, and is not that of its rows
    starts: dict[int, FloatArray] = field(default_factory=dict)  # of each fold; at first, of the one before
    noise: FloatArray | None = None  # draws of the gaps by chance, (n_draws, n_groups, n_atoms)
    # the same of features alone: of held-out rows, and what fits bend to their own
    by_features: tuple[FloatArray, FloatArray] | None = None
    excesses: tuple[FloatArray, ...] = ()  # what models get wrong, as each tolerance shows it

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
        members, last, adds = self.folds[0].scored.members, None, adds_up(self.step)
        pmf = np.empty((members.n_rows, len(self.step.grid.atoms)))
        of_fits, violations = list[FloatArray](), list[FloatArray]()
        bent, first = np.zeros(()), self.noise is None
        with one_blas_thread():
            for number, fold in enumerate(self.folds):
                if last is None or fold.rows is not last.rows:  # else the same rows have the same policy
                    policy, violation = self._fit(number, share)
                    found = policy.pmf(fold.scored.scores, fold.scored.group_proba)
                    gaps = find_gaps(found, members)
                if adds and first:
                    own = _count_by_proba(fold, fold.scored.group_proba, without=fold.held_out)
                    bent = bent + draw_noise(found, own) / len(self.folds)
                of_fits.append(gaps)
                violations.append(violation)
                pmf[fold.held_out] = found[fold.held_out]
                last = fold
            if self.noise is None:
                self.noise = draw_noise(pmf, members)
            by_proba = self._count_held_out(pmf, bent) if adds else None
            gaps = find_gaps(pmf, members)
        shown = Shown(
            gaps=gaps,
            own=-np.mean(violations, axis=0).T,  # a violation is everybody's distribution minus a group's
            own_distances=np.mean([norms(self.step, each.T) for each in violations], axis=0),
            of_fits=np.array(of_fits),
            noise=self.noise,
            known_by_proba=members.by_proba,
            by_probability=by_proba,
        )
        if by_proba is not None:
            self.excesses += (squared_excess(self.step, shown, by_proba),)
            shown = replace(shown, excesses=self.excesses)
        return judge(self.step, shown, share, n_apart=int(_constrained_together(self.step).max()) + 1)

    def _count_held_out(self, pmf: FloatArray, bent: FloatArray) -> ByProbability:
        """Held-out predictions, (n_rows, n_atoms), of rows that count in each group by its probability.

        `bent` are draws of what the fits bend to their own rows, at the first tolerance that is tried.
        """
        of_maps, last = list[FloatArray](), None
        proba = np.empty_like(self.folds[0].scored.group_proba)
        for fold in self.folds:
            if last is None or fold.scored is not last.scored:
                gaps = find_gaps(pmf, _count_by_proba(fold, fold.scored.group_proba))
            of_maps.append(gaps)
            proba[fold.held_out] = fold.scored.group_proba[fold.held_out]
            last = fold
        if self.by_features is None:
            self.by_features = draw_noise(pmf, _count_by_proba(self.folds[0], proba)), bent
        return ByProbability(np.array(of_maps), *self.by_features)

    def _fit(self, number: int, share: FloatArray) -> tuple[SoftmaxPolicy, FloatArray]:
        """The policy of the fit without a fold, and the violation that it leaves on its rows."""
        fold = self.folds[number]
        prior = self.step.group_prior if self.own_prior else fold.rows.group_mass()
        step = replace(self.step, group_prior=prior, epsilon=share * self.step.epsilon)
        start: Any = self.starts.get(number, self.starts.get(number - 1))
        precision = PRECISION * self.step.slack.max()  # of what is asked: a part of it deserves no more
        problem = step.problem(fold.rows)
        for turn in range(MOST_FINER):
            solver = self.solver.loosened(FINER**turn * precision)
            if turn and solver is self.solver:  # one without a precision to choose
                break
            result = run(solver, problem, start=start)
            if result.status is Status.STOPPED:  # by an interrupt: nothing that it would serve is wanted
                raise KeyboardInterrupt
            start, violation = result.multipliers, result.violation
            if not start.any() or (norms(step, violation.T) >= LEAST_USED * step.epsilon).any():
                break
        self.starts[number] = start
        return step.policy(start), violation


def _count_by_proba(fold: JudgedFold, proba: FloatArray, without: IntArray | None = None) -> Membership:
    """Judged rows of known groups, which count by probabilities, (n_rows, n_groups), but some at all."""
    members = fold.scored.members
    weights = np.ones(members.n_rows) if members.weights is None else members.weights.copy()
    weights[members.row_totals() == 0.0] = 0.0
    if without is not None:
        weights[without] = 0.0
    return Membership.of_proba(members.labels, proba, weights, members.strata)


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
