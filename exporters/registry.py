"""The types of exporter that `[exporters.<name>]` can name: our own, those of installed packages, any by dotted path.

What a pipeline does for every exporter is set in the same table; an exporter does not see those keys.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from exporters.console import console_exporter
from exporters.exporter import Exporter
from exporters.kafka.exporter import kafka_topic_exporter
from exporters.landing.exporter import landing_exporter
from exporters.options import ExporterConfigError, Options
from exporters.otlp.exporter import otlp_exporter
from exporters.prometheus.exporter import prometheus_exporter
from exporters.self_metrics import SELF_METRICS, self_metrics_settings

ENTRY_POINT_GROUP: Final = "fleetgauge.exporters"
"""Where a package names its types: `webhook = "fleetgauge_webhook:webhook_exporter"`."""

Factory = Callable[[str, Mapping[str, object]], Exporter]
"""Makes an exporter of its name and its keys; connects to nothing yet, and raises `ExporterConfigError`."""

EXPORTER_TYPES: Final[Mapping[str, Factory]] = {
    "console": console_exporter,
    "kafka_topic": kafka_topic_exporter,
    "landing": landing_exporter,
    "otlp": otlp_exporter,
    "prometheus": prometheus_exporter,
}
"""Type -> factory of (name, key -> value)."""

_DRAIN_RATE: Final = "drain.rate.bytes"
_PIPELINE_KEYS: Final = frozenset({_DRAIN_RATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """What every type of exporter has.

    Attributes:
        drain_rate_bytes: at which rate a backlog is delivered (key `drain.rate.bytes`), decompressed metrics of pushes
            [B/s]; None, the default, is as fast as the destination takes it.
    """

    drain_rate_bytes: int | None = None


def build_exporter(name: str, values: Mapping[str, object]) -> Exporter:
    """Makes the exporter that the table `[exporters.<name>]` describes; connects to nothing yet.

    Raises:
        ExporterConfigError: `type` is missing or unknown, or the type's own keys are wrong.
    """
    pipeline_settings(name, values)
    own = {key: value for key, value in values.items() if key not in _PIPELINE_KEYS}
    return _factory(name, values.get("type"))(name, own)


def check_exporter(name: str, values: Mapping[str, object]) -> None:
    """Checks the table `[exporters.<name>]`, of whatever type; connects to nothing.

    Raises:
        ExporterConfigError: as `build_exporter`, to which `self_metrics` is unknown, since no push log feeds it.
    """
    if values.get("type") == SELF_METRICS:
        self_metrics_settings(name, values)
    else:
        build_exporter(name, values)


def pipeline_settings(name: str, values: Mapping[str, object]) -> PipelineSettings:
    """What the table `[exporters.<name>]` says of the pipeline.

    Raises:
        ExporterConfigError: a value is not allowed.
    """
    options = Options(name, values)
    if _DRAIN_RATE not in values:
        return PipelineSettings()
    return PipelineSettings(drain_rate_bytes=options.integer(_DRAIN_RATE, 0, minimum=1, maximum=2**63 - 1))


def _factory(name: str, kind: object) -> Factory:
    if isinstance(kind, str) and kind in EXPORTER_TYPES:
        return EXPORTER_TYPES[kind]
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if isinstance(kind, str) and kind in installed:
        return _callable(name, kind, _loaded(name, kind, installed[kind].load))
    if isinstance(kind, str) and ":" in kind:
        return _callable(name, kind, _loaded(name, kind, lambda: _at_path(kind)))
    known = ", ".join(sorted({*EXPORTER_TYPES, SELF_METRICS, *installed}))
    raise ExporterConfigError(name, "type", kind, f"expected one of {known}, or package.module:factory")


def _at_path(path: str) -> object:
    module, _, names = path.partition(":")
    found: object = importlib.import_module(module)
    for attribute in names.split("."):
        found = getattr(found, attribute)
    return found


def _loaded(name: str, kind: str, load: Callable[[], Any]) -> object:
    try:
        return load()
    except Exception as error:  # a stranger's module may raise anything while it is imported
        problem = f"it cannot be loaded: {type(error).__name__}: {error}"
        raise ExporterConfigError(name, "type", kind, problem) from error


def _callable(name: str, kind: str, found: object) -> Factory:
    if not callable(found):
        raise ExporterConfigError(name, "type", kind, "it is no factory: expected a callable of name and keys")
    return found
