"""Sends a node's own metrics to an OTLP receiver with OpenTelemetry's SDK, as resource `service.name=fleetgauge`.

It does not read the push log: at every interval, and a last time at the end, it reads all metrics and sends them over
the same kind of connection as `otlp`. The metrics are defined elsewhere; this module turns them into instruments of the
SDK. A failed interval is not repeated: its counters are in the next one.
"""

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from fleetgauge.base.clock import Time
from fleetgauge.exporters.delivery.report import DeliveryReport
from fleetgauge.exporters.delivery.stats import DeliveryStats, PipelineState
from fleetgauge.exporters.exporter import Delivered, Outcome, Retry
from fleetgauge.exporters.options import Options
from fleetgauge.exporters.otlp.exporter import make_transport
from fleetgauge.exporters.otlp.settings import OtlpSettings, connection_settings, otlp_options
from fleetgauge.push_log.log import Batch

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricsData
    from prometheus_client.core import Metric

SELF_METRICS: Final = "self_metrics"
"""The value of `type` in `[exporters.<name>]`."""

SERVICE_NAME: Final = "fleetgauge"
_NEEDED: Final = ("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.common", "prometheus_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfMetricsSettings:
    """A `self_metrics` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        connection: the connection keys of `otlp`: `endpoint`, `protocol`, `headers`, `timeout.ms`, `compression`,
            `tls.*`, or the standard variables.
        interval_ms: time between two exports (key `interval.ms`) [ms].
    """

    connection: OtlpSettings
    interval_ms: int = 60_000


def self_metrics_settings(
    name: str, values: Mapping[str, object], environment: Mapping[str, str] = os.environ
) -> SelfMetricsSettings:
    """Reads the keys of `[exporters.<name>]`.

    Raises:
        ExporterConfigError: a key is unknown, a value is not allowed, or OpenTelemetry's SDK is not installed.
    """
    options = otlp_options(name, values, environment)
    settings = SelfMetricsSettings(
        connection=connection_settings(options), interval_ms=options.integer("interval.ms", 60_000, minimum=100)
    )
    options.finish()
    _check_installed(options)
    return settings


def _check_installed(options: Options) -> None:
    try:
        missing = [module for module in _NEEDED if find_spec(module) is None]
    except ModuleNotFoundError as error:  # a parent package is missing
        missing = [str(error.name)]
    if missing:
        raise options.error("type", SELF_METRICS, f"needs {missing[0]}: pip install 'fleetgauge[otel]'")


class _Instruments:
    """The SDK's instruments, created with the first reading of each metric; they return the latest samples."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.resources import Resource

        about = {"service.name": SERVICE_NAME, "service.version": version("fleetgauge")}
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], Resource.create(about), shutdown_on_exit=False)
        self._meter = provider.get_meter(SERVICE_NAME)
        self._now: dict[str, Metric] = {}
        self._created: set[str] = set()

    def collected(self, metrics: "Iterable[Metric]") -> "MetricsData | None":
        """Counters and gauges as the SDK's data; None if there are none."""
        counter, gauge = self._meter.create_observable_counter, self._meter.create_observable_gauge
        self._now = {metric.name: metric for metric in metrics}
        for name, metric in self._now.items():
            if name not in self._created:
                self._created.add(name)
                make = counter if metric.type == "counter" else gauge
                make(name, [self._observer(name)], description=metric.documentation)
        return self._reader.get_metrics_data()

    def _observer(self, name: str) -> "Callable[[CallbackOptions], Iterable[Observation]]":
        from opentelemetry.metrics import Observation

        def observe(_options: "CallbackOptions") -> Iterable[Observation]:
            samples = self._now[name].samples if name in self._now else ()
            return [Observation(float(each.value), each.labels) for each in samples if not math.isnan(each.value)]

        return observe


class SelfMetricsExporter:
    """Sends a node's own metrics at every interval, in a thread of its own; started and stopped like a `Pipeline`.

    Args:
        name: the name in `[exporters.<name>]`.
        settings: connection and interval.
        source: reads all metrics, counters and gauges; an exception is logged, and the next interval tries again.
        time: the clocks.
    """

    close_grace_s: float = 1.0
    """Time that a running export may take to return after the stop [s]."""

    def __init__(
        self, name: str, settings: SelfMetricsSettings, source: "Callable[[], Iterable[Metric]]", *, time: Time
    ) -> None:
        self.name = name
        self._settings = settings
        self._source = source
        self._time = time
        self._report = DeliveryReport(name, str(settings.connection.endpoint), time)
        self._transport = make_transport(settings.connection)
        self._stop = threading.Event()
        self._stop_by_ms = 0
        self._thread = threading.Thread(target=self._run, name=f"exporter-{name}", daemon=True)

    def stats(self) -> DeliveryStats:
        """The counters so far; an export counts as a batch without pushes. From any thread."""
        return self._report.snapshot()

    def start(self) -> None:
        """Starts the thread, which sends at once for the first time."""
        self._thread.start()

    def request_stop(self, timeout_ms: int) -> None:
        """Makes it send a last time, and end; returns at once."""
        self._stop_by_ms = self._time.hi_res_clock_ms() + timeout_ms
        self._stop.set()

    def join(self) -> bool:
        """Waits for the requested end, for at most the requested time; False if a call still runs."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(0, self._stop_by_ms - self._time.hi_res_clock_ms()) / 1_000)
        self._transport.close()
        self._thread.join(self.close_grace_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            instruments = _Instruments()
            while True:
                self._settle(self._try(instruments))
                if self._stop.wait(self._settings.interval_ms / 1_000):
                    break
            self._send_the_last(instruments)
        finally:
            self._report.enter(PipelineState.STOPPED)
            self._transport.close()

    def _send_the_last(self, instruments: _Instruments) -> None:
        """Sends the counts since the last interval, in one attempt: the stop is waiting."""
        if self._time.hi_res_clock_ms() >= self._stop_by_ms:
            return
        outcome = self._try(instruments)
        if isinstance(outcome, Delivered):
            self._settle(outcome)
        else:
            self._report.log.info("self_metrics.last_export_failed", reason=outcome.reason, detail=outcome.detail)

    def _try(self, instruments: _Instruments) -> Outcome:
        """Reads and sends once. An exception of the source or of the SDK counts as a `Retry`."""
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

        try:
            data = instruments.collected(self._source())
            return Delivered() if data is None else self._transport.send(encode_metrics(data).SerializeToString())
        except Exception as error:  # noqa: BLE001  # of the source, or of the SDK
            return Retry(reason="error", detail=f"{type(error).__name__}: {error}")

    def _settle(self, outcome: Outcome) -> None:
        if isinstance(outcome, Delivered):
            no_pushes = Batch(exporter=self.name, records=(), first_position="", last_position="", size_bytes=0)
            self._report.running()
            self._report.delivered(no_pushes, outcome, took_ms=0)
        else:
            self._report.failed(outcome)
