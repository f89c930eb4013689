"""One client instance: what this node remembers of a client between its requests."""

import uuid
from collections.abc import Mapping
from typing import Final

from telemetry.gate import Gate
from telemetry.match import ClientMatchingParam, instance_id_forms
from telemetry.plugin_api import RequestContext
from telemetry.push_record import format_instance_id
from telemetry.subscription_id import subscription_id
from telemetry.subscriptions import EffectiveSubscription
from wire.principal import KafkaPrincipal

MIN_EXPIRY_MS: Final = 60_000
"""An instance is remembered for at least so long after its latest request [ms]."""

EXPIRY_INTERVALS: Final = 3

_KEPT_CLIENT_ID_CHARACTERS: Final = 1_024

InstanceKey = tuple[int, str, str]
"""The id as an integer, then the principal's type and name: an id is bound to whom it was given."""


def kept_client_id(client_id: str) -> str:
    """What is remembered of a client id, which may be 32 KiB: enough to tell clients of one connection apart."""
    return client_id[:_KEPT_CLIENT_ID_CHARACTERS]


def instance_key(instance_id: uuid.UUID, principal: KafkaPrincipal) -> InstanceKey:
    """The key under which an instance is kept. Plain values, since they hash five times as fast."""
    return (instance_id.int, principal.principal_type, principal.name)


class ClientInstance:
    """The state of one client instance (KIP-714, Client identification; chapter 19, "Instance lifecycle").

    Attributes:
        key: see `instance_key`.
        instance_id: the KIP-714 id.
        instance_id_text: the id as Kafka shows it.
        principal_text: the principal in Kafka's form.
        client_id: of the latest Get or of the request that made the instance known; see `kept_client_id`.
        gate: what is due.
        subscription: what the client is asked for.
        subscription_id: what a push has to name [signed int32].
        subscription_version: of the configuration under which `subscription` was worked out.
        connection_id: of the latest request.
        connections: the latest open connections on which the instance was seen, the latest last.
        deadline_ms: when the instance is forgotten, unless a request comes [ms, monotonic].
        queued_deadline_ms: the deadline under which the expiry queue has it.
    """

    __slots__ = (
        "client_id",
        "connection_id",
        "connections",
        "deadline_ms",
        "expiry_ms",
        "gate",
        "instance_id",
        "instance_id_text",
        "key",
        "principal_text",
        "queued_deadline_ms",
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
    ) -> None:
        self.key = instance_key(instance_id, context.principal)
        self.instance_id = instance_id
        self.instance_id_text = format_instance_id(instance_id)
        self.principal_text = str(context.principal)
        self.client_id = kept_client_id(context.client_id)
        self.gate = Gate()
        self.connection_id = ""
        self.connections: tuple[str, ...] = ()
        self.deadline_ms = 0
        self.queued_deadline_ms = 0
        self.subscription_version = subscription_version
        self.subscription: EffectiveSubscription
        self._subscribe(subscription)

    def resubscribe(self, subscription: EffectiveSubscription, version: int) -> bool:
        """Takes what the client is asked for now; True if that is something else than before.

        Only then its old subscription id becomes unknown and its gate opens; an edit that does not concern the client
        leaves everything as it is.
        """
        self.subscription_version = version
        if subscription == self.subscription:
            self.subscription = subscription  # the same to the client, perhaps under other rules of the guard
            return False
        self._subscribe(subscription)
        self.gate.reopen()
        return True

    def _subscribe(self, subscription: EffectiveSubscription) -> None:
        self.subscription = subscription
        self.subscription_id = subscription_id(subscription.checksum, self.instance_id)
        self.expiry_ms = max(MIN_EXPIRY_MS, EXPIRY_INTERVALS * subscription.push_interval_ms)


def attributes_of(instance_id: uuid.UUID, context: RequestContext) -> Mapping[ClientMatchingParam, tuple[str, ...]]:
    """What the six selectors look at; a client that says nothing has the empty string, as in Kafka."""
    return {
        ClientMatchingParam.CLIENT_INSTANCE_ID: instance_id_forms(instance_id),
        ClientMatchingParam.CLIENT_ID: (context.client_id,),
        ClientMatchingParam.CLIENT_SOFTWARE_NAME: (context.client_software_name,),
        ClientMatchingParam.CLIENT_SOFTWARE_VERSION: (context.client_software_version,),
        ClientMatchingParam.CLIENT_SOURCE_ADDRESS: (context.client_address,),
        ClientMatchingParam.CLIENT_SOURCE_PORT: (str(context.client_port),),
    }
