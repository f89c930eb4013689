"""REQUEST quota: records the loop time of every request, and mutes clients above their quota."""

from collections import Counter
from collections.abc import Callable

from fleetgauge.base.clock import Time
from fleetgauge.quotas.client_request_quota import ClientRequestQuotaManager, nanos_to_percentage
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.usage import entity_name
from fleetgauge.wire.api_table import ApiKey, ApiTable
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.messages.codec import Request
from fleetgauge.wire.messages.throttled_response import with_throttle_time

Handle = Callable[[Channel, Request], bytes | None]


class RequestQuota:
    """Records request time by principal and client id (KIP-124).

    The time of a request is the loop's time for it alone: reading its frame, handling it, encoding its response. It
    includes neither the wait for the push log nor the write, which is shared by all responses that are ready. Work
    after the throttling decision (answering a push that is in the log) counts with the client's next request, like the
    work of Kafka's network threads.

    Authentication is exempt and recorded as exempt time: SaslHandshake, SaslAuthenticate and ApiVersions of a client
    that is not authenticated yet. At any other time they count like other requests. No cluster actions are served.

    Args:
        manager: quota manager.
        identities: maps requests to quota entities.
        table: the served APIs.
        time: the clocks.

    Attributes:
        clock: for `RequestHandler.request_clock`; None while no request quota is set, so that no time is measured.
        throttled: number of throttled requests.
        held: connections that are muted now, by `quotas.usage.entity_name` of their quota.
    """

    def __init__(self, manager: ClientRequestQuotaManager, identities: Identities, table: ApiTable, time: Time) -> None:
        self._manager = manager
        self._identities = identities
        self._table = table
        self._time = time
        self.clock: Callable[[], int] | None = None
        self.throttled = 0
        self.held: Counter[str] = Counter()
        self.quotas_changed()

    def quotas_changed(self) -> None:
        """Starts or stops measuring, depending on whether a quota is set."""
        self.clock = self._time.nanoseconds if self._manager.quotas_enabled else None

    def handle(self, handle: Handle, channel: Channel, request: Request) -> bytes | None:
        """Handles and records a request; an immediate response gets its throttle time."""
        response = handle(channel, request)
        if response is None:
            return None  # the handler has called `record`, and answers later
        self.record(channel, request)
        if request.throttle_time_ms == 0:
            return response
        version = request.api_version
        if request.api_key == ApiKey.API_VERSIONS and not self._table.is_supported(request.api_key, version):
            version = 0  # the layout of that response
        return with_throttle_time(response, request.api_key, version, request.throttle_time_ms)

    def record(self, channel: Channel, request: Request) -> None:
        """Records a request up to now; above the quota, mutes the channel and sets `request.throttle_time_ms`."""
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
            entity = entity_name(self._manager.get_or_create_quota_sensors(session, client_id).metric_tags)
            self._manager.throttle(client_id, session, _Hold(channel, self.held, entity), throttle_time_ms, now_ms)

    def record_answer(self, channel: Channel, client_id: str, started_ns: int) -> None:
        """Records further time for a request of `client_id` after `record`, from `started_ns` [ns, monotonic] on."""
        now_ms = self._time.hi_res_clock_ms()
        session, known_id = self._identities.of(channel.principal, client_id, now_ms)
        took = nanos_to_percentage(self._time.nanoseconds() - started_ns)
        self._manager.record_no_throttle(session, known_id, took, now_ms)

    def record_authentication(self, nanos: int) -> None:
        """Records the time of a SASL step [ns], which is exempt from quotas."""
        self._manager.exempt_sensor.record(nanos_to_percentage(nanos), self._time.hi_res_clock_ms())


class _Hold:
    """Throttle callback that mutes and unmutes a channel, and counts it by its quota meanwhile."""

    __slots__ = ("_channel", "_entity", "_held")

    def __init__(self, channel: Channel, held: Counter[str], entity: str) -> None:
        self._channel = channel
        self._held = held
        self._entity = entity

    def start_throttling(self) -> None:
        self._held[self._entity] += 1
        self._channel.mute()

    def end_throttling(self) -> None:
        self._held[self._entity] -= 1
        if not self._held[self._entity]:
            del self._held[self._entity]
        self._channel.unmute()
