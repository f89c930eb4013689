"""`fleetgauge status`: the state of a running node or export."""

from typing import TYPE_CHECKING, Annotated

import typer

from fleetgauge.cli.options import DataOptions
from fleetgauge.terminal.answer import record_answer
from fleetgauge.terminal.files import OutputError
from fleetgauge.terminal.options import ColumnOptions

if TYPE_CHECKING:
    from rich.console import Console


def status(
    *,
    exporters: Annotated[
        bool,
        typer.Option("--exporters", help="Show the exporters alone, with latencies of deliveries and ages of pushes."),
    ] = False,
    data: DataOptions,
    answer: ColumnOptions,
) -> None:
    """Show a running serve or export: clients and pushes, refusals with reasons, the push log, every exporter.

    The process is found by its data directory: --log-dirs, or log.dirs of the configuration. Exits with 1 if none runs.
    With --exporters: the state of each exporter of a node and of every fleetgauge export beside it, its lag behind the
    log's end, what it delivered, retried, refused and lost, latencies, and the age of pushes at delivery. The exporter
    process reports these values once a second; it is marked if it does not run or has not reported for long.

    Examples:
        fleetgauge status --config /etc/fleetgauge/fleetgauge.toml
        fleetgauge status --exporters --log-dirs ./fleetgauge-data
    """
    from fleetgauge.cli.node.exporters import exporters_answer  # Rich's tables, which no help needs
    from fleetgauge.cli.node.running import read_node_and_exports
    from fleetgauge.cli.node.status_text import status_tables

    to = answer.to()
    if exporters:
        answer.print(exporters_answer(lambda: read_node_and_exports(data.directory()), to))
        return
    if to.columns is not None:
        raise OutputError("--columns chooses among those of --exporters: give that too")
    state = read_node_and_exports(data.directory())

    def text(console: "Console") -> None:
        for process in ([state] if "node" in state else []) + state.get("exports", []):
            for table in status_tables(process):
                console.print(table)

    answer.print(record_answer(state, text))
