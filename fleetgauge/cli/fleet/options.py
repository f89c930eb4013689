"""Groups of options that several `fleet` commands share, and how an error is printed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final
from urllib.parse import urlsplit

import typer

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.fleet.engines.choice import EngineName
from fleetgauge.fleet.errors import FleetError, NotInstalledError, WrongOptionError
from fleetgauge.fleet.source.selection import Selection, parse_instance_ids, parse_time
from fleetgauge.fleet.source.topic.source import TopicSource, parse_source
from fleetgauge.terminal.options import Command
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from rich.console import Console

    from fleetgauge.fleet.pipeline.run import RunContext
    from fleetgauge.fleet.pipeline.source import Bounds
    from fleetgauge.fleet.spark.session import SessionSettings

DEFAULT_SOURCE = "./fleetgauge-data/landing"
DEFAULT_TABLES = "./fleetgauge-data/fleet"

EXIT_WRONG_OPTION: Final = 2

SOURCE: Final = "Source"
TABLES: Final = "Tables"
SELECTION: Final = "Selection"
SPARK: Final = "Spark"
"""Panels of options."""

Source = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        help="Landing zone: a directory, s3://bucket/path, or a URI that Spark can read; or the push log's topic: "
        "kafka://host:port[,host:port]/topic.",
        rich_help_panel=SOURCE,
    ),
]
Tables = Annotated[
    str,
    typer.Option(
        "--tables",
        "-t",
        metavar="ROOT",
        help="Root of the tables of fleet run: a directory, or any URI that Hadoop knows.",
        rich_help_panel=TABLES,
    ),
]
StoreConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="Setting of Spark's s3a for tables on an object store, e.g. spark.hadoop.fs.s3a.endpoint=URL; may be "
        "repeated. Without it delta-rs takes those of the environment.",
        rich_help_panel=TABLES,
    ),
]
RuleFile = Annotated[
    Path | None,
    typer.Option(
        "--rules",
        help="TOML file with figures of verdicts that differ from the defaults (see fleet rules), and your own rules.",
    ),
]
ClientIds = Annotated[
    list[str] | None,
    typer.Option("--client-id", help="Only this client.id; may be repeated.", rich_help_panel=SELECTION),
]
ConsumerGroup = Annotated[
    str | None, typer.Option("--group", help="Only this consumer group.", rich_help_panel=SELECTION)
]
ClusterId = Annotated[
    str | None, typer.Option("--cluster-id", help="Only in the cluster with this id.", rich_help_panel=SELECTION)
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="From this time on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC).",
        rich_help_panel=SELECTION,
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", help="Before this time; forms as for --since.", rich_help_panel=SELECTION)
]
ShowProgress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Progress on stderr; by default when that is a terminal.",
        rich_help_panel=SPARK,
    ),
]
SparkLog = Annotated[
    str, typer.Option("--spark-log-level", help="Spark's own log on stderr: OFF, ERROR, WARN, INFO, DEBUG.")
]
OptionalMaster = Annotated[
    str | None,
    typer.Option(
        "--master",
        "--remote",
        help="Where Spark runs: local[*], local[2], spark://host:port, yarn, ..., or a Spark Connect server, "
        "sc://host:port; with it Spark is used.",
    ),
]
OptionalEngine = Annotated[
    EngineName | None,
    typer.Option(
        "--engine", help="The engine that computes; by default Spark where this process cannot, or would need long."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaClient:
    """Kafka's client, where the source is a topic."""

    panel: ClassVar = SOURCE

    command_property: Annotated[
        list[str] | None,
        typer.Option(
            "--command-property",
            metavar="KEY=VALUE",
            help="Client setting for a topic, e.g. security.protocol=SASL_SSL; may be repeated.",
        ),
    ] = None
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            metavar="FILE",
            help="Properties file with client settings for a topic (passwords!), as Kafka's own tools take it.",
        ),
    ] = None
    kafka_jars: Annotated[
        str | None,
        typer.Option(
            "--kafka-jars",
            help="Jars of Spark's Kafka connector, or directories of them, comma-separated; without it they are "
            "fetched from Maven Central once.",
        ),
    ] = None

    def of(self, source: str) -> TopicSource | str:
        """The topic, read with these settings, or the landing zone that `--source` names."""
        return parse_source(source, self.command_property or (), self.command_config)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches(KafkaClient):
    """Kafka's client, and how much one batch reads of a landing zone or topic."""

    max_files: Annotated[
        int | None,
        typer.Option(
            min=1, help="Files of a landing zone that one batch reads; by default 256 MiB on Spark, 18 MiB a process."
        ),
    ] = None
    max_records: Annotated[
        int | None, typer.Option(min=1, help="Records of a topic that one batch reads; by default two millions.")
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most processes that compute a batch without Spark; by default one for each CPU and GiB, at most 8.",
        ),
    ] = None

    def bounds(self) -> "Bounds":
        """Limits of a batch."""
        from fleetgauge.fleet.pipeline.source import MAX_BATCH_RECORDS, Bounds

        return Bounds(
            max_files=self.max_files,
            max_records=self.max_records or MAX_BATCH_RECORDS,
            max_processes=self.processes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selecting:
    """Which pushes, by time and client."""

    panel: ClassVar = SELECTION

    since: Since = None
    until: Annotated[
        str | None,
        typer.Option(
            "--until", help="Before this time; forms as for --since. Of a topic: pushes that reached it within an hour."
        ),
    ] = None
    client_id: ClientIds = None
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance-id",
            help="Only this client instance, its id in any form that clients log (base64, hex, UUID); may be repeated.",
        ),
    ] = None

    def selection(self) -> Selection:
        """The selection, ages counted from now."""
        at = now()
        return Selection(
            since=time_option(self.since, at),
            until=time_option(self.until, at),
            client_ids=tuple(self.client_id or ()),
            instance_ids=parse_instance_ids(self.instance or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """Engine options, and those of Spark's session."""

    panel: ClassVar = SPARK

    engine: OptionalEngine = None
    master: OptionalMaster = None
    progress: ShowProgress = None
    spark_log_level: SparkLog = "OFF"

    @property
    def asked(self) -> EngineName | None:
        """The engine that options ask for; None if they leave the choice.

        Raises:
            WrongOptionError: they ask for both.
        """
        of_spark = self._options_of_spark()
        if of_spark and self.engine is EngineName.PROCESS:
            raise WrongOptionError(f"{of_spark[0]} is an option of Spark: leave it out, or --engine process")
        return EngineName.SPARK if of_spark else self.engine

    def _options_of_spark(self) -> list[str]:
        """Those given that mean nothing to another engine."""
        return ["--master"] if self.master is not None else []


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJob(Spark):
    """The same, where Spark may be on a cluster."""

    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="KEY=VALUE", help="Setting of Spark, as spark-submit takes it; may be repeated."
        ),
    ] = None
    py_files: Annotated[
        str | None,
        typer.Option(
            "--py-files",
            metavar="ZIP[,ZIP]",
            help="Python code that executors of a cluster import, as spark-submit takes it: .zip, .egg or .py.",
        ),
    ] = None
    archives: Annotated[
        str | None,
        typer.Option(
            "--archives",
            metavar="ARCHIVE#DIRECTORY",
            help="Archives that each executor unpacks into that directory, a packed Python environment for instance, "
            "as spark-submit takes it; comma-separated.",
        ),
    ] = None

    def _options_of_spark(self) -> list[str]:
        """Those given that mean nothing to another engine."""
        given = {"--master": self.master, "--py-files": self.py_files, "--archives": self.archives}
        return [option for option, value in given.items() if value is not None]

    def settings(self) -> "SessionSettings":
        """Settings for `start_session`."""
        from fleetgauge.fleet.spark.session import SessionSettings

        return SessionSettings(
            master=self.master or "local[*]",
            log_level=self.spark_log_level,
            py_files=tuple(_whole(path, "--py-files") for path in listed(self.py_files)),
            archives=tuple(_whole(path, "--archives") for path in listed(self.archives)),
            options=parse_conf(self.conf),
        )

    def run_context(
        self, source: TopicSource | str, kafka: KafkaClient, notes: "Console", progress: bool
    ) -> "RunContext":
        """Context of a run over a source."""
        from fleetgauge.fleet.pipeline.run import RunContext

        return RunContext(
            settings=cache(lambda: self._settings_for(source, kafka, notes)),
            engine=self.asked,
            conf=parse_conf(self.conf),
            clock=SystemTime(),
            notes=notes,
            progress=progress,
        )

    def _settings_for(self, source: TopicSource | str, kafka: KafkaClient, notes: "Console") -> "SessionSettings":
        """Those of `settings`, with the connector's jars where the source is a topic."""
        from fleetgauge.fleet.source.topic.connector import connector_jars

        settings = self.settings()
        if settings.is_remote or not isinstance(source, TopicSource):
            return settings
        return replace(settings, jars=connector_jars(listed(kafka.kafka_jars), note=sentences(notes)))


