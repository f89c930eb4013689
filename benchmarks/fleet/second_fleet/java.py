"""What Apache Kafka's Java clients push: names, attributes and habits of 3.x and 4.x."""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet.second_fleet.clients import BEGIN_S, JAVA_37, JAVA_39, TICK_S, TICKS, Mask, Values
from benchmarks.fleet.second_fleet.consumers import ConsumerTraffic
from benchmarks.fleet.second_fleet.instance import ABSENT, Instance
from benchmarks.fleet.second_fleet.producers import BATCH_BYTES, MEMORY_BYTES, ProducerTraffic


def add_points(client: Instance) -> None:
    """Adds all metrics of an instance."""
    _client(client)
    if client.app.role == "producer":
        _producer(client, client.slot.traffic)
    elif client.app.role == "consumer":
        _consumer(client, client.slot.traffic)


def _client(client: Instance) -> None:
    app, windows, random, requests = client.app, client.windows, client.random, client.requests.sum(1)
    client.gauge("connection.creation.rate", client.connects / windows.lasts_s)
    client.total("connection.creation.total", client.connects)
    client.gauge("connection.count", client.nodes + 1.0)
    kept = (np.arange(client.pushes) == 0) * (client.nodes + 1)
    client.total("connection.close.total", np.maximum(client.connects - kept, 0))
    per_s = client.asked.sum(1) / windows.lasts_s
    for name in ("request", "response"):
        client.total(f"{name}.total", requests + 1)
        client.gauge(f"{name}.rate", per_s)
    client.total("node.request.total", np.zeros(client.pushes), ("node_id", "node--1"))
    client.gauge("node.request.latency.avg", math.nan, ("node_id", "node--1"))
    # Consumers of 3.x have no latency of their brokers.
    none = np.nan if app.role == "consumer" and app.library in (JAVA_37, JAVA_39) else 0.0
    for node in range(client.nodes):
        attribute = ("node_id", f"node-{node + 1}")
        client.gauge("node.request.latency.avg", client.average_ms[:, node] + none, attribute)
        client.gauge("node.request.latency.max", np.ceil(client.most_ms[:, node]) + none, attribute)
        client.total("node.request.total", client.requests[:, node], attribute)
        client.gauge("node.request.rate", client.asked[:, node] / windows.lasts_s, attribute)
    size_bytes: Values | float = 140.0
    if app.role == "producer":
        size_bytes = client.records_per_request() * app.record_bytes * app.compression + 180
    size_bytes = client.if_any(np.maximum(size_bytes, 60))
    client.gauge("request.size.avg", size_bytes)
    client.gauge("request.size.max", np.ceil(size_bytes * 2.5))
    started_ms = np.full(client.pushes, (BEGIN_S + client.start_s) * 1000)
    client.point("app.info.start.time.ms", started_ms, is_int=True)
    client.point("kafka.count.count", np.full(client.pushes, 112.0))
    client.gauge("io.wait.ratio", np.clip(random.normal(0.5, 0.1, client.pushes), 0, 1))
    client.gauge("io.ratio", np.clip(random.normal(0.02, 0.01, client.pushes), 0, 1))


