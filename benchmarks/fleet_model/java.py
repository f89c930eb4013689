"""Metrics as the Java client computes them: averages and maxima over samples of 30 to 60 s, NaN where nothing was
recorded, delta sums since the last push, doubles throughout, a link to a bootstrap server beside the brokers.
"""

from collections.abc import Iterator
from math import nan

import numpy as np

from benchmarks.fleet_model.levers import STEP_S
from benchmarks.fleet_model.otlp import Point
from benchmarks.fleet_model.physics import BUFFER_BYTES
from benchmarks.fleet_model.view import View


def java_points(view: View) -> Iterator[Point]:
    """All points of a push."""
    if view.app.role == "producer":
        yield from _producer(view)
    else:
        yield from _consumer(view)


def _mean(total: float, count: float) -> float:
    return total / count if count > 0 else nan


def _rate_and_total(view: View, name: str, recent: float, since: float, attributes: dict[str, str]) -> Iterator[Point]:
    yield Point(f"{name}.rate", recent / view.window_s(), attributes=attributes)
    yield Point(f"{name}.total", float(round(since)), True, attributes)


def _links(view: View, role: str, *, has_latency: bool) -> Iterator[Point]:
    """Metrics by node. Idle links, the coordinator's and the bootstrap server's among them, have NaN latencies."""
    history, window, since = view.history, view.window(), view.since()
    recent = view.by_broker(history.requests, window)
    counts = view.by_broker(history.requests, since)
    latency = view.by_broker(history.latency_sum, window)
    longest = history.latency_max[window, view.slot].max(axis=0)
    sent, received = (view.by_broker(cube, window) for cube in (history.sent_bytes, history.received_bytes))
    sent_since, received_since = (view.by_broker(cube, since) for cube in (history.sent_bytes, history.received_bytes))
    for broker, node_id in enumerate(view.fleet.broker_ids):
        node = {"node_id": f"node-{node_id}"}
        is_measured = has_latency and recent[broker] > 0
        mean = latency[broker] / recent[broker] if is_measured else nan
        yield Point(f"{role}.node.request.latency.avg", float(mean), attributes=node)
        most = max(float(np.ceil(longest[broker])), float(np.ceil(mean))) if is_measured else nan
        yield Point(f"{role}.node.request.latency.max", most, attributes=node)
        for name in ("request", "response"):
            yield from _rate_and_total(view, f"{role}.node.{name}", recent[broker], counts[broker], node)
        yield from _rate_and_total(view, f"{role}.node.outgoing.byte", sent[broker], sent_since[broker], node)
        yield from _rate_and_total(view, f"{role}.node.incoming.byte", received[broker], received_since[broker], node)
        yield Point(f"{role}.node.request.size.avg", _mean(sent[broker], recent[broker]), attributes=node)
    others = ["node--1"]
    if role == "consumer":
        node_id = view.fleet.broker_ids[int(history.coordinator[view.slot])]
        others.append(f"node-+{node_id}" if view.app.software[1] >= "4.4" else f"node-{2**31 - 1 - node_id}")
    for name in others:
        node = {"node_id": name}
        beats = 0.0 if name == "node--1" else (1 / 3 + 1 / 5)
        yield Point(f"{role}.node.request.latency.avg", nan, attributes=node)
        yield Point(f"{role}.node.request.latency.max", nan, attributes=node)
        steps = (since.stop - since.start) * STEP_S
        yield from _rate_and_total(view, f"{role}.node.request", beats * view.window_s(), beats * steps, node)
        yield from _rate_and_total(view, f"{role}.node.response", beats * view.window_s(), beats * steps, node)
    for name in ("request", "response"):
        yield from _rate_and_total(view, f"{role}.{name}", float(recent.sum()), float(counts.sum()), {})
    yield from _rate_and_total(view, f"{role}.outgoing.byte", float(sent.sum()), float(sent_since.sum()), {})
    yield from _rate_and_total(view, f"{role}.incoming.byte", float(received.sum()), float(received_since.sum()), {})
    created, created_since = (view.total(history.created, steps) for steps in (window, since))
    # The first delta reaches back before the subscription; connections of the start are in it.
    yield from _rate_and_total(view, f"{role}.connection.creation", created, created_since, {})
    closed = max(created_since - len(view.fleet.broker_ids) - 1, 0) if view.is_first else created_since
    yield from _rate_and_total(view, f"{role}.connection.close", 0.0, closed, {})
    yield Point(f"{role}.connection.count", float(len(view.fleet.broker_ids) + (role == "consumer")))


