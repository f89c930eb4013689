"""Metrics as librdkafka computes them: over the time since the last push, 0 where nothing was recorded, integer maxima
rounded up, one metric per node with `node.id`, the coordinator's link as node -1.
"""

from collections.abc import Iterator
from math import ceil

import numpy as np

from benchmarks.fleet_model.levers import STEP_S
from benchmarks.fleet_model.otlp import Point
from benchmarks.fleet_model.view import View


def librdkafka_points(view: View) -> Iterator[Point]:
    """All points of a push."""
    history, since, role = view.history, view.since(), view.app.role
    created = view.total(history.created, since)
    if view.is_first:
        created = view.total(history.created, slice(max(view.process.start, 0), view.now))
    yield Point(f"{role}.connection.creation.rate", created / max((since.stop - since.start) * STEP_S, STEP_S))
    yield Point(f"{role}.connection.creation.total", int(created), True)
    counts, latency = view.by_broker(history.requests, since), view.by_broker(history.latency_sum, since)
    longest = history.latency_max[since, view.slot].max(axis=0)
    for broker, node_id in enumerate(view.fleet.broker_ids):
        mean = latency[broker] / counts[broker] if counts[broker] else 0.0
        node: dict[str, str | int] = {"node.id": node_id}
        yield Point(f"{role}.node.request.latency.avg", round(float(mean), 3), attributes=node)
        yield Point(f"{role}.node.request.latency.max", ceil(max(longest[broker], mean)), attributes=node)
    if role == "producer":
        yield from _producer(view, float(counts.sum()))
    else:
        yield from _consumer(view, float(counts.sum()), float(latency.sum()), float(longest.max()))


def _producer(view: View, requests: float) -> Iterator[Point]:
    """`record.queue.time` is how long a request waits for its connection, not how long its records do."""
    history, since = view.history, view.since()
    throttled = view.total(history.throttle_sum, since)
    yield Point("producer.produce.throttle.time.avg", throttled / requests if requests else 0.0)
    yield Point("producer.produce.throttle.time.max", ceil(view.longest(history.throttle_max, since)))
    waits = history.outbuf[since, view.slot]
    waits = waits[waits > 0]
    yield Point("producer.record.queue.time.avg", round(float(waits.mean()), 3) if len(waits) else 0.0)
    yield Point("producer.record.queue.time.max", ceil(float(waits.max()) * 1.5) if len(waits) else 0)
    yield Point("producer.request.latency.avg", 0.0)
    yield Point("producer.request.latency.max", 0)


def _consumer(view: View, fetches: float, latency: float, longest: float) -> Iterator[Point]:
    history, since = view.history, view.since()
    commits, took = view.total(history.commits, since), view.total(history.commit_sum, since)
    coordinator: dict[str, str | int] = {"node.id": -1}
    mean = took / commits if commits else 0.0
    yield Point("consumer.node.request.latency.avg", round(mean, 3), attributes=coordinator)
    most = max(view.longest(history.commit_max, since), view.longest(history.heartbeat_max, since))
    yield Point("consumer.node.request.latency.max", ceil(most), attributes=coordinator)
    yield Point("consumer.coordinator.assigned.partitions", int(history.assigned[view.now - 1, view.slot]))
    rebalances = view.total(history.rebalances, since)
    spent = view.total(history.rebalance_ms, since)
    yield Point("consumer.coordinator.rebalance.latency.avg", spent / rebalances if rebalances else 0.0)
    yield Point("consumer.coordinator.rebalance.latency.max", ceil(view.longest(history.rebalance_ms, since)))
    yield Point("consumer.coordinator.rebalance.latency.total", int(spent), True)
    yield Point("consumer.fetch.manager.fetch.latency.avg", latency / fetches if fetches else 0.0)
    yield Point("consumer.fetch.manager.fetch.latency.max", ceil(longest))
    calls = np.maximum(history.records[since, view.slot], 1.0)
    ratios = history.call_ratio[since, view.slot]
    yield Point("consumer.poll.idle.ratio.avg", float((ratios * calls).sum() / calls.sum()) if len(calls) else 0.0)
    yield Point("consumer.coordinator.commit.latency.avg", round(mean, 3))
    yield Point("consumer.coordinator.commit.latency.max", ceil(view.longest(history.commit_max, since)))
