"""`evenhand frontier`: what each tolerance would cost."""

from typing import Annotated, Any

import numpy as np
import typer

import evenhand
from evenhand._utils.atomic import whole_file
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, UsageError
from evenhand.cli.models import read_cost, read_share
from evenhand.cli.outputs import open_terminal
from evenhand.cli.prepare import Learning, Prepared, model_settings, prepare
from evenhand.cli.rows import Parts
from evenhand.cli.tasks import AUTO
from evenhand.cli.terminal import Terminal, share
from evenhand.dual.parity import find_parity
from evenhand.evaluation.frontier import Frontier
from evenhand.evaluation.paths import FrontierPoint
from evenhand.metrics.distances import STANDARD, Metric, find_distance
from evenhand.tables.sources import open_source
from evenhand.tables.writing import write_frame

EXAMPLE = "Example: `evenhand frontier loans.csv --target amount --sensitive sex -o frontier.csv`"


def frontier(
    data: opt.Data,
    target: opt.Target,
    sensitive: opt.Sensitive,
    epsilon: Annotated[
        list[str] | None, typer.Option(help="Tolerance to try; 20 of them by default.", metavar="NUMBER")
    ] = None,
    parity: opt.Parity = None,
    criterion: opt.Criterion = None,
    pos_label: opt.PosLabel = None,
    conditional_on: opt.ConditionalOn = None,
    attributes: opt.Attributes = None,
    cost: opt.Cost = None,
    cost_matrix: opt.CostMatrix = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the whole table there; - is standard output."
        ),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw risk against KS: a .png, .svg or .pdf file.")
    ] = None,
    features: opt.Features = None,
    drop: opt.Drop = None,
    categorical: opt.Categorical = None,
    na: opt.Na = None,
    id: opt.Id = None,
    weight: opt.Weight = None,
    task: opt.TaskName = AUTO,
    holdout: opt.Holdout = "20%",
    beta: opt.Beta = "auto",
    calibration: opt.Calibration = None,
    min_group_size: opt.MinGroupSize = 10,
    merge_small: opt.MergeSmall = False,
    seed: opt.Seed = None,
    jobs: opt.Jobs = None,
    input_format: opt.InputFormat = None,
    delimiter: opt.Delimiter = None,
    force: opt.Force = False,
    plugin: opt.Plugin = None,
    as_json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> int:
    """Show the risk and the distance from parity for many tolerances, learned once.

    Both are measured on held-out rows, chance included; the tolerances are those of the parity step on the
    rows of the fit. `evenhand fit --max-distance` or `--max-risk-increase` chooses one of these models.
    """
    outputs = {"--output": output, "--plot": plot}
    terminal = open_terminal(outputs, [data], force=force, quiet=quiet, as_json=as_json)
    settings = model_settings(
        parity,
        beta,
        calibration,
        seed,
        jobs,
        criterion=criterion,
        pos_label=pos_label,
        conditional_on=conditional_on,
        attributes=attributes,
        cost=None if cost is None else read_cost(cost),
        cost_matrix=cost_matrix,
    )
    asked = Learning(
        open_source(data, format=input_format, delimiter=delimiter),
        Parts(
            target,
            tuple(sensitive),
            weight,
            id,
            tuple(features or ()),
            tuple(drop or ()),
            tuple(categorical or ()),
            attributes == "separate",
        ),
        task,
        holdout,
        min_group_size,
        merge_small,
        settings,
        tuple(na or ()),
    )
    epsilons = [read_share(each, "--epsilon") for piece in epsilon or () for each in piece.split(",")]
    prepared = prepare(asked, terminal)
    if prepared.test is None:
        raise UsageError("frontier measures on held-out rows: set --holdout above 0.")
    path = trace(prepared, epsilons, terminal)
    notion = find_parity(prepared.model.parity)
    own = notion.metric
    metric = path.distances.get(own, own) if own not in STANDARD else prepared.task.path_metric(notion)
    finish(path, metric, output, plot, terminal)
    return ExitCode.OK


def finish(path: Frontier, metric: Metric, output: str | None, plot: str | None, terminal: Terminal) -> None:
    """Write what is to be written, then tell."""
    if output is not None:
        write_frame(path.frame("pyarrow"), output)
    if plot is not None:
        draw(path, plot)
    show(path, metric, terminal)
    for written in (output, plot):
        if written is not None:
            terminal.say(written)
    points = path.frame("pyarrow").to_pylist()
    terminal.result({"command": "frontier", "base": _base(path, metric), "points": points})


def trace(prepared: Prepared, epsilons: list[float], terminal: Terminal) -> Frontier:
    """The path, with a bar over its points once the models are learned."""
    rows, test = prepared.fit, prepared.test
    assert test is not None
    with terminal.working("Tracing"):
        return evenhand.frontier(
            prepared.model,
            rows.X,
            rows.y,
            epsilons=epsilons or None,
            test=test.known(),
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


def show(path: Frontier, metric: Metric, terminal: Terminal) -> None:
    """A row for each tolerance, what would be without a parity step last."""
    rows = [
        [f"{point.epsilon:.4g}", f"{point.measures.risk:.4g}", share(increase), r2, _largest(point, metric)]
        for point, increase, r2 in zip(path.points, path.risk_increase, path.r2, strict=True)
    ]
    base, constant = path.base, path.base.constant_risk
    gained = 1.0 - base.risk / constant if constant > 0 else np.nan
    rows.append(["no parity step", f"{base.risk:.4g}", "", gained, f"{base.largest(metric):.3f}"])
    rows.append(["best constant", f"{constant:.4g}", "", 0.0, "0.000"])
    named = "R2" if path.cost.scores_are_means else "gain on constant"
    terminal.table(["epsilon", "risk", "increase", named, f"largest {find_distance(metric).short}"], rows)


def _largest(point: FrontierPoint, metric: Metric) -> str:
    return f"{point.measures.largest(metric):.3f}"


def _base(path: Frontier, metric: Metric) -> dict[str, Any]:
    by_group = zip(map(str, path.base.labels), path.base.distances(metric), strict=True)
    name = find_distance(metric).name
    return {"risk": path.base.risk, f"max_{name}": path.base.largest(metric), name: dict(by_group)}
