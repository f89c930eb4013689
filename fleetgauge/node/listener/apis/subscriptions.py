"""Handler of GetTelemetrySubscriptions (71). For PushTelemetry see `node.listener.push`."""

import datetime
from collections import defaultdict

from kio.schema.errors import ErrorCode as KioErrorCode

from fleetgauge.base.clock import Time
from fleetgauge.node.listener.apis.messages import answer
from fleetgauge.node.listener.request_context import request_context
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import Request


class SubscriptionsHandler:
    """Handler of GetTelemetrySubscriptions.

    Attributes:
        answers: number of responses by error code name, for `fleetgauge status`.
    """

    def __init__(self, manager: ClientMetricsManager, authorization: Authorization, time: Time) -> None:
        self._manager = manager
        self._authorization = authorization
        self._time = time
        self.answers: defaultdict[str, int] = defaultdict(int)

    def handle(self, channel: Channel, request: Request) -> bytes:
        """Answers GetTelemetrySubscriptions; the response always echoes the client's id.

        `throttle_time_ms` is 0, so that telemetry never stalls a client's connection.
        """
        context = request_context(channel, request, is_exact=not self._manager.plugin.is_empty)
        wanted = request.body.client_instance_id
        authorization = self._authorization
        if authorization.restricts_telemetry and authorization.refuses_telemetry(
            channel.principal, channel.client_address, context.client_id, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS.name
        ):
            result = self._manager.deny_get(wanted, context)
        else:
            result = self._manager.process_get_telemetry_subscriptions(
                wanted, context, now_ms=self._time.hi_res_clock_ms()
            )
        self.answers[result.error_code.name] += 1
        return answer(
            request,
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
