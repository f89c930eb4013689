"""A node's own metrics to an OTLP receiver, through OpenTelemetry's SDK, as resource `service.name=fleetgauge`.

Not fed by the push log: at every interval, and a last time at the end, the metrics are read anew and sent over the
connection that `otlp` uses too. What they are is said where they are defined; here is only how they become instruments
of the SDK. A failed interval is not sent again: its counters are in the next one.
"""

import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from base.clock import Time
from base.log_limiter import CalmLog
from exporters.delivery.stats import DeliveryCounters, DeliveryStats, PipelineState
from exporters.exporter import Delivered, Outcome, Retry
from exporters.options import Options
from exporters.otlp.exporter import make_transport
from exporters.otlp.settings import OtlpSettings, connection_settings, otlp_options
from push_log.log import Batch

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics.export import MetricsData

log = structlog.get_logger(__name__)

SELF_METRICS: Final = "self_metrics"
"""The type, in `[exporters.<name>]`."""

SERVICE_NAME: Final = "fleetgauge"
_NEEDED: Final = ("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.common", "prometheus_client")
_CLOSE_GRACE_S: Final = 1.0


class Reading(NamedTuple):
    """One metric as it is now."""

    name: str
    text: str
    """What it means."""
    is_counter: bool
    """True if it only grows."""
    samples: tuple[tuple[Mapping[str, str], float], ...]
    """Labels and value of each series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfMetricsSettings:
    """A `self_metrics` exporter's settings; the keys are those of `[exporters.<name>]`.

    Attributes:
        connection: the keys of `otlp` that say where and how: `endpoint`, `protocol`, `headers`, `timeout.ms`,
            `compression`, `tls.*`, or the standard variables.
        interval_ms: how often (key `interval.ms`) [ms].
    """

    connection: OtlpSettings
    interval_ms: int = 60_000


def self_metrics_settings(
    name: str, values: Mapping[str, object], environment: Mapping[str, str] = os.environ
) -> SelfMetricsSettings:
    """The settings that the keys of `[exporters.<name>]` make.

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
    except ModuleNotFoundError as error:  # a package above it
        missing = [str(error.name)]
    if missing:
        raise options.error("type", SELF_METRICS, f"needs {missing[0]}: pip install 'fleetgauge[otel]'")


class _Instruments:
    """The SDK's instruments, made as metrics turn up; each tells what was read last."""

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.resources import Resource

        about = {"service.name": SERVICE_NAME, "service.version": version("fleetgauge")}
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], Resource.create(about), shutdown_on_exit=False)
        self._meter = provider.get_meter(SERVICE_NAME)
        self._now: dict[str, Reading] = {}
        self._made: set[str] = set()

    def collected(self, readings: Iterable[Reading]) -> "MetricsData | None":
        """The readings as the SDK's data; None where there is nothing."""
        self._now = {reading.name: reading for reading in readings}
        for reading in self._now.values():
            if reading.name not in self._made:
                self._made.add(reading.name)
                make = (
                    self._meter.create_observable_counter if reading.is_counter else self._meter.create_observable_gauge
                )
                make(reading.name, [self._observer(reading.name)], description=reading.text)
        return self._reader.get_metrics_data()

    def _observer(self, name: str) -> "Callable[[CallbackOptions], Iterable[Observation]]":
        from opentelemetry.metrics import Observation

        def observe(_options: "CallbackOptions") -> Iterable[Observation]:
            reading = self._now.get(name)
            samples = () if reading is None else reading.samples
            return [Observation(value, dict(labels)) for labels, value in samples if not math.isnan(value)]

        return observe


class SelfMetricsExporter:
    """Sends a node's own metrics at every interval, in a thread of its own; started and stopped as a `Pipeline` is.

    Args:
        name: the name in `[exporters.<name>]`.
        settings: where and how often.
        source: reads all metrics; what it raises is logged, and tried again at the next interval.
        time: the clocks.
    """

    def __init__(
        self, name: str, settings: SelfMetricsSettings, source: Callable[[], Iterable[Reading]], *, time: Time
    ) -> None:
        self.name = name
        self._settings = settings
        self._source = source
        self._time = time
        self._counters = DeliveryCounters(name)
        self._transport = make_transport(settings.connection)
        self._calm = CalmLog()
        self._log = log.bind(exporter=name)
        self._stop = threading.Event()
        self._stop_by_ms = 0
        self._thread = threading.Thread(target=self._run, name=f"exporter-{name}", daemon=True)

    def stats(self) -> DeliveryStats:
        """What was done so far: an export is a batch without pushes. From any thread."""
        return self._counters.snapshot()

    def start(self) -> None:
        """Sends for the first time at once."""
        self._thread.start()

    def request_stop(self, timeout_ms: int) -> None:
        """Has it send a last time, and end; returns at once."""
        self._stop_by_ms = self._time.hi_res_clock_ms() + timeout_ms
        self._stop.set()

    def join(self) -> bool:
        """Waits for the end that was asked for, and no longer than was said then; False if a call still runs."""
        if self._thread.ident is None:
            return True
        self._thread.join(max(0, self._stop_by_ms - self._time.hi_res_clock_ms()) / 1_000)
        self._transport.close()
        self._thread.join(_CLOSE_GRACE_S)
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
            self._counters.enter(PipelineState.STOPPED)
            self._transport.close()

    def _send_the_last(self, instruments: _Instruments) -> None:
        """What was counted since the last interval; not tried twice, since whoever asked for the end waits."""
        if self._time.hi_res_clock_ms() >= self._stop_by_ms:
            return
        outcome = self._try(instruments)
        if isinstance(outcome, Delivered):
            self._settle(outcome)
        else:
            self._log.info("our own metrics were not sent a last time", reason=outcome.reason, detail=outcome.detail)

    def _try(self, instruments: _Instruments) -> Outcome:
        """Reads and sends once; whatever goes wrong is no reason to stop telling of the node."""
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

        try:
            data = instruments.collected(self._source())
            return Delivered() if data is None else self._transport.send(encode_metrics(data).SerializeToString())
        except Exception as error:  # noqa: BLE001  # of the source, or of the SDK
            return Retry(reason="error", detail=f"{type(error).__name__}: {error}")

    def _settle(self, outcome: Outcome) -> None:
        now_us = self._time.microseconds()
        if isinstance(outcome, Delivered):
            self._counters.enter(PipelineState.RUNNING)
            self._counters.delivered(_nothing(self.name), outcome, now_us=now_us, took_ms=0)
            return
        self._counters.retried(outcome.reason, outcome.detail, now_us=now_us)
        if count := self._calm.occurrences(outcome.reason, now_ms=self._time.hi_res_clock_ms()):
            self._log.warning(
                "cannot send our own metrics now", reason=outcome.reason, detail=outcome.detail, occurrences=count
            )


def _nothing(exporter: str) -> Batch:
    return Batch(exporter=exporter, records=(), first_position="", last_position="", size_bytes=0)
