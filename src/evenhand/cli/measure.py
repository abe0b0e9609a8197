"""What a model does on rows that it has not seen, beside what its scores do."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.audit import Audit, audit
from evenhand.cli.models import base_predictions, match_groups, predict_all
from evenhand.cli.rows import LabelledRows
from evenhand.cli.terminal import Terminal, share

N_DRAWS = 100  # for the noise floors


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """An audit of the predictions with the scores as its baseline."""

    audit: Audit

    @property
    def largest(self) -> tuple[float, float]:
        """The largest KS distance before and after."""
        return float(self._before("ks").max()), float(self._after("ks").max())

    @property
    def risk(self) -> tuple[float, float]:
        """The risk before and after, over all rows; NaN without outcomes."""
        if "risk" not in self.audit.measures:
            return np.nan, np.nan
        shares = self.audit.shares / self.audit.shares.sum()
        return float(shares @ self._before("risk")), float(shares @ self._after("risk"))

    def _before(self, name: str) -> Any:
        assert self.audit.baseline is not None
        return self.audit.baseline[name]

    def _after(self, name: str) -> Any:
        return self.audit.measures[name].estimate

    def show(self, terminal: Terminal) -> None:
        """A row for each group, and the sentence that sums them up."""
        has_risk = "risk" in self.audit.measures
        head = ["group", "rows", "KS before", "KS after", "chance"]
        columns = [
            self.audit.groups,
            [f"{size:.0f}" for size in self.audit.sizes],
            *([f"{value:.3f}" for value in self._of(part, "ks")] for part in ("before", "after")),
            [f"{value:.3f}" for value in self.audit.floors["ks"].mean],
        ]
        if has_risk:
            head += ["risk before", "risk after"]
            columns += [self._of(part, "risk") for part in ("before", "after")]
        terminal.table(head, list(zip(*columns, strict=True)))
        before, after = self.largest
        text = f"Largest KS distance between a group and everybody: {before:.3f} before, {after:.3f} after."
        if has_risk:
            was, now = self.risk
            grown = f" ({share(now / was - 1)})" if was > 0 else ""
            text += f" Risk (mean squared error): {was:.4g} before, {now:.4g} after{grown}."
        terminal.say(text)

    def _of(self, part: str, name: str) -> Any:
        return self._before(name) if part == "before" else self._after(name)

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        groups = [
            {
                "group": str(group),
                "rows": self.audit.sizes[place],
                "ks_before": self._before("ks")[place],
                "ks_after": self._after("ks")[place],
                "ks_by_chance": self.audit.floors["ks"].mean[place],
                **self._risks(place),
            }
            for place, group in enumerate(self.audit.groups)
        ]
        (ks_before, ks_after), (risk_before, risk_after) = self.largest, self.risk
        return {
            "rows": self.audit.n_rows,
            "max_ks_before": ks_before,
            "max_ks_after": ks_after,
            "risk_before": risk_before,
            "risk_after": risk_after,
            "groups": groups,
        }

    def _risks(self, place: int) -> dict[str, float]:
        if "risk" not in self.audit.measures:
            return {}
        return {"risk_before": self._before("risk")[place], "risk_after": self._after("risk")[place]}


def compare(model: Any, rows: LabelledRows) -> Comparison:
    """Measure a fitted model and its scores on labelled rows."""
    rows = match_groups(model, rows)
    predictions, atoms = predict_all(model, rows)
    return Comparison(
        audit(
            predictions,
            [str(label) for label in rows.groups],
            y=rows.y,
            baseline=base_predictions(model, rows),
            atoms=atoms,
            sample_weight=rows.weights,
            n_boot=N_DRAWS,
        )
    )
