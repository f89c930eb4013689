"""The metrics of known clients: KIP-714's standard and required ones, and Kafka's other metrics.

One table: telemetry name, type, attributes, roles, required or not, unit and meaning, and Kafka's own (JMX) name, from
which the rule below derives the telemetry name. Standard library only, so that Spark executors can use it.
"""

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Final, Literal

from fleetgauge.telemetry.catalogue.java_metrics import JAVA_METRICS
from fleetgauge.telemetry.catalogue.meanings import meaning_of, quantity_of, unit_of

KAFKA_PREFIX: Final = "org.apache.kafka."
"""Prefix of every telemetry name derived from one of Kafka's (KIP-714, Naming)."""

Client = Literal["java", "librdkafka", "franz-go"]
ROLES: Final = ("producer", "consumer", "share-consumer", "admin", "streams")

ROLE_PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "streams": f"{KAFKA_PREFIX}stream.",
        "admin": f"{KAFKA_PREFIX}admin.",
        "producer": f"{KAFKA_PREFIX}producer.",
        "consumer": f"{KAFKA_PREFIX}consumer.",
        "share-consumer": f"{KAFKA_PREFIX}consumer.share.",
    }
)
"""Prefix by role of the metrics that only clients of this role, and of roles named before it, send. Kafka Streams sends
its own metrics through its consumers and its admin client, and a share consumer also has a consumer's.
"""

_ALL: Final = frozenset({"*", ""})
"""Both request all metrics: `*` alone in a subscription, the empty string as a prefix."""


