"""The exporter process: `python -m fleetgauge.node.processes.exporter_process`, started by `exporter_supervisor`.

It reads its `Job`, one line, from standard input, runs a pipeline for each exporter in a thread of its own,
keeps the push log's retention, and reports its status as a line of JSON once a second. It leaves signals to its
parent. At a line `{"stop": deadline_ms}` it delivers what is in the log, and ends. When standard input ends, the parent
has ended: it finishes the batches under way, and ends; while a predecessor still holds the log, it ends at once.
"""

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

import structlog

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.errors import ConfigError, FleetgaugeError
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.cluster.subscriptions.allowed import AllowedIntervals, WaitsForClients
from fleetgauge.exporters.dead_letters.letter import DeadLetterStats
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.registry import build_exporter, drain_rate_bytes
from fleetgauge.exporters.self_metrics import SELF_METRICS, SelfMetricsExporter, self_metrics_settings
from fleetgauge.exporters.tls_files import CERT_FILE
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.logs import configure_logging, flush_logs
from fleetgauge.node.processes.beside_delivery import BesideDelivery
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.exporter_logs import NO_CURSOR, exporter_keys, exporter_log
from fleetgauge.node.processes.garbage import freeze_startup_objects
from fleetgauge.node.processes.group_offsets import GroupOffsets
from fleetgauge.node.processes.job_line import from_line
from fleetgauge.node.processes.parent_pipe import Reports, ignore_signals
from fleetgauge.node.processes.subscription_deadlines import SubscriptionDeadlines
from fleetgauge.node.status.own_metrics import own_metrics
from fleetgauge.node.status.topic_inventory import TopicInventory, list_clients
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError
from fleetgauge.wire.tls.server import TlsSettings, expires_at

log = structlog.get_logger(__name__)

_STATUS_EVERY_S = 1.0
_LETTERS_AGE_EVERY_MS = 60_000
_CERTIFICATES_EVERY_MS = 60_000
_LOCK_WITHIN_MS = 30_000
_NICENESS = 10
"""Clients wait for the listener and not for a delivery: where cores are short, the listener runs first."""
_FINISH_MS = 5_000
"""Time limit for a batch in progress after the parent has ended [ms]."""
_NO_LETTERS = DeadLetterStats()


