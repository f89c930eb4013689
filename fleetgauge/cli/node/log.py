"""`fleetgauge log`: reads the push log of a node, or the topic of an export, whether the process runs or not."""

import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetgauge.base.errors import ConfigError
from fleetgauge.cli.node.dead_letters import app as dead_letters
from fleetgauge.cli.node.status import running_exports
from fleetgauge.cli.options import DataOptions, TableOrJson, TableOrJsonLines
from fleetgauge.cli.output import write_json, write_json_lines
from fleetgauge.cli.units import ago, amount, at, size
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import LogStats, added_stats, all_stats, is_log, records_after, tail
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.terminal.option_groups import App
from fleetgauge.terminal.table import SafeTable, facts, wide_console
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

app = App(help="Read the push log, whether a node runs or not.", no_args_is_help=True)
app.add_typer(dead_letters, name="dead")

_FOLLOW_EVERY_S = 0.5


@app.command("tail")
def show_tail(
    data: DataOptions,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of pushes.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Continue with new pushes until interrupted.")] = False,
    form: TableOrJsonLines = "table",
) -> None:
    """Show the last pushes of the log, oldest first: time, client, size.

    With push.log.type=kafka: of all partitions of the topic, read with push.log.kafka.* and without a consumer group.
    """
    topic = _topic(data)
    if topic is not None:
        _show_topic(topic, lines, form, follow=follow)
        return
    logs = _embedded(data)
    console = Console(soft_wrap=True)
    found = {name: tail(directory, lines) for name, directory in logs.items()}
    records = sorted((record for each in found.values() for _, record in each), key=_by_time)
    for record in records[-lines:]:
        _print(console, record, form)
    if not records and not follow:
        typer.echo("the log holds no push yet", err=True)
    if follow:
        with suppress(KeyboardInterrupt):
            _follow(logs, {name: each[-1][0] for name, each in found.items() if each}, console, form)


@app.command()
def stats(data: DataOptions, form: TableOrJson = "table") -> None:
    """Show the contents of the log and the lag of each exporter; several logs are summed up."""
    topic = _topic(data)
    if topic is not None:
        raise ConfigError(
            "push.log.type",
            f"is kafka: kafka-log-dirs and kafka-get-offsets show the contents of topic {topic.topic}, "
            "fleetgauge exporters the lag of each exporter, and fleetgauge log tail the last pushes",
        )
    logs = all_stats(_embedded(data))
    found = added_stats(tuple(logs.values())) if len(logs) > 1 else next(iter(logs.values()))
    if form == "json":
        each = {"logs": {name: asdict(stats) for name, stats in logs.items()}} if len(logs) > 1 else {}
        write_json(asdict(found) | each)
        return
    console = wide_console()
    console.print(_contents(found))
    console.print(_cursors(found))


def _topic(data: DataOptions) -> "KafkaTopicSettings | None":
    """The topic that is the push log; None for a log in the data directory.

    Raises:
        ConfigError: the data directory belongs to an export, and does not tell how to connect to the topic.
    """
    if data.log_dirs is not None and data.config is None:
        if exports := running_exports(DataDirectory(data.log_dirs)):
            topic = next(iter(exports.values()))["push_log"].get("topic", "")
            raise ConfigError("log.dirs", f"belongs to an export, which reads topic {topic}: pass its --config instead")
        return None
    from fleetgauge.node.config.push_logs import topic_settings

    checked = data.read()
    return topic_settings(checked) if checked.push_log == "kafka" else None


def _show_topic(settings: "KafkaTopicSettings", lines: int, form: str, *, follow: bool) -> None:
    from fleetgauge.push_log.kafka_topic.tail import TopicTail

    console = Console(soft_wrap=True)
    with TopicTail(settings) as topic:
        for record in topic.last(lines):
            _print(console, record, form)
        if topic.bad_records:
            typer.echo(f"skipped {topic.bad_records} records that are not push records", err=True)
        if follow:
            with suppress(KeyboardInterrupt):
                for record in topic.follow():
                    _print(console, record, form)


def _embedded(data: DataOptions) -> dict[str, Path]:
    """Name -> directory of the embedded logs: the node's, or one for each of its listener processes so far."""
    directory = data.directory()
    logs = directory.push_logs((0, *directory.worker_numbers()))
    return {name: path for name, path in logs.items() if is_log(path)} or {"node": directory.push_log}


def _by_time(record: PushRecord) -> str:
    return record.push_id


def _follow(logs: dict[str, Path], last: dict[str, str], console: Console, form: str) -> None:
    """Prints new pushes; those of several logs are in order within half a second."""
    while True:
        found: list[PushRecord] = []
        for name, directory in logs.items():
            for position, record in records_after(directory, last.get(name)):
                found.append(record)
                last[name] = position
        for record in sorted(found, key=_by_time):
            _print(console, record, form)
        time.sleep(_FOLLOW_EVERY_S)


def _print(console: Console, record: PushRecord, form: str) -> None:
    if form == "json":
        fields: dict[str, object] = record._asdict() | {"metrics_bytes": len(record.metrics)}
        del fields["metrics"]
        write_json_lines([fields])
        return
    kind = " terminating" if record.terminating else "" if record.metrics else " heartbeat"
    console.print(
        Text(
            printable(
                f"{at(record.received_at)}  {record.client_instance_id}  {record.client_id or '-'}  "
                f"{record.client_software_name}/{record.client_software_version}  "
                f"{record.client_source_address}:{_known(record.client_source_port)}  {record.principal}  "
                f"{size(len(record.metrics))} ({_known(record.compression_type)}){kind}"
            )
        )
    )


def _known(value: object) -> object:
    return "-" if value is None else value


def _contents(found: LogStats) -> Table:
    table = facts()
    table.add_row("pushes", amount(found.records))
    table.add_row("on the disk", f"{size(found.disk_bytes)} in {found.segments} segments")
    table.add_row("metrics, decompressed", size(found.metrics_bytes))
    if found.oldest_received_at is not None and found.newest_received_at is not None:
        table.add_row("oldest", f"{at(found.oldest_received_at)} ({ago(found.oldest_received_at)})")
        table.add_row("newest", f"{at(found.newest_received_at)} ({ago(found.newest_received_at)})")
    if found.damaged_segments:
        table.add_row("damaged segments", amount(found.damaged_segments))
    return table


def _cursors(found: LogStats) -> Table:
    table = SafeTable(title="\nExporters", title_justify="left", box=None, pad_edge=False)
    table.add_column("name")
    for heading in ("delivered", "lag", "lag bytes", "lost by retention", "lost by damage"):
        table.add_column(heading, justify="right")
    table.add_column("oldest undelivered")
    for entry in found.cursors:
        cursor, lag = entry.cursor, entry.lag
        table.add_row(
            cursor.exporter,
            amount(cursor.delivered_records),
            amount(lag.records),
            size(lag.bytes),
            amount(cursor.lost_by_retention),
            amount(cursor.lost_by_damage),
            ago(lag.oldest_received_at) if lag.oldest_received_at is not None else "-",
        )
    return table
