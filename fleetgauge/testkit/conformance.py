"""The requirements of every exporter, also of your own, as tests to inherit (docs/develop/write-an-exporter.md).

    class TestWebhook(ExporterConformance):
        @pytest.fixture(autouse=True)
        def _destination(self):
            with Server() as self.server:
                yield

        def make(self):
            return webhook_exporter("hook", {"url": self.server.url})

        def received(self):
            return self.server.received

        def take_away(self):
            self.server.stop()

        def bring_back(self):
            self.server.start()

It needs only the standard library and a runner with plain asserts and `unittest.SkipTest`, such as pytest.
"""

import re
import threading
import time
import unittest
import uuid
from collections.abc import Sequence
from typing import Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.exporters.exporter import (
    BatchSettings,
    Delivered,
    Exporter,
    Outcome,
    Refused,
    Retry,
    RetrySettings,
    TooLarge,
)
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushIds, PushRecord, format_instance_id

WITHIN_S: Final = 20.0
"""Timeout of things that take a moment [s]; tests run on small, busy machines."""
_REASON: Final = re.compile(r"[a-z][a-z0-9_ ]{0,63}")
_STRANGE: Final = ("", "\x00\x1b[2J", 'a"b\\c\n', "\N{SNOWMAN}" * 300, "x" * 10_000, "=,;|../../etc", "2026-01-01")


class ExporterConformance:
    """The tests; a subclass makes the exporter, and controls its destination."""

    def make(self) -> Exporter:
        """A new exporter, not started, for an available destination."""
        raise NotImplementedError

    def received(self) -> Sequence[str]:
        """The client instance ids of the pushes with metrics at the destination, in their order of arrival."""
        raise NotImplementedError

    def take_away(self) -> None:
        """Makes the destination unreachable; without it the tests that need it are skipped."""
        raise unittest.SkipTest("take_away is not written for this destination")

    def bring_back(self) -> None:
        """Makes it reachable again under the same address."""
        raise unittest.SkipTest("bring_back is not written for this destination")

    def hang(self) -> None:
        """Makes the destination accept an export and never answer."""
        raise unittest.SkipTest("hang is not written for this destination")

    def test_it_says_who_it_is_and_how_it_likes_its_batches(self) -> None:
        """The pipeline reads these before `start`."""
        exporter = self.make()
        assert exporter.name
        assert isinstance(exporter.batch, BatchSettings)
        assert isinstance(exporter.retry, RetrySettings)

    def test_a_batch_arrives_whole_and_in_order(self) -> None:
        """The plainest case: every push of the batch, none twice."""
        batch = batch_of([a_push(number) for number in range(20)])
        with started(self.make()) as exporter:
            assert exporter.export(batch) == Delivered()
        assert self._arrived(batch) == [record.client_instance_id for record in batch.records]

    def test_batches_follow_each_other(self) -> None:
        """A batch does not disturb the next one."""
        batches = [batch_of([a_push(2 * number), a_push(2 * number + 1)]) for number in range(5)]
        with started(self.make()) as exporter:
            assert [exporter.export(batch) for batch in batches] == [Delivered()] * 5
        for batch in batches:
            assert self._arrived(batch) == [record.client_instance_id for record in batch.records]

    def test_a_heartbeat_is_no_fault(self) -> None:
        """A push may be empty, to signal that the client is alive. Alone or among others, nothing fails."""
        heartbeat = a_push(1)._replace(metrics=b"")
        mixed = batch_of([a_push(2), heartbeat, a_push(3)])
        with started(self.make()) as exporter:
            assert exporter.export(batch_of([heartbeat])) == Delivered()
            assert exporter.export(mixed) == Delivered()
        wanted = [mixed.records[0].client_instance_id, mixed.records[2].client_instance_id]
        assert self._arrived(batch_of([mixed.records[0], mixed.records[2]])) == wanted

    def test_a_batch_that_comes_again_is_taken_again(self) -> None:
        """Delivery is at least once: after a crash the last batch is delivered again."""
        batch = batch_of([a_push(1), a_push(2)])
        with started(self.make()) as exporter:
            assert exporter.export(batch) == Delivered()
            assert exporter.export(batch) == Delivered()
        assert set(self._arrived(batch)) == {record.client_instance_id for record in batch.records}

    def test_what_clients_call_themselves_spoils_no_batch(self) -> None:
        """Client ids, software names and addresses are untrusted text."""
        strange = [
            a_push(number)._replace(client_id=text, client_software_name=text, principal=f"User:{text}")
            for number, text in enumerate(_STRANGE)
        ]
        with started(self.make()) as exporter:
            self._check(batch_of(strange), exporter.export(batch_of(strange)))

    def test_what_a_broker_cannot_know_may_be_missing(self) -> None:
        """Through the broker plugin a push has no port, subscription, compression, size or interval."""
        unknown = a_push(1)._replace(
            client_source_port=None,
            subscription_id=None,
            push_interval_ms=None,
            compression_type=None,
            payload_bytes=None,
        )
        with started(self.make()) as exporter:
            assert exporter.export(batch_of([unknown])) == Delivered()

    def test_a_large_push_is_delivered_or_said_to_be_too_large(self) -> None:
        """About a mebibyte of metrics: no exception, and no retry, which would stop the whole log."""
        batch = batch_of([a_push(1)._replace(metrics=metrics_of("large", points=40_000))])
        with started(self.make()) as exporter:
            self._check(batch, exporter.export(batch))

    def test_metrics_that_are_none_are_delivered_or_refused_and_cost_no_other_push(self) -> None:
        """The log has only pushes that passed the node's checks, a topic may have any bytes."""
        pushes = [a_push(1), a_push(2)._replace(metrics=b"\xff\xff no protobuf"), a_push(3)]
        with started(self.make()) as exporter:
            outcomes = [(push, exporter.export(batch_of([push]))) for push in pushes]
        for push, outcome in outcomes:
            self._check(batch_of([push]), outcome)
        assert outcomes[0][1] == outcomes[2][1] == Delivered()

    def test_a_destination_that_is_away_is_a_reason_to_retry_and_nothing_else(self) -> None:
        """No exception, no rejection; when it is back, the same exporter delivers the same batch."""
        batch = batch_of([a_push(1), a_push(2)])
        with started(self.make()) as exporter:
            self.take_away()
            outcome = exporter.export(batch)
            assert isinstance(outcome, Retry), outcome
            self._check_texts(outcome.reason, outcome.detail)
            assert outcome.detail, "an operator wants to know what is wrong"
            self.bring_back()
            deadline = time.monotonic() + WITHIN_S
            while isinstance(outcome, Retry) and time.monotonic() < deadline:
                time.sleep(0.1)
                outcome = exporter.export(batch)
            assert outcome == Delivered()
        assert set(self._arrived(batch)) == {record.client_instance_id for record in batch.records}

    def test_an_exporter_that_is_made_while_its_destination_is_away_starts_later(self) -> None:
        """A node starts regardless of its destinations: `start` may raise, and is called again."""
        self.take_away()
        exporter = self.make()
        try:
            exporter.start()
        except Exception:  # noqa: BLE001  # the pipeline logs any exception, and tries again
            self.bring_back()
            exporter.start()
        else:
            self.bring_back()
        exporter.close()

    def test_close_ends_an_export_that_gets_no_answer(self) -> None:
        """A stop waits for `shutdown.timeout.ms` and then closes: the export soon raises or returns `Retry`."""
        exporter = self.make()
        exporter.start()
        self.hang()
        outcomes: list[object] = []
        running = threading.Thread(target=_export_into, args=(exporter, outcomes), daemon=True)
        running.start()
        time.sleep(0.3)  # long enough that it waits for the answer; if not, `close` must end it all the same
        exporter.close()
        running.join(WITHIN_S / 4)
        assert not running.is_alive()
        for outcome in outcomes:
            assert isinstance(outcome, Retry), f"the batch was not delivered, and is not retried: {outcome!r}"

    def test_it_may_be_closed_twice_and_without_having_started(self) -> None:
        """A stop and a failure may both close it."""
        exporter = self.make()
        exporter.close()
        exporter.close()

    def _arrived(self, batch: Batch) -> list[str]:
        """Waits for the batch; the pushes of it that the destination has, in their order of arrival."""
        wanted = {record.client_instance_id for record in batch.records}
        deadline = time.monotonic() + WITHIN_S
        arrived: list[str] = []
        while time.monotonic() < deadline:
            arrived = [instance for instance in self.received() if instance in wanted]
            if wanted <= set(arrived):
                break
            time.sleep(0.05)
        return arrived

    def _check(self, batch: Batch, outcome: Outcome) -> None:
        """Checks for delivery, or for a rejection that the pipeline can handle."""
        assert isinstance(outcome, (Delivered, Refused, TooLarge)), outcome
        if not isinstance(outcome, Delivered):
            self._check_texts(outcome.reason, outcome.detail)
            return
        ids = {record.push_id for record in batch.records}
        for refused in outcome.refused:
            assert refused.push_id in ids, "a push is refused that is not in the batch"
            self._check_texts(refused.reason, refused.detail)

    def _check_texts(self, reason: str, detail: str) -> None:
        assert _REASON.fullmatch(reason), f"a reason must be a short stable word, because it is a label: {reason!r}"
        assert isinstance(detail, str)


