"""Contents of histograms, exponential histograms and summaries.

A list a data point, with one struct, or null for a number: a struct alone would take room for every field of every
point, and nearly all points are numbers.
"""

import math
from collections.abc import Iterable
from typing import Any, Final

from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.schemas import DISTRIBUTION

DISTRIBUTIONS_TYPE: Final = pa.list_(pa.struct(list(DISTRIBUTION)))

_INT64_MAX: Final = 2**63 - 1

_FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "histogram": {
        "min": ("min",),
        "max": ("max",),
        "bounds": ("explicit_bounds",),
        "bucket_counts": ("bucket_counts",),
    },
    "exponential_histogram": {
        "min": ("min",),
        "max": ("max",),
        "scale": ("scale",),
        "zero_count": ("zero_count",),
        "zero_threshold": ("zero_threshold",),
        "positive_offset": ("positive", "offset"),
        "bucket_counts": ("positive", "bucket_counts"),
        "negative_offset": ("negative", "offset"),
        "negative_bucket_counts": ("negative", "bucket_counts"),
    },
    "summary": {"quantiles": ("quantile_values", "quantile"), "quantile_values": ("quantile_values", "value")},
}
"""Path of each field in OTLP's data point, by kind and name in DISTRIBUTION."""


def of_message(kind: str, point: Any) -> list[dict[str, Any]]:
    """Distribution of a data point of OpenTelemetry's classes, in `DISTRIBUTIONS_TYPE`."""
    return [{name: _value(point, way) for name, way in _FIELDS[kind].items()}]


def _value(point: Any, way: tuple[str, ...]) -> Any:
    if way[0] == "quantile_values":
        return [number_or_none(getattr(item, way[1])) for item in point.quantile_values]
    if way[0] in ("min", "max", "positive", "negative") and not point.HasField(way[0]):
        return None
    value = point
    for name in way:
        value = getattr(value, name)
    if isinstance(value, int | float):
        return number_or_none(value)
    items: Iterable[float] = value
    return [number_or_none(item) for item in items]


def number_or_none(number: float) -> float | None:
    """None for NaN, and for what no signed 64-bit number holds."""
    is_too_large = isinstance(number, int) and number > _INT64_MAX
    return None if is_too_large or math.isnan(number) else number
