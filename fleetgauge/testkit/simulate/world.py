"""World of a simulated fleet: clusters, brokers, applications and the slots that their instances run in.

A slot is a place for one client instance at a time; a restart puts another instance into it. Everything is drawn from
the seed, before time begins; see `testkit.simulate.plan` for what happens to it.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Role = Literal["producer", "consumer", "admin"]

FOREVER: Final = float("inf")
MAX_POLL_RECORDS: Final = 500
"""Kafka's default of `max.poll.records`, which librdkafka's batches come near."""

NEAR_RTT_MS: Final = 0.6
CROSS_RTT_MS: Final = 1.9
FAR_RTT_MS: Final = 84.0
FAR: Final = "us-east"
_REGIONS: Final = ("eu-a", "eu-b")
_SEVERAL_CLUSTERS: Final = 60
"""From so many clients on there are two clusters."""
_USUAL: Final = (6, 4)
"""Their brokers."""
_HAS_A_FAR_ONE: Final = 4
"""Brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A client library in one version.

    Attributes:
        library: `java`, `librdkafka` or `franz-go`.
        name, version: as ApiVersions has them.
        core: the library's own version where `version` is a binding's.
    """

    library: str
    name: str
    version: str
    core: str

    @property
    def sends_consumer_latency(self) -> bool:
        """Java consumers before 4.0 never record the latency of a broker: NaN for good."""
        return not self.version.startswith("3.")


def _java(version: str) -> Software:
    return Software(library="java", name="apache-kafka-java", version=version, core=version)


def _librdkafka(name: str, version: str, core: str) -> Software:
    return Software(library="librdkafka", name=name, version=version, core=core)


SOFTWARE: Final = {
    "java": (_java("4.4.0"), _java("4.3.1"), _java("3.7.2")),
    "librdkafka": (
        _librdkafka("confluent-kafka-python", "2.16.1-rdkafka-2.16.0", "2.16.0"),
        _librdkafka("librdkafka", "2.16.0", "2.16.0"),
    ),
    "franz-go": (Software(library="franz-go", name="kgo", version="v1.22.2", core="v1.22.2"),),
}
"""Versions in a fleet where nothing is wrong."""

FAULTY: Final = {
    "java": (_java("4.0.0"),),
    "librdkafka": (_librdkafka("confluent-kafka-python", "2.8.0-rdkafka-2.8.0", "2.8.0"),),
    "franz-go": (),
}
"""Versions with a fault that concerns telemetry: see the client guard's table, docs/operate/metrics-and-guard.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Brokers of one cluster: node ids, their regions, mean time to serve a request [ms], and usual utilisation."""

    cluster_id: str
    node_ids: tuple[int, ...]
    regions: tuple[str, ...]
    service_ms: Numbers
    utilisation: Numbers


