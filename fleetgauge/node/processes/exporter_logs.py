"""The push log, embedded or a topic, as the exporter process uses it: readers, retention, and its status."""

import platform
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node.data_dir import LogPlace
from fleetgauge.node.status.topic_inventory import TopicInventory
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import CursorStats, added_stats, all_stats
from fleetgauge.push_log.embedded.lag_age import LagAge
from fleetgauge.push_log.embedded.merged_reader import MergedPushLogReader
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.joint_retention import JointRetention
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClients
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import Lag, PushLogError, PushLogReader
from fleetgauge.telemetry.malformed import MalformedPushes

log = structlog.get_logger(__name__)

_RETENTION_EVERY_MS: Final = 5_000
_LAG_EVERY_S: Final = 2.0


def exporter_log(
    settings: PushLogSettings | KafkaTopicSettings,
    exporters: tuple[str, ...],
    time: Time,
    logs: Sequence[LogPlace] = (),
    clients_max: int = 0,
) -> "EmbeddedLog | TopicLog":
    """The log that `settings` describe.

    Args:
        settings: of either kind.
        exporters: the names of all exporters of this process.
        time: the clocks.
        logs: the embedded logs, if there are several.
        clients_max: size of the inventory of a topic's clients; 0 for no inventory.
    """
    if isinstance(settings, KafkaTopicSettings):
        return TopicLog(settings, time, clients_max)
    return EmbeddedLog(settings, logs, exporters, time)


class EmbeddedLog:
    """The log in the data directory, or those of several listener processes as one; this process keeps its retention.

    Args:
        settings: of the log, or of each of several.
        logs: the logs, if there are several; some may be of workers that are no longer configured.
        exporters: the names of all exporters of this process.
        time: the clocks.
    """

    def __init__(
        self, settings: PushLogSettings, logs: Sequence[LogPlace], exporters: tuple[str, ...], time: Time
    ) -> None:
        self._settings = settings
        self._time = time
        self._are_merged = bool(logs)
        self._directories = {each.name: LogDirectory(each.dir) for each in logs}
        self._retention: Retention | JointRetention
        if logs:
            abandoned = [each.name for each in logs if each.is_abandoned]
            self._retention = JointRetention(settings, self._directories, abandoned, exporters, time=time)
        else:
            directory = self._directories["node"] = LogDirectory(settings.dir)
            self._retention = Retention(settings, exporters, directory)
        self._due_ms = 0
        self._lag_ages: defaultdict[str, LagAge] = defaultdict(LagAge)
        self.inventory: TopicInventory | None = None

    def reader(self, exporter: str) -> PushLogReader:
        """Opens the log for an exporter.

        Raises:
            PushLogError: it cannot be opened.
        """
        readers = {
            name: SqlitePushLogReader(
                replace(self._settings, dir=directory.path), exporter, time=self._time, directory=directory
            )
            for name, directory in self._directories.items()
        }
        return MergedPushLogReader(readers, time=self._time) if self._are_merged else readers["node"]

    def keep(self, now_ms: int) -> None:
        """Drops segments by age and size, if that is due at `now_ms` (monotonic)."""
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + _RETENTION_EVERY_MS
        try:
            self._retention.run(now_ms)
        except (FleetgaugeError, OSError) as error:
            log.warning("push_log.retention_failed", message="it is retried", error=str(error))

    def status(self, errors: Mapping[str, str | None]) -> tuple[dict[str, Any], Mapping[str, dict[str, Any]]]:
        """The log as it is on disk, and the progress of each exporter.

        Raises:
            PushLogError: the log cannot be read now.
        """
        stats = added_stats(tuple(all_stats(self._directories).values()))
        on_disk = {key: value for key, value in asdict(stats).items() if key != "cursors"}
        return on_disk, {entry.cursor.exporter: self._cursor(entry) for entry in stats.cursors}

    def _cursor(self, entry: CursorStats) -> dict[str, Any]:
        lost = {"retention": entry.cursor.lost_by_retention, "damage": entry.cursor.lost_by_damage}
        lag = _lag(entry.lag, self._lag_ages[entry.cursor.exporter], self._time)
        return {**lag, "lost_records": sum(lost.values()), "lost": lost}


