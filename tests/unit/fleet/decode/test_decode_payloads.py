import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData, NumberDataPoint
from support.fleet.decoded import senders_of
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.decode import by_bytes, by_protobuf
from fleetgauge.fleet.decode.flat import Reader
from fleetgauge.fleet.decode.payloads import CountedPayloads, DecodedPayloads, count, decode, decode_and_count
from fleetgauge.fleet.schemas import DECODED

RECORDED = Path(__file__).parents[3] / "spark" / "recorded" / "broker"
COMMIT_LATENCY = "org.apache.kafka.consumer.coordinator.commit.latency.avg"
READERS = [pytest.param(by_bytes.read, id="bytes"), pytest.param(by_protobuf.read, id="protobuf")]


def rows(payloads: list[bytes], reader: Reader, names: frozenset[str] | None = None) -> list[dict[str, Any]]:
    """All points as dicts, `push` the index of the payload."""
    return rows_of(decode(payloads, names, reader=reader))


def rows_of(decoded: DecodedPayloads) -> list[dict[str, Any]]:
    columns = {name: column.to_pylist() for name, column in decoded.columns.items()}
    return [
        {"push": push} | {name: values[index] for name, values in columns.items()}
        for index, push in enumerate(decoded.push_of.tolist())
    ]


def reasons(payloads: list[bytes], reader: Reader) -> dict[int, str]:
    return decode(payloads, reader=reader).reasons


def recorded_payloads() -> list[bytes]:
    """What real clients pushed to a real broker."""
    columns: list[Any] = [pq.read_table(path).column("metrics") for path in sorted(RECORDED.rglob("*.parquet"))]
    return [payload for column in columns for payload in column.to_pylist()]


