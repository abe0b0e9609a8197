"""Models by task, and what the options of `fit` make of them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import evenhand
from evenhand.cli.errors import DataError, UsageError, one_of, plain
from evenhand.cli.rows import LabelledRows, Parts, feature_kinds, read_rows
from evenhand.cli.terminal import Terminal
from evenhand.estimators.nuisances import default_classifier, default_regressor
from evenhand.estimators.tabular import pipeline_kinds, table_pipeline
from evenhand.io import ModelFileError, UntrustedTypesError

MOST_ENTRIES = 2 * 10**7  # of a pmf that is held in memory to be measured; beyond, draws are
_PER_GROUP = re.compile(r"(?P<label>.+?)=(?P<value>[^,=]+)(?:,|$)")


@dataclass(frozen=True, slots=True)
class Task:
    """What is predicted, and by what."""

    estimator: str  # a public name of evenhand
    outcome_model: Callable[[], Any]
    target_kind: str


# One line for each task. `measure` and the kinds of `predict` speak of numbers: classes need theirs there.
TASKS = {
    "regression": Task("ParityRegressor", lambda: default_regressor()[-1], "number"),
}


def find_task(name: str) -> Task:
    """The task of that name."""
    return TASKS[one_of(name, TASKS, "--task")]


def make_model(task: Task, kinds: Mapping[str, str], **settings: Any) -> Any:
    """The unfitted model: both nuisances behind the default pipeline for tables."""
    return getattr(evenhand, task.estimator)(
        table_pipeline(task.outcome_model(), kinds),
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


def match_groups(model: Any, rows: LabelledRows) -> LabelledRows:
    """The rows with the labels that the model knows its groups by, which may be numbers."""
    known = {_label_text(label): label for label in model.groups_.tolist()}
    labels = np.empty(len(rows), dtype=object)
    labels[:] = [known.get(label, label) for label in rows.groups]
    return LabelledRows(rows.X, rows.y, labels, rows.weights)


def _label_text(label: Any) -> str:
    return " / ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def predict_all(model: Any, rows: LabelledRows) -> tuple[Any, Any]:
    """Distributions with their atoms, or one draw for each row where these would not fit in memory."""
    atoms = model.postprocessor_.atoms_
    if len(rows) * len(atoms) > MOST_ENTRIES:
        return model.predict(rows.X), None
    return model.predict_pmf(rows.X), atoms


def base_predictions(model: Any, rows: LabelledRows) -> Any:
    """What the model of the outcome says, before the parity step."""
    return np.asarray(model.estimator_.predict(rows.X), dtype=np.float64)


def require_known_groups(epsilon: Any, rows: LabelledRows) -> None:
    """Refuse tolerances that do not fit the groups, before any work is done."""
    if not isinstance(epsilon, dict):
        return
    groups = sorted(set(rows.groups.tolist()))
    unknown = [label for label in epsilon if label not in groups]
    missing = [label for label in groups if label not in epsilon]
    if unknown or missing:
        wrong = (
            f"names {plain(unknown[0])}, which is no group" if unknown else f"lacks group {plain(missing[0])}"
        )
        raise UsageError(f"--epsilon {wrong}. The groups are: {', '.join(map(plain, groups[:20]))}.")


def feature_names(model: Any) -> list[str]:
    """The columns that a model of any making needs, in the order of its fit."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise DataError("The model was fitted without names of columns: fit it on a data frame, or here.")
    listed: list[str] = names.tolist()
    return listed


def rows_for(model: Any, table: pa.Table, parts: Parts, terminal: Terminal) -> LabelledRows:
    """Labelled rows of a table with the features that a fitted model needs, and the labels it knows."""
    kinds = model_kinds(model) or feature_kinds(table, feature_names(model))
    target_kind = next(task.target_kind for task in TASKS.values() if task.estimator == type(model).__name__)
    rows, notes = read_rows(table, parts, kinds, target_kind)
    for note in notes:
        terminal.note(note)
    return match_groups(model, rows)
