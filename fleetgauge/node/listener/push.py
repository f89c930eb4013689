"""PushTelemetry (72): appends a push to the push log, and answers it with the outcome.

The usual push arrives as exactly one chunk, from an instance that pushed before on the same connection, and so is
allowed to: `try_fast_path` handles it in one straight function. All others are decoded by `wire.messages.codec` and
handled by `handle`. Both end in `ClientMetricsManager.validate_push` and `_log`.

A push is answered when it is in the push log (docs/decisions/003-answer-after-the-log.md). `throttle_time_ms` is 0
unless a request quota is exceeded, so that telemetry never stalls a client's connection.
"""

import asyncio
import struct
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ErrorCode
from fleetgauge.node.listener.request_context import request_context
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.push_log.log import PushAppender, PushLogError
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.plugin import RequestContext
from fleetgauge.telemetry.push import Push
from fleetgauge.telemetry.refusal import NOT_LOGGED
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import NO_TAGGED_FIELDS, Request
from fleetgauge.wire.messages.push_telemetry import (
    FIXED_FIELDS,
    PushTelemetry,
    encode_push_telemetry_response,
    read_payload,
)

log = structlog.get_logger(__name__)

_CORRELATION_ID: Final = struct.Struct(">8xi")
"""In a frame with its size: after this, the API key and the API version."""
_LOGGED: Final = ErrorCode.NONE.name
"""The name as a constant: reading it from the enum member takes longer than encoding the response."""
_THROTTLED: Final = NOT_LOGGED.error_code
_MAX_TEMPLATES: Final = 2
"""Maximum number of instances of which a connection keeps a template; most connections have one."""
_MAX_CLIENT_ID_BYTES: Final = 255
"""Maximum size of a client id that is kept so [B]; pushes with a longer one are handled by `handle`."""


class PushTemplate:
    """Beginning of the pushes of an instance on a connection, with its meaning.

    Attributes:
        beginning: the bytes from the client id to the compression type, which all have in common.
        context: the sender.
        instance: whose pushes they are.
        subscription_id, compression_type: of the pushes.
    """

    __slots__ = ("beginning", "compression_type", "context", "instance", "subscription_id")

    def __init__(
        self,
        beginning: bytes,
        context: RequestContext,
        instance: ClientInstance,
        subscription_id: int,
        compression_type: int,
    ) -> None:
        self.beginning = beginning
        self.context = context
        self.instance = instance
        self.subscription_id = subscription_id
        self.compression_type = compression_type


