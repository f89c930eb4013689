"""The exporter `otlp` with `temporality` at a real gRPC server: counts go on through faults and restarts."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from support.payloads.client_series import batch_of, counter, push
from support.payloads.temporality import is_cumulative, numbers
from support.receivers.otlp_receivers import GrpcReceiver

from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.otlp.exporter import OtlpExporter, otlp_exporter

pytestmark = pytest.mark.integration


@pytest.fixture
def receiver() -> Iterator[GrpcReceiver]:
    found = GrpcReceiver()
    yield found
    found.stop()


def started(receiver: GrpcReceiver, directory: Path) -> OtlpExporter:
    keys = {"temporality": "cumulative", "state.file": str(directory / "otlp.db")}
    exporter = otlp_exporter("otlp", {"endpoint": f"http://127.0.0.1:{receiver.port}", **keys}, {})
    exporter.start()
    return exporter


def test_counts_go_on_after_a_lost_answer_and_a_restart(receiver: GrpcReceiver, tmp_path: Path) -> None:
    first, second, third = (push(n, counter(n, start=10 * n, at=10 * n + 10)) for n in (1, 2, 3))
    usual = receiver.answer

    def lost(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_code(grpc.StatusCode.UNAVAILABLE)
        return b""

    exporter = started(receiver, tmp_path)
    assert exporter.export(batch_of(first)) == Delivered()
    receiver.answer = lost
    assert isinstance(exporter.export(batch_of(second)), Retry)
    exporter.close()

    receiver.answer = usual
    again = started(receiver, tmp_path)
    assert again.export(batch_of(first, second)) == Delivered()  # the log's cursor had not moved
    assert again.export(batch_of(third)) == Delivered()
    again.close()

    assert receiver.requests[1] == receiver.requests[2]
    assert numbers(receiver.requests) == [(1, 10, 20), (3, 10, 30), (3, 10, 30), (6, 10, 40)]
    assert is_cumulative(receiver.requests)


def test_an_exporter_that_is_closed_waits(receiver: GrpcReceiver, tmp_path: Path) -> None:
    exporter = started(receiver, tmp_path)
    exporter.close()
    assert isinstance(exporter.export(batch_of(push(1, counter(1, at=10)))), Retry)
    assert receiver.requests == []
