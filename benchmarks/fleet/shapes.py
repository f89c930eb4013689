"""Pushes that real clients sent, as stamps: the same bytes with other times, values and member ids at the same places.

Only fixed-width fields move (times, values, the last digits of UUIDs), so that a payload keeps its length and thousands
of them are stamped by a few numpy operations. The recorded pushes are those of the tests (`tests/spark/recorded`).
"""

import math
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.telemetry.push_record import PushRecord

RECORDED: Final = Path(__file__).resolve().parents[2] / "tests" / "spark" / "recorded"

CLIENTS: Final = {
    "java-producer": ("broker", "java-4.4.0-producer"),
    "java-consumer": ("broker", "java-4.4.0-consumer"),
    "librdkafka-producer": ("broker", "rdkafka-producer"),
    "librdkafka-consumer": ("broker", "rdkafka-consumer"),
    "franz-go": ("serve", "franz-go-1.22.2"),
}
"""Name of a shape: the recorded zone and the `client_id` in it whose largest push is taken."""

UUID_DIGITS: Final = 12
"""Of a UUID in a payload, which the number of the instance replaces."""

_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MARK: Final = 0x5EED_F1EE_7000_0000
_MOST_DECIMALS: Final = 3

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One recorded push.

    Attributes:
        name: one of CLIENTS.
        record: what the sink recorded with it.
        payload: its bytes.
        points: its data points.
        time_at, start_at, double_at, int_at, uuid_at: where in `payload` the fields lie [B]; of deltas alone have a
            start that is moved.
        doubles, ints: the recorded values, which others are drawn around.
        decimals: of each double; what has more than three is drawn with all digits.
    """

    name: str
    record: PushRecord
    payload: Numbers
    points: int
    time_at: Numbers
    start_at: Numbers
    double_at: Numbers
    int_at: Numbers
    uuid_at: Numbers
    doubles: Numbers
    ints: Numbers
    decimals: Numbers

    def stamp(self, instances: Numbers, time_ns: Numbers, before_ns: Numbers, random: np.random.Generator) -> Numbers:
        """Payloads of the instances with these numbers, one a row.

        Args:
            instances: of 0 to 16^12.
            time_ns: when each measured [ns since the epoch].
            before_ns: when each had measured before: where deltas start.
            random: draws the values, from half to one and a half of the recorded ones. Nothing recorded (NaN) stays so.
        """
        rows = len(instances)
        payloads = np.tile(self.payload, (rows, 1))
        _put(payloads, self.time_at, np.broadcast_to(time_ns[:, None], (rows, len(self.time_at))).astype("<u8"))
        _put(payloads, self.start_at, np.broadcast_to(before_ns[:, None], (rows, len(self.start_at))).astype("<u8"))
        doubles = self.doubles * random.uniform(0.5, 1.5, (rows, len(self.doubles)))
        for decimals in range(_MOST_DECIMALS + 1):
            of_these = self.decimals == decimals
            doubles[:, of_these] = np.round(doubles[:, of_these], decimals)
        _put(payloads, self.double_at, doubles.astype("<f8"))
        ints = np.rint(self.ints * random.uniform(0.5, 1.5, (rows, len(self.ints))))
        _put(payloads, self.int_at, ints.astype("<i8"))
        digits = _hex_digits(instances)
        for at in self.uuid_at.tolist():
            payloads[:, at : at + UUID_DIGITS] = digits
        return payloads


def _put(payloads: Numbers, at: Numbers, values: Numbers) -> None:
    """Writes 8 bytes a value at the same places of each row."""
    if not len(at):
        return
    places = (at[:, None] + np.arange(8)).ravel()
    payloads[:, places] = np.ascontiguousarray(values).view(np.uint8).reshape(len(payloads), -1)


def _hex_digits(numbers: Numbers) -> Numbers:
    shifts = 4 * np.arange(UUID_DIGITS - 1, -1, -1)
    digits: Numbers = np.frombuffer(b"0123456789abcdef", np.uint8)[(numbers[:, None] >> shifts) & 15]
    return digits


@cache
def load_shape(name: str) -> Shape:
    """The shape of that name."""
    record = _largest_push(*CLIENTS[name])
    data = MetricsData.FromString(record.metrics)
    payload = data.SerializeToString()
    # Each field in turn gets a value that is nowhere else, by which its place is found.
    marked = MetricsData.FromString(record.metrics)
    marks: dict[str, list[bytes]] = {"time": [], "start": [], "double": [], "int": []}
    doubles: list[float] = []
    ints: list[int] = []
    number = 0
    for point in number_points(marked):
        for kind, field in (("time", "time_unix_nano"), ("start", "start_time_unix_nano"), _value_of(point)):
            value = getattr(point, field)
            if not value and kind == "start":
                continue
            mark = struct.pack("<Q", _MARK + number)
            number += 1
            setattr(point, field, struct.unpack({"double": "<d", "int": "<q"}.get(kind, "<Q"), mark)[0])
            marks[kind].append(mark)
            if kind == "double":
                doubles.append(value)
            elif kind == "int":
                ints.append(value)
    found = marked.SerializeToString()
    assert len(found) == len(payload)
    at = {kind: np.array([found.index(mark) for mark in each], np.int64) for kind, each in marks.items()}
    return Shape(
        name=name,
        record=record,
        payload=np.frombuffer(payload, np.uint8),
        points=sum(1 for _ in number_points(data)),
        time_at=at["time"],
        start_at=at["start"],
        double_at=at["double"],
        int_at=at["int"],
        uuid_at=np.array([match.end() - UUID_DIGITS for match in _UUID.finditer(payload)], np.int64),
        doubles=np.array(doubles, np.float64),
        ints=np.array(ints, np.float64),
        decimals=np.array([_decimals(value) for value in doubles], np.int64),
    )


def number_points(data: MetricsData) -> Any:
    """The points of gauges and sums: recorded clients send no others."""
    for resource_metrics in data.resource_metrics:
        for scope_metrics in resource_metrics.scope_metrics:
            for metric in scope_metrics.metrics:
                yield from getattr(metric, metric.WhichOneof("data") or "").data_points


def _value_of(point: Any) -> tuple[str, str]:
    field = point.WhichOneof("value")
    return ("double" if field == "as_double" else "int"), field


def _decimals(value: float) -> int:
    if math.isnan(value):
        return _MOST_DECIMALS + 1
    return next((digits for digits in range(_MOST_DECIMALS + 1) if round(value, digits) == value), _MOST_DECIMALS + 1)


def _largest_push(zone: str, client_id: str) -> PushRecord:
    """The last of the client's largest pushes."""
    paths = sorted((RECORDED / zone).rglob("*.parquet"))
    rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
    found = [PushRecord(**row) for row in rows if row["client_id"] == client_id]
    return max(found, key=lambda record: (len(record.metrics), record.push_id))