def submessage(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def one_metric(content: bytes) -> bytes:
    return submessage(1, submessage(2, submessage(2, content)))


@pytest.mark.parametrize("reader", READERS)
def test_a_java_producers_links_become_nodes_and_its_nan_null(reader: Reader) -> None:
    found = rows([dialect.java_producer({"node-1": 4.0, "node-+2": 9.0, "node--1": math.nan})], reader)
    averages = [row for row in found if row["metric_name"] == dialect.PRODUCER_AVG]
    assert [(row["node_id"], row["coordinator"], row["value"]) for row in averages] == [
        (1, False, 4.0),
        (2, True, 9.0),
        (-1, False, None),
    ]
    assert dict(averages[1]["attributes"]) == {"node_id": "node-+2"}


@pytest.mark.parametrize("reader", READERS)
def test_a_sum_keeps_its_temporality_and_times(reader: Reader) -> None:
    (total,) = [row for row in rows([dialect.java_producer({})], reader) if row["metric_name"] == dialect.CONNECTIONS]
    assert (total["metric_type"], total["temporality"], total["is_monotonic"]) == ("sum", "delta", True)
    assert (total["start_time_unix_nano"], total["time_unix_nano"]) == (dialect.START_NANO, dialect.TIME_NANO)
    assert total["value"] == 3.0


@pytest.mark.parametrize("reader", READERS)
def test_the_doubled_metrics_of_dotted_topics_are_kept_and_marked(reader: Reader) -> None:
    found = rows([dialect.java_consumer(["a.b", "c_d"])], reader)
    lags = [(row["topic"], row["twin"]) for row in found if row["metric_name"] == dialect.LAG]
    assert lags == [(None, False), ("a.b", False), ("a_b", True), ("c_d", False)]


@pytest.mark.parametrize("reader", READERS)
def test_an_underscored_topic_of_an_older_consumer_is_no_twin_of_another_push(reader: Reader) -> None:
    payloads = [dialect.java_consumer(["a.b"]), dialect.java_consumer(["a_b"])]
    twins = [(row["push"], row["topic"]) for row in rows(payloads, reader) if row["twin"]]
    assert twins == [(0, "a_b")]


@pytest.mark.parametrize("reader", READERS)
def test_a_twin_has_the_name_of_its_original(reader: Reader) -> None:
    data = MetricsData()
    dialect.java_metric(data, "lag", 1.0, {"topic": "a.b"}, resource={})
    dialect.java_metric(data, "lead", 1.0, {"topic": "a_b"}, resource={})
    assert [row["twin"] for row in rows([data.SerializeToString()], reader)] == [False, False]


@pytest.mark.parametrize("reader", READERS)
def test_a_group_is_read_from_the_resource_where_the_point_has_none(reader: Reader) -> None:
    (first, *_) = rows([dialect.java_consumer([], group="billing", member="m-9")], reader)
    assert (first["group_id"], first["group_member_id"]) == ("billing", "m-9")
    assert dict(first["resource"])["client_rack"] == "eu-1a"
    (row,) = rows([dialect.librdkafka_consumer(member="r-1")], reader)
    assert (row["group_member_id"], row["value"]) == ("r-1", 4.0)


@pytest.mark.parametrize("reader", READERS)
def test_librdkafka_and_franz_go_numbers_are_doubles_and_their_nodes_ints(reader: Reader) -> None:
    found = rows([dialect.librdkafka_producer([(1, 2.5), (-1, 0.0)]), dialect.franz_go({3: 7.5})], reader)
    assert [(row["push"], row["node_id"], row["value"]) for row in found] == [
        (0, 1, 2.5),
        (0, 1, 3.0),
        (0, -1, 0.0),
        (0, -1, 0.0),
        (1, 3, 7.5),
    ]
    assert [row["scope_name"] for row in found[-2:]] == ["rd#producer-1", "kgo"]
    assert dict(found[0]["attributes"]) == {"node.id": "1"}


@pytest.mark.parametrize("reader", READERS)
def test_scope_service_and_unit_set_points_apart(reader: Reader) -> None:
    """Those of one name, attributes and time are further occurrences only if all of it is equal."""
    data = MetricsData()
    for service in ("", "shop"):
        resource = data.resource_metrics.add()
        if service:
            resource.resource.attributes.add(key="service.name").value.string_value = service
        resource.resource.attributes.add(key="group_member_id").value.string_value = "m"
        for scope in ("io.a", "rdkafka#producer-1"):
            of_scope = resource.scope_metrics.add()
            of_scope.scope.name = scope
            for name, unit in ((COMMIT_LATENCY, "s"), (COMMIT_LATENCY, "ms"), ("app.latency", "s")):
                of_scope.metrics.add(name=name, unit=unit).gauge.data_points.add(as_double=0.5)
    found = rows([data.SerializeToString()], reader)
    assert [row["value"] for row in found[:3]] == [500.0, 0.5, 0.5]
    assert [row["unit"] for row in found[:3]] == [None, None, "s"]
    assert [row["occurrence"] for row in found] == [0, 1, 0] * 4
    origins = [row["origin"] and json.loads(row["origin"]) for row in found[::3]]
    assert origins == [
        {"otel.scope.name": "io.a"},
        None,
        {"otel.scope.name": "io.a", "service.name": "shop"},
        {"service.name": "shop"},
    ]


@pytest.mark.parametrize("reader", READERS)
def test_points_are_numbered_within_their_push(reader: Reader) -> None:
    payloads = [dialect.franz_go({1: 1.0, 2: 2.0}), b"", dialect.franz_go({3: 3.0})]
    found = [(row["push"], row["point_index"]) for row in rows(payloads, reader)]
    assert found == [(0, 0), (0, 1), (2, 0)]


@pytest.mark.parametrize("reader", READERS)
def test_a_malformed_payload_is_set_aside_alone(reader: Reader) -> None:
    good = dialect.franz_go({1: 1.0})
    payloads = [good, good, dialect.MALFORMED, good, b"", dialect.MALFORMED]
    assert [row["push"] for row in rows(payloads, reader)] == [0, 1, 3]
    found = reasons(payloads, reader)
    assert found.keys() == {2, 5}
    assert all(reason.startswith("malformed OTLP MetricsData: ") for reason in found.values())


@pytest.mark.parametrize("reader", READERS)
def test_a_tag_of_more_than_32_bits_is_malformed_to_both_readers(reader: Reader) -> None:
    """A reader that took it would find points: the fixed64 field hides the rest until the tag `f0 90 80 80 3a`."""
    overlong = b"\x11\x0f\x12\x0d\x12\x0b\x0a\x07000\xf0\x90\x80\x80:\x00"
    good = dialect.franz_go({1: 1.0})
    assert reasons([good, overlong, good], reader).keys() == {1}
    assert [row["push"] for row in rows([good, overlong, good], reader)] == [0, 2]


@pytest.mark.parametrize("reader", READERS)
def test_a_malformed_attribute_or_resource_sets_its_whole_push_aside(reader: Reader) -> None:
    broken_attribute = one_metric(
        submessage(1, b"m") + submessage(5, submessage(1, submessage(7, b"\x0a\x05a")) + submessage(1, b""))
    )
    broken_resource = submessage(1, submessage(1, b"\x0a\x05a"))
    payloads = [dialect.franz_go({1: 1.0}), broken_attribute, broken_resource]
    assert [row["push"] for row in rows(payloads, reader)] == [0]
    found = reasons(payloads, reader)
    assert found[1].startswith("malformed OTLP MetricsData: ")
    assert found[2].startswith("malformed OTLP MetricsData: ")


@pytest.mark.parametrize("reader", READERS)
def test_of_two_members_of_a_oneof_the_last_one_counts(reader: Reader) -> None:
    point = NumberDataPoint(as_int=1).SerializeToString()
    both_kinds = one_metric(submessage(1, b"m") + submessage(5, submessage(1, point)) + submessage(7, b""))
    both_values = one_metric(submessage(5, submessage(1, NumberDataPoint(as_double=2).SerializeToString() + point)))
    assert rows([both_kinds], reader) == []
    assert [row["value"] for row in rows([both_values, both_values], reader)] == [1.0, 1.0]


@pytest.mark.parametrize("reader", READERS)
def test_a_resource_in_pieces_is_one_resource(reader: Reader) -> None:
    labelled = MetricsData.FromString(dialect.java_consumer([]))
    pieces = labelled.resource_metrics[0].SerializeToString()
    extra = MetricsData()
    extra.resource_metrics.add().resource.attributes.append(dialect.attribute("client_id", "app"))
    joined = pieces + extra.resource_metrics[0].SerializeToString()
    payload = b"\x0a" + bytes([len(joined) & 0x7F | 0x80, len(joined) >> 7]) + joined
    (row, *_) = rows([payload], reader)
    assert dict(row["resource"]).keys() == {"group_id", "group_member_id", "client_rack", "client_id"}


@pytest.mark.parametrize("reader", READERS)
def test_only_the_named_metrics_are_made(reader: Reader) -> None:
    payloads = [dialect.java_consumer(["a.b"]), dialect.librdkafka_producer([(1, 2.5)])]
    found = rows(payloads, reader, frozenset({dialect.PRODUCER_AVG, "absent"}))
    assert [(row["push"], row["metric_name"], row["point_index"]) for row in found] == [(1, dialect.PRODUCER_AVG, 0)]


def test_histograms_and_summaries_have_count_and_sum_and_no_value() -> None:
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="h").histogram.data_points.add(count=3, sum=1.5)
    metrics.add(name="e").exponential_histogram.data_points.add(count=4)
    metrics.add(name="s").summary.data_points.add(count=5, sum=2.5)
    found = [
        (row["metric_type"], row["value"], row["count"], row["sum"])
        for row in rows([data.SerializeToString()], by_bytes.read)
    ]
    assert found == [
        ("histogram", None, 3, 1.5),
        ("exponential_histogram", None, 4, None),
        ("summary", None, 5, 2.5),
    ]


