"""The same parity with the group at prediction time and without it: distance, risk and rates side by side."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from evenhand._utils.text import capital
from evenhand._utils.typing import AnyArray, FloatArray, IntArray
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.heldout import Model, step_of
from evenhand.exceptions import EvenhandWarning
from evenhand.metrics import Measures, ScoredRows
from evenhand.reporting.facts import Mode, Modes
from evenhand.reporting.rates import Rule
from evenhand.reporting.tolerances import FEWEST_ROWS, is_wide, rows_to_solve, split_halves, step_template
from evenhand.reporting.words import constant_name, number, percent

NAMES = {False: "Without the group", True: "With the group"}
LAW = (
    "Which of the two may be used is a question of law, which differs by place and purpose: where decisions "
    "may not depend on a protected attribute, as is often so in hiring, credit, housing and insurance, "
    "predictions with the group may be forbidden even if they would help; where positive action or a study "
    "is permitted, they may be allowed. Neither makes a decision lawful by itself: ask a lawyer."
)
GIVEN = "Two models, each fitted for its mode, are measured on these rows."
WAY_OUT = "Fit a second model with aware={aware} on the same rows, and pass it as compare=."


class NoComparisonError(ValueError):
    """There is nothing to compare with, for the reason that it gives."""


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """A model on a report's rows, to be set beside one of the other mode."""

    model: Model
    rows: ScoredRows
    before: Measures  # of the scores
    after: Measures  # of the model
    notion: ParityNotion
    judged: AnyArray  # whether a group has rows enough, (n_groups,)
    rule: Rule | None  # who is selected

    @property
    def aware(self) -> bool:
        """The model looks at the group."""
        return bool(getattr(self.model, "aware", False))

    def tell(self, other: tuple[Model, ScoredRows] | None) -> Modes:
        """Both modes, by another model with the rows as it scores them; by solving again where it is None."""
        policy = self.model.policy_
        try:
            found = _solved_again(self) if other is None else _given(self, *other)
        except NoComparisonError as reason:
            return Modes((f"{reason} {WAY_OUT.format(aware=not self.aware)}",), ())
        how, measures, chances = found
        own = None if self.rule is None else self.rule.chances(policy, self.rows)
        modes = [
            (NAMES[self.aware], True, self.after, own),
            (NAMES[not self.aware], False, measures, chances),
        ]
        without, with_group = (self._mode(*each) for each in (reversed(modes) if self.aware else modes))
        scores = None if self.rule is None else self.rule.chances_before(policy, self.rows.scores)
        lines = [self._mode("No parity", False, self.before, scores), without, with_group]
        if self.rows.target is not None:
            nothing = np.zeros(len(self.judged))
            name = capital(constant_name(policy.cost.n_classes is not None))
            lines.append(Mode(name, False, 0.0, self.before.constant_risk, nothing))
        by_median = (
            self.rule is not None and self.rule.by_median
        )  # of whom about half are selected either way
        return Modes((_price(without, with_group, rates=not by_median), how, LAW), tuple(lines))

    def _mode(self, name: str, ours: bool, measures: Measures, chances: FloatArray | None) -> Mode:
        gap, members = measures.distances(self.notion), self.rows.members
        largest, rate, rates = float(gap[self.judged].max()), None, None
        if chances is not None:
            everywhere = members.totals(chances) / members.totals()
            rate, rates = float(everywhere[-1]), everywhere[:-1]
        return Mode(name, ours, largest, measures.risk, gap, rate, rates)


def _given(own: Comparison, other: Model, scored: ScoredRows) -> tuple[str, Measures, FloatArray | None]:
    """The second model of the user's own."""
    if own.aware == bool(getattr(other, "aware", False)):
        raise ValueError(
            f"compare= takes a model of the other mode: both predict {NAMES[own.aware].lower()} "
            f"(aware={own.aware})."
        )
    members = own.rows.members
    if scored.members.labels != members.labels or scored.members.n_rows != members.n_rows:
        raise ValueError("compare= has other groups than the model: fit both on the same rows.")
    policy, mine = other.policy_, own.model.policy_
    if type(policy.cost) is not type(mine.cost) or policy.cost.n_classes != mine.cost.n_classes:
        raise ValueError("compare= has another cost than the model: their risks cannot be compared.")
    chances = None if own.rule is None else own.rule.for_policy(policy).chances(policy, scored)
    return GIVEN, scored.measure(policy), chances


