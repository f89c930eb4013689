"""An exporter whose clocks a test moves, and its settings."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.payloads.client_series import clock_at, started

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings, SeriesSettings

Start = Callable[..., PrometheusExporter]


@pytest.fixture
def clock() -> MockTime:
    return clock_at(0)


@pytest.fixture
def start(tmp_path: Path, clock: MockTime) -> Iterator[Start]:
    """Starts exporters on one state file; keywords are those of `SeriesSettings`, or of the exporter's settings."""
    running: list[PrometheusExporter] = []

    def make(**changed: Any) -> PrometheusExporter:
        series = {key: changed.pop(key) for key in list(changed) if key in SeriesSettings.__slots__}
        settings = PrometheusSettings(
            listen=Address(port=0),
            state_file=tmp_path / "state.db",
            series=SeriesSettings(**series),
            **changed,
        )
        running.append(started(settings, clock))
        return running[-1]

    yield make
    for exporter in running:
        exporter.close()


@pytest.fixture
def exporter(start: Start) -> PrometheusExporter:
    return start()
