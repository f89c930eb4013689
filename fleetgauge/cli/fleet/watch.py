"""The command `fleet watch`: the tables kept up to date, and verdicts delivered as they open and clear."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from fleetgauge.cli.fleet.options import (
    DEFAULT_SOURCE,
    DEFAULT_TABLES,
    Batches,
    RuleFile,
    Source,
    SparkJob,
    Tables,
    needs_extra,
    now,
    sentences,
)
from fleetgauge.cli.fleet.tables import Pace, Window, window_seconds
from fleetgauge.cli.fleet.verdicts import load
from fleetgauge.fleet.errors import FleetError, WrongOptionError
from fleetgauge.fleet.source.selection import parse_time
from fleetgauge.fleet.source.topic.source import TopicSource, parse_source
from fleetgauge.terminal.answer import Format
from fleetgauge.terminal.options import StreamFormat

if TYPE_CHECKING:
    from fleetgauge.fleet.watch.watch import WatchRequest


_DESTINATIONS: Final = "Destinations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Destinations of verdicts, besides stdout."""

    panel: ClassVar = _DESTINATIONS

    webhook: Annotated[
        str | None, typer.Option(help="URL that gets verdicts as JSON by POST.", envvar="FLEETGAUGE_WATCH_WEBHOOK")
    ] = None
    webhook_header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header of those requests, such as 'Authorization: Bearer ...'; may be repeated. Also in "
            "FLEETGAUGE_WATCH_WEBHOOK_HEADER, one per line.",
        ),
    ] = None
    alertmanager: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of a Prometheus Alertmanager, http://host:9093; may be repeated, for each of a cluster."
        ),
    ] = None
    alertmanager_header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: VALUE",
            help="Header of the requests to Alertmanager; may be repeated. Also in "
            "FLEETGAUGE_WATCH_ALERTMANAGER_HEADER, one per line.",
        ),
    ] = None
    alertmanager_link: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Link of alerts (generatorURL): a URL in which {id}, {verdict}, {subject}, {client_id}, {group_id}, "
            "{node_id}, {cluster_id} and the like are filled in.",
        ),
    ] = ""
    topic: Annotated[
        str | None, typer.Option(help="Kafka topic that gets verdicts as JSON: kafka://host:port[,host:port]/topic.")
    ] = None
    topic_config: Annotated[
        Path | None, typer.Option(help="Properties file with settings of librdkafka for --topic.")
    ] = None

    def opened(self, form: Format) -> list[Any]:
        """The destinations, stdout first.

        Raises:
            FleetError: an option is wrong.
        """
        from fleetgauge.fleet.watch.destinations import ToAlertmanager, ToStdout, ToWebhook, check_link
        from fleetgauge.fleet.watch.http import Endpoint

        headers = _headers("webhook", self.webhook_header)
        alert_headers = _headers("alertmanager", self.alertmanager_header)
        if self.alertmanager_link:
            check_link("--alertmanager-link", self.alertmanager_link)
        destinations: list[Any] = [ToStdout(out=sys.stdout, is_json=form is Format.JSON)]
        if self.webhook:
            destinations.append(ToWebhook(endpoint=Endpoint(option="--webhook", url=self.webhook, headers=headers)))
        for url in self.alertmanager or ():
            whole = f"{url.rstrip('/')}/api/v2/alerts"
            endpoint = Endpoint(option="--alertmanager", url=whole, headers=alert_headers)
            destinations.append(ToAlertmanager(endpoint=endpoint, link=self.alertmanager_link))
        return destinations + self._topics()

    def _topics(self) -> list[Any]:
        if self.topic is None:
            if self.topic_config is not None:
                raise FleetError("--topic-config is for a --topic kafka://host:port/topic, and there is none")
            return []
        source = parse_source(self.topic, (), self.topic_config)
        if not isinstance(source, TopicSource):
            raise FleetError(f"{self.topic} is not a topic: give --topic kafka://host:port[,host:port]/topic")
        with needs_extra("kafka"):
            from fleetgauge.fleet.watch.topic import ToTopic
        return [ToTopic(source)]


def _headers(name: str, given: list[str] | None) -> Any:
    from fleetgauge.fleet.watch.http import parse_headers

    # Typer would divide a variable at every space.
    lines = given or os.environ.get(f"FLEETGAUGE_WATCH_{name.upper()}_HEADER", "").splitlines()
    return parse_headers(f"--{name}-header", lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds(Pace):
    """The work of every round, and its time."""

    rules: RuleFile = None
    once: Annotated[bool, typer.Option("--once", help="Run one round, for a scheduler.")] = False
    window: Window = None
    since: Annotated[
        str,
        typer.Option(
            "--since",
            help="At a destination's first start: deliver verdicts seen from this time on. An age or a time (UTC).",
        ),
    ] = "1h"
    consequences: Annotated[
        bool, typer.Option("--consequences", help="Deliver verdicts that another verdict explains, too.")
    ] = False

    def request(
        self, source: TopicSource | str, tables: str, batches: Batches, destinations: Destinations, form: Format
    ) -> "WatchRequest":
        """The request.

        Raises:
            FleetError: an option is wrong.
        """
        with needs_extra("tables"):
            from fleetgauge.fleet.pipeline.run import RunRequest
            from fleetgauge.fleet.watch.watch import WatchRequest
        if isinstance(source, TopicSource):
            with needs_extra("spark"):
                import pyspark  # noqa: F401  # a watch without it would find out in each round
        run = RunRequest(
            source=source,
            tables=tables,
            bounds=batches.bounds(),
            window_s=window_seconds(self.window),
            rules=load(self.rules),
            judge_after_s=self.late_s(),
            is_continuous=not self.once,
        )
        return WatchRequest(
            run=run,
            since=parse_time(self.since, now()),
            destinations=destinations.opened(form),
            trigger_s=self.trigger_s(),
            once=self.once,
            consequences=self.consequences,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRounds(SparkJob):
    """A session of Spark for every round."""

    progress: Annotated[
        bool, typer.Option("--progress/--no-progress", help="A line on stderr for each round that did something.")
    ] = True


def watch(
    *,
    source: Source = DEFAULT_SOURCE,
    tables: Tables = DEFAULT_TABLES,
    rounds: Rounds,
    destinations: Destinations,
    batches: Batches,
    form: StreamFormat = Format.TEXT,
    spark: SparkRounds,
) -> None:
    """Keep the tables up to date, and deliver verdicts as they open, change their severity, and clear.

    Every round does what `fleet run` does, so that `fleet verdicts` and `fleet show` read the same tables, and one
    process is enough. Verdicts go to stdout, and to a webhook, Alertmanager and a Kafka topic if asked: each change at
    least once, under an `id` that tells a repeat. An unavailable destination receives its backlog later and does not
    delay the others. SIGTERM or SIGINT end it after the round.

    Examples:
        fleetgauge fleet watch --tables ./fleet --alertmanager http://alertmanager:9093
        fleetgauge fleet watch --source kafka://broker-1:9092/fleetgauge-pushes --rules rules.toml --window 1m
    """
    from rich.console import Console

    notes = Console(stderr=True)
    try:
        read_from = batches.of(source)
        request = rounds.request(read_from, tables, batches, destinations, form)
        context = spark.run_context(read_from, batches, notes, spark.progress)
    except FleetError as error:  # whatever is wrong is wrong with an option
        raise WrongOptionError(str(error)) from error
    from fleetgauge.fleet.watch import watch as watching

    watching.watch(request, context, sentences(notes))
