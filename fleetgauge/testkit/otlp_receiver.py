"""A real OTLP gRPC server in a process of its own: `python -m fleetgauge.testkit.otlp_receiver [port]`.

Prints its port as the first line. Answers every export; when its standard input ends, prints what it received as one
JSON object, client instance by client instance, and exits.
"""

import json
import sys
import threading
from concurrent import futures

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics

_POINT_FIELDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")


class Receiver(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Counts requests and data points, and keeps the resource attributes of each client instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exports = 0
        self._clients: dict[str, dict[str, object]] = {}

    def Export(  # noqa: N802  # the name that gRPC generates
        self, request: metrics_service_pb2.ExportMetricsServiceRequest, _context: grpc.ServicerContext
    ) -> metrics_service_pb2.ExportMetricsServiceResponse:
        """Takes one export."""
        with self._lock:
            self._exports += 1
            for resource_metrics in request.resource_metrics:
                self._take(resource_metrics)
        return metrics_service_pb2.ExportMetricsServiceResponse()

    def summary(self) -> dict[str, object]:
        """Received data so far: number of exports, and labels and points by client instance id."""
        with self._lock:
            return {"exports": self._exports, "clients": self._clients}

    def _take(self, resource_metrics: ResourceMetrics) -> None:
        labels = {item.key: item.value.string_value for item in resource_metrics.resource.attributes}
        client = self._clients.setdefault(labels.get("client_instance_id", ""), {"labels": labels, "points": 0})
        metrics = (metric for scope in resource_metrics.scope_metrics for metric in scope.metrics)
        client["points"] = int(str(client["points"])) + sum(_points(metric) for metric in metrics)


def _points(metric: Metric) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind in _POINT_FIELDS else 0


def main() -> None:
    """Serves until standard input ends."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "0"
    receiver = Receiver()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]  # generated
    port = server.add_insecure_port(f"127.0.0.1:{wanted}")
    server.start()
    print(port, flush=True)  # noqa: T201  # how the parent learns the port
    sys.stdin.read()
    server.stop(grace=1).wait()
    print(json.dumps(receiver.summary()), flush=True)  # noqa: T201  # how the parent learns what came


if __name__ == "__main__":
    main()
