"""`fleet whatif`: the clients that other quotas would have throttled."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_TABLES,
    SELECTION,
    SOURCE,
    FleetCommand,
    SparkJob,
    Tables,
    Until,
    needs_extra,
    now,
    parse_conf,
    sentences,
    shows,
)
from fleetgauge.fleet.errors import FleetError, NotInstalledError
from fleetgauge.fleet.source.selection import Selection, parse_time
from fleetgauge.terminal.answer import Format
from fleetgauge.terminal.options import TableOptions

if TYPE_CHECKING:
    from rich.progress import Progress

    from fleetgauge.fleet.whatif.whatif import Answer

_DEFAULT_SINCE: Final = timedelta(days=7)
_NOBODY: Final = "nobody"


class WhatifCommand(FleetCommand):
    """Takes `--suggest` without a value, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Adds the value that is left out."""
        words = []
        for place, word in enumerate(args):
            follows = args[place + 1 : place + 2]
            words += [word, _NOBODY] if word == "--suggest" and not _is_suggestion(follows) else [word]
        return super().parse_args(ctx, words)


def _is_suggestion(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The quotas that are tried, and the rates that they are tried on."""

    quota: Annotated[
        list[str] | None,
        typer.Option(
            "--quota",
            "-q",
            metavar="ENTITY,KEY=BYTES",
            help="A limit as kafka-configs sets it: user=alice,producer_byte_rate=1048576. Entities are user and "
            "client-id, each by name or <default>, or both; keys producer_byte_rate and consumer_byte_rate. May be "
            "repeated; a comma in a name is %2C.",
        ),
    ] = None
    suggest: Annotated[
        str | None,
        typer.Option(
            metavar="[nobody|top-N%]",
            help="Print the least limit that would have throttled nobody, or only the top N percent, for each "
            "--quota, whose value may be left out.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            help="From this time on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC). By default 7d.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    until: Until = None
    spread: Annotated[
        str,
        typer.Option(
            metavar="even|one",
            help="If a client sends only the sum over brokers: spread it evenly over its brokers, or take all of it as "
            "one broker's, the worst case.",
        ),
    ] = "even"
    rates: Annotated[
        Path | None,
        typer.Option(
            help="Brokers' own byte rates, in place of telemetry: CSV of time,user,client-id,byte-rate,broker.",
            rich_help_panel=SOURCE,
        ),
    ] = None
    prometheus: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Brokers' own byte rates from Prometheus, by --query.", rich_help_panel=SOURCE
        ),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(
            metavar="PROMQL",
            help="With --prometheus: bytes per second by user, client_id and broker.",
            rich_help_panel=SOURCE,
        ),
    ] = None
    step: Annotated[str, typer.Option(help="With --prometheus: time between two samples.", rich_help_panel=SOURCE)] = (
        "30s"
    )

    def times(self, default: timedelta | None) -> tuple[datetime | None, datetime | None]:
        """Beginning and end; `default` is the age of the beginning."""
        at = now()
        since, until = (parse_time(text, at) if text else None for text in (self.since, self.until))
        since = at - default if since is None and default is not None else since
        if since is not None and until is not None and until <= since:
            raise FleetError("--until has to be later than --since")
        return since, until


def whatif(*, tables: Tables = DEFAULT_TABLES, replay: Replay, answer: TableOptions, spark: SparkJob) -> None:
    """Replay the recorded byte rates of clients under other quotas: which would have been throttled, and for how long.

    Kafka's own quota managers judge the rates, broker by broker. Rates are means over windows of the tables: bursts
    vanish, and every figure is a lower bound.

    Examples:
        fleetgauge fleet whatif --tables ./fleet --quota 'user=alice,producer_byte_rate=1048576' --since 7d
        fleetgauge fleet whatif --tables ./fleet --quota 'client-id=<default>,producer_byte_rate' --suggest top-1%
        fleetgauge fleet whatif --rates rates.csv --quota 'user=<default>,consumer_byte_rate=5000000' --format json
    """
    from rich.console import Console

    with needs_extra("tables"):
        from fleetgauge.fleet.report.output import table_answer
        from fleetgauge.fleet.whatif.quotas import parse_quotas
        from fleetgauge.fleet.whatif.show import FORM, remarks
    percent = top_percent(replay.suggest)
    asked = parse_quotas(replay.quota or (), suggests=percent is not None)
    to = answer.to()
    FORM.only(to.columns)
    if replay.spread not in ("even", "one"):
        raise FleetError(f"--spread {replay.spread!r} is neither even nor one")
    result, cell_s = _of_brokers(replay, asked, percent) or _of_tables(tables, replay, spark, asked, percent)
    answer.print(table_answer(result.rows, FORM, to))
    say = sentences(Console(stderr=to.form is not Format.TEXT))
    for remark in remarks(result, cell_s):
        say(remark)


