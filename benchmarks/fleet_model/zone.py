"""Writes what the fleet sends as a landing zone: push records by hour of receipt, and samples of group offsets."""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.fleet_model.fleet import Fleet
from benchmarks.fleet_model.franz_go import franz_go_points
from benchmarks.fleet_model.java import java_points
from benchmarks.fleet_model.levers import STEP_S, Levers, Process, step_count
from benchmarks.fleet_model.librdkafka import librdkafka_points
from benchmarks.fleet_model.otlp import franz_go_payload, java_payload, librdkafka_payload
from benchmarks.fleet_model.physics import History
from benchmarks.fleet_model.view import View
from fleetgauge.exporters.group_offsets.schema import Sample, record_batch
from fleetgauge.exporters.group_offsets.zone import GROUP_OFFSETS
from fleetgauge.exporters.group_offsets.zone import encode as encode_offsets
from fleetgauge.exporters.landing.exporter import partition_of
from fleetgauge.exporters.landing.parquet import encode
from fleetgauge.telemetry.push_record import PushIds, PushRecord, format_instance_id

LOST: Final = 0.005
"""Share of pushes that are lost on the way."""
REPEATED: Final = 0.002
"""Share of pushes that lie in the zone twice."""
_JITTER: Final = {"java": (0.5, 1.5), "librdkafka": (0.8, 1.2), "franz-go": (0.5, 1.5)}


