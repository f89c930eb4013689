"""The fast reader: `ptars` turns payloads into nested Arrow arrays, which are flattened without a Python loop."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fleet.decode.arrow import Array, RecordBatch, pa, pc
from fleet.decode.descriptor import (
    DISTRIBUTION_KINDS,
    KINDS,
    NUMBER_KINDS,
    metrics_data_descriptor,
    numbers_descriptor,
)
from fleet.decode.distribution import DISTRIBUTIONS_TYPE, of_columns
from fleet.decode.flat import FlatPoints, Indices, Payloads, RefusedError, arrow_of

_NO_RECORDED_VALUE = 1  # bit of a data point's `flags` (OTLP, DataPointFlags)


@cache
def _handler(*, has_distributions: bool) -> Any:
    from ptars import HandlerPool  # optional: `is_available` says whether it is there

    descriptor = metrics_data_descriptor() if has_distributions else numbers_descriptor()
    return HandlerPool([descriptor.file]).get_for_message(descriptor)


@cache
def is_available() -> bool:
    """True if `ptars` can be imported here."""
    try:
        _handler(has_distributions=False)
    except ImportError:
        return False
    return True


def read(payloads: Payloads) -> FlatPoints:
    """Reads a batch of serialised `MetricsData`.

    Raises:
        RefusedError: one of the payloads is malformed, or sets two members of a oneof, where `ptars` keeps both and
            the last is meant.
    """
    array = arrow_of(payloads)
    levels = _unnest_all(_convert(array, has_distributions=False))
    if any(_is_used(levels.metrics, kind) for kind in DISTRIBUTION_KINDS):
        levels = _unnest_all(_convert(array, has_distributions=True))
    return _flatten(levels)


def _convert(payloads: Array, *, has_distributions: bool) -> Array:
    try:
        batch: RecordBatch = _handler(has_distributions=has_distributions).array_to_record_batch(payloads)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in Rust arrives as a BaseException
        raise RefusedError(str(error)) from error
    return batch.column(0)


def _unnest(lists: Array) -> tuple[Indices, Array]:
    """The items of all lists, and for each the index of its list."""
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return parents.astype(np.int64, copy=False), lists.flatten()


def _field(structs: Array, name: str) -> Array:
    """A field of all structs, null where the struct is."""
    return pc.struct_field(structs, name)


def _is_used(structs: Array, name: str) -> bool:
    field = _field(structs, name)
    return bool(field.null_count < len(field))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Levels:
    """The messages of each level, and for each the index of the one that it is in."""

    push_of: Indices
    resources: Array
    resource_of: Indices
    scopes: Array
    scope_of: Indices
    metrics: Array


def _unnest_all(resource_metrics: Array) -> _Levels:
    push_of, resources = _unnest(resource_metrics)
    resource_of, scopes = _unnest(_field(resources, "scope_metrics"))
    scope_of, metrics = _unnest(_field(scopes, "metrics"))
    return _Levels(
        push_of=push_of,
        resources=resources,
        resource_of=resource_of,
        scopes=scopes,
        scope_of=scope_of,
        metrics=metrics,
    )


def _flatten(levels: _Levels) -> FlatPoints:
    metrics = levels.metrics
    _refuse_conflict(metrics, KINDS)
    return FlatPoints(
        **_points(metrics),
        resource_of=levels.resource_of[levels.scope_of],
        name=_field(metrics, "name"),
        unit=_field(metrics, "unit"),
        scope_name=_field(_field(levels.scopes, "scope"), "name").take(pa.array(levels.scope_of)),
        temporality=_temporality(metrics),
        is_monotonic=_field(_field(metrics, "sum"), "is_monotonic"),
        push_of=levels.push_of,
        resource=_joined(_field(levels.resources, "resource")),
    )


def _temporality(metrics: Array) -> Array:
    kinds = [_field(metrics, kind) for kind in ("sum", "histogram", "exponential_histogram") if _is_used(metrics, kind)]
    if not kinds:
        return pa.nulls(len(metrics), pa.int32())
    return pc.coalesce(*(_field(kind, "aggregation_temporality") for kind in kinds))


def _joined(pieces: Array) -> Array:
    """Each list's pieces as one: in memory they follow one another already, so that only the bounds change."""
    items = pieces.flatten()
    if not len(items):
        return pa.repeat(b"", len(pieces))
    _, offsets, data = items.buffers()
    bounds = np.frombuffer(offsets, np.int32)[items.offset :]
    ends = np.cumsum(pieces.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    joined = pa.py_buffer(bounds[np.concatenate([np.zeros(1, np.int64), ends])])
    return pa.Array.from_buffers(pa.binary(), len(pieces), [None, joined, data])


def _refuse_conflict(structs: Array, members: tuple[str, ...]) -> None:
    """Protobuf keeps the last member of a oneof that is set twice; here the order is lost."""
    fields = [_field(structs, member) for member in members]
    used = [field.is_valid().to_numpy(zero_copy_only=False) for field in fields if field.null_count < len(field)]
    if len(used) > 1 and np.add.reduce(used, dtype=np.int8).max() > 1:
        raise RefusedError(f"more than one of {', '.join(members)} is set")


def _points(metrics: Array) -> dict[str, Any]:
    """The point columns of `FlatPoints`, kind by kind, of each in the order of the metrics."""
    parts = [part for number, kind in enumerate(KINDS) if (part := _points_of_kind(metrics, number, kind)) is not None]
    if not parts:
        parts = [_no_points(metrics)]
    if len(parts) == 1:
        return parts[0]
    return {
        name: (np.concatenate if isinstance(first, np.ndarray) else pa.concat_arrays)([part[name] for part in parts])
        for name, first in parts[0].items()
    }


def _no_points(metrics: Array) -> dict[str, Any]:
    return _columns_of_kind(0, KINDS[0], *_unnest(_field(_field(metrics.slice(0, 0), KINDS[0]), "data_points")))


def _points_of_kind(metrics: Array, number: int, kind: str) -> dict[str, Any] | None:
    data = _field(metrics, kind)
    if data.null_count == len(data):
        return None
    return _columns_of_kind(number, kind, *_unnest(_field(data, "data_points")))


def _columns_of_kind(number: int, kind: str, metric_of: Indices, points: Array) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "metric_of": metric_of,
        "kind": np.full(len(points), number, dtype=np.int8),
        "value": _value(points) if kind in NUMBER_KINDS else pa.nulls(len(points), pa.float64()),
    }
    is_distribution = kind in DISTRIBUTION_KINDS
    columns["distribution"] = of_columns(kind, points) if is_distribution else pa.nulls(len(points), DISTRIBUTIONS_TYPE)
    for name, type_ in (("count", pa.uint64()), ("sum", pa.float64())):
        columns[name] = _field(points, name) if is_distribution else pa.nulls(len(points), type_)
    for name in ("start_time_unix_nano", "time_unix_nano", "attributes"):
        columns[name] = _field(points, name)
    return columns


def _value(points: Array) -> Array:
    _refuse_conflict(points, ("as_double", "as_int"))
    value = _field(points, "as_double")
    as_int = _field(points, "as_int")
    if as_int.null_count < len(as_int):
        value = pc.coalesce(value, as_int.cast(pa.float64(), safe=False))
    flags = _field(points, "flags")
    if not flags.to_numpy(zero_copy_only=False).any():  # which the clients never set
        return value
    recorded = pc.equal(pc.bit_wise_and(flags, pa.scalar(_NO_RECORDED_VALUE, pa.uint32())), 0)
    return pc.if_else(recorded, value, None)