class ExporterProcess:
    """The pipelines of all exporters over one push log.

    Args:
        job: what to do.
        time: the clocks.

    Raises:
        FleetgaugeError: an exporter cannot be made.
    """

    def __init__(self, job: Job, time: Time) -> None:
        self._job = job
        self._time = time
        fed = {name: keys for name, keys in job.exporters.items() if keys["type"] != SELF_METRICS}
        clients_max = 0 if job.clients is None else job.clients.max_size
        self._push_log = exporter_log(job.push_log, tuple(fed), time, job.logs, clients_max)
        self._inventory: TopicInventory | None = self._push_log.inventory
        self._letters = DeadLetters(job.dead_letters, time)
        self._letters_age_due_ms = 0
        self._counted_letters: dict[str, DeadLetterStats] = {}
        self._limiter = LogLimiter()
        self._certificates: dict[str, int | None] = {}
        self._certificates_due_ms = 0
        self._own_counters: dict[str, Callable[[], dict[str, int]]] = {}
        self._beside: dict[str, BesideDelivery] = {}
        if job.offsets is not None:
            self._beside["group_offsets"] = GroupOffsets(job.offsets, time)
        self._allowed = AllowedIntervals()
        self._waiting: list[WaitsForClients] = [] if self._inventory is None else [self._inventory]
        self._fed = [self._pipeline(name, keys) for name, keys in fed.items()]
        if job.deadlines is not None:
            self._beside["subscription_deadlines"] = SubscriptionDeadlines(job.deadlines, time, self._waiting)
        self._pipelines: list[Pipeline | SelfMetricsExporter] = [
            *self._fed,
            *(self._self_metrics(name, keys) for name, keys in job.exporters.items() if name not in fed),
        ]

    def run(self, commands: "queue.Queue[dict[str, Any] | None]", reports: Reports) -> None:
        """Delivers until a command to stop, or None, which means that the parent has ended."""
        if self._inventory is not None and self._job.clients is not None:
            list_clients(self._job.clients.socket, self._inventory, self._time)
        for pipeline in self._pipelines:
            pipeline.start()
        for each in self._beside.values():
            each.start()
        freeze_startup_objects()
        while True:
            self._report(reports)
            self._push_log.keep(self._time.hi_res_clock_ms())
            self._keep_letters(self._time.hi_res_clock_ms())
            self._look_at_certificates(self._time.hi_res_clock_ms())
            try:
                command = commands.get(timeout=_STATUS_EVERY_S)
            except queue.Empty:
                continue
            if command is None or "stop" in command:
                break
            if self._waiting:
                self._allowed.take(command["in_force"], self._waiting)
        self._stop(0 if command is None else int(command["stop"]), finish=command is None)
        self._report(reports)

    def status(self) -> dict[str, Any]:
        """The status: the log as it is on disk, and each exporter by name.

        Raises:
            PushLogError: the log cannot be read now.
        """
        stats_of = [(pipeline, pipeline.stats()) for pipeline in self._pipelines]
        push_log, cursors = self._push_log.status({stats.exporter: stats.last_error for _, stats in stats_of})
        letters = self._letter_stats()
        exporters = {}
        for pipeline, stats in stats_of:
            exporters[pipeline.name] = {
                "type": self._job.exporters[pipeline.name]["type"],
                **asdict(stats),
                **cursors.get(pipeline.name, NO_CURSOR),
                **self._own_counts(pipeline.name),
                "certificate_expires_at": self._certificates.get(pipeline.name),
                **_letters_status(letters.get(pipeline.name, _NO_LETTERS), stats.letters_without_room),
            }
        clients = {} if self._inventory is None else {"clients": self._inventory.counters()}
        beside = {name: each.status() for name, each in self._beside.items()}
        return {"push_log": push_log, "exporters": exporters, **clients, **beside}

    def _own_counts(self, name: str) -> dict[str, int]:
        """An exporter's own counters; none if it fails to return them, which must not affect other exporters."""
        try:
            return self._own_counters.get(name, dict)()
        except Exception:  # a custom exporter may raise anything
            if count := self._limiter.admit(f"counters {name}", self._time.hi_res_clock_ms()):
                log.exception("exporters.counters_unavailable", exporter=name, occurrences=count)
            return {}

    def _pipeline(self, name: str, keys: dict[str, Any]) -> Pipeline:
        chosen = exporter_keys(keys, name, self._job.instance, self._job.log_dirs)
        exporter = build_exporter(name, chosen)
        if isinstance(exporter, WaitsForClients):
            self._waiting.append(exporter)
        self._own_counters[name] = getattr(exporter, "counters", dict)
        return Pipeline(
            self._push_log.reader(name),
            exporter,
            time=self._time,
            dead_letters=self._letters,
            drain_rate_bytes=drain_rate_bytes(name, chosen),
        )

    def _self_metrics(self, name: str, keys: dict[str, Any]) -> SelfMetricsExporter:
        settings = self_metrics_settings(name, keys)
        return SelfMetricsExporter(name, settings, own_metrics(self._job.node_socket), time=self._time)

    def _keep_letters(self, now_ms: int) -> None:
        """Starts the replays that were requested, and drops letters that are too old."""
        try:
            requested = self._letters.asked()
            if now_ms >= self._letters_age_due_ms:
                self._letters_age_due_ms = now_ms + _LETTERS_AGE_EVERY_MS
                self._letters.drop_aged()
        except PushLogError as error:
            self._warn("dead_letters.unavailable", error)
            return
        for pipeline in self._fed:
            if pipeline.name in requested:
                pipeline.request_replay()

    def _look_at_certificates(self, now_ms: int) -> None:
        """Notes when the client certificates expire, which exporters read for each connection."""
        if now_ms < self._certificates_due_ms:
            return
        self._certificates_due_ms = now_ms + _CERTIFICATES_EVERY_MS
        for name, keys in self._job.exporters.items():
            if file := keys.get(CERT_FILE):
                self._certificates[name] = expires_at(TlsSettings(keystore_location=str(file)))

    def _letter_stats(self) -> dict[str, DeadLetterStats]:
        """Counts by exporter; the latest known ones while they cannot be read."""
        try:
            self._counted_letters = self._letters.stats()
        except PushLogError as error:
            self._warn("dead_letters.unavailable", error)
        return self._counted_letters

    def _warn(self, event: str, error: FleetgaugeError) -> None:
        if count := self._limiter.admit(event, self._time.hi_res_clock_ms()):
            log.warning(event, error=str(error), occurrences=count)

    def _report(self, reports: Reports) -> None:
        try:
            status = self.status()
        except FleetgaugeError as error:
            self._warn("exporters.status_unavailable", error)
            reports.send({"alive": True})
        else:
            reports.send(status)

    def _stop(self, deadline_ms: int, *, finish: bool) -> None:
        for each in self._beside.values():
            each.request_stop()
        for pipeline in self._pipelines:
            pipeline.request_stop(_FINISH_MS if finish else deadline_ms)
        for pipeline in self._pipelines:
            if not pipeline.join():
                log.warning(
                    "exporters.export_interrupted", message="it is repeated at the next start", exporter=pipeline.name
                )
        for each in self._beside.values():
            each.join()