class started:  # noqa: N801  # reads as what it is used for: with started(exporter)
    """Starts an exporter, and closes it afterwards."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def __enter__(self) -> Exporter:
        self._exporter.start()
        return self._exporter

    def __exit__(self, *_: object) -> None:
        self._exporter.close()


_ids = PushIds()


def a_push(number: int) -> PushRecord:
    """A push with metrics, from its own client instance."""
    received_at = 1_750_000_000_000_000 + number
    metrics = metrics_of(f"push-{number}", points=3)
    return PushRecord(
        push_id=_ids.next_id(received_at),
        received_at=received_at,
        receiver_node_id=1,
        cluster_id="abcdefghijklmnopqrstuv",
        listener="PLAINTEXT",
        client_instance_id=format_instance_id(uuid.uuid4()),
        client_id=f"client-{number}",
        client_software_name="apache-kafka-java",
        client_software_version="4.0.0",
        client_source_address="127.0.0.1",
        client_source_port=45_678,
        principal="User:ANONYMOUS",
        subscription_id=-1_234_567,
        push_interval_ms=60_000,
        terminating=False,
        compression_type="zstd",
        payload_bytes=100,
        schema_version=1,
        metrics=metrics,
    )


def metrics_of(name: str, *, points: int) -> bytes:
    """Well-formed OTLP `MetricsData` with one gauge of `points` points."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=f"org.apache.kafka.{name}")
    for number in range(points):
        metric.gauge.data_points.add(as_double=float(number), time_unix_nano=1_750_000_000_000_000_000 + number)
    return data.SerializeToString()


def batch_of(records: Sequence[PushRecord]) -> Batch:
    """A batch of these records, as from the pipeline."""
    return Batch(
        exporter="conformance",
        records=tuple(records),
        first_position=f"{records[0].push_id}",
        last_position=f"{records[-1].push_id}",
        size_bytes=sum(len(record.metrics) for record in records),
    )


def _export_into(exporter: Exporter, outcomes: list[object]) -> None:
    try:
        outcomes.append(exporter.export(batch_of([a_push(1)])))
    except Exception:  # noqa: BLE001  # a closed exporter may raise anything
        return
