"""The options that several `fleet` commands have, and how what is wrong is said."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.console import Console

from fleetgauge.base.clock import SystemTime
from fleetgauge.fleet.errors import FleetError, NotInstalledError, WrongOptionError
from fleetgauge.fleet.report.form import Format, SummaryFormat
from fleetgauge.fleet.source.selection import Selection, parse_instance_ids, parse_time
from fleetgauge.fleet.spark.interrupt import ends_when_interrupted
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from fleetgauge.fleet.pipeline.source import Bounds
    from fleetgauge.fleet.spark.session import SessionSettings

DEFAULT_SOURCE = "./fleetgauge-data/landing"
DEFAULT_TABLES = "./fleetgauge-data/fleet"
DEFAULT_LIMIT = 50

EXIT_WRONG_OPTION: Final = 2

Source = Annotated[
    str,
    typer.Option(
        "--source",
        "-s",
        help="Landing zone: a directory, s3://bucket/path, or a URI that Spark can read; or the push log's topic: "
        "kafka://host:port[,host:port]/topic.",
    ),
]
KafkaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="KEY=VALUE",
        help="Setting of Kafka's client for a topic, e.g. security.protocol=SASL_SSL; may be repeated.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        help="Properties file with settings of Kafka's client (passwords!), as Kafka's tools' --command-config.",
    ),
]
KafkaJars = Annotated[
    str | None,
    typer.Option(
        "--kafka-jars",
        help="Jars of Spark's Kafka connector, or directories of them, comma-separated; without it they are fetched "
        "from Maven Central once.",
    ),
]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[*], local[2], spark://host:port, yarn, ...")]
OptionalMaster = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: local[*], local[2], spark://host:port, yarn, ... Without it Spark is used only for "
        "topics, for zones elsewhere and for much at once: 512 MiB of a zone, or 64 MiB that fleet run has not read.",
    ),
]
Form = Annotated[Format, typer.Option("--format", "-f", help="JSON is one object a line.")]
SummaryForm = Annotated[SummaryFormat, typer.Option("--format", "-f", help="Lines for people, or JSON objects.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", help="Directory to write to. Without it json and csv go to stdout.")
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows of the table; other formats hold every row.")]
Since = Annotated[
    str | None,
    typer.Option(help="Pushes received from then on: an age (30m, 2h, 7d) or a time (2026-01-31T08:00, UTC)."),
]
Until = Annotated[
    str | None,
    typer.Option(
        help="Pushes received before then; forms as for --since. Of a topic, those that reached it within an hour."
    ),
]
ClientIds = Annotated[list[str] | None, typer.Option("--client-id", help="Only this client.id; may be repeated.")]
Instances = Annotated[
    list[str] | None,
    typer.Option(
        "--instance-id",
        help="Only this client instance, its id in any form that clients log (base64, hex, UUID); may be repeated.",
    ),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option("--progress/--no-progress", help="Progress on stderr; by default when that is a terminal."),
]
SparkLog = Annotated[
    str, typer.Option("--spark-log-level", help="Spark's own log on stderr: OFF, ERROR, WARN, INFO, DEBUG.")
]
Metric = Annotated[str, typer.Option("--metric", "-m", help="Only metrics whose names begin with this.")]
Tables = Annotated[
    str, typer.Option("--tables", "-t", help="Root of the standing tables: a directory, or any URI that Hadoop knows.")
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark, as spark-submit takes it; may be repeated."),
]
StoreConf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="Setting of Spark's s3a for tables on an object store, e.g. spark.hadoop.fs.s3a.endpoint=URL; may be "
        "repeated. Without it delta-rs takes those of the environment.",
    ),
]
PyFiles = Annotated[
    str | None,
    typer.Option(
        "--py-files",
        metavar="ZIP[,ZIP]",
        help="Python code that executors of a cluster import, as spark-submit takes it: .zip, .egg or .py.",
    ),
]
Archives = Annotated[
    str | None,
    typer.Option(
        "--archives",
        metavar="ARCHIVE#DIRECTORY",
        help="Archives that each executor unpacks into that directory, a packed Python environment for instance, as "
        "spark-submit takes it; comma-separated.",
    ),
]
MaxFiles = Annotated[
    int | None, typer.Option(min=1, help="Files of a landing zone that one batch reads; by default 256 MiB of them.")
]
MaxRecords = Annotated[
    int | None, typer.Option(min=1, help="Records of a topic that one batch reads; by default two millions.")
]


@contextmanager
def said_in_a_sentence(notes: Console) -> Iterator[None]:
    """What is wrong is one sentence on stderr and exit code 1, 2 for an option; Ctrl-C is a word, and exit code 130."""
    try:
        with ends_when_interrupted(notes):
            yield
    except FleetError as error:
        notes.print(f"Error: {printable(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_WRONG_OPTION if isinstance(error, WrongOptionError) else 1) from error


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


def sentences(notes: Console) -> Callable[[str], None]:
    """Prints each on a line of its own."""
    return lambda text: notes.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def now() -> datetime:
    """The time by the clock of this machine."""
    return datetime.fromtimestamp(SystemTime().milliseconds() / 1000, UTC)


def time_option(text: str | None, at: datetime) -> datetime | None:
    """The time of an option that may be left out, as somebody says it at `at`; an empty one is wrong."""
    return None if text is None else parse_time(text, at)


def selection(options: Mapping[str, Any]) -> Selection:
    """What --since, --until, --client-id and --instance-id select."""
    at = now()
    return Selection(
        since=time_option(options["since"], at),
        until=time_option(options["until"], at),
        client_ids=tuple(options["client_id"] or ()),
        instance_ids=parse_instance_ids(options["instance"] or ()),
    )


def bounds(options: Mapping[str, Any]) -> "Bounds":
    """What --max-files and --max-records allow."""
    from fleetgauge.fleet.pipeline.source import MAX_BATCH_RECORDS, Bounds

    return Bounds(max_files=options["max_files"], max_records=options["max_records"] or MAX_BATCH_RECORDS)


def session_settings(options: Mapping[str, Any]) -> "SessionSettings":
    """What --master, --conf, --py-files, --archives and --spark-log-level say, for `start_session`."""
    from fleetgauge.fleet.spark.session import SessionSettings

    conf = parse_conf(options["conf"] or ())
    for key, files in shipped(options.get("py_files"), options.get("archives")).items():
        conf[key] = f"{conf[key]},{files}" if conf.get(key) else files
    return SessionSettings(master=options["master"] or "local[*]", log_level=options["spark_log_level"], options=conf)


def shipped(py_files: str | None, archives: str | None) -> dict[str, str]:
    """Settings of Spark that give executors these files.

    >>> shipped("hdfs:///fleet.zip", "hdfs:///env.tar.gz#environment")["spark.archives"]
    'hdfs:///env.tar.gz#environment'

    Raises:
        FleetError: one of them is not there.
    """
    settings = {}
    if code := ",".join(_whole(path, "--py-files") for path in listed(py_files)):
        # A session that no spark-submit starts ships the first alone, and imports from the second.
        settings = {"spark.files": code, "spark.submit.pyFiles": code}
    if unpacked := ",".join(_whole(path, "--archives") for path in listed(archives)):
        settings["spark.archives"] = unpacked
    return settings


def _whole(path: str, option: str) -> str:
    """A URI as it is, or a file's whole path; what comes after `#` stays."""
    if urlsplit(path).scheme:  # local:/opt/fleet.zip, too
        return path
    name, hash_, directory = path.partition("#")
    if not Path(name).is_file():
        raise FleetError(f"{option}: there is no file {name}")
    return f"{Path(name).resolve()}{hash_}{directory}"


def parse_conf(texts: Iterable[str]) -> dict[str, str]:
    """`key=value` settings of Spark.

    >>> parse_conf(["spark.executor.memory=2g"])
    {'spark.executor.memory': '2g'}
    """
    parsed = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise WrongOptionError(f"{text!r} is no setting of Spark: give --conf spark.executor.memory=2g")
        parsed[key] = value
    return parsed
