"""Options of commands for the Admin API of a cluster or node."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from fleetgauge.node.processes.lean_imports import import_structlog

if TYPE_CHECKING:
    from fleetgauge.cluster.settings import ClusterSettings

_OF_CLUSTER: Final = "Cluster"

Form = Literal["table", "json"]
FormOption = Annotated[Form, typer.Option("--format", help="Output format.")]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How to connect to a cluster."""

    bootstrap_server: Annotated[
        str,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="Brokers of the cluster, or a fleetgauge serve.",
            rich_help_panel=_OF_CLUSTER,
        ),
    ]
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Client settings, as Kafka's own tools take them: TLS, SASL PLAIN and SCRAM.",
            rich_help_panel=_OF_CLUSTER,
        ),
    ] = None
    timeout: Annotated[
        int,
        typer.Option(min=100, max=600_000, help="Of one request to the cluster [ms].", rich_help_panel=_OF_CLUSTER),
    ] = 10_000

    def settings(self) -> "ClusterSettings":
        """Returns the settings of these options.

        Raises:
            FleetgaugeError: the file cannot be used.
        """
        import_structlog()
        from fleetgauge.cluster.settings import ClusterSettings
        from fleetgauge.exporters.group_offsets.settings import read_command_config

        client = {} if self.command_config is None else read_command_config(self.command_config)
        return ClusterSettings(bootstrap_servers=self.bootstrap_server, client=client, timeout_ms=self.timeout)
