"""The command line `fleetgauge`: one file per command. This one combines them, and prints errors as one sentence."""

import importlib
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from base.errors import FleetgaugeError
from fleetgauge.cli.clients import clients
from fleetgauge.cli.credentials import credentials
from fleetgauge.cli.demo import demo
from fleetgauge.cli.export import export
from fleetgauge.cli.exporters import exporters
from fleetgauge.cli.log import app as log
from fleetgauge.cli.metrics import metrics
from fleetgauge.cli.serve import serve
from fleetgauge.cli.show_config import show_config
from fleetgauge.cli.status import status
from terminal.options import HELP, Command
from terminal.text import printable

app = typer.Typer(
    name="fleetgauge",
    help="A sink for Kafka client telemetry (KIP-714): receives the pushes of clients, keeps them in a durable "
    "log, delivers them, and shows the state of the clients.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings=HELP,
)
app.command(cls=Command)(serve)
app.command(cls=Command)(export)
app.command(cls=Command)(status)
app.command(cls=Command)(clients)
app.command(cls=Command)(exporters)
app.add_typer(log, name="log")
app.command(name="config", cls=Command)(show_config)
app.command(cls=Command)(metrics)
app.command(cls=Command)(credentials)
app.command(cls=Command)(demo)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    short_help="Analyse the fleet of clients with PySpark (extra: spark).",
    add_help_option=False,
)
def fleet(context: typer.Context) -> None:
    """Analyse the fleet of clients with PySpark; see fleetgauge fleet --help."""
    # Imported only here: the sink runs without Java and PySpark.
    try:
        commands = importlib.import_module("fleet.cli")
    except ModuleNotFoundError as error:
        typer.echo(
            f"fleetgauge fleet needs {error.name}, which is not installed: pip install 'fleetgauge[spark]'", err=True
        )
        raise typer.Exit(1) from error
    commands.app(args=context.args or ["--help"], prog_name="fleetgauge fleet")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fleetgauge {version('fleetgauge')}")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options before a command."""


def main() -> None:
    """Entry point of the `fleetgauge` script; a `FleetgaugeError` is one sentence and exit code 1."""
    try:
        app()
    except FleetgaugeError as error:
        typer.echo(f"fleetgauge: {printable(str(error))}", err=True)
        sys.exit(1)
