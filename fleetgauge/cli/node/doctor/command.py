"""`fleetgauge doctor`: checks whether a configuration can work here, before the first start and after a fault."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from fleetgauge.cli.node.doctor.finding import Finding, Level
from fleetgauge.cli.options import ConfigOptions, TableOrJsonLines
from fleetgauge.cli.output import write_json_lines
from fleetgauge.node.processes.lean_imports import import_structlog
from fleetgauge.terminal.text import printable

_COLOURS = {Level.OK: "green", Level.SKIPPED: None, Level.WARNING: "yellow", Level.ERROR: "red"}


def doctor(
    options: ConfigOptions,
    bootstrap_server: Annotated[
        str | None,
        typer.Option("--bootstrap-server", metavar="HOST:PORT[,...]", help="Also check the brokers of this cluster."),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config", metavar="FILE", help="Client settings for it, as Kafka's own tools take them."
        ),
    ] = None,
    process: Annotated[
        Literal["serve", "gateway", "export"] | None,
        typer.Option(
            "--process",
            help="Check for this command. By default gateway with gateway.broker, export with push.log.type=kafka, "
            "else serve.",
        ),
    ] = None,
    form: TableOrJsonLines = "table",
) -> None:
    """Check whether Fleetgauge can work here: the installation, the machine, the configuration, and the brokers.

    It checks Python, Java, ports, open files, clock, disk, every destination and every cluster of the configuration:
    versions, whether brokers receive telemetry, whether the topic gets pushes, permissions, and the broker and the
    addresses of a gateway. It writes nothing, and may run beside a node. Each warning and error has a remedy. Exits
    with 1 if there is an error.

    `fleetgauge doctor --config /etc/fleetgauge/fleetgauge.toml`

    `fleetgauge doctor --bootstrap-server broker-1:9092`
    """
    import_structlog()
    from fleetgauge.cli.node.doctor.run import check_all

    levels = set()
    for finding in check_all(options.config, options.override or (), bootstrap_server, command_config, process):
        levels.add(finding.level)
        if form == "json":
            write_json_lines([asdict(finding)])
        else:
            _show(finding)
    raise typer.Exit(1 if Level.ERROR in levels else 0)


def _show(finding: Finding) -> None:
    level = typer.style(f"{finding.level:<8}", fg=_COLOURS[finding.level])
    typer.echo(f"{level} {printable(finding.check)}: {printable(finding.detail)}")
    if finding.remedy:
        typer.echo(f"         {printable(finding.remedy)}")
