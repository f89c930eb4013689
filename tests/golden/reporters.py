"""Reporters for `metric.reporters` of a golden node. The latest of each class is the one of the node that runs."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class Registry:
    """Follows the node's own metrics, as a JMX reporter would. Receives no pushes."""

    latest: ClassVar[Any] = None

    def __init__(self) -> None:
        self._metrics: dict[str, Any] = {}
        Registry.latest = self

    def configure(self, configs: Mapping[str, object]) -> None: ...

    def context_change(self, context: Any) -> None: ...

    def init(self, metrics: Sequence[Any]) -> None:
        for metric in metrics:
            self.metric_change(metric)

    def metric_change(self, metric: Any) -> None:
        self._metrics[_name(metric)] = metric

    def metric_removal(self, metric: Any) -> None:
        self._metrics.pop(_name(metric), None)

    def close(self) -> None: ...

    def values(self) -> dict[str, str]:
        """Every metric's value now."""
        return {name: _text(metric.metric_value()) for name, metric in sorted(self._metrics.items())}


def _name(metric: Any) -> str:
    name = metric.metric_name
    return f"{name.group}:{name.name}" + "".join(f",{key}={value}" for key, value in sorted(name.tags.items()))


def _text(value: object) -> str:
    """Twelve digits: whether sums are taken in another order does not matter."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


class Receiver(Registry):
    """Also receives pushes, one for each permit, and keeps what it was told of them."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = threading.Semaphore(0)
        self.is_closed = False
        self.reports: list[str] = []

    def client_receiver(self) -> "Receiver":
        return self

    def close(self) -> None:
        self.is_closed = True
        self.permits.release(1_000)

    def export_metrics(self, context: Any, payload: Any) -> None:
        self.permits.acquire()
        said = (
            *(context.listener_name, context.security_protocol, context.principal, repr(context.client_id)),
            *(context.client_software_name, context.client_software_version, context.client_address),
            *(context.client_port, context.connection_id, context.correlation_id),
            *(payload.client_instance_id, payload.is_terminating, payload.content_type, len(payload.data)),
        )
        self.reports.append(" ".join(str(each) for each in said))


class Exporter(Receiver):
    """The same through KIP-1217, which tells the interval."""

    def client_telemetry_exporter(self) -> "Exporter":
        return self

    def export_metrics(self, context: Any, payload: Any) -> None:
        super().export_metrics(context.authorizable_request_context, payload)
        self.reports[-1] += f" every {context.push_interval_ms} ms"


class Raising(Receiver):
    """Fails at every push."""

    def export_metrics(self, context: Any, payload: Any) -> None:
        super().export_metrics(context, payload)
        raise RuntimeError("always")


class Hanging(Receiver):
    """Never ends with a push."""

    def export_metrics(self, context: Any, payload: Any) -> Any:
        super().export_metrics(context, payload)
        return None if self.is_closed else asyncio.Event().wait()  # nobody would await it any more
