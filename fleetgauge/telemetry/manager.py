"""Kafka's `ClientMetricsManager`: answers GetTelemetrySubscriptions and validates PushTelemetry.

`telemetry.instances.gate` decides which request is due; `telemetry.instances.known` finds the instance and its
subscription. No sockets, clock or threads: all calls are made on the listener's loop, with the time as an argument.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from fleetgauge.base.errors import ErrorCode, InvalidRecordError, TelemetryTooLargeError
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry import refusal as refused
from fleetgauge.telemetry.codecs import CompressionType, decompressors
from fleetgauge.telemetry.figures import ManagerFigures
from fleetgauge.telemetry.instances.client_metrics import ClientMetrics
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.instances.known import LAST_RESERVED_ID, KnownInstances
from fleetgauge.telemetry.instances.sender_bounds import TOKEN, SenderBounds
from fleetgauge.telemetry.labels import LabelBound
from fleetgauge.telemetry.messages import GetTelemetrySubscriptionsResult, PushRequest
from fleetgauge.telemetry.plugin import ClientTelemetryExporterPlugin, ClientTelemetryPayload, RequestContext
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.push_record import SCHEMA_VERSION, PushIds
from fleetgauge.telemetry.refusal import Refusal
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.telemetry.subscriptions.client_guard import ClientGuard, GuardRule
from fleetgauge.telemetry.subscriptions.interval_scaling import TelemetryIntervalScaling
from fleetgauge.telemetry.subscriptions.known_clients import SHIPPED
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_DEFAULT, Subscriptions
from fleetgauge.telemetry.validate import validate_metrics

_ANY_RATIO_BYTES: Final = 1 << 20
"""Size up to which decompressed payloads are accepted at any compression ratio: their validation takes a few ms [B]."""


class ClientMetricsManager:
    """Broker side of KIP-714 for one node. Not thread-safe.

    Args:
        settings: limits and defaults.
        node_id: id of this node, stored in every push record.
        cluster_id: id of its cluster, stored in every push record.
        metrics: registry for the group `client-metrics`.
        push_ids: generator of push ids.
        plugin: the receivers; None for none.
        new_instance_id: generator of ids for clients without one.
        guard_rules: rules of the client guard.
        pace: interval scaling by telemetry quotas; None for none.

    Attributes:
        subscriptions: the operator's client-metrics resources.
        guard: the client guard; see `replace_guard_rules` for its rules.
        instances: the known instances; the caller reports ended connections to them, and has them expire.
        plugin: the receivers besides the push log.
        figures: counters.
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
        pace: TelemetryIntervalScaling | None = None,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._push_ids = push_ids
        self.plugin = ClientTelemetryExporterPlugin() if plugin is None else plugin
        self.subscriptions = Subscriptions(settings.default_interval_ms)
        self.guard = ClientGuard(guard_rules)
        self._pace = pace
        self._stats = ClientMetrics(metrics, lambda: self.instances.cache.ids, settings.instance_metrics_max)
        self._bounds = SenderBounds(settings.sender_limits)
        self.instances = KnownInstances(
            settings.cache_max_size, self.subscriptions, self.guard, self._stats, new_instance_id, pace, self._bounds
        )
        self.plugin.attach(self._stats)
        self._label = LabelBound(settings.max_label_bytes)
        self.figures = ManagerFigures(self._stats, self.instances, self._label, pace)
        accepted = {CompressionType.NONE, *settings.compression_types}
        functions = decompressors(settings.telemetry_max_decompressed_bytes)
        self._codecs = {int(each): (each.label, functions[each]) for each in accepted}

    # Requests

    def process_get_telemetry_subscriptions(
        self, client_instance_id: uuid.UUID | None, context: RequestContext, *, now_ms: int
    ) -> GetTelemetrySubscriptionsResult:
        """Answers a Get: the client's instance id, its subscription, and the accepted compression types.

        A null id is answered with the id known on the connection, or a new one; an unknown id is kept, since another
        node assigned it (KIP-714, Client behavior).

        Args:
            client_instance_id: None in a client's first request.
            context: sender of the request.
            now_ms: monotonic time [ms].
        """
        instance_id = self.instances.identify(client_instance_id, context)
        instance = self.instances.of(instance_id, context, now_ms)
        if instance is None:
            self.figures.refused[refused.TOO_MANY_INSTANCES] += 1
            return GetTelemetrySubscriptionsResult(
                error_code=refused.TOO_MANY_INSTANCES.error_code, client_instance_id=instance_id
            )
        instance.describe(context)
        gate = instance.gate
        if not gate.may_get(instance.subscription.push_interval_ms, now_ms):
            error_code = self._refuse_early(refused.GET_TOO_EARLY, instance, now_ms)
            return GetTelemetrySubscriptionsResult(error_code=error_code, client_instance_id=instance_id)
        gate.record_get(now_ms)
        return self._subscription_result(instance)

    def deny_get(
        self, client_instance_id: uuid.UUID | None, context: RequestContext
    ) -> GetTelemetrySubscriptionsResult:
        """Answers the Get of a client that may not send telemetry: no metrics, and Kafka's default interval. No error
        would do, since some clients switch their telemetry off at any.
        """
        settings = self._settings
        return GetTelemetrySubscriptionsResult(
            error_code=ErrorCode.NONE,
            client_instance_id=self.instances.identify(client_instance_id, context),
            accepted_compression_types=tuple(map(int, settings.compression_types)),
            push_interval_ms=INTERVAL_MS_DEFAULT,
            telemetry_max_bytes=settings.telemetry_max_bytes,
            delta_temporality=settings.delta_temporality,
        )

    def deny_push(self) -> ErrorCode:
        """Counts the push of a client that may not send telemetry; returns its error code."""
        self.figures.refused[refused.NOT_AUTHORIZED] += 1
        return refused.NOT_AUTHORIZED.error_code

    def process_push_telemetry(
        self, request: PushRequest, context: RequestContext, *, now_ms: int, received_at_us: int
    ) -> Push | ErrorCode:
        """Validates a push of any instance; see `validate_push`.

        Args:
            request: the push; its instance may be unknown on this node, as long as the subscription id is right.
            context: sender of the push.
            now_ms: monotonic time [ms].
            received_at_us: wall time [us since the epoch].
        """
        instance_id = request.client_instance_id
        if instance_id is None or instance_id.int <= LAST_RESERVED_ID:
            self.figures.refused[refused.NULL_INSTANCE_ID] += 1
            return refused.NULL_INSTANCE_ID.error_code
        instance = self.instances.of(instance_id, context, now_ms, is_last=request.terminating)
        if instance is None:
            self.figures.refused[refused.TOO_MANY_INSTANCES] += 1
            return refused.TOO_MANY_INSTANCES.error_code
        return self.validate_push(
            instance,
            request.subscription_id,
            request.terminating,
            request.compression_type,
            request.metrics or b"",
            now_ms,
            received_at_us,
        )

    def touch(self, instance: ClientInstance, now_ms: int) -> bool:
        """Records a push on the same connection as the latest request of its instance; `validate_push` may follow.

        Returns False without an effect if `process_push_telemetry` must look the instance up: its subscription may have
        changed, or a telemetry quota or a reporter needs the request's context.
        """
        pace = self._pace
        if (
            instance.subscription_version != self.subscriptions.version
            or instance.pace is not None
            or (pace is not None and pace.enabled)
            or not self.plugin.is_empty
        ):
            return False
        self.instances.cache.touch(instance, now_ms)
        return True

    def validate_push(
        self,
        instance: ClientInstance,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        encoded: bytes,
        now_ms: int,
        received_at_us: int,
    ) -> Push | ErrorCode:
        """Validates a push of a known instance, and exports an accepted one to the receivers.

        The order of the checks is that of docs/reference/conformance.md.

        Returns:
            An error code to answer at once; or the accepted push, which the caller appends to the push log, passes to
            `logged` or `not_logged`, and answers.
        """
        gate = instance.gate
        if gate.times.is_terminated:
            return self._refuse(refused.AFTER_TERMINATING, instance, now_ms)
        interval_ms = instance.subscription.push_interval_ms
        is_due = gate.may_push(interval_ms, now_ms)
        if not is_due and not (terminating and gate.may_end_early(interval_ms, now_ms)):
            return self._refuse_early(refused.PUSH_TOO_EARLY, instance, now_ms)
        refusal, metrics = self._check(instance, subscription_id, terminating, compression_type, encoded, now_ms)
        if refusal is not None and not (refusal is refused.MALFORMED_METRICS and self._settings.accept_malformed):
            return self._refuse_push(refusal, instance, is_due, now_ms)
        claim = gate.claim(now_ms, terminating=terminating, is_due=is_due)
        tokens = len(encoded) * TOKEN
        for allowance in instance.allowances:
            allowance.bytes.left -= tokens
        if not instance.pushes:
            self._bounds.take_first(len(encoded))
        row = (
            self._push_ids.next_id(received_at_us),
            received_at_us,
            *(instance.row_context or self._describe_row(instance)),
            terminating,
            self._codecs[compression_type][0],
            len(encoded),
            SCHEMA_VERSION,
        )
        push = Push(instance, claim, now_ms, row, metrics, encoded)
        push.is_malformed = refusal is not None
        pace = self._pace
        if pace is not None and pace.enabled:
            pace.record(instance, instance.context, len(encoded), now_ms)
        if not self.plugin.is_empty:
            push.awaitables = self._export(push, terminating)
        return push

    def logged(self, pushes: Sequence[Push], now_ms: int) -> None:
        """Records that pushes are in the push log at `now_ms` [ms, monotonic]; their clients are answered NONE."""
        longest_ms = total_ms = 0.0
        count = 0
        for push in pushes:
            if push.claim is None:
                continue  # its outcome is known already
            push.claim = None
            took_ms = float(now_ms - push.taken_at_ms)
            instance = push.instance
            instance.gate.last_known_error = ErrorCode.NONE
            instance.pushes += 1
            instance.push_bytes += len(push.encoded)
            instance.last_push_ms = push.taken_at_ms
            if instance.metrics is not None:
                instance.metrics.record_plugin_export(took_ms, now_ms)
            if push.is_malformed:
                self.figures.malformed.note(instance, push.metrics, at_ms=push.taken_at_ms, now_ms=now_ms)
            count += 1
            total_ms += took_ms
            if took_ms > longest_ms:
                longest_ms = took_ms
        self._stats.record_logged(count, total_ms, longest_ms, now_ms)

    def not_logged(self, pushes: Sequence[Push], now_ms: int) -> None:
        """Records that the push log failed to store pushes; their clients are answered THROTTLING_QUOTA_EXCEEDED.

        Since the failure is on this side, each client's next push is due at once, and a terminating push may be
        repeated.
        """
        for push in pushes:
            claim, push.claim = push.claim, None
            if claim is not None:
                instance = push.instance
                instance.gate.give_back(claim)
                instance.note_refusal(refused.NOT_LOGGED, now_ms)
                self.figures.refused[refused.NOT_LOGGED] += 1
                self._stats.record_plugin_error(instance.metrics, now_ms)

    # Configuration and life

    def replace_guard_rules(self, rules: Iterable[GuardRule]) -> None:
        """Sets the rules of the client guard. Clients with a changed subscription get a new subscription id.

        Raises:
            TypeError: one of them is no `GuardRule`; nothing is changed.
        """
        if self.guard.install(rules):
            self.subscriptions.reevaluate()

    def close(self) -> None:
        """Removes all instances and unregisters the metrics."""
        self.instances.cache.clear()
        self._stats.close()

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

    def _check(
        self,
        instance: ClientInstance,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        encoded: bytes,
        now_ms: int,
    ) -> tuple[Refusal | None, bytes]:
        """Checks after the gate. Returns the reason of a refusal, or None; and the decompressed payload, if it can be.

        Limits are checked first but reported last: a client with a changed subscription must learn that it needs a Get.
        """
        over: Refusal | None = None
        context, pace = instance.context, self._pace
        # A client that keeps to its interval is never refused for a quota, and may end at any time with a push.
        if (
            pace is not None
            and pace.enabled
            and not instance.use_interval(now_ms)
            and not (terminating and instance.pushes > 0)
            and not pace.has_room(context, now_ms)
        ):
            over = refused.OVER_QUOTA
        elif not self._bounds.has_room(instance, context, instance.subscription.push_interval_ms, now_ms):
            over = refused.TOO_MANY_BYTES
        if subscription_id != instance.subscription_id:
            return refused.UNKNOWN_SUBSCRIPTION, b""
        if over is not None:
            return over, b""
        codec = self._codecs.get(compression_type)
        if codec is None:
            return refused.UNSUPPORTED_COMPRESSION, b""
        if not encoded:
            return None, b""
        if len(encoded) > self._settings.telemetry_max_bytes:
            return refused.TOO_LARGE, b""
        return self._decompress(codec[1], encoded)

    def _decompress(self, decompress: Callable[[bytes], bytes], encoded: bytes) -> tuple[Refusal | None, bytes]:
        """Checks of the payload itself: size, codec, OTLP.

        `validate_push` refuses what is no OTLP only if so configured: the refusal would end the client's telemetry, and
        a broker gives none.
        """
        fault, metrics = refused.BROKEN_COMPRESSION, b""
        try:
            metrics = decompress(encoded)
            size = len(metrics)
            if size > _ANY_RATIO_BYTES and size > self._settings.max_compression_ratio * len(encoded):
                return refused.INFLATED, b""
            fault = refused.MALFORMED_METRICS
            validate_metrics(metrics)
        except TelemetryTooLargeError:
            return refused.TOO_LARGE_DECOMPRESSED, b""
        except InvalidRecordError:
            return fault, metrics
        return None, metrics

    def _describe_row(self, instance: ClientInstance) -> tuple[object, ...]:
        """Computes `ClientInstance.row_context`; not cached if a label is truncated, so that each such push counts."""
        context, label = instance.context, self._label
        truncated_before = label.truncated
        described = (
            self._node_id,
            self._cluster_id,
            context.listener_name,
            instance.instance_id_text,
            label(context.client_id),
            label(context.client_software_name),
            label(context.client_software_version),
            context.client_address,
            context.client_port,
            label(instance.principal_text),
            instance.subscription_id,
            instance.subscription.push_interval_ms,
        )
        if label.truncated == truncated_before:
            instance.row_context = described
        return described

    def _export(self, push: Push, terminating: bool) -> tuple[Awaitable[None], ...]:
        instance = push.instance
        payload = ClientTelemetryPayload(
            client_instance_id=instance.instance_id, is_terminating=terminating, data=push.metrics
        )
        interval_ms = instance.subscription.push_interval_ms
        return self.plugin.export_metrics(instance.context, payload, interval_ms, instance.metrics)

    def _refuse_push(self, refusal: Refusal, instance: ClientInstance, is_due: bool, now_ms: int) -> ErrorCode:
        if refusal.gives_back:
            instance.gate.pass_over(is_due=is_due)
        else:
            instance.gate.claim(now_ms, is_due=is_due)
        if refusal is refused.UNKNOWN_SUBSCRIPTION:
            self._stats.record_unknown_subscription(now_ms)
        elif refusal in refused.UNREADABLE:
            self._stats.record_plugin_error(instance.metrics, now_ms)
        return self._refuse(refusal, instance, now_ms)

    def _refuse_early(self, refusal: Refusal, instance: ClientInstance, now_ms: int) -> ErrorCode:
        instance.gate.record_early()
        self._stats.record_throttle(instance.metrics, now_ms)
        return self._refuse(refusal, instance, now_ms)

    def _refuse(self, refusal: Refusal, instance: ClientInstance, now_ms: int) -> ErrorCode:
        self.figures.refused[refusal] += 1
        instance.note_refusal(refusal, now_ms)
        return refusal.error_code
