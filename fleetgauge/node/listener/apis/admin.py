"""The requests of admin tools: where they are served, within which bounds, and their way to the node's state.

Which listeners serve them is decided by `admin.listeners`, and there who may use them by the ACLs, if there is an
authorizer; other requests are refused with CLUSTER_AUTHORIZATION_FAILED. Requests that are served are read and
answered in a thread, off the listener's loop. See `configs`, `client_quotas`, `scram` and `acls` for the APIs.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ErrorCode, FleetgaugeError, KafkaError
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.node import audit
from fleetgauge.node.authorizer.acls import AclOperation
from fleetgauge.node.listener.apis.waiting_requests import Waiting, WaitingRequests
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.node.state.authorization import NOT_AUTHORIZED, Authorization
from fleetgauge.node.state.node_state import NodeState, Transaction
from fleetgauge.node.state.store import UncertainChangeError
from fleetgauge.push_log.log import PushLogError
from fleetgauge.wire.api_table import ApiKey
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request, read_admin_request
from fleetgauge.wire.messages.throttled_response import with_throttle_time

log = structlog.get_logger(__name__)

MAX_REFUSED_BYTES: Final = 65_536
"""Largest request that is answered where these APIs are not served; a larger one closes its connection [B]."""
MAX_REFUSED_SEVERAL_BYTES: Final = 1_024
"""The same limit for a request whose whole body must be read for its response: on the loop, in some 5 ms [B]."""
MAX_REQUEST_BYTES: Final = 1 << 20
"""Largest request of a tool; a larger one closes its connection [B]."""
MAX_RESOURCES: Final = 1_000
"""Resources of one request; one with more closes its connection: each may need an answer of 10 kB."""
MAX_WAITING_BYTES: Final = 8 << 20
"""Requests that may wait for the thread, on all connections; beyond it those with the most are closed [B]."""
_REQUEST_OVERHEAD_BYTES: Final = 1_024
_TOO_MANY: Final = "too_many_admin_requests"
_TOO_MANY_DETAIL: Final = f"more than {MAX_WAITING_BYTES} bytes of requests wait, the most of them of this connection"
_LINES_PER_MINUTE: Final = 60
"""Bounds the lines about refused and malformed requests of all addresses together."""

NOT_SERVED_HERE: Final = (
    "this listener does not serve Kafka's admin APIs: use one that does, or name it in admin.listeners of the node's "
    "configuration"
)


OPERATIONS: Final = {
    ApiKey.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES: AclOperation.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: AclOperation.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CLIENT_QUOTAS: AclOperation.ALTER_CONFIGS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: AclOperation.DESCRIBE,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: AclOperation.ALTER,
    ApiKey.DESCRIBE_ACLS: AclOperation.DESCRIBE,
    ApiKey.CREATE_ACLS: AclOperation.ALTER,
    ApiKey.DELETE_ACLS: AclOperation.ALTER,
}
"""Permissions that each API needs on the cluster, as in Kafka."""


class NotAllowedError(KafkaError):
    """The listener does not serve the APIs, or the principal may not use this one."""

    error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Caller(NamedTuple):
    """Sender of a request, for the log."""

    principal: str
    client_address: str


class Change(NamedTuple):
    """Something that a request changed: an event of the audit log, and its fields."""

    event: str
    fields: Mapping[str, Any]


class AdminApi(Protocol):
    """A group of APIs."""

    @property
    def keys(self) -> Sequence[ApiKey]:
        """Their api keys."""

    def refusal(self, request: Request, body: Any, error: KafkaError) -> bytes | None:
        """Returns the response where the API is refused, within microseconds.

        Args:
            request: the request.
            body: its body; None if it has not been read, and None is returned where that is needed.
            error: why.

        Raises:
            ProtocolError: the request is malformed.
        """

    def serve(self, request: Request, body: Any, transaction: Transaction) -> tuple[bytes, Sequence[Change]]:
        """Returns the response, and what the request changed; called in a thread.

        Raises:
            ProtocolError: the request is about too much.
        """


class AdminApis:
    """Handler of all requests of admin tools.

    Args:
        state: the node's state.
        apis: all that are served.
        authorization: decides who may use them.
        listeners: names of the listeners that serve the APIs.
        request_quota: records the time of requests.
        time: the clocks.

    Attributes:
        listeners: as given; may be replaced.
        answers: number of answered requests by "api: outcome", for `fleetgauge status`.
    """

    def __init__(
        self,
        state: NodeState,
        apis: Iterable[AdminApi],
        authorization: Authorization,
        listeners: Collection[str],
        request_quota: RequestQuota,
        time: Time,
    ) -> None:
        self._state = state
        self._apis = {key: api for api in apis for key in api.keys}
        self._authorization = authorization
        self._request_quota = request_quota
        self._time = time
        self._log = LogLimiter(max_lines=_LINES_PER_MINUTE)
        self._waiting = WaitingRequests(MAX_WAITING_BYTES)
        self._worker: asyncio.Task[None] | None = None
        self.listeners = listeners
        self.answers: Counter[str] = Counter()

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        """Refuses a request at once, or answers it later.

        Raises:
            ProtocolError: the request is too large, too many of this connection wait, or it is malformed.
        """
        size = len(request.body)
        if channel.listener_name not in self.listeners:
            self._log_not_served(channel, request)
            return self._refuse(channel, request, NotAllowedError(NOT_SERVED_HERE))
        operation = OPERATIONS[ApiKey(request.api_key)]
        if not self._authorization.allows(channel.principal, channel.client_address, operation):
            api = ApiKey(request.api_key).name
            self._authorization.denied(channel.principal, channel.client_address, api, operation)
            return self._refuse(channel, request, NotAllowedError(NOT_AUTHORIZED))
        if size > MAX_REQUEST_BYTES:
            raise ProtocolError("admin_request_too_large", f"{size} bytes, at most {MAX_REQUEST_BYTES} are read")
        if request.started_ns:
            self._request_quota.record(channel, request)
        closed = self._waiting.add(Waiting(channel, request, size + _REQUEST_OVERHEAD_BYTES))
        for each in closed:
            if each is not channel:
                self._log_closed(each)
                each.close(_TOO_MANY)
        if channel in closed:
            raise ProtocolError(_TOO_MANY, _TOO_MANY_DETAIL)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._keep_answering())
        return None

    def connection_lost(self, channel: Channel) -> None:
        """Forgets the requests of a connection that wait; what the thread has begun is done."""
        self._waiting.forget(channel)

    async def close(self, within_ms: int) -> None:
        """Waits for the requests under way, at most `within_ms` [ms]."""
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=within_ms / 1000)

    async def _keep_answering(self) -> None:
        while self._waiting:
            waiting = self._waiting.next()
            try:
                await self._answer(waiting.channel, waiting.request)
            except Exception:  # must not keep the others from their answers
                log.exception("admin.answer_failed", connection_id=waiting.channel.connection_id)

    def _log_closed(self, channel: Channel) -> None:
        caller = Caller(str(channel.principal), channel.client_address)
        if self._log.admit((_TOO_MANY, *caller), self._time.hi_res_clock_ms()):
            log.warning("admin.connection_closed", reason=_TOO_MANY, detail=_TOO_MANY_DETAIL, **caller._asdict())

    def _log_not_served(self, channel: Channel, request: Request) -> None:
        api = ApiKey(request.api_key).name
        if self._log.admit((api, channel.client_address), self._time.hi_res_clock_ms()):
            log.warning(
                "admin.request_refused",
                message=NOT_SERVED_HERE,
                api=api,
                listener=channel.listener_name,
                principal=str(channel.principal),
                client_address=channel.client_address,
            )
        audit.record(
            "authorization.denied", channel.principal, channel.client_address, api=api, reason="admin.listeners"
        )

    def _refuse(self, channel: Channel, request: Request, error: KafkaError) -> bytes:
        api, size = ApiKey(request.api_key), len(request.body)
        self.answers[f"{api.name}: refused"] += 1
        handler = self._apis[api]
        if size <= MAX_REFUSED_BYTES:
            response = handler.refusal(request, None, error)
            if response is None and size <= MAX_REFUSED_SEVERAL_BYTES:
                response = handler.refusal(request, read_admin_request(request), error)
            if response is not None:
                return response
        raise ProtocolError("admin_request_refused", f"{api.name} on listener {channel.listener_name}")

    async def _answer(self, channel: Channel, request: Request) -> None:
        api = ApiKey(request.api_key).name
        caller = Caller(str(channel.principal), channel.client_address)
        handler = self._apis[ApiKey(request.api_key)]

        def serve(transaction: Transaction) -> bytes:
            try:
                response, changes = handler.serve(request, read_admin_request(request), transaction)
            except UncertainChangeError as error:
                audit.record("change.uncertain", *caller, api=api, reason=str(error))
                raise
            for change in changes:  # here, in the thread: a change that is made after its time is recorded too
                audit.record(change.event, *caller, **change.fields)
            return response

        try:
            response = await self._state.run(serve)
        except ProtocolError as error:
            if self._log.admit((error.reason, channel.client_address), self._time.hi_res_clock_ms()):
                log.warning("admin.request_malformed", api=api, detail=error.detail, **caller._asdict())
            self._close(channel, error.reason)
            return
        except FleetgaugeError as error:
            # Whether the change is made is not known, and no answer may claim either: the tool tries again.
            if cases := self._log.admit(("admin.request_failed", api), self._time.hi_res_clock_ms()):
                log.error("admin.request_failed", api=api, error=str(error), cases=cases)
            self._close(channel, "admin_request_failed")
            return
        except Exception:
            log.exception("admin.request_failed", api=api)
            self._close(channel, "handler_error")
            return
        self.answers[f"{api}: answered"] += 1
        if request.throttle_time_ms:
            response = with_throttle_time(response, request.api_key, request.api_version, request.throttle_time_ms)
        channel.respond(request.slot, response)
        channel.flush()

    def _close(self, channel: Channel, reason: str) -> None:
        self._waiting.forget(channel)  # at once: a client that does not read keeps its connection from ending
        channel.close(reason)


def bounded(count: int) -> None:
    """Refuses a request about more than `MAX_RESOURCES` things.

    Raises:
        ProtocolError: it is.
    """
    if count > MAX_RESOURCES:
        raise ProtocolError("too_many_admin_resources", f"{count}, at most {MAX_RESOURCES} are taken")


def not_written(error: PushLogError) -> KafkaError:
    """Logs that a change could not be written, and returns what the tool is answered."""
    log.error("admin.state_not_written", error=str(error))
    return KafkaError(f"the node cannot write its state: {error}")
