"""Pairs of faults that have nothing to do with each other, made at once: none may hide the other, or be its cause."""

from dataclasses import replace
from itertools import chain

from integration.reality.faults import (
    CLOCK,
    CRASHING,
    FAR_AWAY,
    LATE,
    QUOTA,
    SLEEPING,
    SLOW_BROKER,
    Fault,
    Steps,
    on_each,
)
from integration.reality.pace import DEFAULT
from integration.reality.stage import Stage
from support.brokers.kafka_cluster import PATH, ZONE
from support.clients.working_clients import JAVA_3, JAVA_4, LIBRDKAFKA


def slow_path(stage: Stage, library: str, subject: str) -> Steps:
    client_id, _, node = subject.partition("@")
    through_proxy = {"bootstrap.servers": stage.cluster.through(PATH)}
    stage.clients[library].producer(client_id, stage.topic(client_id), per_s=4, size=200, **through_proxy)
    yield
    stage.cluster.delay(0.15, int(node), listener=PATH)
    yield
    stage.cluster.delay(0.0, int(node), listener=PATH)


def deploy_far_away(stage: Stage, library: str, client_id: str) -> Steps:
    """A process that is replaced by one that reaches all brokers later."""
    before = stage.start(library).producer(client_id, stage.topic(client_id), per_s=4, size=200)
    yield
    before.close()
    stage.cluster.delay(0.06, listener=ZONE)
    through_proxy = {"bootstrap.servers": stage.cluster.through(ZONE)}
    stage.start(library).producer(client_id, client_id, per_s=4, size=200, **through_proxy)
    yield


def deploy_of_large_records(stage: Stage, library: str, client_id: str) -> Steps:
    """A process that is replaced by one whose records its topic refuses.

    Each is larger than `batch.size` (16 KiB): Java splits a refused batch of several records, and would send two of
    8 kB again and again.
    """
    topic = stage.topic(client_id, 3, **{"max.message.bytes": "4000"})
    before = stage.start(library).producer(client_id, topic, per_s=4, size=200)
    yield
    before.close()
    stage.start(library).producer(client_id, topic, per_s=4, size=20_000)
    yield


def sparse_requests(stage: Stage, library: str, client_id: str) -> Steps:
    """A client whose connections end after a second without a request, and an application that then sends less."""
    topic, clients = stage.topic(client_id), stage.clients[library]
    clients.producer(client_id, topic, per_s=30, size=200, **{"connections.max.idle.ms": "1000"})
    yield
    clients.send(client_id, 1, 200)
    yield
    clients.send(client_id, 30, 200)


def surge(stage: Stage, library: str, client_id: str) -> Steps:
    clients = stage.clients[library].producer(client_id, stage.topic(client_id), per_s=20, size=1_000)
    yield
    clients.send(client_id, 40, 1_000)
    yield
    clients.send(client_id, 20, 1_000)


(SPARSE,) = on_each(
    *("an application that sends less often than its connections stay open", sparse_requests, JAVA_4),
    verdict="connection-churn",
    kind="client",
    lasts_s=20,
)
(DEPLOY_FAR_AWAY,) = on_each(
    *("a new process, which all brokers answer 60 ms later", deploy_far_away, JAVA_4),
    verdict="deploy-regression",
    kind="client",
    lasts_s=30,
    also=("slow-client",),
)
(DEPLOY_OF_LARGE_RECORDS,) = on_each(
    *("a new process, whose records are too large for their topic", deploy_of_large_records, JAVA_3),
    verdict="deploy-regression",
    kind="client",
    lasts_s=30,
    also=("record-errors",),
)
SURGES = on_each("twice the records", surge, JAVA_4, LIBRDKAFKA, verdict="", kind="", lasts_s=0)
SLOW_PATH = Fault(
    what="a proxy before broker 2 delays its answers to one client by 150 ms",
    steps=slow_path,
    library=LIBRDKAFKA,
    subject="slow-path-librdkafka@2",
    verdict="slow-path",
    kind="path",
    lasts_s=20,
)

PAIRS: list[list[tuple[Fault, Fault]]] = [
    [
        (SLEEPING[0], QUOTA[1]),
        (LATE[1], CLOCK[0]),
        (CRASHING[1], SPARSE),
    ],
    [
        (FAR_AWAY[1], SLOW_BROKER),
        (SURGES[0], SLOW_BROKER),
        (SURGES[1], SLOW_BROKER),
        (QUOTA[0], SLOW_BROKER),
        (SLEEPING[2], SLOW_BROKER),
        (DEPLOY_OF_LARGE_RECORDS, SLOW_BROKER),
        (DEPLOY_FAR_AWAY, SLOW_PATH),
        (QUOTA[0], FAR_AWAY[2]),
    ],
]
"""In rounds, those of the first need no history. All pairs of a round are made at once."""
ROUNDS: list[list[Fault]] = [list(dict.fromkeys(chain.from_iterable(pairs))) for pairs in PAIRS]

PACE = replace(
    DEFAULT,
    history_s=300.0,
    clears_s=60.0,
    round_s=1_500.0,
    late_ms=63_000,
    late_settings={"max.poll.interval.ms": "60000"},
)
"""Nothing is set but what makes a group rebalance often enough within a round, which is the history of the next one."""
