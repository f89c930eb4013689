"""`fleetgauge console`: the console without a node or export beside it, until SIGTERM or SIGINT."""

from typing import Annotated

import typer

from fleetgauge.cli.options import CLUSTER, ConfigOptions


def console(
    *,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="Brokers of the cluster with the topic; sets push.log.type=kafka.",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    options: ConfigOptions,
) -> None:
    """Serve the console alone: a page that shows the clients of a push log or topic, their measures and verdicts.

    It reads the push log in log.dirs, or with push.log.type=kafka all partitions of the topic, and changes nothing
    there: it joins no consumer group. fleetgauge serve and export serve the same page themselves, at http.listeners.

    It listens at http.listeners; without that key at http://127.0.0.1:9465, or at a free port if that one is taken.

    Examples:
        fleetgauge console --override log.dirs=./fleetgauge-data
        fleetgauge console --bootstrap-server broker-1:9092
    """
    from fleetgauge.console.alone import serve_alone  # the HTTP server and the configuration, which no help needs

    serve_alone(options, bootstrap_server)
