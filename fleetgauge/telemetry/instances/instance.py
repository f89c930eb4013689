"""State of one client instance between its requests."""

import uuid
from collections.abc import Mapping
from sys import intern
from typing import Final

from fleetgauge.base.presence import absent_after_ms
from fleetgauge.base.software import UNKNOWN_SOFTWARE
from fleetgauge.telemetry.instances.gate import Gate
from fleetgauge.telemetry.instances.metrics import InstanceMetrics
from fleetgauge.telemetry.instances.payload_faults import PayloadFaults
from fleetgauge.telemetry.instances.sender_bounds import Allowance
from fleetgauge.telemetry.plugin.api import RequestContext
from fleetgauge.telemetry.push_record import format_instance_id
from fleetgauge.telemetry.refusal import Refusal
from fleetgauge.telemetry.subscriptions.interval_scaling import IntervalScaling
from fleetgauge.telemetry.subscriptions.match import ClientMatchingParam, instance_id_forms
from fleetgauge.telemetry.subscriptions.resources import EffectiveSubscription
from fleetgauge.telemetry.subscriptions.subscription_id import subscription_id

_NOT_QUEUED: Final = 1 << 62

_KEPT_CLIENT_ID_CHARACTERS: Final = 1_024
_KEPT_SOFTWARE_CHARACTERS: Final = 256

MAX_MATCHED_CHARACTERS: Final = 1_024
"""Maximum length of a client id, software name or version that patterns of subscriptions are matched with."""


OtherSender = tuple[bytes, bytes, str, str]
"""Key of an instance with an id that another sender also uses: id, sender, software name, software version."""

InstanceKey = bytes | OtherSender


def kept_client_id(client_id: str) -> str:
    """Shortens a client id, which may have 32 KiB; clients of one connection stay distinguishable."""
    return client_id[:_KEPT_CLIENT_ID_CHARACTERS]


def other_sender(instance_id: bytes, context: RequestContext) -> OtherSender:
    """Returns the key of an instance with an id that another sender also uses."""
    name, version = context.client_software_name, context.client_software_version
    return instance_id, context.sender, name[:_KEPT_SOFTWARE_CHARACTERS], version[:_KEPT_SOFTWARE_CHARACTERS]


