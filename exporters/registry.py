"""The types of exporter that `[exporters.<name>]` can name."""

from collections.abc import Callable, Mapping
from typing import Final

from exporters.landing import landing_exporter
from exporters.options import ExporterConfigError
from exporters.otlp import otlp_exporter
from exporters.outcome import Exporter
from exporters.prometheus.exporter import prometheus_exporter

EXPORTER_TYPES: Final[Mapping[str, Callable[[str, Mapping[str, object]], Exporter]]] = {
    "landing": landing_exporter,
    "otlp": otlp_exporter,
    "prometheus": prometheus_exporter,
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
        raise ExporterConfigError(name, "type", kind, f"expected one of {', '.join(sorted(EXPORTER_TYPES))}")
    return factory(name, values)
