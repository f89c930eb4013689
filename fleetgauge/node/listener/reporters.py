"""Lifecycle of the reporters of `metric.reporters`: loading, configuration, registration, closing."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ConfigError
from fleetgauge.node.listener.reporter_thread import ReporterThread
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.plugin import (
    ClientTelemetryExporterPlugin,
    Export,
    MetricsContext,
    MetricsReporter,
    load_reporter,
)

log = structlog.get_logger(__name__)

NAMESPACE = "kafka.server"


class Reporters:
    """Owns the configured reporters, in the order of Kafka's broker: configure, context, metrics, receiver.

    Args:
        names: dotted paths or entry point names.
        metrics: the node's own metrics, passed to reporters.
        configs: all configured keys, passed to `configure`.
        node_id: this node's id, the context label `kafka.node.id`.
        cluster_id: the context label `kafka.cluster.id`.
        labels: further context labels (`metrics.context.<label>`), which win over these two, as in Kafka's broker.
        time: clocks for the duration of exports.

    Raises:
        FleetgaugeError: a reporter cannot be loaded, or raises during its setup; earlier ones are closed again.
    """

    def __init__(
        self,
        names: Sequence[str],
        metrics: Metrics,
        configs: Mapping[str, object],
        *,
        node_id: int,
        cluster_id: str,
        labels: Mapping[str, str] = MappingProxyType({}),
        time: Time | None = None,
    ) -> None:
        self.plugin = ClientTelemetryExporterPlugin(time, self._isolate)
        self._threads: list[ReporterThread] = []
        self._reporters: list[MetricsReporter] = []
        own = {"_namespace": NAMESPACE, "kafka.cluster.id": cluster_id, "kafka.node.id": str(node_id)}
        context = MetricsContext(namespace=NAMESPACE, labels={**own, **labels})
        for name in names:
            reporter = load_reporter(name)
            self._reporters.append(reporter)
            try:
                reporter.configure(configs)
                reporter.context_change(context)
                metrics.add_reporter(reporter)
                if not self.plugin.add(reporter):
                    log.info(
                        "listener.reporter_takes_no_pushes",
                        message="it gets none: client_receiver() and client_telemetry_exporter() are missing, or "
                        "return None",
                        reporter=name,
                    )
            except Exception as error:
                self.close()
                raise ConfigError("metric.reporters", f"{name} does not start: {error!r}") from error

    def _isolate(self, name: str, export: Export) -> Export:
        """Wraps a receiver so that it runs on its own thread."""
        thread = ReporterThread(name)
        self._threads.append(thread)
        return lambda context, payload, interval_ms: thread.run(lambda: export(context, payload, interval_ms))

    def close(self) -> None:
        """Closes all reporters, also after one of them has failed to close."""
        for reporter in self._reporters:
            self.plugin.remove(reporter)
            try:
                reporter.close()
            except Exception:
                log.exception("listener.reporter_close_failed", reporter=type(reporter).__name__)
        for thread in self._threads:
            thread.close()
