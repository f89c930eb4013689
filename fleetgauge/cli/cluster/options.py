"""Options of commands for the Admin API of a cluster or node."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from fleetgauge.cli.options import CLUSTER, CommandConfig, DataOptions
from fleetgauge.terminal.answer import Format
from fleetgauge.terminal.options import FORMAT_HELP, AnswerOptions

if TYPE_CHECKING:
    from fleetgauge.cluster.settings import ClusterSettings


CLIENTS: Final = "Live clients"
"""Panel of options."""

EXIT_CHANGE: Final = 4
"""Exit code of `plan`: there is a change."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, kw_only=True)
class ClusterAnswer(AnswerOptions):
    """Output options of commands whose `-f` is `--file`."""

    form: Annotated[Format, typer.Option("--format", **FORMAT_HELP)] = Format.TEXT


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Options of a connection to a cluster."""

    panel: ClassVar = CLUSTER

    bootstrap_server: Annotated[
        str,
        typer.Option(
            "--bootstrap-server", metavar="HOST:PORT[,...]", help="Brokers of the cluster, or a fleetgauge serve."
        ),
    ]
    command_config: CommandConfig = None
    timeout: Annotated[int, typer.Option(min=100, max=600_000, help="Time for one request to the cluster [ms].")] = (
        10_000
    )

    def settings(self) -> "ClusterSettings":
        """Returns the settings of these options.

        Raises:
            FleetgaugeError: the file cannot be used.
        """
        from fleetgauge.node.processes.lean_imports import import_structlog

        import_structlog()
        from fleetgauge.cluster.settings import ClusterSettings
        from fleetgauge.exporters.group_offsets.settings import read_command_config

        client = {} if self.command_config is None else read_command_config(self.command_config)
        return ClusterSettings(bootstrap_servers=self.bootstrap_server, client=client, timeout_ms=self.timeout)


# Without slots, which two bases cannot both have. In help the options of the last base come first.
@dataclass(frozen=True, kw_only=True)
class Target(DataOptions, ClusterOptions):
    """A cluster, and the source of its live clients."""

    panel: ClassVar = CLIENTS

    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            help="HTTP listener of the node or export that knows the clients; by default the one of --log-dirs is "
            "asked.",
        ),
    ] = None
    tables: Annotated[
        str | None,
        typer.Option(
            "--tables",
            "-t",
            metavar="ROOT",
            help="Tables of fleet run: open verdicts; also the clients, if no other source is named.",
        ),
    ] = None
