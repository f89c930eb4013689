"""One client instance: what this node remembers of a client between its requests."""

import uuid
from collections.abc import Mapping
from typing import Final

from telemetry.instances.gate import Gate
from telemetry.instances.metrics import InstanceMetrics
from telemetry.instances.sender_bounds import Allowance
from telemetry.plugin.api import RequestContext
from telemetry.push_record import format_instance_id
from telemetry.refusal import Refusal
from telemetry.subscriptions.interval_scaling import Pace
from telemetry.subscriptions.match import ClientMatchingParam, instance_id_forms
from telemetry.subscriptions.resources import EffectiveSubscription
from telemetry.subscriptions.subscription_id import subscription_id
from wire.software import UNKNOWN_SOFTWARE

MIN_EXPIRY_MS: Final = 60_000
"""An instance is remembered for at least so long after its latest request [ms]."""

EXPIRY_INTERVALS: Final = 3
_NOT_QUEUED: Final = 1 << 62

_KEPT_CLIENT_ID_CHARACTERS: Final = 1_024
_KEPT_SOFTWARE_CHARACTERS: Final = 256
_MAX_SHARED_TEXTS: Final = 4_096
_MAX_SHARED_CHARACTERS: Final = 256

MAX_MATCHED_CHARACTERS: Final = 1_024
"""Of a client id, a software name or version that a subscription's patterns are matched with."""


OtherSender = tuple[bytes, bytes, str, str]
"""Id, sender, software name and version of an instance whose id another sender uses, too."""

InstanceKey = bytes | OtherSender


def kept_client_id(client_id: str) -> str:
    """What is remembered of a client id, which may be 32 KiB: enough to tell clients of one connection apart."""
    return client_id[:_KEPT_CLIENT_ID_CHARACTERS]


def other_sender(instance_id: bytes, context: RequestContext) -> OtherSender:
    """The key of an instance whose id another sender uses, too."""
    name, version = context.client_software_name, context.client_software_version
    return instance_id, context.sender, name[:_KEPT_SOFTWARE_CHARACTERS], version[:_KEPT_SOFTWARE_CHARACTERS]


class SharedTexts:
    """Equal texts of many instances (software, principal) kept once. Bounded: what is long or comes later is kept as
    it is.

    >>> share = SharedTexts()
    >>> share("".join(["4.4", ".0"])) is share("".join(["4.", "4.0"]))
    True
    """

    __slots__ = ("_texts",)

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """The first text that was equal to `text`."""
        if len(self._texts) < _MAX_SHARED_TEXTS and len(text) <= _MAX_SHARED_CHARACTERS:
            return self._texts.setdefault(text, text)
        return self._texts.get(text, text)


