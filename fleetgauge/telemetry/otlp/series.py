"""Keys of series of data points besides metric and attributes, and the unit of their values.

docs/reference/points.md defines how Fleetgauge reads data points; this is the part of it that the Prometheus page, the
tables and the OTLP exporter share as code. The standard library alone.
"""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

NO_RECORDED_VALUE: Final = 1
"""Bit of a data point's `flags` (OTLP, DataPointFlags)."""
DELTA: Final = 1
CUMULATIVE: Final = 2
"""OTLP's AggregationTemporality."""

SCOPE_NAME: Final = "otel.scope.name"
SCOPE_VERSION: Final = "otel.scope.version"
SERVICE_KEYS: Final = ("service.namespace", "service.name", "service.instance.id")
"""Resource attributes that identify what sent a point (OpenTelemetry, Resource Semantic Conventions, "Service"). All
others, such as a consumer's member id, describe the client and may change during its life."""

_TIMES: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3_600 * 10**9,
    "d": 86_400 * 10**9,
}
_PREFIXES: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGT", start=1)
}
_BYTES: Final = {prefix + name: size for prefix, size in _PREFIXES.items() for name in ("By", "B")}
_NUMBERS: Final = {"1": 100, "": 100, "records": 100, "%": 1}
_QUANTITIES: Final[tuple[Mapping[str, int], ...]] = (_TIMES, _BYTES, _NUMBERS)
"""The sizes of the units of each quantity: UCUM's codes, and those of `KnownMetric.unit`."""


def origin_of(scope_name: str, scope_version: str, resource: Mapping[str, str | None]) -> dict[str, str]:
    """Key of a series besides metric and attributes: its scope and service, by the names of OpenTelemetry.

    Empty for known clients: the scopes that librdkafka and franz-go send name the client, as the push record does.

    >>> origin_of("io.app", "1.2", {"service.name": "shop", "group_id": "billing"})
    {'otel.scope.name': 'io.app', 'otel.scope.version': '1.2', 'service.name': 'shop'}
    >>> origin_of("kgo", "1.22.2", {}), origin_of("rdkafka#producer-1", "2.16.0", {})
    ({}, {})
    """
    origin = {key: text for key in SERVICE_KEYS if (text := resource.get(key))}
    if library_of(None, None, scope_name) is None:
        scope = {SCOPE_NAME: scope_name, SCOPE_VERSION: scope_version}
        origin = {key: text for key, text in scope.items() if text} | origin
    return origin


@lru_cache(8_192)
def unit_of(metric_name: str, unit: str) -> tuple[float, str]:
    """Factor that converts a metric's values to the unit of the catalogue, and the unit that remains.

    It remains, and is part of the series' identity, for metrics that are not in the catalogue and for units of another
    quantity. An empty one stands for the catalogue's.

    >>> unit_of("org.apache.kafka.consumer.coordinator.commit.latency.avg", "s")
    (1000.0, '')
    >>> unit_of("org.apache.kafka.consumer.coordinator.commit.latency.avg", "By"), unit_of("app.latency", "s")
    ((1.0, 'By'), (1.0, 's'))
    """
    known = metrics_by_name().get(metric_name)
    if not unit or known is None or known.unit is None:
        return 1.0, unit
    sent, _, sent_per = re.sub(r"\{[^}]*\}", "", unit).partition("/")  # without UCUM's annotations, such as {requests}
    wanted, _, wanted_per = known.unit.partition("/")
    factor, factor_per = _ratio(sent, wanted), _ratio(wanted_per, sent_per)
    return (1.0, unit) if factor is None or factor_per is None else (factor * factor_per, "")


def _ratio(unit: str, other: str) -> float | None:
    """Size of a unit in another one; None if they measure different quantities."""
    return next((sizes[unit] / sizes[other] for sizes in _QUANTITIES if unit in sizes and other in sizes), None)


def are_buckets(counts: Sequence[float], bounds: Sequence[float]) -> bool:
    """True if a histogram has one more count than bounds, and these are finite and rise."""
    rising = all(low < high for low, high in itertools.pairwise(bounds))
    return len(counts) == len(bounds) + 1 and rising and all(map(math.isfinite, bounds))