def _letters_status(stats: DeadLetterStats, without_room: int) -> dict[str, Any]:
    """The dead letters of one exporter for the status.

    Args:
        stats: of the store.
        without_room: rejected pushes that a full disk kept out of it since the process was started.
    """
    return {
        "letters": stats.letters,
        "letter_bytes": stats.bytes,
        "oldest_letter_at": stats.oldest_refused_at,
        "letters_dropped": stats.dropped,
        "letters_lost": {
            "retention_bytes": stats.lost_by_bytes,
            "retention_ms": stats.lost_by_age,
            "no_room": without_room,
        },
    }


def main() -> None:
    """Runs the process; exit code 0 after a stop, 1 where it cannot do its job."""
    ignore_signals()
    reports = Reports()
    line = sys.stdin.readline()
    if not line:
        return
    job: Job = from_line(line)
    configure_logging(job.logging.level, job.logging.format, job.logging.secrets)
    structlog.contextvars.bind_contextvars(process="exporters")
    os.nice(_NICENESS)
    # gRPC would print each failed handshake; the pipelines log failures, once a minute.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    time = SystemTime()
    commands: queue.Queue[dict[str, Any] | None] = queue.Queue()
    orphaned = threading.Event()
    threading.Thread(target=_listen, args=(commands, orphaned), daemon=True).start()
    try:
        with _only_one(job, time, orphaned):
            if not orphaned.is_set():
                ExporterProcess(job, time).run(commands, reports)
    except FleetgaugeError as error:
        log.error("exporters.failed", error=str(error))
        flush_logs()
        os._exit(1)  # threads that deliver are daemons; their cursors are durable
    flush_logs()
    os._exit(0)  # an export that ignores its end must not keep the process


def _listen(commands: "queue.Queue[dict[str, Any] | None]", orphaned: threading.Event) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    orphaned.set()
    commands.put(None)


@contextmanager
def _only_one(job: Job, time: Time, orphaned: threading.Event) -> Iterator[None]:
    """Holds the lock that admits one exporter process to an embedded log; an orphan may be without it.

    The process waits for a predecessor's last batch, unless it is an orphan: after several quick deaths of the
    listener, orphans would get the lock one after the other, and the living listener's process last.
    """
    if isinstance(job.push_log, KafkaTopicSettings):
        yield  # a topic's readers are any number
        return
    data = DataDirectory(job.log_dirs)
    deadline_ms = time.hi_res_clock_ms() + _LOCK_WITHIN_MS
    with ExitStack() as held:
        while not orphaned.is_set():
            try:
                held.enter_context(data.lock("exporters.lock"))
                break
            except ConfigError:
                if time.hi_res_clock_ms() > deadline_ms:
                    raise
                orphaned.wait(0.05)
        yield


if __name__ == "__main__":
    main()
