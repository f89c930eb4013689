"""Clients of the second fleet as values: libraries, applications, their processes, faults and traffic.

A simulated morning of six hours, in ticks of ten seconds.
"""

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
Span = tuple[float, float]
"""From and to, since the beginning [s]."""

TICK_S = 10.0
HOURS = 6
TICKS = int(HOURS * 3600 / TICK_S)
END_S = TICKS * TICK_S
BEGIN_S = datetime(2026, 3, 10, 6, tzinfo=UTC).timestamp()
TIMES_S = np.arange(TICKS) * TICK_S
CLUSTERS = {"east-k3Vq0pT9S2aJ8fZrWm": 6, "west-b7Yd1uQ5R4eN6hXcLs": 4}
"""Brokers per cluster. Clients of the second one push totals as they are since their start, the others as deltas."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A client library as it names itself. `family` is java, librdkafka or franz-go."""

    family: str
    software: str
    version: str


def _java(version: str) -> Library:
    return Library(family="java", software="apache-kafka-java", version=version)


def _librdkafka(software: str, version: str) -> Library:
    return Library(family="librdkafka", software=software, version=version)


JAVA_37, JAVA_39, JAVA_40, JAVA_41, JAVA_44 = map(_java, ("3.7.2", "3.9.1", "4.0.0", "4.1.1", "4.4.0"))
PYTHON = _librdkafka("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")
PLAIN_C = _librdkafka("librdkafka", "2.12.1")
OLD_C = _librdkafka("librdkafka", "2.8.0")
OLD_GO = _librdkafka("confluent-kafka-go", "2.5.0-rdkafka-2.5.0")
FRANZ_GO = Library(family="franz-go", software="kgo", version="v1.22.2")
JAVA_IN_USE = (JAVA_39, JAVA_40, JAVA_41, JAVA_41, JAVA_44, JAVA_44)


@dataclass(kw_only=True)
class Life:
    """A process of a client, from its start to its end [s]; `end` is open, clean, crash, or silent (it hangs)."""

    start_s: float
    end_s: float
    end: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A cause at work on an application.

    Attributes:
        span: when.
        ticks: the same, as ticks.
        size: how much; what it is a factor or a share of depends on the fault.
        how: of several ways to have it.
        node: the broker, by its place, whose path has it; None for all.
        verdict: that it should lead to, where there are two.
        times_s: when it strikes, if that is now and then.
    """

    span: Span
    ticks: Mask
    size: float = 0.0
    how: str = ""
    node: int | None = None
    verdict: str = ""
    times_s: tuple[float, ...] = ()


@dataclass(kw_only=True)
class Traffic:
    """What a client does, by tick and broker where there are two axes.

    Attributes:
        latency_ms: from a request to its response.
        base_ms: the same without the fault of this client or of its path.
        requests_per_s: to each broker.
        connects: connections made in a tick.
        is_alive: whether its process runs.
        throttle_ms: what brokers told it to wait.
        held: share of the time in which a quota held it back.
    """

    latency_ms: Values
    base_ms: Values
    requests_per_s: Values
    connects: Values
    is_alive: Mask
    throttle_ms: Values
    held: Values


@dataclass(kw_only=True)
class Slot:
    """A place at which one process after the other runs."""

    app: "App"
    client_id: str
    number: int
    lives: list[Life] = field(default_factory=lambda: [Life(start_s=0.0, end_s=END_S, end="open")])
    traffic: Any = None
    """Of the role's own class of Traffic, once it is known."""
    clock: Fault | None = None
    """A wrong clock, by `size` [s]; with a verdict unless it is a matter of seconds."""

    def is_alive(self) -> Mask:
        found = np.zeros(TICKS, bool)
        for life in self.lives:
            found[int(life.start_s / TICK_S) : math.ceil(life.end_s / TICK_S)] = True
        return found


@dataclass(kw_only=True)
class App:
    """Clients of one application: alike, with the same work.

    Attributes:
        role: producer, consumer or admin.
        count: of its instances.
        cluster: its id.
        rtt_ms: the way to the brokers and back.
        interval_s: the push interval.
        rate: records per second and instance at the peak.
        record_bytes: of a record, before compression.
        linger_ms: as configured.
        compression: size after by size before.
        acks_all: whether replicas answer first.
        in_flight: requests per connection.
        ids: shared, or each instance with its own client id.
        partitions: of its topic.
        burst: records that arrive at once.
        polls: in a batch, or message by message.
        reads_async: whether fetches go on while the application works (KIP-848's consumer).
        is_static: whether a member that comes back is the same (KIP-345).
        is_sync: whether it waits for each record.
        skewed_key: whether half of the records have one key.
        commits: auto or manual.
        utilization: share of the time at work at the peak; None for any.
    """

    name: str
    role: str
    library: Library
    count: int
    cluster: str
    principal: str
    rtt_ms: float
    interval_s: int
    rate: float
    record_bytes: float
    linger_ms: float
    compression: float
    acks_all: bool
    ids: str
    partitions: int
    burst: float
    topic: str
    is_static: bool
    in_flight: int = 5
    polls: str = "batch"
    reads_async: bool = False
    is_sync: bool = False
    skewed_key: bool = False
    commits: str = "auto"
    utilization: float | None = None
    slots: list[Slot] = field(default_factory=list)
    faults: dict[str, Fault] = field(default_factory=dict)
    slow_ms: tuple[float, float, float] | None = None
    """What a fault of the network costs, by its way: lost share, CPU [ms], detour [ms]."""
    work: Any = None
    """What a consumer group does, once it is known: `consumers.GroupWork`."""

    @property
    def is_java(self) -> bool:
        return self.library.family == "java"

    @property
    def is_librdkafka(self) -> bool:
        return self.library.family == "librdkafka"

    @property
    def is_go(self) -> bool:
        return self.library.family == "franz-go"

    @property
    def sent_bytes(self) -> float:
        """Of a record, compressed."""
        return self.record_bytes * self.compression

    @property
    def group(self) -> str:
        return f"{self.name}-group"
