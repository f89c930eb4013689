"""The fast reader: from a payload's bytes to columns without objects for messages. Compiled by mypyc.

Each payload is checked while it is read (`telemetry.otlp.check`). Attributes, resources, scopes, names and units are
compared as bytes: each distinct one is checked and numbered once a batch, and `flat` makes text of it.
Distributions, which clients of Kafka hardly ever send, are handed on as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter, read_i64_le, write_i64_le

from fleetgauge.base.varint import scan_varint
from fleetgauge.telemetry.otlp.check import field_end, is_part, is_text, read_length
from fleetgauge.telemetry.otlp.fields import MAX_DEPTH

if TYPE_CHECKING:
    from mypy_extensions import i64

GAUGE: Final = 0
"""Kinds of metrics, as in `flat.KINDS`."""
SUM: Final = 1
HISTOGRAM: Final = 2
EXPONENTIAL_HISTOGRAM: Final = 3
SUMMARY: Final = 4
_NO_KIND: Final = -1

CUMULATIVE: Final = 2
"""The largest temporality."""

NO_VALUE: Final = 0
"""Forms of a value."""
DOUBLE: Final = 1
INT: Final = 2

NEITHER: Final = 2
"""Value of `is_monotonic` for a metric that is not a sum."""

_NO_RECORDED_VALUE: Final = 1  # bit of a data point's `flags` (OTLP, DataPointFlags)

_RESOURCE_METRICS_DEPTH: Final = MAX_DEPTH - 1
_SCOPE_METRICS_DEPTH: Final = MAX_DEPTH - 2
_METRIC_DEPTH: Final = MAX_DEPTH - 3
_DATA_DEPTH: Final = MAX_DEPTH - 4
_POINT_DEPTH: Final = MAX_DEPTH - 5


class Rows:
    """Row of each message type in the table of fields (`telemetry.otlp.schema`)."""

    def __init__(
        self, table: bytes, resource_metrics: int, scope_metrics: int, metric: int, data: list[int], point: list[int]
    ) -> None:
        """`data` and `point` have one number a kind."""
        self.table = table
        self.resource_metrics: i64 = resource_metrics
        self.scope_metrics: i64 = scope_metrics
        self.metric: i64 = metric
        self.data = data
        self.point = point


class Numbers:
    """Numbers byte strings in the order of their first occurrence."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}

    def known_number(self, text: bytes) -> i64:
        """The number of `text`, -1 if it has none yet."""
        known = self.known.get(text)
        if known is None:
            return -1
        number: i64 = known
        return number

    def add(self, text: bytes) -> i64:
        """The next number, for `text`."""
        number = len(self.known)
        self.known[text] = number
        return number


