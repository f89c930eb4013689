"""The rules of a gateway: quotas on its traffic, and statistics of it. No I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fleetgauge.gateway.apis import API_VERSIONS, METADATA, PRODUCE
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.messages.layout import request_layout, response_layout
from fleetgauge.gateway.messages.walk import Topic, Walk
from fleetgauge.gateway.quotas.judge import Judged, QuotaJudge
from fleetgauge.gateway.rules import ClientConnection, Patched, RequestVerdict
from fleetgauge.gateway.traffic.counts import Counts, TrafficCounts
from fleetgauge.quotas.callback import Cluster, PartitionInfo
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.managers import QuotaManagers

_JOIN_GROUP: Final = 11
_CONSUMER_GROUP_HEARTBEAT: Final = 68
_WITH_GROUP: Final = frozenset({8, _JOIN_GROUP, 13, 14, _CONSUMER_GROUP_HEARTBEAT})
"""OffsetCommit, JoinGroup, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat: counted by group."""
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_MAX_TOPICS: Final = 100_000


@dataclass(slots=True, eq=False)
class Passage:
    """State of a request until its response.

    Attributes:
        judged: the quotas' part.
        gateway_ns: time of the gateway's loop up to the answer [ns].
    """

    judged: Judged
    gateway_ns: int = 0


class TopicPartitions:
    """Numbers of partitions and their leaders, from the brokers' Metadata responses to any client.

    At most 100,000 topics, by name and by id; then those that were seen first are forgotten.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._led: dict[str, Topic] = {}  # by name, if leaders are read

    def of(self, topic: str) -> int | None:
        """Number of a topic's partitions; see `PartitionsOf`."""
        return self._known.get(topic)

    def note_leaders(self, walk: Walk) -> bool:
        """Takes over the leaders of a Metadata response's topics; True if any has changed."""
        known, changed = self._led, False
        for key, topic in walk.topics.items():
            if key != topic.name or not (topic.partitions or topic.error == _UNKNOWN_TOPIC_OR_PARTITION):
                continue  # an id beside the name, or a topic that the client may not describe
            if topic.leaders != (known[key].leaders if key in known else {}):
                known.pop(key, None)
                if topic.partitions:
                    known[key] = topic
                changed = True
        while len(known) > _MAX_TOPICS:
            del known[next(iter(known))]
        return changed

    def cluster(self) -> Cluster:
        """All partitions with a known leader."""
        return Cluster(
            partitions=[
                PartitionInfo(topic=name, partition=partition, leader=None if leader < 0 else leader)
                for name, topic in self._led.items()
                for partition, leader in sorted(topic.leaders.items())
            ]
        )

    def note(self, walk: Walk) -> None:
        """Takes over the topics of a Metadata response."""
        for name, topic in walk.topics.items():
            if topic.partitions:
                self._known.pop(name, None)
                self._known[name] = topic.partitions
        while len(self._known) > _MAX_TOPICS:
            del self._known[next(iter(self._known))]