def test_a_point_flagged_as_not_recorded_has_no_value() -> None:
    data = MetricsData()
    points = data.resource_metrics.add().scope_metrics.add().metrics.add(name="g").gauge.data_points
    points.add(as_double=1.0, flags=1)
    points.add(as_double=2.0, flags=2)
    assert [row["value"] for row in rows([data.SerializeToString()], by_bytes.read)] == [None, 2.0]


@pytest.mark.slow
def test_without_compiled_modules_the_same_rows_come_from_protobufs_own_classes() -> None:
    """As on an executor that has the code alone, without `librt`."""
    payload = dialect.java_consumer(["a.b"])
    script = f"""import sys
sys.modules["librt"] = None
from fleetgauge.fleet.decode.payloads import decode
decoded = decode([bytes.fromhex({payload.hex()!r})])
print(decoded.columns["topic"].to_pylist())
"""
    root = str(Path(__file__).parents[4])
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONSAFEPATH": "1"}
    ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == str([row["topic"] for row in rows([payload], by_bytes.read)]), ran.stderr


@pytest.mark.parametrize("reader", READERS)
def test_payloads_that_are_read_once_give_what_decoding_and_counting_give(reader: Reader) -> None:
    data = MetricsData()
    resource = data.resource_metrics.add()
    resource.resource.attributes.append(dialect.attribute("group_id", "billing"))
    metrics = resource.scope_metrics.add().metrics
    metrics.add(name="total").sum.data_points.add(as_int=7)
    metrics.add(name="now").gauge.data_points.add(as_double=1.5)
    metrics.add(name="h").histogram.data_points.add(count=3, sum=1.5)
    metrics.add(name="now").gauge.data_points.add(as_double=2.5)
    payloads = [data.SerializeToString(), b"", dialect.MALFORMED, dialect.java_consumer(["a.b"])]
    decoded, counted = decode_and_count(payloads, reader=reader)
    assert rows_of(decoded) == rows(payloads, reader)
    of_sent = [row["metric_name"] for row in rows_of(decoded) if row["push"] == 0]
    assert sorted(of_sent) == ["h", "now", "now", "total"], "nothing would be compared"

    def counts(found: CountedPayloads) -> dict[int, tuple[int, str | None]]:
        sent = zip(found.payloads.tolist(), found.points.tolist(), senders_of(found), strict=True)
        return {push: (points, sender.group_id if sender else None) for push, points, sender in sent}

    assert counts(counted) == counts(count(payloads, reader=reader))
    assert counts(counted)[0] == (4, "billing")
    assert decoded.reasons.keys() == counted.reasons.keys() == {2}