@dataclass(slots=True, kw_only=True)
class App:
    """An application: instances of one `client.id`, which share principal, library, topic and group.

    Attributes:
        cluster: index in `World.clusters`.
        slots: those of its instances, spares of a scale-out included.
        partitions: of its topic, as a range in the fleet's numbering of consumed partitions; empty for a producer.
        rate: records a second, of a producer's instance or into a consumer's partition, at mean load.
        record_bytes: of a record, uncompressed.
        compression: compressed size relative to uncompressed; 1 without compression.
        linger_s: of a producer.
        batch_records: records that arrive together in a consumer's partition, as a producer batched them.
        cost_s: processing time of a record [s].
        interval_s: push interval [s].
        spare: slots that are empty until a scale-out.
    """

    name: str
    principal: str
    cluster: int
    region: str
    role: Role
    software: Software
    slots: range
    topic: str
    partitions: range = field(default_factory=lambda: range(0))
    rate: float = 0.0
    record_bytes: float = 0.0
    compression: float = 1.0
    linger_s: float = 0.0
    batch_records: float = 1.0
    cost_s: float = 0.0
    interval_s: float = 60.0
    spare: int = 0
    is_batch: bool = False

    @property
    def group_id(self) -> str | None:
        """The consumer group; None for others."""
        return f"{self.name}-group" if self.role == "consumer" else None

    def used_nodes(self, nodes: int) -> range:
        """Places of the nodes of its cluster of so many that it sends requests to: consumers, to leaders alone."""
        return range(min(nodes, len(self.partitions)) if self.role == "consumer" else nodes)

    def leader_of(self, partition: int, nodes: int) -> int:
        """The place of the node that leads one of its partitions, counted from 0."""
        return partition % nodes

    @property
    def most_partitions(self) -> int:
        """Most partitions of a member, while no spare is at work."""
        return -(-len(self.partitions) // self.size)

    @property
    def size(self) -> int:
        """Instances at work while nothing is scaled."""
        return len(self.slots) - self.spare


@dataclass(slots=True, kw_only=True)
class World:
    """A fleet at rest.

    Attributes:
        of_slot: the application of each slot.
        rtt_ms: network time between each slot and each node of its cluster [ms]; NaN for a node that is not there.
        nodes: the most nodes that a cluster has.
    """

    clusters: tuple[Cluster, ...]
    apps: tuple[App, ...]
    of_slot: tuple[App, ...]
    rtt_ms: Numbers
    nodes: int


_CORE: Final[tuple[tuple[str, Role, str, int], ...]] = (
    ("billing", "consumer", "java", 5),
    ("orders", "producer", "java", 4),
    ("checkout", "producer", "librdkafka", 4),
    ("shipping", "consumer", "librdkafka", 4),
    ("clickstream", "producer", "franz-go", 3),
    ("search-indexer", "consumer", "franz-go", 3),
    ("nightly-export", "producer", "librdkafka", 1),
    ("fraud", "consumer", "java", 6),
    ("payments", "producer", "java", 3),
    ("console", "admin", "java", 1),
    ("reconcile", "consumer", "java", 1),
)
"""The applications of every fleet, the first of them first: name, role, library, instances."""
_FULL: Final = "fraud"
"""Has as many instances as partitions, and spares beyond them."""
_BATCH: Final = ("nightly-export", "reconcile")
_WORDS: Final = (
    "invoices",
    "refunds",
    "stock",
    "pricing",
    "catalogue",
    "ratings",
    "carts",
    "baskets",
    "sessions",
    "audit",
    "ledger",
    "mailer",
    "alerts",
    "geo",
    "maps",
    "fleet",
    "routing",
    "tickets",
    "loyalty",
    "vouchers",
    "returns",
    "tax",
    "settlement",
    "risk",
    "scoring",
    "features",
    "embeddings",
    "crawler",
    "feeds",
    "digest",
    "exports",
    "imports",
    "metering",
    "usage",
    "quotas",
    "limits",
    "devices",
    "sensors",
    "telemetry",
    "gateway",
    "sync",
    "backup",
    "archive",
    "replay",
)
_TEAMS: Final = ("payments", "logistics", "search", "analytics", "platform", "mobile")
_SIZES: Final = (1, 2, 2, 3, 4, 5, 6, 8, 8, 10, 12, 16, 24)


def make_world(clients: int, random: np.random.Generator, brokers: int | None = None) -> World:
    """Draws a fleet of so many client instances at once (spares of scale-outs beside), of one cluster or as usual."""
    clusters = _clusters((brokers,) if brokers else _USUAL if clients >= _SEVERAL_CLUSTERS else (5,), random)
    apps: list[App] = []
    slots = partitions = at_work = 0
    for name, role, library, size in _applications(clients, random):
        app = _application(name, role, library, size, clusters, random)
        spare = _spares(app, size, random)
        is_full = name == _FULL or random.random() < 0.4
        app.slots, app.spare = range(slots, slots + size + spare), spare
        slots += size + spare
        at_work += size
        if role == "consumer":
            count = size if is_full else max(size + spare, size * int(random.integers(1, 4 if size < 12 else 2)))
            app.partitions = range(partitions, partitions + count)
            partitions += count
            app.cost_s = float(random.uniform(0.08, 0.55)) / (app.rate * app.most_partitions)
        apps.append(app)
    nodes = max(len(cluster.node_ids) for cluster in clusters)
    of_slot = tuple(app for app in apps for _ in app.slots)
    rtt_ms = np.full((slots, nodes), np.nan)
    for slot, app in enumerate(of_slot):
        for index, region in enumerate(clusters[app.cluster].regions):
            rtt_ms[slot, index] = _rtt_ms(app.region, region) * random.uniform(0.9, 1.15)
    return World(clusters=clusters, apps=tuple(apps), of_slot=of_slot, rtt_ms=rtt_ms, nodes=nodes)


def instance_id(random: np.random.Generator) -> str:
    """A client instance id in Kafka's form."""
    return base64.urlsafe_b64encode(random.bytes(16))[:22].decode()


def uuid_text(random: np.random.Generator) -> str:
    """A UUID as Kafka's clients end a member id with."""
    digits = random.bytes(16).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _clusters(sizes: tuple[int, ...], random: np.random.Generator) -> tuple[Cluster, ...]:
    """Clusters of so many brokers, of which the last one is far away where there are four or more."""
    clusters = []
    for nodes in sizes:
        regions = [_REGIONS[index % 2] for index in range(nodes)]
        if nodes >= _HAS_A_FAR_ONE:
            regions[-1] = FAR
        clusters.append(
            Cluster(
                cluster_id=instance_id(random),
                node_ids=tuple(range(1, nodes + 1)),
                regions=tuple(regions),
                service_ms=random.uniform(1.4, 2.4, nodes),
                utilisation=random.uniform(0.25, 0.4, nodes),
            )
        )
    return tuple(clusters)


def _applications(clients: int, random: np.random.Generator) -> Iterator[tuple[str, Role, str, int]]:
    left, number = clients, 0
    role: Role
    for name, role, library, size in _CORE:
        if left <= 0:
            return
        yield name, role, library, min(size, left)
        left -= size
    while left > 0:
        name = _WORDS[number % len(_WORDS)] + (f"-{number // len(_WORDS) + 1}" if number >= len(_WORDS) else "")
        role = "producer" if random.random() < 0.45 else "consumer"
        library = str(random.choice(("java", "librdkafka", "franz-go"), p=(0.6, 0.25, 0.15)))
        size = min(int(random.choice(_SIZES)), left)
        yield name, role, library, size
        left -= size
        number += 1


def _application(
    name: str, role: Role, library: str, size: int, clusters: tuple[Cluster, ...], random: np.random.Generator
) -> App:
    cluster = int(random.random() < 0.35) if len(clusters) > 1 and name not in {row[0] for row in _CORE} else 0
    far = random.random() < 0.06
    interval_s = float(random.choice((60.0, 30.0, 120.0), p=(0.86, 0.07, 0.07)))
    app = App(
        name=name,
        principal=f"User:{random.choice(_TEAMS)}",
        cluster=cluster,
        region=FAR if far else str(random.choice(_REGIONS)),
        role=role,
        software=SOFTWARE[library][int(random.random() ** 2 * len(SOFTWARE[library]))],
        slots=range(0),
        topic=f"{name}.events",
        interval_s=60.0 if name in _BATCH else interval_s,
        record_bytes=float(np.clip(random.lognormal(np.log(600), 0.5), 150, 3000)),
        is_batch=name in _BATCH,
    )
    if role == "producer":
        _make_producer(app, size, len(clusters[cluster].node_ids), random)
    elif role == "consumer":
        app.rate = float(np.clip(random.lognormal(np.log(120), 0.8), 8, 800))
        app.batch_records = float(max(4_000 / app.record_bytes, random.uniform(2, 8)))
    return app


def _make_producer(app: App, size: int, nodes: int, random: np.random.Generator) -> None:
    """A producer that nobody has to call: busy ones batch and compress."""
    app.rate = float(np.clip(random.lognormal(np.log(40), 0.9), 3, 400))
    bytes_per_s = app.rate * size * app.record_bytes
    app.compression = 1.0 if bytes_per_s < 400_000 and random.random() < 0.4 else float(random.uniform(0.3, 0.6))
    app.linger_s = 0.005
    requests = app.rate / (1 + app.rate / nodes * app.linger_s) * size
    if requests > 35:
        wanted = max(4.0, 2_600 / (app.record_bytes * app.compression))
        app.linger_s = (wanted - 1) / (app.rate / nodes)
    if app.linger_s > 0.3:
        app.linger_s, app.rate = 0.005, 30 / size


def _spares(app: App, size: int, random: np.random.Generator) -> int:
    """Slots for a scale-out, which some applications of four instances or more have."""
    if size < 4 or app.is_batch:
        return 0
    return max(1, size // 4) if app.name == _FULL or random.random() < 0.35 else 0


def _rtt_ms(one: str, other: str) -> float:
    if one == other:
        return NEAR_RTT_MS
    return FAR_RTT_MS if FAR in (one, other) else CROSS_RTT_MS
