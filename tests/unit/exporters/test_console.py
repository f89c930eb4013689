"""Pushes on the console: a line for people, or JSON."""

import io
import json

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from support.payloads.payloads import metrics_data
from support.payloads.real_pushes import real_pushes
from support.programs.push_log import push_record

from fleetgauge.exporters.console import ConsoleExporter, ConsoleSettings
from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord


def written(*records: PushRecord, form: str = "line") -> list[str]:
    stream = io.StringIO()
    exporter = ConsoleExporter("console", ConsoleSettings(format=form), stream=stream)
    exporter.start()
    assert exporter.export(batch_of(*records)) == Delivered()
    return stream.getvalue().splitlines()


def batch_of(*records: PushRecord) -> Batch:
    return Batch(exporter="console", records=records, first_position="1", last_position="1", size_bytes=1)


def test_a_push_is_one_line_that_says_who_sent_how_much() -> None:
    payload = metrics_data(3)
    [line] = written(push_record(2, payload))
    assert line == (
        "2025-06-15T15:06:40.000Z client-2 (Tm-1TLjmRReIm-FbmcCcIA, librdkafka 2.10.1) User:ANONYMOUS "
        f"from 127.0.0.1:45678: 3 metrics, 3 points, {len(payload)} B"
    )


def test_heartbeats_and_last_pushes_say_so() -> None:
    [line] = written(push_record(1, b"", client_source_port=None))
    assert line.endswith("from 127.0.0.1: heartbeat, terminating")


def test_no_client_writes_lines_or_commands_of_its_own_to_the_terminal() -> None:
    [line] = written(push_record(2, b"", client_id="a\nb\x1b[2J\u202e", principal="User:\x07"))
    assert r"a\nb\x1b[2J\u202e" in line
    assert line.isprintable()


def test_json_has_every_field_and_the_metrics_of_real_clients_in_otlps_own_json() -> None:
    records = [push_record(number, payload) for number, payload in enumerate(real_pushes())]
    found = [json.loads(line) for line in written(*records, form="json")]
    assert [each["push_id"] for each in found] == [record.push_id for record in records]
    assert found[0].keys() == set(PushRecord._fields)
    metrics = [
        metric
        for each in found
        for resource in each["metrics"]["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
    ]
    assert "org.apache.kafka.consumer.connection.creation.rate" in {metric["name"] for metric in metrics}
    sums = [metric["sum"] for metric in metrics if "sum" in metric]
    assert {each["aggregationTemporality"] for each in sums} == {AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA}


@pytest.mark.parametrize("form", ["line", "json"])
def test_a_push_that_cannot_be_read_is_left_out_and_the_rest_is_told(form: str) -> None:
    stream = io.StringIO()
    exporter = ConsoleExporter("console", ConsoleSettings(format=form), stream=stream)
    bad, timeless = push_record(1, b"\xff\xff"), push_record(2, b"")._replace(received_at=2**62)
    outcome = exporter.export(batch_of(bad, push_record(3, b""), timeless))
    assert isinstance(outcome, Delivered)
    assert [refused.push_id for refused in outcome.refused] == [bad.push_id, timeless.push_id]
    assert len(stream.getvalue().splitlines()) == 1


def test_a_stream_that_is_gone_is_tried_again() -> None:
    stream = io.StringIO()
    stream.close()
    exporter = ConsoleExporter("console", ConsoleSettings(), stream=stream)
    outcome = exporter.export(batch_of(push_record(1, b"")))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "io"