def _solved_again(own: Comparison) -> tuple[str, Measures, FloatArray | None]:
    """The parity step with the group, solved on either half of the rows and measured on the other."""
    step = step_of(own.model)
    rows = replace(own.rows, group_proba=_known(own, step))
    halves, size = split_halves(rows.members.codes), rows_to_solve(step, len(rows.scores))
    chances, measures = np.empty(len(rows.scores)), []
    for half, others in (halves, halves[::-1]):
        policy, judging = _solve(step, rows, half, size).policy_, rows.take(others)
        measures.append(judging.measure(policy))
        if own.rule is not None:
            chances[others] = own.rule.chances(policy, judging)
    how = (
        "No second model was fitted: with the group, the parity step alone was solved again for the same "
        f"epsilon, on {size:,} of these rows with their groups, and measured on the other half, then the "
        "other way round. For figures of a model that you could use, fit a second one with aware=True on the "
        "rows of the fit, and pass it as compare=."
    )
    return how, measures[0] + measures[1], None if own.rule is None else chances


def _known(own: Comparison, step: ParityPostprocessor) -> FloatArray:
    """The groups of the rows, zeros and ones as the parity step takes them, (n_rows, n_groups)."""
    members, reason = own.rows.members, ""
    if own.aware:
        reason = "What the model would do without the group takes a model of the group, which it has not."
    elif members.strata is not None:
        reason = "Groups are compared within strata, for which the other mode is not tried here."
    elif members.by_proba:
        reason = "Groups of these rows are known by probabilities alone, so the other mode is not tried."
    elif members.labels != tuple(step.groups_.tolist()):
        reason = "These rows have not the groups of the fit, so the other mode is not tried."
    elif is_wide(step):
        reason = "Values and groups are too many to solve the parity step here with the group."
    elif members.counts.min() < FEWEST_ROWS:
        reason = f"A group has fewer than {FEWEST_ROWS} rows here, too few to try the other mode on."
    if reason:
        raise NoComparisonError(reason)
    return np.eye(len(members.labels))[members.codes]


def _solve(step: ParityPostprocessor, rows: ScoredRows, half: IntArray, size: int) -> ParityPostprocessor:
    """The same step, fitted with the groups of some rows; refused where they cannot keep the tolerance."""
    if len(half) > size:
        half = np.random.default_rng(0).choice(half, size, replace=False)
    estimated = step.certificate_.out_of_sample is not None
    template: ParityPostprocessor = step_template(step)
    template.set_params(confidence="average" if estimated else None)
    weights = rows.members.weights if rows.members.has_weights else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvenhandWarning)  # whether the tolerance is kept is checked below
        template.fit(
            rows.scores[half],
            rows.group_proba[half],
            sample_weight=None if weights is None else weights[half],
            sensitive_features=rows.members.codes[half] if estimated else None,
        )
    estimate = template.certificate_.out_of_sample
    if estimate is not None and not estimate.kept:
        raise NoComparisonError(
            f"A half of these rows, {len(half):,}, is too few to keep the tolerance with the group, so the "
            "other mode is not tried."
        )
    return template


def _price(without: Mode, with_group: Mode, *, rates: bool) -> str:
    """What either mode costs, in a sentence."""
    told = (
        f"With the group the error is {number(with_group.risk)} at a largest gap of "
        f"{number(with_group.largest_gap)}, and without it {number(without.risk)} at "
        f"{number(without.largest_gap)}."
    )
    if not rates or with_group.rate is None or without.rate is None:
        return told
    return (
        f"{told} Selected are {percent(with_group.rate)} with the group and {percent(without.rate)} without."
    )
