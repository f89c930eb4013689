"""A fleet before anything happens to it: brokers in zones, topics, and applications with their clients.

An application has one client id and one or more slots (replicas). A slot runs one client process after another; each
process is a client instance. Everything is drawn from a seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np

Library = Literal["java", "librdkafka", "franz-go"]
Role = Literal["producer", "consumer"]

VERSIONS: Final[dict[Library, tuple[tuple[str, str], ...]]] = {
    "java": (("apache-kafka-java", "3.9.1"), ("apache-kafka-java", "4.1.1"), ("apache-kafka-java", "4.3.1")),
    "librdkafka": (("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"), ("librdkafka", "2.16.0")),
    "franz-go": (("kgo", "v1.22.2"),),
}
"""Software name and version of the client processes, by library."""

ZONES: Final = 3

EXTRAS: Final = ("bulk", "wide group", "ticks")
"""Applications out of the ordinary, to which some faults happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Partition `p` is led by broker `leaders[p]` (an index) and gets `weights[p]` of the topic's records."""

    name: str
    leaders: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application: one client id, one configuration, `slots` replicas.

    Attributes:
        topic: index of the topic it writes or reads.
        group: group id of a consumer.
        rtt_ms: round trip to the brokers of each zone [ms].
        rate: records a second of each slot at the daily mean (producers).
        record_bytes: mean size of a record, uncompressed.
        linger_ms, batch_bytes: how long and up to which size a producer collects a batch.
        compression: compressed to uncompressed size; 1 without compression.
        processing_ms: time that the application takes for a record (consumers).
        fetch_min_bytes: `fetch.min.bytes` of a consumer.
        runs_s: a job that runs for so long at the start of each hour; None runs always.
        spare: the last so many slots run nothing until the application is scaled out.
        push_interval_s: push interval of its subscription [s].
    """

    client_id: str
    principal: str
    library: Library
    software: tuple[str, str]
    role: Role
    topic: int
    slots: int
    rtt_ms: tuple[float, ...]
    group: str = ""
    rate: float = 0.0
    record_bytes: float = 400.0
    linger_ms: float = 20.0
    batch_bytes: float = 65536.0
    compression: float = 0.5
    processing_ms: float = 1.0
    fetch_min_bytes: float = 2000.0
    runs_s: float | None = None
    spare: int = 0
    push_interval_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Brokers, topics and applications of one cluster.

    Attributes:
        broker_ids: node ids; zone of the i-th is `i % ZONES`.
        append_ms: time that a broker takes for a request when idle [ms].
        start: wall time at which the model begins [s since the epoch].
        hours: how long it runs.
        samples_offsets: whether the groups' offsets are sampled, too.
    """

    seed: int
    cluster_id: str
    broker_ids: tuple[int, ...]
    append_ms: tuple[float, ...]
    topics: tuple[Topic, ...]
    apps: tuple[App, ...]
    start: float
    hours: float
    samples_offsets: bool
    slot_app: tuple[int, ...] = field(default=())

    def app_of(self, slot: int) -> App:
        """The application of a slot."""
        return self.apps[self.slot_app[slot]]

    def slots_of(self, client_id: str) -> list[int]:
        """The slots of an application."""
        return [slot for slot, app in enumerate(self.slot_app) if self.apps[app].client_id == client_id]


def make_fleet(
    seed: int,
    clients: int,
    brokers: int,
    hours: float,
    push_intervals_s: Sequence[float] = (60.0,),
    extras: Sequence[str] = EXTRAS,
) -> Fleet:
    """Draws a fleet of about `clients` slots on `brokers` brokers.

    Every topic has one or two producing applications and one or two groups, of libraries at random; consumers can
    take twice what is produced on a usual day. A tenth of the applications is in a far region.
    """
    random = np.random.default_rng(seed)
    build = _Builder(random, brokers, push_intervals_s)
    for extra in extras:
        {"bulk": build.add_bulk, "wide group": build.add_wide_group, "ticks": build.add_ticks}[extra]()
    while build.slots < clients:
        build.add_topic(allows_job=build.slots > clients / 2)
    slot_app = tuple(number for number, app in enumerate(build.apps) for _ in range(app.slots))
    return Fleet(
        seed=seed,
        cluster_id=f"third-{seed:04d}-{'x' * 11}",
        broker_ids=tuple(range(1, brokers + 1)),
        append_ms=tuple(random.uniform(1.2, 2.5, brokers)),
        topics=tuple(build.topics),
        apps=tuple(build.apps),
        start=1_772_400_000.0 + 3600 * int(random.integers(24)),
        hours=hours,
        samples_offsets=bool(seed % 2),
        slot_app=slot_app,
    )


