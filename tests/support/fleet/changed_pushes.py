"""Changes of what a fleet pushed that must not change what is said of it: see "What must not change a verdict"."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.exporters.group_offsets.schema import GROUP_OFFSETS_SCHEMA
from fleetgauge.exporters.group_offsets.zone import FOLDER
from fleetgauge.exporters.landing.schema import LANDING_SCHEMA
from fleetgauge.fleet.arrow import Schema, Table, pa, pc, pq, to_list
from fleetgauge.fleet.source.zone_files import FOLDERS_WITHOUT_PUSHES

_DOUBLES = re.compile(r"record|byte|rate|total|lag|count")
_STAYS = re.compile(r"ratio|compression|\bper\.request\b|size|avg$|max$|rebalance|connection|failed|heartbeat|commit")
"""Of names that `_DOUBLES` matches: what is measured of a request or a record, and what does not follow the load."""
_COORDINATORS = 2**30


class Zone(NamedTuple):
    """A landing zone in memory: rows of pushes, and samples of groups."""

    pushes: Table
    samples: Table

    @classmethod
    def read(cls, root: Path) -> "Zone":
        """All files of a zone."""
        paths = sorted(root.rglob("[!_.]*.parquet"))
        is_push = [not FOLDERS_WITHOUT_PUSHES.intersection(path.relative_to(root).parts) for path in paths]
        of_pushes = [path for path, own in zip(paths, is_push, strict=True) if own]
        of_samples = [path for path in paths if FOLDER in path.relative_to(root).parts]
        return cls(_read(of_pushes, LANDING_SCHEMA), _read(of_samples, GROUP_OFFSETS_SCHEMA))

    def write(self, root: Path) -> None:
        """A file for each hour, as an exporter has it."""
        for rows, time, folder in ((self.pushes, "received_at", ""), (self.samples, "sampled_at", FOLDER)):
            hours = pc.strftime(rows[time], "date=%Y-%m-%d/hour=%H")
            for hour in pc.unique(hours).to_pylist():
                directory = root / folder / hour
                directory.mkdir(parents=True, exist_ok=True)
                pq.write_table(rows.filter(pc.equal(hours, hour)), directory / "rows.parquet")


def _read(paths: list[Path], schema: Schema) -> Table:
    return pa.concat_tables([schema.empty_table(), *(pq.ParquetFile(path).read().cast(schema) for path in paths)])


def judged(zone: Zone, directory: Path, window_s: int = 300) -> list[dict[str, Any]]:
    """The verdicts of `fleet run` on a zone, with windows of this length [s]."""
    zone.write(directory / "landing")
    tables = ("--tables", str(directory / "tables"))
    run = ("run", "--source", str(directory / "landing"), *tables, "--window", f"{window_s}s", "--format", "json")
    listed = ("verdicts", *tables, "--format", "json")
    ran, found = (CliRunner().invoke(app, [*words]) for words in (run, listed))
    assert (ran.exit_code, found.exit_code) == (0, 0), ran.output + found.output
    return list(json.loads(found.stdout))


Change = Callable[[Zone], Zone]


def as_it_is(zone: Zone) -> Zone:
    return zone


def in_another_order(zone: Zone) -> Zone:
    """Of files and of rows within them: what an hour's file has first came last."""
    order = np.random.default_rng(1).permutation(zone.pushes.num_rows)
    return Zone(zone.pushes.take(pa.array(order, pa.int64())), zone.samples)


def some_lost(zone: Zone) -> Zone:
    """One in twenty pushes, but none with which a client says that it ends."""
    kept = np.random.default_rng(2).random(zone.pushes.num_rows) >= 0.05
    return Zone(zone.pushes.filter(pc.or_(pa.array(kept), zone.pushes["terminating"])), zone.samples)


def later(by: timedelta) -> Change:
    """All of it: windows begin elsewhere, unless they divide this time."""

    def change(zone: Zone) -> Zone:
        by_us = pa.scalar(by, pa.duration("us"))
        at, of = (
            pc.add(rows[name], by_us) for rows, name in ((zone.pushes, "received_at"), (zone.samples, "sampled_at"))
        )
        moved = zone.pushes.set_column(1, LANDING_SCHEMA.field("received_at"), at)
        moved = _with_payloads(moved, _later_points(round(by.total_seconds() * 1e9)))
        return Zone(moved, zone.samples.set_column(0, GROUP_OFFSETS_SCHEMA.field("sampled_at"), of))

    return change


