"""Options that several commands share, each written once."""

from typing import Annotated

import typer

from evenhand.cli.plugins import import_plugins

Data = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, Parquet, Arrow or Feather file, or a folder of them; - is standard input.",
        metavar="DATA",
    ),
]
ModelFile = Annotated[str, typer.Argument(help="A model file that `evenhand fit` wrote.", metavar="MODEL")]

Target = Annotated[str, typer.Option("--target", "-y", metavar="COLUMN", help="Column to predict.")]
KnownTarget = Annotated[
    str | None, typer.Option("--target", "-y", metavar="COLUMN", help="Column of the outcome, where known.")
]
Sensitive = Annotated[
    list[str],
    typer.Option(
        "--sensitive",
        "-s",
        metavar="COLUMN",
        help="Column of the group; give several to use their combinations.",
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option("--features", metavar="COLUMN", help="Column to learn from; all others by default."),
]
Drop = Annotated[list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column not to learn from.")]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", metavar="COLUMN", help="Column whose numbers are codes of categories."),
]
Na = Annotated[
    list[str] | None,
    typer.Option(
        "--na",
        metavar="TEXT",
        help="A cell that means a missing value, beside empty ones, ?, NA, NaN and their like; several will "
        "do. A model remembers those of its fit.",
    ),
]
Weight = Annotated[
    str | None, typer.Option("--weight", metavar="COLUMN", help="Column with the weight of each row.")
]

Threshold = Annotated[
    float | None,
    typer.Option(
        metavar="NUMBER",
        help="Of numbers, who is selected: predictions above this one.",
        show_default="above the median",
    ),
]
Selected = Annotated[
    list[str] | None,
    typer.Option(metavar="CLASS", help="Of classes, which one selects.", show_default="the second of two"),
]

MinRate = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Of classes, keep the share of decisions for --pos-label at this or more; before: at what it is "
        "without parity; each: so in every group.",
    ),
]
Parity = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:NUMBERS]",
        help="What has to agree: cdf, pmf, mean, tv, w1; thresholds:600,50% for the shares above 600 and "
        "above the median alone; or the name of a --plugin's.",
        show_default="cdf for numbers, pmf for classes",
    ),
]
Criterion = Annotated[
    str | None,
    typer.Option(
        help="Of classes: compare groups among all rows, demographic_parity; among those of the same true "
        "class, equalized_odds; or of --pos-label alone, equal_opportunity.",
        show_default="demographic_parity",
    ),
]
PosLabel = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CLASS", help="Class that is an opportunity, or selects.", show_default="the second of two"
    ),
]
ConditionalOn = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Feature with few values within each of which groups are compared."),
]
Attributes = Annotated[
    str | None,
    typer.Option(
        help="Several --sensitive columns: groups are their combinations, combined, or each column has a "
        "parity of its own, separate.",
        show_default="combined",
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[:NUMBER]",
        help="Of numbers, what an error costs: squared, absolute, pinball:0.9 for a quantile, or "
        "huber:DELTA, squared up to DELTA and linear beyond; or the name of a --plugin's.",
        show_default="squared",
    ),
]
CostMatrix = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Costs of decisions: true classes in the first column, decisions in the head."
    ),
]
Solver = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="How the parity step is solved: batch, lbfgs, lp, a paper's method (docs/concepts/solvers.md), "
        "or the name of a --plugin's.",
        show_default="auto",
    ),
]
Plugin = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Python module to import first, that registers notions, costs or solvers "
        "(docs/how-to/extending.md).",
        callback=import_plugins,
        is_eager=True,
    ),
]
Epsilon = Annotated[
    list[str] | None,
    typer.Option(
        help="Tolerance: 0.05, 5%, or by group: A=0.02,B=0.05. --confidence says for whom.", metavar="NUMBER"
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="average|NUMBER|none",
        help="Whom epsilon is for: new people on average; new people with that probability, such as 0.9; or "
        "the rows of the fit alone, none.",
        show_default="average",
    ),
]
TaskName = Annotated[
    str,
    typer.Option(
        "--task",
        help="What is predicted: regression, classification, or auto: text, true and false, and columns of "
        "two values are classes.",
    ),
]
Holdout = Annotated[str, typer.Option(help="Share of the rows to measure on; 0 fits on all of them.")]
MinGroupSize = Annotated[int, typer.Option(min=1, help="Groups with fewer rows are refused, or merged.")]
MergeSmall = Annotated[bool, typer.Option("--merge-small", help="Merge small groups into one, `other`.")]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Key of the draws: an integer of your own, kept to yourself.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Models fitted at the same time.")]

InputFormat = Annotated[
    str | None, typer.Option(help="csv, parquet or arrow, where the name does not tell.", metavar="FORMAT")
]
OutputFormat = Annotated[
    str | None, typer.Option(help="csv, parquet or arrow, where the name does not tell.", metavar="FORMAT")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What parts the columns of a CSV file.", show_default=",")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace files that are there already. Models, reports and cards of evenhand's "
        "need no --force, and a file that is read is never replaced.",
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(help="Full name of a type in the file that you vouch for (docs/reference/model-file.md)."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No tables, notes or bars.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Id = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column that says who a row is; it is not learned from.")
]
Beta = Annotated[
    str, typer.Option(help="Inverse temperature: auto, paper, cv (chosen on held-out rows) or a number.")
]
Calibration = Annotated[
    str | None,
    typer.Option(
        help="Of the group probabilities: sigmoid, isotonic or temperature. Of both models, given what "
        "both say: joint. Of neither: none.",
        show_default="joint where epsilon is for new people",
    ),
]
