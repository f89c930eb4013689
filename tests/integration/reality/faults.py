"""Faults made outside of Fleetgauge on real clients and brokers, and the verdict that each has to lead to.

A fault is a generator of three steps: it starts its clients, which are healthy until all have a history; then it
begins; then it ends.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from integration.reality.pace import QUICK
from integration.reality.stage import TOPIC, Stage
from support.brokers.kafka_cluster import FAR
from support.clients.working_clients import JAVA_3, JAVA_4, LIBRDKAFKA, WorkingClients, shifted_clock

Steps = Iterator[None]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row of the table.

    Attributes:
        verdict, kind, subject: of the row of `verdicts` that has to be found; no verdict for what is no fault, and of
            which none must be given.
        library: of the clients that it is made on; empty for all.
        lasts_s: how long it has to be so by examples/quick_rules.toml until there is a verdict [s]; see `Pace.times`.
        what: what is done, for the table.
        steps: see above; told the library, and the subject: a client id, a group, or of an instance its client id.
        also: verdicts that are true of the same clients.
    """

    verdict: str
    kind: str
    subject: str
    library: str
    lasts_s: float
    what: str
    steps: Callable[[Stage, str, str], Steps]
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the fault among all."""
        return f"{self.steps.__name__}-{self.library}".strip("-").replace("_", "-").replace(" ", "-")


def slow_broker(stage: Stage, library: str, subject: str) -> Steps:
    yield
    stage.cluster.delay(0.4, int(subject))
    yield
    stage.cluster.delay(0.0, int(subject))


def far_client(stage: Stage, library: str, client_id: str) -> Steps:
    through_proxy = {"bootstrap.servers": stage.cluster.through(FAR)}
    stage.clients[library].producer(client_id, TOPIC, per_s=4, size=200, **through_proxy)
    yield
    stage.cluster.delay(0.15, listener=FAR)
    yield
    stage.cluster.delay(0.0, listener=FAR)


def sleeping_consumer(stage: Stage, library: str, client_id: str) -> Steps:
    clients = stage.clients[library].consumer(client_id, TOPIC)
    yield
    clients.work(client_id, 700)
    yield
    clients.work(client_id, 0)


def late_for_poll(stage: Stage, library: str, client_id: str) -> Steps:
    """Two members, one of which comes back to poll() after `max.poll.interval.ms`."""
    clients, settings = stage.clients[library], stage.pace.late_settings
    for member in (client_id, f"{client_id}-other"):
        clients.consumer(member, TOPIC, client_id, 0, **settings)
    yield
    clients.work(client_id, stage.pace.late_ms)
    yield
    clients.work(client_id, 0)


def quota(stage: Stage, library: str, client_id: str) -> Steps:
    """A producer whose application waits: with room for more, requests fill its connections, and no push goes out."""
    room = {"batch.size": "16384", "linger.ms": "5"}
    room |= {"max.in.flight": "1"} if library == LIBRDKAFKA else {"buffer.memory": "98304"}
    stage.clients[library].producer(client_id, stage.topic(client_id), per_s=30, size=2000, **room)
    yield
    stage.cluster.limit(client_id, 12_000)
    yield
    stage.cluster.limit(client_id, None)


def tiny_records(stage: Stage, library: str, client_id: str) -> Steps:
    clients = stage.clients[library]
    clients.producer(client_id, stage.topic(client_id), per_s=4, size=200, **{"linger.ms": "0"})
    yield
    clients.send(client_id, 120, 20)
    yield
    clients.send(client_id, 5, 200)


def more_members_than_partitions(stage: Stage, library: str, client_id: str) -> Steps:
    clients = stage.clients[library]
    topic = stage.topic(client_id, 2)
    for _ in range(2):
        clients.consumer(client_id, topic)
    yield
    clients.consumer(client_id, topic)
    yield


def wrong_clock(stage: Stage, library: str, client_id: str) -> Steps:
    yield
    clients = stage.start(library, environment=shifted_clock(300)).producer(client_id, TOPIC)
    yield
    clients.close()


def crashing(stage: Stage, library: str, client_id: str) -> Steps:
    """A process that SIGKILL ends every few seconds, and that is started again at once."""
    ended = threading.Event()

    def live() -> None:
        for life_s in cycle(stage.pace.lives_s):
            if ended.is_set():
                return
            clients = stage.start(library).producer(client_id, TOPIC)
            ended.wait(life_s)
            clients.kill()

    lives = threading.Thread(target=live)
    yield
    lives.start()
    yield
    ended.set()
    lives.join()


def stopped(stage: Stage, library: str, client_id: str) -> Steps:
    clients: WorkingClients = stage.start(library).consumer(client_id, TOPIC)
    yield
    clients.signal(signal.SIGSTOP)
    yield
    clients.signal(signal.SIGCONT)


def on_each(what: str, steps: Callable[[Stage, str, str], Steps], *libraries: str, **expected: Any) -> list[Fault]:
    return [
        Fault(
            what=what,
            steps=steps,
            library=library,
            subject=f"{steps.__name__}-{library}".replace("_", "-").replace(" ", "-"),
            **expected,
        )
        for library in libraries
    ]


SLEEPING = on_each(
    *("a consumer's application takes 700 ms after each poll", sleeping_consumer, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="slow-processing",
    kind="client",
    lasts_s=20,
)
QUOTA = on_each(
    *("a producer quota of 12 kB/s a broker for one that sends 20 kB/s to each", quota, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="throttled",
    kind="client",
    lasts_s=20,
)
TINY = on_each(
    *("`linger.ms=0` and 120 records of 20 B a second", tiny_records, JAVA_3, JAVA_4),
    verdict="small-batches",
    kind="client",
    lasts_s=20,
)
CLOCK = on_each(
    *("a process whose wall clock is 5 minutes ahead", wrong_clock, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="clock-skew",
    kind="instance",
    lasts_s=10,
)
LATE = on_each(
    *("one of two members returns to `poll()` 3 s too late", late_for_poll, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="rebalance-storm",
    kind="group",
    lasts_s=30,
    also=("slow-processing",),
)
IDLE = on_each(
    *("a third member joins a group that reads two partitions", more_members_than_partitions),
    *(JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="idle-consumer",
    kind="client",
    lasts_s=80,
)
FAR_AWAY = on_each(
    *("a proxy before one client delays all answers by 150 ms", far_client, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="slow-client",
    kind="client",
    lasts_s=20,
)
CRASHING = on_each(
    *("SIGKILL after 10 to 19 s, and a new start at once", crashing, JAVA_4, LIBRDKAFKA),
    verdict="crash-loop",
    kind="client",
    lasts_s=sum(QUICK.lives_s),
)
STOPPED = on_each(
    *("SIGSTOP to a consumer", stopped, JAVA_3, JAVA_4, LIBRDKAFKA),
    verdict="silent",
    kind="instance",
    lasts_s=8,
)
SLOW_BROKER = Fault(
    what="a proxy before broker 3 delays its answers by 400 ms",
    steps=slow_broker,
    library="",
    subject="3",
    verdict="slow-node",
    kind="node",
    lasts_s=20,
)

ALL = [[*SLEEPING, *QUOTA, *TINY, *CLOCK], [*LATE, *IDLE], [*FAR_AWAY, *CRASHING, *STOPPED], [SLOW_BROKER]]
"""In rounds of faults that do not disturb each other."""
FOUR = [[SLEEPING[2], CLOCK[0], FAR_AWAY[1]], [SLOW_BROKER]]
"""Of an application, a machine and a network; then of a broker.

Not at once: see the limits of slow-path in docs/analyse/verdicts.md.
"""
BY_DEFAULT = [TINY[1], QUOTA[0], CLOCK[0], STOPPED[2]]
"""Those that need no history and no client that has run for long: they are found within a quarter of an hour. A quota
may silence the telemetry of librdkafka and Java 4, not that of Java 3.9, which has a connection of its own.
"""
