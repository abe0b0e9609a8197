"""What a model does on rows that it has not seen, beside what would be predicted without the parity step."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand.cli.errors import UsageError
from evenhand.cli.models import label_cell, predict_all
from evenhand.cli.rates import choose_class, name_classes
from evenhand.cli.rows import LabelledRows
from evenhand.cli.tasks import task_of
from evenhand.cli.terminal import Terminal, share
from evenhand.dual.parity import find_parity
from evenhand.estimators.base import ParityEstimator
from evenhand.evaluation.audit import Audit, audit
from evenhand.evaluation.heldout import read_members
from evenhand.metrics import Membership, SelectionRates
from evenhand.metrics._inputs import as_weights
from evenhand.metrics.distances import find_distance
from evenhand.metrics.price import price_sentence

N_DRAWS = 100  # for the noise floors


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """An audit of the predictions, with what would be predicted without the parity step as its baseline."""

    audit: Audit
    metric: str  # the distance that the model's parity is about
    risk_name: str

    @property
    def largest(self) -> tuple[float, float]:
        """The largest distance before and after."""
        return float(self._before(self.metric).max()), float(self._after(self.metric).max())

    def _before(self, name: str) -> Any:
        assert self.audit.baseline is not None
        return self.audit.baseline[name]

    def _after(self, name: str) -> Any:
        return self.audit.measures[name].estimate

    def show(self, terminal: Terminal) -> None:
        """A row for each group, and the sentence that sums them up."""
        has_risk = "risk" in self.audit.measures
        short = find_distance(self.metric).short
        head = ["group", "rows", f"{short} before", f"{short} after", "chance"]
        columns = [
            self.audit.names,
            [f"{size:.0f}" for size in self.audit.sizes],
            *([f"{value:.3f}" for value in of(self.metric)] for of in (self._before, self._after)),
            [f"{value:.3f}" for value in self.audit.floors[self.metric].mean],
        ]
        if has_risk:
            head += ["risk before", "risk after"]
            columns += [of("risk") for of in (self._before, self._after)]
        terminal.table(head, list(zip(*columns, strict=True)))
        terminal.say(self.summary)

    @property
    def summary(self) -> str:
        """The farthest group and the risk, before and after."""
        before, after = self.largest
        name = find_distance(self.metric).phrase
        whom = "everybody of its stratum" if self.audit.within else "everybody"
        text = f"Largest {name} between a group and {whom}: {before:.3f} before, {after:.3f} after"
        pair = self.audit.pairs.get(self.metric)
        text += "." if pair is None else f", and {pair.distance:.3f} between two groups."
        was, now = self.audit.baseline_risk, self.audit.risk
        if np.isfinite([was, now]).all():
            grown = f" ({share(now / was - 1)})" if was > 0 else ""
            text += f" Risk ({self.risk_name}): {was:.4g} before, {now:.4g} after{grown}."
            text += " " + price_sentence(now, was, self.audit.constant_risk)
        return " ".join([text, *self._selected()])

    def _selected(self) -> list[str]:
        """The share that is selected before and after, where a class or a threshold says who is."""
        rates = self.audit.rates
        if rates is None or rates.by_median:
            return []
        was, now = 100 * rates.overall_before, 100 * rates.overall
        return [f"Share of {rates.meaning}: {was:.1f} % before, {now:.1f} % after.", *rates.warnings()]

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        groups = [
            {
                "group": group,
                "rows": self.audit.sizes[place],
                f"{self.metric}_before": self._before(self.metric)[place],
                f"{self.metric}_after": self._after(self.metric)[place],
                f"{self.metric}_by_chance": self.audit.floors[self.metric].mean[place],
                **self._risks(place),
            }
            for place, group in enumerate(self.audit.names)
        ]
        before, after = self.largest
        return {
            "rows": self.audit.n_rows,
            "metric": self.metric,
            f"max_{self.metric}_before": before,
            f"max_{self.metric}_after": after,
            "risk_before": self.audit.baseline_risk,
            "risk_after": self.audit.risk,
            "constant_risk": self.audit.constant_risk,
            "r2": self.audit.r2,
            "groups": groups,
            "rates": None if self.audit.rates is None else self.audit.rates.to_dict(),
        }

    def _risks(self, place: int) -> dict[str, float]:
        if "risk" not in self.audit.measures:
            return {}
        return {"risk_before": self._before("risk")[place], "risk_after": self._after("risk")[place]}


def compare(model: ParityEstimator, rows: LabelledRows, rule: dict[str, Any] | None = None) -> Comparison:
    """Measure a fitted model, and what it would be without the parity step, on rows with its labels.

    `rule` says who counts as selected; by default the second of two classes, or those above the median.
    """
    task, notion = task_of(model), find_parity(model.parity_)
    weights, cost = as_weights(rows.weights, len(rows)), model.policy_.cost
    if model.strata_.is_plain:  # any group can be measured, be it one that the fit has not seen
        members = Membership.read(rows.groups, len(rows), weights)
    else:
        members = read_members(model, rows.X, rows.y, rows.groups, weights)
    rule = _rule(model, rule)
    found = audit(
        predict_all(model, rows.X, rows.ids),
        members,
        y=None if rows.y is None else task.target(model, rows.y),
        baseline=task.base(model, rows.X),
        atoms=model.atoms_,
        loss=cost.loss,
        parity=notion,
        n_boot=N_DRAWS,
        **_by_place(model, rule),
    )
    found = replace(found, rates=_named_rates(model, found.rates, rule))
    return Comparison(found, task.metric(notion), cost.risk_name)


def _rule(model: ParityEstimator, rule: dict[str, Any] | None) -> dict[str, Any]:
    """Who counts as selected; classes by their names as text."""
    given = rule or {"threshold": None, "selected": None}
    if not hasattr(model, "classes_"):
        if given["selected"] is not None:
            raise UsageError("--selected is for classes: this model predicts numbers. See --threshold.")
        return given
    named = getattr(model, "pos_label", None)
    if given["selected"] is None and named is not None:
        labels = named if isinstance(named, list | tuple) else [named]
        given = given | {"selected": list(map(label_cell, labels))}
    return choose_class(given, [label_cell(label) for label in model.classes_.tolist()])


def report_rule(model: ParityEstimator, given: dict[str, Any]) -> dict[str, Any]:
    """The rule as `evenhand.report` takes it: classes as the model knows them."""
    rule = _rule(model, given)
    if rule["selected"] is None:
        return rule
    known = {label_cell(label): label for label in model.classes_.tolist()}
    return rule | {"selected": [known[label] for label in rule["selected"]]}


def _by_place(model: ParityEstimator, rule: dict[str, Any]) -> dict[str, Any]:
    """The rule with classes by their places, which the atoms are."""
    if rule["selected"] is None:
        return rule
    labels = [label_cell(label) for label in model.classes_.tolist()]
    return rule | {"selected": [float(labels.index(label)) for label in rule["selected"]]}


def _named_rates(
    model: ParityEstimator, rates: SelectionRates | None, rule: dict[str, Any]
) -> SelectionRates | None:
    if rates is None or not hasattr(model, "classes_"):
        return rates
    return None if rule["selected"] is None else name_classes(rates, rule["selected"])
