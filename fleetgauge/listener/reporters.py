"""The reporters of `metric.reporters`: loaded, told of their context, registered, and closed with the node."""

from collections.abc import Awaitable, Mapping, Sequence

import structlog

from base.clock import Time
from fleetgauge.errors import ConfigError
from fleetgauge.listener.reporter_thread import ReporterThread
from quotas.metrics import Metrics
from telemetry.plugin import (
    ClientTelemetryExporterPlugin,
    ClientTelemetryPayload,
    Export,
    MetricsContext,
    MetricsReporter,
    RequestContext,
    load_reporter,
)

log = structlog.get_logger(__name__)

NAMESPACE = "kafka.server"


class Reporters:
    """Owns the configured reporters, in the order of Kafka's broker: configure, context, metrics, receiver.

    Args:
        names: dotted paths or entry point names.
        metrics: the node's own metrics, which reporters are told of.
        configs: every configured key, which `configure` is given.
        node_id: this node's id, as the context's label `kafka.node.id`.
        cluster_id: as the label `kafka.cluster.id`.
        time: the clocks, by which exports are measured.

    Raises:
        FleetgaugeError: a reporter cannot be loaded, or raises while it is set up; those before it are closed again.
    """

    def __init__(
        self,
        names: Sequence[str],
        metrics: Metrics,
        configs: Mapping[str, object],
        *,
        node_id: int,
        cluster_id: str,
        time: Time | None = None,
    ) -> None:
        self.plugin = ClientTelemetryExporterPlugin(time, self._isolate)
        self._threads: list[ReporterThread] = []
        self._reporters: list[MetricsReporter] = []
        context = MetricsContext(
            namespace=NAMESPACE, labels={"kafka.cluster.id": cluster_id, "kafka.node.id": str(node_id)}
        )
        for name in names:
            reporter = load_reporter(name)
            self._reporters.append(reporter)
            try:
                reporter.configure(configs)
                reporter.context_change(context)
                metrics.add_reporter(reporter)
                self.plugin.add(reporter)
            except Exception as error:
                self.close()
                raise ConfigError("metric.reporters", f"{name} does not start: {error!r}") from error

    def _isolate(self, name: str, export: Export) -> Export:
        """A receiver on a thread of its own."""
        thread = ReporterThread(name)
        self._threads.append(thread)

        def export_there(
            context: RequestContext, payload: ClientTelemetryPayload, interval_ms: int
        ) -> Awaitable[None] | None:
            return thread.run(lambda: export(context, payload, interval_ms))

        return export_there

    def close(self) -> None:
        """Closes every reporter; one that fails does not keep the next from being closed."""
        for reporter in self._reporters:
            self.plugin.remove(reporter)
            try:
                reporter.close()
            except Exception:
                log.exception("a metric reporter failed to close", reporter=type(reporter).__name__)
        for thread in self._threads:
            thread.close()