class TrafficRules:
    """Implementation of `gateway.rules.Rules`.

    Args:
        managers: of the quotas.
        identities: maps requests to quota entities.
        cluster_changed: called with the partitions whose leaders are known, each time that one of them has changed;
            None to read no leaders.

    Attributes:
        judge: the quotas.
        counts: the statistics.
    """

    def __init__(
        self,
        managers: QuotaManagers,
        identities: Identities,
        cluster_changed: Callable[[Cluster], None] | None = None,
    ) -> None:
        self._cluster_changed = cluster_changed
        self._partitions = TopicPartitions()
        self.judge = QuotaJudge(managers, identities, self._partitions.of)
        self.counts = TrafficCounts()

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        """See `Rules.request`."""
        now_ms = now_ns // 1_000_000
        passage = request.note
        if passage is None:
            passage = request.note = Passage(self.judge.begin(connection, request, now_ms))
            self._look(connection, request)
            if connection.spends_unanswered is request.is_answered:
                connection.begin_request(request.is_answered)
        elif not body:
            return None  # it was judged, and the data path needs more of it
        verdict = self.judge.request(connection, request, passage.judged, body, now_ms)
        if not request.is_answered:
            passage.gateway_ns = connection.take_unanswered_ns()  # of those before it, whose bytes have come
            self.judge.exempt(passage.gateway_ns, now_ms)
            self._count(connection, request, passage)
        return verdict

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        """See `Rules.response`."""
        passage: Passage = request.note
        passage.gateway_ns = connection.take_loop_ns()
        return self.judge.response(
            connection, request, passage.judged, size, body, passage.gateway_ns, now_ns // 1_000_000
        )

    def sent(self, connection: ClientConnection, request: InFlight, size: int, now_ns: int) -> None:
        """See `Rules.sent`."""
        passage: Passage | None = request.note
        if passage is None:
            return  # the data path answered it before the rules saw it
        is_local = request.local is not None
        if is_local or not request.response_bytes:
            passage.gateway_ns = connection.take_loop_ns(to_now=is_local)
        if is_local:
            self.judge.answered(connection, request, passage.judged, passage.gateway_ns, now_ns // 1_000_000)
        counts = self._count(connection, request, passage)
        counts.response_bytes += size
        if not is_local:
            took_ns = now_ns - request.arrived_ns
            counts.broker_ns += took_ns
            counts.broker_max_ns = max(counts.broker_max_ns, took_ns)
            walk = request.response_walk
            if walk is not None:
                principal = connection.principal.name
                walk.on_end = lambda ended: self._answered(principal, request, ended)
                if walk.is_done or walk.problem:  # what is replaced in a response is read before it is passed
                    walk.on_end(walk)

    def interrupted(self, connection: ClientConnection, request: InFlight, now_ns: int) -> int:
        """See `Rules.interrupted`."""
        passage: Passage | None = request.note
        if passage is None:
            return 0
        took_ns = connection.take_loop_ns()
        pause_ms = self.judge.interrupted(connection, request, passage.judged, took_ns, now_ns // 1_000_000)
        counts = self._counts_of(connection.principal.name, request)
        counts.gateway_ns += took_ns
        _add_throttling(counts, passage.judged)
        return pause_ms

    def _look(self, connection: ClientConnection, request: InFlight) -> None:
        """Attaches walks to the request and its response."""
        key, version = request.api_key, request.api_version
        if key == API_VERSIONS:
            return  # its answer may be of another version
        if (key == PRODUCE or key in _WITH_GROUP) and (layout := request_layout(key, version)) is not None:
            request.request_walk = Walk(layout.from_header, read_batches=key == PRODUCE)
            if key == PRODUCE:
                name, client_id = connection.principal.name, request.client_id
                request.request_walk.on_end = lambda walk: self.counts.of(name, client_id, key).add_batches(walk)
        if (layout := response_layout(key, version)) is not None:
            read_leaders = key == METADATA and self._cluster_changed is not None
            request.response_walk = Walk(layout.from_header, read_leaders=read_leaders)

    def _counts_of(self, principal: str, request: InFlight) -> Counts:
        """Counts of the current minute."""
        values = request.request_walk.values if request.request_walk is not None else {}
        return self.counts.of(principal, request.client_id, request.api_key, str(values.get("group_id") or ""))

    def _count(self, connection: ClientConnection, request: InFlight, passage: Passage) -> Counts:
        values = request.request_walk.values if request.request_walk is not None else {}
        counts = self._counts_of(connection.principal.name, request)
        counts.api_version = request.api_version
        counts.requests += 1
        counts.request_bytes += request.size
        counts.gateway_ns += passage.gateway_ns
        _add_throttling(counts, passage.judged)
        if request.api_key == _JOIN_GROUP or values.get("member_epoch") == 0:
            counts.joins += 1
        return counts

    def _answered(self, principal: str, request: InFlight, walk: Walk) -> None:
        if walk.errors:
            self._counts_of(principal, request).add_errors(walk.errors)
        if request.api_key == METADATA:
            self._partitions.note(walk)
            if self._cluster_changed is not None and walk.is_done and self._partitions.note_leaders(walk):
                self._cluster_changed(self._partitions.cluster())


def _add_throttling(counts: Counts, judged: Judged) -> None:
    if judged.throttled_ms:
        counts.throttled += not judged.is_counted
        counts.throttle_ms += judged.throttled_ms
        judged.throttled_ms, judged.is_counted = 0, True
