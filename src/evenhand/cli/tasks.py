"""What is predicted: one entry of `TASKS` holds all in which regression and classification differ."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types
from sklearn.linear_model import QuantileRegressor

from evenhand._utils.text import plain
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.cli.errors import DataError, UsageError, one_of
from evenhand.dual.parity import ParityNotion
from evenhand.estimators.models import class_codes, default_classifier, default_regressor
from evenhand.metrics.distances import find_distance
from evenhand.tables.columns import as_classes, as_numbers, find_column, find_kind
from evenhand.tables.formats import TableError

AUTO = "auto"
MOST_CLASSES = 20  # that a column of text is taken for; beyond, it is more likely numbers with a slip


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to predict."""

    values: Callable[[Any, Any, Any], AnyArray]  # model, X, ids -> (n_rows,), or (n_rows, n_columns)
    labels: Callable[[Any], Sequence[object]] | None = None  # model -> what the columns are called after

    def columns(self, name: str, model: Any) -> list[str]:
        """Names of the columns that it adds."""
        return [name] if self.labels is None else [f"{name}_{_text(label)}" for label in self.labels(model)]


@dataclass(frozen=True, slots=True)
class Task:
    """What is predicted, and by what."""

    name: str
    estimator: str  # a public name of evenhand
    outcome_model: Callable[[Any], Any]  # cost, or None -> what predicts the value of the smallest cost
    read_target: Callable[[pa.Table, str], AnyArray]
    parity: str  # by default
    kinds: Mapping[str, Kind]
    target: Callable[[Any, AnyArray], FloatArray]  # model, outcomes -> numbers to be measured
    base: Callable[[Any, Any], FloatArray]  # model, X -> what would be predicted without the parity step
    metric: Callable[[ParityNotion], str]  # the distance that a parity is measured in
    path_metric: Callable[[ParityNotion], str]  # that of a frontier


def _number_model(cost: Any) -> Any:
    """Linear, and without a type to trust in its file: the mean, or the quantile that the cost asks for."""
    if cost is None or cost.quantile is None:
        return default_regressor()[-1]
    return QuantileRegressor(quantile=cost.quantile, alpha=0.0, solver="highs-ipm")


def _number_metric(notion: ParityNotion) -> str:
    """What chance and scores without ties can be measured in."""
    distance = find_distance(notion)
    return "ks" if distance.needs_ties else distance.name


def _scores(model: Any, X: Any) -> FloatArray:
    """What the parity step starts from: a joint calibration has mended it."""
    scores: FloatArray = model.predict_scores(X)[0]
    return scores


def _as_given(model: Any, outcomes: AnyArray) -> FloatArray:
    return np.asarray(outcomes, dtype=np.float64)


def _codes(model: Any, outcomes: AnyArray) -> FloatArray:
    return class_codes(outcomes, tuple(model.classes_.tolist())).astype(np.float64)


def _cheapest(model: Any, X: Any) -> FloatArray:
    """The class with the smallest expected cost, as zeros and ones, (n_rows, n_classes).

    A pmf has all distances, in however small a stratum.
    """
    proba = model.predict_scores(X)[0]
    atoms, cost = model.atoms_, model.policy_.cost
    chosen: FloatArray = np.eye(len(atoms))[cost.cheapest(proba, atoms)]
    return chosen


def _classes(model: Any) -> Sequence[object]:
    labels: list[object] = model.classes_.tolist()
    return labels


def _atoms(model: Any) -> Sequence[object]:
    atoms: list[object] = model.atoms_.tolist()
    return atoms


DRAW = Kind(lambda model, X, ids: model.predict(X, ids=ids))  # parity is kept
NUMBERS = {
    "draw": DRAW,
    "mean": Kind(lambda model, X, ids: model.predict_mean(X)),  # parity of means is
    "median": Kind(lambda model, X, ids: model.predict_quantile(X, 0.5)),  # it is not, in general
    "pmf": Kind(lambda model, X, ids: model.predict_pmf(X), _atoms),  # what the draw is from
    "score": Kind(lambda model, X, ids: model.estimator_.predict(X)),  # what it was before
}
CLASSES = {
    "draw": DRAW,
    "proba": Kind(lambda model, X, ids: model.predict_proba(X), _classes),  # what the draw is from
    "mode": Kind(lambda model, X, ids: model.predict_mode(X)),  # parity is not kept
    "score": Kind(lambda model, X, ids: model.predict_scores(X)[0], _classes),  # what it was before
}
QUANTILE = "quantile:"  # and the level, for numbers

TASKS = {
    "regression": Task(
        "regression",
        "ParityRegressor",
        _number_model,
        as_numbers,
        parity="cdf",
        kinds=NUMBERS,
        target=_as_given,
        base=_scores,
        metric=_number_metric,
        path_metric=_number_metric,
    ),
    "classification": Task(
        "classification",
        "ParityClassifier",
        lambda cost: default_classifier()[-1],
        as_classes,
        parity="pmf",
        kinds=CLASSES,
        target=_codes,
        base=_cheapest,
        metric=lambda notion: notion.metric,
        path_metric=lambda notion: "tv",
    ),
}


def task_of(model: Any) -> Task:
    """The task of a fitted model."""
    return next(task for task in TASKS.values() if task.estimator == type(model).__name__)


def find_kind_of_prediction(task: Task, name: str) -> Kind:
    """The kind of that name: one of the task's, or a quantile of numbers."""
    if name.startswith(QUANTILE) and task.kinds is NUMBERS:
        return Kind(_quantile(name.removeprefix(QUANTILE)))
    if name not in task.kinds:
        more = f", {QUANTILE}0.9" if task.kinds is NUMBERS else ""
        raise UsageError(
            f"--kind is one of {', '.join(task.kinds)}{more} for a {task.estimator}: got {name!r}."
        )
    return task.kinds[name]


def _quantile(text: str) -> Callable[[Any, Any, Any], AnyArray]:
    try:
        level = float(text)
    except ValueError:
        level = np.nan
    if not 0.0 < level < 1.0:
        raise UsageError(f"--kind {QUANTILE}LEVEL needs a level between 0 and 1: got {text!r}.")
    return lambda model, X, ids: model.predict_quantile(X, level)


def find_task(name: str, table: pa.Table, target: str) -> tuple[Task, str]:
    """The task of that name, or the one that the target's values suggest, with a note that says why."""
    one_of(name, (AUTO, *TASKS), "--task")
    if name != AUTO:
        return TASKS[name], ""
    values = _class_values(table, target)
    if values is None:
        return TASKS["regression"], ""
    shown = ", ".join(map(plain, values[:5])) + (", ..." if len(values) > 5 else "")
    return TASKS["classification"], (
        f"column {plain(target)} is taken for classes, {shown}: --task regression or classification decides."
    )


def _class_values(table: pa.Table, target: str) -> list[str] | None:
    """The values of a target that looks like classes: text, true and false, or two numbers."""
    column = find_column(table, target)
    kind = find_kind(column)
    if kind == "moment":
        return None
    if kind == "number" and not pa.types.is_boolean(column.type):
        numbers = np.unique(as_numbers(table, target))
        if np.isfinite(numbers).sum() != 2:
            return None
    labels = sorted({label for label in as_classes(table, target) if label is not None})
    if len(labels) <= MOST_CLASSES:
        return labels
    try:
        as_numbers(table, target)
    except TableError as error:
        raise DataError(
            f"{error} It has {len(labels)} distinct values: if these are classes, say --task classification."
        ) from error
    return None


def _text(label: object) -> str:
    return f"{label:.10g}" if isinstance(label, float) else str(label)
