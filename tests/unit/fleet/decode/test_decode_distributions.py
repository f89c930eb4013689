"""What histograms, exponential histograms and summaries hold, as both readers have it."""

import math
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData
from support.fleet.decoded import senders_of
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.decode import by_bytes, by_protobuf
from fleetgauge.fleet.decode.dialects import Sender
from fleetgauge.fleet.decode.flat import Reader
from fleetgauge.fleet.decode.payloads import count, decode
from fleetgauge.fleet.schemas import DISTRIBUTION

READERS = [pytest.param(by_bytes.read, id="bytes"), pytest.param(by_protobuf.read, id="protobuf")]
NOTHING = dict.fromkeys(DISTRIBUTION.names)


def payload(*metrics: Metric) -> bytes:
    data = MetricsData()
    data.resource_metrics.add().scope_metrics.add().metrics.extend(metrics)
    return data.SerializeToString()


def distributions(content: bytes, reader: Reader) -> list[Any]:
    """Of each point; None for a number."""
    lists = decode([content], reader=reader).columns["distribution"].to_pylist()
    assert all(each is None or len(each) == 1 for each in lists)
    return [each and each[0] for each in lists]


@pytest.mark.parametrize("reader", READERS)
def test_a_histogram_keeps_bounds_buckets_and_extremes(reader: Reader) -> None:
    metric = Metric(name="h")
    metric.histogram.data_points.add(
        count=3, sum=7.5, min=0.5, max=6.0, explicit_bounds=[1, 5], bucket_counts=[1, 1, 1]
    )
    metric.histogram.data_points.add(count=1)
    full, bare = distributions(payload(metric), reader)
    assert full == NOTHING | {"min": 0.5, "max": 6.0, "bounds": [1.0, 5.0], "bucket_counts": [1, 1, 1]}
    assert bare == NOTHING | {"bounds": [], "bucket_counts": []}


@pytest.mark.parametrize("reader", READERS)
def test_an_exponential_histogram_keeps_scale_zero_bucket_and_both_ranges(reader: Reader) -> None:
    metric = Metric(name="e")
    point = metric.exponential_histogram.data_points.add(count=9, scale=-2, zero_count=4, zero_threshold=0.25, min=-3.0)
    point.positive.offset = -1
    point.positive.bucket_counts.extend([2, 0, 1])
    point.negative.offset = 3
    point.negative.bucket_counts.extend([2])
    metric.exponential_histogram.data_points.add(count=1)
    full, bare = distributions(payload(metric), reader)
    assert full == NOTHING | {
        "min": -3.0,
        "scale": -2,
        "zero_count": 4,
        "zero_threshold": 0.25,
        "positive_offset": -1,
        "bucket_counts": [2, 0, 1],
        "negative_offset": 3,
        "negative_bucket_counts": [2],
    }
    assert bare == NOTHING | {"scale": 0, "zero_count": 0, "zero_threshold": 0.0}


@pytest.mark.parametrize("reader", READERS)
def test_a_summary_keeps_its_quantiles_and_nan_is_null(reader: Reader) -> None:
    metric = Metric(name="s")
    point = metric.summary.data_points.add(count=2, sum=3.0)
    point.quantile_values.add(quantile=0.5, value=1.5)
    point.quantile_values.add(quantile=1.0, value=math.nan)
    (found,) = distributions(payload(metric), reader)
    assert found == NOTHING | {"quantiles": [0.5, 1.0], "quantile_values": [1.5, None]}


@pytest.mark.parametrize("reader", READERS)
def test_a_count_that_no_signed_number_holds_is_null(reader: Reader) -> None:
    metric = Metric(name="h")
    metric.histogram.data_points.add(count=1, bucket_counts=[2**63, 2**63 - 1])
    (found,) = distributions(payload(metric), reader)
    assert found["bucket_counts"] == [None, 2**63 - 1]


@pytest.mark.parametrize("reader", READERS)
def test_kinds_in_one_payload_keep_their_own(reader: Reader) -> None:
    gauge, histogram = Metric(name="g"), Metric(name="h")
    gauge.gauge.data_points.add(as_double=1.0)
    histogram.histogram.data_points.add(count=1, max=2.0)
    found = distributions(payload(gauge, histogram, gauge), reader)
    assert [each and each["max"] for each in found] == [None, 2.0, None]


@pytest.mark.parametrize("reader", READERS)
def test_points_of_one_identity_in_one_push_are_numbered(reader: Reader) -> None:
    """librdkafka's logical brokers are all -1; the next push begins anew."""
    push = dialect.librdkafka_producer([(-1, 1.0), (1, 2.0), (-1, 3.0), (-1, 4.0)])
    columns = decode([push, push], reader=reader).columns
    names, numbers = (columns[name].to_pylist() for name in ("metric_name", "occurrence"))
    averages = [number for name, number in zip(names, numbers, strict=True) if name == dialect.PRODUCER_AVG]
    assert averages == [0, 0, 1, 2] * 2


@pytest.mark.parametrize("reader", READERS)
def test_points_of_one_identity_and_several_times_are_one_series(reader: Reader) -> None:
    metric = Metric(name="requests")
    for at, value in ((20, 20.0), (10, 10.0), (20, 21.0), (30, 30.0)):
        metric.gauge.data_points.add(as_double=value, time_unix_nano=at)
    columns = decode([payload(metric)], reader=reader).columns
    assert columns["occurrence"].to_pylist() == [0, 0, 1, 0]


@pytest.mark.parametrize("reader", READERS)
def test_a_distribution_without_a_recorded_value_is_null(reader: Reader) -> None:
    explicit, exponential, summary = Metric(name="h"), Metric(name="e"), Metric(name="s")
    explicit.histogram.data_points.add(flags=1)
    explicit.histogram.data_points.add(count=2, sum=3.0, flags=2)
    exponential.exponential_histogram.data_points.add(flags=1)
    summary.summary.data_points.add(flags=1)
    columns = decode([payload(explicit, exponential, summary)], reader=reader).columns
    assert columns["count"].to_pylist() == [None, 2, None, None]
    assert columns["sum"].to_pylist() == [None, 3.0, None, None]
    assert [found is None for found in columns["distribution"].to_pylist()] == [True, False, True, True]


@pytest.mark.parametrize("reader", READERS)
def test_a_count_knows_the_sender_of_each_push_and_sets_the_same_aside_as_decoding(reader: Reader) -> None:
    payloads = [
        b"",
        dialect.java_consumer(["a.b"], group="billing", member="m-1"),
        dialect.MALFORMED,
        dialect.java_producer({"node-1": 1.0}),
    ]
    counted = count(payloads, reader=reader)
    sent = zip(counted.payloads.tolist(), counted.points.tolist(), senders_of(counted), strict=True)
    assert {push: (points, sender) for push, points, sender in sent} == {
        0: (0, None),
        1: (4, Sender(client_rack="eu-1a", group_id="billing", group_member_id="m-1", role="consumer")),
        3: (3, Sender(role="producer")),
    }
    assert counted.reasons == decode(payloads, reader=reader).reasons
    assert set(counted.reasons) == {2}