def _producer(client: Instance, traffic: ProducerTraffic) -> None:
    random, app, windows, if_any = client.random, client.app, client.windows, client.if_any
    throttle_ms, most_throttle_ms, queued_ms = client.producer_times(traffic)
    sent = traffic.records_per_s.sum(1)
    per_s, gone = windows.mean(sent), windows.total(sent * TICK_S)
    records = random.poisson(np.minimum(gone, 1e9))
    errors = np.minimum(records, random.poisson(windows.total(sent * TICK_S * traffic.failed)))
    retries = random.poisson(windows.total(sent * TICK_S * traffic.retried))
    client.gauge("request.latency.avg", client.average_of_all_ms)
    client.gauge("request.latency.max", np.ceil(client.most_of_all_ms))
    client.gauge("produce.throttle.time.avg", if_any(throttle_ms))
    client.gauge("produce.throttle.time.max", if_any(np.ceil(most_throttle_ms)))
    client.total("record.send.total", records)
    client.gauge("record.send.rate", per_s)
    client.total("record.error.total", errors)
    client.gauge("record.error.rate", errors / client.spaced_s)
    client.total("record.retry.total", retries)
    client.gauge("record.retry.rate", retries / client.spaced_s)
    per_request, sent_bytes = client.records_per_request(), app.record_bytes * app.compression
    per_batch = np.maximum(1, np.minimum(per_request, BATCH_BYTES / sent_bytes))
    client.gauge("records.per.request.avg", if_any(np.maximum(1, per_request)))
    client.gauge("batch.size.avg", if_any(per_batch * app.record_bytes * app.compression + 61))
    client.gauge("record.size.avg", if_any(app.record_bytes + random.normal(size=client.pushes)))
    client.gauge("record.size.max", if_any(app.record_bytes * 1.8))
    shrunk = np.full(client.pushes, app.compression)
    if app.compression != 1:
        shrunk = app.compression + random.normal(size=client.pushes) * 0.01
    client.gauge("compression.rate.avg", if_any(shrunk))
    client.gauge("record.queue.time.avg", if_any(queued_ms))
    client.gauge("record.queue.time.max", if_any(np.ceil(queued_ms * 2.2 + 1)))
    blocked = np.nan_to_num(windows.mean(traffic.blocked))
    client.gauge("bufferpool.wait.ratio", blocked)
    client.total("bufferpool.wait.time.ns.total", windows.total(traffic.blocked * TICK_S) * 1e9)
    client.total("buffer.exhausted.total", 0 * records)
    client.gauge("buffer.total.bytes", MEMORY_BYTES)
    taken = np.minimum(windows.last(traffic.buffered_bytes), 33550000)
    client.gauge("buffer.available.bytes", MEMORY_BYTES - taken - BATCH_BYTES * random.integers(0, 3, client.pushes))
    client.gauge("waiting.threads", (blocked > 0.02) * 1.0)
    client.total("outgoing.byte.total", gone * app.record_bytes * app.compression * 1.02)
    client.gauge("outgoing.byte.rate", per_s * app.record_bytes * app.compression * 1.02)
    client.total("incoming.byte.total", client.requests.sum(1) * 70.0)
    topic = ("topic", app.topic)
    client.total("topic.record.send.total", records, topic)
    client.total("topic.byte.total", gone * app.record_bytes * app.compression, topic)
    client.total("topic.record.error.total", errors, topic)
    client.total("topic.record.retry.total", retries, topic)
    client.gauge("topic.compression.rate", if_any(app.compression), topic)
    client.gauge("topic.byte.rate", per_s * app.record_bytes * app.compression, topic)
    client.gauge("metadata.age", random.uniform(0, 300, client.pushes))
    client.gauge("batch.split.rate", 0.0)


def _consumer(client: Instance, traffic: ConsumerTraffic) -> None:
    windows, longpoll = client.windows, "longpoll" in client.app.faults
    commits, commit_ms = client.commits(traffic)
    between_ms = windows.mean(traffic.between_polls_ms)
    client.gauge("poll.idle.ratio.avg", windows.mean(traffic.idle))
    client.gauge("time.between.poll.avg", between_ms)
    client.gauge("time.between.poll.max", np.ceil(between_ms * (1.05 if longpoll else 2.5) + 90))
    client.gauge("last.poll.seconds.ago", _ago_s(client, traffic.polls))
    _coordinator(client, traffic, commits, commit_ms)
    _fetches(client, traffic)


