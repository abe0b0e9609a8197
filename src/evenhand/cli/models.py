"""Models: made of options, read from files, and the rows that they take."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import evenhand
from evenhand._utils.text import plain
from evenhand.cli.errors import DataError, UsageError, one_of
from evenhand.cli.rows import LabelledRows, Parts, feature_kinds, read_rows
from evenhand.cli.tasks import TASKS, Task, task_of
from evenhand.cli.terminal import Terminal
from evenhand.dual.costs import COSTS, Cost
from evenhand.estimators.models import default_classifier, pipeline_kinds, table_pipeline
from evenhand.modelfile import ModelFileError, UntrustedTypesError
from evenhand.tables.columns import BETWEEN
from evenhand.tables.strays import without_marks

MOST_ENTRIES = 2 * 10**7  # of a pmf that is held in memory to be measured; beyond, draws are
_PER_GROUP = re.compile(r"(?P<label>.+?)=(?P<value>[^,=]+)(?:,|$)")


def make_model(task: Task, kinds: Mapping[str, str], **settings: Any) -> Any:
    """The unfitted model: both nuisances behind the default pipeline for tables."""
    estimator = getattr(evenhand, task.estimator)
    for name in settings:
        if name not in estimator._get_param_names():
            why = ""
            if name == "min_rate":
                why = " A floor is under the share of decisions for a class: numbers have none."
            raise UsageError(f"--{name.replace('_', '-')} is not for --task {task.name}.{why}")
    return estimator(
        table_pipeline(task.outcome_model(settings.get("cost")), kinds),
        table_pipeline(default_classifier()[-1], kinds),
        **settings,
    )


def read_epsilon(given: Sequence[str]) -> float | dict[str, float]:
    """`0.05`, `5%`, or `A=0.02,B=0.05`, which may come in several pieces.

    >>> read_epsilon(["A=0.02,B=5%"])
    {'A': 0.02, 'B': 0.05}
    """
    if len(given) == 1 and "=" not in given[0]:
        return read_share(given[0], "--epsilon")
    found: dict[str, float] = {}
    for piece in given:
        pairs = list(_PER_GROUP.finditer(piece))
        if "".join(pair.group() for pair in pairs) != piece:
            raise UsageError(f"--epsilon is a number, or GROUP=NUMBER,...: got {piece!r}.")
        found |= {pair["label"].strip(): read_share(pair["value"], "--epsilon") for pair in pairs}
    return found


def read_share(text: str, option: str, most: float = np.inf) -> float:
    """A number that is not negative, or a percentage.

    >>> read_share("5%", "--holdout")
    0.05
    """
    try:
        value = float(text.strip().removesuffix("%")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        raise UsageError(f"{option} must be a number such as 0.05 or 5%: got {text!r}.") from None
    if not 0.0 <= value <= most or np.isinf(value):
        limit = f"between 0 and {most:g}" if np.isfinite(most) else "finite and not negative"
        raise UsageError(f"{option} must be {limit}: got {text!r}.")
    return value


def read_cost(text: str) -> Cost:
    """`squared`, `absolute`, `pinball:0.9`, `huber:10`, or one that was registered.

    >>> read_cost("pinball:0.9")
    Pinball(alpha=0.9)
    """
    name, _, number = text.strip().partition(":")
    factory = COSTS[one_of(name, COSTS, "--cost")]
    needed = getattr(factory, "number", "")  # a parameter that only the user can know
    if not needed and number:
        raise UsageError(f"--cost {name} takes no number: got {text!r}.")
    try:
        return factory(float(number)) if needed else factory()
    except ValueError as error:
        raise UsageError(f"--cost {name}:NUMBER needs a {needed}: got {text!r}.") from error


def load_model(path: str, trusted: Sequence[str] | None = None) -> Any:
    """A fitted model that takes rows of features, from its file."""
    try:
        model = evenhand.load(path, trusted=trusted or ())
    except UntrustedTypesError as error:
        names = " ".join(f"--trust {name}" for name in error.types)
        raise DataError(
            f"{plain(path)} holds types that are not trusted. If you know where the file comes from: {names}"
        ) from error
    except ModelFileError as error:
        raise DataError(f"{plain(path)}: {error}") from error
    able = [task.estimator for task in TASKS.values()]
    if type(model).__name__ not in able or not hasattr(model, "estimator_"):
        raise DataError(
            f"{plain(path)} holds a {type(model).__name__}, which the command line cannot feed: it needs a "
            "fitted "
            f"{' or '.join(able)}."
        )
    return model


def model_kinds(model: Any) -> dict[str, str] | None:
    """Features and their kinds, in the order of the fit; None where the model does not tell."""
    kinds = pipeline_kinds(model.estimator_)
    names = getattr(model, "feature_names_in_", None)
    if kinds is None or names is None:
        return None
    return {name: kinds[name] for name in names.tolist()}


def match_rows(model: Any, rows: LabelledRows) -> LabelledRows:
    """The rows with the labels that the model knows its groups and classes by, which may be numbers."""
    groups = rows.groups.copy()
    for name, labels in zip(groups, model.strata_.groups, strict=False):
        other = {text: label for text, label in _by_text(labels).items() if text != label}
        if other:
            groups[name] = groups[name].replace(other)
    matched = replace(rows, groups=groups)
    if rows.y is None or not hasattr(model, "classes_"):
        return matched
    known = _by_text(model.classes_.tolist())
    unknown = [label for label in pd.unique(rows.y) if label not in known]
    if unknown:
        raise DataError(
            f"The target holds {plain(unknown[0])}, which is none of the model's classes: "
            f"{', '.join(map(plain, known))}."
        )
    return replace(matched, y=np.array([known[label] for label in rows.y], dtype=model.classes_.dtype))


def _by_text(labels: Sequence[Any]) -> dict[str, Any]:
    return {label_cell(label): label for label in labels}


def label_cell(label: Any) -> str:
    """A label as the cell of a table has it."""
    if isinstance(label, tuple):
        return BETWEEN.join(map(label_cell, label))
    if isinstance(label, bool):
        return str(label).lower()
    return f"{label:.15g}" if isinstance(label, float) else str(label)


def predict_all(model: Any, X: Any, ids: Any = None) -> Any:
    """Distributions over the atoms, or one draw for each row where these would not fit in memory."""
    if len(X) * len(model.atoms_) > MOST_ENTRIES:
        return task_of(model).target(model, model.predict(X, ids=ids))
    return model.predict_pmf(X)


def id_column(model: Any, present: Sequence[str]) -> str | None:
    """The column that said who a row is when the model was fitted, where it is there."""
    name: str | None = getattr(model, "id_column_", None)
    return name if name in present else None


def feature_names(model: Any) -> list[str]:
    """The columns that a model of any making needs, in the order of its fit."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("The model was fitted without names of columns: fit it on a data frame, or here.")
    listed: list[str] = names.tolist()
    return listed


def missing_marks(model: Any, given: Sequence[str] | None) -> list[str]:
    """Cells that mean a missing value: those of the fit, and those that are given beside."""
    known = getattr(model, "missing_marks_", None)
    return [*(known if isinstance(known, list) else ()), *(given or ())]


def rows_for(
    model: Any, table: pa.Table, parts: Parts, terminal: Terminal, na: Sequence[str] | None = None
) -> LabelledRows:
    """Labelled rows of a table with the features that a fitted model needs, and the labels it knows."""
    table = without_marks(table, missing_marks(model, na))
    kinds = model_kinds(model) or feature_kinds(table, feature_names(model))
    known = parts.id or id_column(model, table.column_names)
    parts = replace(parts, separate=model.strata_.separate, id=known)
    rows, notes = read_rows(table, parts, kinds, task_of(model).read_target)
    for note in notes:
        terminal.note(note)
    return match_rows(model, rows)