def _producer(view: View) -> Iterator[Point]:
    history, window, since, app = view.history, view.window(), view.since(), view.app
    topic = {"topic": view.fleet.topics[app.topic].name}
    yield from _links(view, "producer", has_latency=True)
    requests = float(view.by_broker(history.requests, window).sum())
    latency = float(view.by_broker(history.latency_sum, window).sum())
    yield Point("producer.request.latency.avg", _mean(latency, requests))
    longest = float(history.latency_max[window, view.slot].max())
    yield Point("producer.request.latency.max", float(np.ceil(longest)) if requests else nan)
    records, batches = view.total(history.records, window), view.total(history.batches, window)
    data = view.total(history.bytes, window)
    for name, table in (("send", history.records), ("error", history.errors), ("retry", history.retries)):
        recent, total = view.total(table, window), view.total(table, since)
        yield from _rate_and_total(view, f"producer.record.{name}", recent, total, {})
        yield from _rate_and_total(view, f"producer.topic.record.{name}", recent, total, topic)
    yield from _rate_and_total(view, "producer.topic.byte", data, view.total(history.bytes, since), topic)
    yield Point("producer.batch.size.avg", _mean(data, batches))
    yield Point("producer.batch.size.max", _mean(data, batches) * 1.3)
    yield Point("producer.records.per.request.avg", _mean(records, requests))
    yield Point("producer.record.size.avg", app.record_bytes if records else nan)
    yield Point("producer.record.size.max", app.record_bytes * 1.6 if records else nan)
    compression = _mean(data, records) / app.record_bytes
    yield Point("producer.compression.rate.avg", compression)
    yield Point("producer.topic.compression.rate", compression, attributes=topic)
    yield Point("producer.record.queue.time.avg", _mean(view.total(history.queue_sum, window), batches))
    longest = view.longest(history.queue_max, window)
    mean = _mean(view.total(history.queue_sum, window), batches)
    yield Point("producer.record.queue.time.max", max(float(np.ceil(longest)), mean) if batches else nan)
    yield Point("producer.buffer.total.bytes", BUFFER_BYTES)
    buffered = float(history.buffered[view.now - 1, view.slot])
    yield Point("producer.buffer.available.bytes", max(BUFFER_BYTES - buffered, 0.0))
    waited = view.total(history.wait_share, window) * STEP_S
    yield Point("producer.bufferpool.wait.ratio", waited / view.window_s())
    waited_ns = float(round(view.total(history.wait_share, since) * STEP_S * 1e9))
    yield Point("producer.bufferpool.wait.time.ns.total", waited_ns, True)
    yield Point("producer.waiting.threads", float(history.wait_share[view.now - 1, view.slot] > 0.3))
    yield from _rate_and_total(view, "producer.buffer.exhausted", 0.0, 0.0, {})
    yield from _rate_and_total(view, "producer.batch.split", 0.0, 0.0, {})
    in_flight = min(latency / 1000 / view.window_s(), 5.0)
    yield Point("producer.requests.in.flight", float(round(in_flight)))
    yield Point("producer.produce.throttle.time.avg", _mean(view.total(history.throttle_sum, window), requests))
    yield Point("producer.produce.throttle.time.max", float(np.ceil(view.longest(history.throttle_max, window))))
    yield Point("producer.metadata.age", float((view.now - view.process.start) * STEP_S % 300))


def _consumer(view: View) -> Iterator[Point]:
    history, window, since, app = view.history, view.window(), view.since(), view.app
    is_4 = app.software[1] >= "4"
    # Up to 3.9 a consumer measures no latency by node, and its topics have "_" for ".".
    yield from _links(view, "consumer", has_latency=is_4)
    fetches = float(view.by_broker(history.requests, window).sum())
    latency = float(view.by_broker(history.latency_sum, window).sum())
    longest = float(history.latency_max[window, view.slot].max())
    yield Point("consumer.fetch.manager.fetch.latency.avg", _mean(latency, fetches))
    yield Point("consumer.fetch.manager.fetch.latency.max", float(np.ceil(longest)) if fetches else nan)
    counted = float(view.by_broker(history.requests, since).sum())
    yield from _rate_and_total(view, "consumer.fetch.manager.fetch", fetches, counted, {})
    yield Point(
        "consumer.fetch.manager.fetch.throttle.time.avg", _mean(view.total(history.throttle_sum, window), fetches)
    )
    most = float(np.ceil(view.longest(history.throttle_max, window)))
    yield Point("consumer.fetch.manager.fetch.throttle.time.max", most if fetches else nan)
    name = view.fleet.topics[app.topic].name
    dotless = {"topic": name.replace(".", "_")}
    no_attributes: dict[str, str] = {}
    records, data = view.total(history.records, window), view.total(history.bytes, window)
    has_topic = view.total(history.records, slice(max(view.process.start, 0), view.now)) > 0
    of_topic = [dotless, {"topic": name}] if is_4 else [dotless]
    for attributes in [no_attributes, *of_topic] if has_topic else [no_attributes]:
        total = view.total(history.records, since)
        yield from _rate_and_total(view, "consumer.fetch.manager.records.consumed", records, total, attributes)
        total = view.total(history.bytes, since)
        yield from _rate_and_total(view, "consumer.fetch.manager.bytes.consumed", data, total, attributes)
        yield Point("consumer.fetch.manager.fetch.size.avg", _mean(data, fetches), attributes=attributes)
        yield Point("consumer.fetch.manager.fetch.size.max", _mean(data, fetches) * 1.5, attributes=attributes)
        yield Point("consumer.fetch.manager.records.per.request.avg", _mean(records, fetches), attributes=attributes)
    yield from _lags(view, [dotless["topic"]] + ([name] if is_4 else []))
    yield from _coordinator(view)
    yield from _polls(view)


