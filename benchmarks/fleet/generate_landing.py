"""Writes landing zones of any size: recorded pushes of real clients again and again, with other values and identities.

    .venv/bin/python benchmarks/fleet/generate_landing.py ZONE --instances 1000 --hours 24 --interval-s 60 [--seed 1]

Every instance pushes once an interval, at its own moment of it, give or take a tenth of a second. The shapes take turns
from one instance to the next (see `shapes`), twenty instances have one `client_id`, every one its own instance id,
address and member id. Values are drawn anew for every push: those of the recorded push, times 0.5 to 1.5. The files
are the exporter's own: its encoding, its names of folders, and its size where an hour has more. The same seed gives the
same bytes.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.fleet.shapes import CLIENTS, Numbers, Shape, load_shape
from fleetgauge.exporters.landing.exporter import MAX_BATCH_BYTES, partition_of
from fleetgauge.exporters.landing.parquet import encode
from fleetgauge.telemetry.push_record import PushIds, PushRecord, format_instance_id

BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
INSTANCES_OF_A_CLIENT: Final = 20

_US: Final = 1_000_000
_JITTER_US: Final = 100_000
_MEASURED_BEFORE_US: Final = 1_500
"""A client measures shortly before its push is received."""
_PUSHES_AT_ONCE: Final = 512
_FILE_BYTES: Final = MAX_BATCH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is written.

    Attributes:
        instances: that live all the time.
        hours: of pushes [h].
        interval_s: between two pushes of an instance [s].
        seed: of everything that is drawn.
        shapes: names in `shapes.CLIENTS`, which take turns.
        points: stop after so many; None goes on to the end.
    """

    instances: int = 1000
    hours: float = 1.0
    interval_s: float = 60.0
    seed: int = 1
    shapes: Sequence[str] = tuple(CLIENTS)
    points: int | None = None


@dataclass(slots=True, kw_only=True)
class Written:
    """What was written; `payload_bytes` are those of the clients' own OTLP, decompressed."""

    pushes: int = 0
    points: int = 0
    files: int = 0
    payload_bytes: int = 0
    file_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Fleet:
    """Who the instances are, and when each pushes: `moment_us` after the begin of an interval [us]."""

    shapes: list[Shape]
    ids: list[str]
    moment_us: Numbers
    random: np.random.Generator

    def shape_of(self, instances: Numbers) -> Numbers:
        return instances % len(self.shapes)


