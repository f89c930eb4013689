"""Finds, creates and recovers the client instance of a request, and computes its subscription; part of Kafka's
`ClientMetricsManager`.

The subscription of the operator (`subscriptions`) is adapted to the client: the interval is capped for its software
(`interval_bound`) and lengthened while it exceeds a telemetry quota (`interval_scaling`), and metrics that its software
cannot send are removed (`client_guard`).
"""

import uuid
from collections.abc import Callable
from typing import Final

from fleetgauge.telemetry.instances.cache import InstanceCache
from fleetgauge.telemetry.instances.client_metrics import ClientMetrics
from fleetgauge.telemetry.instances.departed import DepartedClients
from fleetgauge.telemetry.instances.instance import ClientInstance, attributes_of, kept_client_id
from fleetgauge.telemetry.instances.sender_bounds import SenderBounds
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.subscriptions.client_guard import ClientGuard
from fleetgauge.telemetry.subscriptions.interval_bound import bounded_for, lengthened
from fleetgauge.telemetry.subscriptions.interval_scaling import IntervalScaling, TelemetryIntervalScaling
from fleetgauge.telemetry.subscriptions.resources import EffectiveSubscription, Subscriptions

LAST_RESERVED_ID: Final = 1
"""Highest id of Kafka's `Uuid.RESERVED`, 0 and 1, which are not assigned; 0 is null in the protocol."""


class KnownInstances:
    """Client instances of a node and their effective subscriptions. Times are monotonic [ms].

    Args:
        max_size: maximum number of cached instances.
        subscriptions: the operator's subscriptions.
        guard: rules for faulty client versions.
        metrics: metrics of instances.
        new_instance_id: generator of ids for clients without one.
        pace: interval scaling by telemetry quotas; None for none.
        bounds: limits per sender over all its instances.

    Attributes:
        cache: the instances.
        departed: instances removed from the cache: ended or vanished.
    """

    def __init__(
        self,
        max_size: int,
        subscriptions: Subscriptions,
        guard: ClientGuard,
        metrics: ClientMetrics,
        new_instance_id: Callable[[], uuid.UUID],
        pace: TelemetryIntervalScaling | None,
        bounds: SenderBounds,
    ) -> None:
        self._subscriptions = subscriptions
        self._guard = guard
        self._metrics = metrics
        self._new_instance_id = new_instance_id
        self._pace = pace
        self._bounds = bounds
        self.cache = InstanceCache(max_size, self._forgotten)
        self.departed = DepartedClients(max_size)

    def identify(self, client_instance_id: uuid.UUID | None, context: RequestContext) -> uuid.UUID:
        """Returns the id for the response to a Get: the client's own, the one known on its connection, or a new one."""
        if client_instance_id is not None and client_instance_id.int > LAST_RESERVED_ID:
            return client_instance_id
        client_id = kept_client_id(context.client_id)
        for instance in self.cache.on_connection(context.connection_id):
            same_client = instance.principal == context.principal and instance.client_id == client_id
            if same_client and not instance.gate.has_ended_on(context.connection_id):
                return instance.instance_id
        return self._unused_id()

    def _unused_id(self) -> uuid.UUID:
        """Returns a new id with a text that does not begin with `-`: as in Kafka, so that it is usable in commands."""
        while True:
            candidate = self._new_instance_id()
            leading_dash = candidate.int >> 122 == 0b111110
            if candidate.int > LAST_RESERVED_ID and not leading_dash and not self.cache.contains_id(candidate.bytes):
                return candidate

    def of(
        self, instance_id: uuid.UUID, context: RequestContext, now_ms: int, *, is_last: bool = False
    ) -> ClientInstance | None:
        """Returns the instance of a request with its current subscription; creates or recovers an unknown one.

        A terminating push (`is_last`) is not refused because its interval has changed. Returns None if the instance is
        unknown and its sender has created too many recently.
        """
        version = self._subscriptions.version
        instance = self.cache.get(instance_id.int.to_bytes(16), context)
        if instance is None:
            instance = self._make(instance_id, context, now_ms)
            if instance is None:
                return None
        elif instance.subscription_version != version or (
            not is_last and self._has_other_pace(instance, context, now_ms)
        ):
            wanted = self._wanted_of(instance_id, context)
            if instance.pace is not None:
                instance.pace.base_interval_ms = wanted.push_interval_ms
            instance.resubscribe(self._effective(wanted, instance.pace, context), version)
        if instance.context is not context:
            if instance.connection_id != context.connection_id:
                instance.describe(context)
            self.cache.move(instance, context, now_ms)
        self.cache.touch(instance, now_ms)
        return instance

    def _make(self, instance_id: uuid.UUID, context: RequestContext, now_ms: int) -> ClientInstance | None:
        allowances = self._bounds.take_in(context, now_ms)
        if allowances is None:
            return None
        wanted = self._wanted_of(instance_id, context)
        pace = None if self._pace is None else self._pace.begin(instance_id, context, wanted.push_interval_ms, now_ms)
        subscription = self._effective(wanted, pace, context)
        version = self._subscriptions.version
        instance = ClientInstance(instance_id, context, subscription, version, allowances)
        instance.pace = pace
        self.cache.add(instance, context, now_ms)
        self.cache.move(instance, context, now_ms)
        self.departed.returned(instance)
        self._metrics.admit(instance, now_ms)
        return instance

    def expire(self, now_ms: int) -> int:
        """Removes instances without a request for `max(60 s, 3 x push interval)`; returns their number."""
        if self._pace is not None:
            self._pace.expire(now_ms)
        self.departed.expire(now_ms)
        return self.cache.expire(now_ms)

    def disconnect(self, connection_id: str, now_ms: int) -> int:
        """Removes a closed connection and the instances without another one; returns the number of these instances."""
        self.cache.expire(now_ms)
        return self.cache.disconnect(connection_id)

    def _forgotten(self, instance: ClientInstance) -> None:
        self._metrics.dismiss(instance)
        if self._pace is not None:
            self._pace.leave(instance)
        # An evicted or expired instance still has its connections here: the cache detaches them after this call.
        self.departed.add(instance, lost_connection=not instance.gate.connections)

    def _has_other_pace(self, instance: ClientInstance, context: RequestContext, now_ms: int) -> bool:
        """True if a telemetry quota has changed the client's interval."""
        pace = self._pace
        if pace is None or not (pace.enabled or instance.pace is not None):
            return False
        return pace.changes_interval(instance, context, instance.subscription.push_interval_ms, now_ms)

    def _wanted_of(self, instance_id: uuid.UUID, context: RequestContext) -> EffectiveSubscription:
        """Returns the operator's subscription for the client, with the interval capped for its software."""
        subscription = self._subscriptions.effective_for(attributes_of(instance_id, context))
        return bounded_for(subscription, context.client_software_name, context.client_software_version)

    def _effective(
        self, wanted: EffectiveSubscription, pace: IntervalScaling | None, context: RequestContext
    ) -> EffectiveSubscription:
        """Returns the effective subscription: interval scaled by its quota, metrics adapted to its software."""
        name, version = context.client_software_name, context.client_software_version
        if pace is not None and pace.factor > 1:
            wanted = bounded_for(lengthened(wanted, pace.factor), name, version)
        return self._guard.guarded(wanted, name, version)
