"""Wide rows by hand, and the judge over them."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import EXPECTED_INTERVAL
from fleetgauge.verdicts.rows import ranked
from fleetgauge.verdicts.rules import Rules, default_rules
from fleetgauge.verdicts.window import COLUMNS
from fleetgauge.verdicts.witnesses.offsets import COLUMNS as OFFSETS_COLUMNS
from fleetgauge.verdicts.witnesses.offsets import Samples
from fleetgauge.verdicts.witnesses.traffic import COLUMNS as TRAFFIC_COLUMNS
from fleetgauge.verdicts.witnesses.traffic import TrafficRows

NOON_US = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
WINDOW_S = 300
Row = dict[str, Any]

_TIME: pa.DataType = pa.timestamp("us", tz="UTC")
_TEXTS = (
    "cluster_id", "principal", "client_instance_id", "role", "topic", "client_id", "client_software_name",
    "client_software_version", "dialect", "group_id",
)  # fmt: skip
_TYPES: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, pa.string()),
    **dict.fromkeys(("window_start", "seen_at"), _TIME),
    **dict.fromkeys(("window_s", "node_id", "push_interval_ms"), pa.int32()),
    "coordinator": pa.bool_(),
    "pushes": pa.int64(),
}
SCHEMA = pa.schema([(name, _TYPES.get(name, pa.float64())) for name in COLUMNS])
CLIENTS = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "principal", "client_instance_id", "dialect", "role")),
        *((name, pa.string()) for name in ("group_id", "client_id")),
        ("first_seen", _TIME),
        ("last_seen", _TIME),
        ("terminated", pa.bool_()),
    ]
)
POINTS = pa.schema(
    [
        ("received_at", _TIME),
        *((name, pa.string()) for name in ("push_id", "cluster_id", "principal", "client_instance_id", "metric_name")),
        *((name, pa.float64()) for name in ("value", "delta")),
        *((name, pa.bool_()) for name in ("before_subscription", "twin")),
        *((name, pa.int64()) for name in ("start_time_unix_nano", "time_unix_nano")),
        *((name, pa.int32()) for name in ("push_interval_ms", "node_id")),
        ("topic", pa.string()),
    ]
)


_OFFSETS_TYPES: dict[str, Any] = {
    "sampled_at": _TIME,
    "partition": pa.int32(),
    **dict.fromkeys(("committed_offset", "end_offset"), pa.int64()),
}
OFFSETS = pa.schema([(name, _OFFSETS_TYPES.get(name, pa.string())) for name in OFFSETS_COLUMNS])
_TRAFFIC_TYPES: dict[str, Any] = {
    "window_start": _TIME,
    **dict.fromkeys(("cluster_id", "principal", "client_id", "group_id"), pa.string()),
    "broker_time_ms": pa.float64(),
    "compressions": pa.map_(pa.string(), pa.int64()),
    "errors": pa.map_(pa.int32(), pa.int64()),
}
TRAFFIC = pa.schema([(name, _TRAFFIC_TYPES.get(name, pa.int64())) for name in TRAFFIC_COLUMNS])


def client(client_id: str = "orders", instance: str = "", **columns: Any) -> Row:
    """The row of an instance of a client."""
    own = {
        "cluster_id": "c",
        "principal": "User:a",
        "client_id": client_id,
        "client_instance_id": instance or f"{client_id}-1",
        "client_software_name": "apache-kafka-java",
        "client_software_version": "4.4.0",
        "dialect": "java",
        "push_interval_ms": 60_000,
        "pushes": 5,
    }
    return own | columns


def with_links(row: Row, latencies: dict[int, float], role: str = "producer") -> list[Row]:
    """A client's row, and those of its links to nodes, with their latency [ms]."""
    names = ("cluster_id", "principal", "client_instance_id")
    links = [
        {name: row[name] for name in names}
        | {"role": role, "node_id": node, "coordinator": False, "request_latency_avg_ms": latency}
        for node, latency in latencies.items()
    ]
    return [row, *links]


class Judged:
    """Windows that are judged one after the other, each of what a function says of its number."""

    def __init__(self, rules: Rules | None = None, window_s: int = WINDOW_S) -> None:
        self.rules = rules or default_rules()
        self.memory = Memory()
        self.window_s = window_s
        self.clients: list[Row] = []
        self.points: list[Row] = []
        self.samples: list[Row] = []
        self.traffic: list[Row] = []
        self.trends: list[Row] = []
        self.number = 0

    def windows(self, count: int, rows: Callable[[int], Iterable[Row]]) -> "Judged":
        """Further windows."""
        for number in range(self.number, self.number + count):
            found = judge(
                self.table(number, rows(number)), self.client_table(), self.memory, self.rules, self.point_table(),
                self.sample_table(number), self.traffic_rows(number),
            )  # fmt: skip
            self.trends += found.to_pylist()
        self.number += count
        return self

    def sample_table(self, number: int) -> Samples | None:
        begin_us = NOON_US + number * self.window_s * 1_000_000
        end_us = begin_us + self.window_s * 1_000_000
        rows = [row for row in self.samples if begin_us - 1_200_000_000 <= row["sampled_at"] < end_us]
        return Samples(pa.Table.from_pylist(rows, schema=OFFSETS), self.window_s, begin_us) if rows else None

    def traffic_rows(self, number: int) -> TrafficRows | None:
        begin_us = NOON_US + number * self.window_s * 1_000_000
        length_us = self.window_s * 1_000_000
        rows = [row for row in self.traffic if begin_us - length_us <= row["window_start"] < begin_us + length_us]
        return TrafficRows(pa.Table.from_pylist(rows, schema=TRAFFIC), self.window_s, begin_us) if rows else None

    def table(self, number: int, rows: Iterable[Row]) -> pa.Table:
        begin_us = NOON_US + number * self.window_s * 1_000_000
        own = {
            "window_start": begin_us,
            "window_s": self.window_s,
            "seen_at": begin_us + (self.window_s - 5) * 1_000_000,
        }
        return pa.Table.from_pylist([own | row for row in rows], schema=SCHEMA)

    def client_table(self) -> pa.Table:
        is_expected = any(EXPECTED_INTERVAL in row for row in self.clients)
        schema = CLIENTS.append(pa.field(EXPECTED_INTERVAL, pa.int64())) if is_expected else CLIENTS
        return pa.Table.from_pylist(self.clients, schema=schema)

    def point_table(self) -> pa.Table | None:
        return pa.Table.from_pylist(self.points, schema=POINTS) if self.rules.own else None

    @property
    def rows(self) -> list[Row]:
        """The table `verdicts`."""
        found: list[Row] = ranked(self.memory, self.rules).to_pylist()
        return found

    @property
    def found(self) -> list[tuple[str, str, str]]:
        """Verdict, subject and state of each row, best rank first."""
        return [(row["verdict"], row["subject"], row["state"]) for row in self.rows]

    def only(self) -> Row:
        """The one row."""
        (row,) = self.rows
        return row
