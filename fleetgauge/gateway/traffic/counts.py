"""Counts of requests by client, API and group. No I/O."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from fleetgauge.gateway.messages.walk import COMPRESSIONS, Walk

OTHER_CLIENTS: Final = "<others>"
"""Client id that stands for the clients beyond the limit."""
MAX_NAME_CHARACTERS: Final = 256
"""Maximum length of client ids and group ids; longer ones are cut."""


class Key(NamedTuple):
    """Key by which requests are counted.

    Attributes:
        principal, client_id, api_key: of the requests.
        group_id: of requests of group members; else empty.
    """

    principal: str
    client_id: str
    api_key: int
    group_id: str = ""


@dataclass(slots=True, eq=False)
class Counts:
    """Counts of one key.

    Attributes:
        api_version: of the latest request.
        requests: that were answered, or have no answer.
        request_bytes, response_bytes: sizes without prefixes, as Kafka's quotas count them [B].
        gateway_ns: time of the gateway's loop [ns].
        broker_ns, broker_max_ns: from a request's header to the beginning of its answer [ns]; not of requests that the
            gateway answers.
        throttled: requests that the gateway throttled.
        throttle_ms: for how long in all [ms].
        joins: members that join a group: JoinGroup, and heartbeats of the consumer protocol with epoch 0.
        batches, records, record_bytes, compressions: see `Walk`.
        errors: number of error codes in responses, by code.
    """

    api_version: int = 0
    requests: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    gateway_ns: int = 0
    broker_ns: int = 0
    broker_max_ns: int = 0
    throttled: int = 0
    throttle_ms: int = 0
    joins: int = 0
    batches: int = 0
    records: int = 0
    record_bytes: int = 0
    compressions: list[int] = field(default_factory=lambda: [0] * len(COMPRESSIONS))
    errors: dict[int, int] = field(default_factory=dict)

    def add(self, other: "Counts") -> None:
        """Adds the counts of a later time."""
        self.api_version = other.api_version
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.broker_max_ns = max(self.broker_max_ns, other.broker_max_ns)
        self.compressions = [own + more for own, more in zip(self.compressions, other.compressions, strict=True)]
        self.add_errors(other.errors)

    def add_batches(self, walk: Walk) -> None:
        """Adds the counts of a walk over a Produce request."""
        self.batches += walk.batches
        self.records += walk.records
        self.record_bytes += walk.record_bytes
        for codec, count in enumerate(walk.compressions):
            self.compressions[codec] += count

    def add_errors(self, errors: dict[int, int]) -> None:
        """Adds error codes."""
        for code, count in errors.items():
            self.errors[code] = self.errors.get(code, 0) + count


_SUMS: Final = (
    *("requests", "request_bytes", "response_bytes", "gateway_ns", "broker_ns", "throttled", "throttle_ms", "joins"),
    *("batches", "records", "record_bytes"),
)


class TrafficCounts:
    """Counts of the current minute, and since the start.

    Clients choose their client ids: beyond `max_clients` pairs of a principal and a client id since the start, further
    ones are counted together as the client id `<others>`; groups of one client beyond `max_groups` have no name.

    Args:
        max_clients: as above.
        max_groups: as above; per minute.

    Attributes:
        others: requests counted under `<others>`.
        totals: since the start, without groups, up to the last `roll`.
    """

    def __init__(self, max_clients: int = 1_000, max_groups: int = 10_000) -> None:
        self.others = 0
        self.totals: dict[Key, Counts] = {}
        self._clients: dict[tuple[str, str], str] = {}
        self._groups: set[str] = set()
        self._max_clients = max_clients
        self._max_groups = max_groups
        self._minute: dict[Key, Counts] = {}

    def of(self, principal: str, client_id: str, api_key: int, group_id: str = "") -> Counts:
        """The counts of a request."""
        if group_id:
            group_id = self._group(group_id[:MAX_NAME_CHARACTERS])
        key = Key(principal, self._client(principal, client_id), api_key, group_id)
        counts = self._minute.get(key)
        if counts is None:
            counts = self._minute[key] = Counts()
        return counts

    def roll(self) -> dict[Key, Counts]:
        """Ends the minute: returns its counts, and adds them to the totals."""
        minute, self._minute = self._minute, {}
        self._groups.clear()
        for key, counts in minute.items():
            self.totals.setdefault(key._replace(group_id=""), Counts()).add(counts)
        return minute

    def since_start(self) -> dict[Key, Counts]:
        """The totals with the current minute, by client and API."""
        totals: dict[Key, Counts] = {}
        for source in (self.totals, self._minute):
            for key, counts in source.items():
                totals.setdefault(key._replace(group_id=""), Counts()).add(counts)
        return totals

    def _client(self, principal: str, client_id: str) -> str:
        known = self._clients.get((principal, client_id))
        if known is not None:
            return known
        if len(self._clients) >= self._max_clients:
            self.others += 1
            return OTHER_CLIENTS
        return self._clients.setdefault((principal, client_id), client_id[:MAX_NAME_CHARACTERS])

    def _group(self, group_id: str) -> str:
        if group_id in self._groups or len(self._groups) < self._max_groups:
            self._groups.add(group_id)
            return group_id
        return ""
