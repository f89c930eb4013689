"""Checks the brokers of a cluster over the Admin API: versions, the plugin, the topic, its pushes, and permissions."""

import importlib.util
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fleetgauge.cli.node.doctor.finding import Finding, error, ok, skipped, warning
from fleetgauge.cli.units import duration
from fleetgauge.cluster.connection import UnknownSettingError
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.cluster import Cluster

_TELEMETRY_APIS: Final = frozenset({71, 72})
"""GetTelemetrySubscriptions and PushTelemetry: a broker lists them while a reporter receives telemetry."""
_UNKNOWN_TOPIC: Final = 3
_NOT_AUTHORIZED: Final = 29
_NO_COORDINATOR: Final = "CoordinatorNotAvailable"
_COORDINATOR_TRIES: Final = 30
_COORDINATOR_PAUSE_S: Final = 0.5
"""A fresh cluster makes its offsets topic with the first request for a group; until then it has no coordinator."""
_AHEAD_MS: Final = 5_000
"""A record may be this far in the future before a clock is suspected [ms]."""
_SILENT_S: Final = 600.0
"""Twice the push interval of Kafka's default, 5 minutes [s]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUse:
    """Use of a topic by a process.

    Attributes:
        topic: its name.
        operations: operations on the topic that its principal needs.
        groups: consumer groups that it joins; READ is needed on each.
        from_plugin: True if the brokers' plugin writes the topic.
        creates: True if a missing topic is created by this process.
        has_pushes: False for the topic of the state, which has exactly one partition.
        transactional_id: WRITE is needed on it; empty for none.
    """

    topic: str
    operations: tuple[str, ...]
    groups: tuple[str, ...] = ()
    from_plugin: bool = False
    creates: bool = False
    has_pushes: bool = True
    transactional_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersInUse:
    """A cluster that the configuration names, and for what."""

    named_by: str
    settings: ClusterSettings
    topics: tuple[TopicUse, ...] = ()
    operations: tuple[str, ...] = ()
    """Operations on the cluster that the principal needs."""
    wanted: tuple[str, ...] = ()
    """Operations on the cluster without which the subscriptions are neither shown nor taken back."""
    by_librdkafka: bool = False
    """True if the process connects by librdkafka, which has more client settings than the Admin API here."""

    @property
    def servers_from(self) -> str:
        """Where the addresses are set."""
        return self.named_by if self.named_by.startswith("--") else f"{self.named_by}.bootstrap.servers"


def check_brokers(used: BrokersInUse) -> Iterator[Finding]:
    """All findings of one cluster."""
    servers = used.settings.bootstrap_servers
    try:
        with Cluster(used.settings) as cluster:
            described = cluster.request(lambda admin: admin.describe_cluster())
            yield ok(f"brokers {servers}", f"{used.named_by}: cluster {described['cluster_id']}")
            has_plugin = any(use.from_plugin for use in used.topics)
            receives = False
            for finding, receives_telemetry in _versions(cluster, described["brokers"], has_plugin=has_plugin):
                yield finding
                receives = receives or receives_telemetry
            yield from _cluster_permissions(servers, described, used)
            for use in used.topics:
                yield from _topic(cluster, use)
                if use.transactional_id:
                    yield skipped(
                        f"transactional id {use.transactional_id}",
                        "whether WRITE is allowed shows with the first change by an admin tool",
                    )
            if has_plugin and receives:
                yield _subscriptions(cluster)
    except ResourceError as problem:
        if used.by_librdkafka and isinstance(problem, UnknownSettingError):
            yield skipped(f"brokers {servers}", f"not checked, though fleetgauge itself can use the setting: {problem}")
            return
        remedy = (
            f"Correct {used.servers_from} or {used.settings.client_from}, or start the brokers; each must be reachable "
            "from here."
        )
        if importlib.util.find_spec("kafka") is None:
            remedy = "Install the extra kafka: pip install 'fleetgauge[kafka]'."
        yield error(f"brokers {servers}", f"{used.named_by}: {problem}", remedy)


def _versions(
    cluster: Cluster, brokers: Iterable[Mapping[str, Any]], *, has_plugin: bool
) -> Iterator[tuple[Finding, bool]]:
    """One finding per broker, and whether it receives telemetry, which brokers with the plugin should."""
    for broker in brokers:
        node_id, address = broker["broker_id"], f"{broker['host']}:{broker['port']}"
        check = f"broker {node_id} at {address}"
        try:
            data = cluster.request(partial(_version_data, node_id))
        except ResourceError as problem:
            remedy = "Correct advertised.listeners of the broker, or the network: clients connect to this address."
            yield error(check, f"{problem}", remedy), False
            continue
        receives = set(data.api_versions) >= _TELEMETRY_APIS
        version = f"API versions of Kafka {'.'.join(map(str, data.broker_version))} or later"
        shown = f"{version}; receives {'' if receives else 'no '}telemetry"
        if receives or not has_plugin:
            yield ok(check, shown), receives
        else:
            remedy = (
                "Add the plugin to metric.reporters in the broker's server.properties and restart it (Kafka 3.7 and "
                "later, KRaft), unless a fleetgauge serve or gateway writes the topic."
            )
            yield warning(check, shown, remedy), False


def _version_data(node_id: int, admin: Any) -> Any:
    return admin.get_broker_version_data(node_id)


def _cluster_permissions(servers: str, described: Mapping[str, Any], used: BrokersInUse) -> Iterator[Finding]:
    allowed, check = _allowed(described), f"cluster {servers}"
    if missing := sorted(set(used.operations) - allowed):
        yield error(check, f"the principal lacks {', '.join(missing)}", f"{_add_to_cluster(missing)}.")
    if missing := sorted(set(used.wanted) - allowed):
        yield warning(
            check,
            f"the principal lacks {', '.join(missing)}: subscriptions are not shown, or not taken back when due",
            f"{_add_to_cluster(missing)}, or turn it off: subscriptions.bootstrap.servers as an empty text.",
        )


def _add_to_cluster(missing: Iterable[str]) -> str:
    return f"Add it: kafka-acls.sh --add --cluster {_options(missing)} --allow-principal ..."


def _topic(cluster: Cluster, use: TopicUse) -> Iterator[Finding]:
    check = f"topic {use.topic}"
    (described,) = cluster.request(lambda admin: admin.describe_topics([use.topic]))
    if described["error_code"] == _UNKNOWN_TOPIC:
        yield _missing_topic(check, use)
        return
    if described["error_code"] == _NOT_AUTHORIZED:
        yield _lacking(check, use, ["DESCRIBE"], use.operations)
        return
    if described["error_code"]:
        yield error(
            check,
            f"the brokers do not describe it (error {described['error_code']})",
            "Look at the brokers' logs: a partition of it may have no leader.",
        )
        return
    missing = sorted(set(use.operations) - _allowed(described))
    if missing:
        yield _lacking(check, use, missing, missing)
    else:
        yield ok(check, f"{len(described['partitions'])} partitions; {', '.join(use.operations)} allowed")
    yield from _groups(cluster, use)
    partitions = [partition["partition_index"] for partition in described["partitions"]]
    if use.has_pushes:
        if "DESCRIBE" not in missing:
            yield _newest(cluster, use, partitions)
    elif len(partitions) != 1:
        remedy = "Name another topic in state.topic, which the node then creates, or make one with one partition."
        yield error(check, f"{len(partitions)} partitions; the state needs exactly one", remedy)


def _lacking(check: str, use: TopicUse, missing: Iterable[str], wanted: Iterable[str]) -> Finding:
    remedy = f"Add it: kafka-acls.sh --add --topic {use.topic} {_options(wanted)} --allow-principal ..."
    return error(check, f"the principal lacks {', '.join(missing)}", remedy)


def _missing_topic(check: str, use: TopicUse) -> Finding:
    if use.creates:
        return ok(check, "does not exist yet, and is created at the start")
    return warning(
        check,
        "does not exist",
        "Load the plugin in the brokers, which creates the topic at their start, or start the fleetgauge serve that "
        "writes it; or correct push.log.kafka.topic.name.",
    )


def _groups(cluster: Cluster, use: TopicUse) -> Iterator[Finding]:
    """A finding for each group that the principal may not join; a group exists only after its first start."""
    for group in use.groups:
        refusal = _refusal(cluster, group)
        for _ in range(_COORDINATOR_TRIES):
            if _NO_COORDINATOR not in refusal:
                break
            time.sleep(_COORDINATOR_PAUSE_S)
            refusal = _refusal(cluster, group)
        if not refusal:
            continue
        remedy = "Look at the brokers' logs: the coordinator of the group does not answer."
        if "Authorization" in refusal or "lacks" in refusal:
            remedy = f"Add it: kafka-acls.sh --add --group {group} --operation Read --allow-principal ..."
        yield error(f"group {group}", refusal, remedy)


def _refusal(cluster: Cluster, group: str) -> str:
    """Why the group cannot be joined; empty where it can."""
    try:
        facts = cluster.request(lambda admin: admin.describe_groups([group])[group])
    except ResourceError as problem:
        return str(problem)
    failed, allowed = facts["error"] or "", _allowed(facts)
    if "Authorization" in failed or _NO_COORDINATOR in failed:
        return str(failed)
    return "" if not allowed or "READ" in allowed else "the principal lacks READ"


def _newest(cluster: Cluster, use: TopicUse, partitions: Iterable[int]) -> Finding:
    """Age of the topic's newest record, by the clock of its producer: the broker with the plugin."""
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition

    check = f"pushes on {use.topic}"
    wanted = {TopicPartition(use.topic, each): OffsetSpec.MAX_TIMESTAMP for each in partitions}
    offsets = cluster.request(lambda admin: admin.list_partition_offsets(wanted))
    newest_ms = max((each.timestamp for each in offsets.values()), default=-1)
    if newest_ms < 0:
        return warning(
            check,
            "the topic is empty",
            "Make a subscription (kafka-client-metrics.sh, fleetgauge subscriptions) and wait for its interval."
            if use.from_plugin
            else "Start the process, and let clients connect to it; fleetgauge clients shows which push.",
        )
    age_s = time.time() - newest_ms / 1000
    if age_s * 1000 < -_AHEAD_MS:
        return error(
            check,
            f"the newest push is {duration(-age_s)} in the future: this clock and the broker's differ",
            "Synchronize the clocks of this machine and of the brokers by NTP.",
        )
    if age_s > _SILENT_S:
        return warning(
            check,
            f"the newest push is {duration(age_s)} old",
            "Look at the broker's log for the plugin, and at the subscriptions: no client pushes, or the plugin fails."
            if use.from_plugin
            else "Look whether the process runs (fleetgauge status), and which clients push (fleetgauge clients).",
        )
    return ok(check, f"the newest push is {duration(max(age_s, 0.0))} old")


def _subscriptions(cluster: Cluster) -> Finding:
    try:
        names = list(cluster.list())
    except ResourceError as problem:
        return skipped("subscriptions", str(problem))
    if names:
        return ok("subscriptions", ", ".join(names))
    return warning(
        "subscriptions",
        "none: clients push nothing",
        f"kafka-client-metrics.sh --bootstrap-server {cluster.servers} --alter --name everything "
        "--metrics org.apache.kafka. --interval 60000 makes one.",
    )


def _allowed(described: Mapping[str, Any]) -> frozenset[str]:
    """Names of the operations that the brokers allow the principal."""
    return frozenset(getattr(each, "name", str(each)) for each in described.get("authorized_operations") or ())


def _options(operations: Iterable[str]) -> str:
    """Operations as kafka-acls.sh takes them."""
    return " ".join(f"--operation {each.replace('_', ' ').title().replace(' ', '')}" for each in operations)
