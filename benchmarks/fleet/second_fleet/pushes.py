"""The pushes of all processes of a client, and the rows of the landing zone."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fleet.second_fleet.clients import BEGIN_S, END_S, App, Life, Slot, Values
from benchmarks.fleet.second_fleet.instance import Instance, number_of
from benchmarks.fleet.second_fleet.java import add_points
from benchmarks.fleet.second_fleet.other_libraries import add_go_points, add_librdkafka_points
from benchmarks.fleet.second_fleet.population import software_of
from benchmarks.fleet.second_fleet.world import World

Row = tuple[Any, ...]

ADD_POINTS: dict[str, Callable[[Instance], None]] = {
    "java": add_points,
    "librdkafka": add_librdkafka_points,
    "franz-go": add_go_points,
}


def pushes_of(world: World, slot: Slot) -> Iterator[Row]:
    """The rows of all processes at a slot."""
    for number, life in enumerate(slot.lives):
        times_s = _push_times(world, slot.app, life)
        if len(times_s) > 1:
            yield from _rows(Instance(world, slot, number, life, times_s[0], times_s[1:]))


def _ends_with_a_push(app: App, life: Life) -> bool:
    return life.end == "clean" and (not app.is_java or app.role == "consumer")


def _push_times(world: World, app: App, life: Life) -> Values:
    """When a process starts, and when it pushes, since the beginning [s]."""
    random = world.random
    start_s = life.start_s + random.uniform(1, 6)
    jitter = (0.8, 1.2) if app.is_librdkafka else (0.5, 1.5)
    found = [start_s + app.interval_s * random.uniform(*jitter)]
    while found[-1] < life.end_s:
        share = random.uniform(0.8, 1.2) if app.is_librdkafka else 1 + random.normal() * 0.002
        found.append(found[-1] + app.interval_s * share)
    found = [each for each in found if each < min(life.end_s, END_S - 1)]
    if _ends_with_a_push(app, life):
        found.append(life.end_s - 0.05)
    return np.array([start_s, *found])


def _rows(client: Instance) -> Iterator[Row]:
    """One row per push that arrives, as `write_zone` takes them."""
    random, app, slot = client.random, client.app, client.slot
    ADD_POINTS[app.library.family](client)
    skew_s = slot.clock.size * slot.clock.ticks[client.windows.at] if slot.clock else np.zeros(client.pushes)
    payloads = client.payloads(skew_s)
    name, version = software_of(app, client.number)
    lost = random.random(client.pushes) < 0.01
    port, node = int(random.integers(32768, 60999)), int(random.integers(client.nodes))
    place = number_of(app.name) % 200
    address = f"10.{place}.{slot.number}.{10 + client.number % 200}"
    ends, up = _ends_with_a_push(app, client.life), client.world.brokers[app.cluster].is_up
    for push, time_s in enumerate(client.times_s):
        is_last = ends and push == client.pushes - 1
        if lost[push] and not is_last:
            continue
        if not up[client.windows.at[push], node]:
            node = int((node + 1) % client.nodes)
        received_us = int((BEGIN_S + time_s + random.uniform(0.001, 0.05)) * 1e6)
        sender = client.instance_id, slot.client_id, name, version, address, port, app.principal
        yield received_us, node + 1, app.cluster, *sender, app.interval_s * 1000, is_last, payloads[push]
    _add_truth(client)


def _add_truth(client: Instance) -> None:
    world, app, clock, last_s = client.world, client.app, client.slot.clock, float(client.times_s[-1])
    if client.life.end == "silent":
        tells_its_end = not app.is_java or app.role == "consumer"
        must = last_s + 3 * app.interval_s + 60 < END_S - 120 and tells_its_end
        span = last_s, min(END_S, client.life.end_s + 1e5)
        world.add("silent", client.instance_id, app, span, must, kind="instance")
    if clock and clock.verdict and client.number == 0:
        note = f"{clock.size:.0f} s"
        world.add(clock.verdict, client.instance_id, app, clock.span, True, note, kind="instance")


def write_zone(rows: list[Row], zone: Path) -> None:
    """Writes rows as Hive partitions by hour of reception, as the destination `landing` does."""
    rows.sort(key=lambda row: row[0])
    by_hour: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for number, row in enumerate(rows):
        hour = datetime.fromtimestamp(row[0] / 1e6, UTC).strftime("date=%Y-%m-%d/hour=%H")
        by_hour[hour].append((number, row))
    for hour, some in by_hour.items():
        (zone / hour).mkdir(parents=True)
        pq.write_table(_table(some), zone / hour / "second.parquet", compression="zstd", row_group_size=4000)


def _table(rows: list[tuple[int, Row]]) -> pa.Table:
    ids = [(row[0] << 64 | 0xF0E1D2C3 << 32 | number).to_bytes(16, "big").hex() for number, row in rows]
    received, nodes, clusters, instances, client_ids, names, versions, addresses, ports, principals, *rest = zip(
        *(row for _, row in rows), strict=True
    )
    intervals, terminating, payloads = rest
    count = len(rows)
    return pa.table(
        {
            "push_id": pa.array(ids),
            "received_at": pa.array(received, pa.timestamp("us", tz="UTC")),
            "receiver_node_id": pa.array(nodes, pa.int32()),
            "cluster_id": pa.array(clusters),
            "listener": pa.array(["SASL_SSL"] * count),
            "client_instance_id": pa.array(instances),
            "client_id": pa.array(client_ids),
            "client_software_name": pa.array(names),
            "client_software_version": pa.array(versions),
            "client_source_address": pa.array(addresses),
            "client_source_port": pa.array(ports, pa.int32()),
            "principal": pa.array(principals),
            "subscription_id": pa.array([7341] * count, pa.int32()),
            "push_interval_ms": pa.array(intervals, pa.int32()),
            "terminating": pa.array(terminating),
            "compression_type": pa.array(["zstd"] * count),
            "payload_bytes": pa.array([len(payload) // 8 for payload in payloads], pa.int32()),
            "schema_version": pa.array([1] * count, pa.int32()),
            "metrics": pa.array(payloads, pa.binary()),
        }
    )
