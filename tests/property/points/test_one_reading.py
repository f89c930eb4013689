"""Page, tables and the reference model read the same points in the same way (docs/reference/points.md)."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.fleet.silver_tables import SilverTables
from support.payloads.client_series import CUMULATIVE
from support.payloads.real_pushes import real_pushes
from support.points.comparison import (
    Page,
    model_of,
    page_of_model,
    pages_of,
    rows_as_defined,
    rows_of,
    same_numbers,
)
from support.points.generator import Client, Delivery, client_push

from fleetgauge.fleet.silver.correct import MARKS

AT_ONCE = 500
"""Clients that are read together: a call of silver costs milliseconds."""


def differences(clients: Sequence[Delivery]) -> Iterator[tuple[str, Any]]:
    """Whatever is not as defined: the client instance, and who says what instead of what."""
    models = {each.received[0].client_instance_id: model_of(each.received) for each in clients if each.received}
    delivered = [push for each in clients for push in each.delivered]
    for reader, parse_all in (("page, parsed", True), ("page, by shapes", False)):
        pages = pages_of(delivered, parse_all=parse_all)
        for instance, model in models.items():
            for difference in pages_differ(pages[instance], page_of_model(model)):
                yield instance, (reader, *difference)
    instance_of = {push.push_id: push.client_instance_id for push in delivered}
    for found, told in rows_as_defined(rows_of(delivered), models.values()):
        if not same_numbers(found.values(), told.values()):
            yield instance_of[found["push_id"]], ("tables", found, told)


def pages_differ(found: Page, told: Page) -> Iterator[tuple[Any, Any, Any]]:
    """The series that are not the same."""
    for key in found.keys() | told.keys():
        numbers, expected = found.get(key, ()), told.get(key, ())
        if len(numbers) != len(expected) or not same_numbers(numbers, expected):
            yield key, numbers, expected


@pytest.mark.parametrize("first", range(0, 16 * AT_ONCE, AT_ONCE))
def test_page_and_tables_are_as_defined(first: int) -> None:
    assert_as_defined(first)


@pytest.mark.soak
def test_page_and_tables_of_100_000_clients_are_as_defined() -> None:
    for first in range(20 * AT_ONCE, 220 * AT_ONCE, AT_ONCE):
        assert_as_defined(first)


def assert_as_defined(first: int) -> None:
    """Of the clients of the next seeds; names the one with the fewest bytes of those that are not."""
    clients = [Client(seed).delivery() for seed in range(first, first + AT_ONCE)]
    sizes = {each.received[0].client_instance_id: _size(each) for each in clients if each.received}
    found = sorted(differences(clients), key=lambda difference: sizes[difference[0]])
    assert not found, f"{len(found)} differences; of Client({int(found[0][0])}): {found[0][1]}"


def _size(client: Delivery) -> int:
    return sum(len(push.metrics) for push in client.received)


def test_recorded_pushes_are_read_as_defined() -> None:
    payloads = [[later(payload, number) for number in range(4)] for payload in real_pushes()]
    pushes = [
        [client_push(seed, number, payload) for number, payload in enumerate(several)]
        for seed, several in enumerate(payloads)
    ]
    found = list(differences([Delivery(each, each) for each in pushes]))
    assert not found, found[0]


def later(payload: bytes, number: int) -> bytes:
    """The push of a client so many minutes later, with larger counts."""
    data = MetricsData.FromString(payload)
    metrics = [m for each in data.resource_metrics for scope in each.scope_metrics for m in scope.metrics]
    for metric in metrics:
        is_cumulative = metric.sum.aggregation_temporality == CUMULATIVE
        for point in (*metric.gauge.data_points, *metric.sum.data_points):
            point.time_unix_nano += number * 60_000_000_000
            if point.start_time_unix_nano and metric.HasField("sum") and not is_cumulative:
                point.start_time_unix_nano += number * 60_000_000_000
            if is_cumulative or metric.HasField("gauge"):
                value: Any = point.WhichOneof("value")
                setattr(point, value, getattr(point, value) + number)
    return data.SerializeToString()


@pytest.mark.parametrize("seed", range(12))
def test_pushes_in_any_order_and_several_runs_have_the_marks_of_all_at_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    clients = [Client(number).delivery().received for number in range(seed * 300, seed * 300 + 300)]
    pushes = [push._asdict() for client in clients for push in client]
    at_once, found = SilverTables(tmp_path / "at-once"), SilverTables(tmp_path / "found")
    at_once.read(pushes)
    chance.shuffle(pushes)
    for number in range(3):
        found.read(pushes[number::3])
    points = found.points
    for point, expected in zip(points, at_once.points, strict=True):
        assert {name: point[name] for name in MARKS} == {name: expected[name] for name in MARKS}, point
    for row, told in rows_as_defined(points, map(model_of, clients)):
        assert same_numbers(row.values(), told.values()), (row, told)
