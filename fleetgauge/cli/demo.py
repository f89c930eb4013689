"""`fleetgauge demo`: real clients through the whole road, on this machine, in a minute."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    keep: Annotated[
        Path | None, typer.Option("--keep", help="Work in this new directory and keep what was made.")
    ] = None,
) -> None:
    """Show the whole way of a push with real clients: node, OTLP server, landing zone, and tables by PySpark.

    Needs the extras kafka and spark, and Java 17 or 21. Nothing outside this machine is touched; everything runs on
    ports of the system's choice and is removed at the end (unless --keep). Exits with 1, naming what is missing,
    unless every client came through.
    """
    from rich.console import Console

    from base.clock import SystemTime
    from fleetgauge.demo.run import demo_directory, run_demo

    with demo_directory(keep) as directory:
        run_demo(directory, Console(), SystemTime())
