"""The reporters of `metric.reporters`: loaded, told of their context, registered, and closed with the node."""

from collections.abc import Mapping, Sequence

from quotas.metrics import Metrics
from telemetry.plugin import (
    ClientTelemetryExporterPlugin,
    MetricsContext,
    MetricsReporter,
    load_reporter,
)

NAMESPACE = "kafka.server"


class Reporters:
    """Owns the configured reporters, in the order of Kafka's broker: configure, context, metrics, receiver.

    Args:
        names: dotted paths or entry point names.
        metrics: the node's own metrics, which reporters are told of.
        configs: every configured key, which `configure` is given.
        node_id: this node's id, as the context's label `kafka.node.id`.
        cluster_id: as the label `kafka.cluster.id`.

    Raises:
        FleetgaugeError: a reporter cannot be loaded.
    """

    def __init__(
        self, names: Sequence[str], metrics: Metrics, configs: Mapping[str, object], *, node_id: int, cluster_id: str
    ) -> None:
        self.plugin = ClientTelemetryExporterPlugin()
        self._reporters: list[MetricsReporter] = []
        context = MetricsContext(
            namespace=NAMESPACE, labels={"kafka.cluster.id": cluster_id, "kafka.node.id": str(node_id)}
        )
        for name in names:
            reporter = load_reporter(name)
            reporter.configure(configs)
            reporter.context_change(context)
            metrics.add_reporter(reporter)
            self.plugin.add(reporter)
            self._reporters.append(reporter)

    def close(self) -> None:
        """Closes every reporter; one that fails does not keep the next from being closed."""
        for reporter in self._reporters:
            self.plugin.remove(reporter)
            reporter.close()
