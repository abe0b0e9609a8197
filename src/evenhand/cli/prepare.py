"""From a table and options to an unfitted model, rows to fit it on, and rows to measure it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.calibration import METHODS
from evenhand.cli.errors import UsageError, one_of
from evenhand.cli.models import Task, find_task, make_model, read_share, require_known_groups
from evenhand.cli.rows import LabelledRows, Parts, check_groups, find_kinds, read_rows, split
from evenhand.cli.tables import Source, read_table
from evenhand.cli.terminal import Terminal
from evenhand.parity import PARITIES

MOST_HELD_OUT = 0.9


def model_settings(
    parity: str, beta: str, calibration: str | None, seed: int | None, jobs: int | None
) -> dict[str, Any]:
    """Options as parameters of the model, refused before any work is done."""
    one_of(parity, PARITIES, "--parity")
    if calibration is not None:
        one_of(calibration, METHODS, "--calibration")
    temperature: str | float = beta
    if beta not in ("auto", "cv"):
        temperature = read_share(beta, "--beta")
        if temperature == 0.0:
            raise UsageError("--beta must be positive.")
    return {
        "parity": parity,
        "beta": temperature,
        "calibration": calibration,
        "random_state": seed,
        "n_jobs": jobs,
    }


@dataclass(frozen=True, slots=True)
class Learning:
    """What `fit` and `frontier` have in common."""

    source: Source
    parts: Parts
    task: str = "regression"
    holdout: str = "20%"
    min_group_size: int = 10
    merge_small: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the model


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
    task = find_task(asked.task)
    held_out = read_share(asked.holdout, "--holdout", MOST_HELD_OUT)
    table = read_table(asked.source)
    kinds = find_kinds(table, asked.parts)
    rows, notes = read_rows(table, asked.parts, kinds, task.target_kind)
    for note in notes:
        terminal.note(note)
    rows = check_groups(rows, asked.min_group_size, merge=asked.merge_small)
    require_known_groups(asked.settings.get("epsilon"), rows)
    fit, test = split(rows, held_out)
    # the limit has been checked on all the rows, of which each fold sees a share
    model = make_model(task, kinds, **{**asked.settings, "min_group_size": 1})
    return Prepared(task, model, kinds, fit, test)
