"""Pushes that are read by their shape come to the same page as pushes that are parsed, whatever their numbers are."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData
from support.payloads.client_series import CUMULATIVE, attributes, clock_at, counter, gauge, page_of, payload, push
from support.payloads.client_series import export as export_records
from support.payloads.real_pushes import real_pushes

from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.points import PushPoints, PushReader
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.exporters.prometheus.shapes import Shape, Shapes
from fleetgauge.telemetry.push_record import PushRecord

ODD = (math.nan, math.inf, -math.inf, -1.0, -0.0, 1e308, 5e-324)


class Reads(PushReader):
    """Counts what is parsed."""

    def __init__(self, reader: PushReader) -> None:
        super().__init__(max_points=reader.max_points, max_value_bytes=1_024, reserved=())
        self.reader = reader
        self.count = 0

    def read(self, payload: bytes) -> PushPoints:
        self.count += 1
        return self.reader.read(payload)


def started(*, parse_all: bool, max_series: int = 200_000) -> PrometheusExporter:
    settings = PrometheusSettings(listen=Address(port=0), series=SeriesSettings(max_series=max_series))
    exporter = PrometheusExporter("page", settings, time=clock_at(0))
    exporter._reader = Reads(exporter._reader)
    if parse_all:
        exporter._shapes = _NoShapes(exporter._reader)
    exporter.start()
    return exporter


class _NoShapes(Shapes):
    def find(self, payload: bytes) -> Shape | None:
        return None

    def learn(self, payload: bytes) -> Shape | None:
        return None


def parsed(exporter: PrometheusExporter) -> int:
    assert isinstance(exporter._reader, Reads)
    return exporter._reader.count


def twins_and_doubles() -> bytes:
    """Doubled topics, double identities of every kind, points without a value, cumulative sums."""
    flagged = gauge(1, name="app.flagged")
    flagged.gauge.data_points[0].flags = 1
    empty = gauge(1, name="app.empty")
    empty.gauge.data_points[0].ClearField("as_double")
    many = Metric(name="app.lag")
    for number, topic in enumerate(("a.b", "a_b", "x_y")):
        attributes(many.gauge.data_points.add(as_int=number), {"topic": topic})
    doubled: list[Any] = []
    for value in (1, 2):
        doubled += [counter(value, at=9, start=3, node__id=-1), gauge(value, at=9, node__id=-1)]
        doubled += [counter(value, name="app.c", temporality=CUMULATIVE, at=9, start=3)]
    topics = [counter(value, name="app.t", topic=topic) for value, topic in ((1, "a.b"), (2, "a_b"), (3, "c"))]
    topics += [counter(value, name="app.u", at=9, topic=topic) for value, topic in ((1, "a.b"), (2, "a_b"), (3, "a_b"))]
    return payload(flagged, empty, many, *doubled, *topics, group_id="g")


def partly_without_value() -> bytes:
    """Two points of each series, one of which has no value; several times of one series."""
    points: list[Any] = []
    for number, flags in enumerate(((0, 1), (1, 0))):
        for each in flags:
            counted, shown = counter(1, name=f"app.c{number}", at=9), gauge(1, name=f"app.g{number}", at=9)
            counted.sum.data_points[0].flags = shown.gauge.data_points[0].flags = each
            points += [counted, shown]
    return payload(*points, counter(1, name="app.alone", at=9))


def of_scopes_and_services() -> bytes:
    """One metric in several scopes and services, some of which its own attributes name, in units that remain."""
    data = MetricsData()
    for service in ("", "shop", "cart"):
        resource_metrics = data.resource_metrics.add()
        if service:
            attributes(resource_metrics.resource, {"service__name": service, "host": "h"})
        for scope, version in (("", ""), ("io.app", "1"), ("io.app", "2"), ("kgo", "1"), ("rdkafka#producer-1", "1")):
            scope_metrics = resource_metrics.scope_metrics.add()
            scope_metrics.scope.name, scope_metrics.scope.version = scope, version
            shown = gauge(1, topic="a_b", at=9)
            shown.unit = "ms"
            named = gauge(1, name="app.named", service__name="own", otel_scope_name="own", at=9)
            named.unit = "s"
            scope_metrics.metrics.extend([counter(1, at=9), shown, named, gauge(1, topic="a.b", at=9)])
    return data.SerializeToString()


def of_units() -> bytes:
    """Metrics of Kafka's, in units that are converted to those of its list."""
    shown, counted = gauge(1, at=9), counter(1, name="org.apache.kafka.producer.bufferpool.wait.time.ns.total", at=9)
    shown.unit = counted.unit = "s"
    return payload(shown, counted, counter(1, name="app.alone", at=9))