def instance_id(fleet: Fleet, process: Process) -> str:
    """The client instance id of a process."""
    number = (fleet.seed << 64) + (process.slot << 32) + process.start + 1000
    return format_instance_id(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def write_zone(fleet: Fleet, levers: Levers, history: History, directory: Path) -> int:
    """Writes the zone; returns the number of pushes."""
    by_hour: dict[str, list[PushRecord]] = defaultdict(list)
    count = 0
    for record in sorted(_pushes(fleet, levers, history), key=lambda each: each.received_at):
        by_hour[partition_of(record.received_at)].append(record)
        count += 1
    for folder, records in by_hour.items():
        _write(directory / folder / f"pushes-{records[0].push_id}.parquet", encode(records))
    if fleet.samples_offsets:
        _write_offsets(fleet, history, directory)
    return count


def _write(path: Path, data: pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.to_pybytes())


def _pushes(fleet: Fleet, levers: Levers, history: History) -> Iterator[PushRecord]:
    random = np.random.default_rng(fleet.seed + 11)
    ids = PushIds(writer=fleet.seed)
    for process in levers.processes:
        for view, at_s, is_last in _schedule(fleet, history, process, random):
            record = _record(view, at_s, is_last, ids)
            chance = random.random()
            if chance >= LOST:
                yield record
            if chance > 1 - REPEATED:
                yield record


def _schedule(
    fleet: Fleet, history: History, process: Process, random: np.random.Generator
) -> Iterator[tuple[View, float, bool]]:
    """The pushes of a process: the first after a jittered interval, then one per interval, one at its end."""
    app = fleet.app_of(process.slot)
    interval = app.push_interval_s
    low, high = _JITTER[app.library]
    is_old = process.start < 0
    at_s = random.uniform(1, interval) if is_old else process.start * STEP_S + 4 + interval * random.uniform(low, high)
    end = min(process.end, step_count(fleet))
    stop_s = STEP_S * (end if process.stops_pushing is None else min(end, process.stops_pushing))
    before, is_first = max(process.start, 0), not is_old

    def view(now: int) -> View:
        return View(fleet=fleet, history=history, process=process, app=app, before=before, now=now, is_first=is_first)

    while at_s < stop_s:
        now = int(at_s / STEP_S)
        if now > before:
            yield view(now), at_s, False
            before, is_first = now, False
        at_s += interval + random.uniform(0, 0.3)
    # A Java producer that has nothing unsent does not say that it ends.
    says_end = process.is_clean and not (app.library == "java" and app.role == "producer")
    if says_end and process.end < step_count(fleet) and process.stops_pushing is None and end > before:
        yield view(end), end * STEP_S + 0.2, True


def _record(view: View, at_s: float, is_last: bool, ids: PushIds) -> PushRecord:
    fleet, process, app = view.fleet, view.process, view.app
    at_us = int((fleet.start + at_s) * 1e6)
    skew_s = process.skew_s if process.skew_begin <= view.now < process.skew_end else 0.0
    clock_ns = int((fleet.start + at_s + process.clock_s + skew_s) * 1e9)
    start_ns = clock_ns - int((view.now - view.before) * STEP_S * 1e9)
    if app.library == "java":
        payload = java_payload(java_points(view), view.resource("group_member_id"), start_ns, clock_ns)
    elif app.library == "librdkafka":
        scope = f"{app.client_id}#{app.role}-1"
        payload = librdkafka_payload(librdkafka_points(view), view.resource("member_id"), scope, start_ns, clock_ns)
    else:
        start_ns = 0 if view.is_first else start_ns
        resource = view.resource("group_member_id")
        payload = franz_go_payload(franz_go_points(view), resource, process.software[1], start_ns, clock_ns)
    return PushRecord(
        push_id=ids.next_id(at_us), received_at=at_us,
        receiver_node_id=fleet.broker_ids[process.slot % len(fleet.broker_ids)],
        cluster_id=fleet.cluster_id, listener="INTERNAL", client_instance_id=instance_id(fleet, process),
        client_id=app.client_id, client_software_name=process.software[0],
        client_software_version=process.software[1],
        client_source_address=f"10.{process.slot // 250}.0.{process.slot % 250 + 1}",
        client_source_port=40_000 + (process.start + 1000) % 20_000, principal=app.principal, subscription_id=None,
        push_interval_ms=int(app.push_interval_s * 1000), terminating=is_last, compression_type=None,
        payload_bytes=None, schema_version=1, metrics=payload,
    )  # fmt: skip


def _write_offsets(fleet: Fleet, history: History, directory: Path) -> None:
    """One sample a minute of every group's partitions, as `fleetgauge offsets` takes them."""
    by_hour: dict[str, list[Sample]] = defaultdict(list)
    groups = sorted({app.group for app in fleet.apps if app.group})
    topics = {app.group: app.topic for app in fleet.apps if app.group}
    starts = np.cumsum([0] + [len(topic.leaders) for topic in fleet.topics])
    for step in range(3, step_count(fleet), 6):
        at_us = int((fleet.start + step * STEP_S) * 1e6)
        share = 0
        for group in groups:
            topic = topics[group]
            first_share = share
            for partition in range(len(fleet.topics[topic].leaders)):
                end = int(history.end_offset[step, starts[topic] + partition])
                owner = int(history.owner[step, share])
                member = f"{fleet.app_of(owner).client_id}-{owner}" if owner >= 0 else None
                by_hour[partition_of(at_us)].append(
                    Sample(
                        sampled_at=at_us, cluster_id=fleet.cluster_id, group_id=group,
                        state="Stable" if (history.owner[step, first_share] >= 0) else "Empty",
                        member_id=member, client_id=fleet.app_of(owner).client_id if owner >= 0 else None,
                        host=f"/10.{owner // 250}.0.{owner % 250 + 1}" if owner >= 0 else None,
                        topic=fleet.topics[topic].name, partition=partition,
                        committed_offset=min(int(history.committed[step, share]), end), end_offset=end,
                    )
                )  # fmt: skip
                share += 1
            owners = set(history.owner[step, first_share:share].tolist())
            by_hour[partition_of(at_us)].extend(
                Sample(
                    sampled_at=at_us, cluster_id=fleet.cluster_id, group_id=group, state="Stable",
                    member_id=f"{app.client_id}-{slot}", client_id=app.client_id,
                    host=f"/10.{slot // 250}.0.{slot % 250 + 1}",
                )
                for slot, app in ((slot, fleet.app_of(slot)) for slot in range(len(fleet.slot_app)))
                if app.group == group and history.alive[step, slot] and slot not in owners
            )  # fmt: skip
    for folder, samples in by_hour.items():
        rows = pa.Table.from_batches([record_batch(samples)])
        name = f"{GROUP_OFFSETS.prefix}-{samples[0].sampled_at:020d}-{uuid.UUID(int=fleet.seed).hex[16:]}.parquet"
        _write(directory / GROUP_OFFSETS.folder / folder / name, encode_offsets(rows))


def write_truth(truth: object, path: Path) -> None:
    """Writes `truth.json`."""
    path.write_text(json.dumps(truth, indent=1) + "\n")