def _lags(view: View, names: list[str]) -> Iterator[Point]:
    """Lag by partition, recorded with each response that has records: only the gauge keeps its last value."""
    history, window = view.history, view.window()
    shares = np.flatnonzero(history.owner[view.now - 1] == view.slot)
    largest = nan
    for number in shares:
        first = view.now - 1
        lags = history.lag[window, number]
        mine = history.owner[window, number] == view.slot
        moved = np.diff(history.committed[max(window.start - 1, 0) : window.stop, number], prepend=-1)[-len(lags) :] > 0
        seen = np.floor(lags[mine & moved])
        current = float(np.floor(history.lag[first, number]))
        if len(seen):
            largest = np.nanmax([largest, seen.max()])
        else:
            before = history.committed[: view.now, number]
            current = float(np.floor(history.lag[int(np.argmax(before == before[-1])), number]))
        for name in names:
            attributes = {"topic": name, "partition": str(number - shares.min())}
            yield Point("consumer.fetch.manager.records.lag", current, attributes=attributes)
            mean = float(seen.mean()) if len(seen) else nan
            yield Point("consumer.fetch.manager.records.lag.avg", mean, attributes=attributes)
            most = float(seen.max()) if len(seen) else nan
            yield Point("consumer.fetch.manager.records.lag.max", most, attributes=attributes)
    yield Point("consumer.fetch.manager.records.lag.max", float(largest))


def _coordinator(view: View) -> Iterator[Point]:
    history, window, since = view.history, view.window(), view.since()
    commits = view.total(history.commits, window)
    yield Point("consumer.coordinator.commit.latency.avg", _mean(view.total(history.commit_sum, window), commits))
    longest = float(np.ceil(view.longest(history.commit_max, window)))
    yield Point("consumer.coordinator.commit.latency.max", longest if commits else nan)
    yield from _rate_and_total(view, "consumer.coordinator.commit", commits, view.total(history.commits, since), {})
    yield Point(
        "consumer.coordinator.heartbeat.response.time.max", float(np.ceil(view.longest(history.heartbeat_max, window)))
    )
    beats = (since.stop - since.start) * STEP_S / 3
    yield from _rate_and_total(view, "consumer.coordinator.heartbeat", view.window_s() / 3, beats, {})
    yield Point("consumer.coordinator.last.heartbeat.seconds.ago", 1.0)
    yield Point("consumer.coordinator.assigned.partitions", float(history.assigned[view.now - 1, view.slot]))
    recent, total = (view.total(history.rebalances, steps) for steps in (window, since))
    yield Point("consumer.coordinator.rebalance.rate.per.hour", recent / view.window_s() * 3600)
    yield Point("consumer.coordinator.rebalance.total", total, True)
    took = view.total(history.rebalance_ms, window)
    yield Point("consumer.coordinator.rebalance.latency.avg", _mean(took, recent))
    yield Point(
        "consumer.coordinator.rebalance.latency.max", view.longest(history.rebalance_ms, window) if recent else nan
    )
    yield Point(
        "consumer.coordinator.rebalance.latency.total", float(round(view.total(history.rebalance_ms, since))), True
    )
    yield Point("consumer.coordinator.failed.rebalance.rate.per.hour", 0.0)
    yield Point("consumer.coordinator.failed.rebalance.total", 0.0, True)
    for name in ("join", "sync"):
        yield from _rate_and_total(view, f"consumer.coordinator.{name}", recent, total, {})
        yield Point(f"consumer.coordinator.{name}.time.avg", _mean(took, recent) * 0.4)
    past = np.flatnonzero(history.rebalances[max(view.process.start, 0) : view.now, view.slot])
    began = max(view.process.start, 0)
    ago = (view.now - began - int(past[-1])) * STEP_S if len(past) else (view.now - view.process.start) * STEP_S
    yield Point("consumer.coordinator.last.rebalance.seconds.ago", float(ago))


def _polls(view: View) -> Iterator[Point]:
    """Kafka's ratio of one poll is wait / (wait + time since the last poll began), so that an idle consumer has 0.5."""
    history, window = view.history, view.window()
    calls = history.polls[window, view.slot].astype(float)
    share = history.poll_share[window, view.slot].astype(float)
    count = float(calls.sum())
    ratio = float((share / (1 + share) * calls).sum() / count) if count else nan
    yield Point("consumer.poll.idle.ratio.avg", ratio)
    yield Point("consumer.time.between.poll.avg", 1000 * STEP_S * len(calls) / count if count else nan)
    yield Point("consumer.time.between.poll.max", float(np.ceil(view.longest(history.poll_max, window))))
    last = float(history.poll_max[view.now - 1, view.slot]) / 1000
    yield Point("consumer.last.poll.seconds.ago", float(int(last * 0.5)))