def _later_points(by_ns: int) -> Callable[[MetricsData], None]:
    def change(data: MetricsData) -> None:
        for _, points in _metrics(data):
            for point in points:
                point.time_unix_nano += by_ns
                if point.start_time_unix_nano:
                    point.start_time_unix_nano += by_ns

    return change


def renamed(zone: Zone) -> Zone:
    """Clients, groups and nodes."""

    def rename(data: MetricsData) -> None:
        for resource in data.resource_metrics:
            _rename(resource.resource.attributes)
        for _, points in _metrics(data):
            for point in points:
                _rename(point.attributes)

    pushes = _with_payloads(zone.pushes, rename)
    for name in ("client_id", "receiver_node_id"):
        at = LANDING_SCHEMA.get_field_index(name)
        column = [new_name(name, value) for value in pushes[name].to_pylist()]
        pushes = pushes.set_column(at, LANDING_SCHEMA.field(name), pa.array(column, LANDING_SCHEMA.field(name).type))
    samples = zone.samples
    for name in ("client_id", "group_id"):
        at = GROUP_OFFSETS_SCHEMA.get_field_index(name)
        column = [new_name(name, value) for value in samples[name].to_pylist()]
        samples = samples.set_column(at, GROUP_OFFSETS_SCHEMA.field(name), pa.array(column, pa.string()))
    return Zone(pushes, samples)


def new_name(kind: str, name: Any) -> Any:
    """Of a client, a group or a node.

    >>> new_name("client_id", "orders-1"), new_name("node_id", "3"), new_name("node_id", "-1")
    ('x-orders-1', '103', '-1')
    >>> new_name("node_id", str(2**31 - 1 - 3))  # Java's name of broker 3 as a coordinator
    '2147483544'
    """
    if name is None:
        return None
    if kind in ("client_id", "group_id"):
        return f"x-{name}"
    if not str(name).isdecimal():
        return name
    number = int(name)
    return type(name)(number - 100 if number > _COORDINATORS else number + 100)


def _rename(attributes: Any) -> None:
    for each in attributes:
        if each.key in ("client_id", "group_id"):
            each.value.string_value = new_name(each.key, each.value.string_value)
        if each.key == "node_id" and each.value.string_value:
            number = each.value.string_value.removeprefix("node-")
            each.value.string_value = f"node-{new_name('node_id', number)}"
        elif each.key in ("node_id", "node.id"):
            each.value.int_value = new_name("node_id", each.value.int_value)


def twice_the_load(zone: Zone) -> Zone:
    """Of every client and every broker alike."""

    def double(data: MetricsData) -> None:
        for name, points in _metrics(data):
            if _DOUBLES.search(name) and not _STAYS.search(name):
                for point in points:
                    point.as_double = 2 * (point.as_double or point.as_int)

    samples = zone.samples
    for name in ("committed_offset", "end_offset"):
        at = samples.schema.get_field_index(name)
        samples = samples.set_column(at, GROUP_OFFSETS_SCHEMA.field(name), pc.multiply(samples[name], 2))
    return Zone(_with_payloads(zone.pushes, double), samples)


def beside(other: Zone, **fields: str) -> Change:
    """With another fleet's, whose columns get these values."""

    def change(zone: Zone) -> Zone:
        found = []
        for own, added in zip(zone, other, strict=True):
            for name, value in fields.items():
                if name in added.schema.names:
                    at = added.schema.get_field_index(name)
                    column = pa.array([value] * added.num_rows, added.schema.field(name).type)
                    added = added.set_column(at, added.schema.field(name), column)
            found.append(pa.concat_tables([own, added]))
        return Zone(*found)

    return change


def _metrics(data: MetricsData) -> Any:
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                yield metric.name, getattr(metric, metric.WhichOneof("data") or "gauge").data_points


def _with_payloads(pushes: Table, change: Callable[[MetricsData], None]) -> Table:
    payloads = []
    for payload in to_list(pushes["metrics"]):
        data = MetricsData.FromString(payload)
        change(data)
        payloads.append(data.SerializeToString())
    at = LANDING_SCHEMA.get_field_index("metrics")
    return pushes.set_column(at, LANDING_SCHEMA.field("metrics"), pa.array(payloads, pa.binary()))
