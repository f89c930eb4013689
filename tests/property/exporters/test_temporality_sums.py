"""The deltas of a series add up to its cumulative count, whatever clients send, through retries and restarts."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads.client_series import CUMULATIVE, DELTA, counter, push
from support.payloads.temporality import Destination, conversion_to, data_of, exponential, histogram, points_of

from fleetgauge.exporters.exporter import Retry
from fleetgauge.telemetry.push_record import PushRecord

CLIENTS = ("a" * 22, "b" * 22)
POINTS = st.tuples(
    st.sampled_from(CLIENTS),
    st.sampled_from(["sum", "histogram", "exponential"]),
    st.booleans(),  # cumulative
    st.lists(st.integers(0, 9), min_size=3, max_size=3),  # growth
    st.sampled_from(["", "", "", "restart", "lost", "without start"]),
)
STEPS = st.lists(st.tuples(POINTS, st.sampled_from(["", "retry", "halves", "crash", "crash unsaved"])), max_size=12)


class Clients:
    """Clients that count, and push deltas or counts of it."""

    def __init__(self) -> None:
        self.counted: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.start: dict[Any, int] = defaultdict(lambda: 1)
        self.reported: dict[Any, int] = defaultdict(lambda: 1)
        self.number = 1

    def push(self, client: str, kind: str, is_cumulative: bool, growth: list[int], event: str) -> PushRecord:
        self.number += 1
        now, series = 10 * self.number, (client, kind)
        if event == "restart":
            self.counted[series], self.start[series] = [0, 0, 0], now - 5
            self.reported[series] = now - 5
        self.counted[series] = [old + new for old, new in zip(self.counted[series], growth, strict=True)]
        start = self.start[series] if is_cumulative else self.reported[series]
        values = self.counted[series] if is_cumulative else growth
        self.reported[series] = now
        times: dict[str, Any] = {
            "temporality": CUMULATIVE if is_cumulative else DELTA,
            "start": 0 if event == "without start" else start + (3 if event == "lost" and not is_cumulative else 0),
            "at": now,
        }
        if kind == "sum":
            metric = counter(sum(values), **times)
        elif kind == "histogram":
            metric = histogram(values, total=float(sum(values)), **times)
        else:
            metric = exponential(values, offset=3, **times)
        return push(self.number, metric, client_instance_id=client)


def totals(payloads: list[bytes]) -> dict[Any, int]:
    """Growth by metric: of cumulative points the last of each start, of deltas all."""
    by_start: dict[Any, int] = defaultdict(int)
    for metric, point in points_of(payloads):
        data = data_of(metric)
        value = point.as_double if metric.HasField("sum") else point.count
        if data.aggregation_temporality == DELTA:
            by_start[metric.name, 0] += value
        else:
            by_start[metric.name, point.start_time_unix_nano] = value
    found: dict[Any, int] = defaultdict(int)
    for (name, _), value in by_start.items():
        found[name] += value
    return found


def delivered(temporality: str, pushes: list[tuple[PushRecord, str]]) -> list[bytes]:
    """What a destination gets of pushes, each of which is a batch with the one before it delivered again."""
    destination = Destination()
    with tempfile.TemporaryDirectory() as directory:
        state_file = Path(directory) / "state.db" if any("crash" in event for _, event in pushes) else None
        conversion = conversion_to(temporality, state_file)
        before: tuple[PushRecord, ...] = ()
        for record, event in pushes:
            batch = (*before, record)
            if event in ("retry", "halves", "crash unsaved"):
                destination.outcomes = [Retry(reason="unavailable")]
                conversion.deliver(batch, destination.send)
            if event.startswith("crash"):
                conversion.close()
                conversion = conversion_to(temporality, state_file)
            parts = (batch[: len(batch) // 2], batch[len(batch) // 2 :]) if event == "halves" else (batch,)
            for part in parts:
                conversion.deliver(part, destination.send)
            if event in ("retry", "crash unsaved"):
                assert destination.attempts[-1] == destination.attempts[-2]
            before = (record,)
        conversion.close()
    return destination.delivered


@settings(deadline=None, max_examples=100)
@given(STEPS)
def test_deltas_add_up_to_the_cumulative_counts(steps: list[Any]) -> None:
    clients = Clients()
    pushes = [(clients.push(*point), event) for point, event in steps]
    for client in CLIENTS:
        mine = [(record, "") for record, _ in pushes if record.client_instance_id == client]
        cumulative, deltas = (totals(delivered(temporality, mine)) for temporality in ("cumulative", "delta"))
        for name, total in cumulative.items():
            unknown = 0  # the first count of a series without a start, which nothing is known about
            first = next(each for each in points_of(record.metrics for record, _ in mine) if each[0].name == name)
            data = data_of(first[0])
            if data.aggregation_temporality == CUMULATIVE and not first[1].start_time_unix_nano:
                unknown = first[1].as_double if name not in ("latency", "size") else first[1].count
            assert deltas[name] + unknown == total


@settings(deadline=None, max_examples=50)
@given(STEPS)
def test_faults_on_the_way_change_no_byte(steps: list[Any]) -> None:
    clients = Clients()
    pushes = [(clients.push(*point), event) for point, event in steps]
    for temporality in ("cumulative", "delta"):
        without = delivered(temporality, [(record, "") for record, _ in pushes])
        assert delivered(temporality, pushes) == without
