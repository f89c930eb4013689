"""GetTelemetrySubscriptions (71) and PushTelemetry (72): the client-metrics manager put on the wire.

The manager decides; this module translates, hands accepted pushes to the push log, and answers them once they are
in it. Neither throttles a connection by itself: `throttle_time_ms` is 0 (DESIGN: the fleet is safe from us), unless the
request quota that an operator has set says otherwise, as of every request.
"""

import asyncio
import dataclasses
import datetime
from collections import defaultdict
from collections.abc import Awaitable
from typing import Final, Protocol

from kio.schema.errors import ErrorCode as KioErrorCode

from base.clock import Time
from base.errors import ErrorCode
from fleetgauge.listener.apis.messages import new_response
from fleetgauge.listener.request_quota import RequestQuota
from push_log.log import PushAppender
from telemetry.manager import AcceptedPush, ClientMetricsManager
from telemetry.plugin import RequestContext
from wire.api_table import ApiKey
from wire.codec import Request, encode_push_telemetry_response, encode_response
from wire.listener import Channel

_LOGGED: Final = ErrorCode.NONE.name
"""Asking an enum member for its name takes longer than encoding the response."""


class Flusher(Protocol):
    """Writes a channel's responses a little later, joined with what else becomes ready."""

    def flush_soon(self, channel: Channel) -> None:
        """Has `channel` flushed in this iteration of the loop."""
        ...


class TelemetryApis:
    """The two telemetry APIs over a manager and a push log.

    Attributes:
        answers: push and Get answers by error code name, for `fleetgauge status`.
        plugin_timeouts: awaitables of reporters that were cancelled.
    """

    def __init__(
        self,
        manager: ClientMetricsManager,
        push_log: PushAppender,
        time: Time,
        flusher: Flusher,
        request_quota: RequestQuota,
        *,
        plugin_export_timeout_ms: int,
    ) -> None:
        self._manager = manager
        self._push_log = push_log
        self._time = time
        self._flusher = flusher
        self._request_quota = request_quota
        self._plugin_timeout_s = plugin_export_timeout_ms / 1000
        self._plugin_tasks: set[asyncio.Task[None]] = set()
        self.push_answers: defaultdict[str, int] = defaultdict(int)
        self.get_answers: defaultdict[str, int] = defaultdict(int)
        self.plugin_timeouts = 0

    def handle_get(self, channel: Channel, request: Request) -> bytes:
        """Answers GetTelemetrySubscriptions; the response always echoes the client's id."""
        result = self._manager.process_get_telemetry_subscriptions(
            request.body.client_instance_id,
            self._context(channel, request),
            now_ms=self._time.hi_res_clock_ms(),
        )
        self.get_answers[result.error_code.name] += 1
        response = new_response(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            request.api_version,
            throttle_time=datetime.timedelta(milliseconds=result.throttle_time_ms),
            error_code=KioErrorCode(result.error_code),
            client_instance_id=result.client_instance_id,
            subscription_id=result.subscription_id,
            accepted_compression_types=tuple(result.accepted_compression_types),
            push_interval=datetime.timedelta(milliseconds=result.push_interval_ms),
            telemetry_max_bytes=result.telemetry_max_bytes,
            delta_temporality=result.delta_temporality,
            requested_metrics=tuple(result.requested_metrics),
        )
        return encode_response(request.correlation_id, response)

    def handle_push(self, channel: Channel, request: Request) -> bytes | None:
        """Answers PushTelemetry: a refusal at once, an accepted push when it is in the push log."""
        outcome = self._manager.process_push_telemetry(
            request.body,
            self._context(channel, request),
            now_ms=self._time.hi_res_clock_ms(),
            received_at_us=self._time.microseconds(),
        )
        if not isinstance(outcome, AcceptedPush):
            self.push_answers[outcome.name] += 1
            return encode_push_telemetry_response(request.correlation_id, 0, outcome)
        for awaitable in outcome.awaitables:
            self._let_finish(awaitable)
        if request.started_ns:
            self._request_quota.record(channel, request)  # before the log, whose work is not the client's
        self._push_log.append(outcome.record, outcome.encoded, _Completion(self, channel, request, outcome))
        return None

    def _context(self, channel: Channel, request: Request) -> RequestContext:
        """Who sends the request. What a connection says of its client hardly ever changes, and is made once for it.

        Only receivers look at the correlation id; without any, it is that of an earlier request.
        """
        kept = channel.attachment
        if isinstance(kept, RequestContext) and _describes(kept, channel, request):
            if not self._manager.has_receivers:
                return kept
            return dataclasses.replace(kept, correlation_id=request.correlation_id)
        channel.attachment = context = context_of(channel, request)
        return context

    def _let_finish(self, awaitable: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._bounded(awaitable))
        self._plugin_tasks.add(task)
        task.add_done_callback(self._plugin_tasks.discard)

    async def _bounded(self, awaitable: Awaitable[None]) -> None:
        # What a reporter raises is caught and counted by `ClientTelemetryExporterPlugin`.
        try:
            await asyncio.wait_for(awaitable, self._plugin_timeout_s)
        except TimeoutError:
            self.plugin_timeouts += 1

    async def close(self) -> None:
        """Waits for what reporters still do, each within its time."""
        if self._plugin_tasks:
            await asyncio.wait(self._plugin_tasks, timeout=self._plugin_timeout_s)


class _Completion:
    """Called once by the push log for one push. A slotted object, since a closure per push costs more."""

    __slots__ = ("_apis", "_channel", "_push", "_request")

    def __init__(self, apis: TelemetryApis, channel: Channel, request: Request, push: AcceptedPush) -> None:
        self._apis = apis
        self._channel = channel
        self._request = request
        self._push = push

    def __call__(self, error: Exception | None) -> None:
        apis, request, push = self._apis, self._request, self._push
        time = apis._time
        started_ns = time.nanoseconds() if request.started_ns else 0
        now_ms = time.hi_res_clock_ms()
        if error is None:
            push.logged(now_ms)
            code, answer = ErrorCode.NONE, _LOGGED
        else:
            push.not_logged(now_ms)
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            answer = f"{code.name}: {type(error).__name__}"
        apis.push_answers[answer] += 1
        response = encode_push_telemetry_response(request.correlation_id, request.throttle_time_ms, code)
        self._channel.respond(request.slot, response)
        apis._flusher.flush_soon(self._channel)
        if started_ns:
            apis._request_quota.record_answer(self._channel, request, started_ns)


def _describes(context: RequestContext, channel: Channel, request: Request) -> bool:
    """True if nothing but the correlation id can differ; what stands still is one and the same object."""
    return (
        context.client_id == (request.client_id or "")
        and context.client_software_name is channel.client_software_name
        and context.client_software_version is channel.client_software_version
        and context.principal is channel.principal
    )


def context_of(channel: Channel, request: Request) -> RequestContext:
    """What a request says of its sender, in the form that the telemetry room and its plugins know."""
    return RequestContext(
        listener_name=channel.listener_name,
        security_protocol=channel.security_protocol,
        principal=channel.principal,
        client_id=request.client_id or "",
        client_software_name=channel.client_software_name,
        client_software_version=channel.client_software_version,
        client_address=channel.client_address,
        client_port=channel.client_port,
        connection_id=channel.connection_id,
        correlation_id=request.correlation_id,
    )
