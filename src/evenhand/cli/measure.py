"""What a model does on rows that it has not seen, beside what would be predicted without the parity step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evenhand._utils.typing import AnyArray, IntArray
from evenhand.cli.models import predict_all
from evenhand.cli.rows import LabelledRows
from evenhand.cli.tasks import task_of
from evenhand.cli.terminal import Terminal, share
from evenhand.dual.parity import find_parity
from evenhand.evaluation.audit import Audit, Floor, audit
from evenhand.metrics.distances import find_distance
from evenhand.metrics.losses import row_losses
from evenhand.reporting.words import label_text

N_DRAWS = 100  # for the noise floors


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """An audit of the predictions, with what would be predicted without the parity step as its baseline."""

    audit: Audit
    metric: str  # the distance that the model's parity is about
    risk: tuple[float, float]  # over all rows, before and after; NaN without outcomes
    risk_name: str
    within: bool  # groups are compared within strata

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
            self.audit.groups,
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
        whom = "everybody of its stratum" if self.within else "everybody"
        text = f"Largest {name} between a group and {whom}: {before:.3f} before, {after:.3f} after."
        if np.isfinite(self.risk).all():
            was, now = self.risk
            grown = f" ({share(now / was - 1)})" if was > 0 else ""
            text += f" Risk ({self.risk_name}): {was:.4g} before, {now:.4g} after{grown}."
        return text

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        groups = [
            {
                "group": str(group),
                "rows": self.audit.sizes[place],
                f"{self.metric}_before": self._before(self.metric)[place],
                f"{self.metric}_after": self._after(self.metric)[place],
                f"{self.metric}_by_chance": self.audit.floors[self.metric].mean[place],
                **self._risks(place),
            }
            for place, group in enumerate(self.audit.groups)
        ]
        (before, after), (risk_before, risk_after) = self.largest, self.risk
        return {
            "rows": self.audit.n_rows,
            "metric": self.metric,
            f"max_{self.metric}_before": before,
            f"max_{self.metric}_after": after,
            "risk_before": risk_before,
            "risk_after": risk_after,
            "groups": groups,
        }

    def _risks(self, place: int) -> dict[str, float]:
        if "risk" not in self.audit.measures:
            return {}
        return {"risk_before": self._before("risk")[place], "risk_after": self._after("risk")[place]}


def compare(model: Any, rows: LabelledRows) -> Comparison:
    """Measure a fitted model, and what it would be without the parity step, on rows with its labels."""
    task = task_of(model)
    predictions, atoms = predict_all(model, rows.X), model.postprocessor_.atoms_
    target = None if rows.y is None else task.target(model, rows.y)
    base, cost = task.base(model, rows.X), model.postprocessor_.policy_.cost
    audits = []
    for inside, labels in _strata(model, rows):
        known = {"y": target, "baseline": base, "sample_weight": rows.weights}
        some: dict[str, Any] = {name: None if each is None else each[inside] for name, each in known.items()}
        audits.append(audit(predictions[inside], labels, atoms=atoms, loss=cost.loss, n_boot=N_DRAWS, **some))
    risk = (np.nan, np.nan)
    if target is not None:
        both = [row_losses(target, each, atoms, cost.loss) for each in (base, predictions)]
        risk = _average(both[0], rows.weights), _average(both[1], rows.weights)
    metric = task.metric(find_parity(model.postprocessor_.parity))
    return Comparison(join(audits, len(rows)), metric, risk, cost.risk_name, not model.notion_.is_plain)


def _average(losses: AnyArray, weights: Any) -> float:
    return float(np.average(losses, weights=weights))


def _strata(model: Any, rows: LabelledRows) -> Iterator[tuple[Any, list[str]]]:
    """For each stratum its rows, and their groups."""
    notion = model.notion_
    if notion.is_plain:
        yield slice(None), [label_text(label) for label in rows.groups.iloc[:, 0]]
        return
    names = [label_text(cell, within=True) for cell in notion.cells()]
    columns, places = model._known_columns(rows.X, rows.y, rows.groups), notion.strata()
    for stratum in range(int(places.max()) + 1):
        cells: IntArray = np.flatnonzero(places == stratum)
        inside: IntArray = np.flatnonzero(columns[:, cells].any(axis=1))
        if len(inside):
            groups = columns[np.ix_(inside, cells)].argmax(axis=1)
            yield inside, [names[cells[group]] for group in groups]


def join(parts: Sequence[Audit], n_rows: int) -> Audit:
    """One audit of the groups of several."""
    if len(parts) == 1 and parts[0].n_rows == n_rows:
        return parts[0]
    first = parts[0]
    groups = tuple(group for part in parts for group in part.groups)

    def together(values: Sequence[AnyArray]) -> Any:
        return np.concatenate(list(values))

    measures = {
        name: replace(
            found,
            labels=groups,
            **{
                field: together([getattr(part.measures[name], field) for part in parts])
                for field in ("estimate", "low", "high")
            },
        )
        for name, found in first.measures.items()
    }
    floors = {
        name: Floor(
            together([part.floors[name].mean for part in parts]),
            together([part.floors[name].high for part in parts]),
        )
        for name in first.floors
    }
    baselines = [part.baseline or {} for part in parts]
    baseline = {name: together([each[name] for each in baselines]) for name in baselines[0]}
    sizes = together([part.sizes for part in parts])
    shares = together([part.shares * part.n_rows for part in parts])
    shares /= shares.sum()
    return Audit(groups, n_rows, sizes, shares, first.level, measures, floors, baseline or None)
