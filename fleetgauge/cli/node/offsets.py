"""`fleetgauge offsets`: samples committed and end offsets of consumer groups into a landing zone."""

import signal
from typing import Annotated

import typer

from fleetgauge.cli.options import CLUSTER, CommandConfig


def offsets(
    bootstrap_server: Annotated[
        str,
        typer.Option(
            "--bootstrap-server", metavar="HOST:PORT[,...]", help="Brokers of the cluster.", rich_help_panel=CLUSTER
        ),
    ],
    command_config: CommandConfig = None,
    directory: Annotated[
        str, typer.Option("--directory", metavar="LANDING", help="The landing zone: a directory, or a URI (s3://...).")
    ] = "fleetgauge-data/landing",
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Only this group; may be repeated. By default all that are listed."),
    ] = None,
    interval: Annotated[int, typer.Option(min=1, max=300, help="Time between two rounds [s].")] = 60,
    once: Annotated[bool, typer.Option("--once", help="One round, and end.")] = False,
    timeout: Annotated[int, typer.Option(min=100, max=60_000, help="Time for one request [ms].")] = 5_000,
    max_requests: Annotated[int, typer.Option(min=1, max=10_000, help="Requests per second at most.")] = 500,
    linger: Annotated[int, typer.Option(min=1, max=3_600, help="Write a file at this age at the latest [s].")] = 60,
    retention: Annotated[
        str | None, typer.Option(metavar="AGE", help="Delete own files of older hours, at least 1h: 48h, 14d.")
    ] = None,
    cluster_id: Annotated[
        str, typer.Option("--cluster-id", help="Write this id in place of the cluster's own: that of the pushes.")
    ] = "",
) -> None:
    """Sample consumer groups into the landing zone: members, committed and end offsets, by Kafka's Admin API.

    With them fleet run judges lag for every client library, and for groups without telemetry. It needs DESCRIBE on
    Group and Topic, and on Cluster unless groups are named. SIGTERM and SIGINT end it with nothing lost.

    Examples:
        fleetgauge offsets --bootstrap-server broker-1:9092 --directory ./fleetgauge-data/landing
        fleetgauge offsets --bootstrap-server broker-1:9093 --command-config admin.properties --group billing --once
    """
    from fleetgauge.node.processes.lean_imports import import_structlog

    import_structlog()
    from fleetgauge.base.durations import parse_duration_us
    from fleetgauge.exporters.group_offsets.run import OffsetsRun
    from fleetgauge.exporters.group_offsets.settings import (
        OffsetsConfigError,
        OffsetsSettings,
        read_command_config,
        writer_name,
    )
    from fleetgauge.exporters.landing.retention import MIN_RETENTION_MS
    from fleetgauge.node.logs import configure_logging
    from fleetgauge.node.private_files import keep_files_private

    keep_files_private()
    client = {} if command_config is None else read_command_config(command_config)
    retention_us = None if retention is None else parse_duration_us(retention)
    if retention is not None and (retention_us is None or retention_us // 1000 < MIN_RETENTION_MS):
        raise OffsetsConfigError(f"--retention is {retention!r}: expected an age of at least 1h, such as 48h or 14d")
    configure_logging("info", "auto", frozenset(value for key, value in client.items() if "password" in key))
    run = OffsetsRun(
        OffsetsSettings(
            bootstrap_servers=bootstrap_server,
            path=directory,
            writer=writer_name(bootstrap_server),
            client=client,
            groups=tuple(group or ()),
            cluster_id=cluster_id,
            interval_ms=interval * 1000,
            timeout_ms=timeout,
            max_requests_per_s=max_requests,
            linger_ms=linger * 1000,
            retention_ms=None if retention_us is None else retention_us // 1000,
        )
    )
    if once:
        samples = run.once()
        groups = {each.group_id for each in samples if each.group_id is not None}
        failed = sum(each.error is not None for each in samples)
        status = run.status()
        typer.echo(
            f"{len(samples):,} samples of {len(groups):,} groups in cluster {status['cluster_id']}, {failed:,} of them "
            f"with an error; {status['requests']:,} requests, {status['round_ms'] / 1000:.1f} s"
        )
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: run.stop())
    run.run()