class TopicLog:
    """The Kafka topic, whose retention is the brokers'; the status is of the partitions that this process reads."""

    def __init__(self, settings: KafkaTopicSettings, time: Time, clients_max: int = 0) -> None:
        self._settings = settings
        self._time = time
        self._seen = SeenClients(clients_max, time, malformed=MalformedPushes()) if clients_max else None
        self.inventory: TopicInventory | None = None
        if self._seen is not None:
            self.inventory = TopicInventory(settings.topic, self._seen, self.partitions, time)
        self._readers: dict[str, KafkaTopicReader] = {}
        # A partition that is taken over may bring old pushes with it at any time.
        self._lag_ages: defaultdict[str, LagAge] = defaultdict(lambda: LagAge(sees_all=False))
        self._thread: threading.Thread | None = None

    def reader(self, exporter: str) -> PushLogReader:
        """Opens the topic for an exporter."""
        self._readers[exporter] = KafkaTopicReader(self._settings, exporter, time=self._time, seen=self._seen)
        return self._readers[exporter]

    def keep(self, now_ms: int) -> None:
        """Removes clients that departed; the first call starts the thread that queries the lag of each exporter."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._measure, name="topic-lag", daemon=True)
            self._thread.start()
        if self.inventory is not None:
            self.inventory.keep()

    def partitions(self) -> list[int]:
        """The partitions that any exporter of this process reads now."""
        return sorted({partition for reader in self._readers.values() for partition in reader.partitions})

    def status(self, errors: Mapping[str, str | None]) -> tuple[dict[str, Any], Mapping[str, dict[str, Any]]]:
        """The problem of the topic, if any, and the progress of each exporter.

        An exporter that cannot start is no problem of the topic while another reads it.

        Args:
            errors: the latest error of each exporter, if there was any.
        """
        cursors = {name: self._cursor(name, reader) for name, reader in self._readers.items()}
        place = {"topic": self._settings.topic, "bootstrap_servers": self._settings.bootstrap_servers}
        return {**place, "problem": next(self._problems(errors), None)}, cursors

    def _problems(self, errors: Mapping[str, str | None]) -> Iterator[str]:
        joined = [reader.member for reader in self._readers.values() if reader.member.has_joined]
        if self._readers and not joined:
            known = [f"{name}: {error}" for name in self._readers if (error := errors.get(name))]
            yield f"no exporter has started to read topic {self._settings.topic}" + "".join(
                f"; {each}" for each in known
            )
        for member in joined:
            if member.problem is not None:
                yield member.problem
            elif not member.has_reached_topic:
                yield f"topic {self._settings.topic} has not been reached yet"

    def _measure(self) -> None:
        pause = threading.Event()
        while True:
            for reader in self._readers.values():
                with suppress(PushLogError):  # the pipeline logs it; the last known figures stay
                    reader.lag()
            pause.wait(_LAG_EVERY_S)

    def _cursor(self, name: str, reader: KafkaTopicReader) -> dict[str, Any]:
        return {
            "group": self._settings.group_of(name),
            "partitions": list(reader.partitions),
            "assigned_partitions": len(reader.partitions),
            "rebalances": reader.member.rebalances,
            **_lag(reader.last_lag, self._lag_ages[name], self._time),
            "lost_records": reader.member.lost_records,
            "lost": {"retention": reader.member.lost_records},
            "bad_records": reader.bad_records,
        }


def exporter_keys(keys: Mapping[str, Any], name: str, instance: str, data: Path) -> dict[str, Any]:
    """An exporter's keys, completed so that no two processes write the same file.

    Args:
        keys: as configured.
        name: the exporter's.
        instance: distinguishes processes that read the same log; empty where there is one.
        data: the data directory.
    """
    chosen = dict(keys)
    if instance and keys.get("type") == "landing":
        chosen.setdefault("writer.id", f"{platform.node()}-{name}-{instance}")
    kind = keys.get("type")
    if kind == "prometheus" or (kind == "otlp" and "temporality" in keys):
        chosen.setdefault("state.file", str(data / "-".join(filter(None, (kind, name, instance)))) + ".db")
    return chosen


def _lag(lag: Lag | None, age: LagAge, time: Time) -> dict[str, Any]:
    """An exporter's lag; `lag_ms` is the age of the oldest push that it has not delivered."""
    if lag is None:
        return {"lag_records": None, "lag_bytes": None, "lag_ms": None, "oldest_received_at": None}
    lag_ms = age.of(lag, now_us=time.microseconds(), now_ms=time.hi_res_clock_ms())
    oldest = lag.oldest_received_at
    return {"lag_records": lag.records, "lag_bytes": lag.bytes, "lag_ms": lag_ms, "oldest_received_at": oldest}


NO_CURSOR: Final[Mapping[str, Any]] = {
    "lag_records": 0,
    "lag_bytes": 0,
    "lag_ms": 0,
    "oldest_received_at": None,
    "lost_records": 0,
    "lost": {},
}
"""The progress of an exporter that has no cursor yet."""
