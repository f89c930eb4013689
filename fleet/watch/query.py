"""`fleet watch`: the standing query, from the start of Spark to its clean stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from types import FrameType
from typing import Any, Final, TextIO

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from base.clock import Time
from fleet.pipeline.run import explained
from fleet.pipeline.source import Bounds
from fleet.schemas import BRONZE, INSTANCE, conform
from fleet.session import SessionSettings, options_of, session_conf, start_session
from fleet.spark_schema import spark_schema
from fleet.tables.lock import only_run
from fleet.tables.paths import qualified, storage_options
from fleet.topic.source import Source, TopicSource
from fleet.watch.deliver import Deliverer, Receiver, Tally, ToStdout, ToTable, ToTopic, ToWebhook
from fleet.watch.observe import OBSERVED, ObservePushes
from fleet.watch.processor import SAID, WatchClients
from fleet.watch.progress import read_step
from fleet.watch.rules import Rule
from fleet.watch.start import remember_start
from fleet.watch.stream import lost_before_start, start_stream
from fleet.watch.table import AlertTable
from fleet.watch.webhook import Webhook, WebhookSettings

MAX_AHEAD_S: Final = 600
"""How far ahead of this machine's clock a time of receipt may lie [s]; what lies further is no broker's time."""

_CONFS: Final = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",  # noqa: E501
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A landing zone's own retention, and an operator who takes a damaged file away, go on meanwhile.
    "spark.sql.files.ignoreMissingFiles": "true",
}
_POLL_S: Final = 0.5
_STARTS: Final = 30
_SLOW_WORKER: Final = "Python worker failed to connect back"
"""Spark gives a worker 10 s to start, whatever else the machine does, and fails the query; nothing is lost by that."""

_STOPPED_WITHIN_POLLS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """What an operator asked for.

    Attributes:
        source: the landing zone or topic.
        rules: to judge by.
        checkpoint: where the place in the source and the state are kept.
        since: pushes received from then on count, at the first start.
        alerts: the Delta table; None writes none.
        webhook: None sends to none.
        topic: for alerts; None writes to none.
        as_json: lines on stdout are JSON.
        late_s: how much later than others a push may come [s].
        forget_after_us: see `ClientWatch`.
        trigger_s: a batch every so often [s].
        once: only what there is.
        bounds: how much one batch reads.
    """

    source: Source
    rules: tuple[Rule, ...]
    checkpoint: str
    since: datetime
    alerts: str | None = None
    webhook: WebhookSettings | None = None
    topic: TopicSource | None = None
    as_json: bool = False
    late_s: int = 300
    forget_after_us: int = 21_600_000_000
    trigger_s: float = 10.0
    once: bool = False
    bounds: Bounds = field(default_factory=Bounds)


def watch(
    request: WatchRequest,
    settings: SessionSettings,
    *,
    clock: Time,
    out: TextIO,
    note: Callable[[str], None],
    step: Callable[[str], None],
) -> None:
    """Watches until SIGTERM or SIGINT, or with `once` until all that there is was read.

    Args:
        request: what was asked.
        settings: how to start Spark.
        clock: the time.
        out: where alerts are written as lines.
        note: told what is wrong with the source or a receiver.
        step: told a line a trigger.

    Raises:
        FleetError: with one sentence on what is wrong, whatever Spark made of it.
    """
    with explained(f"fleet watch of {request.source}"):
        spark = start_session(settings)
        if request.alerts is not None:
            _alerts(spark, request.alerts).check()
        checkpoint = qualified(request.checkpoint)
        with (
            only_run(checkpoint, what="watch keeps its checkpoint"),
            session_conf(spark, _CONFS),
            _until_signal() as stop,
        ):
            _Watch(spark, request, checkpoint, clock, stop, out=out, note=note, step=step).run()


def said_by_clients(bronze: DataFrame, request: WatchRequest, since: datetime) -> DataFrame:
    """BRONZE as a stream -> SAID as a stream.

    The time that goes by is that of receipt, by the brokers' clocks, but never ahead of this machine's: one broker
    whose clock is wrong must not have the pushes of all others come too late.
    """
    now = F.current_timestamp()
    is_ahead = F.col("received_at") > now + F.make_dt_interval(secs=F.lit(MAX_AHEAD_S))
    fault = F.when(is_ahead, F.lit(f"received_at is more than {MAX_AHEAD_S} s ahead of the clock here"))
    counted = bronze.withColumn("fault", F.coalesce("fault", fault)).where(
        F.col("received_at").isNull() | (F.col("received_at") >= F.lit(since))
    )
    metrics = frozenset(name for rule in request.rules for name in rule.metrics)
    observed = conform(conform(counted, BRONZE).mapInArrow(ObservePushes(metrics), spark_schema(OBSERVED)), OBSERVED)
    is_good = F.col("reason").isNull()
    named = observed.observe(
        "watch", F.count_if(is_good).alias("pushes"), F.count_if(~is_good).alias("set_aside")
    ).where(is_good)
    timed = named.withColumn("at", F.least("received_at", now)).withWatermark("at", f"{request.late_s} seconds")
    return (
        timed.select(*INSTANCE, "at", "push")
        .groupBy(*INSTANCE)
        .transformWithStateInPandas(
            statefulProcessor=WatchClients(request.rules, request.forget_after_us),
            outputStructType=SAID,
            outputMode="Update",
            timeMode="EventTime",
        )
    )


class _Watch:
    """One start of the query."""

    def __init__(
        self,
        spark: SparkSession,
        request: WatchRequest,
        checkpoint: str,
        clock: Time,
        stop: threading.Event,
        *,
        out: TextIO,
        note: Callable[[str], None],
        step: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._request = request
        self._checkpoint = checkpoint
        self._clock = clock
        self._out = out
        self._note = note
        self._step = step
        self._stop = stop
        self._noted: int = -1
        self._deliverer = Deliverer(receivers=[])

    def run(self) -> None:
        request = self._request
        bronze = start_stream(self._spark, request.source, request.bounds)
        lost = lost_before_start(self._spark, request.source, self._checkpoint)
        if lost:
            self._note(f"lost {lost:,}: retention took these records from the topic before they were read")
        since = remember_start(self._spark, self._checkpoint, request.since)
        said = said_by_clients(bronze, request, since)
        writer = said.writeStream.outputMode("update").foreachBatch(self._deliver)
        writer = writer.option("checkpointLocation", self._checkpoint)
        trigger: dict[str, Any] = {"availableNow": True} if request.once else {"processingTime": _milliseconds(request)}
        writer = writer.trigger(**trigger)
        for start in range(1, _STARTS + 1):
            try:
                self._await(writer.start())
                return
            except PySparkException as error:
                if _SLOW_WORKER not in str(error) or start == _STARTS:
                    raise
            self._note("a Python worker of Spark took more than 10 s to start, as on a busy machine: starting anew")

    def _deliver(self, said: DataFrame, batch: int) -> None:
        """Called by Spark, from a thread of its own."""
        if not self._deliverer.receivers:
            self._deliverer.receivers = self._receivers()
        self._deliverer(said, batch)

    def _receivers(self) -> list[Receiver]:
        """Made with the first batch, when the query has the id that its checkpoint keeps."""
        request = self._request
        receivers: list[Receiver] = []
        if request.alerts is not None:
            (query,) = self._spark.streams.active
            receivers.append(ToTable(table=_alerts(self._spark, request.alerts), app_id=str(query.id)))
        receivers.append(ToStdout(out=self._out, is_json=request.as_json))
        if request.topic is not None:
            receivers.append(ToTopic(topic=request.topic))
        if request.webhook is not None:
            webhook = Webhook(request.webhook, clock=self._clock, wait=self._stop.wait, note=self._note)
            receivers.append(ToWebhook(webhook=webhook))
        return receivers

    def _await(self, query: StreamingQuery) -> None:
        try:
            while not query.awaitTermination(_POLL_S):  # type: ignore[arg-type]  # whole seconds, says the hint
                self._note_steps(query)
                if self._stop.is_set():
                    self._end(query)
                    break
            self._note_steps(query)
        except (PySparkException, Py4JError, OSError):
            if self._stop.is_set():
                return  # told to stop: the JVM may have been told too, or a receiver gave up waiting
            failure = self._deliverer.failure
            if failure is not None and _SLOW_WORKER not in str(failure):
                raise failure from None  # Spark has its text alone
            raise
        finally:
            _stop(query)

    def _end(self, query: StreamingQuery) -> None:
        """Lets the batch that is under way come to its end, for a while: what it said would be said again."""
        for _ in range(_STOPPED_WITHIN_POLLS):
            if not query.isActive or not query.status["isTriggerActive"]:
                break
            query.awaitTermination(_POLL_S)  # type: ignore[arg-type]
        query.stop()

    def _note_steps(self, query: StreamingQuery) -> None:
        """A line for each trigger that did something."""
        for progress in query.recentProgress:
            batch = progress.batchId
            if batch <= self._noted or batch not in self._deliverer.tallies:
                continue
            self._noted = batch
            self._step(read_step(progress, self._deliverer.tallies.pop(batch, Tally())).line())


def _alerts(spark: SparkSession, path: str) -> AlertTable:
    return AlertTable(qualified(path), storage_options(options_of(spark)))


def _milliseconds(request: WatchRequest) -> str:
    return f"{round(request.trigger_s * 1_000)} milliseconds"


def _stop(query: StreamingQuery) -> None:
    try:
        if query.isActive:
            query.stop()
    except (PySparkException, Py4JError, OSError):
        return  # the JVM is gone already


@contextmanager
def _until_signal() -> Iterator[threading.Event]:
    """Set by SIGTERM or SIGINT, which PySpark takes for itself when it starts."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
