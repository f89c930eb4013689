"""Facts about pushes of real clients on which rules of docs/analyse/verdicts.md rest, and that surprise a reader.

If one of these fails with a new version of a client, the rules that it is named for need another look.
"""

import statistics
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.brokers.kafka_broker import KafkaBroker
from support.clients.working_clients import JAVA_3, JAVA_4, LIBRDKAFKA, WorkingClients
from support.gateway.gateway import GatewayBefore, make_topic
from support.proxies.delaying_proxy import DelayingProxy
from support.waiting import PATIENCE_S, pause, ticking, wait_for

from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import records_after

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PREFIX = "org.apache.kafka.consumer."

PER_S = 50
BURST_MS = 800
WORK_S = 0.0015
POLL_S = 0.2
RECORDS = 600

COMMITS = "coordinator.commit.latency.avg"
SENT = "org.apache.kafka.producer.record.send.total"
FETCHES = "fetch.manager.fetch.latency.avg"
DELAY_S = 0.15

Push = dict[str, float]
"""Sums of the points of each metric of a consumer, by its name."""


@pytest.fixture
def gateway(broker: KafkaBroker, tmp_path: Path) -> Iterator[GatewayBefore]:
    with GatewayBefore(tmp_path / "gateway", broker.port) as started:
        yield started


@pytest.fixture
def start(gateway: GatewayBefore, tmp_path: Path) -> Iterator[Callable[[str], WorkingClients]]:
    """Starts a process of a library's clients, which is killed at the end."""
    made: list[WorkingClients] = []

    def started(library: str) -> WorkingClients:
        made.append(WorkingClients(library, gateway.bootstrap, tmp_path / f"clients-{len(made)}.log"))
        return made[-1]

    yield started
    for each in made:
        each.kill()


@pytest.fixture
def topic(broker: KafkaBroker, gateway: GatewayBefore) -> str:
    name = f"facts-{uuid.uuid4().hex[:8]}"
    make_topic(broker, gateway.bootstrap, name)
    return name


def pushes(gateway: GatewayBefore, client_id: str, since_ms: int = 0) -> list[Push]:
    """What a client pushed from then on (wall time) [ms], in order."""
    found = []
    for _, record in records_after(DataDirectory(gateway.data).push_log):
        if record.client_id == client_id and record.received_at >= since_ms * 1_000:
            sums: defaultdict[str, float] = defaultdict(float)
            for resource in MetricsData.FromString(record.metrics).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    points = metric.sum.data_points or metric.gauge.data_points
                    sums[metric.name.removeprefix(PREFIX)] += sum(point.as_double or point.as_int for point in points)
            found.append(dict(sums))
    return found


class Application(NamedTuple):
    """What an application that polls message by message did for a while.

    Attributes:
        begin_ms: when the first record that it handled was sent [ms].
        idle: share of the time for which it waited in polls that returned nothing; in the others it may have waited,
            too.
    """

    begin_ms: int
    idle: float


def handle(consumer: Consumer, records: int) -> Application:
    """Polls one message after the other, each of which takes `WORK_S`."""
    sent_ms: list[int] = []
    empty = 0
    for _ in ticking(PATIENCE_S, every_s=0.0):
        message = consumer.poll(POLL_S)
        if message is None:
            empty += bool(sent_ms)
        elif message.error() is None:
            pause(WORK_S, "the application's work on a record")
            sent_ms.append(message.timestamp()[1])
        if len(sent_ms) == records:
            return Application(begin_ms=sent_ms[0], idle=empty * POLL_S * 1_000 / (sent_ms[-1] - sent_ms[0]))
    raise AssertionError(f"{len(sent_ms)} of {records} records came")


