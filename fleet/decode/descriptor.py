"""The part of OTLP's `MetricsData` that is read, as a protobuf descriptor of its own.

Attributes and resources are declared as `bytes`: equal ones are found by comparing bytes, and each distinct one is
decoded once. `resource` is declared repeated, so that a resource given in several pieces (how labels are appended to
serialised messages) keeps them all; joined, they are the merged message, as protobuf defines it.
"""

from functools import cache
from typing import Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.message import Message

NUMBER_KINDS: Final = ("gauge", "sum")
DISTRIBUTION_KINDS: Final = ("histogram", "exponential_histogram", "summary")
KINDS: Final = NUMBER_KINDS + DISTRIBUTION_KINDS
"""The values of `metric_type`: the names of the fields of `Metric`'s oneof `data`."""

_PACKAGE: Final = "fleetgauge.otlp"
_MANY: Final = "many"
_OPTIONAL: Final = "optional"

# field: (name, number, type or message, how often); one of a oneof: the oneof's name instead
_TIMES: Final = (
    ("start_time_unix_nano", 2, Field.TYPE_FIXED64, ""),
    ("time_unix_nano", 3, Field.TYPE_FIXED64, ""),
)
_COUNT: Final = ("count", 4, Field.TYPE_FIXED64, "")
_OPTIONAL_SUM: Final = ("sum", 5, Field.TYPE_DOUBLE, _OPTIONAL)
_TEMPORALITY: Final = ("aggregation_temporality", 2, Field.TYPE_INT32, "")

_MESSAGES: Final[dict[str, tuple[tuple[str, int, int | str, str], ...]]] = {
    "MetricsData": (("resource_metrics", 1, "ResourceMetrics", _MANY),),
    "ResourceMetrics": (
        ("resource", 1, Field.TYPE_BYTES, _MANY),
        ("scope_metrics", 2, "ScopeMetrics", _MANY),
    ),
    "ScopeMetrics": (("scope", 1, "Scope", ""), ("metrics", 2, "Metric", _MANY)),
    "Scope": (("name", 1, Field.TYPE_STRING, ""),),
    "Metric": (
        ("name", 1, Field.TYPE_STRING, ""),
        ("unit", 3, Field.TYPE_STRING, ""),
        ("gauge", 5, "Gauge", "data"),
        ("sum", 7, "Sum", "data"),
        ("histogram", 9, "Histogram", "data"),
        ("exponential_histogram", 10, "ExponentialHistogram", "data"),
        ("summary", 11, "Summary", "data"),
    ),
    "Gauge": (("data_points", 1, "NumberDataPoint", _MANY),),
    "Sum": (
        ("data_points", 1, "NumberDataPoint", _MANY),
        _TEMPORALITY,
        ("is_monotonic", 3, Field.TYPE_BOOL, ""),
    ),
    "Histogram": (("data_points", 1, "HistogramDataPoint", _MANY), _TEMPORALITY),
    "ExponentialHistogram": (("data_points", 1, "ExponentialHistogramDataPoint", _MANY), _TEMPORALITY),
    "Summary": (("data_points", 1, "SummaryDataPoint", _MANY),),
    "NumberDataPoint": (
        *_TIMES,
        ("as_double", 4, Field.TYPE_DOUBLE, "value"),
        ("as_int", 6, Field.TYPE_SFIXED64, "value"),
        ("attributes", 7, Field.TYPE_BYTES, _MANY),
        ("flags", 8, Field.TYPE_UINT32, ""),
    ),
    "HistogramDataPoint": (
        *_TIMES,
        _COUNT,
        _OPTIONAL_SUM,
        ("bucket_counts", 6, Field.TYPE_FIXED64, _MANY),
        ("explicit_bounds", 7, Field.TYPE_DOUBLE, _MANY),
        ("attributes", 9, Field.TYPE_BYTES, _MANY),
        ("min", 11, Field.TYPE_DOUBLE, _OPTIONAL),
        ("max", 12, Field.TYPE_DOUBLE, _OPTIONAL),
    ),
    "ExponentialHistogramDataPoint": (
        *_TIMES,
        _COUNT,
        _OPTIONAL_SUM,
        ("attributes", 1, Field.TYPE_BYTES, _MANY),
        ("scale", 6, Field.TYPE_SINT32, ""),
        ("zero_count", 7, Field.TYPE_FIXED64, ""),
        ("positive", 8, "Buckets", ""),
        ("negative", 9, "Buckets", ""),
        ("min", 12, Field.TYPE_DOUBLE, _OPTIONAL),
        ("max", 13, Field.TYPE_DOUBLE, _OPTIONAL),
        ("zero_threshold", 14, Field.TYPE_DOUBLE, ""),
    ),
    "Buckets": (("offset", 1, Field.TYPE_SINT32, ""), ("bucket_counts", 2, Field.TYPE_UINT64, _MANY)),
    "SummaryDataPoint": (
        *_TIMES,
        _COUNT,
        ("sum", 5, Field.TYPE_DOUBLE, ""),
        ("quantile_values", 6, "ValueAtQuantile", _MANY),
        ("attributes", 7, Field.TYPE_BYTES, _MANY),
    ),
    "ValueAtQuantile": (("quantile", 1, Field.TYPE_DOUBLE, ""), ("value", 2, Field.TYPE_DOUBLE, "")),
}


def _add_oneof(message: descriptor_pb2.DescriptorProto, name: str) -> int:
    names = [oneof.name for oneof in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        names.append(name)
    return names.index(name)


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: int | str, how: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = Field.LABEL_REPEATED if how == _MANY else Field.LABEL_OPTIONAL
    if isinstance(kind, str):
        field.type = Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"
    else:
        field.type = kind  # type: ignore[assignment]  # the stubs know the enum, the table holds its numbers
    if how == _OPTIONAL:
        field.oneof_index = _add_oneof(message, f"_{name}")
        field.proto3_optional = True
    elif how not in ("", _MANY):
        field.oneof_index = _add_oneof(message, how)


@cache
def metrics_data_descriptor() -> Descriptor:
    """The descriptor of the trimmed `MetricsData`."""
    return _descriptor(_MESSAGES)


@cache
def numbers_descriptor() -> Descriptor:
    """The same with distributions left as `bytes`: `ptars` spends time on every column of a message for every metric
    that lacks it, and clients of Kafka hardly ever send any.
    """
    metric = tuple(
        (name, number, Field.TYPE_BYTES if name in DISTRIBUTION_KINDS else kind, how)
        for name, number, kind, how in _MESSAGES["Metric"]
    )
    return _descriptor(_MESSAGES | {"Metric": metric})


def _descriptor(messages: dict[str, tuple[tuple[str, int, int | str, str], ...]]) -> Descriptor:
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        # A proto3 optional's own oneof must come after the real ones.
        for field in sorted(fields, key=lambda field: field[3] == _OPTIONAL):
            _add_field(message, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindMessageTypeByName(f"{_PACKAGE}.MetricsData")


@cache
def metrics_data_class() -> type[Message]:
    """Protobuf's own class of the trimmed `MetricsData`."""
    return message_factory.GetMessageClass(metrics_data_descriptor())
