"""`evenhand predict`: rows in, the same rows with predictions out, in bounded memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from evenhand._utils.text import plain
from evenhand.cli import options as opt
from evenhand.cli.errors import DataError, ExitCode, UsageError
from evenhand.cli.models import feature_names, id_column, load_model, missing_marks, model_kinds
from evenhand.cli.outputs import open_terminal
from evenhand.cli.rows import feature_kinds, make_features
from evenhand.cli.tasks import Kind, find_kind_of_prediction, task_of
from evenhand.tables.columns import as_ids
from evenhand.tables.files import read_batches, read_table
from evenhand.tables.formats import STANDARD, find_delimiter, find_format, require_columns
from evenhand.tables.formulas import escape_formulas
from evenhand.tables.sources import Source, open_source
from evenhand.tables.strays import without_marks
from evenhand.tables.writing import table_writer

EXAMPLE = "Example: `evenhand predict model.evenhand new.csv -o scored.csv --id applicant`"
KEEP = ("all", "id", "none")


def predict(
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the rows go; - is standard output.")
    ] = "-",
    id: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that says who a row is: the draw then depends on it alone.",
            show_default="that of `evenhand fit --id`, where it is there",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="What to add; several will do. draw, mean, median, quantile:0.9, pmf or score of numbers; "
            "draw, proba, mode or score of classes.",
            show_default="draw",
        ),
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="COLUMN", help="Columns of the input to keep: all, id or none.")
    ] = "all",
    name: Annotated[str, typer.Option(help="Name of the column of draws.")] = "prediction",
    na: opt.Na = None,
    escape: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Write an apostrophe before text that a spreadsheet would run as a formula, such as =cmd().",
        ),
    ] = False,
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
    """Predict for each row, without looking at the group, and write the rows in their order.

    The same row gets the same prediction in any file, order and machine; with --id the same person does, and
    without it people with the same features share a draw. A million rows need no more memory than a few
    ten thousand: CSV and Parquet files are read and written in batches.
    """
    if keep not in KEEP or (keep == "id" and id is None):
        raise UsageError(f"--keep is one of {', '.join(KEEP)}, and needs --id for id: got {keep!r}.")
    outputs = {"--output": output}
    terminal = open_terminal(outputs, [model, data], force=force, quiet=quiet, as_json=as_json)
    source = open_source(data, format=input_format, delimiter=delimiter)
    scoring = Scoring.of(load_model(model, trust), kind or ["draw"], name, id, keep, na)
    sign = find_delimiter(data if output == STANDARD else output, delimiter)
    if escape and find_format(output, output_format) != "csv":
        raise UsageError("--escape-formulas is for CSV files: no spreadsheet runs the others.")
    n_rows = 0
    with terminal.working("Predicting"), table_writer(output, output_format, sign) as write:
        for table in scoring.batches(source):
            write(escape_formulas(table) if escape else table)
            n_rows += table.num_rows
    if output != STANDARD:
        terminal.say(f"{n_rows} rows with {', '.join(scoring.kinds)}: {output}")
    terminal.result({"command": "predict", "rows": n_rows, "output": output, "columns": scoring.columns})
    return ExitCode.OK


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """A model and what to write of each row."""

    model: Any
    kinds: dict[str, Kind]  # by the name of what they add
    id: str | None
    keep: str
    marks: list[str]  # cells that mean a missing value

    @classmethod
    def of(
        cls,
        model: Any,
        kinds: Sequence[str],
        name: str,
        id: str | None,
        keep: str,
        na: Sequence[str] | None = None,
    ) -> "Scoring":
        """The kinds by their names; draws are called `name`."""
        task = task_of(model)
        found = {name if each == "draw" else each: find_kind_of_prediction(task, each) for each in kinds}
        return cls(model, found, id, keep, missing_marks(model, na))

    @property
    def columns(self) -> list[str]:
        """Names of the new columns."""
        return [column for name, kind in self.kinds.items() for column in kind.columns(name, self.model)]

    def batches(self, source: Source) -> Iterator[pa.Table]:
        """The rows with their predictions, batch by batch."""
        kinds = model_kinds(self.model)
        if kinds is None:  # made in Python: only all the rows tell what a column holds
            table = read_table(source)
            found = feature_kinds(without_marks(table, self.marks), feature_names(self.model))
            yield self.score(table, found, 1)
            return
        first_row = 1
        for table in read_batches(source):
            yield self.score(table, kinds, first_row)
            first_row += table.num_rows

    def score(self, table: pa.Table, kinds: dict[str, str], first_row: int) -> pa.Table:
        """One batch with its predictions."""
        who = self.id or id_column(self.model, table.column_names)
        require_columns(table.column_names, [*kinds, *([] if who is None else [who])])
        kept = self._kept(table)
        taken = [column for column in self.columns if column in kept.column_names]
        if taken:
            raise DataError(f"The rows have a column {plain(taken[0])} already: choose another with --name.")
        filled = without_marks(table, self.marks)
        X = make_features(filled, kinds, first_row)
        ids = None if who is None else as_ids(filled, who, first_row)
        for name, kind in self.kinds.items():
            values = np.asarray(kind.values(self.model, X, ids))
            for column, part in zip(kind.columns(name, self.model), np.atleast_2d(values.T), strict=True):
                kept = kept.append_column(column, pa.array(part))
        return kept

    def _kept(self, table: pa.Table) -> pa.Table:
        if self.keep == "all":
            return table
        return table.select([] if self.keep == "none" or self.id is None else [self.id])
