"""The types of exporter for `[exporters.<name>]`: built-in ones, those of installed packages, and any by dotted path.

The same table has the keys of the pipeline; exporters do not see those.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any, Final

from fleetgauge.base.errors import import_problem
from fleetgauge.exporters.exporter import Exporter
from fleetgauge.exporters.options import ExporterConfigError, Options
from fleetgauge.exporters.self_metrics import SELF_METRICS, self_metrics_settings

ENTRY_POINT_GROUP: Final = "fleetgauge.exporters"
"""Entry points by which a package names its types: `webhook = "fleetgauge_webhook:webhook_exporter"`."""

Factory = Callable[[str, Mapping[str, object]], Exporter]
"""Makes an exporter from its name and keys, without connecting; raises `ExporterConfigError`."""

EXPORTER_TYPES: Final[Mapping[str, str]] = {
    "console": "fleetgauge.exporters.console:console_exporter",
    "kafka_topic": "fleetgauge.exporters.kafka.exporter:kafka_topic_exporter",
    "landing": "fleetgauge.exporters.landing.exporter:landing_exporter",
    "otlp": "fleetgauge.exporters.otlp.exporter:otlp_exporter",
    "prometheus": "fleetgauge.exporters.prometheus.exporter:prometheus_exporter",
}
"""Type -> factory, imported when it is configured."""

_DRAIN_RATE: Final = "drain.rate.bytes"
"""A key of the pipeline and not of the exporter."""


def build_exporter(name: str, values: Mapping[str, object]) -> Exporter:
    """Makes the exporter of the table `[exporters.<name>]`, without connecting.

    Raises:
        ExporterConfigError: `type` is missing or unknown, or the type's own keys are wrong.
    """
    drain_rate_bytes(name, values)
    own = {key: value for key, value in values.items() if key != _DRAIN_RATE}
    return _factory(name, values.get("type"))(name, own)


def check_exporter(name: str, values: Mapping[str, object]) -> None:
    """Checks the table `[exporters.<name>]` of any type, without connecting.

    Raises:
        ExporterConfigError: as `build_exporter`; `self_metrics`, which does not read the push log, is known here, too.
    """
    if values.get("type") == SELF_METRICS:
        self_metrics_settings(name, values)
    else:
        build_exporter(name, values)


def drain_rate_bytes(name: str, values: Mapping[str, object]) -> int | None:
    """Rate at which the pipeline of `[exporters.<name>]` delivers a backlog [B/s of decompressed metrics].

    None, the default, is without limit.

    Raises:
        ExporterConfigError: a value is not allowed.
    """
    return Options(name, values).optional_integer(_DRAIN_RATE, minimum=1, maximum=2**63 - 1)


def _factory(name: str, kind: object) -> Factory:
    if isinstance(kind, str) and kind in EXPORTER_TYPES:
        built_in: Factory = resolve_name(EXPORTER_TYPES[kind])
        return built_in
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if isinstance(kind, str) and kind in installed:
        return _loaded(name, kind, installed[kind].load)
    if isinstance(kind, str) and ":" in kind:
        return _loaded(name, kind, partial(resolve_name, kind))
    known = ", ".join(sorted({*EXPORTER_TYPES, SELF_METRICS, *installed}))
    raise ExporterConfigError(name, "type", kind, f"expected one of {known}, or package.module:factory")


def _loaded(name: str, kind: str, load: Callable[[], Any]) -> Factory:
    try:
        factory: Factory = load()
    except Exception as error:  # an unknown module may raise anything while it is imported
        problem = f"it cannot be loaded: {import_problem(error)}"
        raise ExporterConfigError(name, "type", kind, problem) from error
    if not callable(factory):
        raise ExporterConfigError(name, "type", kind, "it is not a factory: expected a callable of name and keys")
    return factory
