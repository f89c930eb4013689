"""Listing of client instances: one row per instance that a node knows, with its state, and filters.

No sockets, no clock: rows are made on the listener's loop in slices, and read by other threads.
"""

import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from fleetgauge.base.software import UNKNOWN_SOFTWARE
from fleetgauge.telemetry.instances.client_state import ClientState, judged
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.instances.payload_faults import PayloadFaults
from fleetgauge.telemetry.push_record import PushRecord, parse_instance_id

WILDCARD: Final = "*"

SenderKey = tuple[str, str, str, str]
"""Instance id, principal, client id and source address: see `RequestContext.sender`."""

RowKey = tuple[str, str, str, str, str, str]
"""A `SenderKey` with the software's name and version; unique in a listing."""


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
    """One instance. Times are wall times [us since the epoch], accurate to some ms; None for events that have not
    happened.

    `metrics` are its subscribed prefixes, `subscriptions` the client-metrics resources that match it. `pushes` counts
    those in the push log, `push_bytes` their payloads as received. `refused` counts requests answered with an error;
    `last_error` and `last_error_reason` describe the latest. `connections` are its open connections.
    `asked_for_records` is set by a node that serves only telemetry.

    Records of a topic lack some of it: `connections`, `subscriptions`, `metrics`, `refused` are None then, and so are
    the port, `push_interval_ms`, `subscription_id` and `push_bytes` if the writer of the record did not know them.
    `malformed` counts accepted pushes whose payload is not well-formed OTLP; `malformed_reason`, `malformed_detail` and
    `malformed_at` describe the latest.

    `broker` is the Kafka node that received the latest push, `partition` the topic's partition with its pushes; both
    are None on a node that serves the client itself.
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
    malformed: int = 0
    malformed_reason: str | None = None
    malformed_detail: str | None = None
    malformed_at: int | None = None


_Row = TypeVar("_Row", ClientRow, PushRecord)


def row_of(instance: ClientInstance, *, now_ms: int, now_us: int) -> ClientRow:
    """Returns the row of an instance; both clocks must be of the same moment."""
    subscription = instance.subscription
    refusal = instance.last_refusal
    pushed_ms = instance.last_push_ms
    offset_ms = now_us // 1_000 - now_ms
    row = ClientRow(
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
    return row if instance.payload_faults is None else with_faults(row, instance.payload_faults, offset_ms)


def with_faults(row: ClientRow, faults: PayloadFaults, offset_ms: int) -> ClientRow:
    """Returns the row of a client with malformed payloads; `offset_ms` is added to their times for wall time."""
    return row._replace(
        malformed=faults.pushes,
        malformed_reason=faults.reason,
        malformed_detail=faults.detail,
        malformed_at=1_000 * (faults.last_ms + offset_ms),
    )


class Described(Protocol):
    """The software of a client, as far as known."""

    @property
    def client_software_name(self) -> str:
        """Software name as sent by the client, or `UNKNOWN_SOFTWARE`."""

    @property
    def client_software_version(self) -> str:
        """Software version as sent by the client, or `UNKNOWN_SOFTWARE`."""


def sender_key(row: ClientRow | PushRecord) -> SenderKey:
    """Returns the sender and its instance id."""
    return (row.client_instance_id, row.principal, row.client_id, row.client_source_address)


def row_key(row: ClientRow | PushRecord) -> RowKey:
    """Returns the unique key of a row in a listing."""
    return (*sender_key(row), row.client_software_name, row.client_software_version)


def key_among(sender: Hashable, client: Described, known: Mapping[Any, Described]) -> Hashable:
    """Returns the key of a client in `found`.

    It is the sender's key, unless a client with other software has it already. Unknown software matches any: franz-go
    before 1.22 sends its name on its first connection only.

    Args:
        sender: the sender and its instance id.
        client: the client to find a key for.
        known: clients by key.
    """
    software = client.client_software_name, client.client_software_version
    whole = (sender, *software)
    if whole in known:
        return whole
    first = known.get(sender)
    if first is None or UNKNOWN_SOFTWARE in (software[0], first.client_software_name):
        return sender
    return sender if software == (first.client_software_name, first.client_software_version) else whole


def with_software_of(row: _Row, other: _Row) -> _Row:
    """Returns the row or record; unknown software is filled in from another one of the same client."""
    if row.client_software_name != UNKNOWN_SOFTWARE:
        return row
    name, version = other.client_software_name, other.client_software_version
    return row._replace(client_software_name=name, client_software_version=version)


class Listed(Described, Protocol):
    """Attributes that a filter reads; see `ClientInstance` for their meanings."""

    @property
    def instance_id(self) -> uuid.UUID:
        """The KIP-714 id."""

    @property
    def client_id(self) -> str:
        """The client id."""

    @property
    def principal_text(self) -> str:
        """The principal in Kafka's form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFilter:
    """Filter of instances; empty fields match all. Texts must be equal, or have the prefix before a `*` at the end.

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
        """Parses a filter: `instance_id` in any form that clients log, `state` separated by commas.

        Raises:
            ValueError: the problem in one sentence, without the input, since it is shown to untrusted callers.
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
        """True if the instance matches at `now_ms` [ms, monotonic]."""
        return self.fits(instance) and (not self.states or state_of(instance, now_ms).value in self.states)

    def fits(self, client: Listed) -> bool:
        """True if the client matches, apart from its state."""
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
            "instance_id is not a client instance id: use 22 characters of base64, 32 hex digits, or a hyphenated UUID"
        ) from None


def _fits(wanted: str, text: str) -> bool:
    if not wanted:
        return True
    return text.startswith(wanted[:-1]) if wanted.endswith(WILDCARD) else text == wanted
