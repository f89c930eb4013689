"""Both readers of payloads, and opentelemetry-proto's own classes as the oracle, find the same data points."""

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from support.payloads.payloads import with_library_metrics

from fleetgauge.fleet.decode import by_bytes, by_protobuf
from fleetgauge.fleet.decode.flat import Reader
from fleetgauge.fleet.decode.payloads import DecodedPayloads, decode
from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.series import origin_of

KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")

texts = st.text(max_size=4)
topics = st.sampled_from(["a.b", "a_b", "a.b_c", "a_b_c", "t"])
int64s = st.integers(-(2**63), 2**63 - 1)
uint64s = st.one_of(st.just(0), st.integers(0, 2**64 - 1))
doubles = st.floats()


def named_scope(name: str, version: str, many: list[otlp.Metric]) -> otlp.ScopeMetrics:
    result = otlp.ScopeMetrics(metrics=many)
    result.scope.name, result.scope.version = name, version
    return result


def any_values() -> st.SearchStrategy[AnyValue]:
    plain = st.one_of(
        st.just(AnyValue()),
        st.builds(AnyValue, string_value=texts),
        st.builds(AnyValue, int_value=int64s),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, double_value=doubles),
        st.builds(AnyValue, bytes_value=st.binary(max_size=3)),
    )
    nested = st.one_of(
        st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(plain, max_size=2))),
        st.builds(
            AnyValue,
            kvlist_value=st.builds(
                KeyValueList, values=st.lists(st.builds(KeyValue, key=texts, value=plain), max_size=2)
            ),
        ),
    )
    return st.one_of(plain, nested)


attributes = st.lists(
    st.one_of(
        st.builds(KeyValue, key=st.one_of(texts, st.sampled_from(["node_id", "partition"])), value=any_values()),
        st.builds(KeyValue, key=st.just("topic"), value=st.builds(AnyValue, string_value=topics)),
    ),
    max_size=4,
)
times = {"start_time_unix_nano": uint64s, "time_unix_nano": uint64s, "attributes": attributes}
number_points = st.lists(
    st.one_of(
        st.builds(otlp.NumberDataPoint, as_double=doubles, flags=st.integers(0, 3), **times),
        st.builds(otlp.NumberDataPoint, as_int=int64s, **times),
        st.builds(otlp.NumberDataPoint, **times),
    ),
    max_size=3,
)


