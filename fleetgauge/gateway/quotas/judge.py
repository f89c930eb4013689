"""Quotas on the gateway's traffic: PRODUCE, FETCH, REQUEST and CONTROLLER_MUTATION, by the managers of `quotas`. No
I/O.

What a broker does is in Kafka's `KafkaApis`: `handleProduceRequest`, `handleFetchRequest`, and
`RequestHandlerHelper`. Differences are listed in docs/limit/quotas.md.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.gateway.apis import API_VERSIONS, FETCH, PASSED, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE, SHARE_FETCH
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.messages.layout import request_layout, response_layout
from fleetgauge.gateway.quotas.mutations import STRICT_SINCE, Mutation, MutationRequest, PartitionsOf
from fleetgauge.gateway.rules import (
    MAX_BODY_BYTES,
    WHOLE_FRAME,
    Answer,
    ClientConnection,
    More,
    Patched,
    RequestVerdict,
    Rewrite,
)
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.client_request_quota import nanos_to_percentage
from fleetgauge.quotas.controller_mutation import (
    UNBOUNDED_CONTROLLER_MUTATION_QUOTA,
    ControllerMutationQuota,
    MutationQuotaExceededError,
)
from fleetgauge.quotas.identities import Identities, Identity
from fleetgauge.quotas.managers import QuotaManagers

_ILLEGAL_SASL_STATE: Final = (34).to_bytes(2, "big")
"""Error code of a SaslHandshake or SaslAuthenticate outside a login."""

_INT32: Final = struct.Struct(">i")
_MAX_INT32: Final = 2**31 - 1


@dataclass(slots=True, eq=False)
class Judged:
    """State of a request until its response.

    Attributes:
        identity: the quota entity.
        throttle_time_ms: decided on arrival of the request [ms].
        is_muted: True while the connection waits for the answer: it is over its PRODUCE quota.
        keeps_session: True for a fetch within a fetch session.
        mutation_quota: of a request that creates or deletes partitions.
        refused: topics that were not passed to the broker.
        mutations: the request itself, if some topics were refused.
        throttled_ms: throttle time that the client was given by the gateway, and that is not counted yet [ms].
        is_counted: True once the request was counted as throttled.
    """

    identity: Identity
    throttle_time_ms: int = 0
    is_muted: bool = False
    keeps_session: bool = False
    mutation_quota: ControllerMutationQuota = UNBOUNDED_CONTROLLER_MUTATION_QUOTA
    refused: Sequence[Mutation] = ()
    mutations: MutationRequest | None = None
    throttled_ms: int = 0
    is_counted: bool = False


class QuotaJudge:
    """Decides on requests and responses, and throttles connections.

    A connection over its PRODUCE quota is muted when its request comes, and throttled when that is answered, as on a
    broker, which handles one request of a connection at a time.

    Args:
        managers: with their limits.
        identities: maps requests to quota entities.
        partitions_of: of existing topics, for requests that delete or enlarge them.

    Attributes:
        throttled: number of throttled requests by quota type.
        unread_mutations: requests that create or delete partitions and were passed uncounted: larger than the data path
            collects, or malformed.
    """

    def __init__(self, managers: QuotaManagers, identities: Identities, partitions_of: PartitionsOf) -> None:
        self._managers = managers
        self._identities = identities
        self._partitions_of = partitions_of
        self.throttled = {str(each.quota_type): 0 for each in managers.client_quota_managers}
        self.unread_mutations = 0

    def begin(self, connection: ClientConnection, request: InFlight, now_ms: int) -> Judged:
        """Returns the state of a new request."""
        return Judged(self._identities.of(connection.principal, request.client_id, now_ms))

    def request(
        self, connection: ClientConnection, request: InFlight, judged: Judged, body: bytes, now_ms: int
    ) -> RequestVerdict:
        """See `Rules.request`."""
        managers, key = self._managers, request.api_key
        verdict: RequestVerdict = None
        if key == PRODUCE:
            if managers.produce.quotas_enabled:
                self._produce(connection, request, judged, now_ms)
        elif key == FETCH:
            if managers.fetch.quotas_enabled:
                verdict = self._fetch(connection, request, judged, body, now_ms)
        elif key in STRICT_SINCE and managers.controller_mutation.quotas_enabled:
            verdict = self._mutate(connection, request, judged, body, now_ms)
        if not isinstance(verdict, More | Answer):
            request.response_bytes = self._needed_of_response(request, judged)
        return verdict

    def _needed_of_response(self, request: InFlight, judged: Judged) -> int:
        """Number of bytes of the response that are needed to write the throttle time into it."""
        managers, key = self._managers, request.api_key
        if judged.throttle_time_ms and request.is_answered:
            return WHOLE_FRAME
        if judged.mutation_quota is not UNBOUNDED_CONTROLLER_MUTATION_QUOTA:
            return WHOLE_FRAME
        has_fetch_quota = key in (FETCH, SHARE_FETCH) and managers.fetch.quotas_enabled
        if not has_fetch_quota and not managers.request.quotas_enabled:
            return 0
        if key in (PRODUCE, API_VERSIONS):  # which have their throttle time at the end
            return WHOLE_FRAME
        return _HEAD_BYTES

    def response(
        self,
        connection: ClientConnection,
        request: InFlight,
        judged: Judged,
        size: int,
        body: bytes,
        gateway_ns: int,
        now_ms: int,
    ) -> Patched | None:
        """See `Rules.response`; `gateway_ns` is the time that the request took of the loop [ns]."""
        managers, key = self._managers, request.api_key
        bandwidth, bandwidth_ms, is_emptied = managers.produce, judged.throttle_time_ms, False
        if key in (FETCH, SHARE_FETCH) and managers.fetch.quotas_enabled:
            bandwidth = managers.fetch
            session, client_id = judged.identity
            bandwidth_ms = bandwidth.maybe_record_and_get_throttle_time_ms(session, client_id, size, now_ms)
            connection.traffic = size
        elif key in STRICT_SINCE:
            bandwidth, bandwidth_ms = managers.controller_mutation, judged.mutation_quota.throttle_time(now_ms)
        request_ms = self._request_time(request, judged, body, gateway_ns, now_ms)
        throttle_ms = max(bandwidth_ms, request_ms)
        if throttle_ms > 0:
            if key == FETCH and bandwidth is managers.fetch:
                is_emptied = self._unrecord(judged, size, body, request, now_ms)
            manager = bandwidth if bandwidth_ms > request_ms else managers.request
            self._throttle(connection, judged, manager, throttle_ms, now_ms)
        if judged.is_muted:
            judged.is_muted = False
            connection.unmute()  # it is throttled by now
        if is_emptied:
            return Patched(
                _empty_fetch(request, body, throttle_ms, keeps_session=judged.keeps_session), replaces_all=True
            )
        return self._patched(request, judged, body, throttle_ms)

    def interrupted(
        self, connection: ClientConnection, request: InFlight, judged: Judged, gateway_ns: int, now_ms: int
    ) -> int:
        """See `Rules.interrupted`; `gateway_ns` as in `response`, since the request or its latest interruption [ns]."""
        throttle_ms = self._request_time(request, judged, b"", gateway_ns, now_ms)
        if throttle_ms > 0:
            self._throttle(connection, judged, self._managers.request, throttle_ms, now_ms)
        return throttle_ms

    def answered(
        self, connection: ClientConnection, request: InFlight, judged: Judged, gateway_ns: int, now_ms: int
    ) -> None:
        """Records the time of a request that the gateway answers itself; its answer gets the throttle time."""
        answer, key = request.local, request.api_key
        assert answer is not None
        has_tags = request.api_version >= PASSED[key].flexible_from and key != API_VERSIONS
        head, body = answer[: 8 + has_tags], answer[8 + has_tags :]
        throttle_ms = self._request_time(request, judged, body, gateway_ns, now_ms)
        if throttle_ms > judged.throttled_ms:
            self._throttle(connection, judged, self._managers.request, throttle_ms, now_ms)
            request.local = head + with_throttle_time(request, body, throttle_ms)

    def exempt(self, gateway_ns: int, now_ms: int) -> None:
        """Records time that is exempt from request quotas: that of requests without a response [ns]."""
        manager = self._managers.request
        if manager.quotas_enabled and gateway_ns:
            manager.exempt_sensor.record(nanos_to_percentage(gateway_ns), now_ms)

    def _produce(self, connection: ClientConnection, request: InFlight, judged: Judged, now_ms: int) -> None:
        manager = self._managers.produce
        session, client_id = judged.identity
        throttle_ms = manager.maybe_record_and_get_throttle_time_ms(session, client_id, request.size, now_ms)
        if throttle_ms <= 0:
            return
        if not request.is_answered:
            self._throttle(connection, judged, manager, throttle_ms, now_ms)
            return
        judged.throttle_time_ms = throttle_ms
        judged.is_muted = True
        connection.mute()

    def _fetch(
        self, connection: ClientConnection, request: InFlight, judged: Judged, body: bytes, now_ms: int
    ) -> RequestVerdict:
        """Limits a response to the capacity of the quota's windows, as Kafka does: a larger one could never be
        delivered.
        """
        layout = request_layout(FETCH, request.api_version)
        if layout is None:
            return None
        if not body:
            return More(WHOLE_FRAME)
        manager = self._managers.fetch
        session, client_id = judged.identity
        session_epoch_at, max_bytes_at = layout.offset_of("session_epoch"), layout.offset_of("max_bytes")
        if session_epoch_at is not None and len(body) >= session_epoch_at + 4:
            judged.keeps_session = _INT32.unpack_from(body, session_epoch_at)[0] > 0
        # The broker advances the epoch of a session with each fetch, so within one it has to be asked.
        if not judged.keeps_session and manager.record_and_get_throttle_time_ms(session, client_id, 0, now_ms) > 0:
            # For as long as if the broker had been asked, and had answered as much as the last time.
            likely = connection.traffic or 0
            throttle_ms = manager.record_and_get_throttle_time_ms(session, client_id, likely, now_ms)
            manager.unrecord_quota_sensor(session, client_id, likely, now_ms)
            self._throttle(connection, judged, manager, throttle_ms, now_ms)
            empty = _empty_fetch(request, b"", throttle_ms, keeps_session=False)
            return Answer(_framed(request, empty))
        bound = int(min(manager.max_value_in_quota_window(session, client_id), _MAX_INT32))
        if max_bytes_at is None or not max_bytes_at + 4 <= len(body) < MAX_BODY_BYTES:
            return None  # a body that is not at hand as a whole cannot be rewritten
        min_bytes, max_bytes = struct.unpack_from(">ii", body, max_bytes_at - 4)
        if max_bytes <= bound:
            return None
        bounds = struct.pack(">ii", min(min_bytes, bound), bound)
        return Rewrite(body[: max_bytes_at - 4] + bounds + body[max_bytes_at + 4 :])

    def _mutate(
        self, connection: ClientConnection, request: InFlight, judged: Judged, body: bytes, now_ms: int
    ) -> RequestVerdict:
        if not body:
            return More(WHOLE_FRAME)
        try:
            mutations = MutationRequest(request, body, self._partitions_of)
        except (FleetgaugeError, LookupError):
            self.unread_mutations += 1
            return None
        manager = self._managers.controller_mutation
        is_strict = request.api_version >= STRICT_SINCE[request.api_key]
        new_quota_for = manager.new_strict_quota_for if is_strict else manager.new_permissive_quota_for
        quota = judged.mutation_quota = new_quota_for(*judged.identity)
        passed, refused = [], []
        for each in mutations.mutations:
            try:
                quota.record(each.partitions, now_ms)
                passed.append(each)
            except MutationQuotaExceededError:
                refused.append(each)
        if not refused:
            return None
        if passed:
            judged.mutations, judged.refused = mutations, refused
            return Rewrite(mutations.body_of(passed))
        throttle_ms = quota.throttle_time(now_ms)
        self._throttle(connection, judged, manager, throttle_ms, now_ms)
        return Answer(mutations.refusal(throttle_ms))

    def _request_time(self, request: InFlight, judged: Judged, body: bytes, gateway_ns: int, now_ms: int) -> int:
        """Records the time of a request whose response begins with `body`; returns its throttle time [ms]."""
        manager = self._managers.request
        if not manager.quotas_enabled:
            return 0
        if request.api_key in (SASL_HANDSHAKE, SASL_AUTHENTICATE) and body[:2] != _ILLEGAL_SASL_STATE:
            self.exempt(gateway_ns, now_ms)
            return 0
        took = nanos_to_percentage(gateway_ns)
        session, client_id = judged.identity
        return manager.record_and_get_throttle_time_ms(session, client_id, took, now_ms)

    def _unrecord(self, judged: Judged, size: int, body: bytes, request: InFlight, now_ms: int) -> bool:
        """Removes the record of a fetch that will get an empty response; False for one that passes all the same.

        A response that the windows cannot hold, such as a single batch above the limit, is passed: it would be as large
        the next time.
        """
        manager = self._managers.fetch
        session, client_id = judged.identity
        is_error = request.api_version >= _SESSIONS_SINCE and body[_ERROR_AT : _ERROR_AT + 2] != b"\0\0"
        if is_error or size > manager.max_value_in_quota_window(session, client_id):
            return False
        manager.unrecord_quota_sensor(session, client_id, size, now_ms)
        return True

    def _throttle(
        self, connection: ClientConnection, judged: Judged, manager: ClientQuotaManager, throttle_ms: int, now_ms: int
    ) -> None:
        session, client_id = judged.identity
        judged.throttled_ms = throttle_ms
        self.throttled[str(manager.quota_type)] += 1
        manager.throttle(client_id, session, _Hold(connection), throttle_ms, now_ms)

    def _patched(self, request: InFlight, judged: Judged, body: bytes, throttle_ms: int) -> Patched | None:
        if throttle_ms > 0:
            body = with_throttle_time(request, body, throttle_ms)
        if judged.mutations is not None:
            body = judged.mutations.with_refused(body, judged.refused)
        return Patched(body) if throttle_ms > 0 or judged.mutations is not None else None


_HEAD_BYTES: Final = 16
"""Bytes of a response that contain throttle time, error code and fetch session [B]."""
_SESSIONS_SINCE: Final = 7
"""First version of Fetch with fetch sessions (KIP-227), and an error code of the whole response."""
_FLEXIBLE_SINCE: Final = 12
_ERROR_AT: Final = 4
_SESSION_AT: Final = 6
"""Offset of the fetch session in a response of these versions [B]."""
_NO_TOPICS: Final = bytes(4)
_NO_TOPICS_NOR_TAGS: Final = b"\x01\x00"


def with_throttle_time(request: InFlight, body: bytes, throttle_time_ms: int) -> bytes:
    """A response's body, or its beginning, with the larger one of its throttle time and `throttle_time_ms` [ms].

    Unchanged if its version has no throttle time: such clients notice a throttling by their latency (KIP-124).
    """
    layout = response_layout(request.api_key, request.api_version)
    if layout is None:
        return body
    at = layout.offset_of("throttle_time")
    if at is None:  # after what has a variable length, which was read
        at = request.throttle_time_at
    if at is None or at + 4 > len(body):
        return body
    own = max(_INT32.unpack_from(body, at)[0], throttle_time_ms)
    return body[:at] + _INT32.pack(own) + body[at + 4 :]


def _empty_fetch(request: InFlight, body: bytes, throttle_time_ms: int, *, keeps_session: bool) -> bytes:
    """Body of Kafka's response to a throttled fetch: no topics; the session of the request, or none.

    Args:
        request: a Fetch.
        body: of the broker's answer, or its beginning; empty if it was not asked. A longer throttle time in it is kept.
        throttle_time_ms: how long the connection is throttled [ms].
        keeps_session: True if the request was within a session.
    """
    if request.api_version == 0:
        return _NO_TOPICS
    longest_ms = max(throttle_time_ms, _INT32.unpack_from(body)[0] if body else 0)
    if request.api_version < _SESSIONS_SINCE:
        return _INT32.pack(longest_ms) + _NO_TOPICS
    (session_id,) = _INT32.unpack_from(body, _SESSION_AT) if keeps_session else (0,)
    head = struct.pack(">ihi", longest_ms, 0, session_id)
    return head + (_NO_TOPICS if request.api_version < _FLEXIBLE_SINCE else _NO_TOPICS_NOR_TAGS)


def _framed(request: InFlight, body: bytes) -> bytes:
    """A response of a Fetch as a whole frame."""
    tags = b"" if request.api_version < _FLEXIBLE_SINCE else b"\0"
    header = _INT32.pack(request.correlation_id) + tags
    return _INT32.pack(len(header) + len(body)) + header + body


class _Hold:
    """Throttle callback that mutes and unmutes a connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def start_throttling(self) -> None:
        self._connection.mute()

    def end_throttling(self) -> None:
        self._connection.unmute()
