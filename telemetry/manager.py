"""Kafka's `ClientMetricsManager`: answers GetTelemetrySubscriptions and judges PushTelemetry.

Thin: what is due is `gate`'s, who asks and what it is asked for `known_instances`'. No sockets, no clock, no threads:
everything is called on the listener's loop, with the time.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from base.errors import ErrorCode, InvalidRecordError, TelemetryTooLargeError
from quotas.metrics import Metrics
from telemetry.accepted_push import AcceptedPush
from telemetry.catalogue.known_clients import SHIPPED
from telemetry.catalogue.prefix_advice import PrefixAdvice
from telemetry.client_metrics import ClientMetrics
from telemetry.codecs import CompressionType, decompressors
from telemetry.instances.departed import DepartedClients
from telemetry.instances.gate import Turn
from telemetry.instances.instance import ClientInstance
from telemetry.instances.known import LAST_RESERVED_ID, KnownInstances
from telemetry.instances.register import InstanceRegister
from telemetry.instances.sender_bounds import TOKEN, SenderBounds
from telemetry.labels import LabelBound
from telemetry.messages import GetTelemetrySubscriptionsResult, PushRequest
from telemetry.plugin import ClientTelemetryExporterPlugin, ClientTelemetryPayload, RequestContext
from telemetry.push_record import SCHEMA_VERSION, PushIds, PushRecord
from telemetry.refusal import (
    AFTER_TERMINATING,
    BROKEN_COMPRESSION,
    GET_TOO_EARLY,
    INFLATED,
    MALFORMED_METRICS,
    NULL_INSTANCE_ID,
    OVER_QUOTA,
    PUSH_TOO_EARLY,
    TOO_LARGE,
    TOO_LARGE_DECOMPRESSED,
    TOO_MANY_BYTES,
    TOO_MANY_INSTANCES,
    UNKNOWN_SUBSCRIPTION,
    UNREADABLE,
    UNSUPPORTED_COMPRESSION,
    Refusal,
    RefusalCounts,
)
from telemetry.settings import ClientMetricsSettings
from telemetry.subscriptions.client_guard import ClientGuard, GuardRule
from telemetry.subscriptions.interval_scaling import TelemetryPace
from telemetry.subscriptions.resources import Subscriptions
from telemetry.validate import validate_metrics

__all__ = [
    "AcceptedPush",
    "ClientMetricsManager",
    "ClientMetricsSettings",
    "GetTelemetrySubscriptionsResult",
    "PushRequest",
]

_ANY_RATIO_BYTES: Final = 1 << 20
"""Decompressed payloads up to here are checked whatever their compression ratio: that takes a few ms [B]."""


class ClientMetricsManager:
    """The broker's side of KIP-714 for one node. See the module's head; not for several threads.

    Args:
        settings: limits and defaults.
        node_id: of this node, in every push record.
        cluster_id: of this node's cluster, in every push record.
        metrics: where the group `client-metrics` is registered.
        push_ids: makes the records' ids.
        plugin: the receivers; None is none.
        new_instance_id: makes ids for clients that bring none.
        guard_rules: of the client guard.
        pace: the telemetry quotas; None is none.
    """

    def __init__(
        self,
        settings: ClientMetricsSettings,
        *,
        node_id: int,
        cluster_id: str,
        metrics: Metrics,
        push_ids: PushIds,
        plugin: ClientTelemetryExporterPlugin | None = None,
        new_instance_id: Callable[[], uuid.UUID] = uuid.uuid4,
        guard_rules: Iterable[GuardRule] = SHIPPED,
        pace: TelemetryPace | None = None,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._push_ids = push_ids
        self._plugin = ClientTelemetryExporterPlugin() if plugin is None else plugin
        self._subscriptions = Subscriptions(settings.default_interval_ms)
        self._guard = ClientGuard(guard_rules)
        self._pace = pace
        self._advice = PrefixAdvice()
        self._refusals = RefusalCounts()
        self._stats = ClientMetrics(metrics, lambda: len(self._instances.cache), settings.instance_metrics_max)
        self._bounds = SenderBounds(settings.sender_limits)
        self._instances = KnownInstances(
            settings.cache_max_size, self._subscriptions, self._guard, self._stats, new_instance_id, pace, self._bounds
        )
        self._plugin.attach(self._stats)
        self._label = LabelBound(settings.max_label_bytes)
        accepted = {CompressionType.NONE, *settings.compression_types}
        functions = decompressors(settings.telemetry_max_decompressed_bytes)
        self._codecs = {int(each): (each.label, functions[each]) for each in accepted}

    # Requests

    def process_get_telemetry_subscriptions(
        self, client_instance_id: uuid.UUID | None, context: RequestContext, *, now_ms: int
    ) -> GetTelemetrySubscriptionsResult:
        """Answers a Get: who the client is, what it is asked for, and how it may send it.

        A null id is answered with the id known on the connection, else with a new one; an unknown id is kept, since
        another node gave it (KIP-714, Client behavior).

        Args:
            client_instance_id: None on a client's first request.
            context: who asks.
            now_ms: monotonic time [ms].
        """
        instance_id = self._instances.identify(client_instance_id, context)
        instance = self._instances.of(instance_id, context, now_ms)
        if instance is None:
            self._refusals.add(TOO_MANY_INSTANCES)
            return GetTelemetrySubscriptionsResult(
                error_code=TOO_MANY_INSTANCES.error_code, client_instance_id=instance_id
            )
        self._instances.describe(instance, context)
        gate = instance.gate
        if not gate.may_get(instance.subscription.push_interval_ms, now_ms):
            error_code = self._refuse_early(GET_TOO_EARLY, instance, now_ms)
            return GetTelemetrySubscriptionsResult(error_code=error_code, client_instance_id=instance_id)
        gate.record_get(now_ms)
        return self._subscription_result(instance)

    def process_push_telemetry(
        self, request: PushRequest, context: RequestContext, *, now_ms: int, received_at_us: int
    ) -> AcceptedPush | ErrorCode:
        """Judges a push, in DESIGN's order, and hands an accepted one to the receivers.

        Args:
            request: the push; its instance need not be known here, only its subscription id has to be right.
            context: who pushes.
            now_ms: monotonic time [ms].
            received_at_us: wall time [us since the epoch].

        Returns:
            An error code, to be answered now; or the accepted push, to be logged and then answered. Whoever logs it
            calls its `logged` or `not_logged`.
        """
        instance_id = request.client_instance_id
        if instance_id is None or instance_id.int <= LAST_RESERVED_ID:
            self._refusals.add(NULL_INSTANCE_ID)
            return NULL_INSTANCE_ID.error_code
        terminating = request.terminating
        instance = self._instances.of(instance_id, context, now_ms, is_last=terminating)
        if instance is None:
            self._refusals.add(TOO_MANY_INSTANCES)
            return TOO_MANY_INSTANCES.error_code
        gate = instance.gate
        if gate.seat.is_terminated:
            return self._refuse(AFTER_TERMINATING, instance, now_ms)
        is_due = gate.may_push(instance.subscription.push_interval_ms, now_ms)
        if not is_due and not (terminating and gate.may_end_early):
            return self._refuse_early(PUSH_TOO_EARLY, instance, now_ms)
        over = self._over_limits(instance, context, terminating, now_ms)
        turn = gate.take_turn(now_ms, terminating=terminating, is_due=is_due)
        checked = self._check(request, instance, over)
        if isinstance(checked, Refusal):
            return self._refuse_push(checked, instance, turn)
        return self._accept(request, context, instance, turn, checked, received_at_us)

    # Configuration

    def update_subscription(self, name: str, properties: Mapping[str, str]) -> None:
        """Sets the client-metrics resource `name`; empty `properties` remove it.

        Raises:
            InvalidConfigError: with Kafka's texts, which its tools print; nothing is changed then.
        """
        self._subscriptions.update(name, properties)
        self._advice.review(self._subscriptions.requested_prefixes())

    def replace_subscriptions(self, resources: Mapping[str, Mapping[str, str]]) -> None:
        """Sets all client-metrics resources at once, as after rereading a file.

        Raises:
            InvalidConfigError: one of them is bad; nothing is changed then.
        """
        self._subscriptions.replace(resources)
        self._advice.review(self._subscriptions.requested_prefixes())

    def replace_guard_rules(self, rules: Iterable[GuardRule]) -> None:
        """Sets the rules of the client guard; to a client whose subscription they change, that is an edit of it."""
        if self._guard.install(rules):
            self._subscriptions.reevaluate()

    def list_client_metrics_resources(self) -> tuple[str, ...]:
        """The names of all client-metrics resources, sorted."""
        return self._subscriptions.names()

    def describe(self, name: str) -> Mapping[str, str]:
        """The configured properties of a client-metrics resource; empty for an unknown name."""
        return self._subscriptions.properties(name)

    # Life of instances

    def connection_disconnected(self, connection_id: str, *, now_ms: int) -> int:
        """Forgets a closed connection and the instances that have no other; returns how many those are."""
        return self._instances.disconnect(connection_id, now_ms)

    def expire(self, now_ms: int) -> int:
        """Forgets instances of which nothing came for `max(60 s, 3 x push interval)`; returns how many.

        To be called now and then; a late call only keeps them longer.
        """
        return self._instances.expire(now_ms)

    @property
    def has_receivers(self) -> bool:
        """True if any reporter receives pushes, besides the push log."""
        return not self._plugin.is_empty

    @property
    def instance_count(self) -> int:
        """Client instances remembered now."""
        return len(self._instances.cache)

    def close(self) -> None:
        """Forgets every instance and unregisters the metrics."""
        self._instances.cache.clear()
        self._stats.close()

    # Figures

    def refusals(self) -> dict[str, dict[str, int]]:
        """Refused requests by error code name, then by reason."""
        return self._refusals.snapshot()

    def counters(self) -> dict[str, int]:
        """What became of instances and labels, for `fleetgauge status`."""
        return {
            "instances": len(self._instances.cache),
            "instances_evicted": self._instances.cache.evicted,
            "instances_expired": self._instances.cache.expired,
            "instances_vanished": self._instances.departed.vanished,
            "instances_ended": self._instances.departed.ended,
            "instance_id_clashes": self._instances.cache.clashes,
            "labels_truncated": self._label.truncated,
            "instances_with_metrics": self._stats.instances,
            "instances_without_metrics": self._stats.left_out,
            "instances_slowed": 0 if self._pace is None else self._pace.slowed,
            "interval_changes": 0 if self._pace is None else self._pace.changes,
        }

    def guard_counters(self) -> dict[str, dict[str, str | int]]:
        """What the client guard did, by rule; see `ClientGuard.counters`."""
        return self._guard.counters()

    def unmatched_prefixes(self) -> dict[str, dict[str, str]]:
        """Prefixes under which no known client has a metric, by resource; see `PrefixAdvice.unmatched`."""
        return self._advice.unmatched

    def client_metrics(self) -> dict[str, float]:
        """Kafka's group `client-metrics` in total, by metric name; NaN where nothing was recorded of late."""
        return self._stats.values()

    @property
    def register(self) -> InstanceRegister:
        """The instances that are remembered, for who goes through them in slices."""
        return self._instances.cache.register

    @property
    def departed(self) -> DepartedClients:
        """The instances that are no longer remembered, but listed for a while: ended or vanished."""
        return self._instances.departed

    def plugin_errors(self) -> dict[str, int]:
        """Failed exports by reporter, for `fleetgauge status`."""
        return self._plugin.errors()

    # Steps

    def _subscription_result(self, instance: ClientInstance) -> GetTelemetrySubscriptionsResult:
        settings = self._settings
        subscription = instance.subscription
        announced = subscription.compression_types
        if announced is None:
            announced = settings.compression_types
        return GetTelemetrySubscriptionsResult(
            error_code=ErrorCode.NONE,
            client_instance_id=instance.instance_id,
            subscription_id=instance.subscription_id,
            accepted_compression_types=tuple(
                int(each) for each in announced if each in self._codecs and each != CompressionType.NONE
            ),
            push_interval_ms=subscription.push_interval_ms,
            telemetry_max_bytes=settings.telemetry_max_bytes,
            delta_temporality=settings.delta_temporality,
            requested_metrics=subscription.metrics,
        )

    def _over_limits(
        self, instance: ClientInstance, context: RequestContext, terminating: bool, now_ms: int
    ) -> Refusal | None:
        """The refusal of a push that a telemetry quota, or what its sender may send in all, has no room for."""
        pace = self._pace
        if pace is not None and pace.enabled and not self._keeps_pace(pace, instance, context, terminating, now_ms):
            return OVER_QUOTA
        if not self._bounds.has_room(instance, context, instance.subscription.push_interval_ms, now_ms):
            return TOO_MANY_BYTES
        return None

    @staticmethod
    def _keeps_pace(
        pace: TelemetryPace, instance: ClientInstance, context: RequestContext, terminating: bool, now_ms: int
    ) -> bool:
        """False for a push over a telemetry quota from a client that is not seen to keep to its interval.

        Who keeps to it is never refused for a quota, and may say goodbye at any time.
        """
        interval_ms = instance.subscription.push_interval_ms
        if instance.gate.has_waited(interval_ms, now_ms):
            return True
        before = instance.pace
        if before is not None and before.had_waited(interval_ms, now_ms):
            before.previous_push_ms = None  # once: from here on the gate knows
            return True
        return (terminating and instance.pushes > 0) or pace.has_room(context, now_ms)

    def _check(self, request: PushRequest, instance: ClientInstance, over: Refusal | None) -> Refusal | bytes:
        """The rungs after the gate; the decompressed payload of a push that passes them all."""
        if request.subscription_id != instance.subscription_id:
            return UNKNOWN_SUBSCRIPTION
        if over is not None:
            return over
        codec = self._codecs.get(request.compression_type)
        if codec is None:
            return UNSUPPORTED_COMPRESSION
        encoded = request.metrics
        if not encoded:
            return b""
        if len(encoded) > self._settings.telemetry_max_bytes:
            return TOO_LARGE
        return self._decompress(codec[1], encoded)

    def _decompress(self, decompress: Callable[[bytes], bytes], encoded: bytes) -> Refusal | bytes:
        """The rungs of the payload itself: its size, its codec, its form."""
        fault = BROKEN_COMPRESSION
        try:
            metrics = decompress(encoded)
            if len(metrics) > max(_ANY_RATIO_BYTES, self._settings.max_compression_ratio * len(encoded)):
                return INFLATED
            fault = MALFORMED_METRICS
            validate_metrics(metrics)
        except TelemetryTooLargeError:
            return TOO_LARGE_DECOMPRESSED
        except InvalidRecordError:
            return fault
        return metrics

    def _accept(
        self,
        request: PushRequest,
        context: RequestContext,
        instance: ClientInstance,
        turn: Turn,
        metrics: bytes,
        received_at_us: int,
    ) -> AcceptedPush:
        encoded = request.metrics or b""
        label = self._label
        if self._pace is not None and self._pace.enabled:
            self._pace.record(instance, context, len(encoded), turn.taken_at_ms)
        tokens = len(encoded) * TOKEN
        for allowance in instance.allowances:
            allowance.bytes.left -= tokens
        if not instance.pushes:
            self._bounds.take_first(len(encoded))
        fits = label.surely_fits
        client_id, name, version = context.client_id, context.client_software_name, context.client_software_version
        principal = instance.principal_text
        values = (
            self._push_ids.next_id(received_at_us),
            received_at_us,
            self._node_id,
            self._cluster_id,
            context.listener_name,
            instance.instance_id_text,
            client_id if len(client_id) <= fits else label(client_id),
            name if len(name) <= fits else label(name),
            version if len(version) <= fits else label(version),
            context.client_address,
            context.client_port,
            principal if len(principal) <= fits else label(principal),
            request.subscription_id,
            instance.subscription.push_interval_ms,
            turn.terminating,
            self._codecs[request.compression_type][0],
            len(encoded),
            SCHEMA_VERSION,
            metrics,
        )
        # What PushRecord(*values) does, without its call of a function with 19 arguments.
        record = tuple.__new__(PushRecord, values)
        awaitables = () if self._plugin.is_empty else self._export(context, instance, turn, metrics)
        return AcceptedPush(record, encoded, awaitables, instance, turn, self._stats, self._refusals)

    def _export(
        self, context: RequestContext, instance: ClientInstance, turn: Turn, metrics: bytes
    ) -> tuple[Awaitable[None], ...]:
        payload = ClientTelemetryPayload(
            client_instance_id=instance.instance_id, is_terminating=turn.terminating, data=metrics
        )
        return self._plugin.export_metrics(context, payload, instance.subscription.push_interval_ms, instance.metrics)

    def _refuse_push(self, refusal: Refusal, instance: ClientInstance, turn: Turn) -> ErrorCode:
        if refusal.gives_back:
            instance.gate.give_back(turn)
        else:
            instance.gate.give_back_terminating(turn)
        if refusal is UNKNOWN_SUBSCRIPTION:
            self._stats.record_unknown_subscription(turn.taken_at_ms)
        elif refusal in UNREADABLE:
            self._stats.record_plugin_error(instance.metrics, turn.taken_at_ms)
        return self._refuse(refusal, instance, turn.taken_at_ms)

    def _refuse_early(self, refusal: Refusal, instance: ClientInstance, now_ms: int) -> ErrorCode:
        instance.gate.record_early()
        self._stats.record_throttle(instance.metrics, now_ms)
        return self._refuse(refusal, instance, now_ms)

    def _refuse(self, refusal: Refusal, instance: ClientInstance, now_ms: int) -> ErrorCode:
        self._refusals.add(refusal)
        instance.note_refusal(refusal, now_ms)
        return refusal.error_code
