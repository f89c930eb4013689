"""A push that is converted by the pattern of an earlier one becomes the same bytes as by protobuf's classes."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from support.payloads.client_series import DELTA, counter, gauge, push
from support.payloads.real_pushes import real_pushes
from support.payloads.temporality import exponential, histogram, up_down

from fleetgauge.exporters.otlp.converter import ClientState, Converter
from fleetgauge.telemetry.push_record import PushRecord

COUNTS = st.one_of(st.integers(0, 5), st.sampled_from([2**53, 2**62]))
VALUES = st.one_of(st.floats(0, 10), st.sampled_from([0.0, -1.0, float("inf"), float("nan"), 1e300]))
PUSHES = st.lists(
    st.fixed_dictionaries(
        {
            "sums": st.lists(VALUES, min_size=2, max_size=2),
            "integer": COUNTS,
            "level": st.integers(-5, 5),
            "counts": st.lists(COUNTS, min_size=3, max_size=3),
            "total": st.one_of(st.none(), VALUES),
            "gauge": VALUES,
            "event": st.sampled_from(["", "", "", "", "gap", "late", "set back", "apart", "without start"]),
        }
    ),
    min_size=3,
    max_size=10,
)
SHAPES = st.sets(st.sampled_from(["sums", "integer", "level", "histogram", "gauge", "exponential"]), min_size=1)


def metrics_of(shape: set[str], found: dict[str, Any], start: float, at: float) -> list[Metric]:
    """A push's metrics; two sums are told apart by their place alone."""
    first, second = found["sums"]
    integer = counter(0, name="integer", start=start, at=at)
    integer.sum.data_points[0].as_int = found["integer"]
    level = up_down(found["level"], temporality=DELTA, start=start, at=at)
    made = {
        "sums": [
            counter(first, start=start, at=at, node__id=-1),
            counter(second, start=start, at=at + (found["event"] == "apart"), node__id=-1),
        ],
        "integer": [integer],
        "level": [level],
        "histogram": [histogram(found["counts"], total=found["total"], temporality=DELTA, start=start, at=at)],
        "exponential": [exponential([1, 2], temporality=DELTA, start=start, at=at)],
        "gauge": [gauge(found["gauge"], at=at)],
    }
    return [metric for name in sorted(shape) for metric in made[name]]


def records_of(shape: set[str], pushes: Sequence[dict[str, Any]]) -> list[PushRecord]:
    records, ended = [], 10.0
    for number, found in enumerate(pushes, start=1):
        event = found["event"]
        start = {"gap": ended + 5, "late": ended - 30, "set back": ended - 30, "without start": 0}.get(event, ended)
        at = ended - 20 if event in ("late", "set back") else start + 10
        ended = ended if event == "late" else max(at, 1)
        record = push(number, *metrics_of(shape, found, max(start, 0), max(at, 1)))
        records.append(record._replace(received_at=record.received_at - 10_000_000 * (event == "late")))
    return records


def assert_same(temporality: str, records: Sequence[PushRecord]) -> int:
    """Converts with patterns and without; returns how often one was used."""
    converter, plain = Converter(temporality), Converter(temporality)
    state = expected = ClientState()
    used = 0
    for record in records:
        try:
            metrics, expected, left_out = plain.convert(
                record, expected._replace(base=expected.series, bound=None, flat=None)
            )
        except ValueError:  # a count without room
            with pytest.raises(ValueError):  # noqa: PT011  # protobuf's
                converter.convert(record, state)
            continue
        found = converter.convert(record, state)
        used += found.state.unlike == 0
        state = found.state
        assert (found.metrics, dict(found.left_out)) == (metrics, dict(left_out))
        assert repr(state.series) == repr(expected.series)  # NaN is equal to itself there
    return used


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(["cumulative", "delta"]), SHAPES, PUSHES)
def test_any_push_becomes_the_same(temporality: str, shape: set[str], pushes: list[dict[str, Any]]) -> None:
    assert_same(temporality, records_of(shape, pushes))


@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_usual_pushes_have_a_pattern_from_the_second_one_on(temporality: str) -> None:
    usual = {"sums": [1.0, 2.0], "integer": 3, "level": 1, "counts": [1, 2, 3], "total": 4.0, "gauge": 5.0, "event": ""}
    assert assert_same(temporality, records_of({"sums", "integer", "histogram", "gauge"}, [usual] * 5)) == 4


def test_real_pushes_become_the_same_again_and_again() -> None:
    used = 0
    for payload in real_pushes():
        records = [push(number)._replace(metrics=payload) for number in range(1, 4)]
        for temporality in ("cumulative", "delta"):
            used += assert_same(temporality, records)
    assert used > len(real_pushes())
