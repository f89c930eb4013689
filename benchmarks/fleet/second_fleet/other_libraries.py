"""What librdkafka and franz-go push: far less than Java's clients do."""

import numpy as np

from benchmarks.fleet.second_fleet.consumers import ConsumerTraffic
from benchmarks.fleet.second_fleet.instance import Instance
from benchmarks.fleet.second_fleet.producers import ProducerTraffic


def add_librdkafka_points(client: Instance) -> None:
    """Adds all metrics of an instance of librdkafka."""
    if client.app.role == "producer":
        _librdkafka_producer(client, client.slot.traffic)
    else:
        _librdkafka_consumer(client, client.slot.traffic)


def add_go_points(client: Instance) -> None:
    """Adds all metrics of an instance of franz-go."""
    if client.app.role == "producer":
        _go_producer(client, client.slot.traffic)
    else:
        _go_consumer(client, client.slot.traffic)


def _librdkafka_client(client: Instance) -> None:
    client.gauge("connection.creation.rate", client.connects / client.spaced_s)
    client.total("connection.creation.total", client.connects, is_int=True)
    for name, values, is_int in (("avg", np.round(client.average_ms, 3), False), ("max", client.most_ms, True)):
        for node in range(client.nodes):
            shown = np.nan_to_num(np.ceil(values[:, node]) if is_int else values[:, node])
            client.gauge(f"node.request.latency.{name}", shown, ("node.id", node + 1), is_int=is_int)


def _go_client(client: Instance) -> None:
    some = np.where(client.connects > 0, client.connects, np.nan)
    client.gauge("connection.creation.rate", some / client.app.interval_s)
    client.total("connection.creation.total", some, is_int=True)
    for node in range(client.nodes):
        attribute = ("node_id", node + 1)
        client.gauge("node.request.latency.avg", client.average_ms[:, node], attribute)
        client.gauge("node.request.latency.max", np.ceil(client.most_ms[:, node]), attribute, is_int=True)


def _librdkafka_producer(client: Instance, traffic: ProducerTraffic) -> None:
    throttle_ms, most_throttle_ms, queued_ms = map(np.nan_to_num, client.producer_times(traffic))
    _librdkafka_client(client)
    client.gauge("produce.throttle.time.avg", np.round(throttle_ms, 3))
    client.gauge("produce.throttle.time.max", np.ceil(most_throttle_ms), is_int=True)
    client.gauge("record.queue.time.avg", np.round(queued_ms, 3))
    client.gauge("record.queue.time.max", np.ceil(queued_ms * 2.5), is_int=True)
    client.gauge("request.latency.avg", 0.0)
    client.gauge("request.latency.max", 0.0, is_int=True)


def _go_producer(client: Instance, traffic: ProducerTraffic) -> None:
    throttle_ms, most_ms, _ = client.producer_times(traffic)
    _go_client(client)
    client.gauge("produce.throttle.time.avg", np.where(np.nan_to_num(throttle_ms) > 0, throttle_ms, np.nan))
    client.gauge("produce.throttle.time.max", np.where(most_ms > 0, np.ceil(most_ms), np.nan), is_int=True)


def _librdkafka_consumer(client: Instance, traffic: ConsumerTraffic) -> None:
    windows, number = client.windows, np.nan_to_num
    _, commit_ms = client.commits(traffic)
    took_ms = number(client.rebalance_ms(traffic))
    client.gauge("connection.creation.rate", client.connects / client.spaced_s)
    client.total("connection.creation.total", client.connects, is_int=True)
    for name, values, is_int in (("avg", np.round(client.average_ms, 3), False), ("max", client.most_ms, True)):
        shown = number(np.ceil(values) if is_int else values)
        for node in range(client.nodes):
            client.gauge(f"node.request.latency.{name}", shown[:, node], ("node.id", node + 1), is_int=is_int)
        coordinator_ms = number(np.ceil(commit_ms) if is_int else np.round(commit_ms, 3))
        for share in (0, 1):
            shown_ms = coordinator_ms * share
            client.gauge(f"node.request.latency.{name}", shown_ms, ("node.id", -1), is_int=is_int)
    client.gauge("coordinator.assigned.partitions", windows.last(traffic.owns.sum(1)), is_int=True)
    client.gauge("coordinator.rebalance.latency.avg", took_ms)
    client.gauge("coordinator.rebalance.latency.max", np.ceil(took_ms), is_int=True)
    took_all_ms = np.round(windows.total(traffic.rebalances_ms))
    client.total("coordinator.rebalance.latency.total", took_all_ms, is_int=True)
    client.gauge("fetch.manager.fetch.latency.avg", number(client.average_of_all_ms))
    client.gauge("fetch.manager.fetch.latency.max", number(np.ceil(client.most_of_all_ms)), is_int=True)
    client.gauge("poll.idle.ratio.avg", number(windows.mean(traffic.idle)))
    client.gauge("coordinator.commit.latency.avg", number(commit_ms))
    client.gauge("coordinator.commit.latency.max", number(np.ceil(commit_ms * 2)), is_int=True)


def _go_consumer(client: Instance, traffic: ConsumerTraffic) -> None:
    _, commit_ms = client.commits(traffic)
    _go_client(client)
    client.gauge("coordinator.commit.latency.avg", commit_ms)
    client.gauge("coordinator.commit.latency.max", np.ceil(commit_ms * 2), is_int=True)
