"""Names of metrics as an operator types them."""

from fleetgauge.base.suggestions import nearest
from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX, known_metrics


def advice(prefix: str) -> str | None:
    """Advice for a prefix of Kafka's own metrics that no known client sends; else None.

    >>> advice("org.apache.kafka.consumer."), advice("com.example.")
    (None, None)
    """
    names = [metric.name for metric in known_metrics()]
    if not prefix.startswith(KAFKA_PREFIX) or any(name.startswith(prefix) for name in names):
        return None
    near = nearest(prefix, names)
    return f"no known client sends a metric {prefix}" + (f": did you mean {near}?" if near else "")
