"""The command `fleet simulate`."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from fleetgauge.cli.fleet.options import ShowProgress, needs_extra, sentences, shows
from fleetgauge.fleet.errors import FleetError, WrongOptionError
from fleetgauge.fleet.spark.interrupt import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from fleetgauge.testkit.simulate.simulate import Fleet


def simulate(
    out: Annotated[
        Path | None, typer.Argument(help="Directory to write to, which is not there yet; with --push for the truth.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Client instances at work at once.")] = 100,
    hours: Annotated[float, typer.Option(min=0.1, max=720, help="Length of the simulated time.")] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed and options write the same bytes.")] = 1,
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="VERDICT[@SUBJECT]:FROM..TO[,...]",
            help="What goes wrong, and when since the beginning; `all` is one of each, `some` those that a small fleet "
            "has applications for, `overlapping` pairs at once. Without a subject the seed chooses one that fits.",
        ),
    ] = "",
    brokers: Annotated[
        int | None,
        typer.Option(min=1, help="Of one cluster; by default 5, or, from 60 clients on, 6 and 4 of two clusters."),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Push to this PLAINTEXT listener, or broker with a plugin, as the clients would, in place of writing "
            "a landing zone.",
        ),
    ] = None,
    speed: Annotated[
        float, typer.Option(min=0.1, max=3600, help="With --push: how many times as fast as in life time passes.")
    ] = 1.0,
    connections: Annotated[
        int, typer.Option(min=10, max=60_000, help="With --push: the most connections, which clients share.")
    ] = 100,
    progress: ShowProgress = None,
) -> None:
    """Write the telemetry of a simulated fleet: brokers, applications, groups, all libraries, and what goes wrong.

    OUT/landing is a landing zone as an exporter writes it, OUT/truth.parquet and OUT/truth.json say which verdicts are
    right, about whom and when. Near misses and healthy complications (deploys, restarts, scaling, daily load) are
    always in it.

    With --push, clients keep to the push interval of the listener's subscription, and what it answered is counted.
    Ctrl-C ends it. Exit code 1 if no push was accepted.

    `fleetgauge fleet simulate ./sim --clients 200 --hours 6 --with slow-node@3:30m..90m,slow-processing@billing:2h..3h`

    `fleetgauge fleet simulate ./sim --clients 1000 --hours 12 --seed 7 --with all`

    `fleetgauge fleet simulate --push 127.0.0.1:9092 --clients 500 --hours 1 --with slow-node:20m..50m`
    """
    notes = Console(stderr=True)
    with needs_extra("tables"):
        from fleetgauge.testkit.simulate.request import parse_with
        from fleetgauge.testkit.simulate.simulate import Fleet
    fleet = Fleet(clients=clients, hours=hours, seed=seed, brokers=brokers, pathologies=parse_with(with_, hours))
    bar = _bar(notes, shows=shows(progress, notes))
    if push is not None:
        _push(out, fleet, push, speed, connections, bar)
    elif out is None:
        raise WrongOptionError("name a directory to write to, or a listener with --push HOST:PORT")
    else:
        _write(out, fleet, bar)


def _bar(notes: Console, *, shows: bool) -> Progress:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.2f}/{task.total:g} h, {task.fields[pushes]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=notes, transient=True, disable=not shows)


def _write(out: Path, fleet: "Fleet", bar: Progress) -> None:
    from fleetgauge.testkit.simulate.simulate import LANDING, simulate

    with bar:
        task = bar.add_task("", total=fleet.hours, pushes="")
        written = simulate(
            out, fleet, lambda done, pushes: bar.update(task, completed=done, pushes=f"{pushes:,} pushes")
        )
    say = sentences(bar.console)
    pushes, points = f"{written.pushes:,} pushes", f"{written.points:,} data points"
    say(f"{pushes} with {points} in {written.files:,} files; {written.truth} rows of truth.")
    say(f"Read them with: fleetgauge fleet run --source {out / LANDING} --tables {out / 'tables'}")


def _push(out: Path | None, fleet: "Fleet", target: str, speed: float, connections: int, bar: Progress) -> None:
    from fleetgauge.testkit.simulate.link import parse_target
    from fleetgauge.testkit.simulate.push import Played, Player
    from fleetgauge.testkit.simulate.simulate import check_empty, make_plan, write_truth

    def began(at: datetime) -> None:
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            write_truth(out, plan.truth, at, speed)

    def progress(played: Played) -> None:
        refused = played.outcomes.total() - played.accepted
        pushes = f"{played.accepted:,} pushes accepted, {refused:,} refused"
        bar.update(task, completed=played.simulated_s / 3600, pushes=pushes)

    where = parse_target(target)
    if out is not None:
        check_empty(out)
    plan = make_plan(fleet)
    player = Player(plan, fleet.seed, where, speed, connections, progress)
    with bar:
        task = bar.add_task("", total=fleet.hours, pushes="")
        played = player.run(began)
    sentences(bar.console)(f"{'' if played.is_over else 'interrupted after '}{played}.")
    if not played.is_over:
        raise typer.Exit(EXIT_INTERRUPTED)
    if played.outcomes and not played.accepted:
        raise FleetError(f"{where} accepted no push")
