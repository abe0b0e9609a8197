"""`evenhand frontier`: what each tolerance would cost."""

from typing import Annotated, Any

import typer

import evenhand
from evenhand._atomic import whole_file
from evenhand._progress import report_progress
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, UsageError
from evenhand.cli.models import read_share
from evenhand.cli.prepare import Learning, Prepared, model_settings, prepare
from evenhand.cli.rows import Parts
from evenhand.cli.tables import Source
from evenhand.cli.terminal import Terminal, share
from evenhand.cli.writing import require_writable, write_frame
from evenhand.frontier import Frontier
from evenhand.paths import N_POINTS, FrontierPoint

EXAMPLE = "Example: `evenhand frontier loans.csv --target amount --sensitive sex -o frontier.csv`"


def frontier(
    data: opt.Data,
    target: opt.Target,
    sensitive: opt.Sensitive,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Tolerance to try; 20 of them by default.", metavar="NUMBER")
    ] = None,
    parity: opt.Parity = "cdf",
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the whole table there.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw risk against KS: a .png, .svg or .pdf file.")
    ] = None,
    features: opt.Features = None,
    drop: opt.Drop = None,
    categorical: opt.Categorical = None,
    id: opt.Id = None,
    weight: opt.Weight = None,
    task: opt.TaskName = "regression",
    holdout: opt.Holdout = "20%",
    beta: opt.Beta = "auto",
    calibration: opt.Calibration = None,
    min_group_size: opt.MinGroupSize = 10,
    merge_small: opt.MergeSmall = False,
    seed: opt.Seed = None,
    jobs: opt.Jobs = None,
    input_format: opt.InputFormat = None,
    delimiter: opt.Delimiter = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Show the risk and the distance from parity for many tolerances, learned once.

    Both are measured on held-out rows. `evenhand fit --epsilon` makes the model of your choice.
    """
    terminal = Terminal(quiet, as_json)
    require_writable(output, plot)
    asked = Learning(
        Source.of(data, input_format, delimiter),
        Parts(
            target,
            tuple(sensitive),
            weight,
            id,
            tuple(features or ()),
            tuple(drop or ()),
            tuple(categorical or ()),
        ),
        task,
        holdout,
        min_group_size,
        merge_small,
        model_settings(parity, beta, calibration, seed, jobs),
    )
    epsilons = [read_share(each, "--epsilon") for piece in epsilon or () for each in piece.split(",")]
    prepared = prepare(asked, terminal)
    if prepared.test is None:
        raise UsageError("frontier measures on held-out rows: set --holdout above 0.")
    path = trace(prepared, epsilons, terminal)
    if output is not None:
        write_frame(path.frame("pyarrow"), output)
    if plot is not None:
        draw(path, plot)
    show(path, terminal)
    for written in (output, plot):
        if written is not None:
            terminal.say(written)
    terminal.result({"command": "frontier", "base": _base(path), "points": path.frame("pyarrow").to_pylist()})
    return ExitCode.OK


def trace(prepared: Prepared, epsilons: list[float], terminal: Terminal) -> Frontier:
    """The path, with a bar over its points once the models are learned."""
    rows, test = prepared.fit, prepared.test
    assert test is not None
    known = {"X": test.X, "y": test.y, "sensitive_features": test.groups, "sample_weight": test.weights}
    total, done = len(set(epsilons)) or N_POINTS, 0
    with terminal.working("Tracing"):

        def count(point: FrontierPoint) -> None:
            nonlocal done
            done += 1
            report_progress("tolerances", done, total)

        return evenhand.frontier(
            prepared.model,
            rows.X,
            rows.y,
            epsilons=epsilons or None,
            test=known,
            callback=count,
            **rows.fit_arguments(),
        )


def draw(path: Frontier, output: str) -> None:
    """The picture, as a file that appears whole or not at all."""
    kind = output.rpartition(".")[2].lower()
    if kind not in ("png", "svg", "pdf"):
        raise UsageError(f"--plot must end in .png, .svg or .pdf: got {output!r}.")
    figure = path.plot().figure_
    with whole_file(output) as file:
        figure.savefig(file, format=kind, dpi=150, bbox_inches="tight")


def show(path: Frontier, terminal: Terminal) -> None:
    """A row for each tolerance, the scores without a parity step last."""
    rows = [
        [f"{point.epsilon:.4g}", f"{point.measures.risk:.4g}", share(increase), f"{ks:.3f}"]
        for point, increase, ks in zip(path.points, path.risk_increase, path.max_ks, strict=True)
    ]
    rows.append(["no parity step", f"{path.base.risk:.4g}", "", f"{path.base.largest('ks'):.3f}"])
    terminal.table(["epsilon", "risk", "increase", "largest KS"], rows)


def _base(path: Frontier) -> dict[str, Any]:
    ks = dict(zip(map(str, path.base.groups), path.base.distances["ks"], strict=True))
    return {"risk": path.base.risk, "max_ks": path.base.largest("ks"), "ks": ks}