def distribution_points(kind: type[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(
        st.one_of(st.builds(kind, count=uint64s, sum=doubles, **times), st.builds(kind, count=uint64s, **times)),
        max_size=2,
    )


temporalities = st.integers(0, 3)
metrics = st.one_of(
    st.builds(otlp.Metric, name=texts, unit=texts),
    st.builds(
        otlp.Metric,
        name=st.sampled_from(["m", "n"]),
        unit=texts,
        description=texts,
        gauge=st.builds(otlp.Gauge, data_points=number_points),
    ),
    st.builds(
        otlp.Metric,
        name=texts,
        sum=st.builds(
            otlp.Sum, data_points=number_points, is_monotonic=st.booleans(), aggregation_temporality=temporalities
        ),
    ),
    st.builds(
        otlp.Metric,
        name=texts,
        histogram=st.builds(
            otlp.Histogram,
            data_points=distribution_points(otlp.HistogramDataPoint),
            aggregation_temporality=temporalities,
        ),
    ),
    st.builds(
        otlp.Metric,
        name=texts,
        exponential_histogram=st.builds(
            otlp.ExponentialHistogram,
            data_points=distribution_points(otlp.ExponentialHistogramDataPoint),
            aggregation_temporality=temporalities,
        ),
    ),
    st.builds(
        otlp.Metric,
        name=texts,
        summary=st.builds(otlp.Summary, data_points=distribution_points(otlp.SummaryDataPoint)),
    ),
)
scopes = st.one_of(
    st.builds(otlp.ScopeMetrics, metrics=st.lists(metrics, max_size=3)),
    st.builds(named_scope, texts, texts, st.lists(metrics, max_size=3)),
)
resources = st.one_of(st.none(), st.builds(Resource, attributes=attributes))
payloads = st.builds(
    lambda parts: otlp.MetricsData(resource_metrics=parts).SerializeToString(),
    st.lists(
        st.builds(otlp.ResourceMetrics, resource=resources, scope_metrics=st.lists(scopes, max_size=2)), max_size=3
    ),
)


def rows(decoded: DecodedPayloads) -> list[dict[str, Any]]:
    columns = {name: column.to_pylist() for name, column in sorted(decoded.columns.items())}
    return [
        {"push": push} | {name: values[index] for name, values in columns.items()}
        for index, push in enumerate(decoded.push_of.tolist())
    ]


def oracle(batch: list[bytes]) -> list[dict[str, Any]]:
    """What the payloads hold, by opentelemetry-proto's own classes and the plainest loops."""
    found = []
    for push, payload in enumerate(batch):
        for resource_metrics in otlp.MetricsData.FromString(payload).resource_metrics:
            resource = text_map(resource_metrics.resource.attributes)
            for scope in resource_metrics.scope_metrics:
                for metric in scope.metrics:
                    found += [
                        {"push": push, "resource": resource} | row for row in metric_rows(metric, scope.scope, resource)
                    ]
    return found


def metric_rows(metric: otlp.Metric, scope: Any, resource: dict[str, str | None]) -> list[dict[str, Any]]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return []
    data = getattr(metric, kind)
    origin = origin_of(scope.name, scope.version, resource)
    return [
        {
            "metric_name": metric.name,
            "unit": metric.unit or None,
            "scope_name": scope.name or None,
            "origin": json.dumps(origin) if origin else None,
            "metric_type": kind,
            "temporality": {1: "delta", 2: "cumulative"}.get(getattr(data, "aggregation_temporality", 0)),
            "is_monotonic": data.is_monotonic if kind == "sum" else None,
            "start_time_unix_nano": int64_or_none(point.start_time_unix_nano) or None,
            "time_unix_nano": int64_or_none(point.time_unix_nano) or None,
            "attributes": text_map(point.attributes),
        }
        | numbers(point, kind)
        for point in data.data_points
    ]


def numbers(point: Any, kind: str) -> dict[str, Any]:
    if kind in ("gauge", "sum"):
        member = point.WhichOneof("value")
        value = float(getattr(point, member)) if member and not point.flags & 1 else None
        return {"value": number(value), "count": None, "sum": None}
    given = kind == "summary" or point.HasField("sum")
    return {"value": None, "count": int64_or_none(point.count), "sum": number(point.sum) if given else None}


def number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def int64_or_none(value: int) -> int | None:
    return value if value < 2**63 else None


def text_map(pairs: Any) -> dict[str, str | None]:
    return {pair.key: text_of(pair.value) for pair in pairs}


def read_both(batch: list[bytes]) -> tuple[DecodedPayloads, DecodedPayloads]:
    readers: tuple[Reader, Reader] = (by_bytes.read, by_protobuf.read)
    first, second = (decode(batch, reader=reader) for reader in readers)
    return first, second


@settings(max_examples=200, deadline=None)
@given(st.lists(payloads, max_size=4))
def test_both_readers_find_what_the_oracle_finds(batch: list[bytes]) -> None:
    fast, slow = read_both(batch)
    found = rows(fast)
    assert found == rows(slow)
    assert fast.reasons == slow.reasons == {}
    expected = oracle(batch)
    for row in found:
        row["attributes"] = dict(row["attributes"])
        row["resource"] = dict(row["resource"])
    assert [{name: row[name] for name in wanted} for row, wanted in zip(found, expected, strict=True)] == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(payloads, min_size=1, max_size=4), st.data())
def test_a_payload_cut_or_changed_anywhere_is_read_alike_and_spoils_no_other(
    batch: list[bytes], data: st.DataObject
) -> None:
    victim = data.draw(st.integers(0, len(batch) - 1))
    payload = bytearray(batch[victim])
    if payload:
        position = data.draw(st.integers(0, len(payload) - 1))
        if data.draw(st.booleans()):
            del payload[position:]
        else:
            payload[position] = data.draw(st.integers(0, 255))
    damaged = [*batch[:victim], bytes(payload), *batch[victim + 1 :]]
    fast, slow = read_both(damaged)
    assert rows(fast) == rows(slow)
    assert fast.reasons.keys() == slow.reasons.keys() <= {victim}
    untouched = [row for row in rows(fast) if row["push"] != victim]
    assert untouched == [row for row in rows(decode(batch)) if row["push"] != victim]


@settings(max_examples=200, deadline=None)
@given(st.lists(payloads, min_size=1, max_size=4), st.data())
def test_a_payload_in_the_form_of_otlp_before_0_15_is_read_as_the_same_with_scopes(
    batch: list[bytes], data: st.DataObject
) -> None:
    chosen = data.draw(st.integers(0, len(batch) - 1))
    fast, slow = read_both([*batch[:chosen], with_library_metrics(batch[chosen]), *batch[chosen + 1 :]])
    assert rows(fast) == rows(slow) == rows(decode(batch))
    assert fast.reasons == slow.reasons == {}
