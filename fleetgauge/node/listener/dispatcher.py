"""Dispatches requests to the handlers of the served APIs. See `node.listener.apis` for the handlers."""

from collections.abc import Callable

from fleetgauge.base.clock import Time
from fleetgauge.node import audit
from fleetgauge.node.listener.apis.admin import AdminApis
from fleetgauge.node.listener.apis.api_versions import handle_api_versions
from fleetgauge.node.listener.apis.cluster import ClusterApis
from fleetgauge.node.listener.apis.sasl import handle_sasl
from fleetgauge.node.listener.apis.subscriptions import SubscriptionsHandler
from fleetgauge.node.listener.misdirected_clients import RECORD_APIS, MisdirectedClients
from fleetgauge.node.listener.push import PushHandler
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.telemetry.instances.known import KnownInstances
from fleetgauge.wire.api_table import ADMIN_KEYS, ApiKey, ApiTable
from fleetgauge.wire.listener import Channel
from fleetgauge.wire.messages.codec import Request

Handler = Callable[[Channel, Request], bytes | None]


class RequestDispatcher:
    """Request handler of the listener: calls the handler of the API, records request time if a request quota is set,
    and notifies the client instances of ended connections.

    Args:
        table: the served APIs; for other requests `wire` closes the connection.
        cluster: answers Metadata and DescribeCluster.
        subscriptions: answers GetTelemetrySubscriptions.
        pushes: answers PushTelemetry.
        admin: answers admin tools.
        instances: notified of every ended connection.
        misdirected: records clients that request records.
        request_quota: records the time of requests.
        time: the clocks.
    """

    def __init__(
        self,
        table: ApiTable,
        cluster: ClusterApis,
        subscriptions: SubscriptionsHandler,
        pushes: PushHandler,
        admin: AdminApis,
        instances: KnownInstances,
        misdirected: MisdirectedClients,
        request_quota: RequestQuota,
        time: Time,
    ) -> None:
        self._instances = instances
        self._admin = admin
        self._misdirected = misdirected
        self._request_quota = request_quota
        self._time = time
        self.push = pushes.try_fast_path
        self._handlers: dict[int, Handler] = {
            ApiKey.API_VERSIONS: lambda channel, request: handle_api_versions(table, channel, request),
            ApiKey.SASL_HANDSHAKE: handle_sasl,
            ApiKey.SASL_AUTHENTICATE: handle_sasl,
            ApiKey.METADATA: cluster.handle_metadata,
            ApiKey.DESCRIBE_CLUSTER: cluster.handle_describe_cluster,
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: subscriptions.handle,
            ApiKey.PUSH_TELEMETRY: pushes.handle,
            **dict.fromkeys(ADMIN_KEYS, admin.handle),
        }

    @property
    def request_clock(self) -> Callable[[], int] | None:
        """See `RequestHandler.request_clock`."""
        return self._request_quota.clock

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Returns the response, or None if the channel gets it later."""
        handle = self._handlers[request.api_key]
        if request.started_ns == 0:
            return handle(channel, request)
        return self._request_quota.handle(handle, channel, request)

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        """See `RequestHandler.not_served`: a producer or consumer is logged with a remedy."""
        api = RECORD_APIS.get(api_key)
        if api is not None:
            self._misdirected.note(channel, client_id, api)
        return api is not None

    def authentication_took(self, nanos: int) -> None:
        """See `RequestHandler.authentication_took`."""
        self._request_quota.record_authentication(nanos)

    def authentication_ended(self, channel: Channel, user: str, mechanism: str, failure: str) -> None:
        """See `RequestHandler.authentication_ended`: it is audited."""
        described = {"mechanism": mechanism, "listener": channel.listener_name}
        if failure:
            principal = f"User:{user}" if user else "unknown"
            audit.record("login.failed", principal, channel.client_address, reason=failure, **described)
        else:
            audit.record("login.succeeded", channel.principal, channel.client_address, **described)

    def connection_made(self, channel: Channel) -> None:
        """Does nothing: a connection has no state before its first telemetry request."""

    def connection_lost(self, channel: Channel, reason: str) -> None:
        """Removes the connection from the client instances, and its waiting requests."""
        self._admin.connection_lost(channel)
        self._instances.disconnect(channel.connection_id, self._time.hi_res_clock_ms())