def top_percent(suggest: str | None) -> float | None:
    """Percentage of the clients of a limit that a suggested limit throttles; None if no suggestion is wanted.

    >>> top_percent("nobody"), top_percent("top-1%"), top_percent("top-0.5%"), top_percent(None)
    (0.0, 1.0, 0.5, None)
    """
    if suggest is None:
        return None
    matched = re.fullmatch(r"top-(\d{1,2}(?:\.\d{1,6})?)%", suggest.strip())
    if suggest.strip() != _NOBODY and not matched:
        raise FleetError(f"--suggest {suggest!r} is neither {_NOBODY} nor top-N%: give --suggest or --suggest top-1%")
    return float(matched[1]) if matched else 0.0


def _of_brokers(replay: Replay, asked: Any, percent: float | None) -> "tuple[Answer, int] | None":
    """Answer from the brokers' own metrics; None where none are given."""
    from fleetgauge.base.durations import parse_duration_us
    from fleetgauge.fleet.source.landing import selected
    from fleetgauge.fleet.whatif import engines
    from fleetgauge.fleet.whatif.samples import read_csv, read_prometheus, sampled_fleet
    from fleetgauge.fleet.whatif.whatif import answer

    if (replay.prometheus is None) != (replay.query is None):
        raise FleetError("--prometheus and --query belong together: give both")
    if replay.prometheus is not None and replay.rates is not None:
        raise FleetError("--rates and --prometheus are two sources of the same rates: give one of them")
    if replay.prometheus is not None and replay.query is not None:
        since, until = replay.times(_DEFAULT_SINCE)
        step_us = parse_duration_us(replay.step)
        if not step_us or step_us < 1_000_000:  # a second
            raise FleetError(f"--step {replay.step!r} is not a time of a second or more: give 15s, 30s or 1m")
        times = since or _EPOCH, until or now()
        samples = read_prometheus(replay.prometheus, replay.query, *times, step_us // 1_000_000)
    elif replay.rates is not None:
        since, until = replay.times(None)
        samples = selected(read_csv(replay.rates), Selection(since=since, until=until), "time")
    else:
        return None
    fleet, rates, cell_s, brokers = sampled_fleet(samples, asked)
    result = answer(fleet, asked, lambda task: engines.of_table(rates, task), cell_s, percent, brokers)
    return result, cell_s


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _of_tables(tables: str, replay: Replay, spark: SparkJob, asked: Any, percent: float | None) -> "tuple[Answer, int]":
    """Answer from the tables of telemetry."""
    from fleetgauge.fleet.engines.choice import EngineName, Kind, Work, choose
    from fleetgauge.fleet.pipeline.run import explained
    from fleetgauge.fleet.tables.paths import qualified, storage_options
    from fleetgauge.fleet.tables.store import Store
    from fleetgauge.fleet.whatif import engines
    from fleetgauge.fleet.whatif.whatif import answer, clients_of, fleet_of, held_in, parts_of, reader, stretch

    with explained(f"fleet whatif of {tables}"):
        store = Store(qualified(tables), storage_options(parse_conf(spark.conf)))
        of = stretch(store, *replay.times(_DEFAULT_SINCE))
        fleet = fleet_of(clients_of(store, of), asked)
        held = held_in(store, fleet, of)
        read = reader(store, fleet, of, to_one=replay.spread == "one")
        if choose(Work(kind=Kind.REPLAY, amount=of.rows), spark.asked) is EngineName.SPARK:
            session = _session(spark)
            from fleetgauge.fleet.spark.session import parallelism

            parts = parts_of(of, least=4 * parallelism(session))
            result = answer(
                fleet, asked, lambda task: engines.on_spark(session, read, parts, task), of.window_s, percent
            )
            return replace(result, held=held), of.window_s
        parts = parts_of(of)
        with _progress(spark.progress) as bar:

            def run(task: Any) -> dict[int, Any]:
                shown = bar.add_task(task.stage, total=len(parts))
                return engines.in_process(read, parts, task, lambda done: bar.update(shown, completed=done))

            result = answer(fleet, asked, run, of.window_s, percent)
        return replace(result, held=held), of.window_s


def _session(spark: SparkJob) -> Any:
    try:
        from fleetgauge.fleet.spark.session import start_session
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is not installed, and Spark, or more than a hundred million rows, need PySpark: "
            "pip install 'fleetgauge[spark]', or shorten the time with --since"
        ) from error
    return start_session(spark.settings())


def _progress(progress: bool | None) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    notes = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left"))
    return Progress(*columns, TimeRemainingColumn(), console=notes, transient=True, disable=not shows(progress, notes))
