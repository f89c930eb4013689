"""What a histogram, an exponential histogram or a summary holds, in Arrow, from either reader.

A list a data point, with one struct, or null for a number: a struct alone would take room for every field of every
point, and nearly all points are numbers.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from fleet.decode.arrow import Array, pa, pc

DISTRIBUTION_TYPE: Final = pa.struct(
    [
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("bounds", pa.list_(pa.float64())),
        ("bucket_counts", pa.list_(pa.int64())),
        ("scale", pa.int32()),
        ("zero_count", pa.int64()),
        ("zero_threshold", pa.float64()),
        ("positive_offset", pa.int32()),
        ("negative_offset", pa.int32()),
        ("negative_bucket_counts", pa.list_(pa.int64())),
        ("quantiles", pa.list_(pa.float64())),
        ("quantile_values", pa.list_(pa.float64())),
    ]
)
"""The Arrow form of `fleet.schemas.DISTRIBUTION`."""

DISTRIBUTIONS_TYPE: Final = pa.list_(DISTRIBUTION_TYPE)

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
"""By kind and name in DISTRIBUTION_TYPE: the way to it in OTLP's data point."""


def int64(numbers: Array) -> Array:
    """Null for what no signed 64-bit number holds."""
    return pc.if_else(pc.greater(numbers, pa.scalar(_INT64_MAX, pa.uint64())), None, numbers).cast(pa.int64())


def none_if_nan(numbers: Array) -> Array:
    """Null where nothing was recorded."""
    return pc.if_else(pc.is_nan(numbers), None, numbers)


def of_columns(kind: str, points: Array) -> Array:
    """Of an array of one kind's data points, as `ptars` gives them, in `DISTRIBUTIONS_TYPE`."""
    arrays = [
        _column(points, way, field.type)
        if (way := _FIELDS[kind].get(field.name))
        else pa.nulls(len(points), field.type)
        for field in DISTRIBUTION_TYPE
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(DISTRIBUTION_TYPE))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(points) + 1, dtype=np.int32)), structs).cast(
        DISTRIBUTIONS_TYPE
    )


def _column(points: Array, way: tuple[str, ...], type_: Any) -> Array:
    found = pc.struct_field(points, way[0])
    if len(way) > 1 and pa.types.is_list(found.type):
        found = _each(found, lambda items: pc.struct_field(items, way[1]))
    elif len(way) > 1:
        found = pc.struct_field(found, way[1])
    if not pa.types.is_list(type_):
        return _plain(found).cast(type_)
    return _each(found, _plain).cast(type_)


def _plain(numbers: Array) -> Array:
    if pa.types.is_floating(numbers.type):
        return none_if_nan(numbers)
    return int64(numbers) if pa.types.is_uint64(numbers.type) else numbers


def _each(lists: Array, change: Callable[[Array], Array]) -> Array:
    """The lists with their items changed."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])
    return pa.ListArray.from_arrays(offsets, change(lists.flatten()), mask=lists.is_null())


def of_message(kind: str, point: Any) -> list[dict[str, Any]]:
    """The same of one data point as protobuf's own classes have it."""
    return [{name: _value(point, way) for name, way in _FIELDS[kind].items()}]


def _value(point: Any, way: tuple[str, ...]) -> Any:
    if way[0] == "quantile_values":
        return [_number(getattr(item, way[1])) for item in point.quantile_values]
    if way[0] in ("min", "max", "positive", "negative") and not point.HasField(way[0]):
        return None
    found = point
    for name in way:
        found = getattr(found, name)
    if isinstance(found, int | float):
        return _number(found)
    items: Iterable[float] = found
    return [_number(item) for item in items]


def _number(number: float) -> float | None:
    is_too_large = isinstance(number, int) and number > _INT64_MAX
    return None if is_too_large or math.isnan(number) else number