def test_librdkafkas_poll_idle_ratio_is_low_of_an_idle_application_that_polls_message_by_message(
    gateway: GatewayBefore, topic: str, start: Callable[[str], WorkingClients]
) -> None:
    """slow-processing: the ratio is a mean over polls, not over time, and a poll that finds a record does not wait.

    40 records arrive at once, every 800 ms, and take their application 1.5 ms each. It waits for 740 ms, and is at work
    for 60: a thirteenth of the time. Four polls of 44 were idle, so that the mean is below 0.1.
    """
    start(LIBRDKAFKA).producer("bursts", topic, PER_S, size=200, **{"linger.ms": str(BURST_MS)})
    settings = {"bootstrap.servers": gateway.bootstrap, "client.id": topic, "group.id": topic, "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "latest"})
    consumer.subscribe([topic])
    # A busy machine makes the work longer.
    found = wait_for(
        lambda: handle(consumer, RECORDS),
        "an application that waits half of its time",
        until=lambda each: each.idle > 0.5,
    )
    consumer.close()

    ratios = [push["poll.idle.ratio.avg"] for push in pushes(gateway, topic, found.begin_ms)[1:-1]]
    assert len(ratios) > 3
    assert statistics.median(ratios) < 0.2, (ratios, found)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_java_consumer_whose_partitions_are_paused_commits_and_shows_the_lag_that_it_had(
    gateway: GatewayBefore, topic: str, start: Callable[[str], WorkingClients], protocol: str
) -> None:
    """stalled: neither commits nor a growing lag tell a paused consumer from one at work; what it reads, does.

    It still polls, and commits by itself what it has read. Lag is what the last fetch said, and no fetch comes: of a
    topic that is written to, it stands still.
    """
    clients = start(JAVA_4).producer("writer", topic, PER_S)
    settings = {"group.protocol": protocol, "auto.commit.interval.ms": "500", "fetch.max.wait.ms": "100"}
    clients.consumer(topic, topic, work_ms=50, **settings)
    reads = _wait(gateway, topic, lambda found: _reads(found[-3:]))
    clients.pause(topic)
    written = len(pushes(gateway, "writer"))
    still = _wait(gateway, topic, lambda found: len(found) > len(reads) + 4 and all(map(_is_still, found[-4:])))[-4:]
    assert sum(push["coordinator.commit.total"] for push in still) >= 2, still
    assert len({push["fetch.manager.records.lag"] for push in still}) == 1, still
    _wait(gateway, "writer", lambda found: sum(push[SENT] for push in found[written:]) > 100)


@pytest.mark.parametrize("library", [JAVA_3, JAVA_4, LIBRDKAFKA])
def test_commits_of_a_consumer_that_waits_for_data_take_as_long_as_its_network(
    broker: KafkaBroker, topic: str, tmp_path: Path, library: str
) -> None:
    """slow-client: fetches wait for the next record, here for up to 250 ms, commits for nothing."""
    with DelayingProxy(broker.port) as proxy, GatewayBefore(tmp_path / "late", proxy.port) as late:
        clients = WorkingClients(library, late.bootstrap, tmp_path / "late.log")
        try:
            clients.producer("writer", topic, per_s=4, size=200, **{"linger.ms": "0"})
            clients.consumer(topic, topic, work_ms=0, **{"auto.commit.interval.ms": "500"})
            usual = _latencies(_wait(late, topic, lambda found: _commits(found[-4:], 4))[-4:])
            proxy.delay_s = DELAY_S
            count = len(pushes(late, topic))
            slow = _latencies(_wait(late, topic, lambda found: _commits(found[count + 2 :], 4))[-4:])
        finally:
            clients.kill()
    (commit, fetch), (late_commit, late_fetch) = usual, slow
    assert late_commit - commit > DELAY_S * 500, (usual, slow)
    assert fetch > 50.0, (usual, slow)
    assert late_commit / commit > 1.5 * late_fetch / fetch, (usual, slow)


def _commits(found: list[Push], count: int) -> bool:
    return len([push for push in found if push.get(COMMITS, 0.0) > 0]) >= count


def _latencies(found: list[Push]) -> tuple[float, float]:
    """Of commits and of fetches [ms]."""
    of_commits, of_fetches = ([push[name] for push in found if name in push] for name in (COMMITS, FETCHES))
    return statistics.median(of_commits), statistics.median(of_fetches)


def _reads(found: list[Push]) -> bool:
    return len(found) == 3 and all(map(_reads_one, found))


def _reads_one(push: Push) -> bool:
    return push.get("fetch.manager.records.consumed.total", 0.0) > 0


def _is_still(push: Push) -> bool:
    return not _reads_one(push) and push["fetch.manager.fetch.rate"] == 0.0


def _wait(gateway: GatewayBefore, client_id: str, condition: Callable[[list[Push]], bool]) -> list[Push]:
    """All pushes of a client, once a condition is true of them."""
    return wait_for(lambda: pushes(gateway, client_id), f"pushes of {client_id}", until=condition)
