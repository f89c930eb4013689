"""`fleetgauge log dead`: the pushes that a destination refused for good; lists, shows, replays and drops them."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Annotated, Any, Literal

import typer
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from rich.console import Console
from rich.table import Table

from exporters.dead_letter import DeadLetter, DeadLetterSettings
from exporters.dead_letters import DeadLetters, existing
from fleetgauge.cli.options import ConfigFile, LogDirs, Overrides, data_directory
from fleetgauge.cli.text import printable
from fleetgauge.cli.units import ago, amount, at, size
from quotas.clock import SystemTime
from wire.errors import FleetgaugeError

app = typer.Typer(help="The pushes that a destination refused for good.", invoke_without_command=True)

_PAGE = 100
_LOOK_EVERY_S = 0.2
_OfExporter = Annotated[str, typer.Option("--exporter", "-e", help="Only letters of this exporter.")]
_OfOneExporter = Annotated[str, typer.Option("--exporter", "-e", help="The exporter whose letters are meant.")]
_OfReason = Annotated[str, typer.Option("--reason", "-r", help="Only what was refused for this reason.")]
_Ids = Annotated[list[int] | None, typer.Option("--id", "-i", help="Only the letter of this number; repeatable.")]
_Form = Annotated[Literal["table", "json"], typer.Option("--format", "-f", help="json: one object a line.")]


@app.callback()
def show_list(
    context: typer.Context,
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    exporter: _OfExporter = "",
    reason: _OfReason = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, the newest first.")] = 50,
    form: _Form = "table",
) -> None:
    """List the pushes that a destination refused for good, the newest first; or, with a command, show, replay or drop.

    Each stays until it is replayed and delivered, dropped, or older than dead.letter.retention.ms; beyond
    dead.letter.retention.bytes the one goes that was refused longest ago.
    """
    if context.invoked_subcommand is not None:
        if any(_is_given(context, name) for name in context.params):
            raise FleetgaugeError(
                f"options go behind the command: fleetgauge log dead {context.invoked_subcommand} ..."
            )
        return
    with closing(_open(config, override, log_dirs)) as letters:
        found = _slices(letters, exporter, reason, limit)
        if form == "json":
            for letter in found:
                typer.echo(json.dumps(_as_object(letter)))
            return
        table = _table(found)
        if not table.row_count:
            typer.echo("There are no such dead letters." if exporter or reason else "There are no dead letters.")
            return
        Console(markup=False).print(table)


@app.command()
def show(
    number: Annotated[int, typer.Argument(help="The letter's number, as the list has it.")],
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    form: _Form = "table",
) -> None:
    """Show one letter whole: who sent it, what the destination said, and the metrics."""
    with closing(_open(config, override, log_dirs)) as letters:
        found = letters.letters(ids=[number], limit=1)
    if not found:
        raise FleetgaugeError(f"there is no dead letter {number}; fleetgauge log dead lists them")
    letter = found[0]
    if form == "json":
        metrics = base64.b64encode(letter.record.metrics).decode()
        typer.echo(json.dumps({**_as_object(letter), "metrics_base64": metrics}))
        return
    console = Console(markup=False, soft_wrap=True, highlight=False)
    for name, value in _as_object(letter).items():
        console.print(f"{name:<26}{printable(str(value))}")
    console.print(_readable(letter.record.metrics))


@app.command()
def replay(
    exporter: _OfOneExporter,
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    ids: _Ids = None,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Wait so long for what becomes of them [s].")] = 30.0,
) -> None:
    """Deliver letters again, through the running exporter; each is gone only when its push was delivered.

    Without --id it is all letters of the exporter. What is refused again stays. Where no node runs, they are delivered
    once one does. Exits with 1 unless all were delivered within --wait.
    """
    with closing(_open(config, override, log_dirs)) as letters:
        asked = letters.ask_replay(exporter, ids or ())
        if not asked:
            raise FleetgaugeError(_none_of(letters, exporter, ids))
        deadline = time.monotonic() + wait
        there = _there(letters, exporter, asked)
        while any(there.values()) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
            there = _there(letters, exporter, asked)
    waiting = sum(there.values())
    refused = len(there) - waiting
    typer.echo(
        f"delivered {amount(len(asked) - len(there))}, refused again {amount(refused)}, waiting {amount(waiting)}"
    )
    if waiting:
        typer.echo("What waits is delivered when the exporter runs and its destination takes it.", err=True)
    if there:
        raise typer.Exit(1)


@app.command()
def drop(
    exporter: _OfOneExporter,
    config: ConfigFile = None,
    override: Overrides = None,
    log_dirs: LogDirs = None,
    ids: _Ids = None,
    reason: _OfReason = "",
    everything: Annotated[bool, typer.Option("--all", help="All letters of the exporter.")] = False,
) -> None:
    """Let letters go for good: those of --id or --reason, or --all."""
    if not (ids or reason or everything):
        raise FleetgaugeError("name what to drop: --id, --reason, or --all letters of the exporter")
    with closing(_open(config, override, log_dirs)) as letters:
        gone = letters.drop(exporter, reason, ids or ())
        if not gone:
            raise FleetgaugeError(_none_of(letters, exporter, ids))
    typer.echo(f"dropped {amount(gone)}")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _open(config: Any, override: Any, log_dirs: Any) -> DeadLetters:
    path = data_directory(config, override, log_dirs).dead_letters
    return existing(DeadLetterSettings(path=path), SystemTime())


def _slices(letters: DeadLetters, exporter: str, reason: str, limit: int) -> Iterator[DeadLetter]:
    """As many as are wanted, read a page at a time: whoever reads slowly holds no exporter up."""
    before: int | None = None
    while limit > 0:
        page = letters.letters(exporter=exporter, reason=reason, before=before, limit=min(_PAGE, limit))
        yield from page
        if len(page) < _PAGE:
            return
        before, limit = page[-1].id, limit - len(page)


def _there(letters: DeadLetters, exporter: str, asked: list[int]) -> dict[int, bool]:
    """Which of these letters are still there, and whether their replay has not come to an end."""
    found: dict[int, bool] = {}
    for start in range(0, len(asked), _PAGE):
        for letter in letters.letters(exporter=exporter, ids=asked[start : start + _PAGE], limit=_PAGE):
            found[letter.id] = letter.replay_asked
    return found


def _none_of(letters: DeadLetters, exporter: str, ids: list[int] | None) -> str:
    others = ", ".join(f"{name} has {amount(each.letters)}" for name, each in letters.stats().items() if each.letters)
    wanted = "such dead letters" if ids else "dead letters"
    return f"there are no {wanted} of exporter {exporter}; {others or 'there are none at all'}"


def _as_object(letter: DeadLetter) -> dict[str, Any]:
    push = letter.record._asdict()
    del push["metrics"]
    return {
        "id": letter.id,
        "exporter": letter.exporter,
        "reason": letter.reason,
        "detail": letter.detail,
        "refused_at": letter.refused_at,
        "times": letter.times,
        "replay_asked": letter.replay_asked,
        **push,
        "metrics_bytes": len(letter.record.metrics),
    }


def _table(found: Iterator[DeadLetter]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("id", justify="right")
    for heading in ("exporter", "reason", "refused", "received", "client", "size"):
        table.add_column(heading)
    table.add_column("what the destination said", overflow="fold")
    for letter in found:
        times = f", {letter.times} times" if letter.times > 1 else ""
        table.add_row(
            str(letter.id),
            printable(letter.exporter),
            printable(letter.reason),
            f"{ago(letter.refused_at)}{times}{', replay asked for' if letter.replay_asked else ''}",
            at(letter.record.received_at),
            printable(letter.record.client_id or letter.record.client_instance_id),
            size(len(letter.record.metrics)),
            printable(letter.detail),
        )
    return table


def _readable(metrics: bytes) -> str:
    """The metrics as JSON; as the first bytes where they are none."""
    try:
        return MessageToJson(MetricsData.FromString(metrics))
    except DecodeError:
        return f"metrics that cannot be read, beginning with {metrics[:64].hex(' ')}"