class ClientInstance:
    """The state of one client instance (KIP-714, Client identification; chapter 19, "Instance lifecycle").

    The counters are plain numbers, so that a push costs no more for them; what they add up to stands in
    `telemetry.instances.inventory`.

    Attributes:
        key: under which the cache has it: the bytes of the id, or an `OtherSender` if another sender of it was there
            first. Bytes, since Python hashes integers without a secret, and strangers choose ids.
        sender: whom the id is bound to, beside the software; see `RequestContext.sender`.
        principal: of the sender.
        instance_id: the KIP-714 id.
        instance_id_text: the id as Kafka shows it.
        principal_text: the principal in Kafka's form.
        client_id: of the latest Get or of the request that made the instance known; see `kept_client_id`.
        client_software_name, client_software_version: as the latest Get or the latest connection had them.
        client_address, client_port: of the latest request.
        listener_name: of the latest request.
        lost_connection: its last connection has ended; see `telemetry.instances.departed`.
        pushed_before: it had pushed before it departed and came back.
        gate: what is due, on which of the open connections.
        subscription: what the client is asked for.
        subscription_id: what a push has to name [signed int32].
        subscription_version: of the configuration under which `subscription` was worked out.
        connection_id: of the latest request; empty once that connection has ended.
        context: of the latest request; the same object for all requests of one client on a connection. Set by
            `comes_as`.
        deadline_ms: when the instance is forgotten, unless a request comes [ms, monotonic].
        queued_second: under which `telemetry.instances.expiry_queue` has it; beyond every deadline before it has it.
        place: where the cache's register has it; see `telemetry.instances.register`.
        pushes: accepted pushes that are in the push log.
        push_bytes: their payloads as received [B].
        last_push_ms: when the latest of them came [ms, monotonic]; None before the first.
        refusals: refused requests.
        last_refusal: the latest of them; None before the first.
        last_refusal_ms: when that was [ms, monotonic].
        row_context: fields 3 to 14 of `PushRecord`, the same for every push until the client, its connection or its
            subscription changes; None until they are worked out.
        metrics: metrics of its own, where they were asked for; else None.
        pace: what it has to do with telemetry quotas; None where there never was one.
        allowances: what its address and principal may still send; see `telemetry.instances.sender_bounds`.
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
        share: SharedTexts,
        allowances: tuple[Allowance, ...],
    ) -> None:
        self.key: InstanceKey = instance_id.bytes
        self.sender = context.sender
        self.principal = context.principal
        self.instance_id = instance_id
        self.instance_id_text = format_instance_id(instance_id)
        self.principal_text = share(str(context.principal))
        self.client_software_name = self.client_software_version = UNKNOWN_SOFTWARE
        self.describe(context, share)
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
        self.pace: Pace | None = None
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
        """When its latest request came [ms, monotonic]."""
        return self.deadline_ms - self.expiry_ms

    def describe(self, context: RequestContext, share: SharedTexts) -> None:
        """Takes over what a request says of its client, for those who ask who is there."""
        self.client_id = kept_client_id(context.client_id)
        if context.client_software_name != UNKNOWN_SOFTWARE:
            self.client_software_name = share(context.client_software_name[:_KEPT_SOFTWARE_CHARACTERS])
            self.client_software_version = share(context.client_software_version[:_KEPT_SOFTWARE_CHARACTERS])
        self.client_address = context.client_address
        self.client_port = context.client_port
        self.listener_name = context.listener_name

    def is_of(self, context: RequestContext) -> bool:
        """True if the request is of the sender that the instance is bound to.

        A connection need not name its software: franz-go before 1.22 does so on its first one alone.
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
        """Its latest request is of another connection, client id or software than the one before."""
        self.context = context
        self.row_context = None

    def note_refusal(self, refusal: Refusal, now_ms: int) -> None:
        """Its latest request was refused, at `now_ms` [ms, monotonic]."""
        self.gate.last_known_error = refusal.error_code
        self.refusals += 1
        self.last_refusal = refusal
        self.last_refusal_ms = now_ms

    def resubscribe(self, subscription: EffectiveSubscription, version: int) -> bool:
        """Takes what the client is asked for now; True if that is something else than before.

        Only then its old subscription id becomes unknown and its gate opens; an edit that does not concern the client
        leaves everything as it is.
        """
        self.subscription_version = version
        self.row_context = None
        if subscription == self.subscription:
            # The same to the client, perhaps under other rules of the guard or from other resources.
            self.subscription = subscription
            return False
        self._subscribe(subscription)
        self.gate.reopen()
        return True

    def _subscribe(self, subscription: EffectiveSubscription) -> None:
        self.subscription = subscription
        self.subscription_id = subscription_id(subscription.checksum, self.instance_id)
        self.expiry_ms = max(MIN_EXPIRY_MS, EXPIRY_INTERVALS * subscription.push_interval_ms)


def attributes_of(instance_id: uuid.UUID, context: RequestContext) -> Mapping[ClientMatchingParam, tuple[str, ...]]:
    """What the six selectors look at; a client that says nothing has the empty string, as in Kafka.

    Of a longer text its first `MAX_MATCHED_CHARACTERS`: a client may send 32 KiB, for which RE2, linear as it is, takes
    a second with some patterns.
    """
    return {
        ClientMatchingParam.CLIENT_INSTANCE_ID: instance_id_forms(instance_id),
        ClientMatchingParam.CLIENT_ID: (context.client_id[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOFTWARE_NAME: (context.client_software_name[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOFTWARE_VERSION: (context.client_software_version[:MAX_MATCHED_CHARACTERS],),
        ClientMatchingParam.CLIENT_SOURCE_ADDRESS: (context.client_address,),
        ClientMatchingParam.CLIENT_SOURCE_PORT: (str(context.client_port),),
    }
