"""Pushes as a sink records them, in the order of their receipt, one chunk of time after the other."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from fleetgauge.exporters.group_offsets.schema import Sample
from fleetgauge.telemetry.push_record import SCHEMA_VERSION, PushIds, PushRecord
from fleetgauge.testkit.simulate.group_offsets import GroupOffsets
from fleetgauge.testkit.simulate.groups import Rebalance
from fleetgauge.testkit.simulate.measured import (
    Pushes,
    franz_go_points,
    java_points,
    librdkafka_points,
    measure,
    values_of,
)
from fleetgauge.testkit.simulate.payloads import Labels, Shape, franz_go, java, librdkafka
from fleetgauge.testkit.simulate.physics import HISTORY, TICK_S, Physics, Ticks
from fleetgauge.testkit.simulate.plan import BEGIN, Plan, Process
from fleetgauge.testkit.simulate.world import App, Numbers

_US: Final = 1_000_000
_PUSHES_AT_ONCE: Final = 6_000
_LOST: Final = 0.002
"""Share of pushes that never arrive."""
_ALONE: Final = -1
_COORDINATOR: Final = 2**31 - 1
_HOUR_S: Final = 3600.0


@dataclass(slots=True)
class Stream:
    """The pushes of a plan.

    Attributes:
        begin: when its time begins.
        speed: how many times as fast it passes.
        points: data points so far.
        offsets: samples of groups since the chunk before.
        now_s: how far it is [s].
    """

    plan: Plan
    seed: int
    begin: datetime = BEGIN
    speed: float = 1.0
    points: int = 0
    offsets: list[Sample] = field(default_factory=list)
    now_s: float = 0.0
    _shapes: dict[tuple[object, ...], Shape] = field(default_factory=dict)
    _used: dict[tuple[object, ...], Shape] = field(default_factory=dict)
    _groups: dict[str, tuple[Numbers, list[Rebalance]]] = field(default_factory=dict)

    def chunks(self) -> Iterator[list[PushRecord]]:
        """The pushes of one stretch of time after the other."""
        plan = self.plan
        physics = Physics(plan, -HISTORY * TICK_S)
        for app in plan.world.apps:
            events = [each for each in physics.rebalances if each.app is app]
            self._groups[app.name] = np.array([each.at_s for each in events]), events
        ticks = physics.advance(HISTORY)
        groups = GroupOffsets(plan, physics.rebalances)
        ids = PushIds(writer=self.seed)
        a_tick = sum(TICK_S / app.interval_s * app.size for app in plan.world.apps)
        length = max(6, min(180, int(_PUSHES_AT_ONCE / a_tick)))
        left = round(plan.hours * _HOUR_S / TICK_S)
        while left > 0:
            length = min(length, left)
            left -= length
            ticks = ticks.then(physics.advance(length), HISTORY)
            self.offsets = list(groups.of(ticks, length))
            end_s = self.now_s + length * TICK_S
            self._used = {}
            records = [each for slot in range(len(plan.processes)) for each in self._of_slot(slot, ticks, end_s)]
            self._shapes = self._used
            records.sort(key=lambda each: (each.received_at, each.client_instance_id))
            self.now_s = end_s
            yield [each._replace(push_id=ids.next_id(each.received_at)) for each in records]

    def _of_slot(self, slot: int, ticks: Ticks, end_s: float) -> Iterator[PushRecord]:
        for process in self.plan.processes[slot]:
            if process.start_s >= end_s or process.end_s < self.now_s:
                continue
            app = self.plan.world.of_slot[slot]
            at_s, before_s, is_first, is_last = _moments(process, app, self.now_s, end_s)
            is_there = self.plan.random.random(len(at_s)) >= _LOST
            for begin, end in process.hung:
                is_there &= (at_s < begin) | (at_s >= end)
            moments, events = self._groups[app.name]
            epoch = np.searchsorted(moments, at_s - 1.0, side="right") - 1
            for each in np.unique(epoch[is_there]).tolist():
                rows = np.flatnonzero(is_there & (epoch == each))
                owners = events[each].owners if events else np.zeros(0, np.int64)
                owned = app.partitions.start + np.flatnonzero(owners == slot)
                pushes = Pushes(
                    process=process,
                    app=app,
                    at_s=at_s[rows],
                    before_s=before_s[rows],
                    is_first=is_first[rows],
                    nodes=self._nodes(app, owned - app.partitions.start),
                    partitions=owned,
                    last_rebalance_s=_last_rebalance(moments, at_s[rows], process.start_s),
                    rebalances_an_hour=_of_last_hour(moments, at_s[rows], process.start_s),
                    window_s=30.0 + 30.0 * ((process.luck * 7) % 1),
                )
                yield from self._records(pushes, ticks, is_last[rows])

    def _nodes(self, app: App, partitions: Numbers) -> Numbers:
        """The brokers of a producer, and those that lead a consumer's partitions."""
        count = len(self.plan.world.clusters[app.cluster].node_ids)
        if app.role == "consumer" and len(partitions) and app.software.library != "librdkafka":
            return np.unique(partitions % count)
        return np.arange(count)

    def _records(self, pushes: Pushes, ticks: Ticks, is_last: Numbers) -> Iterator[PushRecord]:
        app, process = pushes.app, pushes.process
        clock = ticks.clock_s[:, process.slot]
        index = np.clip(((pushes.at_s - ticks.begin_s) // TICK_S).astype(int), 0, len(clock) - 1)
        before = np.clip(((pushes.before_s - ticks.begin_s) // TICK_S).astype(int), 0, len(clock) - 1)
        begin_us = round(self.begin.timestamp() * 1000) * 1000
        at_s, before_s = pushes.at_s / self.speed, pushes.before_s / self.speed
        time_us = begin_us + np.rint((at_s + clock[index]) * 1000).astype(np.int64) * 1000
        start_us = begin_us + np.rint((before_s + clock[before]) * 1000).astype(np.int64) * 1000
        arrives_us = begin_us + np.rint((at_s + self.plan.random.uniform(0.001, 0.02, len(pushes.at_s))) * _US).astype(
            np.int64
        )
        payloads = self._payloads(pushes, ticks, time_us, start_us)
        cluster = self.plan.world.clusters[app.cluster]
        usual = PushRecord(
            push_id="",
            received_at=0,
            receiver_node_id=cluster.node_ids[int(process.luck * len(cluster.node_ids))],
            cluster_id=cluster.cluster_id,
            listener="SASL_SSL",
            client_instance_id=process.instance_id,
            client_id=app.name,
            client_software_name=process.software.name,
            client_software_version=process.software.version,
            client_source_address=f"10.{process.slot >> 16 & 255}.{process.slot >> 8 & 255}.{process.slot & 255}",
            client_source_port=process.port,
            principal=app.principal,
            subscription_id=zlib.crc32(f"{app.interval_s}".encode()) >> 1,
            push_interval_ms=round(app.interval_s * 1000),
            terminating=False,
            compression_type=None,
            payload_bytes=None,
            schema_version=SCHEMA_VERSION,
            metrics=b"",
        )
        for arrived_us, terminating, payload in zip(arrives_us.tolist(), is_last.tolist(), payloads, strict=True):
            yield usual._replace(received_at=arrived_us, terminating=terminating, metrics=payload)

    def _payloads(self, pushes: Pushes, ticks: Ticks, time_us: Numbers, start_us: Numbers) -> list[bytes]:
        app = pushes.app
        if app.role == "admin":  # none of its metrics is asked for
            return [b""] * len(time_us)
        measured = measure(ticks, pushes)
        if app.software.library != "franz-go":
            shape = self._shape(pushes, None, True)
            values = values_of(measured, shape.points)
            if app.software.library == "librdkafka":
                values = np.nan_to_num(values)
            self.points += values.size
            return [row.tobytes() for row in shape.fill(values, time_us, start_us)]
        every = self._shape(pushes, None, True)
        values = np.nan_to_num(values_of(measured, every.points))
        values = np.where(every.ints, np.rint(values), values)
        payloads = []
        for row, is_first in enumerate(pushes.is_first.tolist()):
            present = np.flatnonzero(values[row])
            shape = self._shape(pushes, tuple(present.tolist()), not is_first)
            self.points += len(present)
            one = slice(row, row + 1)
            payloads.append(shape.fill(values[one, present], time_us[one], start_us[one])[0].tobytes())
        return payloads

    def _shape(self, pushes: Pushes, present: tuple[int, ...] | None, has_start: bool) -> Shape:
        """The shape of these pushes; of franz-go, with these points of all; None stands for all."""
        process = pushes.process
        key = (process.instance_id, pushes.nodes.tobytes(), pushes.partitions.tobytes(), present, has_start)
        shape = self._shapes.get(key) or self._used.get(key) or self._make_shape(pushes, present, has_start)
        self._used[key] = shape
        return shape

    def _make_shape(self, pushes: Pushes, present: tuple[int, ...] | None, has_start: bool) -> Shape:
        app, process = pushes.app, pushes.process
        node_ids = self.plan.world.clusters[app.cluster].node_ids
        columns = list(range(len(pushes.nodes)))
        used = [node_ids[index] for index in pushes.nodes.tolist()]
        version = process.software.core
        resource: Labels = ()
        if app.group_id is not None:
            member = "member_id" if app.software.library == "librdkafka" else "group_member_id"
            resource = (("group_id", app.group_id), (member, process.member_id))
        if app.software.library == "franz-go":
            points = franz_go_points(app, columns, used)
            points = points if present is None else [points[index] for index in present]
            return franz_go(points, resource, version, has_start=has_start)
        if app.software.library == "librdkafka":
            of_group = app.group_id is not None
            points = librdkafka_points(app, columns + [_ALONE] * of_group, used + [-1] * of_group)
            return librdkafka(points, resource, f"{app.name}#{app.role}-1", version)
        names = [f"node-{node_id}" for node_id in used]
        others = ["node--1"]
        if app.group_id is not None:
            coordinator = node_ids[sum(map(ord, app.name)) % len(node_ids)]
            others.append(f"node-+{coordinator}" if version == "4.4.0" else f"node-{_COORDINATOR - coordinator}")
        partitions = (pushes.partitions - app.partitions.start).tolist()
        return java(java_points(app, columns + [_ALONE] * len(others), names + others, partitions), resource)


def _moments(process: Process, app: App, begin_s: float, end_s: float) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """When an instance pushes in this time, when it did before, and which pushes are its first and last.

    The first comes after half to one and a half intervals (librdkafka: 0.8 to 1.2), the others an interval apart.
    """
    spread = 0.4 if app.software.library == "librdkafka" else 1.0
    first = process.start_s + 1 + app.interval_s * (1 - spread / 2 + spread * process.luck)
    step = app.interval_s + 0.005 + 0.02 * ((process.luck * 13) % 1)
    until = min(end_s, process.end_s)
    numbers = np.arange(max(0, int(np.ceil((begin_s - first) / step))), max(0, int(np.ceil((until - first) / step))))
    at_s = first + numbers * step
    before_s = np.where(numbers > 0, at_s - step, process.start_s)
    is_first, is_last = numbers == 0, np.zeros(len(numbers), bool)
    for begin, end in process.hung:
        is_back = (before_s >= begin) & (before_s < end)
        before_s = np.where(is_back, first + np.floor((begin - first) / step) * step, before_s)
    if begin_s <= process.end_s < end_s and process.is_graceful and _says_when_it_ends(process, app):
        pushed = max(0, int(np.ceil((process.end_s - first) / step)))
        at_s = np.append(at_s, process.end_s)
        before_s = np.append(before_s, first + (pushed - 1) * step if pushed else process.start_s)
        is_first, is_last = np.append(is_first, pushed == 0), np.append(is_last, True)
    return at_s, before_s, is_first, is_last


def _says_when_it_ends(process: Process, app: App) -> bool:
    """Java producers send a terminating push with records left to send, admin clients never."""
    if app.software.library != "java":
        return True
    return app.role == "consumer" or (app.role == "producer" and process.luck < 0.1)


def _last_rebalance(moments: Numbers, at_s: Numbers, start_s: float) -> Numbers:
    if not len(moments):
        return np.full(len(at_s), np.nan)
    latest_s = moments[np.maximum(np.searchsorted(moments, at_s, side="right") - 1, 0)]
    return np.maximum(latest_s, start_s + 1)


def _of_last_hour(moments: Numbers, at_s: Numbers, start_s: float) -> Numbers:
    """Rebalances an hour, as Java's rate over two samples of an hour has it."""
    begin = np.maximum(at_s - _HOUR_S, start_s)
    count = np.searchsorted(moments, at_s, side="right") - np.searchsorted(moments, begin, side="left")
    rate: Numbers = count * _HOUR_S / np.maximum(_HOUR_S, at_s - begin)
    return rate