class FleetCommand(Command):
    """Prints an error as one sentence on stderr: exit code 1, 2 for an option; Ctrl-C is a word, and exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        from rich.console import Console

        from fleetgauge.fleet.spark.interrupt import ends_when_interrupted

        notes = Console(stderr=True)
        try:
            with ends_when_interrupted(notes):
                return super().invoke(ctx)
        except (FleetError, FleetgaugeError) as error:
            notes.print(f"Error: {printable(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(EXIT_WRONG_OPTION if isinstance(error, WrongOptionError) else 1) from error


def shows(progress: bool | None, notes: "Console") -> bool:
    """True if progress is shown: as asked, or by default on a terminal."""
    return notes.is_terminal if progress is None else progress


def listed(text: str | None) -> tuple[str, ...]:
    """The parts of a comma-separated option."""
    return tuple(part for part in (text or "").split(",") if part)


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Says in a sentence that what an extra of this package brings is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalledError(
            f"{error.name} is not installed: pip install 'fleetgauge[{extra}]' brings it and what else is needed"
        ) from error


def sentences(notes: "Console") -> Callable[[str], None]:
    """Prints each on a line of its own."""
    return lambda text: notes.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def now() -> datetime:
    """The time by the clock of this machine."""
    return datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)


def time_option(text: str | None, at: datetime) -> datetime | None:
    """The time of an option that may be left out, as somebody says it at `at`; an empty one is wrong."""
    return None if text is None else parse_time(text, at)


def _whole(path: str, option: str) -> str:
    """A URI as it is, or a file's whole path; what comes after `#` stays.

    >>> _whole("hdfs:///env.tar.gz#environment", "--archives")
    'hdfs:///env.tar.gz#environment'

    Raises:
        FleetError: it is not there.
    """
    if urlsplit(path).scheme:  # local:/opt/fleet.zip, too
        return path
    name, hash_, directory = path.partition("#")
    if not Path(name).is_file():
        raise FleetError(f"{option}: there is no file {name}")
    return f"{Path(name).resolve()}{hash_}{directory}"


def parse_conf(texts: Iterable[str] | None) -> dict[str, str]:
    """`key=value` settings of Spark.

    >>> parse_conf(["spark.executor.memory=2g"])
    {'spark.executor.memory': '2g'}
    """
    parsed = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise WrongOptionError(f"{text!r} is not a setting of Spark: give --conf spark.executor.memory=2g")
        parsed[key] = value
    return parsed
