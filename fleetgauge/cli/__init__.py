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
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.text import printable

_RUN: Final = "Run"
_LOOK: Final = "Look at a running process"
_ADMINISTER: Final = "Administer clusters"
_CONFIGURE: Final = "Configure"
_ANALYSE: Final = "Analyse"


class _Commands(LazyGroup):
    """A command is imported when it runs: `--help` needs none of them, and `status` does not need the node."""

    lazy: ClassVar = {
        "serve": LazyCommand(
            "fleetgauge.cli.node.serve:serve",
            "Run a node: receive the pushes of Kafka clients, log them, deliver them.",
            _RUN,
        ),
        "gateway": LazyCommand(
            "fleetgauge.cli.node.gateway:gateway",
            "Run a gateway: pass Kafka traffic to a broker, and receive the telemetry of its clients.",
            _RUN,
        ),
        "export": LazyCommand(
            "fleetgauge.cli.node.export:export",
            "Deliver the pushes on a Kafka topic, which the broker plugin writes (or a node with push.log.type=kafka).",
            _RUN,
        ),
        "offsets": LazyCommand(
            "fleetgauge.cli.node.offsets:offsets",
            "Sample consumer groups into the landing zone: members, committed and end offsets, by Kafka's Admin API.",
            _RUN,
        ),
        "console": LazyCommand(
            "fleetgauge.console.command:console",
            "Serve the console alone: a page that shows the clients of a push log or topic, their measures and "
            "verdicts.",
            _RUN,
        ),
        "demo": LazyCommand(
            "fleetgauge.cli.demo:demo",
            "Show the whole pipeline with real clients: node, OTLP server, landing zone, tables, and the ranked list.",
            _RUN,
        ),
        "status": LazyCommand(
            "fleetgauge.cli.node.status:status",
            "Show a running serve or export: clients and pushes, refusals with reasons, the push log, every exporter.",
            _LOOK,
        ),
        "clients": LazyCommand(
            "fleetgauge.cli.cluster.clients:clients",
            "Show the client instances of a running node: identity, address, subscription, last push, last error, "
            "state.",
            _LOOK,
        ),
        "log": LazyCommand("fleetgauge.cli.node.log:app", "Read the push log, whether a node runs or not.", _LOOK),
        "subscriptions": LazyCommand(
            "fleetgauge.cli.cluster.subscriptions:app",
            "Plan and apply the subscriptions of brokers or nodes, to a sample first, or for a time.",
            _ADMINISTER,
        ),
        "quotas": LazyCommand(
            "fleetgauge.cli.cluster.quotas:app",
            "Plan and apply the quotas of brokers or nodes, and show how far they are used.",
            _ADMINISTER,
        ),
        "metrics": LazyCommand(
            "fleetgauge.cli.metrics:metrics",
            "Show the known metrics of clients, by the names that subscriptions use.",
            _ADMINISTER,
        ),
        "doctor": LazyCommand(
            "fleetgauge.cli.node.doctor.command:doctor",
            "Check whether Fleetgauge can work here: the installation, the machine, the configuration, and the "
            "brokers.",
            _CONFIGURE,
        ),
        "config": LazyCommand(
            "fleetgauge.cli.node.show_config:config",
            "Print a configuration as TOML: every key with its current value and its meaning.",
            _CONFIGURE,
        ),
        "credentials": LazyCommand(
            "fleetgauge.cli.node.credentials:credentials",
            "Print the lines of a user for the configuration file, [sasl.users.NAME]; with --http, of an HTTP user.",
            _CONFIGURE,
        ),
        "fleet": LazyCommand(
            "fleetgauge.cli.fleet.app:app",
            "Analyse the fleet of clients: inventory, latency, points, tables, verdicts (extra: tables or spark).",
            _ANALYSE,
        ),
    }
    renamed: ClassVar = {"exporters": ("status", "--exporters"), "state": ("config", "--changed")}


app = App(
    name="fleetgauge",
    cls=_Commands,
    help="Receive the telemetry of Kafka clients (KIP-714), keep it in a durable log, deliver it, and analyse the "
    "fleet of clients.",
    no_args_is_help=True,
)


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
