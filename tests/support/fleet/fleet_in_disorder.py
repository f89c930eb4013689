"""Pushes of a small fleet in which everything happens that makes points depend on their neighbours."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    MetricsData,
)
from spark.landing_zone import push

from fleetgauge.exporters.group_offsets.schema import Sample

SECOND_US: Final = 1_000_000
NOON_US: Final = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * SECOND_US
INTERVAL_US: Final = 60 * SECOND_US
CONSUMED: Final = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
REBALANCES: Final = "org.apache.kafka.consumer.coordinator.rebalance.total"
THROTTLE: Final = "org.apache.kafka.producer.produce.throttle.time.max"
LATENCY: Final = "org.apache.kafka.consumer.node.request.latency.avg"
_TEMPORALITIES: Final = {"delta": AGGREGATION_TEMPORALITY_DELTA, "cumulative": AGGREGATION_TEMPORALITY_CUMULATIVE}

Push = dict[str, Any]


def sums(
    values: dict[str, float], temporality: str, start_us: int | None, end_us: int, *, member: str = "m-1"
) -> MetricsData:
    """A payload of sums, without attributes."""
    data = MetricsData()
    of_resource = data.resource_metrics.add()
    for key, text in (("group_id", "orders"), ("group_member_id", member)):
        of_resource.resource.attributes.add(key=key).value.string_value = text
    metrics = of_resource.scope_metrics.add().metrics
    for name, value in values.items():
        metric = metrics.add(name=name)
        metric.sum.is_monotonic = True
        metric.sum.aggregation_temporality = _TEMPORALITIES[temporality]
        point = metric.sum.data_points.add(as_double=value, time_unix_nano=end_us * 1000)
        if start_us is not None:
            point.start_time_unix_nano = start_us * 1000
    return data


class _Client:
    """One client: what it counts, and how it says so."""

    def __init__(self, number: int, chance: random.Random, *, temporality: str, says_start: bool) -> None:
        self._chance = chance
        self._number = number
        self._temporality = temporality
        self._says_start = says_start
        self._began_us = NOON_US - 3_600 * SECOND_US
        self._totals = {CONSUMED: 0.0, REBALANCES: 0.0}
        self._last_us = NOON_US
        self._nodes = [1, 2]

    def pushes(self, count: int) -> Iterator[Push]:
        chance = self._chance
        for number in range(count):
            at_us = self._last_us + INTERVAL_US + chance.randrange(SECOND_US)
            if chance.random() < 0.06:  # away for minutes, hours, or more than a day
                at_us += chance.choice([5, 200, 1_500]) * 60 * SECOND_US
            if chance.random() < 0.1:  # two pushes of one moment
                at_us = self._last_us
            is_lost = chance.random() < 0.1
            payload = b"" if chance.random() < 0.1 else self._payload(at_us)
            if chance.random() < 0.05:
                payload = b"\xff"
            self._last_us = at_us
            if not is_lost:
                yield self._push(at_us, payload, terminating=number == count - 1)

    def _payload(self, at_us: int) -> bytes:
        chance = self._chance
        grown = {CONSUMED: float(chance.randrange(1_000)), REBALANCES: float(chance.randrange(3))}
        if chance.random() < 0.1:
            del grown[REBALANCES]  # a series that comes and goes
        if chance.random() < 0.07:  # a restart
            self._totals = dict.fromkeys(self._totals, 0.0)
            self._began_us = at_us - 30 * SECOND_US
        for name, value in grown.items():
            self._totals[name] += value
        is_delta = chance.random() < 0.6 if self._temporality == "both" else self._temporality == "delta"
        values = grown if is_delta else {name: self._totals[name] for name in grown}
        start_us = self._last_us if is_delta else self._began_us
        data = sums(
            values,
            "delta" if is_delta else "cumulative",
            start_us if self._says_start else None,
            at_us,
            member=f"m-{chance.randrange(3)}",
        )
        self._add_more(data, at_us)
        return data.SerializeToString()

    def _add_more(self, data: MetricsData, at_us: int) -> None:
        """A gauge, one of each broker, and distributions that summaries say."""
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        metrics.add(name=THROTTLE).gauge.data_points.add(as_double=self._chance.randrange(64) / 4)
        gauge = metrics.add(name=LATENCY).gauge
        for node in self._nodes:
            point = gauge.data_points.add(as_double=self._chance.randrange(64) / 4, time_unix_nano=at_us * 1000)
            point.attributes.add(key="node_id").value.string_value = f"node-{node}"
        summary = metrics.add(name="size").summary.data_points
        for node in self._nodes:
            size = summary.add(count=int(self._totals[CONSUMED]), sum=self._totals[CONSUMED] / 4)
            size.attributes.add(key="node").value.string_value = str(node)
            size.attributes.add(key="kind").value.string_value = "a"
        self._chance.shuffle(self._nodes)

    def _push(self, at_us: int, payload: bytes, *, terminating: bool) -> Push:
        name = f"client-{self._number}"
        return push(
            payload,
            received_at=at_us,
            push_id=f"{at_us:016x}{self._chance.randrange(2**64):016x}",
            client_instance_id=f"{'-AAz'[self._number % 4]}{self._number:A>21}",
            client_id=name,
            client_source_port=40_000 + self._chance.randrange(2),
            push_interval_ms=60_000,
            terminating=terminating,
        )


def group_samples(chance: random.Random, *, rounds: int = 90) -> list[Sample]:
    """Samples once a minute of the fleet's group, which falls behind for a while, and of one without telemetry."""
    samples = []
    written, committed = {0: 0, 1: 0}, {0: 0, 1: 0}
    for number in range(rounds):
        at_us = NOON_US + number * 60 * SECOND_US + chance.randrange(SECOND_US)
        for group, partition in (("orders", 0), ("orders", 1), ("alone", 0)):
            if group == "orders":
                written[partition] += chance.randrange(50, 100)
                committed[partition] = committed[partition] if 30 < number < 60 else written[partition]
            member = {"member_id": f"{group}-1", "client_id": "client-0", "host": "/127.0.0.1"}
            offsets = {"committed_offset": committed[partition], "end_offset": written[partition]}
            of = {"group_id": group, "state": "STABLE", "topic": "events", "partition": partition}
            samples.append(Sample(sampled_at=at_us, cluster_id="c", **of, **member, **offsets))  # type: ignore[arg-type]
    return samples


def fleet_pushes(chance: random.Random, *, clients: int = 5, pushes_each: int = 30) -> list[Push]:
    """Pushes of every client, each once: deltas, totals and both by turns, with and without a start, restarts, losses,
    silences of more than a day, heartbeats, malformed ones, and pairs of one moment.
    """
    found: list[Push] = []
    for number in range(clients):
        temporality = "both" if number == 4 else ("cumulative", "delta")[number % 2]
        kind = {"temporality": temporality, "says_start": number % 4 < 2}
        found += _Client(number, chance, **kind).pushes(pushes_each)  # type: ignore[arg-type]
    return found


def shuffled_batches(chance: random.Random, pushes: list[Push], *, batches: int) -> list[list[Push]]:
    """All pushes in any order and split, some of them repeated."""
    split: list[list[Push]] = [[] for _ in range(batches)]
    for row in pushes:
        for _ in range(2 if chance.random() < 0.1 else 1):
            split[chance.randrange(batches)].append(row)
    for rows in split:
        chance.shuffle(rows)
    return split
