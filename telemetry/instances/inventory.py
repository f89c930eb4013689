"""Who is there: one row for each client instance that a node remembers, its state, and the choice among them.

No sockets, no clock: the rows are made on the listener's loop, some at a time, and read elsewhere.
"""

import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from telemetry.instances.client_state import ClientState, judged
from telemetry.instances.instance import ClientInstance
from telemetry.push_record import PushRecord, parse_instance_id
from wire.software import UNKNOWN_SOFTWARE

WILDCARD: Final = "*"

SenderKey = tuple[str, str, str, str]
"""Instance id, principal, client id and source address: see `RequestContext.sender`."""

RowKey = tuple[str, str, str, str, str, str]
"""A `SenderKey` with the software's name and version: no two rows of a listing have the same."""


def state_of(instance: ClientInstance, now_ms: int) -> ClientState:
    """The state at `now_ms` [ms, monotonic]."""
    subscription = instance.subscription
    return judged(
        ended=instance.gate.is_terminated,
        silence_ms=now_ms - instance.seen_ms,
        push_interval_ms=subscription.push_interval_ms,
        has_pushed=instance.pushes > 0,
        lost_connection=instance.lost_connection,
        is_subscribed=bool(subscription.metrics),
        error=instance.gate.last_known_error,
    )


class ClientRow(NamedTuple):
    """One instance. Times are wall times [us since the epoch], good to some ms; None where a thing has not happened.

    `metrics` are the prefixes that it is asked for, `subscriptions` the client-metrics resources that ask. `pushes`
    are those in the push log, `push_bytes` their payloads as received. `refused` requests were answered with an error,
    the latest with `last_error` for `last_error_reason`. `connections` are those open now on which it was seen.
    `asked_for_records` is set by a node that takes telemetry only.

    A topic's records do not hold everything: `connections`, `subscriptions`, `metrics`, `refused` and, where its writer
    did not know them, the port, `push_interval_ms`, `subscription_id` and `push_bytes` are None then. `broker` is the
    Kafka node that received its latest push and `partition` the topic's partition with its pushes; both None on a node
    that serves the client itself.
    """

    client_instance_id: str
    client_id: str
    client_software_name: str
    client_software_version: str
    principal: str
    client_source_address: str
    client_source_port: int | None
    listener: str
    connections: int | None
    state: str
    subscriptions: tuple[str, ...] | None
    metrics: tuple[str, ...] | None
    push_interval_ms: int | None
    subscription_id: int | None
    pushes: int
    push_bytes: int | None
    last_push_at: int | None
    last_seen_at: int
    refused: int | None
    last_error: str | None
    last_error_reason: str | None
    last_error_at: int | None
    broker: int | None = None
    partition: int | None = None
    asked_for_records: bool = False


def row_of(instance: ClientInstance, *, now_ms: int, now_us: int) -> ClientRow:
    """The row of an instance, given both clocks of one moment."""
    subscription = instance.subscription
    refusal = instance.last_refusal
    pushed_ms = instance.last_push_ms
    offset_ms = now_us // 1_000 - now_ms
    return ClientRow(
        instance.instance_id_text,
        instance.client_id,
        instance.client_software_name,
        instance.client_software_version,
        instance.principal_text,
        instance.client_address,
        instance.client_port,
        instance.listener_name,
        len(instance.gate.connections),
        state_of(instance, now_ms).value,
        subscription.names,
        subscription.metrics,
        subscription.push_interval_ms,
        instance.subscription_id,
        instance.pushes,
        instance.push_bytes,
        None if pushed_ms is None else 1_000 * (pushed_ms + offset_ms),
        1_000 * (instance.seen_ms + offset_ms),
        instance.refusals,
        None if refusal is None else refusal.error_code.name,
        None if refusal is None else refusal.reason,
        None if refusal is None else 1_000 * (instance.last_refusal_ms + offset_ms),
    )


class Described(Protocol):
    """The software of a client, as far as it has named it."""

    @property
    def client_software_name(self) -> str:
        """As the client names it, or `UNKNOWN_SOFTWARE`."""
        ...

    @property
    def client_software_version(self) -> str:
        """As the client names it, or `UNKNOWN_SOFTWARE`."""
        ...


def sender_key(row: ClientRow | PushRecord) -> SenderKey:
    """The sender, and the id that it uses."""
    return (row.client_instance_id, row.principal, row.client_id, row.client_source_address)


