"""`evenhand report`: a page that explains a model in a browser."""

from pathlib import Path
from typing import Annotated, Any

import typer

import evenhand
from evenhand._utils.text import plain
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, UsageError
from evenhand.cli.measure import report_rule
from evenhand.cli.models import load_model, rows_for
from evenhand.cli.outputs import as_path, open_terminal
from evenhand.cli.rates import read_rule
from evenhand.cli.rows import Parts
from evenhand.reporting.documents import CARDS
from evenhand.tables.files import read_table
from evenhand.tables.sources import open_source

EXAMPLE = "Example: `evenhand report model.evenhand new.csv --target amount --sensitive sex -o report.html`"


def report(
    model: opt.ModelFile,
    data: opt.Data,
    sensitive: opt.Sensitive,
    target: opt.KnownTarget = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes; - is standard output.")
    ] = "report.html",
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    card: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Write a model card too: a file that ends in .md or .json."),
    ] = None,
    weight: opt.Weight = None,
    na: opt.Na = None,
    threshold: opt.Threshold = None,
    selected: opt.Selected = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="A second model file, fitted on the same rows with aware=True (or without, where MODEL has "
            "it), to set beside: the same parity with the group and without.",
            show_default="the parity step solved again with the group, on the given rows",
        ),
    ] = None,
    scorer: Annotated[
        bool,
        typer.Option(
            "--scorer",
            help="Let readers type a score and group probabilities; the page then holds the parity step.",
        ),
    ] = False,
    trust: opt.Trust = None,
    input_format: opt.InputFormat = None,
    delimiter: opt.Delimiter = None,
    force: opt.Force = False,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Write one HTML file that explains a model to people: no network, good on a phone and on paper.

    Give it rows that the model was not fitted on.
    """
    for path in card or ():
        if Path(path).suffix.lower() not in CARDS:
            raise UsageError(f"--card is a file that ends in {' or '.join(CARDS)}: got {plain(path)}.")
    outputs = {"--output": output, "--card": card}
    terminal = open_terminal(outputs, [model, data, compare], force=force, quiet=quiet, as_json=as_json)
    source = open_source(data, format=input_format, delimiter=delimiter)
    loaded = load_model(model, trust)
    rows = rows_for(loaded, read_table(source), Parts(target, tuple(sensitive), weight), terminal, na)
    known: dict[str, Any] = {"sensitive_features": rows.groups, "sample_weight": rows.weights, "title": title}
    known |= report_rule(loaded, read_rule(threshold, selected))
    known["compare"] = True if compare is None else load_model(compare, trust)
    with terminal.working("Writing the report"):
        evenhand.report(loaded, rows.X, rows.y, path=as_path(output), scorer=scorer, **known)
        for path in card or ():
            evenhand.model_card(loaded, rows.X, rows.y, path=path, **known)
    for path in (output, *(card or ())):
        terminal.say(path)
    terminal.result({"command": "report", "report": output, "cards": card or [], "rows": len(rows)})
    return ExitCode.OK
