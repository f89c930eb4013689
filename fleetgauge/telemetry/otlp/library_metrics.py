"""Reads `instrumentation_library_metrics`, the field of OTLP before 0.15 that 0.19 still has as number 1000 of a
`ResourceMetrics`, as the `scope_metrics` that it became.

The messages of both have the same fields (a name and version, metrics, a schema URL). No known client sends the old
one.
"""

from collections.abc import Iterator
from typing import Final

from fleetgauge.base.varint import UnreadableError, encode_varint, read_varint

_RESOURCE_METRICS: Final = 1 << 3 | 2
_SCOPE_METRICS: Final = 2 << 3 | 2
_LIBRARY_METRICS: Final = 1000 << 3 | 2
_LIBRARY_METRICS_BYTES: Final = encode_varint(_LIBRARY_METRICS)
_FIXED_BYTES: Final = {1: 8, 5: 4}


def with_scope_metrics(metrics: bytes) -> bytes:
    """`metrics`, a well-formed `MetricsData`, with the old fields as `scope_metrics`; the same object without any.

    A `ResourceMetrics` with both keeps its `scope_metrics` alone, as OTLP asks of receivers (`metrics.proto`, 0.19).
    """
    if _LIBRARY_METRICS_BYTES not in metrics:
        return metrics
    try:
        pieces = [
            _delimited(tag, _converted(metrics[content:end])) if tag == _RESOURCE_METRICS else metrics[start:end]
            for tag, start, content, end in _fields(metrics)
        ]
    except UnreadableError:
        return metrics
    converted = b"".join(pieces)
    return metrics if converted == metrics else converted


def _converted(resource_metrics: bytes) -> bytes:
    parts = list(_fields(resource_metrics))
    if any(tag == _SCOPE_METRICS for tag, *_ in parts):
        return resource_metrics
    return b"".join(
        _delimited(_SCOPE_METRICS, resource_metrics[content:end])
        if tag == _LIBRARY_METRICS
        else resource_metrics[start:end]
        for tag, start, content, end in parts
    )


def _delimited(tag: int, content: bytes) -> bytes:
    return encode_varint(tag) + encode_varint(len(content)) + content


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yields the tag of each field of a message, and where the field, its content and the next one begin.

    Raises:
        UnreadableError: it is not well-formed, or has a group, which OTLP does not have.
    """
    at, end = 0, len(data)
    while at < end:
        start = at
        tag, content = read_varint(data, at, end)
        if tag & 7 == 2:
            size, content = read_varint(data, content, end)
            at = content + size
        elif tag & 7 == 0:
            at = read_varint(data, content, end)[1]
        else:
            at = content + _FIXED_BYTES.get(tag & 7, -end)
        if not 0 < content <= at <= end:
            raise UnreadableError(f"not a field of OTLP at byte {start}")
        yield tag, start, content, at
