"""`fleetgauge demo`: real clients through the whole pipeline, on this machine, in a minute or two."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    keep: Annotated[Path | None, typer.Option("--keep", help="Work in this new directory, and keep its files.")] = None,
) -> None:
    """Show the whole pipeline with real clients: node, OTLP server, landing zone, tables, and the ranked list.

    It needs the extras kafka and tables; with the extra spark and Java, PySpark makes the tables and answers a question
    beside this process. It uses only this machine and free ports, and removes its files at the end
    (unless --keep). One of its consumers hardly polls. Exits with 1, naming what is missing, unless the pushes of every
    client arrived and that consumer heads the list of verdicts.

    Examples:
        fleetgauge demo
        fleetgauge demo --keep ./fleetgauge-demo
    """
    from rich.console import Console

    from fleetgauge.base.clock import SystemTime
    from fleetgauge.demo.run import demo_directory, run_demo

    with demo_directory(keep) as directory:
        run_demo(directory, Console(), SystemTime())
