"""`evenhand audit`: any predictions, group by group."""

from typing import Annotated, Any

import numpy as np
import typer

from evenhand.audit import Audit
from evenhand.audit import audit as measure
from evenhand.cli import options as opt
from evenhand.cli.errors import DataError, ExitCode, NotReachedError, UsageError, plain
from evenhand.cli.measure import compare
from evenhand.cli.models import load_model, read_share, rows_for
from evenhand.cli.rows import LabelledRows, Parts, read_rows
from evenhand.cli.tables import Source, read_table
from evenhand.cli.terminal import Terminal
from evenhand.cli.writing import require_writable, write_frame

EXAMPLE = (
    "Examples: `evenhand audit scored.csv --prediction prediction --sensitive sex --target amount`, or "
    "`evenhand audit new.csv --model model.evenhand --sensitive sex`"
)


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
    fail_above: Annotated[
        str | None, typer.Option(help="Exit with 4 where the largest KS distance is above this number.")
    ] = None,
    trust: opt.Trust = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write all measures to this table.")
    ] = None,
    input_format: opt.InputFormat = None,
    delimiter: opt.Delimiter = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Measure how far predictions are from parity, group by group, and how sure that is.

    KS is the largest gap between the share of a group's predictions below a threshold and everybody's.
    """
    if (prediction is None) == (model is None):
        raise UsageError("audit needs either --prediction COLUMN or --model FILE.")
    terminal = Terminal(quiet, as_json)
    require_writable(output)
    limit = None if fail_above is None else read_share(fail_above, "--fail-above")
    parts = Parts(target, tuple(sensitive), weight)
    source = Source.of(data, input_format, delimiter)
    if model is None:
        found = audit_columns(source, parts, str(prediction), baseline, terminal)
    else:
        loaded = load_model(model, trust)
        rows = rows_for(loaded, read_table(source), parts, terminal)
        with terminal.working("Measuring"):
            found = compare(loaded, rows).audit
    show(found, terminal)
    if output is not None:
        write_frame(found.frame("pyarrow"), output)
    terminal.result({"command": "audit", **found.to_dict()})
    largest = float(found.measures["ks"].estimate.max())
    if limit is not None and largest > limit:
        raise NotReachedError(f"The largest KS distance is {largest:.4g}, above {limit:g}.")
    return ExitCode.OK


def audit_columns(
    source: Source, parts: Parts, prediction: str, baseline: str | None, terminal: Terminal
) -> Audit:
    """Measure the predictions that stand in a column."""
    others = [prediction, *([] if baseline is None else [baseline])]
    rows, notes = read_rows(read_table(source), parts, dict.fromkeys(others, "number"))
    for note in notes:
        terminal.note(note)
    _require_filled(rows, others)
    with terminal.working("Measuring"):
        return measure(
            rows.X[prediction].to_numpy(),
            rows.groups.astype(str),
            y=rows.y,
            baseline=None if baseline is None else rows.X[baseline].to_numpy(),
            sample_weight=rows.weights,
        )


def _require_filled(rows: LabelledRows, names: list[str]) -> None:
    for name in names:
        empty = int(rows.X[name].isna().sum())
        if empty:
            raise DataError(f"Column {plain(name)} has no value in {empty} row(s): leave these rows out.")


def show(found: Audit, terminal: Terminal) -> None:
    """KS with its interval and what chance would show, mean and risk, for each group; the verdict below."""
    order = np.argsort(-found.measures["ks"].estimate, kind="stable")
    head = ["group", "rows", "KS", "95 % interval", "chance", "mean"]
    head[3] = f"{100 * found.level:g} % interval"
    head += ["risk"] if "risk" in found.measures else []
    head += ["KS baseline"] if found.baseline is not None else []
    terminal.table(head, [_row(found, int(place)) for place in order])
    for line in found.verdict.split("\n")[:5]:
        terminal.say(line)


def _row(found: Audit, place: int) -> list[Any]:
    ks = found.measures["ks"]
    row = [
        found.groups[place],
        f"{found.sizes[place]:.0f}",
        f"{ks.estimate[place]:.3f}",
        f"{ks.low[place]:.3f} to {ks.high[place]:.3f}",
        f"{found.floors['ks'].mean[place]:.3f}",
        found.measures["average"].estimate[place],
    ]
    if "risk" in found.measures:
        row.append(found.measures["risk"].estimate[place])
    if found.baseline is not None:
        row.append(f"{found.baseline['ks'][place]:.3f}")
    return row
