"""Dead letters as answers, and what is done with them."""

import base64
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import typer
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from rich.console import Console

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import FleetgaugeError, InvalidRecordError, TelemetryTooLargeError
from fleetgauge.cli.options import DataOptions
from fleetgauge.cli.units import ago, amount, at, size
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings, UnreadableLetter
from fleetgauge.exporters.dead_letters.store import UNREADABLE, DeadLetters, existing
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.telemetry.validate import read_metrics
from fleetgauge.terminal.answer import Answer, PlainRows, record_answer
from fleetgauge.terminal.options import TableOptions
from fleetgauge.terminal.table import print_rows
from fleetgauge.terminal.text import printable

_PAGE = 100
_HEADINGS = ("id", "exporter", "reason", "refused", "received", "client", "size", "what the destination said")
_KEPT = ("id", "exporter", "reason", "detail", "refused_at", "times", "replay_asked")
_COLUMNS = (*_KEPT, "problem", *(name for name in PushRecord._fields if name != "metrics"), "metrics_bytes")
_LEAST = ("size", "received", "what the destination said", "refused")
_WHY = {
    "waiting": "Waiting letters are delivered once the exporter runs and its destination accepts them.",
    "unreadable": "Unreadable letters are damaged; delete them by fleetgauge log dead drop --reason unreadable.",
    "gone": "Letters counted as gone were dropped, or deleted for dead.letter.retention.bytes or .ms, undelivered.",
}
_POLL_EVERY_S = 0.2


def print_list(data: DataOptions, exporter: str, reason: str, answer: TableOptions) -> None:
    """Prints the letters of an exporter and reason, the newest first; empty texts choose all.

    Raises:
        OutputError: a chosen column is none.
    """
    shown = answer.to().headings(_HEADINGS)
    with closing(_open(data)) as letters:
        listed = _slices(letters, exporter, reason, answer.limit)

        def text(console: Console) -> None:
            rows = [_cells(letter) for letter in listed]
            if rows:
                print_rows(console, shown or _HEADINGS, rows, right={"id"}, least=() if shown else _LEAST)
            else:
                console.print("There are no such dead letters." if exporter or reason else "There are no dead letters.")

        answer.print(Answer(text=text, rows=PlainRows(map(_as_object, listed), _COLUMNS)))


def letter_answer(data: DataOptions, number: int) -> Answer:
    """One letter with its metrics.

    Raises:
        FleetgaugeError: there is no such letter, or it is damaged.
    """
    with closing(_open(data)) as letters:
        matching = letters.letters(ids=[number], limit=1)
    if not matching:
        raise FleetgaugeError(f"there is no dead letter {number}; fleetgauge log dead lists them")
    letter = matching[0]
    if isinstance(letter, UnreadableLetter):
        raise FleetgaugeError(f"dead letter {number} is damaged: {letter.problem}; fleetgauge log dead drop deletes it")
    metrics = letter.record.metrics

    def text(console: Console) -> None:
        for name, value in _as_object(letter).items():
            console.print(f"{name:<26}{printable(str(value))}", soft_wrap=True)
        console.print(_readable(metrics), soft_wrap=True)

    return record_answer({**_as_object(letter), "metrics_base64": base64.b64encode(metrics).decode()}, text)


def replay_letters(data: DataOptions, exporter: str, ids: list[int] | None, wait: float) -> None:
    """Has letters delivered again, waits for the results [s], and prints them.

    Raises:
        FleetgaugeError: there are no such letters.
        typer.Exit: not all were delivered.
    """
    with closing(_open(data)) as letters:
        replayed = _replayed(letters, exporter)
        asked = frozenset(letters.ask_replay(exporter, ids or ()))
        if not asked:
            raise FleetgaugeError(_none_of(letters, exporter, ids))
        named = ids or ("all",)
        data.audit("dead_letters.replayed", exporter=exporter, ids=named, letters=len(asked))
        deadline = time.monotonic() + wait
        while asked & letters.ids(exporter, replaying=True) and time.monotonic() < deadline:
            time.sleep(_POLL_EVERY_S)
        outcome = _outcome(letters, exporter, asked, replayed)
    shown = {name: count for name, count in outcome.items() if count or name not in ("gone", "unreadable")}
    typer.echo(", ".join(f"{name} {amount(count)}" for name, count in shown.items()))
    for name, sentence in _WHY.items():
        if outcome[name]:
            typer.echo(sentence, err=True)
    if outcome["delivered"] < len(asked):
        raise typer.Exit(1)