PAYLOADS = [twins_and_doubles(), of_scopes_and_services(), *real_pushes()]
NEVER_ALIKE = [partly_without_value(), of_units()]


def numbered(push: bytes, number: int, chance: random.Random, odd: float, *, most_apart_ns: int) -> bytes:
    """The push with other numbers, some of them odd ones, and with times that are so far apart."""
    data = MetricsData.FromString(push)
    metrics = (m for each in data.resource_metrics for scope in each.scope_metrics for m in scope.metrics)
    for point in (point for m in metrics for point in (*m.gauge.data_points, *m.sum.data_points)):
        if point.time_unix_nano:
            point.time_unix_nano += number * 1_000_000_000 + chance.randint(0, most_apart_ns)
        if point.start_time_unix_nano:
            point.start_time_unix_nano += chance.choice((0, number * 1_000_000_000))
        if point.WhichOneof("value") == "as_double":
            point.as_double = chance.choice(ODD) if chance.random() < odd else chance.randrange(100) / 4
        elif point.WhichOneof("value") == "as_int":
            point.as_int = chance.choice((-3, 2**62)) if chance.random() < odd else chance.randrange(100)
    return data.SerializeToString()


@settings(max_examples=60)
@given(
    payload=st.sampled_from([*PAYLOADS, *NEVER_ALIKE, twins_and_doubles(), of_scopes_and_services()]),
    seed=st.integers(0, 2**32),
    odd=st.sampled_from((0.0, 0.01, 0.3)),
    most_apart_ns=st.lists(st.sampled_from((0, 2)), min_size=6, max_size=6),
    flips=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3),
    max_series=st.sampled_from((20, 200_000)),
)
def test_the_page_is_the_same_whether_pushes_are_parsed_or_read_by_their_shape(
    payload: bytes,
    seed: int,
    odd: float,
    most_apart_ns: list[int],
    flips: list[tuple[int, int, int]],
    max_series: int,
) -> None:
    """With some bytes changed as well, in a push that is as long as the one before."""
    chance = random.Random(seed)
    pushes: list[PushRecord] = []
    for number in range(6):
        changed = bytearray(numbered(payload, number, chance, odd, most_apart_ns=most_apart_ns[number]))
        for _, place, byte in [flip for flip in flips if flip[0] == number]:
            changed[place % len(changed)] = byte
        pushes.append(push(number + chance.randrange(2))._replace(metrics=bytes(changed), push_id=f"{number:032x}"))
    quick, plain = started(parse_all=False, max_series=max_series), started(parse_all=True, max_series=max_series)
    try:
        for record in pushes:
            assert export_records(quick, record) == export_records(plain, record)
            assert page_of(quick) == page_of(plain)
    finally:
        quick.close()
        plain.close()


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_of_pushes_that_are_alike_the_first_two_alone_are_parsed(payload: bytes) -> None:
    chance = random.Random(8)
    exporter = started(parse_all=False)
    try:
        for number in range(5):
            record = push(number)._replace(metrics=numbered(payload, number, chance, 0, most_apart_ns=0))
            export_records(exporter, record)
        assert parsed(exporter) == (2 if MetricsData.FromString(payload).resource_metrics else 5)
    finally:
        exporter.close()
