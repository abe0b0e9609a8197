"""Selection and scoring rates of a table's columns, and how a terminal shows them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from evenhand.cli.errors import UsageError
from evenhand.cli.rows import Parts
from evenhand.cli.terminal import Terminal
from evenhand.metrics import SelectionRates, selection_rates
from evenhand.tables.columns import as_classes, as_numbers, as_texts


def read_rule(threshold: float | None, selected: list[str] | None) -> dict[str, Any]:
    """Who counts as selected, as `selection_rates` takes it."""
    if threshold is not None and selected:
        raise UsageError("--threshold and --selected exclude each other.")
    return {"threshold": threshold, "selected": selected or None}


def column_rates(
    table: pa.Table, parts: Parts, columns: list[str], rule: dict[str, Any], *, classes: bool
) -> SelectionRates | None:
    """Rates of a column of predictions, and of one to compare with, for each attribute on its own as well.

    None for several classes of which none is named. Rows whose group is missing are counted as unknown.
    """
    values = [(as_classes if classes else as_numbers)(table, name) for name in columns]
    filled = ~np.any([pd.isna(each) for each in values], axis=0)
    kept = [each[filled] for each in values]
    if classes:
        kept = [each.astype(str) for each in kept]
        labels = np.unique(np.concatenate(kept)).tolist()
        rule = choose_class(rule, labels)
        if rule["selected"] is None:
            return None
    groups = pd.DataFrame({name: as_texts(table, name) for name in parts.sensitive}, dtype=object)
    weights = None if parts.weight is None else as_numbers(table, parts.weight)[filled]
    return selection_rates(
        kept[0],
        groups[filled].reset_index(drop=True),
        baseline=kept[1] if len(kept) > 1 else None,
        sample_weight=weights,
        **rule,
    )


def choose_class(rule: dict[str, Any], labels: list[str]) -> dict[str, Any]:
    """The rule for classes: those that are named, or the second of two."""
    if rule["threshold"] is not None:
        raise UsageError("--threshold is for numbers: name the class that is selected by --selected.")
    if rule["selected"] is None:
        return rule | {"selected": [labels[1]] if len(labels) == 2 else None}
    for label in rule["selected"]:
        if label not in labels:
            raise UsageError(f"--selected {label} is none of the classes: {', '.join(labels)}.")
    return rule


def name_classes(rates: SelectionRates, selected: list[str]) -> SelectionRates:
    """The same rates, told by the names of classes and not by their places."""
    return replace(rates, meaning=f"decisions for {', '.join(selected)}")


def show_rates(rates: SelectionRates, terminal: Terminal) -> None:
    """A table for each attribute, in the columns of New York's published audits."""
    was = f", {100 * rates.overall_before:.1f} % before" if np.isfinite(rates.overall_before) else ""
    terminal.say(f"Share of {rates.meaning}: {100 * rates.overall:.1f} % of everybody{was}.")
    for table in rates.tables:
        has_before = table.before is not None
        level = f"{100 * table.ratio.level:g} % interval"
        head = [table.attribute or "group", "rows", "selected", "rate"]
        head += [*(["rate before"] if has_before else []), "impact ratio", level]
        terminal.table(head, [_line(record, has_before) for record in table.records()])
    for line in rates.sentences():
        terminal.say(line)


def _line(record: dict[str, Any], has_before: bool) -> list[Any]:
    before = [f"{record['rate_before']:.3f}"] if has_before else []
    line = [record["group"], record["rows"], f"{record['selected']:.0f}", f"{record['rate']:.3f}", *before]
    if record["set_apart"]:
        return [*line, "set apart", ""]
    between = f"{record['impact_ratio_low']:.3f} to {record['impact_ratio_high']:.3f}"
    return [*line, f"{record['impact_ratio']:.3f}", between]
