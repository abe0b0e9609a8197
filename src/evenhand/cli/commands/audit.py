"""`evenhand audit`: any predictions, group by group."""

from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from evenhand._utils.text import plain, text_array
from evenhand._utils.typing import AnyArray, FloatArray
from evenhand.cli import options as opt
from evenhand.cli.errors import DataError, ExitCode, NotReachedError, UsageError
from evenhand.cli.measure import compare
from evenhand.cli.models import load_model, read_share, rows_for
from evenhand.cli.outputs import open_terminal
from evenhand.cli.rates import column_rates, read_rule, show_rates
from evenhand.cli.rows import LabelledRows, Parts, read_rows, stray_notes
from evenhand.cli.terminal import Terminal
from evenhand.evaluation.audit import Audit
from evenhand.evaluation.audit import audit as measure
from evenhand.metrics.distances import find_distance
from evenhand.tables.columns import as_classes, as_numbers, find_column, find_kind
from evenhand.tables.files import read_table
from evenhand.tables.formats import require_columns
from evenhand.tables.sources import open_source
from evenhand.tables.strays import without_marks
from evenhand.tables.writing import write_frame

EXAMPLE = (
    "Examples: `evenhand audit scored.csv --prediction prediction --sensitive sex --target amount`, or "
    "`evenhand audit new.csv --model model.evenhand --sensitive sex`"
)

MOST_SENTENCES = 5


def audit(
    data: opt.Data,
    sensitive: opt.Sensitive,
    prediction: Annotated[
        str | None,
        typer.Option("--prediction", "-p", metavar="COLUMN", help="Column of predictions, of any system."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="FILE", help="Or the model file whose predictions to measure."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of other predictions, to compare with.")
    ] = None,
    target: opt.KnownTarget = None,
    weight: opt.Weight = None,
    na: opt.Na = None,
    threshold: opt.Threshold = None,
    selected: opt.Selected = None,
    fail_above: Annotated[
        str | None,
        typer.Option(
            help="Exit with 4 where the largest distance is above this number: KS, of classes the largest "
            "difference in the share of one, or that of a model's own parity."
        ),
    ] = None,
    trust: opt.Trust = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write all measures to this table; - is standard output."
        ),
    ] = None,
    input_format: opt.InputFormat = None,
    delimiter: opt.Delimiter = None,
    force: opt.Force = False,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Measure how far predictions are from parity, group by group, and how sure that is.

    KS is the largest gap between the share of a group's predictions below a threshold and everybody's. Rates
    are the share of a group that is selected, or above the median, and impact ratios each rate over the
    highest one, in the form of New York's Local Law 144.
    """
    if (prediction is None) == (model is None):
        raise UsageError("audit needs either --prediction COLUMN or --model FILE.")
    outputs = {"--output": output}
    terminal = open_terminal(outputs, [data, model], force=force, quiet=quiet, as_json=as_json)
    limit = None if fail_above is None else read_share(fail_above, "--fail-above")
    parts, rule = Parts(target, tuple(sensitive), weight), read_rule(threshold, selected)
    source = open_source(data, format=input_format, delimiter=delimiter)
    if model is None:
        found, metric = audit_columns(
            without_marks(read_table(source), na or []), parts, str(prediction), baseline, rule, terminal
        )
    else:
        loaded = load_model(model, trust)
        rows = rows_for(loaded, read_table(source), parts, terminal, na)
        with terminal.working("Measuring"):
            compared = compare(loaded, rows, rule)
        found, metric = compared.audit, compared.metric
    show(found, metric, terminal)
    if model is not None:
        terminal.say(compared.summary)
    if found.rates is not None:
        show_rates(found.rates, terminal)
    if output is not None:
        write_frame(found.frame("pyarrow"), output)
    terminal.result({"command": "audit", "metric": metric, **found.to_dict()})
    largest = float(found.measures[metric].estimate.max())
    if limit is not None and largest > limit:
        raise NotReachedError(
            f"The largest {find_distance(metric).phrase} is {largest:.4g}, above {limit:g}."
        )
    return ExitCode.OK


def audit_columns(
    table: pa.Table,
    parts: Parts,
    prediction: str,
    baseline: str | None,
    rule: dict[str, Any],
    terminal: Terminal,
) -> tuple[Audit, str]:
    """Measure the predictions that stand in a column, numbers or classes; and by which distance."""
    others = [prediction, *([] if baseline is None else [baseline])]
    require_columns(table.column_names, others)
    for note in stray_notes(table, others):
        terminal.note(note)
    classes = find_kind(find_column(table, prediction)) == "text"
    read = as_classes if classes else as_numbers
    rows, notes = read_rows(table, parts, dict.fromkeys(others, "text" if classes else "number"), read)
    for note in notes:
        terminal.note(note)
    _require_filled(rows, others)
    known: dict[str, Any] = {"y": rows.y, **{name: np.ascontiguousarray(rows.X[name]) for name in others}}
    if classes:
        known = _coded(known)
    with terminal.working("Measuring"):
        found = measure(
            known[prediction],
            text_array(rows.labels),
            y=known["y"],
            baseline=None if baseline is None else known[baseline],
            sample_weight=rows.weights,
            loss=_is_wrong if classes else "squared",
        )
        rates = column_rates(table, parts, others, rule, classes=classes)
    found = replace(found, rates=rates)
    return found, "sup" if classes and "sup" in found.measures else "ks"


def _coded(columns: dict[str, Any]) -> dict[str, Any]:
    """Classes as numbers, the same in every column."""
    texts = {name: text_array(values) for name, values in columns.items() if values is not None}
    labels = np.unique(np.concatenate([np.unique(values) for values in texts.values()]))
    codes = {name: np.searchsorted(labels, values).astype(np.float64) for name, values in texts.items()}
    return {name: codes.get(name) for name in columns}


def _is_wrong(truth: FloatArray, decision: FloatArray) -> AnyArray:
    wrong: AnyArray = truth != decision
    return wrong


def _require_filled(rows: LabelledRows, names: list[str]) -> None:
    for name in names:
        empty = int(rows.X[name].isna().sum())
        if empty:
            raise DataError(f"Column {plain(name)} has no value in {empty} row(s): leave these rows out.")


def show(found: Audit, metric: str, terminal: Terminal) -> None:
    """The distance with its interval and what chance would show, mean and risk; the verdict below."""
    order = np.argsort(-found.measures[metric].estimate, kind="stable")
    short = find_distance(metric).short
    head = ["group", "rows", short, f"{100 * found.level:g} % interval", "chance"]
    head += ["mean"] if metric != "sup" else []  # classes have none
    head += ["risk"] if "risk" in found.measures else []
    head += [f"{short} baseline"] if found.baseline is not None else []
    terminal.table(head, [_row(found, metric, int(place)) for place in order])
    for line in found.sentences(metric)[:MOST_SENTENCES] + found.pair_sentences(metric):
        terminal.say(line)


def _row(found: Audit, metric: str, place: int) -> list[Any]:
    distance = found.measures[metric]
    row = [
        found.names[place],
        f"{found.sizes[place]:.0f}",
        f"{distance.estimate[place]:.3f}",
        f"{distance.low[place]:.3f} to {distance.high[place]:.3f}",
        f"{found.floors[metric].mean[place]:.3f}",
    ]
    if metric != "sup":
        row.append(found.measures["average"].estimate[place])
    if "risk" in found.measures:
        row.append(found.measures["risk"].estimate[place])
    if found.baseline is not None:
        row.append(f"{found.baseline[metric][place]:.3f}")
    return row
