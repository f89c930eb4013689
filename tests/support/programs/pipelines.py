"""A log and a destination that do as a test says, and a pipeline between them on a clock that only its pauses move."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.delivery.pipeline import Pipeline
from fleetgauge.exporters.exporter import BatchSettings, Delivered, Outcome, RetrySettings
from fleetgauge.push_log.log import Batch, Lag
from fleetgauge.telemetry.push_record import PushRecord

RECORD = PushRecord(
    push_id="", received_at=1, receiver_node_id=7, cluster_id="c", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.0.0.1", client_source_port=1, principal="User:a",
    subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd", payload_bytes=1,
    schema_version=1, metrics=b"12345",
)  # fmt: skip


def records(count: int) -> list[PushRecord]:
    return [RECORD._replace(push_id=f"{number:032x}") for number in range(count)]


class Log:
    """A log of these records, in batches; `idle` is called when there is nothing more, as a poll that waited."""

    exporter = "test"

    def __init__(self, *batches: Sequence[PushRecord], idle: Callable[[], None] = lambda: None) -> None:
        self.batches = [tuple(batch) for batch in batches]
        self.committed: list[str] = []
        self.poll_errors: list[Exception] = []
        self.commit_errors: list[Exception] = []
        self.idle = idle
        self.lingers: list[int] = []
        self.lost: set[str] = set()
        self.closed = False
        self.before_commit: Callable[[], None] = lambda: None

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        self.lingers.append(max_wait_ms)
        if self.poll_errors:
            raise self.poll_errors.pop(0)
        if not self.batches:
            self.idle()
            return None
        found = self.batches.pop(0)
        return Batch(
            exporter="test", records=found, first_position=found[0].push_id, last_position=found[-1].push_id,
            size_bytes=sum(len(record.metrics) for record in found),
        )  # fmt: skip

    def owned(self, batch: Batch) -> Batch | None:
        kept = tuple(record for record in batch.records if record.push_id not in self.lost)
        return replace(batch, records=kept) if kept else None

    def commit(self, batch: Batch) -> int:
        self.before_commit()
        if self.commit_errors:
            raise self.commit_errors.pop(0)
        self.committed.append(batch.last_position)
        return sum(record.push_id in self.lost for record in batch.records)

    def wakeup(self) -> None: ...

    def lag(self) -> Lag:
        return Lag(records=0, bytes=0, oldest_received_at=None)

    def close(self) -> None:
        self.closed = True


class Destination:
    """Answers what `decide` says; `got` are the push ids of every export that was delivered."""

    name = "test"
    batch = BatchSettings(max_bytes=1_000, max_records=100, linger_ms=60_000)
    retry = RetrySettings(backoff_ms=100, backoff_max_ms=800)
    takes_any_payload = True

    def __init__(self, decide: Callable[[Batch], Outcome] = lambda batch: Delivered()) -> None:
        self.decide = decide
        self.exports = 0
        self.got: list[str] = []
        self.start_errors: list[Exception] = []
        self.closed = 0

    def start(self) -> None:
        if self.start_errors:
            raise self.start_errors.pop(0)

    def export(self, batch: Batch) -> Outcome:
        self.exports += 1
        outcome = self.decide(batch)
        if isinstance(outcome, Delivered):
            refused = {record.push_id for record in outcome.refused}
            self.got += [record.push_id for record in batch.records if record.push_id not in refused]
        return outcome

    def close(self) -> None:
        self.closed += 1


class Rig:
    """A pipeline that runs in the test's own thread until its log is empty."""

    def __init__(self, log: Log, destination: Destination, **chosen: Any) -> None:
        self.time = MockTime()
        self.pauses: list[int] = []
        self.log = log
        self.destination = destination
        log.idle = lambda: self.pipeline.request_stop(0)
        self.pipeline = Pipeline(log, destination, time=self.time, random=lambda: 0.5, pause=self.pause, **chosen)

    def pause(self, wait_ms: int) -> None:
        self.pauses.append(wait_ms)
        self.time.sleep(wait_ms)

    def run(self) -> "Rig":
        self.pipeline.run()
        return self


def answers(*outcomes: Outcome | Exception) -> Callable[[Batch], Outcome]:
    """These answers one after the other, then success."""
    left = list(outcomes)

    def decide(batch: Batch) -> Outcome:
        answer = left.pop(0) if left else Delivered()
        if isinstance(answer, Exception):
            raise answer
        return answer

    return decide


def refuses(unwanted: set[str], outcome: Outcome) -> Callable[[Batch], Outcome]:
    return lambda batch: outcome if unwanted & {record.push_id for record in batch.records} else Delivered()