def row_key(row: ClientRow | PushRecord) -> RowKey:
    """What tells a row from all others of one listing."""
    return (*sender_key(row), row.client_software_name, row.client_software_version)


def key_among(sender: Hashable, client: Described, found: Mapping[Any, Described]) -> Hashable:
    """The key of a client among those that were found before.

    It is the sender's, unless a client of other software has that already. One that names no software is the same as
    any: franz-go before 1.22 names it on its first connection alone.

    Args:
        sender: the sender and the id that it uses.
        client: whose key is wanted.
        found: what has a key already.
    """
    software = client.client_software_name, client.client_software_version
    whole = (sender, *software)
    if whole in found:
        return whole
    first = found.get(sender)
    if first is None or UNKNOWN_SOFTWARE in (software[0], first.client_software_name):
        return sender
    return sender if software == (first.client_software_name, first.client_software_version) else whole


def with_software_of(row: ClientRow, other: ClientRow) -> ClientRow:
    """The row; if it names no software, with that of another row of the same client."""
    if row.client_software_name != UNKNOWN_SOFTWARE:
        return row
    name, version = other.client_software_name, other.client_software_version
    return row._replace(client_software_name=name, client_software_version=version)


class Listed(Protocol):
    """What a filter looks at; see `ClientInstance` for the meanings."""

    @property
    def instance_id(self) -> uuid.UUID:
        """The KIP-714 id."""
        ...

    @property
    def client_id(self) -> str:
        """The client id."""
        ...

    @property
    def client_software_name(self) -> str:
        """As the client names it."""
        ...

    @property
    def client_software_version(self) -> str:
        """As the client names it."""
        ...

    @property
    def principal_text(self) -> str:
        """The principal in Kafka's form."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFilter:
    """Which instances are asked for; what is empty asks for all. Texts match as a whole, or up to a `*` at the end.

    Attributes:
        instance_id: 0, or the id as an integer.
        client_id: for example `orders` or `orders-*`.
        software: a name, or name and version: `apache-kafka-java`, `apache-kafka-java/4.*`.
        principal: for example `User:alice`.
        states: any of them.
    """

    instance_id: int = 0
    client_id: str = ""
    software: str = ""
    principal: str = ""
    states: frozenset[str] = frozenset()

    @classmethod
    def of(cls, wanted: Mapping[str, Any]) -> "ClientFilter":
        """Reads what was asked for: `instance_id` in every form that clients log, `state` with commas.

        Raises:
            ValueError: one sentence on what is wrong, without a word of what was asked: it goes to strangers.
        """
        for key, value in wanted.items():
            if key not in FILTER_KEYS or not isinstance(value, str):
                raise ValueError(f"there is no such filter; filters are {', '.join(FILTER_KEYS)}")
        states = frozenset(part.strip() for part in wanted.get("state", "").split(",") if part.strip())
        if states - set(ClientState):
            raise ValueError(f"there is no such state; states are {', '.join(ClientState)}")
        return cls(
            instance_id=_parse_id(wanted.get("instance_id", "")),
            client_id=wanted.get("client_id", ""),
            software=wanted.get("software", ""),
            principal=wanted.get("principal", ""),
            states=states,
        )

    def accepts(self, instance: ClientInstance, now_ms: int) -> bool:
        """True if the instance is asked for, at `now_ms` [ms, monotonic]."""
        return self.fits(instance) and (not self.states or state_of(instance, now_ms).value in self.states)

    def fits(self, client: Listed) -> bool:
        """True if a client of any state is asked for."""
        if self.instance_id and client.instance_id.int != self.instance_id:
            return False
        if not _fits(self.client_id, client.client_id) or not _fits(self.principal, client.principal_text):
            return False
        return not self.software or self._fits_software(client)

    def _fits_software(self, client: Listed) -> bool:
        name = client.client_software_name
        return _fits(self.software, name if "/" not in self.software else f"{name}/{client.client_software_version}")


FILTER_KEYS: Final = ("instance_id", "client_id", "software", "principal", "state")


def _parse_id(text: str) -> int:
    if not text:
        return 0
    try:
        return parse_instance_id(text).int
    except ValueError:
        raise ValueError(
            "instance_id is no client instance id: it is 22 characters of base64, 32 hex digits, or a hyphenated UUID"
        ) from None


def _fits(wanted: str, text: str) -> bool:
    if not wanted:
        return True
    return text.startswith(wanted[:-1]) if wanted.endswith(WILDCARD) else text == wanted