class ClientInstance:
    """The state of one client instance (KIP-714, Client identification; Kafka's `ClientMetricsInstance`).

    Counters are plain numbers to keep pushes cheap; `telemetry.instances.inventory` makes the rows for listings.

    Attributes:
        key: key in the cache: the bytes of the id, or an `OtherSender` if another sender used the id first. Bytes,
            since Python hashes integers without a secret, and untrusted clients choose ids
            (docs/decisions/013-instances-keyed-by-bytes-and-sender.md).
        sender: sender that the id is bound to, together with the software; see `RequestContext.sender`.
        principal: principal of the sender.
        instance_id: the KIP-714 id.
        instance_id_text: the id in Kafka's text form.
        principal_text: the principal in Kafka's form.
        client_id: of the latest Get or of the request that made the instance known; see `kept_client_id`.
        client_software_name, client_software_version: from the latest Get or the latest connection.
        client_address, client_port: peer of the latest request.
        listener_name: listener of the latest request.
        lost_connection: True if its last connection has ended; see `telemetry.instances.departed`.
        pushed_before: True if it had pushed before it departed and returned.
        gate: decides which request is due on each connection.
        subscription: effective subscription of the client.
        subscription_id: id that a push must have [signed int32].
        subscription_version: version of the configuration from which `subscription` was computed.
        connection_id: connection of the latest request; empty once it has ended.
        context: context of the latest request; one object for all requests of a client on a connection. Set by
            `comes_as`.
        deadline_ms: time at which the instance expires without another request [ms, monotonic].
        queued_second: its second in `telemetry.instances.expiry_queue`; later than any deadline before it is queued.
        place: its index in the cache's register; see `telemetry.instances.register`.
        pushes: number of accepted pushes in the push log.
        push_bytes: their payloads as received [B].
        last_push_ms: time of the latest one [ms, monotonic]; None before the first.
        refusals: number of refused requests.
        last_refusal: the latest refusal; None before the first.
        last_refusal_ms: time of the latest refusal [ms, monotonic].
        payload_faults: accepted payloads that are not well-formed; None if there are none.
        row_context: fields 3 to 14 of `PushRecord`, cached until the client, its connection or its subscription
            changes; None if not cached.
        metrics: metrics of this instance if a reporter needs them; otherwise None.
        pace: its state in telemetry quotas; None without such a quota.
        allowances: remaining allowances of its address and principal; see `telemetry.instances.sender_bounds`.
    """

    __slots__ = (
        "allowances",
        "client_address",
        "client_id",
        "client_port",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "context",
        "deadline_ms",
        "expiry_ms",
        "gate",
        "instance_id",
        "instance_id_text",
        "key",
        "last_push_ms",
        "last_refusal",
        "last_refusal_ms",
        "listener_name",
        "lost_connection",
        "metrics",
        "pace",
        "payload_faults",
        "place",
        "principal",
        "principal_text",
        "push_bytes",
        "pushed_before",
        "pushes",
        "queued_second",
        "refusals",
        "row_context",
        "sender",
        "subscription",
        "subscription_id",
        "subscription_version",
    )

    def __init__(
        self,
        instance_id: uuid.UUID,
        context: RequestContext,
        subscription: EffectiveSubscription,
        subscription_version: int,
        allowances: tuple[Allowance, ...],
    ) -> None:
        self.key: InstanceKey = instance_id.bytes
        self.sender = context.sender
        self.principal = context.principal
        self.instance_id = instance_id
        self.instance_id_text = format_instance_id(instance_id)
        self.principal_text = intern(str(context.principal))  # equal texts of many instances are one object
        self.client_software_name = self.client_software_version = UNKNOWN_SOFTWARE
        self.describe(context)
        self.gate = Gate()
        self.allowances = allowances
        self.place = -1
        self.lost_connection = False
        self.pushed_before = False
        self.pushes = 0
        self.push_bytes = 0
        self.last_push_ms: int | None = None
        self.refusals = 0
        self.last_refusal: Refusal | None = None
        self.last_refusal_ms = 0
        self.metrics: InstanceMetrics | None = None
        self.payload_faults: PayloadFaults | None = None
        self.pace: IntervalScaling | None = None
        self.connection_id = ""
        self.context = context
        self.row_context: tuple[object, ...] | None = None
        self.deadline_ms = 0
        self.queued_second = _NOT_QUEUED
        self.subscription_version = subscription_version
        self.subscription: EffectiveSubscription
        self._subscribe(subscription)

    @property
    def seen_ms(self) -> int:
        """Time of its latest request [ms, monotonic]."""
        return self.deadline_ms - self.expiry_ms

    def describe(self, context: RequestContext) -> None:
        """Copies the client's attributes from a request, for listings of clients."""
        self.client_id = kept_client_id(context.client_id)
        if context.client_software_name != UNKNOWN_SOFTWARE:
            self.client_software_name = intern(context.client_software_name[:_KEPT_SOFTWARE_CHARACTERS])
            self.client_software_version = intern(context.client_software_version[:_KEPT_SOFTWARE_CHARACTERS])
        self.client_address = context.client_address
        self.client_port = context.client_port
        self.listener_name = context.listener_name

    def is_of(self, context: RequestContext) -> bool:
        """True if the request comes from the sender that the instance is bound to.

        An unknown software matches any: franz-go before 1.22 sends its name on its first connection only.
        """
        if self.sender != context.sender:
            return False
        name = context.client_software_name
        if name == UNKNOWN_SOFTWARE or self.client_software_name == UNKNOWN_SOFTWARE:
            return True
        version = context.client_software_version
        return (
            name[:_KEPT_SOFTWARE_CHARACTERS] == self.client_software_name
            and version[:_KEPT_SOFTWARE_CHARACTERS] == self.client_software_version
        )

    def comes_as(self, context: RequestContext) -> None:
        """Sets the context of the latest request, which has another connection, client id or software than before."""
        self.context = context
        self.row_context = None

    def use_interval(self, now_ms: int) -> bool:
        """True if the client is known to keep to its interval; on an earlier connection, which counts once."""
        interval_ms = self.subscription.push_interval_ms
        if self.gate.has_waited(interval_ms, now_ms):
            return True
        before = self.pace
        if before is None or not before.had_waited(interval_ms, now_ms):
            return False
        before.previous_push_ms = None  # from now on the gate has the times
        return True

    def note_refusal(self, refusal: Refusal, now_ms: int) -> None:
        """Records that its latest request was refused at `now_ms` [ms, monotonic]."""
        self.gate.last_known_error = refusal.error_code
        self.refusals += 1
        self.last_refusal = refusal
        self.last_refusal_ms = now_ms

    def resubscribe(self, subscription: EffectiveSubscription, version: int) -> bool:
        """Sets the current subscription; True if it differs for the client.

        Only then the old subscription id becomes invalid and the gate is reset; an edit that does not affect the client
        changes nothing.
        """
        self.subscription_version = version
        self.row_context = None
        if subscription == self.subscription:
            # Equal for the client, but possibly from other guard rules or resources.
            self.subscription = subscription
            return False
        self._subscribe(subscription)
        self.gate.reopen()
        return True

    def _subscribe(self, subscription: EffectiveSubscription) -> None:
        self.subscription = subscription
        self.subscription_id = subscription_id(subscription.checksum, self.instance_id)
        self.expiry_ms = absent_after_ms(subscription.push_interval_ms)


def attributes_of(instance_id: uuid.UUID, context: RequestContext) -> Mapping[ClientMatchingParam, tuple[str, ...]]:
    """Values of the six selectors; the empty string for a missing one, as in Kafka.

    Values are cut to `MAX_MATCHED_CHARACTERS`: a client may send 32 KiB, for which RE2, although linear, takes a second
    with some patterns.
    """
    return {
        ClientMatchingParam.CLIENT_INSTANCE_ID: instance_id_forms(instance_id),
        ClientMatchingParam.CLIENT_ID: (context.client_id[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOFTWARE_NAME: (context.client_software_name[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOFTWARE_VERSION: (context.client_software_version[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOURCE_ADDRESS: (context.client_address,),
        ClientMatchingParam.CLIENT_SOURCE_PORT: (str(context.client_port),),
    }
