"""Who is selected before and after the parity step, group by group, in words and numbers."""

from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.dual.policy import SoftmaxPolicy
from evenhand.estimators.postprocessor import ParityPostprocessor
from evenhand.evaluation.heldout import Model, step_of
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


def tell_rates(
    model: Model, rows: ScoredRows, sensitive_features: Any, threshold: float | None, selected: Any
) -> Proof:
    """Rates and impact ratios of a model on a report's rows, beside those of its scores."""
    policy = step_of(model).policy_
    rule = _rule(model, policy, rows, threshold, selected)
    if rule is None:
        return Proof(("Of several classes none was named as the one that selects (selected=).",), None)
    inside, meaning, threshold, by_median = rule
    after = np.empty(len(rows.scores))
    for part, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        after[part] = pmf[:, inside].sum(axis=1)
    before = _before(policy, rows.scores, inside, threshold)
    chosen = Selection(np.clip(after, 0.0, 1.0), meaning, threshold, by_median=by_median)
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


def _rule(
    model: Model, policy: SoftmaxPolicy, rows: ScoredRows, threshold: float | None, selected: Any
) -> tuple[AnyArray, str, float | None, bool] | None:
    """Atoms that count as selected, what that means, the threshold, and whether it is the median."""
    atoms = policy.grid.atoms
    if policy.cost.n_classes is not None:
        classes = getattr(model, "classes_", np.arange(len(atoms))).tolist()
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
        return inside, f"decisions for {', '.join(map(str, wanted))}", None, False
    if selected is not None:
        raise ValueError("selected= is for classes: pass threshold= for numbers.")
    if threshold is not None:
        return atoms > threshold, f"predictions above {float(threshold):.6g}", float(threshold), False
    median = _median(policy, rows)
    return atoms > median, f"predictions above the median, {median:.4g}", median, True


def _median(policy: SoftmaxPolicy, rows: ScoredRows) -> float:
    weights = np.ones(len(rows.scores)) if rows.members.weights is None else rows.members.weights
    mass = np.zeros(len(policy.grid.atoms))
    for part, pmf in policy_blocks(policy, rows.scores, rows.group_proba):
        mass += weights[part] @ pmf
    below = np.cumsum(mass)
    return float(policy.grid.atoms[int(np.searchsorted(below, 0.5 * below[-1]))])


def _before(
    policy: SoftmaxPolicy, scores: FloatArray, inside: AnyArray, threshold: float | None
) -> FloatArray:
    """Who would be selected by the scores alone, zeros and ones."""
    if threshold is not None and policy.cost.scores_are_means:
        return np.asarray(scores > threshold, dtype=np.float64)
    return np.asarray(inside[policy.cost.cheapest(scores, policy.grid.atoms)], dtype=np.float64)


def _attributes(model: Model, rows: ScoredRows, sensitive_features: Any) -> list[Attribute]:
    """Each attribute and their combinations, as the user gave them; of a post-processor its groups."""
    n_rows = len(rows.scores)
    if isinstance(model, ParityPostprocessor) or _num_samples(sensitive_features) != n_rows:
        return [Attribute("", slice(None), rows.members)]
    return read_attributes(sensitive_features, n_rows, rows.members.weights)
