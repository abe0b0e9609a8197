"""`evenhand fit`: a table in, a model file out."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

import evenhand
from evenhand.cli import options as opt
from evenhand.cli.errors import ExitCode, NotReachedError, UsageError
from evenhand.cli.measure import Comparison, compare
from evenhand.cli.models import read_cost, read_epsilon, read_share
from evenhand.cli.outputs import as_path, open_terminal
from evenhand.cli.prepare import Learning, Prepared, model_settings, prepare
from evenhand.cli.rows import LabelledRows, Parts, make_features, split
from evenhand.cli.tasks import AUTO
from evenhand.cli.terminal import Terminal
from evenhand.exceptions import SharedDrawsWarning
from evenhand.solvers import Status
from evenhand.tables.files import read_table
from evenhand.tables.sources import Source, open_source
from evenhand.tables.strays import without_marks

EXAMPLE = "Example: `evenhand fit loans.csv --target amount --sensitive sex --epsilon 0.05 -o model.evenhand`"


def fit(
    data: opt.Data,
    target: opt.Target,
    sensitive: opt.Sensitive,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where the model goes; - is standard output."),
    ] = "model.evenhand",
    epsilon: opt.Epsilon = None,
    max_risk_increase: Annotated[
        str | None,
        typer.Option(
            help="Choose epsilon: the least distance (that of --parity) for at most so much more risk, such "
            "as 5%, both measured on half of the held-out rows."
        ),
    ] = None,
    max_distance: Annotated[
        str | None,
        typer.Option(
            help="Choose epsilon: the least risk for at most this distance, that of --parity, chance "
            "included, both measured on half of the held-out rows."
        ),
    ] = None,
    max_ks: Annotated[
        str | None,
        typer.Option(help="The same for the Kolmogorov-Smirnov distance, whatever the --parity."),
    ] = None,
    confidence: opt.Confidence = None,
    parity: opt.Parity = None,
    criterion: opt.Criterion = None,
    pos_label: opt.PosLabel = None,
    conditional_on: opt.ConditionalOn = None,
    attributes: opt.Attributes = None,
    cost: opt.Cost = None,
    cost_matrix: opt.CostMatrix = None,
    min_rate: opt.MinRate = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(help="More rows, without target and group, for the parity step.", metavar="DATA"),
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a report too, to this HTML file.")
    ] = None,
    compare_aware: Annotated[
        bool,
        typer.Option(
            "--compare-aware",
            help="Fit a second model, which looks at the group when it predicts, and set it beside this one "
            "in the --report. It is not kept.",
        ),
    ] = False,
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
    solver: opt.Solver = None,
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
    """Fit a model whose predictions follow the same distribution in every group, and save it.

    Columns of numbers and of text are taken as they are: gaps are filled, categories become columns of
    zeros and ones. One row in five is held out, and the table of results is of these rows.
    """
    outputs = {"--output": output, "--report": report}
    terminal = open_terminal(outputs, [data, unlabeled], force=force, quiet=quiet, as_json=as_json)
    if compare_aware and report is None:
        raise UsageError("--compare-aware is for the page of --report: say where that goes.")
    limits = {"max_risk_increase": max_risk_increase, "max_distance": max_distance, "max_ks": max_ks}
    limit = read_limit(limits, epsilon=epsilon, confidence=confidence)
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
        min_rate=min_rate,
        solver=solver,
        confidence=confidence,
    )
    settings["epsilon"] = read_epsilon(epsilon or ["0.05"])
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
    more = None if unlabeled is None else open_source(unlabeled, delimiter=delimiter)
    if id is not None:  # everybody has a draw of their own; filters are put back after the command
        warnings.simplefilter("ignore", SharedDrawsWarning)
    fitted = learn(asked, limit, more, terminal)
    if id is not None:
        fitted.model.id_column_ = id  # of whom predict draws, unless it is told otherwise
    if na:
        fitted.model.missing_marks_ = list(na)  # which predict needs, too
    second = fit_aware(fitted, terminal) if compare_aware else None
    return finish(fitted, output, report, terminal, compare=second)


def read_limit(given: Mapping[str, str | None], **others: Any) -> dict[str, float] | None:
    """The limit that chooses epsilon, as `Frontier.select` takes it, or None where epsilon is given."""
    limits = {name: text for name, text in given.items() if text is not None}
    rivals = [*limits, *(name for name, value in others.items() if value)]
    if not limits:
        return None
    if len(rivals) > 1:
        first, second = (f"--{name.replace('_', '-')}" for name in rivals[:2])
        raise UsageError(
            f"{first} and {second} exclude each other: {first} chooses epsilon, by what held-out rows show."
        )
    return {name: read_share(text, f"--{name.replace('_', '-')}") for name, text in limits.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A fitted model and what it does on rows that were held out."""

    model: Any
    prepared: Prepared
    test: LabelledRows | None
    comparison: Comparison | None
    test_name: str = "rows that were held out"

    @property
    def status(self) -> Status:
        """Why the solver stopped."""
        status: Status = self.model.result_.status
        return status


