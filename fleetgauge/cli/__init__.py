"""The command line `fleetgauge`: one file per command. This one combines them, and prints errors as one sentence."""

import errno
import logging
import os
import sys
from contextlib import suppress
from typing import Annotated, ClassVar, Final

import typer

from fleetgauge.base.deadline import is_any_running
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.terminal.lazy_commands import LazyCommand, LazyGroup
from fleetgauge.terminal.options import HELP
from fleetgauge.terminal.text import printable


class _Commands(LazyGroup):
    """A command is imported when it runs: `--help` needs none of them, and `status` does not need the node."""

    lazy: ClassVar = {
        "serve": LazyCommand(
            "fleetgauge.cli.node.serve:serve",
            "Run a node: receive the pushes of Kafka clients, log them, deliver them.",
        ),
        "gateway": LazyCommand(
            "fleetgauge.cli.node.gateway:gateway",
            "Run a gateway: pass Kafka traffic to a broker, and receive the telemetry of its clients.",
        ),
        "export": LazyCommand(
            "fleetgauge.cli.node.export:export",
            "Deliver the pushes on a Kafka topic, which the broker plugin writes (or a node with push.log.type=kafka).",
        ),
        "offsets": LazyCommand(
            "fleetgauge.cli.node.offsets:offsets",
            "Sample consumer groups into the landing zone: members, committed and end offsets, by Kafka's Admin API.",
        ),
        "status": LazyCommand(
            "fleetgauge.cli.node.status:status",
            "Show a running serve or export: clients and pushes, refusals with reasons, the push log, every exporter.",
        ),
        "clients": LazyCommand(
            "fleetgauge.cli.cluster.clients:clients",
            "Show the client instances of a running node: identity, address, subscription, last push, last error, "
            "state.",
        ),
        "console": LazyCommand(
            "fleetgauge.console.alone:console",
            "Serve the console alone: a page that shows the clients of a push log or topic, their measures and "
            "verdicts.",
        ),
        "subscriptions": LazyCommand(
            "fleetgauge.cli.cluster.subscriptions:app",
            "Plan and apply the subscriptions of brokers or nodes, to a sample first, or for a time.",
        ),
        "quotas": LazyCommand(
            "fleetgauge.cli.cluster.quotas:app",
            "Plan and apply the quotas of brokers or nodes, and see how far they are used.",
        ),
        "exporters": LazyCommand(
            "fleetgauge.cli.node.exporters:exporters",
            "Show the exporters of a running node, and of every fleetgauge export beside it.",
        ),
        "log": LazyCommand("fleetgauge.cli.node.log:app", "Read the push log, whether a node runs or not."),
        "doctor": LazyCommand(
            "fleetgauge.cli.node.doctor.command:doctor",
            "Check whether Fleetgauge can work here: the installation, the machine, the configuration, and the "
            "brokers.",
        ),
        "config": LazyCommand(
            "fleetgauge.cli.node.show_config:show_config",
            "Check a configuration and print it as TOML: every key with its current value and its meaning.",
        ),
        "state": LazyCommand(
            "fleetgauge.cli.node.state:state",
            "Print what admin tools changed on a node as TOML, for its configuration file.",
        ),
        "metrics": LazyCommand(
            "fleetgauge.cli.metrics:metrics",
            "Show the known metrics of clients, by the names that subscriptions use.",
        ),
        "credentials": LazyCommand(
            "fleetgauge.cli.node.credentials:credentials",
            "Print the lines of a user for the configuration file, [sasl.users.NAME]; with --http, of an HTTP user.",
        ),
        "demo": LazyCommand(
            "fleetgauge.cli.demo:demo",
            "Show the whole pipeline with real clients: node, OTLP server, landing zone, tables, and the ranked list.",
        ),
    }


app = typer.Typer(
    name="fleetgauge",
    cls=_Commands,
    help="A sink for Kafka client telemetry (KIP-714): receives what clients push, keeps it in a durable log, "
    "delivers it, and says how the fleet of clients is doing.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


@app.command(
    name="fleet",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    short_help="Analyse the fleet of clients: inventory, latency, points, standing tables (extra: tables or spark).",
    add_help_option=False,
)
def _fleet(context: typer.Context) -> None:
    """Analyse the fleet of clients; see fleetgauge fleet --help."""
    # Imported only here: the sink runs without Java and PySpark.
    try:
        from fleetgauge.cli.fleet.app import app as commands
    except ModuleNotFoundError as error:
        typer.echo(
            f"fleetgauge fleet needs {error.name}, which is not installed: pip install 'fleetgauge[spark]'", err=True
        )
        raise typer.Exit(1) from error
    commands(args=context.args or ["--help"], prog_name="fleetgauge fleet")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # imports email: for this option alone

        from fleetgauge.cli.node.doctor.installation import installed_form

        typer.echo(f"fleetgauge {version('fleetgauge')} ({installed_form()})")
        raise typer.Exit


@app.callback()
def _top(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options before a command."""


_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))


def main() -> None:
    """Entry point of the `fleetgauge` script; a `FleetgaugeError` or a full disk is one sentence and exit code 1."""
    code: str | int | None = 0
    # Warnings of libraries, on standard error: standard output has what a command was asked for. Processes that run on
    # replace this by `node.logs`.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        try:
            app()
        except SystemExit as ended:
            code = ended.code
        except FleetgaugeError as error:
            typer.echo(f"fleetgauge: {printable(str(error))}", err=True)
            code = 1
        if sys.stdout is not None:
            sys.stdout.flush()  # here, not as the interpreter ends
    except OSError as error:
        if error.errno not in {*_FULL, errno.EPIPE}:
            raise
        if error.errno in _FULL:
            place = f" to {printable(str(error.filename))}" if error.filename else ""
            typer.echo(f"fleetgauge: cannot write{place}: {error.strerror}", err=True)
        with suppress(OSError):  # what is left in its buffer cannot be written either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    if is_any_running():  # an answer of S3 that has no end holds up AWS's library, which is waited for at the end
        os._exit(code if isinstance(code, int) else bool(code))
    sys.exit(code)
