"""Push records and logs for tests of the push log."""

import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.embedded.supply import Spawn, in_thread
from fleetgauge.push_log.embedded.writer import SqlitePushLogWriter
from fleetgauge.push_log.log import Batch, PushLogReader
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.plugin.api import RequestContext
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.telemetry.subscriptions.resources import EffectiveSubscription

RECEIVED_AT_US = 1_750_000_000_000_000


SENDER = ClientInstance(
    uuid.UUID(int=1),
    RequestContext(
        listener_name="PLAINTEXT",
        security_protocol="PLAINTEXT",
        principal=ANONYMOUS,
        client_id="client",
        client_software_name="librdkafka",
        client_software_version="2.10.1",
        client_address="127.0.0.1",
        client_port=45_678,
        connection_id="",
        correlation_id=0,
        request_type=72,
        request_version=0,
    ),
    EffectiveSubscription(metrics=("*",), push_interval_ms=60_000, checksum=0),
    0,
    (),
)
"""The instance of every `push_of`; a push log does not look at it."""


def push_record(number: int, metrics: bytes | None = None, **fields: Any) -> PushRecord:
    """A record whose push id ends in `number`, received `number` us after a fixed moment."""
    record = PushRecord(
        push_id=f"{number:032x}",
        received_at=RECEIVED_AT_US + number,
        receiver_node_id=1,
        cluster_id="abcdefghijklmnopqrstuv",
        listener="PLAINTEXT",
        client_instance_id="Tm-1TLjmRReIm-FbmcCcIA",
        client_id=f"client-{number}",
        client_software_name="librdkafka",
        client_software_version="2.10.1",
        client_source_address="127.0.0.1",
        client_source_port=45_678,
        principal="User:ANONYMOUS",
        subscription_id=-1_234_567,
        push_interval_ms=60_000,
        terminating=number % 2 == 1,
        compression_type="zstd",
        payload_bytes=100,
        schema_version=1,
        metrics=b"metrics of %d " % number + b"m" * 100 if metrics is None else metrics,
    )
    return record._replace(**fields)


def push_of(record: PushRecord, encoded: bytes | None = None) -> Push:
    """An accepted push with this record, as far as a push log looks at it; without `encoded` it came uncompressed."""
    taken_at_ms = SystemTime().hi_res_clock_ms()
    claim = SENDER.gate.claim(taken_at_ms)
    return Push(SENDER, claim, taken_at_ms, record[:-1], record.metrics, record.metrics if encoded is None else encoded)


class RecordWriter:
    """The embedded log's writer, record by record; a `push_log.group_commit.Writer`, too.

    Attributes:
        log: the writer itself.
    """

    def __init__(self, settings: PushLogSettings, time: Time | None = None, *, spawn: Spawn = in_thread) -> None:
        self.log = SqlitePushLogWriter(settings, time, spawn=spawn)
        self._dir = settings.dir
        self._appended: list[Push] = []

    def append(self, record: PushRecord, encoded: bytes | None = None) -> None:
        """Has a record written with the next commit."""
        self._appended.append(push_of(record, encoded))

    def commit(self) -> int:
        """Writes what was appended; returns how many records that were."""
        appended, self._appended = self._appended, []
        if appended:
            self.log.write(appended)
        return len(appended)

    def write(self, pushes: Sequence[Push]) -> None:
        self.log.write(pushes)

    def check_room(self) -> None:
        self.log.check_room()

    def roll_if_due(self) -> None:
        self.log.roll_if_due()

    def counters(self) -> dict[str, int]:
        """How many segments there are that were opened."""
        return {"segments_begun": len(LogDirectory(self._dir).live())}

    def close(self) -> None:
        self.log.close()

    @property
    def pending(self) -> int:
        """Records that wait for a commit."""
        return len(self._appended)


def zstd(data: bytes) -> bytes:
    """As a client would send it."""
    return zstandard.ZstdCompressor().compress(data)


def small_log(path: Path, **changed: Any) -> PushLogSettings:
    """Settings whose segments hold a handful of commits, and that care for no free space."""
    return PushLogSettings(**{"dir": path, "segment_bytes": 40_000, "min_free_bytes": 0, **changed})


def at_once(work: Callable[[], None]) -> Callable[[], None]:
    """Makes the next segment right where it is asked for."""
    work()
    return lambda: None


def numbers(records: tuple[PushRecord, ...] | list[PushRecord]) -> list[int]:
    """The numbers that `push_record` was called with."""
    return [int(record.push_id, 16) for record in records]


def poll_all(reader: PushLogReader, *, commit: bool = True, max_records: int = 1_000) -> list[int]:
    """The numbers of everything that is there now."""
    found: list[int] = []
    while (batch := poll(reader, max_records=max_records)) is not None:
        found += numbers(batch.records)
        if commit:
            reader.commit(batch)
    return found


def poll(reader: PushLogReader, *, max_bytes: int = 1 << 30, max_records: int = 1_000) -> Batch | None:
    """What is there now, without a wait."""
    return reader.poll(max_bytes, max_records, 0)


class Effects(NamedTuple):
    """What a run of a retention does to the files of its log, and to its cursors.

    Attributes:
        removed: segments that are no longer there under their names.
        set_aside: of these, the ones that were renamed.
        checkpointed: sealed segments whose write-ahead log was emptied.
        lost_records: by exporter, of those that lost any.
    """

    removed: int
    set_aside: int
    checkpointed: int
    lost_records: dict[str, int]


def run_retention(retention: Retention, path: Path, now_ms: int) -> Effects:
    """Runs the retention of the log in `path`, and looks at what has changed there."""
    segments, aside, filled, lost = _seen(path)
    retention.run(now_ms)
    segments_now, aside_now, filled_now, lost_now = _seen(path)
    return Effects(
        removed=len(segments - segments_now),
        set_aside=len(aside_now - aside),
        checkpointed=len((filled - filled_now) & {f"{name}-wal" for name in segments_now}),
        lost_records=dict(lost_now - lost),
    )


def _seen(path: Path) -> tuple[set[str], set[str], set[str], Counter[str]]:
    """Names of segments, of those set aside, and of write-ahead logs that are not empty; lost records by exporter."""
    segments, aside = ({file.name for file in path.glob(f"*.sqlite{end}")} for end in ("", ".corrupt"))
    filled = {file.name for file in path.glob("*.sqlite-wal") if file.stat().st_size}
    with closing(Cursors(path)) as cursors:
        lost = Counter({each.exporter: each.lost_by_retention + each.lost_by_damage for each in cursors.states()})
    return segments, aside, filled, lost
