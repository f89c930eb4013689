"""The command `fleet watch`: rules on a stream of pushes, until it is told to stop."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from base.clock import SystemTime
from fleet.cli_options import (
    DEFAULT_SOURCE,
    Archives,
    KafkaConfig,
    KafkaJars,
    KafkaOptions,
    Master,
    MaxFiles,
    MaxRecords,
    PyFiles,
    Source,
    SparkConf,
    SparkLog,
    SummaryForm,
    bounds,
    listed,
    needs_extra,
    now,
    said_in_a_sentence,
    sentences,
    session_settings,
)
from fleet.durations import parse_duration_us
from fleet.errors import FleetError
from fleet.report.form import SummaryFormat
from fleet.selection import parse_time
from fleet.topic.source import TopicSource, parse_source

if TYPE_CHECKING:
    from fleet.session import SessionSettings

DEFAULT_CHECKPOINT: Final = "./fleetgauge-data/fleet-watch"
_LONGEST_LATE_US: Final = 86_400_000_000


def watch(
    source: Source = DEFAULT_SOURCE,
    rules: Annotated[
        Path | None, typer.Option(help="TOML file of rules; by default the ones that come with Fleetgauge.")
    ] = None,
    alerts: Annotated[
        str | None, typer.Option(help="Delta table of alerts, one row each: a directory, or any URI that Hadoop knows.")
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(help="URL that gets alerts as JSON by POST.", envvar="FLEETGAUGE_WATCH_WEBHOOK", show_envvar=True),
    ] = None,
    webhook_header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header of those requests, such as 'Authorization: Bearer ...'; may be repeated.",
            envvar="FLEETGAUGE_WATCH_WEBHOOK_HEADER",
            show_envvar=True,
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(help="Kafka topic that gets alerts as JSON: kafka://host:port[,host:port]/topic.")
    ] = None,
    topic_config: Annotated[
        Path | None, typer.Option(help="Properties file with settings of Kafka's client for --topic.")
    ] = None,
    checkpoint: Annotated[
        str,
        typer.Option(
            help="Where the place in the source and the state of every client are kept: one for each watch; a "
            "directory, or any URI that Hadoop knows."
        ),
    ] = DEFAULT_CHECKPOINT,
    since: Annotated[
        str, typer.Option(help="At the first start: pushes received from then on count. An age or a time (UTC).")
    ] = "1h",
    late: Annotated[
        str,
        typer.Option(
            help="How much later than others a push may come and still count; who says nothing is judged silent so "
            "much later."
        ),
    ] = "5m",
    forget_after: Annotated[
        str, typer.Option(help="Forget a client that says nothing so long after every rule has judged that.")
    ] = "6h",
    trigger: Annotated[str, typer.Option(help="Look for what is new every so often.")] = "10s",
    once: Annotated[
        bool, typer.Option("--once", help="Watch what there is and end, for tests and schedulers.")
    ] = False,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    max_files: MaxFiles = None,
    max_records: MaxRecords = None,
    form: SummaryForm = SummaryFormat.TABLE,
    master: Master = "local[*]",
    conf: SparkConf = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    progress: Annotated[bool, typer.Option("--progress/--no-progress", help="A line a trigger on stderr.")] = True,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Watch the clients by rules, and say when an alert opens and when it clears.

    One alert a client and rule until it clears, with all that is known of the client. Alerts go to stdout, and to a
    Delta table, a webhook and a Kafka topic if asked; the last two may get one twice, and tell that by its `alert_id`
    and `state`. Runs until SIGTERM or SIGINT, and goes on from there at the next start. Exit code 0 after a stop, 1 on
    an error, 2 on a wrong option, 130 if SIGINT comes while Spark starts.

    `fleetgauge fleet watch --rules rules.toml --alerts ./fleet/alerts --webhook https://hooks.example.com/kafka`

    `fleetgauge fleet watch --source kafka://broker-1:9092/fleetgauge-pushes --topic kafka://broker-1:9092/alerts`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        _watch(options, notes)


def _watch(options: dict[str, Any], notes: Console) -> None:
    source = parse_source(options["source"], options["kafka_option"] or (), options["kafka_config"])
    topic = _topic(options)
    since = parse_time(options["since"], now())
    late_us = _duration_us("--late", options["late"], up_to_us=_LONGEST_LATE_US)
    forget_after_us = _duration_us("--forget-after", options["forget_after"])
    trigger_us = _duration_us("--trigger", options["trigger"])
    with needs_extra("spark"):
        from fleet.watch.query import WatchRequest, watch
        from fleet.watch.rules import DEFAULT_RULES, load_rules
        from fleet.watch.webhook import WebhookSettings, parse_headers
    headers = parse_headers(options["webhook_header"] or ())
    request = WatchRequest(
        source=source,
        rules=load_rules(options["rules"] or DEFAULT_RULES),
        checkpoint=options["checkpoint"],
        since=since,
        alerts=options["alerts"],
        webhook=WebhookSettings(url=options["webhook"], headers=headers) if options["webhook"] else None,
        topic=topic,
        as_json=options["form"] is SummaryFormat.JSON,
        late_s=late_us // 1_000_000,
        forget_after_us=forget_after_us,
        trigger_s=trigger_us / 1_000_000,
        once=options["once"],
        bounds=bounds(options),
    )
    with_topic = isinstance(source, TopicSource) or topic is not None
    settings = _session(options, notes, with_topic=with_topic)
    note = sentences(notes)
    step = note if options["progress"] else lambda _: None
    watch(request, settings, clock=SystemTime(), out=sys.stdout, note=note, step=step)


def _session(options: dict[str, Any], notes: Console, *, with_topic: bool) -> "SessionSettings":
    from fleet.topic.connector import connector_jars

    # A batch of a watch is small: each task more is a Python worker and a state store more.
    settings = replace(session_settings(options), app_name="fleetgauge-watch", local_shuffle_partitions=2)
    if not with_topic:
        return settings
    return replace(settings, jars=connector_jars(listed(options["kafka_jars"]), note=sentences(notes)))


def _topic(options: dict[str, Any]) -> TopicSource | None:
    if options["topic"] is None:
        if options["topic_config"] is not None:
            raise FleetError("--topic-config is for a --topic kafka://host:port/topic, and there is none")
        return None
    found = parse_source(options["topic"], (), options["topic_config"])
    if not isinstance(found, TopicSource):
        raise FleetError(f"{options['topic']} is no topic: give --topic kafka://host:port[,host:port]/topic")
    return found


def _duration_us(option: str, text: str, up_to_us: int | None = None) -> int:
    found = parse_duration_us(text)
    if not found or (up_to_us is not None and found > up_to_us) or (option == "--late" and found < 1_000_000):
        limit = "1d" if up_to_us is not None else "30d"
        raise FleetError(f"{option} is {text!r}: give a duration above zero and up to {limit}, such as 10s, 5m or 1h")
    return found