class _Builder:
    """Topics and applications that were drawn so far."""

    def __init__(self, random: np.random.Generator, brokers: int, push_intervals_s: Sequence[float]) -> None:
        self.random, self.brokers, self.intervals = random, brokers, push_intervals_s
        self.topics: list[Topic] = []
        self.apps: list[App] = []
        self.names = iter(_names(random))

    @property
    def slots(self) -> int:
        """Slots of all applications."""
        return sum(app.slots for app in self.apps)

    def add_topic(self, *, allows_job: bool) -> None:
        """A topic with one or two producing applications and one or two groups."""
        random = self.random
        word = next(self.names)
        topic = self._topic(word, int(random.choice([6, 8, 12])))
        record_bytes = float(random.uniform(150, 1500))
        total = 0.0
        for number in range(int(random.integers(1, 3))):
            slots = int(random.choice([1, 2, 3]))
            rate = float(np.exp(random.uniform(np.log(15), np.log(250))))
            total += rate * slots
            # Who sends much collects for longer: no healthy producer sends many small requests.
            linger = 300.0 if rate > 25 else float(random.choice([5.0, 20.0, 100.0]))
            app = self._app(f"{word}-{('api', 'feed')[number]}", "producer", topic, slots)
            app = replace(app, rate=rate, record_bytes=record_bytes, linger_ms=linger)
            self.apps.append(replace(app, runs_s=240.0) if allows_job and random.random() < 0.1 else app)
        for number in range(int(random.integers(1, 3))):
            slots = int(random.choice([1, 2, 4, 5]))
            self._group(f"{word}-{('indexer', 'audit')[number]}", topic, slots, total, record_bytes)

    def add_bulk(self) -> None:
        """A Java producer of large records and its consumers: over 1 MB/s before compression."""
        topic = self._topic("archive", 6)
        app = self._app("archive-bulk", "producer", topic, 1, library="java")
        self.apps.append(replace(app, rate=220.0, record_bytes=12_000.0, linger_ms=50.0, compression=0.4))
        self._group("archive-writer", topic, 2, 220.0, 12_000.0)

    def add_wide_group(self) -> None:
        """A group of five members on six partitions, which can be scaled out to seven."""
        topic = self._topic("visits", 6)
        app = self._app("visits-web", "producer", topic, 2)
        self.apps.append(replace(app, rate=60.0, record_bytes=500.0, linger_ms=300.0))
        self._group("visits-scorer", topic, 5, 120.0, 500.0)
        library: Library = "java" if self.random.random() < 0.6 else "librdkafka"
        wide = replace(self.apps[-1], slots=7, spare=2, library=library, software=VERSIONS[library][-1])
        self.apps[-1] = wide

    def add_ticks(self) -> None:
        """Small records that franz-go sends at once, and a Java consumer that waits for 4,000 bytes of them."""
        topic = self._topic("ticks", 6)
        app = self._app("ticks-source", "producer", topic, 3, library="franz-go")
        self.apps.append(replace(app, rate=60.0, record_bytes=130.0, linger_ms=1.0))
        self._group("ticks-board", topic, 1, 180.0, 130.0)
        software = VERSIONS["java"][int(self.random.integers(3))]
        self.apps[-1] = replace(self.apps[-1], library="java", software=software, fetch_min_bytes=4000.0)

    def _topic(self, word: str, partitions: int) -> int:
        first = int(self.random.integers(self.brokers))
        leaders = tuple((first + number) % self.brokers for number in range(partitions))
        weights = tuple(self.random.dirichlet(np.full(partitions, 60.0)))
        self.topics.append(Topic(name=f"{word}.events", leaders=leaders, weights=weights))
        return len(self.topics) - 1

    def _group(self, name: str, topic: int, slots: int, rate: float, record_bytes: float) -> None:
        use = float(self.random.uniform(0.15, 0.3))
        app = self._app(name, "consumer", topic, slots)
        processing_ms = use * 1000 * slots / rate
        self.apps.append(replace(app, group=f"{name}-group", record_bytes=record_bytes, processing_ms=processing_ms))

    def _app(self, name: str, role: Role, topic: int, slots: int, *, library: Library | None = None) -> App:
        random = self.random
        chosen: Library = library or random.choice(["java", "java", "java", "librdkafka", "librdkafka", "franz-go"])
        versions = VERSIONS[chosen]
        zone = int(random.integers(ZONES))
        far = float(random.uniform(60, 140)) if random.random() < 0.1 else 0.0
        rtt_ms = tuple(far + (0.4 if other == zone else float(random.uniform(1.0, 1.8))) for other in range(ZONES))
        return App(
            client_id=name, principal=f"User:{name.split('-')[0]}", library=chosen,
            software=versions[int(random.integers(len(versions)))], role=role, topic=topic, slots=slots,
            rtt_ms=rtt_ms, compression=float(random.uniform(0.35, 0.7)),
            push_interval_s=float(random.choice(list(self.intervals))),
        )  # fmt: skip


def _names(random: np.random.Generator) -> list[str]:
    first = ["order", "cart", "stock", "price", "user", "mail", "click", "ledger", "fraud", "route", "ship", "tax"]
    second = ["", "eu", "us", "core", "live", "bulk", "v2", "web", "pos", "hub", "lab", "one"]
    names = [a + b for a in first for b in second]
    random.shuffle(names)
    return names
