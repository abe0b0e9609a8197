"""`evenhand demo`: the whole way, on built-in data."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer

from evenhand.cli import options as opt
from evenhand.cli.commands.fit import Fitted, finish, learn
from evenhand.cli.commands.predict import Scoring
from evenhand.cli.measure import compare
from evenhand.cli.models import rows_for
from evenhand.cli.outputs import require_replaceable
from evenhand.cli.prepare import Learning, model_settings
from evenhand.cli.rows import Parts
from evenhand.cli.terminal import Terminal
from evenhand.datasets import make_population
from evenhand.modelfile import is_model_file
from evenhand.tables.sources import open_source
from evenhand.tables.writing import table_writer, write_frame

EXAMPLE = "Example: `evenhand demo --out try-it`"
N_LABELLED, N_NEW = 6000, 20_000  # so many new people that chance shows little
GROUPS = np.array(["A", "B", "C"])


def demo(
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the files.")
    ] = "evenhand-demo",
    epsilon: Annotated[float, typer.Option(min=0.0, help="Tolerance.")] = 0.05,
    force: opt.Force = False,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Make a synthetic table, fit on it, score new people and write a report: everything in one folder.

    The groups of the new people are known, since they are made up: what they see is measured at the end.
    """
    terminal = Terminal(quiet, as_json)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    labelled, new, model, scored, page = (
        os.fspath(folder / name)
        for name in ("people.csv", "new-people.csv", "model.evenhand", "scored.csv", "report.html")
    )
    if not is_model_file(model):  # the sign of a demo that was here before
        for path in (labelled, new, model, scored, page):
            require_replaceable(path, force=force, option="--out")
    write_frame(make_people(N_LABELLED, seed=0), labelled)
    people = make_people(N_NEW, seed=1)
    write_frame(people.drop_columns(["group", "outcome"]), new)
    terminal.say(f"{N_LABELLED} synthetic people in three groups: {labelled}")
    parts = Parts(target="outcome", sensitive=("group",), id="person")
    settings = {**model_settings("cdf", "auto", None, 0, None), "epsilon": epsilon}
    asked = Learning(open_source(labelled), parts, "regression", holdout="0", settings=settings)
    fitted = learn(asked, None, None, terminal)
    with table_writer(scored) as write:
        for table in Scoring.of(fitted.model, ["draw"], "prediction", "person", "all").batches(
            open_source(new)
        ):
            write(table)
    terminal.say(f"{N_NEW} new people, scored without their group: {scored}")
    return finish(measure(fitted, people, parts, terminal), model, page, terminal, "demo")


def measure(fitted: Fitted, people: pa.Table, parts: Parts, terminal: Terminal) -> Fitted:
    """What the new people see, whose groups nothing before has looked at."""
    rows = rows_for(fitted.model, people, parts, terminal)
    found = compare(fitted.model, rows)
    name = "new people, whose groups nobody looked at before"
    return replace(fitted, test=rows, comparison=found, test_name=name)


def make_people(n_rows: int, seed: int) -> pa.Table:
    """A population with known truth, dressed as a table: an id, numbers with gaps, a category, a group."""
    data = make_population(n_rows, n_groups=3, separation=0.7, noise=1.0, random_state=seed)
    rng = np.random.default_rng(seed)
    second = np.where(rng.random(n_rows) < 0.05, np.nan, data.data[:, 1])
    region = np.array(["north", "centre", "south"])[np.searchsorted([-0.5, 0.5], data.data[:, 3])]
    return pa.table(
        {
            "person": np.arange(n_rows) + 1_000_000 * seed,
            "first": data.data[:, 0].round(3),
            "second": pa.array(second.round(3), from_pandas=True),
            "third": data.data[:, 2].round(3),
            "region": region,
            "group": GROUPS[data.sensitive_features],
            # the noise that outcomes of people have: most of the risk is nobody's to avoid
            "outcome": (50 + 25 * data.target + rng.normal(0.0, 15.0, n_rows)).round(2),
        }
    )
