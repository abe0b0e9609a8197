"""The commands and their help."""

import typer

import evenhand
from evenhand.cli.commands import audit, bench, demo, explain, fit, frontier, info, predict, report, warm_up
from evenhand.cli.plugins import import_installed

EPILOG = (
    "Exit codes: 0 all went well; 1 a bug; 2 the command line is wrong; 3 the data or the model file is not "
    "what is needed; 4 a limit was not reached, or the solver did not converge; 5 reading or writing failed; "
    "130 interrupted."
)

app = typer.Typer(
    name="evenhand",
    help="Predictions whose distribution is the same in every group, without the group at prediction time.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evenhand {evenhand.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: bool = typer.Option(
        False, "--version", callback=_tell_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Predictions whose distribution is the same in every group, without the group at prediction time."""
    import_installed()  # a group's callback runs before the options of its command are read


for module in (demo, fit, predict, audit, explain, frontier, report, info, bench, warm_up):
    name = module.__name__.rpartition(".")[2]
    app.command(name.replace("_", "-"), epilog=module.EXAMPLE)(getattr(module, name))