def _coordinator(client: Instance, traffic: ConsumerTraffic, commits: NDArray[np.int64], commit_ms: Values) -> None:
    windows, of = client.windows, "coordinator."
    rebalances, took_ms = windows.total(traffic.rebalances), client.rebalance_ms(traffic)
    client.total(of + "rebalance.total", rebalances)
    client.gauge(of + "rebalance.rate.per.hour", rebalances / client.spaced_s * 3600)
    client.gauge(of + "rebalance.latency.avg", took_ms)
    client.gauge(of + "rebalance.latency.max", took_ms)
    client.total(of + "rebalance.latency.total", windows.total(traffic.rebalances_ms))
    client.total(of + "failed.rebalance.total", 0 * rebalances)
    client.gauge(of + "failed.rebalance.rate.per.hour", 0.0)
    client.gauge(of + "last.rebalance.seconds.ago", _ago_s(client, traffic.rebalances > 0))
    client.gauge(of + "assigned.partitions", windows.last(traffic.owns.sum(1)))
    client.gauge(of + "commit.latency.avg", commit_ms)
    client.gauge(of + "commit.latency.max", np.ceil(commit_ms * 2))
    client.total(of + "commit.total", commits)
    client.gauge(of + "commit.rate", commits / windows.lasts_s)
    client.total(of + "heartbeat.total", np.round(np.diff(np.r_[client.start_s, client.times_s]) / 3))
    client.gauge(of + "last.heartbeat.seconds.ago", client.random.integers(0, 3, client.pushes))


def _fetches(client: Instance, traffic: ConsumerTraffic) -> None:
    app, windows, of = client.app, client.windows, "fetch.manager."
    client.gauge(of + "fetch.latency.avg", client.average_of_all_ms)
    client.gauge(of + "fetch.latency.max", np.ceil(client.most_of_all_ms))
    client.total(of + "fetch.total", client.requests.sum(1))
    per_s = client.asked.sum(1) / windows.lasts_s
    client.gauge(of + "fetch.rate", per_s)
    throttle_ms = client.if_any(windows.mean(traffic.throttle_ms))
    client.gauge(of + "fetch.throttle.time.avg", throttle_ms)
    client.gauge(of + "fetch.throttle.time.max", np.ceil(throttle_ms * 1.7))
    used, rate = np.round(windows.total(traffic.used)), windows.mean(traffic.used) / TICK_S
    fetch_bytes = client.if_any(windows.mean(traffic.fetch_bytes))
    topics = _topics(client)
    for topic in ((), *((("topic", each),) for each in topics)):
        client.total(of + "records.consumed.total", used, *topic)
        client.total(of + "bytes.consumed.total", used * app.record_bytes * app.compression, *topic)
        client.gauge(of + "fetch.size.avg", fetch_bytes, *topic)
        client.gauge(of + "records.per.request.avg", client.if_any(rate / np.maximum(per_s, 1e-6)), *topic)
        client.gauge(of + "records.consumed.rate", rate, *topic)
    # A maximum has no value once no fetch has come for a minute; the lag itself keeps its last.
    is_still = np.convolve(traffic.is_frozen, np.ones(6))[:TICKS] >= 6
    is_old = windows.last(traffic.is_frozen) & windows.last(is_still)
    owns, lag = windows.last(traffic.owns), windows.last(traffic.lag)
    has_none = is_old | (owns.sum(1) == 0)
    client.gauge(of + "records.lag.max", np.where(has_none, np.nan, (lag * owns).max(1)))
    for partition in np.flatnonzero(owns.any(0)):
        mine, left = owns[:, partition], lag[:, partition]
        for topic_name in topics:
            at = ("topic", topic_name), ("partition", str(partition))
            client.gauge(of + "records.lag", np.where(mine, left, ABSENT), *at)
            client.gauge(of + "records.lag.max", np.where(mine, np.where(is_old, np.nan, left * 1.02), ABSENT), *at)


def _ago_s(client: Instance, happens: Mask) -> Values:
    """Seconds since something happened last; -1 if it never has."""
    latest = client.windows.last(np.maximum.accumulate(np.where(happens, np.arange(TICKS), -1)))
    return np.where(latest >= 0, (client.windows.end - 1 - latest) * TICK_S, -1)


def _topics(client: Instance) -> list[str]:
    """A topic's name as metrics have it: 3.x writes `_` for `.`, 4.x pushes both."""
    name = client.app.topic
    plain = name.replace(".", "_")
    if client.app.library in (JAVA_37, JAVA_39):
        return [plain]
    return [name] if plain == name else [name, plain]
