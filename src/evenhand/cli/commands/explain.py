"""`evenhand explain`: what the parity step did to each person, in words and as a table."""

from dataclasses import replace
from typing import Annotated, Any

import pyarrow as pa
import typer

import evenhand
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, UsageError
from evenhand.cli.models import feature_names, id_column, load_model, missing_marks, model_kinds
from evenhand.cli.outputs import open_terminal
from evenhand.cli.rows import feature_kinds, make_features
from evenhand.evaluation.explaining import Explanation
from evenhand.tables.columns import as_ids
from evenhand.tables.files import read_table
from evenhand.tables.formats import require_columns
from evenhand.tables.sources import open_source
from evenhand.tables.strays import without_marks
from evenhand.tables.writing import write_frame

EXAMPLE = "Example: `evenhand explain model.evenhand new.csv --id applicant --rows 5 -o explained.csv`"


def explain(
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the numbers of all rows to this table; - is standard output.",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that says who a row is.",
            show_default="that of `evenhand fit --id`, where it is there",
        ),
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", help="How many people to tell of in words.")] = 3,
    na: opt.Na = None,
    trust: opt.Trust = None,
    input_format: opt.InputFormat = None,
    output_format: opt.OutputFormat = None,
    delimiter: opt.Delimiter = None,
    force: opt.Force = False,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Tell what moved each person: the score, the prediction, and which group's constraint pushed where.

    Exact for the parity step; docs/how-to/explaining.md has what the numbers mean. Rows are numbered from 1
    where no column says who they are.
    """
    if rows < 0:
        raise UsageError(f"--rows is a number of people, 0 or more: got {rows}.")
    outputs = {"--output": output}
    terminal = open_terminal(outputs, [model, data], force=force, quiet=quiet, as_json=as_json)
    source = open_source(data, format=input_format, delimiter=delimiter)
    loaded = load_model(model, trust)
    with terminal.working("Explaining"):
        told = explain_table(loaded, read_table(source), id, missing_marks(loaded, na))
        if output is not None:
            write_frame(told.frame("pyarrow"), output, output_format)
    people = [told[row] for row in range(min(rows, len(told)))]
    for person in people:
        terminal.say(f"{person}\n")
    if output is not None:
        terminal.say(f"{len(told)} rows explained: {output}")
    said = [{"row": person.name, "sentences": person.sentences} for person in people]
    terminal.result({"command": "explain", "rows": len(told), "output": output, "people": said})
    return ExitCode.OK


def explain_table(model: Any, table: pa.Table, id: str | None, marks: list[str]) -> Explanation:
    """The explanation of all rows of a table, whose cells that are one of `marks` hold no feature."""
    filled = without_marks(table, marks)
    kinds = model_kinds(model) or feature_kinds(filled, feature_names(model))
    who = id or id_column(model, table.column_names)
    require_columns(table.column_names, [*kinds, *([] if who is None else [who])])
    ids = None if who is None else as_ids(filled, who)
    told: Explanation = evenhand.explain(model, make_features(filled, kinds, 1), ids=ids)
    return told if ids is not None else replace(told, names=tuple(range(1, len(told) + 1)))
