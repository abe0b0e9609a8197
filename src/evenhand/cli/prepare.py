"""From a table and options to an unfitted model, rows to fit it on, and rows to measure it on."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.calibration import JOINT
from evenhand.cli.errors import UsageError, one_of
from evenhand.cli.models import make_model, read_share
from evenhand.cli.notions import match_settings
from evenhand.cli.rows import (
    LabelledRows,
    Parts,
    check_groups,
    find_kinds,
    number_notes,
    read_rows,
    split,
    stray_notes,
)
from evenhand.cli.tasks import AUTO, TASKS, Task, find_task
from evenhand.cli.terminal import Terminal
from evenhand.data.groups import ATTRIBUTES
from evenhand.dual.floors import BEFORE, EACH
from evenhand.dual.parity import ALIASES, PARITIES, find_parity
from evenhand.estimators.strata import CRITERIA
from evenhand.solvers import SOLVERS
from evenhand.tables.files import read_table
from evenhand.tables.sources import Source
from evenhand.tables.strays import without_marks

MOST_HELD_OUT = 0.9
NONE = "none"


def model_settings(
    parity: str | None, beta: str, calibration: str | None, seed: int | None, jobs: int | None, **others: Any
) -> dict[str, Any]:
    """Options as parameters of the model, refused before any work is done; those not given are left out.

    `others` holds confidence, criterion, pos_label, conditional_on, attributes, cost, cost_matrix,
    min_rate and solver.
    """
    if parity is not None:
        _check_parity(parity)
    allowed: dict[str, tuple[str | None, Collection[str]]] = {
        "--calibration": (calibration, ("auto", JOINT, NONE))
    }
    allowed["--criterion"] = others.get("criterion"), CRITERIA
    allowed["--solver"] = others.get("solver"), SOLVERS
    allowed["--attributes"] = others.get("attributes"), ATTRIBUTES
    for option, (value, names) in allowed.items():
        if value is not None:
            one_of(value, names, option)
    floor = others.get("min_rate")
    if others.get("pos_label") and others.get("criterion") != "equal_opportunity" and floor is None:
        raise UsageError("--pos-label is for --criterion equal_opportunity and --min-rate.")
    settings = {"parity": parity, "calibration": calibration, "random_state": seed, "n_jobs": jobs, **others}
    given = {name: value for name, value in settings.items() if value is not None and value != []}
    if calibration == NONE:
        given["calibration"] = None
    if floor is not None and floor not in (BEFORE, EACH):
        given["min_rate"] = read_share(floor, "--min-rate", 1.0)
    if "confidence" in given:
        given["confidence"] = _read_confidence(given["confidence"])
    return {"beta": _read_beta(beta), **given}


def _check_parity(text: str) -> None:
    """Refuse a notion that there is none of, or numbers that it does not take."""
    name = text.partition(":")[0]
    one_of(name, (*PARITIES, *ALIASES), "--parity")
    try:
        find_parity(text)
    except ValueError as error:
        raise UsageError(f"--parity {text}: {error}") from error


def _read_confidence(text: str) -> str | float | None:
    """`average`, a probability, or None for `none`."""
    if text in ("auto", "average", NONE):
        return None if text == NONE else text
    try:
        value = read_share(text, "--confidence")
    except UsageError:
        value = math.nan
    if not 0.0 < value < 1.0:
        raise UsageError(
            f"--confidence must be average, a number between 0 and 1 such as 0.9, or none: got {text!r}."
        )
    return value


def _read_beta(text: str) -> str | float:
    """A rule by its name, or a positive number; it is no share, so percentages mean nothing."""
    if text in ("auto", "paper"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise UsageError(f"--beta must be auto, paper or a positive number: got {text!r}.")
    return value


@dataclass(frozen=True, slots=True)
class Learning:
    """What `fit` and `frontier` have in common."""

    source: Source
    parts: Parts
    task: str = AUTO
    holdout: str = "20%"
    min_group_size: int = 10
    merge_small: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model
    marks: tuple[str, ...] = ()  # cells that mean a missing value


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Ready to be fitted."""

    task: Task
    model: Any
    kinds: dict[str, str]
    fit: LabelledRows
    test: LabelledRows | None


def prepare(asked: Learning, terminal: Terminal) -> Prepared:
    """Read the table, check what can be checked before any model is fitted, and split the rows."""
    one_of(asked.task, (AUTO, *TASKS), "--task")
    held_out = read_share(asked.holdout, "--holdout", MOST_HELD_OUT)
    table = without_marks(read_table(asked.source), list(asked.marks))
    kinds = find_kinds(table, asked.parts)
    for each in stray_notes(table, list(kinds), asked.parts.categorical):
        terminal.note(each)
    task, note = find_task(asked.task, table, str(asked.parts.target))
    rows, notes = read_rows(table, asked.parts, kinds, task.read_target, to_learn=True)
    for each in filter(None, (note, *notes)):
        terminal.note(each)
    rows = check_groups(rows, asked.min_group_size, merge=asked.merge_small)
    for each in number_notes(rows):
        terminal.note(each)
    # Groups have been checked on all the rows; within strata the model checks them, on those that are left.
    within = "conditional_on" in asked.settings or "criterion" in asked.settings
    smallest = max(1, int(asked.min_group_size * (1.0 - held_out))) if within else 1
    settings = {"parity": task.parity, **asked.settings, "min_group_size": smallest}
    make_model(task, kinds, **settings)  # refuses what is not for the task
    model = make_model(task, kinds, **match_settings(settings, task, rows))
    fit, test = split(rows, held_out)
    return Prepared(task, model, kinds, fit, test)