def named(*names: str) -> bytes:
    data = MetricsData()
    for name in names:
        metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=f"org.apache.kafka.{name}")
        metric.gauge.data_points.add(as_double=1.0)
    return data.SerializeToString()


@pytest.mark.parametrize("reader", READERS)
def test_the_names_of_its_metrics_tell_the_role_of_a_client(reader: Reader) -> None:
    expected = {
        dialect.java_producer({"node-1": 1.0}): "producer",
        dialect.java_consumer(["a.b"]): "consumer",
        named("consumer.io.ratio", "consumer.share.poll.idle.ratio.avg", "consumer.io.wait.ratio"): "share-consumer",
        named("stream.thread.poll.ratio", "consumer.io.ratio"): "consumer",
        named("admin.client.io.ratio", "stream.alive.stream.threads"): "admin",
        named("stream.alive.stream.threads"): "streams",
        named("app.info.start.time.ms", "consumerlike"): None,
        b"": None,
    }
    counted = count(list(expected), reader=reader)
    assert [sender and sender.role for sender in senders_of(counted)] == list(expected.values())


@pytest.mark.parametrize("kind", ["histogram", "exponential_histogram", "summary"])
@pytest.mark.parametrize("reader", READERS)
def test_a_number_and_an_empty_distribution_in_one_metric_are_a_conflict_that_the_last_one_wins(
    reader: Reader, kind: str
) -> None:
    number = Metric(name="m")
    number.gauge.data_points.add(as_double=1.0)
    distribution = Metric()
    getattr(distribution, kind).SetInParent()
    first_a_number = one_metric(number.SerializeToString() + distribution.SerializeToString())
    last_a_number = one_metric(distribution.SerializeToString() + number.SerializeToString())
    assert [row["push"] for row in rows([first_a_number, last_a_number], reader)] == [1]


def test_points_stay_in_order_where_the_fast_reader_leaves_a_payload_to_the_slow_one() -> None:
    good = dialect.franz_go({1: 1.0})
    with_a_group = good + b"\x7b\x08\x01\x7c"
    assert by_bytes.read([good, with_a_group, good])[1].keys() == {1}
    assert [row["push"] for row in rows([good, with_a_group, dialect.MALFORMED, good], by_bytes.read)] == [0, 1, 3]


@pytest.mark.parametrize("reader", READERS)
def test_an_arrow_array_and_any_slice_of_one_are_read_as_the_list_is(reader: Reader) -> None:
    payloads = [dialect.java_consumer(["a.b"]), dialect.MALFORMED, b"", dialect.librdkafka_producer([(1, 2.5)])]
    array = pa.array([dialect.franz_go({1: 1.0}), *payloads, dialect.MALFORMED], pa.binary()).slice(1, len(payloads))
    of_array = decode(array, reader=reader)
    assert rows_of(of_array) == rows(payloads, reader)
    assert of_array.reasons.keys() == {1}


def texts(decoded: DecodedPayloads) -> dict[str, Any]:
    """The columns, texts in full: their dictionaries may have another order."""
    return {name: column.cast(DECODED.field(name).type) for name, column in decoded.columns.items()}


def test_both_readers_give_equal_columns_of_what_real_clients_pushed() -> None:
    payloads = recorded_payloads()
    ((fast, counted), (slow, counted_slow)) = (
        decode_and_count(payloads, reader=reader) for reader in (by_bytes.read, by_protobuf.read)
    )
    assert len(fast.push_of) > 10_000, "nothing would be compared"
    assert fast.push_of.tolist() == slow.push_of.tolist()
    assert [name for name, column in texts(fast).items() if not column.equals(texts(slow)[name])] == []
    assert senders_of(counted) == senders_of(counted_slow)
    assert counted.points.tolist() == counted_slow.points.tolist()


def test_a_push_with_a_distribution_changes_nothing_about_those_read_with_it() -> None:
    metrics = MetricsData()
    metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="h")
    metric.histogram.data_points.add(count=3, sum=1.5, explicit_bounds=[1.0], bucket_counts=[1, 2])
    payloads = recorded_payloads()[:20]
    alone = decode(payloads, reader=by_bytes.read)
    together = decode([*payloads, metrics.SerializeToString()], reader=by_bytes.read)
    assert together.columns["distribution"][-1].as_py()[0]["bucket_counts"] == [1, 2]
    points = len(alone.push_of)
    assert len(together.push_of) == points + 1
    first = {name: column[:points] for name, column in texts(together).items()}
    assert [name for name, column in texts(alone).items() if not first[name].equals(column)] == []
