"""Options of commands for the Admin API of a cluster or node, and `plan`'s exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fleetgauge.node.processes.lean_imports import import_structlog
from fleetgauge.terminal.options import Command

if TYPE_CHECKING:
    from fleetgauge.cluster.subscriptions.settings import ClusterSettings

EXIT_CHANGE: Final = 2
"""Of `plan`: there is a change."""

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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class PlanCommand(Command):
    """Wrong options exit with 1, since 2 says that there is a change."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """The context, from the words of the command line."""
        try:
            return super().make_context(*arguments, **options)
        except Exception as error:
            if getattr(error, "exit_code", None) == EXIT_CHANGE:
                error.exit_code = 1  # type: ignore[attr-defined]  # a UsageError of Typer's own click
            raise


def cluster_settings(bootstrap_server: str, command_config: Path | None, timeout_ms: int) -> "ClusterSettings":
    """Returns the settings of these options.

    Raises:
        FleetgaugeError: the file cannot be used.
    """
    import_structlog()
    from fleetgauge.cluster.subscriptions.settings import ClusterSettings
    from fleetgauge.exporters.group_offsets.settings import read_command_config

    client = {} if command_config is None else read_command_config(command_config)
    return ClusterSettings(bootstrap_servers=bootstrap_server, client=client, timeout_ms=timeout_ms)