def _pairs(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields Kafka's group and name of each metric of a table: names, separated by spaces, by group."""
    return ((group, name) for group, listed in names.items() for name in listed.split())


_REQUIRED: Final = frozenset(
    _pairs(
        {
            "producer-metrics": "connection-creation-total",
            "producer-node-metrics": "request-latency-avg request-latency-max",
            "consumer-metrics": "connection-creation-total",
            "consumer-node-metrics": "request-latency-avg request-latency-max",
        }
    )
)
"""See `REQUIRED_SOURCE`."""

REQUIRED_SOURCE: Final = "by the list of another client, Dekaf (its issue 1005); unchecked against the KIP's bold marks"
"""Where the required metrics are from: KIP-714 (Standard producer and consumer metrics) marks them in bold alone, and
no source with the marks was at hand. Known clients send all six."""

_STANDARD: Final = _REQUIRED.union(
    _pairs(
        {
            "producer-metrics": "connection-creation-rate produce-throttle-time-avg produce-throttle-time-max "
            "record-queue-time-avg record-queue-time-max",
            "consumer-metrics": "connection-creation-rate poll-idle-ratio-avg",
            "consumer-coordinator-metrics": "commit-latency-avg commit-latency-max assigned-partitions "
            "rebalance-latency-avg rebalance-latency-max rebalance-latency-total",
            "consumer-fetch-manager-metrics": "fetch-latency-avg fetch-latency-max",
        }
    )
)
"""KIP-714, Standard producer and consumer metrics, all of them: clients should have those that make sense for them."""

_OTHER_CLIENTS: Final[Mapping[Client, Mapping[str, Mapping[str, str]]]] = {
    "librdkafka": {
        "producer": {
            "producer-metrics": "connection-creation-rate connection-creation-total produce-throttle-time-avg "
            "produce-throttle-time-max record-queue-time-avg record-queue-time-max request-latency-avg "
            "request-latency-max",
            "producer-node-metrics": "request-latency-avg request-latency-max",
        },
        "consumer": {
            "consumer-metrics": "connection-creation-rate connection-creation-total poll-idle-ratio-avg",
            "consumer-node-metrics": "request-latency-avg request-latency-max",
            "consumer-coordinator-metrics": "assigned-partitions commit-latency-avg commit-latency-max "
            "rebalance-latency-avg rebalance-latency-max rebalance-latency-total",
            "consumer-fetch-manager-metrics": "fetch-latency-avg fetch-latency-max",
        },
        "share-consumer": {
            "consumer-share-metrics": "poll-idle-ratio-avg time-between-poll-avg time-between-poll-max",
            "consumer-share-coordinator-metrics": "heartbeat-rate heartbeat-total",
            "consumer-share-fetch-manager-metrics": "acknowledgements-send-rate acknowledgements-send-total "
            "bytes-consumed-rate bytes-consumed-total fetch-latency-avg fetch-latency-max fetch-rate fetch-size-avg "
            "fetch-size-max fetch-throttle-time-avg fetch-throttle-time-max fetch-total",
        },
    },
    "franz-go": {
        "producer": {
            "producer-metrics": "connection-creation-rate connection-creation-total produce-throttle-time-avg "
            "produce-throttle-time-max",
            "producer-node-metrics": "request-latency-avg request-latency-max",
        },
        "consumer": {
            "consumer-metrics": "connection-creation-rate connection-creation-total",
            "consumer-node-metrics": "request-latency-avg request-latency-max",
            "consumer-coordinator-metrics": "commit-latency-avg commit-latency-max",
        },
    },
}
"""Metrics of other clients by role and Kafka's group: librdkafka 2.16, franz-go 1.22."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMetric:
    """One metric of at least one known client.

    Attributes:
        name: the telemetry name, matched by subscriptions.
        type: `sum` or `gauge`, as Java sends it.
        attributes: of its data points.
        roles: clients that have it.
        is_standard: a standard metric of KIP-714, which clients should have.
        is_required: a required metric of KIP-714, which clients must have; see `REQUIRED_SOURCE`.
        kafka_group: of Kafka's own (JMX) name.
        kafka_name: Kafka's own (JMX) name.
        clients: implementations known to have it.
        unit: of its values, `1` for a plain number; None if unknown.
        quantity: the measured quantity in a few words; None if unknown.
        meaning: quantity and statistic.
    """

    name: str
    type: Literal["sum", "gauge"]
    attributes: tuple[str, ...]
    roles: tuple[str, ...]
    is_standard: bool
    is_required: bool
    kafka_group: str
    kafka_name: str
    clients: tuple[Client, ...]
    unit: str | None
    quantity: str | None
    meaning: str | None


def telemetry_name(group: str, name: str) -> str:
    """Returns the telemetry name of a Kafka metric (KIP-714, Naming; kafka-clients' `TelemetryMetricNamingConvention`).

    Lower case; the group without `-metrics` at any position after the first word; every `-` becomes a dot.

    >>> telemetry_name("consumer-coordinator-metrics", "rebalance-latency-max")
    'org.apache.kafka.consumer.coordinator.rebalance.latency.max'
    >>> telemetry_name("kafka-metrics-count", "count")
    'org.apache.kafka.kafka.count.count'
    """
    dotted = group.lower().replace("-", ".").replace(".metrics", "")
    return f"{KAFKA_PREFIX}{dotted}.{name.lower().replace('-', '.')}"


def attribute_name(tag: str) -> str:
    """Returns the telemetry attribute of a Kafka tag: lower case, `-` becomes `_` (KIP-714, Naming)."""
    return tag.lower().replace("-", "_")


def metric_type(name: str) -> Literal["sum", "gauge"]:
    """Returns the OTLP type of a Kafka metric in Java: cumulative counts, named `-total`, are sums."""
    return "sum" if name.endswith("-total") else "gauge"


@cache
def known_metrics() -> tuple[KnownMetric, ...]:
    """Returns the table: producer, consumer, share consumer, admin, Streams; ordered by group and name."""
    others = _clients_by_metric()
    metrics = {}
    for roles, group, tags, names in JAVA_METRICS:
        for name in names.split():
            metric = KnownMetric(
                name=telemetry_name(group, name),
                type=metric_type(name),
                attributes=tuple(map(attribute_name, tags)),
                roles=roles,
                is_standard=(group, name) in _STANDARD,
                is_required=(group, name) in _REQUIRED,
                kafka_group=group,
                kafka_name=name,
                clients=("java", *others.get((group, name), ())),
                unit=unit_of(group, name),
                quantity=quantity_of(group, name),
                meaning=meaning_of(group, name),
            )
            metrics[metric.name] = metric
    return tuple(metrics.values())


@cache
def metrics_by_name() -> Mapping[str, KnownMetric]:
    """Returns the table by telemetry name."""
    return {metric.name: metric for metric in known_metrics()}


def _clients_by_metric() -> Mapping[tuple[str, str], tuple[Client, ...]]:
    clients: dict[tuple[str, str], tuple[Client, ...]] = {}
    for client, by_role in _OTHER_CLIENTS.items():
        for metric in chain.from_iterable(map(_pairs, by_role.values())):
            clients[metric] = (*clients.get(metric, ()), client)
    return MappingProxyType(clients)


def selected(prefixes: Iterable[str]) -> tuple[KnownMetric, ...]:
    """Returns the known metrics that match these prefixes; `*` and the empty prefix match all."""
    wanted = tuple("" if prefix in _ALL else prefix for prefix in prefixes)
    return tuple(metric for metric in known_metrics() if metric.name.startswith(wanted))


def is_known_prefix(prefix: str) -> bool:
    """True if a known client has a metric under `prefix`."""
    names = _sorted_names()
    first = bisect.bisect_left(names, "" if prefix in _ALL else prefix)
    return first < len(names) and (prefix in _ALL or names[first].startswith(prefix))


@cache
def _sorted_names() -> tuple[str, ...]:
    return tuple(sorted(metric.name for metric in known_metrics()))


@cache
def known_prefixes() -> tuple[str, ...]:
    """Returns every prefix that ends at a dot, and every whole name, as candidates for corrections."""
    prefixes = set()
    for metric in known_metrics():
        parts = metric.name.split(".")
        prefixes.add(metric.name)
        prefixes.update(".".join(parts[:end]) + "." for end in range(3, len(parts)))
    return tuple(sorted(prefixes))


def serves_every_role(client: Client, prefix: str) -> bool:
    """True if a client of this implementation has a metric under `prefix` both as a producer and as a consumer."""
    by_role = _OTHER_CLIENTS[client]
    return prefix in _ALL or all(
        any(telemetry_name(*metric).startswith(prefix) for metric in _pairs(by_role[role]))
        for role in ("producer", "consumer")
    )