class WireReader:
    """Reads payloads; what it finds is appended to columns, one entry a data point, a metric or a ResourceMetrics.

    An entry has 64 bits, least significant byte first. Of a payload that is not taken nothing stays.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._table = rows.table
        self._payloads: i64 = 0

        self._points: i64 = 0
        self.metric_of = BytesWriter()
        """The metric's index, above 2 bits: NO_VALUE, DOUBLE or INT."""
        self.set_of = BytesWriter()
        self.start_time = BytesWriter()
        self.time = BytesWriter()
        self.value = BytesWriter()
        """The 64 bits of a double, or an integer."""
        self.distributions: list[tuple[int, int, bytes]] = []
        """Data point, kind and bytes of each; its other columns have 0."""

        self._metrics: i64 = 0
        self.resource_metrics_of = BytesWriter()
        """The index of the ResourceMetrics, above 2 bits of `is_monotonic` (0, 1 or NEITHER), 2 of temporality (0 for
        any but OTLP's 1 and 2), and 3 of the kind's number and 1 (0 for a metric without data)."""
        self.name_of = BytesWriter()
        self.unit_of = BytesWriter()
        self.scope_of = BytesWriter()

        self._resource_metrics: i64 = 0
        self.push_of = BytesWriter()
        self.resource_of = BytesWriter()

        self.attributes = Numbers()
        """Fields of a number's data point that are attributes, as bytes."""
        self.resources = Numbers()
        """Fields of a ResourceMetrics that are its resource, as bytes."""
        self.scopes = Numbers()
        """Fields of a ScopeMetrics that are its scope, as bytes."""
        self.texts = Numbers()
        """Names and units, in UTF-8; number 0 is empty."""
        self.texts.add(b"")

        self._temporality: i64 = 0
        self._is_monotonic: i64 = 0

    def read(self, payloads: Iterable[bytes]) -> list[int]:
        """Reads payloads; returns the indices of those that are not taken, which protobuf's classes have to judge."""
        left: list[int] = []
        for index, payload in enumerate(payloads):
            points, metrics, resource_metrics = self._points, self._metrics, self._resource_metrics
            distributions = len(self.distributions)
            if not self._read_payload(payload):
                self._drop_points(points, distributions)
                self._drop_metrics(metrics)
                self._drop_resource_metrics(resource_metrics)
                left.append(index)
            else:
                self._payloads += 1
        return left

    def _drop_points(self, points: i64, distributions: int) -> None:
        for column in (self.metric_of, self.set_of, self.start_time, self.time, self.value):
            column.truncate(points * 8)
        del self.distributions[distributions:]
        self._points = points

    def _drop_metrics(self, metrics: i64) -> None:
        for column in (self.resource_metrics_of, self.name_of, self.unit_of):
            column.truncate(metrics * 8)
        if len(self.scope_of) > metrics * 8:  # which has entries of scopes that ended
            self.scope_of.truncate(metrics * 8)
        self._metrics = metrics

    def _drop_resource_metrics(self, resource_metrics: i64) -> None:
        self.push_of.truncate(resource_metrics * 8)
        self.resource_of.truncate(resource_metrics * 8)
        self._resource_metrics = resource_metrics

    def _read_payload(self, data: bytes) -> bool:
        at: i64 = 0
        end: i64 = len(data)
        while at < end:
            start: i64 = at
            if data[at] == 0x0A:  # resource_metrics
                size, at = read_length(data, at + 1, end)
                if at < 0 or not self._read_resource_metrics(data, at, at + size):
                    return False
                at += size
            else:
                at = self._skip(data, start, end, 0, MAX_DEPTH)
                if at < 0:
                    return False
        return True

    def _skip(self, data: bytes, start: i64, end: i64, row: i64, depth: i64) -> i64:
        """The end of a field that is only checked; -1 if it is not taken."""
        at: i64 = field_end(data, start, end, self._table, row)
        if at < 0 or not is_part(data, start, at, self._table, row, depth):
            return -1
        return at

    def _read_resource_metrics(self, data: bytes, at: i64, end: i64) -> bool:
        row: i64 = self._rows.resource_metrics
        resource_at: i64 = at
        resource_end: i64 = at
        while at < end:
            start: i64 = at
            tag: i64 = data[at]
            if tag == 0x12:  # scope_metrics
                size, at = read_length(data, at + 1, end)
                if at < 0 or not self._read_scope_metrics(data, at, at + size):
                    return False
                at += size
            elif tag == 0x0A:  # resource
                at = field_end(data, start, end, self._table, row)
                if start != resource_end:
                    if resource_end > resource_at:
                        return False  # in pieces that are apart
                    resource_at = start
                resource_end = at
            else:
                at = self._skip(data, start, end, row, _RESOURCE_METRICS_DEPTH)
            if at < 0:
                return False
        number: i64 = self._number(self.resources, data, resource_at, resource_end, row, _RESOURCE_METRICS_DEPTH)
        write_i64_le(self.push_of, self._payloads)
        write_i64_le(self.resource_of, number)
        self._resource_metrics += 1
        return number >= 0

    def _number(self, numbers: Numbers, data: bytes, start: i64, end: i64, row: i64, depth: i64) -> i64:
        """The number of some fields, which are checked if they are new; -1 if they are not taken."""
        fields = data[start:end]
        number: i64 = numbers.known_number(fields)
        if number < 0 and is_part(data, start, end, self._table, row, depth):
            number = numbers.add(fields)
        return number

    def _read_scope_metrics(self, data: bytes, at: i64, end: i64) -> bool:
        row: i64 = self._rows.scope_metrics
        metric: i64 = self._metrics
        scope_at: i64 = at
        scope_end: i64 = at
        while at < end:
            start: i64 = at
            tag: i64 = data[at]
            if tag == 0x12:  # metrics
                size, at = read_length(data, at + 1, end)
                if at < 0 or not self._read_metric(data, at, at + size):
                    return False
                at += size
            elif tag == 0x0A:  # scope
                at = field_end(data, start, end, self._table, row)
                if start != scope_end:
                    if scope_end > scope_at:
                        return False  # in pieces that are apart
                    scope_at = start
                scope_end = at
            else:
                at = self._skip(data, start, end, row, _SCOPE_METRICS_DEPTH)
            if at < 0:
                return False
        number: i64 = self._number(self.scopes, data, scope_at, scope_end, row, _SCOPE_METRICS_DEPTH)
        while metric < self._metrics:
            write_i64_le(self.scope_of, number)
            metric += 1
        return number >= 0

    def _read_metric(self, data: bytes, at: i64, end: i64) -> bool:
        row: i64 = self._rows.metric
        first_point: i64 = self._points
        first_distribution = len(self.distributions)
        name: i64 = 0
        unit: i64 = 0
        kind: i64 = _NO_KIND
        self._temporality = 0
        self._is_monotonic = 0
        while at < end:
            start: i64 = at
            tag: i64 = data[at]
            of_data: i64 = _kind_of(tag)
            if of_data >= 0:
                if kind >= 0 and kind != of_data:  # of a oneof, the last one stays
                    self._drop_points(first_point, first_distribution)
                    self._temporality = 0
                    self._is_monotonic = 0
                kind = of_data
                size, at = read_length(data, at + 1, end)
                if at < 0 or not self._read_data(data, at, at + size, kind):
                    return False
                at += size
            elif tag == 0x0A:
                name, at = self._read_text(data, at + 1, end)
            elif tag == 0x1A:
                unit, at = self._read_text(data, at + 1, end)
            else:  # the description, mostly
                at = self._skip(data, start, end, row, _METRIC_DEPTH)
            if at < 0:
                return False
        write_i64_le(self.name_of, name)
        write_i64_le(self.unit_of, unit)
        if kind != SUM:
            self._is_monotonic = NEITHER
        write_i64_le(
            self.resource_metrics_of,
            self._resource_metrics << 7 | self._is_monotonic << 5 | self._temporality << 3 | (kind + 1),
        )
        self._metrics += 1
        return True

    def _read_text(self, data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
        """The number of a text, and the position after it, which is -1 if it is not taken."""
        size, at = read_length(data, at, end)
        if at < 0:
            return 0, -1
        text = data[at : at + size]
        number: i64 = self.texts.known_number(text)
        if number < 0:
            if not is_text(data, at, at + size):
                return 0, -1
            number = self.texts.add(text)
        return number, at + size

    def _read_data(self, data: bytes, at: i64, end: i64, kind: i64) -> bool:
        """A Gauge, Sum, Histogram, ..."""
        row: i64 = self._rows.data[kind]
        while at < end:
            start: i64 = at
            tag: i64 = data[at]
            if tag == 0x0A:  # data_points
                size, at = read_length(data, at + 1, end)
                if at < 0 or not self._read_point(data, at, at + size, kind):
                    return False
                at += size
            elif tag == 0x10 and kind != GAUGE and kind != SUMMARY:
                number, at = scan_varint(data, at + 1, end)
                number &= 0xFFFFFFFF
                if number > CUMULATIVE:
                    number = 0
                self._temporality = number
            elif tag == 0x18 and kind == SUM:
                number, at = scan_varint(data, at + 1, end)
                self._is_monotonic = 0
                if number != 0:
                    self._is_monotonic = 1
            else:
                at = self._skip(data, start, end, row, _DATA_DEPTH)
            if at < 0:
                return False
        return True

    def _read_point(self, data: bytes, at: i64, end: i64, kind: i64) -> bool:
        if kind <= SUM:
            if not self._read_number(data, at, end, self._rows.point[kind]):
                return False
        elif not is_part(data, at, end, self._table, self._rows.point[kind], _POINT_DEPTH):
            return False
        else:
            self.distributions.append((self._points, kind, data[at:end]))
            write_i64_le(self.metric_of, self._metrics << 2 | NO_VALUE)
            for column in (self.set_of, self.start_time, self.time, self.value):
                write_i64_le(column, 0)
        self._points += 1
        return True

    def _read_number(self, data: bytes, at: i64, end: i64, row: i64) -> bool:  # noqa: C901  # one branch for each field
        start_time: i64 = 0
        time: i64 = 0
        value: i64 = 0
        form: i64 = NO_VALUE
        flags: i64 = 0
        attributes_at: i64 = at
        attributes_end: i64 = at
        while at < end:
            start: i64 = at
            tag: i64 = data[at]
            if tag & 0x87 == 1 and at + 9 <= end:
                number: i64 = read_i64_le(data, at + 1)
                if tag == 0x21:  # as_double
                    value = number
                    form = DOUBLE
                elif tag == 0x19:
                    time = number
                elif tag == 0x11:
                    start_time = number
                elif tag == 0x31:  # as_int
                    value = number
                    form = INT
                elif tag < 8:
                    return False
                at += 9
            elif tag == 0x3A:  # attributes
                at = field_end(data, start, end, self._table, row)
                if start != attributes_end:
                    if attributes_end > attributes_at:
                        return False  # in pieces that are apart
                    attributes_at = start
                attributes_end = at
            elif tag == 0x40:
                flags, at = scan_varint(data, at + 1, end)
            else:
                at = self._skip(data, start, end, row, _POINT_DEPTH)
            if at < 0:
                return False
        if flags & _NO_RECORDED_VALUE:
            form = NO_VALUE
        attributes: i64 = self._number(self.attributes, data, attributes_at, attributes_end, row, _POINT_DEPTH)
        write_i64_le(self.metric_of, self._metrics << 2 | form)
        write_i64_le(self.set_of, attributes)
        write_i64_le(self.start_time, start_time)
        write_i64_le(self.time, time)
        write_i64_le(self.value, value)
        return attributes >= 0


def _kind_of(tag: i64) -> i64:
    """The kind of a metric whose `data` has this tag; -1 for any other field."""
    if tag == 0x2A:
        return GAUGE
    if tag == 0x3A:
        return SUM
    if tag == 0x4A:
        return HISTOGRAM
    if tag == 0x52:
        return EXPONENTIAL_HISTOGRAM
    if tag == 0x5A:
        return SUMMARY
    return _NO_KIND
