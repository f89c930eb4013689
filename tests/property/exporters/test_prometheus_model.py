"""Whatever comes in whatever order, counters are what was pushed, once, and the page is one that scrapers can read."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from support.payloads.client_series import (
    CUMULATIVE,
    REQUESTS_ON_PAGE,
    batch_of,
    clock_at,
    counter,
    push,
    samples_of,
    started,
)
from support.payloads.real_pushes import real_pushes
from support.payloads.strange_metrics import KINDS, LABELS, NAMES, UNITS, VALUES, strange_metric

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings
from fleetgauge.exporters.state_file import StateError, StateFile
from fleetgauge.telemetry.push_record import PushRecord

CLIENTS = ("a" * 22, "b" * 22)
DELTAS = st.integers(0, 1_000)
STEPS = st.one_of(
    st.tuples(st.just("push"), st.lists(st.tuples(st.sampled_from(CLIENTS), DELTAS), min_size=1, max_size=4)),
    st.tuples(st.sampled_from(["again", "crash", "crash before commit", "full disk"]), st.none()),
)


class Run:
    """An exporter behind a log: what was exported last may come again, as it does when the cursor had not moved."""

    def __init__(self, directory: Path, clock: MockTime) -> None:
        self._settings = PrometheusSettings(listen=Address(port=0), state_file=directory / "state.db")
        self._clock = clock
        self._last: tuple[PushRecord, ...] = ()
        self._number = 0
        self.exporter = started(self._settings, clock)
        self.expected = dict.fromkeys(CLIENTS, 0)

    def step(self, kind: str, pushes: Any) -> None:
        if kind == "push":
            self._last = tuple(self._push(*each) for each in pushes)
            assert self.exporter.export(batch_of(*self._last)) == Delivered()
        elif kind == "again" and self._last:
            assert self.exporter.export(batch_of(*self._last)) == Delivered()
        elif kind.startswith("crash"):
            self.exporter.close()
            self.exporter = started(self._settings, self._clock)
            if kind == "crash before commit" and self._last:
                self._last = (*self._last, self._push(CLIENTS[0], 1))
                assert self.exporter.export(batch_of(*self._last)) == Delivered()
        elif kind == "full disk":
            self._last = (self._push(CLIENTS[1], 7),)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(StateFile, "save", _full)
                assert isinstance(self.exporter.export(batch_of(*self._last)), Retry)
            assert self.exporter.export(batch_of(*self._last)) == Delivered()

    def _push(self, client: str, delta: int) -> PushRecord:
        """A delta, and the same as a cumulative count; of a client that makes up its mind anew now and then."""
        self._number += 1
        self.expected[client] += delta
        cumulative = counter(self.expected[client], name="app.total", temporality=CUMULATIVE)
        total = cumulative if self._number % 3 else counter(delta, name="app.total")
        return push(self._number, counter(delta), total, client_instance_id=client)


def _full(*_: object) -> None:
    raise StateError("no space left on the disk")


@settings(max_examples=30)
@given(steps=st.lists(STEPS, max_size=12))
def test_counters_are_what_was_pushed_whatever_happens_in_between(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = Run(Path(directory), clock_at(0))
        try:
            for kind, pushes in steps:
                run.step(kind, pushes)
                found = samples_of(run.exporter)
                for name in (REQUESTS_ON_PAGE, "app_total"):
                    shown = {labels["client_instance_id"]: value for labels, value in found.all(name)}
                    assert shown == {client: run.expected[client] for client in shown}
                    assert all(client in shown for client, value in run.expected.items() if value)
        finally:
            run.exporter.close()


@settings(max_examples=50)
@given(data=st.data())
def test_no_push_whatever_its_bytes_spoils_the_page(data: st.DataObject) -> None:
    """Real pushes with some bytes changed; those that are still well-formed are taken."""
    exporter = PrometheusExporter("page", _BOUNDED, time=clock_at(0))
    exporter.start()
    try:
        for number in range(3):
            payload = bytearray(data.draw(st.sampled_from(real_pushes())))
            for _ in range(data.draw(st.integers(0, 8))):
                payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
            outcome = exporter.export(batch_of(push(number)._replace(metrics=bytes(payload))))
            assert isinstance(outcome, Delivered)
        for accept in ("text/plain", "application/openmetrics-text"):
            assert samples_of(exporter, accept).one("fleetgauge_prometheus_series") <= 300
    finally:
        exporter.close()


STRANGE = st.builds(
    strange_metric,
    kind=st.sampled_from(tuple(KINDS)),
    name=st.one_of(st.sampled_from(NAMES), st.text(max_size=8)),
    unit=st.one_of(st.sampled_from(UNITS), st.text(max_size=4)),
    value=st.one_of(st.sampled_from(VALUES), st.floats()),
    label=st.one_of(st.sampled_from(LABELS), st.text(max_size=4)),
)


@settings(max_examples=50)
@given(pushes=st.lists(st.tuples(st.sampled_from(CLIENTS), st.lists(STRANGE, max_size=6)), max_size=4))
def test_no_metric_whatever_its_kind_name_and_unit_spoils_the_page(pushes: list[tuple[str, list[Metric]]]) -> None:
    """Read by a parser that refuses the whole page for one line that OpenMetrics does not allow."""
    exporter = PrometheusExporter("page", _BOUNDED, time=clock_at(0))
    exporter.start()
    try:
        for number, (client, metrics) in enumerate(pushes):
            record = push(number, *metrics, client_instance_id=client)
            assert exporter.export(batch_of(record)) == Delivered()
        for accept in ("text/plain", "application/openmetrics-text"):
            samples_of(exporter, accept)
    finally:
        exporter.close()


_BOUNDED = PrometheusSettings(listen=Address(port=0), series=SeriesSettings(max_series=300, created_timestamps=True))


@settings(max_examples=50)
@given(
    points=st.lists(st.tuples(st.sampled_from(CLIENTS), st.integers(0, 9), DELTAS), min_size=1, max_size=40),
    bound=st.integers(1, 30),
)
def test_the_sum_over_all_clients_is_right_whatever_finds_no_room(
    points: list[tuple[str, int, int]], bound: int
) -> None:
    exporter = PrometheusExporter("page", _bounded(bound), time=clock_at(0))
    exporter.start()
    try:
        pushes = [
            push(number, counter(delta, topic=str(topic)), client_instance_id=client)
            for number, (client, topic, delta) in enumerate(points, start=1)
        ]
        exporter.export(batch_of(*pushes))
        shown = sum(value for _, value in samples_of(exporter).all(REQUESTS_ON_PAGE))
        assert shown == sum(delta for _, _, delta in points)
    finally:
        exporter.close()


def _bounded(bound: int) -> PrometheusSettings:
    series = SeriesSettings(max_series=bound, max_per_client=max(2, bound // 2), max_per_metric=max(1, bound // 3))
    return PrometheusSettings(listen=Address(port=0), series=series)
