"""An accepted push, between validation and its response."""

from collections.abc import Awaitable
from typing import Any

from fleetgauge.telemetry.instances.gate import PushClaim
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.push_record import PushRecord


class Push:
    """An accepted push. The push log stores it and returns it with the outcome; then it is answered.

    Attributes:
        instance: the client instance that sent it.
        claim: with which the gate can undo the push.
        taken_at_ms: time of arrival [ms, monotonic].
        row: fields of its `PushRecord`, without `metrics`.
        metrics: the payload, decompressed; empty for a heartbeat.
        encoded: the payload as received.
        awaitables: unfinished exports of reporters; they raise nothing, and the response does not wait for them.
        reply_to: the connection for the response; opaque to this package.
        slot: index in the order of that connection's responses.
        correlation_id: correlation id of the request.
        throttle_time_ms: throttle time of the request quota [ms].
        is_timed: True if its handling time counts for a request quota.
        is_answered: set by a push log that may report an error before its commit ends.
        is_malformed: True if the payload is no well-formed OTLP.
    """

    __slots__ = (
        "awaitables",
        "claim",
        "correlation_id",
        "encoded",
        "instance",
        "is_answered",
        "is_malformed",
        "is_timed",
        "metrics",
        "reply_to",
        "row",
        "slot",
        "taken_at_ms",
        "throttle_time_ms",
    )

    def __init__(
        self,
        instance: ClientInstance,
        claim: PushClaim,
        taken_at_ms: int,
        row: tuple[object, ...],
        metrics: bytes,
        encoded: bytes,
    ) -> None:
        self.instance = instance
        self.claim: PushClaim | None = claim
        self.taken_at_ms = taken_at_ms
        self.row = row
        self.metrics = metrics
        self.encoded = encoded
        self.awaitables: tuple[Awaitable[None], ...] = ()
        self.reply_to: Any = None
        self.slot = 0
        self.correlation_id = 0
        self.throttle_time_ms = 0
        self.is_timed = False
        self.is_answered = False
        self.is_malformed = False

    @property
    def record(self) -> PushRecord:
        """Returns a new push record."""
        return PushRecord._make((*self.row, self.metrics))

    @property
    def size_bytes(self) -> int:
        """Size of the payloads in memory [B]."""
        return len(self.metrics) + len(self.encoded)
