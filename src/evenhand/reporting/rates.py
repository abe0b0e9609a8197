"""Who is selected before and after the parity step, group by group, in words and numbers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.heldout import Model
from evenhand.metrics import Measures, ScoredRows
from evenhand.metrics.attributes import Attribute, read_attributes
from evenhand.metrics.distances import Metric
from evenhand.metrics.measure import policy_blocks
from evenhand.metrics.pairs import farthest_pairs
from evenhand.metrics.rates import SelectionRates, make_rates
from evenhand.metrics.selecting import Selection
from evenhand.reporting.facts import Proof
from evenhand.reporting.words import named, number, percent

LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Who counts as selected by the predictions of a model."""

    inside: AnyArray  # of each atom, (n_atoms,)
    meaning: str
    threshold: float | None = None  # of numbers
    by_median: bool = False

    def for_policy(self, policy: SoftmaxPolicy) -> "Rule":
        """The same rule for a policy with other values."""
        if self.threshold is None:
            return self
        return replace(self, inside=policy.grid.atoms > self.threshold)

    def chances(self, policy: SoftmaxPolicy, rows: ScoredRows) -> FloatArray:
        """The chance that a policy selects each row, (n_rows,)."""
        found = np.empty(len(rows.scores))
        for part, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
            found[part] = pmf[:, self.inside].sum(axis=1)
        return np.clip(found, 0.0, 1.0)

    def chances_before(self, policy: SoftmaxPolicy, scores: FloatArray) -> FloatArray:
        """Who would be selected by the scores alone, zeros and ones, (n_rows,)."""
        if self.threshold is not None and policy.cost.scores_are_means:
            return np.asarray(scores > self.threshold, dtype=np.float64)
        return np.asarray(self.inside[policy.cost.cheapest(scores, policy.grid.atoms)], dtype=np.float64)


def tell_rates(model: Model, rows: ScoredRows, sensitive_features: Any, rule: Rule | None) -> Proof:
    """Rates and impact ratios of a model on a report's rows, beside those of its scores."""
    if rule is None:
        return Proof(("Of several classes none was named as the one that selects (selected=).",), None)
    policy = model.policy_
    before = rule.chances_before(policy, rows.scores)
    chosen = Selection(rule.chances(policy, rows), rule.meaning, rule.threshold, by_median=rule.by_median)
    found = make_rates(chosen, before, _attributes(model, rows, sensitive_features), LEVEL)
    return Proof((_change(found), *found.sentences()), found.to_dict() | {"level": LEVEL})


def tell_pair(measures: Measures, metric: Metric, gap_name: str) -> str:
    """The largest gap between two groups, which is not the one that epsilon bounds; a sentence."""
    found = farthest_pairs(measures.spread, [metric])
    if not found:
        return ""
    (pair,) = found.values()
    first, second = map(named, pair.names(measures.spread.strata is not None))
    return (
        f"The tolerance is for the {gap_name} between a group and everybody. Between two groups it is at "
        f"most {number(pair.distance)} here, for {first} and {second}."
    )


def _change(rates: SelectionRates) -> str:
    now, was = percent(rates.overall), percent(rates.overall_before)
    return f"Share of {rates.meaning}: {now} of everybody, and {was} before the parity step."


def find_rule(model: Model, rows: ScoredRows, threshold: float | None, selected: Any) -> Rule | None:
    """Who counts as selected: above a threshold, by default the median, or decided for a class.

    None for several classes of which none is named.
    """
    policy = model.policy_
    atoms = policy.grid.atoms
    if policy.cost.n_classes is not None:
        return _class_rule(model, len(atoms), selected)
    if selected is not None:
        raise ValueError("selected= is for classes: pass threshold= for numbers.")
    if threshold is not None:
        return Rule(atoms > threshold, f"predictions above {float(threshold):.6g}", float(threshold))
    median = _median(policy, rows)
    return Rule(atoms > median, f"predictions above the median, {median:.4g}", median, by_median=True)


def _class_rule(model: Model, n_classes: int, selected: Any) -> Rule | None:
    classes = getattr(model, "classes_", np.arange(n_classes)).tolist()
    if selected is None:
        selected = getattr(model, "pos_label", None)
    if selected is None and len(classes) == 2:
        selected = classes[1]
    if selected is None:
        return None
    wanted = selected if isinstance(selected, list | tuple | np.ndarray) else [selected]
    if unknown := [label for label in wanted if label not in classes]:
        raise ValueError(f"selected={unknown[0]!r} is none of the classes: {classes}.")
    inside = np.array([label in wanted for label in classes])
    return Rule(inside, f"decisions for {', '.join(map(str, wanted))}")


def _median(policy: SoftmaxPolicy, rows: ScoredRows) -> float:
    weights = np.ones(len(rows.scores)) if rows.members.weights is None else rows.members.weights
    mass = np.zeros(len(policy.grid.atoms))
    for part, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        mass += weights[part] @ pmf
    below = np.cumsum(mass)
    return float(policy.grid.atoms[int(np.searchsorted(below, 0.5 * below[-1]))])


def _attributes(model: Model, rows: ScoredRows, sensitive_features: Any) -> list[Attribute]:
    """Each attribute and their combinations, as the user gave them; of a post-processor its groups."""
    n_rows = len(rows.scores)
    if isinstance(model, ParityPostprocessor) or _num_samples(sensitive_features) != n_rows:
        return [Attribute("", slice(None), rows.members)]
    return read_attributes(sensitive_features, n_rows, rows.members.weights)