def learn(
    asked: Learning, limit: Mapping[str, float] | None, unlabeled: Source | None, terminal: Terminal
) -> Fitted:
    """Fit, choosing epsilon where a limit on risk or distance is given, and measure on held-out rows."""
    prepared = prepare(asked, terminal)
    rows, test = prepared.fit, prepared.test
    more = rows.fit_arguments()
    if unlabeled is not None:
        more["X_unlabeled"] = make_features(
            without_marks(read_table(unlabeled), list(asked.marks)), prepared.kinds
        )
    with terminal.working("Fitting"):
        if limit is None:
            model = prepared.model.fit(rows.X, rows.y, **more)
        else:
            if test is None:
                option = f"--{next(iter(limit)).replace('_', '-')}"
                raise UsageError(f"{option} needs rows to choose on: set --holdout above 0.")
            choose, test = split(test, 0.5)
            model = choose_model(prepared.model, rows, more, choose, limit)
    if model.result_.status is Status.STOPPED:
        raise KeyboardInterrupt
    with terminal.working("Measuring"):
        return Fitted(model, prepared, test, None if test is None else compare(model, test))


def fit_aware(fitted: Fitted, terminal: Terminal) -> Any:
    """The same model with the group at prediction time, fitted on the same rows to be compared with."""
    rows = fitted.prepared.fit
    model = clone(fitted.model).set_params(aware=True)
    terminal.note(
        "a second model is fitted, which looks at the group: to compare in the report, and not kept."
    )
    with terminal.working("Fitting with the group"):
        return model.fit(rows.X, rows.y, **rows.fit_arguments())


def choose_model(
    model: Any, rows: LabelledRows, more: dict[str, Any], choose: LabelledRows, limit: Mapping[str, float]
) -> Any:
    """The best model within the limit: see `Frontier.select`."""
    path = evenhand.frontier(model, rows.X, rows.y, test=choose.known(), **more)
    try:
        return path.select(**limit)
    except ValueError as error:
        raise NotReachedError(f"{error} Nothing was written.") from error


def finish(
    fitted: Fitted,
    output: str,
    report: str | None,
    terminal: Terminal,
    command: str = "fit",
    compare: Any = None,
) -> int:
    """Save, tell, and say by the exit code whether the solver converged."""
    evenhand.save(fitted.model, as_path(output))
    if report is not None:
        write_report(fitted, report, terminal, compare)
    show(fitted, terminal)
    terminal.say(f"Model: {output}")
    if report is not None:
        terminal.say(f"Report: {report}")
    terminal.result({"command": command, **facts(fitted, output, report)})
    if not fitted.status.success:
        raise NotReachedError(f"{fitted.status.value} The model was written; look at it before you use it.")
    return ExitCode.OK


def write_report(fitted: Fitted, path: str, terminal: Terminal, compare: Any) -> None:
    """The page, on the held-out rows, or on those of the fit where none were."""
    rows = fitted.prepared.fit if fitted.test is None else fitted.test
    with terminal.working("Writing the report"):
        evenhand.report(
            fitted.model,
            rows.X,
            rows.y,
            sensitive_features=rows.groups,
            sample_weight=rows.weights,
            path=as_path(path),
            compare=True if compare is None else compare,
        )


def show(fitted: Fitted, terminal: Terminal) -> None:
    """Tolerance, out-of-sample estimate, and what held-out rows show."""
    certificate = fitted.model.certificate_
    asked = sorted(set(np.round(fitted.model.epsilon_, 12).tolist()))
    wanted = f"{asked[0]:g}" if len(asked) == 1 else f"{asked[0]:g} to {asked[-1]:g}, by group"
    where, reached = "on new data", ""
    if certificate.out_of_sample is None:
        where = "on these rows"
        reached = f", reached {np.max(certificate.violation):.4g}. There is no estimate for new data"
    terminal.say(
        f"Fitted on {len(fitted.prepared.fit)} rows, {len(fitted.prepared.kinds)} features, "
        f"{len(certificate.groups)} groups. Parity {certificate.parity!r}: at most {wanted} {where}"
        f"{reached}."
    )
    if certificate.out_of_sample is not None:
        terminal.say(certificate.out_of_sample.summary())
    if known := fitted.model.group_summary_.sentence:
        terminal.say(known)
    if fitted.comparison is not None:
        terminal.say(f"On {fitted.comparison.audit.n_rows} {fitted.test_name}:")
        fitted.comparison.show(terminal)


def facts(fitted: Fitted, output: str, report: str | None) -> dict[str, Any]:
    """The same for machines."""
    return {
        "model": output,
        "report": report,
        "rows": len(fitted.prepared.fit),
        "features": fitted.prepared.kinds,
        "status": fitted.status.name.lower(),
        "epsilon": fitted.model.epsilon_.tolist(),
        "certificate": fitted.model.certificate_.to_dict(),
        "held_out": None if fitted.comparison is None else fitted.comparison.to_dict(),
    }
