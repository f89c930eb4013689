"""`fleetgauge clients`: the current client instances of a running `fleetgauge serve` or `export`."""

from typing import Annotated

import typer

from fleetgauge.cli.options import DataOptions
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.terminal.options import TableOptions


def clients(
    *,
    url: Annotated[
        str | None, typer.Option("--url", help="Address of another node's HTTP listener, e.g. http://10.0.0.5:9465.")
    ] = None,
    client_id: Annotated[str, typer.Option("--client-id", help="Only this client.id; orders-* for a prefix.")] = "",
    state: Annotated[str, typer.Option("--state", help=f"Only these states: {', '.join(ClientState)}.")] = "",
    software: Annotated[
        str, typer.Option("--software", help="Only this software, as name or name/version: apache-kafka-java/4.*.")
    ] = "",
    principal: Annotated[str, typer.Option("--principal", help="Only this principal, e.g. User:alice.")] = "",
    instance_id: Annotated[
        str, typer.Option("--instance-id", help="Only this instance, in any form that clients log (base64, hex, UUID).")
    ] = "",
    sort: Annotated[str, typer.Option("--sort", help="Field of the JSON form to sort by.")] = "last_seen_at",
    ascending: Annotated[bool, typer.Option("--ascending", help="Sort in ascending order.")] = False,
    watch: Annotated[float | None, typer.Option("--watch", "-w", min=0.5, help="Repeat at this interval [s].")] = None,
    data: DataOptions,
    answer: TableOptions,
) -> None:
    """Show the client instances of a running node: identity, address, subscription, last push, last error, state.

    For fleetgauge export, those whose pushes are in the partitions that it reads. The process is found by its data
    directory, as in fleetgauge status, or by --url. Exits with 1 if no process answers.

    Examples:
        fleetgauge clients --log-dirs ./fleetgauge-data --client-id 'orders-*'
        fleetgauge clients --url http://10.0.0.5:9465 --sort pushes --limit 10
        fleetgauge clients --config fleetgauge.toml --format csv
    """
    from fleetgauge.cli.cluster.client_rows import show_clients  # asyncio, structlog, and RE2, which no help needs

    wanted = {
        "instance_id": instance_id,
        "client_id": client_id,
        "software": software,
        "principal": principal,
        "state": state,
    }
    show_clients(data, url, wanted, sort, answer, ascending=ascending, every_s=watch)
