"""Options of commands for the Admin API of a cluster or node."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from fleetgauge.node.processes.lean_imports import import_structlog

if TYPE_CHECKING:
    from fleetgauge.cluster.settings import ClusterSettings

_OF_CLUSTER: Final = "Cluster"

BootstrapServer = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT[,...]",
        help="Brokers of the cluster, or a fleetgauge serve.",
        rich_help_panel=_OF_CLUSTER,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Client settings, as Kafka's own tools take them: TLS, SASL PLAIN and SCRAM.",
        rich_help_panel=_OF_CLUSTER,
    ),
]
Timeout = Annotated[
    int,
    typer.Option(min=100, max=600_000, help="Of one request to the cluster [ms].", rich_help_panel=_OF_CLUSTER),
]
Form = Literal["table", "json"]
FormOption = Annotated[Form, typer.Option("--format", help="Output format.")]


def cluster_settings(bootstrap_server: str, command_config: Path | None, timeout_ms: int) -> "ClusterSettings":
    """Returns the settings of these options.

    Raises:
        FleetgaugeError: the file cannot be used.
    """
    import_structlog()
    from fleetgauge.cluster.settings import ClusterSettings
    from fleetgauge.exporters.group_offsets.settings import read_command_config

    client = {} if command_config is None else read_command_config(command_config)
    return ClusterSettings(bootstrap_servers=bootstrap_server, client=client, timeout_ms=timeout_ms)
