"""Adds the broker's labels to a push, in its encoded form, on export (KIP-714, "Metrics serialization format").

`MetricsData` and `ExportMetricsServiceRequest` have the same encoding, a repeated field 1 of `ResourceMetrics`, and
encoded protobuf messages merge by concatenation: results of `Labeller.labelled` can be joined and sent as one request.
Nothing below `ScopeMetrics` is parsed, so the cost depends on the number of resources, not of data points.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.varint import encode_varint
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError, fields, read_number
from fleetgauge.telemetry.push_record import PushRecord

RECORD_LABELS: Final[Mapping[str, str]] = {
    "client_instance_id": "client_instance_id",
    "client_id": "client_id",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "client_source_address": "client_source_address",
    "client_source_port": "client_source_port",
    "principal": "principal",
    "node_id": "receiver_node_id",
    "cluster_id": "cluster_id",
}
"""Label name -> field of the push record: the eight of KIP-714, and the cluster's id."""

NAMESPACE: Final = "namespace"
LABEL_NAMES: Final = (*RECORD_LABELS, NAMESPACE)
"""All labels that can be chosen, in the order in which they are written."""

_CACHED_CLIENTS: Final = 16_384
"""Number of cached clients, the same as a node's cached client instances; 1 to 2 kB each."""
_FIRST: Final = 0x0A
"""Tag of field 1, length-delimited: resource_metrics, resource, attributes, key, string_value."""
_SECOND: Final = 0x12
"""Tag of field 2, length-delimited: scope_metrics, a KeyValue's value."""
_SCHEMA_URL: Final = 0x1A
_WORTH_A_VIEW: Final = 8_192
"""Size from which on a copy costs more than a memoryview [B]."""
_SHORT_RESOURCE: Final = 512
"""Maximum size of a client's resource that is cached [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSettings:
    """The labels that an exporter adds.

    Attributes:
        labels: some of `LABEL_NAMES` (key `labels`). The client's own attribute of a chosen name is removed, even if
            the broker does not know the value.
        static: labels with a fixed value (key `static.labels`), for example `environment`.
        namespace: value of the label `namespace`; None leaves it out.
        max_value_bytes: longer values are cut at a character and counted (key `label.max.bytes`) [B of UTF-8].
        derived: further labels, which an exporter makes itself (`exporters.prometheus.derived_labels`).
        application_pattern: RE2 whose first group is the application of a client id (key `application.pattern`).
    """

    labels: tuple[str, ...] = LABEL_NAMES
    static: tuple[tuple[str, str], ...] = ()
    namespace: str | None = None
    max_value_bytes: int = 4_096
    derived: tuple[str, ...] = ()
    application_pattern: str = ""

    def __post_init__(self) -> None:
        for name in self.labels:
            if name not in LABEL_NAMES:
                raise ValueError(f"{name!r} is not a label; expected one of {', '.join(LABEL_NAMES)}")
        for name, _ in self.static:
            if not name or name in LABEL_NAMES:
                raise ValueError(f"a static label cannot be named {name!r}: that name is the broker's or empty")
        if self.max_value_bytes < 1:
            raise ValueError(f"max_value_bytes is {self.max_value_bytes}; a label needs at least 1 byte")


class _Labels:
    """The labels of one client: the encoded attributes, and the names that they replace."""

    __slots__ = ("_encoded", "_last", "_names")

    def __init__(self, encoded: bytes, names: frozenset[bytes]) -> None:
        self._encoded = encoded
        self._names = names
        self._last = (b"", encoded)

    def onto(self, resource: bytes) -> bytes:
        """The `Resource` bytes without the replaced attributes, followed by the labels.

        A client's resource rarely changes, so a short one is cached with its result.
        """
        last, labelled = self._last
        if resource == last:
            return labelled
        labelled = _without(resource, self._names) + self._encoded
        if len(resource) <= _SHORT_RESOURCE:
            self._last = (resource, labelled)
        return labelled


class Labeller:
    """Adds the labels of one exporter's settings; caches the encoded labels of recent clients.

    Attributes:
        settings: the labels.
        truncated: label values cut to `max_value_bytes` so far; a value counts each time it is encoded.
    """

    def __init__(self, settings: LabelSettings | None = None) -> None:
        self.settings = settings or LabelSettings()
        self.truncated = 0
        chosen = [name for name in RECORD_LABELS if name in self.settings.labels]
        self._identity = _picker(chosen)
        self._names = frozenset(
            name.encode() for name in (*self.settings.labels, *(name for name, _ in self.settings.static))
        )
        self._chosen = tuple(chosen)
        self._labels_of = functools.lru_cache(maxsize=_CACHED_CLIENTS)(self._encode)

    def labelled(self, record: PushRecord) -> bytes:
        """The record's metrics with labels, equal resources merged; empty for a heartbeat.

        The result has one ResourceMetrics for each distinct resource (after labelling, by its bytes), schema URL and
        set of unknown fields, in the order of first occurrence, each with one `resource`. Labelling is idempotent.

        Raises:
            MalformedPayloadError: `record.metrics` is not a MetricsData, as far down as scopes.
        """
        payload = record.metrics
        if not payload:
            return b""
        try:
            return _merged(payload, self._labels_of(self._identity(record)))
        except IndexError:
            raise MalformedPayloadError(len(payload), "the payload is cut short") from None

    def _encode(self, values: tuple[object, ...]) -> _Labels:
        labels: list[tuple[str, object]] = list(zip(self._chosen, values, strict=True))
        if NAMESPACE in self.settings.labels:
            labels.append((NAMESPACE, self.settings.namespace))
        labels.extend(self.settings.static)
        encoded = b"".join(_attribute(name, self._bounded(value)) for name, value in labels if value is not None)
        return _Labels(encoded, self._names)

    def _bounded(self, value: object) -> bytes:
        text = str(value).encode(errors="replace")
        if len(text) <= self.settings.max_value_bytes:
            return text
        self.truncated += 1
        return text[: self.settings.max_value_bytes].decode(errors="ignore").encode()


def _picker(names: list[str]) -> Callable[[PushRecord], tuple[object, ...]]:
    """A function that picks the values of the labels `names` from a record; in C, because it runs for every push."""
    indexes = [PushRecord._fields.index(RECORD_LABELS[name]) for name in names]
    if not indexes:
        return lambda record: ()
    if len(indexes) == 1:
        return lambda record: (record[indexes[0]],)
    return operator.itemgetter(*indexes)


def _attribute(name: str, value: bytes) -> bytes:
    """`Resource.attributes` with one KeyValue of a string."""
    any_value = _delimited(_FIRST, value)
    return _delimited(_FIRST, _delimited(_FIRST, name.encode()) + _delimited(_SECOND, any_value))


def _delimited(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + encode_varint(len(content)) + content


# A group of equal ResourceMetrics. The key is the resource's bytes alone, or with the rest that must match (schema URL
# and unknown fields); the value is the encoded scope_metrics.
_Key = bytes | tuple[bytes, bytes]
_Groups = dict[_Key, list[bytes | memoryview]]


def _merged(payload: bytes, labels: _Labels) -> bytes:
    groups: _Groups = {}
    unknown = _group(payload, groups)
    relabelled: dict[tuple[bytes, bytes], list[bytes | memoryview]] = {}
    for key, bodies in groups.items():
        resource, tail = key if isinstance(key, tuple) else (key, b"")
        relabelled.setdefault((labels.onto(resource), tail), []).extend(bodies)
    pieces: list[bytes | memoryview] = []
    for (resource, tail), bodies in relabelled.items():
        head = _delimited(_FIRST, resource)
        size = len(head) + sum(map(len, bodies)) + len(tail)
        pieces += (b"\x0a", encode_varint(size), head, *bodies, tail)
    pieces += unknown
    return b"".join(pieces)


def _group(payload: bytes, groups: _Groups) -> list[bytes]:
    """Sorts the payload's ResourceMetrics into `groups`, and returns its other fields.

    The Java client sends one ResourceMetrics per metric, all with the same resource and each with one scope: from the
    second one on they are recognised by their first bytes, `head`, which makes them several times cheaper.
    """
    unknown: list[bytes] = []
    bodies: list[bytes | memoryview] = []
    head = b"\x00"  # no field begins so
    position, end = 0, len(payload)
    view = memoryview(payload) if end > _WORTH_A_VIEW else payload
    while position < end:
        if payload[position] != _FIRST:
            position = _group_other(payload, position, end, groups, unknown)
            continue
        size = payload[position + 1]
        start = position + 2
        if size >= 0x80:
            size, start = read_number(payload, position + 1, end)
        position = start + size
        if position > end:
            raise MalformedPayloadError(start, f"a ResourceMetrics claims {size} bytes, {end - start} are left")
        if payload.startswith(head, start) and _fills(payload, start + len(head), position):
            bodies.append(payload[start + len(head) - 1 : position])
        elif scope := _simple_split(payload, start, position):
            head = payload[start : scope + 1]
            bodies = groups.setdefault(payload[start + 2 : scope], [])
            bodies.append(view[scope:position])
        else:
            key, scopes = _parts(payload, start, position)
            groups.setdefault(key, []).extend(scopes)
    return unknown


def _group_other(payload: bytes, position: int, end: int, groups: _Groups, unknown: list[bytes]) -> int:
    """Sorts in a field that does not begin with the usual tag of a ResourceMetrics; returns where it ends.

    It may still be one: protobuf accepts a tag encoded in more bytes than needed, which must not evade the labels.
    """
    field = next(fields(payload, position, end))
    if field.tag == _FIRST:
        key, scopes = _parts(payload, field.value, field.end)
        groups.setdefault(key, []).extend(scopes)
    else:
        unknown.append(payload[position : field.end])
    return field.end


def _fills(payload: bytes, position: int, stop: int) -> bool:
    """True if the length at `position` ends exactly at `stop`."""
    left = stop - position
    low = payload[position]
    if low < 0x80:
        return low == left - 1
    high = payload[position + 1]
    if high < 0x80:
        return (high << 7) + low - 0x80 == left - 2
    size, after = read_number(payload, position, stop)
    return size == stop - after


def _simple_split(payload: bytes, position: int, stop: int) -> int:
    """Start of the scope, if this is only a resource of under 128 bytes and one scope_metrics; else 0."""
    if stop - position < 4 or payload[position] != _FIRST:
        return 0
    scope = position + 2 + payload[position + 1]
    if payload[position + 1] >= 0x80 or scope + 1 >= stop or payload[scope] != _SECOND:
        return 0
    return scope if _fills(payload, scope + 1, stop) else 0


def _parts(payload: bytes, position: int, stop: int) -> tuple[_Key, list[bytes]]:
    """Splits any ResourceMetrics into resource (repeated ones merge by concatenation) with the rest, and scopes."""
    resource = schema_url = unknown = b""
    scopes: list[bytes] = []
    for tag, start, value, end in fields(payload, position, stop):
        if tag == _SECOND:
            scopes.append(payload[start:end])
        elif tag == _FIRST:
            resource += payload[value:end]
        elif tag == _SCHEMA_URL:
            schema_url = payload[value:end]
        else:
            unknown += payload[start:end]
    tail = (_delimited(_SCHEMA_URL, schema_url) if schema_url else b"") + unknown
    return (resource, tail) if tail else resource, scopes


def _without(resource: bytes, names: frozenset[bytes]) -> bytes:
    """The fields of a Resource without the attributes of these names."""
    kept: list[bytes] = []
    run = position = 0
    end = len(resource)
    while position < end:
        start = position
        name, position = _short_attribute(resource, position, end)
        if position == start:
            tag, _, value, position = next(fields(resource, position, end))
            name = _attribute_name(resource, value, position) if tag == _FIRST else b""
        if name in names:
            kept.append(resource[run:start])
            run = position
    return b"".join((*kept, resource[run:])) if kept else resource[run:]


def _short_attribute(resource: bytes, position: int, end: int) -> tuple[bytes, int]:
    """Name and end of an attribute of under 128 bytes with only key and value; else an empty name and `position`."""
    if end - position < 6 or resource[position] != _FIRST or resource[position + 2] != _FIRST:
        return b"", position
    after = position + 2 + resource[position + 1]
    value = position + 4 + resource[position + 3]
    if resource[position + 1] >= 0x80 or after > end or value + 1 >= after or resource[value] != _SECOND:
        return b"", position
    if resource[value + 1] != after - value - 2:
        return b"", position
    return resource[position + 4 : value], after


def _attribute_name(resource: bytes, position: int, end: int) -> bytes:
    """The key of a KeyValue: the last one, or empty if it is missing."""
    name = b""
    for tag, _, value, after in fields(resource, position, end):
        if tag == _FIRST:
            name = resource[value:after]
    return name
