"""The command `fleet simulate`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fleet.cli_options import ShowProgress, needs_extra, said_in_a_sentence, sentences


def simulate(
    out: Annotated[Path, typer.Argument(help="Directory to write to, which is not there yet.")],
    clients: Annotated[int, typer.Option(min=1, help="Client instances at work at once.")] = 100,
    hours: Annotated[float, typer.Option(min=0.1, max=720, help="Length of the simulated time.")] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options write the same bytes.")] = 1,
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="VERDICT[@SUBJECT]:FROM..TO[,...]",
            help="What goes wrong, and when since the beginning; `all` is one of each. Without a subject the seed "
            "chooses one that fits.",
        ),
    ] = "",
    progress: ShowProgress = None,
) -> None:
    """Write the telemetry of a simulated fleet: brokers, applications, groups, all libraries, and what goes wrong.

    OUT/landing is a landing zone as an exporter writes it, OUT/truth.parquet and OUT/truth.json say which verdicts are
    right, about whom and when. Near misses and healthy complications (deploys, restarts, scaling, daily load) are
    always in it.

    `fleetgauge fleet simulate ./sim --clients 200 --hours 6 --with slow-node@3:30m..90m,slow-processing@billing:2h..3h`

    `fleetgauge fleet simulate ./sim --clients 1000 --hours 12 --seed 7 --with all`
    """
    notes = Console(stderr=True)
    with said_in_a_sentence(notes):
        _simulate(out, clients, hours, seed, with_, notes, shows=notes.is_terminal if progress is None else progress)


def _simulate(out: Path, clients: int, hours: float, seed: int, asked: str, notes: Console, *, shows: bool) -> None:
    with needs_extra("tables"):
        from fleet.simulate.request import parse_with
        from fleet.simulate.simulate import LANDING, Fleet, simulate
    fleet = Fleet(clients=clients, hours=hours, seed=seed, pathologies=parse_with(asked, hours))
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.1f}/{task.total:g} h, {task.fields[pushes]:,} pushes"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes, transient=True, disable=not shows) as bar:
        task = bar.add_task("", total=hours, pushes=0)
        written = simulate(out, fleet, lambda done, pushes: bar.update(task, completed=done, pushes=pushes))
    say = sentences(notes)
    pushes, points = f"{written.pushes:,} pushes", f"{written.points:,} data points"
    say(f"{pushes} with {points} in {written.files:,} files; {written.truth} rows of truth.")
    say(f"Read them with: fleetgauge fleet run --source {out / LANDING} --tables {out / 'tables'}")