def drop_letters(data: DataOptions, exporter: str, reason: str, ids: list[int] | None) -> None:
    """Deletes letters.

    Raises:
        FleetgaugeError: there are no such letters.
    """
    with closing(_open(data)) as letters:
        gone = letters.drop(exporter, reason, ids or ())
        if not gone:
            raise FleetgaugeError(_none_of(letters, exporter, ids))
    named = ids or (f"reason={reason}" if reason else "all",)
    data.audit("dead_letters.dropped", exporter=exporter, ids=named, letters=gone)
    typer.echo(f"dropped {amount(gone)}")


def _open(data: DataOptions) -> DeadLetters:
    return existing(DeadLetterSettings(path=data.directory().dead_letters), SystemTime())


def _slices(letters: DeadLetters, exporter: str, reason: str, limit: int) -> Iterator[DeadLetter | UnreadableLetter]:
    """Reads up to `limit` letters, page by page, so that a slow reader blocks no exporter."""
    before: int | None = None
    while limit > 0:
        page = letters.letters(exporter=exporter, reason=reason, before=before, limit=min(_PAGE, limit))
        yield from page
        if len(page) < _PAGE:
            return
        before, limit = page[-1].id, limit - len(page)


def _replayed(letters: DeadLetters, exporter: str) -> int:
    """Number of letters of an exporter that were replayed and delivered so far."""
    stats = letters.stats().get(exporter)
    return 0 if stats is None else stats.replayed


def _outcome(letters: DeadLetters, exporter: str, asked: frozenset[int], replayed_before: int) -> dict[str, int]:
    """The number of replayed letters by outcome.

    A letter that is missing was delivered if the exporter has counted it; otherwise it was dropped, or deleted for a
    retention bound.
    """
    replaying = letters.ids(exporter, replaying=True)
    unreadable = letters.ids(exporter, reason=UNREADABLE)
    there = asked & letters.ids(exporter)
    missing = len(asked) - len(there)
    counted = _replayed(letters, exporter) - replayed_before  # read last: no delivery is missed
    delivered = max(
        0, min(missing, counted)
    )  # another process may replay too, and the counts of a damaged store restart
    waiting = there & replaying
    damaged = (there & unreadable) - waiting
    return {
        "delivered": delivered,
        "refused again": len(there) - len(waiting) - len(damaged),
        "waiting": len(waiting),
        "unreadable": len(damaged),
        "gone": missing - delivered,
    }


def _none_of(letters: DeadLetters, exporter: str, ids: list[int] | None) -> str:
    others = ", ".join(f"{name} has {amount(each.letters)}" for name, each in letters.stats().items() if each.letters)
    wanted = "such dead letters" if ids else "dead letters"
    return f"there are no {wanted} of exporter {exporter}; {others or 'there are none at all'}"


def _as_object(letter: DeadLetter | UnreadableLetter) -> dict[str, Any]:
    known = {name: getattr(letter, name) for name in _KEPT}
    if isinstance(letter, UnreadableLetter):
        return {**known, "problem": letter.problem}
    push = letter.record._asdict()
    del push["metrics"]
    return {**known, **push, "metrics_bytes": len(letter.record.metrics)}


def _cells(letter: DeadLetter | UnreadableLetter) -> dict[str, str]:
    """The row of a letter in the list."""
    times = f", {letter.times} times" if letter.times > 1 else ""
    refused = f"{ago(letter.refused_at)}{times}{', replay asked for' if letter.replay_asked else ''}"
    values = (str(letter.id), letter.exporter, letter.reason, refused, *_of_the_push(letter))
    return dict(zip(_HEADINGS, values, strict=True))


def _of_the_push(letter: DeadLetter | UnreadableLetter) -> tuple[str, str, str, str]:
    """The last columns of the list."""
    if isinstance(letter, UnreadableLetter):
        return "-", "-", "-", f"unreadable: {letter.problem} ({letter.detail})"
    push = letter.record
    return at(push.received_at), push.client_id or push.client_instance_id, size(len(push.metrics)), letter.detail


def _readable(metrics: bytes) -> str:
    """The metrics as JSON, as an exporter gets them; the first bytes if they cannot be read."""
    try:
        return MessageToJson(MetricsData.FromString(read_metrics(metrics).metrics))
    except (InvalidRecordError, TelemetryTooLargeError):
        return f"metrics that cannot be read, beginning with {metrics[:64].hex(' ')}"
