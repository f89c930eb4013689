"""One round over the consumer groups of a cluster: who is a member, what is committed, where each partition ends.

A group or broker that does not answer costs its own samples: every request has a timeout, a broker that did not answer
some is not asked again in the round, and a round ends with the interval. What could not be sampled is a row with
Kafka's name of the error, and a line of the log.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import OffsetSpec

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.exporters.group_offsets.requests import NOT_SAMPLED, TIMED_OUT, Requests, error_of, name_of
from fleetgauge.exporters.group_offsets.schema import Sample
from fleetgauge.exporters.group_offsets.settings import OffsetsSettings

log = get_logger(__name__)

Partition = tuple[str, int]

_ENDS_AT_ONCE: Final = 500
"""Partitions of a request for end offsets; librdkafka searches its answer for each."""
_MOST_TIMEOUTS: Final = 3
"""Timeouts of a broker in one round after which the round sends it no more requests."""
_LEADERS_KEPT_MS: Final = 300_000
_NO_NODE: Final = -1

_DENIED: Final = {
    "CLUSTER_AUTHORIZATION_FAILED": "grant DESCRIBE on Cluster, or name the groups: without it the brokers list only "
    "groups that this principal may describe, and the others are left out",
    "GROUP_AUTHORIZATION_FAILED": "grant DESCRIBE on Group",
    "TOPIC_AUTHORIZATION_FAILED": "grant DESCRIBE on Topic",
}


@dataclass(slots=True)
class _Group:
    """State of a group in a round."""

    group_id: str
    sampled_at: int
    described: "Future[Any] | None" = None
    committed: "Future[Any] | None" = None
    error: str | None = None
    state: str | None = None
    members: list[Any] = field(default_factory=list)
    offsets: dict[Partition, int | None] = field(default_factory=dict)
    owners: dict[Partition, Any] = field(default_factory=dict)


class Sampler:
    """Samples the groups of one cluster.

    Args:
        connect: makes a `confluent_kafka.admin.AdminClient`; once more where every group's coordinator timed out though
            the cluster answered: after this machine slept for minutes, a client may find no coordinator ever again.
        settings: which groups, and the bounds.
        time: the clocks.

    Attributes:
        cluster_id: of the samples; empty until the cluster has answered.
    """

    def __init__(self, connect: Callable[[], Any], settings: OffsetsSettings, time: Time) -> None:
        self._connect = connect
        self._admin = connect()
        self._settings = settings
        self._time = time
        self._timeout_s = settings.timeout_ms / 1000
        self._requests = Requests(settings.max_requests_per_s, self._timeout_s, time)
        self._limiter = LogLimiter()
        self._coordinators: dict[str, int] = {}
        self._leaders: dict[Partition, int] = {}
        self._leaders_due_ms = 0
        self._round = 0
        self._sees_all: bool | None = None
        self.cluster_id = settings.cluster_id
        self.errors: Counter[str] = Counter()

    @property
    def requests(self) -> int:
        """Calls of the Admin API so far."""
        return self._requests.count

    def stop(self) -> None:
        """Ends waits for the rate, from any thread."""
        self._requests.stop()

    def round(self) -> list[Sample]:
        """Samples each group once; within the interval, or the timeout if that is longer."""
        self.errors = Counter()
        deadline_ms = self._time.hi_res_clock_ms() + max(self._settings.interval_ms, 2 * self._settings.timeout_ms)
        marks = self._look_at_cluster()
        if not self.cluster_id:
            return []
        names, more = self._names()
        groups = self._sampled(names, deadline_ms)
        wanted = {each for group in groups for each in (*group.offsets, *group.owners)}
        ends = self._ends(wanted, deadline_ms)
        samples = [*marks, *more]
        for group in groups:
            samples += self._rows(group, ends)
        self._log_errors(samples)
        self._round += 1
        return samples

    def _look_at_cluster(self) -> list[Sample]:
        """Learns the cluster's id, and whether its groups may all be listed; a row that says so if not."""
        (future,) = self._requests.begin(
            lambda: [self._admin.describe_cluster(include_authorized_operations=True, request_timeout=self._timeout_s)]
        )
        self._requests.finish([future])
        if error := error_of(future):
            return self._of_cluster(error)
        cluster = future.result()
        if not self._settings.cluster_id:
            self.cluster_id = cluster.cluster_id or ""
        if self._settings.groups or cluster.authorized_operations is None:
            return []  # the broker is too old to tell
        may_list = any(each.name == "DESCRIBE" for each in cluster.authorized_operations)
        return [] if may_list else self._of_cluster("CLUSTER_AUTHORIZATION_FAILED")

    def _of_cluster(self, error: str) -> list[Sample]:
        """A row without a group; none while the cluster's id is not known, which is logged."""
        if not self.cluster_id:
            self._warn("cluster", error, [])
            return []
        return [Sample(sampled_at=self._time.microseconds(), cluster_id=self.cluster_id, error=error)]

    def _names(self) -> tuple[list[str], list[Sample]]:
        """The groups to sample, another one first each time; and rows of brokers that did not list theirs."""
        if self._settings.groups:
            return list(self._settings.groups), []
        (future,) = self._requests.begin(lambda: [self._admin.list_consumer_groups(request_timeout=self._timeout_s)])
        self._requests.finish([future])
        if error := error_of(future):
            return [], self._of_cluster(error)
        groups = future.result()
        names = sorted(each.group_id for each in groups.valid)
        at = self._round * 997 % max(len(names), 1)
        return names[at:] + names[:at], [row for each in groups.errors for row in self._of_cluster(name_of(each))]

    def _sampled(self, names: list[str], deadline_ms: int) -> list[_Group]:
        """Members and committed offsets of the groups; first of those whose coordinators have answered before.

        The others may all be of a broker that hangs, and would take all places of requests for their timeouts.
        """
        names = sorted(names, key=lambda name: name not in self._coordinators)
        timeouts: Counter[int] = Counter()
        groups = []
        for name in names:
            group = _Group(name, self._time.microseconds())
            groups.append(group)
            node = self._coordinators.get(name, _NO_NODE)
            is_late = self._requests.stopped.is_set() or self._time.hi_res_clock_ms() >= deadline_ms
            if is_late or (node >= 0 and timeouts[node] >= _MOST_TIMEOUTS):
                group.error = NOT_SAMPLED
                continue
            self._ask(group, node, timeouts)
        asked = [each for each in groups if each.described is not None]
        self._requests.finish([future for each in asked for future in (each.described, each.committed) if future])
        for group in asked:
            self._read(group)
        if asked and all(group.error == TIMED_OUT for group in asked):
            self._admin = self._connect()
        self._coordinators = {name: self._coordinators[name] for name in names if name in self._coordinators}
        return groups

    def _ask(self, group: _Group, node: int, timeouts: "Counter[int]") -> None:
        name, timeout_s = group.group_id, self._timeout_s

        def count(future: "Future[Any]") -> None:
            if error_of(future) == TIMED_OUT:
                timeouts[node] += 1

        (group.described,) = self._requests.begin(
            lambda: self._admin.describe_consumer_groups([name], request_timeout=timeout_s).values()
        )
        group.described.add_done_callback(count)
        asked = [ConsumerGroupTopicPartitions(name)]
        (group.committed,) = self._requests.begin(
            lambda: self._admin.list_consumer_group_offsets(asked, request_timeout=timeout_s).values()
        )

    def _read(self, group: _Group) -> None:
        assert group.described is not None
        assert group.committed is not None
        group.error = error_of(group.described) or error_of(group.committed)
        if error_of(group.described) is None:
            description = group.described.result()
            group.state, group.members = description.state.name, description.members
            if description.coordinator is not None:
                self._coordinators[group.group_id] = description.coordinator.id
            group.owners = {
                (each.topic, each.partition): member
                for member in description.members
                for each in (member.assignment.topic_partitions if member.assignment else ())
            }
        if error_of(group.committed) is None:
            group.offsets = {
                (each.topic, each.partition): each.offset if each.offset >= 0 else None
                for each in group.committed.result().topic_partitions
            }

    def _ends(self, wanted: set[Partition], deadline_ms: int) -> dict[Partition, int | str]:
        """The end offset of each partition, or the name of an error. A request is to one leader alone."""
        self._find_leaders(wanted)
        by_leader: dict[int, list[Partition]] = {}
        for partition in sorted(wanted):
            by_leader.setdefault(self._leaders.get(partition, _NO_NODE), []).append(partition)
        ends: dict[Partition, int | str] = dict.fromkeys(wanted, NOT_SAMPLED)
        timeouts: Counter[int] = Counter()
        asked: list[tuple[int, list[Partition], list[Future[Any]]]] = []
        for leader, some in _in_turns(by_leader):
            is_late = self._requests.stopped.is_set() or self._time.hi_res_clock_ms() >= deadline_ms
            if not is_late and not (leader >= 0 and timeouts[leader] >= _MOST_TIMEOUTS):
                asked.append((leader, some, self._ask_ends(leader, some, timeouts)))
        self._requests.finish([future for *_, futures in asked for future in futures])
        for _, some, futures in asked:
            for partition, future in zip(some, futures, strict=True):
                ends[partition] = error_of(future) or future.result().offset
        if any(isinstance(each, str) for each in ends.values()):
            self._leaders_due_ms = 0  # a leader may have moved
        return ends

    def _ask_ends(self, leader: int, some: list[Partition], timeouts: "Counter[int]") -> "list[Future[Any]]":
        asked = {TopicPartition(*each): OffsetSpec.latest() for each in some}  # type: ignore[no-untyped-call]

        def count(future: "Future[Any]") -> None:
            if error_of(future) == TIMED_OUT:
                timeouts[leader] += 1

        futures = self._requests.begin(
            lambda: self._admin.list_offsets(asked, request_timeout=self._timeout_s).values()
        )
        futures[0].add_done_callback(count)
        return futures if len(futures) == len(some) else futures[:1] * len(some)

    def _find_leaders(self, wanted: set[Partition]) -> None:
        """Looks up who leads what, seldom. A request to several leaders would wait for one that hangs."""
        now_ms = self._time.hi_res_clock_ms()
        if now_ms < self._leaders_due_ms and wanted <= self._leaders.keys():
            return
        if now_ms < self._leaders_due_ms - _LEADERS_KEPT_MS + self._settings.interval_ms:
            return
        self._leaders_due_ms = now_ms + _LEADERS_KEPT_MS
        try:
            topics = self._admin.list_topics(timeout=self._timeout_s).topics
        except Exception as error:  # noqa: BLE001  # KafkaException, or what librdkafka makes of a broken answer
            self._warn("leaders", name_of(error), [])
            return
        self._leaders = {
            (name, each.id): each.leader for name, topic in topics.items() for each in topic.partitions.values()
        }

    def _rows(self, group: _Group, ends: dict[Partition, int | str]) -> Iterator[Sample]:
        common = Sample(group.sampled_at, self.cluster_id, group.group_id, group.state, error=group.error)
        partitions = sorted({*group.offsets, *group.owners})
        for each in partitions:
            member, end = group.owners.get(each), ends[each]
            own = (None, None, None) if member is None else (member.member_id, member.client_id, member.host)
            offset, error = (end, None) if isinstance(end, int) else (None, end)
            yield Sample(
                common.sampled_at, self.cluster_id, group.group_id, group.state, own[0], own[1], own[2], each[0],
                each[1], group.offsets.get(each), offset, group.error or error,
            )  # fmt: skip
        busy = {member.member_id for member in group.owners.values()}
        idle = [member for member in group.members if member.member_id not in busy]
        for member in idle:
            yield common._replace(**_of_member(member))
        if not partitions and not idle and (group.error or group.state != "DEAD"):
            yield common

    def _log_errors(self, samples: list[Sample]) -> None:
        """One line per kind of error, once a minute at most."""
        self.errors = Counter(each.error for each in samples if each.error)
        for error in self.errors:
            of_topics = error.startswith(("TOPIC", "UNKNOWN_TOPIC", "UNKNOWN_PARTITION", "LEADER"))
            named = {(each.topic if of_topics else each.group_id) or "" for each in samples if each.error == error}
            self._warn("topics" if of_topics else "groups", error, sorted(named - {""}))

    def _warn(self, what: str, error: str, names: list[str]) -> None:
        if not self._limiter.admit((what, error), self._time.hi_res_clock_ms()):
            return
        remedy = _DENIED.get(error)
        event = "group_offsets.not_authorized" if remedy else "group_offsets.not_sampled"
        others = "the others are sampled" if names else "no broker answered"
        message = remedy or f"{others}; the next round retries"
        log.warning(event, message=message, error=error, **{what: names[:5]}, count=len(names))


def _of_member(member: Any) -> dict[str, Any]:
    return {"member_id": member.member_id, "client_id": member.client_id, "host": member.host}


def _in_turns(by_leader: dict[int, list[Partition]]) -> Iterator[tuple[int, list[Partition]]]:
    """Requests of each leader's partitions, one leader after the other, so that one that hangs has few under way."""
    longest = max(map(len, by_leader.values()), default=0)
    for at in range(0, longest, _ENDS_AT_ONCE):
        for leader, partitions in by_leader.items():
            if some := partitions[at : at + _ENDS_AT_ONCE]:
                yield leader, some