def generate(root: Path, size: Size) -> Written:
    """Writes a landing zone under `root`."""
    random = np.random.default_rng(size.seed)
    interval_us = round(size.interval_s * _US)
    margin = min(_JITTER_US, interval_us // 4)
    ids = random.bytes(16 * size.instances)
    fleet = _Fleet(
        shapes=[load_shape(name) for name in size.shapes],
        ids=[format_instance_id(uuid.UUID(bytes=ids[at : at + 16])) for at in range(0, len(ids), 16)],
        moment_us=random.integers(margin, interval_us - margin, size.instances),
        random=random,
    )
    files = _Files(root)
    for interval in range(round(size.hours * 3600 / size.interval_s)):
        for records, points in _pushes(fleet, size, interval, interval_us, margin):
            files.add(records, points)
            if size.points is not None and files.written.points >= size.points:
                return files.close()
    return files.close()


def _pushes(
    fleet: _Fleet, size: Size, interval: int, interval_us: int, margin: int
) -> Iterator[tuple[list[PushRecord], int]]:
    """The pushes of one interval in the order of their receipt, and how many points they have."""
    begin_us = round(BEGIN.timestamp()) * _US + interval * interval_us
    before_us = begin_us - interval_us + fleet.moment_us + _jitter(size, interval - 1, margin)
    now_us = begin_us + fleet.moment_us + _jitter(size, interval, margin)
    order = np.argsort(now_us, kind="stable")
    ids = PushIds(writer=size.seed)
    for start in range(0, len(order), _PUSHES_AT_ONCE):
        instances = order[start : start + _PUSHES_AT_ONCE]
        yield _stamped(fleet, size, ids, instances, now_us[instances], before_us[instances])


def _jitter(size: Size, interval: int, margin: int) -> Numbers:
    """How much earlier or later each instance is this time [us]; the same whenever it is asked for."""
    random = np.random.default_rng([size.seed, interval + 1])
    return random.integers(-margin, margin, size.instances, endpoint=True)


def _stamped(
    fleet: _Fleet, size: Size, ids: PushIds, instances: Numbers, now_us: Numbers, before_us: Numbers
) -> tuple[list[PushRecord], int]:
    records: list[PushRecord] = [fleet.shapes[0].record] * len(instances)
    points = 0
    which = fleet.shape_of(instances)
    for number, shape in enumerate(fleet.shapes):
        rows = np.flatnonzero(which == number)
        if not len(rows):
            continue
        # Clients say milliseconds.
        time_ns, start_ns = ((us[rows] - _MEASURED_BEFORE_US) // 1000 * _US for us in (now_us, before_us))
        payloads = shape.stamp(instances[rows], time_ns, start_ns, fleet.random)
        points += shape.points * len(rows)
        for row, instance, payload in zip(rows.tolist(), instances[rows].tolist(), payloads, strict=True):
            records[row] = shape.record._replace(
                received_at=int(now_us[row]),
                client_instance_id=fleet.ids[instance],
                client_id=f"{shape.name}-{instance // len(fleet.shapes) // INSTANCES_OF_A_CLIENT}",
                client_source_address=f"10.{instance >> 16 & 255}.{instance >> 8 & 255}.{instance & 255}",
                client_source_port=32_768 + instance % 28_000,
                push_interval_ms=round(size.interval_s * 1000),
                terminating=False,
                metrics=payload.tobytes(),
            )
    return [record._replace(push_id=ids.next_id(record.received_at)) for record in records], points


@dataclass(slots=True)
class _Files:
    """Closes a file when the hour ends or it has as many bytes as the exporter gives one."""

    root: Path
    written: Written = field(default_factory=Written)
    _waiting: list[PushRecord] = field(default_factory=list)
    _waiting_bytes: int = 0

    def add(self, records: Sequence[PushRecord], points: int) -> None:
        for record in records:
            if self._waiting and (
                self._waiting_bytes >= _FILE_BYTES
                or partition_of(record.received_at) != partition_of(self._waiting[0].received_at)
            ):
                self._write()
            self._waiting.append(record)
            self._waiting_bytes += len(record.metrics)
        self.written.points += points

    def close(self) -> Written:
        if self._waiting:
            self._write()
        return self.written

    def _write(self) -> None:
        first = self._waiting[0]
        folder = self.root / partition_of(first.received_at)
        folder.mkdir(parents=True, exist_ok=True)
        data = encode(self._waiting)
        (folder / f"pushes-{self.written.files:06d}-{first.push_id}.parquet").write_bytes(data)
        self.written.files += 1
        self.written.pushes += len(self._waiting)
        self.written.payload_bytes += self._waiting_bytes
        self.written.file_bytes += data.size
        self._waiting, self._waiting_bytes = [], 0


def main() -> None:
    """Prints what was written as JSON."""
    size = Size()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--instances", type=int, default=size.instances)
    parser.add_argument("--hours", type=float, default=size.hours)
    parser.add_argument("--interval-s", type=float, default=size.interval_s)
    parser.add_argument("--seed", type=int, default=size.seed)
    parser.add_argument("--points", type=int, help="stop after so many")
    parser.add_argument("--shapes", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    given: dict[str, Any] = vars(parser.parse_args())
    root = given.pop("root")
    began = time.perf_counter()
    written = generate(root, Size(**given))
    took_s = time.perf_counter() - began
    print(
        json.dumps(asdict(written) | {"took_s": round(took_s, 2), "points_per_second": round(written.points / took_s)})
    )


if __name__ == "__main__":
    main()
