"""The types of exporter that `[exporters.<name>]` can name."""

from collections.abc import Callable, Mapping
from typing import Final

from exporters.console import console_exporter
from exporters.kafka_topic import kafka_topic_exporter
from exporters.landing import landing_exporter
from exporters.options import ExporterConfigError
from exporters.otlp import otlp_exporter
from exporters.outcome import Exporter
from exporters.self_metrics import SELF_METRICS, self_metrics_settings

EXPORTER_TYPES: Final[Mapping[str, Callable[[str, Mapping[str, object]], Exporter]]] = {
    "console": console_exporter,
    "kafka_topic": kafka_topic_exporter,
    "landing": landing_exporter,
    "otlp": otlp_exporter,
}
"""Type -> factory of (name, key -> value)."""


def build_exporter(name: str, values: Mapping[str, object]) -> Exporter:
    """Makes the exporter that the table `[exporters.<name>]` describes; connects to nothing yet.

    Raises:
        ExporterConfigError: `type` is missing or unknown, or the type's own keys are wrong.
    """
    kind = values.get("type")
    factory = EXPORTER_TYPES.get(kind) if isinstance(kind, str) else None
    if factory is None:
        raise ExporterConfigError(
            name, "type", kind, f"expected one of {', '.join(sorted((*EXPORTER_TYPES, SELF_METRICS)))}"
        )
    return factory(name, values)


def check_exporter(name: str, values: Mapping[str, object]) -> None:
    """Checks the table `[exporters.<name>]`, of whatever type; connects to nothing.

    Raises:
        ExporterConfigError: as `build_exporter`, to which `self_metrics` is unknown, since no push log feeds it.
    """
    if values.get("type") == SELF_METRICS:
        self_metrics_settings(name, values)
    else:
        build_exporter(name, values)
