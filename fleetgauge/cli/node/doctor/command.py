"""`fleetgauge doctor`: checks whether a configuration can work here, before the first start and after a fault."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.console import Console

from fleetgauge.cli.node.doctor.finding import Finding, Level
from fleetgauge.cli.options import CLUSTER, CommandConfig, ConfigOptions
from fleetgauge.terminal.answer import Answer, PlainRows
from fleetgauge.terminal.options import AnswerOptions
from fleetgauge.terminal.text import printable

_COLOURS = {Level.OK: "green", Level.SKIPPED: "", Level.WARNING: "yellow", Level.ERROR: "red"}


def doctor(
    *,
    options: ConfigOptions,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT[,...]",
            help="Also check the brokers of this cluster.",
            rich_help_panel=CLUSTER,
        ),
    ] = None,
    command_config: CommandConfig = None,
    process: Annotated[
        Literal["serve", "gateway", "export"] | None,
        typer.Option(
            "--process",
            help="Check for this command. By default gateway with gateway.broker, export with push.log.type=kafka, "
            "else serve.",
        ),
    ] = None,
    answer: AnswerOptions,
) -> None:
    """Check whether Fleetgauge can work here: the installation, the machine, the configuration, and the brokers.

    It checks Python, Java, ports, open files, clock, disk, every destination and every cluster of the configuration:
    versions, whether brokers receive telemetry, whether the topic gets pushes, permissions, and the broker and the
    addresses of a gateway. It writes nothing, and may run beside a node. Each warning and error has a remedy. Exits
    with 1 if there is an error.

    Examples:
        fleetgauge doctor --config /etc/fleetgauge/fleetgauge.toml
        fleetgauge doctor --bootstrap-server broker-1:9092
    """
    from fleetgauge.node.processes.lean_imports import import_structlog

    import_structlog()
    from fleetgauge.cli.node.doctor.run import check_all

    levels: set[Level] = set()

    def findings() -> Iterator[Finding]:
        """Each finding as it is made: one that takes long delays none before it."""
        for finding in check_all(options.config, options.override or (), bootstrap_server, command_config, process):
            levels.add(finding.level)
            yield finding

    def text(console: "Console") -> None:
        for finding in findings():
            _show(console, finding)

    answer.print(Answer(text=text, rows=PlainRows(asdict(finding) for finding in findings()), is_live=True))
    raise typer.Exit(1 if Level.ERROR in levels else 0)


def _show(console: "Console", finding: Finding) -> None:
    from rich.text import Text

    level = Text(f"{finding.level:<8}", style=_COLOURS[finding.level])
    console.print(level.append(f" {printable(finding.check)}: {printable(finding.detail)}", style="default"))
    if finding.remedy:
        console.print(f"         {printable(finding.remedy)}")
