"""Which parity the options ask for, checked against the rows before any model is fitted."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from evenhand._utils.text import plain
from evenhand.cli.errors import UsageError
from evenhand.cli.models import label_cell
from evenhand.cli.rows import LabelledRows
from evenhand.cli.tasks import Task
from evenhand.estimators.strata import Strata, choose_outcomes, factor_values
from evenhand.tables.columns import as_numbers
from evenhand.tables.files import read_table
from evenhand.tables.formats import require_columns
from evenhand.tables.sources import open_source


def match_settings(settings: Mapping[str, Any], task: Task, rows: LabelledRows) -> dict[str, Any]:
    """The settings with the labels and the order of these rows, or an error that names the option."""
    found = dict(settings)
    classes = tuple(np.unique(np.asarray(rows.y)).tolist()) if task.name == "classification" else ()
    if "conditional_on" in found:
        require_columns(rows.X.columns.tolist(), found["conditional_on"])
    for label in found.get("pos_label") or ():
        if label not in classes:
            raise UsageError(
                f"--pos-label {plain(label)} is no class. The classes are: {', '.join(map(plain, classes))}."
            )
    if "cost_matrix" in found:
        found["cost_matrix"] = read_costs(found["cost_matrix"], classes)
    if isinstance(found.get("epsilon"), dict):
        found["epsilon"] = match_epsilon(found["epsilon"], _notion(found, classes, rows))
    return found


def read_costs(path: str, classes: tuple[str, ...]) -> Any:
    """A cost matrix: a row for each true class, named in the first column, a column for each decision."""
    table = read_table(open_source(path))
    first, *decisions = table.column_names
    rows = [str(label).strip() for label in table.column(first).to_pylist()]
    if sorted(rows) != sorted(classes) or sorted(decisions) != sorted(classes):
        raise UsageError(
            f"--cost-matrix needs a row and a column for each class, {', '.join(map(plain, classes))}: got "
            f"rows {', '.join(map(plain, rows))} and columns {', '.join(map(plain, decisions))}."
        )
    columns = np.column_stack([as_numbers(table, name) for name in classes])
    return columns[[rows.index(name) for name in classes]]


def match_epsilon(epsilon: Mapping[str, float], notion: Strata) -> dict[Any, float]:
    """Tolerances by the labels that the model has: of groups, of strata, or of groups in strata."""
    by_group = {label_cell(label): label for label in notion.labels()}
    by_stratum = {label_cell(stratum): stratum for stratum, _ in notion.pairs()}
    known = by_group
    if not notion.is_plain and all(label in by_stratum for label in epsilon):
        known = by_stratum
    unknown = [label for label in epsilon if label not in known]
    missing = [label for label in known if label not in epsilon]
    if unknown or missing:
        wrong = (
            f"names {plain(unknown[0])}, which is no group" if unknown else f"lacks group {plain(missing[0])}"
        )
        names = [*([] if notion.is_plain else by_stratum), *by_group]
        raise UsageError(f"--epsilon {wrong}. The groups are: {', '.join(map(plain, names[:20]))}.")
    return {known[label]: value for label, value in epsilon.items()}


def _notion(settings: Mapping[str, Any], classes: tuple[str, ...], rows: LabelledRows) -> Strata:
    criterion = settings.get("criterion", "demographic_parity")
    outcomes = choose_outcomes(criterion, classes, settings.get("pos_label"))
    return Strata(
        names=tuple(rows.groups),
        groups=tuple(tuple(sorted(set(rows.groups[name].dropna()))) for name in rows.groups),
        separate=settings.get("attributes") == "separate",
        classes=classes or None,
        outcomes=outcomes,
        factors=factor_values(rows.X, settings.get("conditional_on")),
    )
