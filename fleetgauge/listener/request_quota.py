"""The REQUEST quota at work: every request's time on the loop is recorded, and who takes too much of it is held."""

from collections.abc import Callable

from base.clock import Time
from quotas.client_request_quota import ClientRequestQuotaManager, nanos_to_percentage
from quotas.identities import Identities
from wire.api_table import ApiKey, ApiTable
from wire.channel import Channel
from wire.codec import Request
from wire.throttled_response import with_throttle_time

Handle = Callable[[Channel, Request], bytes | None]


class RequestQuota:
    """Records requests under their principal and client id (KIP-124).

    A request's time is what the loop spends on it alone: reading its frame, handling it, encoding its response. Waiting
    for the push log is not in it, nor is the write, which is one for all that is ready. What comes after the decision
    to throttle (answering a push that the log has taken) is recorded and counts with the client's next request, as
    what Kafka's network threads do.

    What belongs to an authentication is exempt, and recorded as that: SaslHandshake, SaslAuthenticate and ApiVersions
    before a client has said who it is. Asked at any other time they are requests like others. No cluster actions are
    served.

    Args:
        manager: decides.
        identities: who is behind a request.
        table: the APIs that are served.
        time: the clocks.

    Attributes:
        clock: for `RequestHandler.request_clock`; None while no request quota is set, so that nothing is measured.
        throttled: requests whose client was held.
    """

    def __init__(self, manager: ClientRequestQuotaManager, identities: Identities, table: ApiTable, time: Time) -> None:
        self._manager = manager
        self._identities = identities
        self._table = table
        self._time = time
        self.clock: Callable[[], int] | None = None
        self.throttled = 0
        self.quotas_changed()

    def quotas_changed(self) -> None:
        """Measures from now on, or no more, as quotas are set."""
        self.clock = self._time.nanoseconds if self._manager.quotas_enabled else None

    def handle(self, handle: Handle, channel: Channel, request: Request) -> bytes | None:
        """Has a request handled and recorded; a response now says how long the client is held."""
        response = handle(channel, request)
        if response is None:
            return None  # whoever answers later has called `record`
        self.record(channel, request)
        if request.throttle_time_ms == 0:
            return response
        version = request.api_version
        if request.api_key == ApiKey.API_VERSIONS and not self._table.is_supported(request.api_key, version):
            version = 0  # in whose layout it was answered
        return with_throttle_time(response, request.api_key, version, request.throttle_time_ms)

    def record(self, channel: Channel, request: Request) -> None:
        """Records a request until now; over the quota the channel is muted, and `request.throttle_time_ms` set."""
        took = nanos_to_percentage(self._time.nanoseconds() - request.started_ns)
        now_ms = self._time.hi_res_clock_ms()
        if not channel.is_authenticated:
            self._manager.exempt_sensor.record(took, now_ms)
            return
        session, client_id = self._identities.of(channel.principal, request.client_id or "", now_ms)
        throttle_time_ms = self._manager.record_and_get_throttle_time_ms(session, client_id, took, now_ms)
        if throttle_time_ms > 0:
            self.throttled += 1
            request.throttle_time_ms = throttle_time_ms
            self._manager.throttle(client_id, session, _Hold(channel), throttle_time_ms, now_ms)

    def record_answer(self, channel: Channel, client_id: str, started_ns: int) -> None:
        """Records what was done for a request of `client_id` after `record`, since `started_ns` [ns, monotonic]."""
        now_ms = self._time.hi_res_clock_ms()
        session, known_id = self._identities.of(channel.principal, client_id, now_ms)
        took = nanos_to_percentage(self._time.nanoseconds() - started_ns)
        self._manager.record_no_throttle(session, known_id, took, now_ms)

    def record_authentication(self, nanos: int) -> None:
        """Records a step of a SASL exchange [ns], which no quota applies to."""
        self._manager.exempt_sensor.record(nanos_to_percentage(nanos), self._time.hi_res_clock_ms())


class _Hold:
    """A channel as the quota engine holds it."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def start_throttling(self) -> None:
        self._channel.mute()

    def end_throttling(self) -> None:
        self._channel.unmute()
