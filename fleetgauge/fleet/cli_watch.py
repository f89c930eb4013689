"""The command `fleet watch`: the standing tables kept up to date, and verdicts delivered as they open and clear."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.durations import parse_duration_us
from fleetgauge.fleet.cli_options import (
    DEFAULT_SOURCE,
    DEFAULT_TABLES,
    Archives,
    KafkaConfig,
    KafkaJars,
    KafkaOptions,
    MaxFiles,
    MaxRecords,
    OptionalMaster,
    PyFiles,
    Source,
    SparkConf,
    SparkLog,
    SummaryForm,
    Tables,
    bounds,
    needs_extra,
    now,
    parse_conf,
    said_in_a_sentence,
    sentences,
)
from fleetgauge.fleet.cli_tables import Window, spark_settings, window_seconds
from fleetgauge.fleet.cli_verdicts import RuleFile, load
from fleetgauge.fleet.errors import FleetError, WrongOptionError
from fleetgauge.fleet.report.form import SummaryFormat
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.fleet.source.topic.source import TopicSource, parse_source

if TYPE_CHECKING:
    from fleetgauge.fleet.watch.watch import WatchRequest

_LONGEST_LATE_US: Final = 86_400_000_000


def watch(
    source: Source = DEFAULT_SOURCE,
    tables: Tables = DEFAULT_TABLES,
    rules: RuleFile = None,
    trigger: Annotated[str, typer.Option(help="Look for what is new every so often.")] = "1m",
    once: Annotated[bool, typer.Option("--once", help="One round, for a scheduler.")] = False,
    window: Window = "5m",
    late: Annotated[
        str,
        typer.Option(help="How long after its end to judge a window, by receipt times: pushes may come late."),
    ] = "1m",
    since: Annotated[
        str,
        typer.Option(
            help="At a destination's first start: deliver verdicts that were seen from then on. An age or a time (UTC)."
        ),
    ] = "1h",
    consequences: Annotated[
        bool, typer.Option("--consequences", help="Deliver verdicts, too, that another verdict explains.")
    ] = False,
    webhook: Annotated[
        str | None,
        typer.Option(help="URL that gets verdicts as JSON by POST.", envvar="FLEETGAUGE_WATCH_WEBHOOK"),
    ] = None,
    webhook_header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header of those requests, such as 'Authorization: Bearer ...'; may be repeated. Also in "
            "FLEETGAUGE_WATCH_WEBHOOK_HEADER, one a line.",
        ),
    ] = None,
    alertmanager: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a Prometheus Alertmanager, http://host:9093; may be repeated, for each of a cluster."
        ),
    ] = None,
    alertmanager_header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header of the requests to Alertmanager; may be repeated. Also in "
            "FLEETGAUGE_WATCH_ALERTMANAGER_HEADER, one a line.",
        ),
    ] = None,
    alertmanager_link: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="What alerts link to (generatorURL): a URL in which {id}, {verdict}, {subject}, {client_id}, "
            "{group_id}, {node_id}, {cluster_id} and the like are filled in.",
        ),
    ] = "",
    topic: Annotated[
        str | None, typer.Option(help="Kafka topic that gets verdicts as JSON: kafka://host:port[,host:port]/topic.")
    ] = None,
    topic_config: Annotated[
        Path | None, typer.Option(help="Properties file with settings of librdkafka for --topic.")
    ] = None,
    kafka_option: KafkaOptions = None,
    kafka_config: KafkaConfig = None,
    kafka_jars: KafkaJars = None,
    max_files: MaxFiles = None,
    max_records: MaxRecords = None,
    form: SummaryForm = SummaryFormat.TABLE,
    master: OptionalMaster = None,
    conf: SparkConf = None,
    py_files: PyFiles = None,
    archives: Archives = None,
    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="A line on stderr for each round that did something.")
    ] = True,
    spark_log_level: SparkLog = "OFF",
) -> None:
    """Keep the standing tables up to date, and deliver verdicts as they open, change their severity, and clear.

    Every round does what `fleet run` does, so that `fleet verdicts` and `fleet show` read the same tables, and one
    process is enough. Verdicts go to stdout, and to a webhook, Alertmanager and a Kafka topic if asked: each change at
    least once, under an `id` that tells a repeat. A destination that is away gets everything later, and holds up no
    other. SIGTERM or SIGINT end it after the round. Exit code 0 then, 1 on an error, 2 on a wrong option or rule.

    `fleetgauge fleet watch --tables ./fleet --alertmanager http://alertmanager:9093`

    `fleetgauge fleet watch --source kafka://broker-1:9092/fleetgauge-pushes --rules rules.toml --window 1m`
    """
    options, notes = locals(), Console(stderr=True)
    with said_in_a_sentence(notes):
        with _wrong_options():
            request, spark_conf = _request(options), parse_conf(options["conf"] or ())
        _watch(request, options, spark_conf, notes)


@contextmanager
def _wrong_options() -> Iterator[None]:
    """Whatever is wrong is wrong with an option."""
    try:
        yield
    except FleetError as error:
        raise WrongOptionError(str(error)) from error


def _request(options: dict[str, Any]) -> "WatchRequest":
    source = parse_source(options["source"], options["kafka_option"] or (), options["kafka_config"])
    late_us = _duration_us("--late", options["late"], up_to_us=_LONGEST_LATE_US)
    trigger_us = _duration_us("--trigger", options["trigger"])
    with needs_extra("tables"):
        from fleetgauge.fleet.pipeline.run import RunRequest
        from fleetgauge.fleet.watch.watch import WatchRequest
    if isinstance(source, TopicSource):
        with needs_extra("spark"):
            import pyspark  # noqa: F401  # a watch without it would find out in each round
    run = RunRequest(
        source=source,
        tables=options["tables"],
        bounds=bounds(options),
        window_s=window_seconds(options["window"]),
        rules=load(options["rules"]),
        judge_after_s=late_us // 1_000_000,
    )
    return WatchRequest(
        run=run,
        since=parse_time(options["since"], now()),
        destinations=_destinations(options),
        trigger_s=trigger_us / 1_000_000,
        once=options["once"],
        consequences=options["consequences"],
    )


def _destinations(options: dict[str, Any]) -> list[Any]:
    from fleetgauge.fleet.watch.destinations import ToAlertmanager, ToStdout, ToWebhook, check_link
    from fleetgauge.fleet.watch.http import Endpoint, parse_headers

    headers, alert_headers = (
        # Typer would divide a variable at every space.
        parse_headers(f"--{name}-header", options[f"{name}_header"] or os.environ.get(variable, "").splitlines())
        for name, variable in (
            ("webhook", "FLEETGAUGE_WATCH_WEBHOOK_HEADER"),
            ("alertmanager", "FLEETGAUGE_WATCH_ALERTMANAGER_HEADER"),
        )
    )
    if options["alertmanager_link"]:
        check_link("--alertmanager-link", options["alertmanager_link"])
    found: list[Any] = [ToStdout(out=sys.stdout, is_json=options["form"] is SummaryFormat.JSON)]
    if options["webhook"]:
        found.append(ToWebhook(endpoint=Endpoint(option="--webhook", url=options["webhook"], headers=headers)))
    for url in options["alertmanager"] or ():
        whole = f"{url.rstrip('/')}/api/v2/alerts"
        endpoint = Endpoint(option="--alertmanager", url=whole, headers=alert_headers)
        found.append(ToAlertmanager(endpoint=endpoint, link=options["alertmanager_link"]))
    if (topic := _topic(options)) is not None:
        found.append(topic)
    return found


def _topic(options: dict[str, Any]) -> Any:
    if options["topic"] is None:
        if options["topic_config"] is not None:
            raise FleetError("--topic-config is for a --topic kafka://host:port/topic, and there is none")
        return None
    found = parse_source(options["topic"], (), options["topic_config"])
    if not isinstance(found, TopicSource):
        raise FleetError(f"{options['topic']} is no topic: give --topic kafka://host:port[,host:port]/topic")
    with needs_extra("kafka"):
        from fleetgauge.fleet.watch.topic import ToTopic
    return ToTopic(found)


def _watch(request: "WatchRequest", options: dict[str, Any], conf: dict[str, str], notes: Console) -> None:
    from fleetgauge.fleet.watch.watch import watch

    watch(
        request,
        cache(lambda: spark_settings(options, notes, with_topic=isinstance(request.run.source, TopicSource))),
        on_spark=any(options[name] is not None for name in ("master", "py_files", "archives")),
        conf=conf,
        clock=SystemTime(),
        notes=notes,
        note=sentences(notes),
        progress=options["progress"],
    )


def _duration_us(option: str, text: str, up_to_us: int | None = None) -> int:
    """A duration; without a bound it may not be zero."""
    found = parse_duration_us(text)
    if found is None or (found > up_to_us if up_to_us is not None else not found):
        allowed = "up to 1d" if up_to_us is not None else "above zero and up to 30d"
        raise FleetError(f"{option} is {text!r}: give a duration {allowed}, such as 10s, 5m or 1h")
    return found
