"""Reads the push log of a node, or the topic of an export, whether the process runs or not."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetgauge.base.errors import ConfigError
from fleetgauge.cli.node.running import running_exports
from fleetgauge.cli.options import DataOptions
from fleetgauge.cli.units import ago, amount, at, size
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import LogStats, added_stats, all_stats, is_log, records_after, tail
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.terminal.answer import Answer, PlainRows, record_answer
from fleetgauge.terminal.table import SafeTable, facts
from fleetgauge.terminal.text import printable

if TYPE_CHECKING:
    from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

_FOLLOW_EVERY_S = 0.5
_COLUMNS = (*(name for name in PushRecord._fields if name != "metrics"), "metrics_bytes")


def tail_answer(data: DataOptions, limit: int, *, follow: bool) -> Answer:
    """The last pushes, and with `follow` new ones until it is interrupted.

    Raises:
        ConfigError: the log cannot be found.
    """
    topic = _topic(data)
    records = (
        _of_logs(_embedded(data), limit, follow=follow) if topic is None else _of_topic(topic, limit, follow=follow)
    )

    def text(console: Console) -> None:
        for record in records:
            _print(console, record)

    return Answer(text=text, rows=PlainRows(map(_as_object, records), _COLUMNS), is_live=True)


def stats_answer(data: DataOptions) -> Answer:
    """The contents of the log, and the lag of each exporter.

    Raises:
        ConfigError: the log cannot be found, or is a topic.
    """
    topic = _topic(data)
    if topic is not None:
        raise ConfigError(
            "push.log.type",
            f"is kafka: kafka-log-dirs and kafka-get-offsets show the contents of topic {topic.topic}, "
            "fleetgauge status --exporters the lag of each exporter, and fleetgauge log tail the last pushes",
        )
    logs = all_stats(_embedded(data))
    total = added_stats(tuple(logs.values())) if len(logs) > 1 else next(iter(logs.values()))
    each = {"logs": {name: asdict(stats) for name, stats in logs.items()}} if len(logs) > 1 else {}

    def text(console: Console) -> None:
        console.print(_contents(total))
        console.print(_cursors(total))

    return record_answer(asdict(total) | each, text)


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


def _of_topic(settings: "KafkaTopicSettings", limit: int, *, follow: bool) -> Iterator[PushRecord]:
    from fleetgauge.push_log.kafka_topic.tail import TopicTail

    with TopicTail(settings) as topic:
        yield from topic.last(limit)
        if topic.bad_records:
            typer.echo(f"skipped {topic.bad_records} records that are not push records", err=True)
        if follow:
            yield from topic.follow()


def _embedded(data: DataOptions) -> dict[str, Path]:
    """Name -> directory of the embedded logs: the node's, or one for each of its listener processes so far."""
    directory = data.directory()
    logs = directory.push_logs((0, *directory.worker_numbers()))
    return {name: path for name, path in logs.items() if is_log(path)} or {"node": directory.push_log}


def _by_time(record: PushRecord) -> str:
    return record.push_id


def _of_logs(logs: dict[str, Path], limit: int, *, follow: bool) -> Iterator[PushRecord]:
    """The last pushes of all logs, then new ones; those of several logs are in order within half a second."""
    tails = {name: tail(directory, limit) for name, directory in logs.items()}
    records = sorted((record for each in tails.values() for _, record in each), key=_by_time)
    yield from records[-limit:]
    if not follow:
        if not records:
            typer.echo("the log holds no push yet", err=True)
        return
    last = {name: each[-1][0] for name, each in tails.items() if each}
    while True:
        records = []
        for name, directory in logs.items():
            for position, record in records_after(directory, last.get(name)):
                records.append(record)
                last[name] = position
        yield from sorted(records, key=_by_time)
        time.sleep(_FOLLOW_EVERY_S)


def _as_object(record: PushRecord) -> dict[str, object]:
    fields: dict[str, object] = record._asdict() | {"metrics_bytes": len(record.metrics)}
    del fields["metrics"]
    return fields


def _print(console: Console, record: PushRecord) -> None:
    kind = " terminating" if record.terminating else "" if record.metrics else " heartbeat"
    console.print(
        Text(
            printable(
                f"{at(record.received_at)}  {record.client_instance_id}  {record.client_id or '-'}  "
                f"{record.client_software_name}/{record.client_software_version}  "
                f"{record.client_source_address}:{_known(record.client_source_port)}  {record.principal}  "
                f"{size(len(record.metrics))} ({_known(record.compression_type)}){kind}"
            )
        ),
        soft_wrap=True,
    )


def _known(value: object) -> object:
    return "-" if value is None else value


def _contents(stats: LogStats) -> Table:
    table = facts()
    table.add_row("pushes", amount(stats.records))
    table.add_row("on the disk", f"{size(stats.disk_bytes)} in {stats.segments} segments")
    table.add_row("metrics, decompressed", size(stats.metrics_bytes))
    if stats.oldest_received_at is not None and stats.newest_received_at is not None:
        table.add_row("oldest", f"{at(stats.oldest_received_at)} ({ago(stats.oldest_received_at)})")
        table.add_row("newest", f"{at(stats.newest_received_at)} ({ago(stats.newest_received_at)})")
    if stats.damaged_segments:
        table.add_row("damaged segments", amount(stats.damaged_segments))
    return table


def _cursors(stats: LogStats) -> Table:
    table = SafeTable(title="\nExporters", title_justify="left", box=None, pad_edge=False)
    table.add_column("name")
    for heading in ("delivered", "lag", "lag bytes", "lost by retention", "lost by damage"):
        table.add_column(heading, justify="right")
    table.add_column("oldest undelivered")
    for entry in stats.cursors:
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