class PushHandler:
    """Handler of PushTelemetry. To be used on one loop only.

    Args:
        manager: validates pushes.
        push_log: stores accepted pushes, and passes them to `answer` with the outcome.
        authorization: decides whose pushes are refused.
        time: the clocks.
        request_quota: records request time if a quota is set.
        plugin_export_timeout_ms: maximum time of an awaitable of a reporter [ms].

    Attributes:
        answers: number of responses by error code name, for `fleetgauge status`.
        plugin_timeouts: number of cancelled awaitables of reporters.
    """

    def __init__(
        self,
        manager: ClientMetricsManager,
        push_log: PushAppender,
        authorization: Authorization,
        time: Time,
        request_quota: RequestQuota,
        *,
        plugin_export_timeout_ms: int,
    ) -> None:
        self._manager = manager
        self._push_log = push_log
        self._authorization = authorization
        self._time = time
        self._request_quota = request_quota
        self._plugin_timeout_s = plugin_export_timeout_ms / 1000
        self._plugin_tasks: set[asyncio.Task[None]] = set()
        self.answers: defaultdict[str, int] = defaultdict(int)
        self.plugin_timeouts = 0
        push_log.answer = self.answer

    def try_fast_path(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        """See `RequestHandler.push`: None, without side effects, for a push that needs `handle`."""
        if self._request_quota.clock is not None:
            return None
        template: PushTemplate
        for template in channel.push_templates:
            if data.startswith(template.beginning, _CORRELATION_ID.size):
                break
        else:
            return None
        instance = template.instance
        encoded = read_payload(data, _CORRELATION_ID.size + len(template.beginning))
        if (
            encoded is None
            or instance.context is not template.context
            or instance.connection_id is not channel.connection_id
            or not self._manager.touch(instance, now_ms)
        ):
            return None
        judged = self._manager.validate_push(
            instance,
            template.subscription_id,
            False,
            template.compression_type,
            encoded,
            now_ms,
            self._time.microseconds(),
        )
        if not isinstance(judged, Push):
            return self._refuse(judged, _CORRELATION_ID.unpack_from(data)[0])
        self._log(judged, channel, slot, _CORRELATION_ID.unpack_from(data)[0])
        return b""

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Answers a push: a refused one at once, an accepted one when it is in the push log."""
        context = request_context(channel, request, is_exact=not self._manager.plugin.is_empty)
        authorization = self._authorization
        if authorization.restricts_telemetry and authorization.refuses_telemetry(
            channel.principal, channel.client_address, context.client_id, ApiKey.PUSH_TELEMETRY.name
        ):
            return self._refuse(self._manager.deny_push(), request.correlation_id)
        judged = self._manager.process_push_telemetry(
            request.body,
            context,
            now_ms=self._time.hi_res_clock_ms(),
            received_at_us=self._time.microseconds(),
        )
        if not isinstance(judged, Push):
            return self._refuse(judged, request.correlation_id)
        _keep_template(channel, judged.instance, context, request)
        for awaitable in judged.awaitables:
            self._let_finish(awaitable)
        if request.started_ns:
            self._request_quota.record(channel, request)  # before the append, which is not the client's time
            judged.throttle_time_ms = request.throttle_time_ms
            judged.is_timed = True
        self._log(judged, channel, request.slot, request.correlation_id)
        return None

    def answer(self, pushes: Sequence[Push], error: PushLogError | None) -> None:
        """Called by the push log with the outcome of pushes: answers each one, and flushes each connection once."""
        timed_from = self._request_quota.clock
        now_ms = self._time.hi_res_clock_ms()
        if error is None:
            code = ErrorCode.NONE
            self._manager.logged(pushes, now_ms)
            self.answers[_LOGGED] += len(pushes)
        else:
            code = _THROTTLED
            self._manager.not_logged(pushes, now_ms)
            self.answers[f"{_THROTTLED.name}: {type(error).__name__}"] += len(pushes)
        channels: dict[Channel, None] = {}
        for push in pushes:
            started_ns = 0 if timed_from is None else timed_from()
            channel: Channel = push.reply_to
            response = encode_push_telemetry_response(push.correlation_id, push.throttle_time_ms, code)
            try:
                if channel.answer(push.slot, response):
                    channels[channel] = None
            except Exception:  # a fault on one connection must not keep the others from their answers
                log.exception("listener.answer_failed", connection_id=channel.connection_id)
            if push.is_timed and started_ns:
                self._time_answer(channel, push, started_ns)
        for channel in channels:
            try:
                channel.flush()
            except Exception:
                log.exception("listener.flush_failed", connection_id=channel.connection_id)

    async def close(self) -> None:
        """Waits for unfinished exports of reporters, each until its timeout."""
        if self._plugin_tasks:
            await asyncio.wait(self._plugin_tasks, timeout=self._plugin_timeout_s)

    def _time_answer(self, channel: Channel, push: Push, started_ns: int) -> None:
        try:
            self._request_quota.record_answer(channel, push.instance.context.client_id, started_ns)
        except Exception:  # a quota callback of the operator's own may raise
            log.exception("listener.answer_not_timed", connection_id=channel.connection_id)

    def _refuse(self, code: ErrorCode, correlation_id: int) -> bytes:
        self.answers[code.name] += 1
        return encode_push_telemetry_response(correlation_id, 0, code)

    def _log(self, push: Push, channel: Channel, slot: int, correlation_id: int) -> None:
        push.reply_to = channel
        push.slot = slot
        push.correlation_id = correlation_id
        error = self._push_log.append(push)
        if error is not None:
            self.answer((push,), error)

    def _let_finish(self, awaitable: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._bounded(awaitable))
        self._plugin_tasks.add(task)
        task.add_done_callback(self._plugin_tasks.discard)

    async def _bounded(self, awaitable: Awaitable[None]) -> None:
        # `ClientTelemetryExporterPlugin` catches and counts exceptions of reporters.
        try:
            await asyncio.wait_for(awaitable, self._plugin_timeout_s)
        except TimeoutError:
            self.plugin_timeouts += 1


def _keep_template(channel: Channel, instance: ClientInstance, context: RequestContext, request: Request) -> None:
    """Keeps with the connection how the pushes of an instance begin, so that `try_fast_path` knows the next one."""
    body: PushTelemetry = request.body
    subscription_id, compression_type = body.subscription_id, body.compression_type
    known: PushTemplate
    for known in channel.push_templates:
        if (
            known.context is context
            and known.instance is instance
            and (known.subscription_id, known.compression_type) == (subscription_id, compression_type)
        ):
            return
    client_id = b"" if request.client_id is None else request.client_id.encode()
    if request.client_id is None or body.terminating or len(client_id) > _MAX_CLIENT_ID_BYTES:
        return
    fixed = FIXED_FIELDS.pack(instance.instance_id.bytes, subscription_id, False, compression_type)
    beginning = len(client_id).to_bytes(2, "big") + client_id + NO_TAGGED_FIELDS + fixed
    template = PushTemplate(beginning, context, instance, subscription_id, compression_type)
    others = [each for each in channel.push_templates if each.instance is not instance]
    channel.push_templates = (template, *others[: _MAX_TEMPLATES - 1])
